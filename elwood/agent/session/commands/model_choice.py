"""``/model``: the models to choose from, and their prices."""

from elwood.agent.models.ledger import price_of
from elwood.agent.models.lifecycle import find_doubt
from elwood.agent.models.settings import ModelSettings, Providers, key_remedy, lacks_key
from elwood.agent.session.extension import CommandAnswer
from elwood.foundation.settings import Config
from elwood.foundation.text.lines import code, one_line


def choose(config: Config, now: str, given: str, today: str) -> tuple[str, CommandAnswer]:
    """Answer ``/model``; return the new model of the conversation, or "" for the default.

    *now* is the present choice. On the ISO date *today* a model may be outdated. A model of the
    settings can be given by a part of its name, any other model by its full name.
    """
    settings, providers = config.get(ModelSettings), config.get(Providers).by_name
    usual, cheap = settings.role("default"), settings.role("cheap")
    known = tuple(dict.fromkeys((*usual.models, *cheap.models)))
    if not given:
        others = [name for name in known if name != (now or usual.model)]
        text = f"I use {_format_price(now or usual.model, settings)} in this conversation."
        if others:
            text += "\n\nOther models:\n\n" + "\n".join(
                f"- {_format_price(one, settings)}" for one in others
            )
        return now, CommandAnswer(text, buttons=tuple(f"/model {name}" for name in others))
    meant = [name for name in known if given.lower() in name.lower()]
    wanted = usual.model if given.lower() == "default" else given
    name = meant[0] if len(meant) == 1 else wanted
    provider, _, model = name.partition("/")
    if provider not in providers or not model:
        text = (
            f"Which model is {one_line(given)}? Use a full name, as in {', '.join(meant or known)}"
        )
        return now, CommandAnswer(f"{text}.")
    if lacks_key(providers[provider]):
        return now, CommandAnswer(f"I have no API key for {provider}: {key_remedy(provider)}.")
    text = f"From the next answer on, I use {_format_price(name, settings)} in this conversation."
    if name != usual.model:
        text += f" If it fails, I use {code(usual.model)}. /model default goes back to that one."
    if (doubt := find_doubt(name, providers[provider].base_url, today)) is not None:
        text += f"\n\n⚠ {doubt.what[0].upper()}{doubt.what[1:]}; {doubt.remedy}."
    return "" if name == usual.model else name, CommandAnswer(text)


def _format_price(model: str, settings: ModelSettings) -> str:
    """Return a model's name with its price for the shortest prompts."""
    price = price_of(model, settings.prices)
    if price is None:
        return f"{code(model)} (unknown price)"
    rate = price[0]
    return f"{code(model)} (per million tokens: ${rate.input:g} in, ${rate.output:g} out)"
