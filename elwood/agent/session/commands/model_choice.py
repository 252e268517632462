"""``/model``: which models there are to choose from, and what they cost."""

from elwood.agent.models.settings import ModelSettings, Providers, key_remedy, lacks_key
from elwood.agent.models.spending import PRICES
from elwood.agent.session.commands.slash import withheld
from elwood.agent.session.extension import CommandAnswer
from elwood.agent.session.log.entries import Received
from elwood.foundation.settings import Config
from elwood.foundation.text.lines import code, one_line


def choose(config: Config, now: str, given: str, received: Received) -> tuple[str, CommandAnswer]:
    """Answer ``/model``, and say which model thinks from now on; empty: the usual one, as *now*.

    One of the settings is meant by a part of its name, any other by the whole.
    """
    settings, providers = config.of(ModelSettings), config.of(Providers).by_name
    known = tuple(dict.fromkeys((settings.default, *settings.fallbacks, settings.summarizer)))
    prices = not withheld("What is spent", received)
    if not given:
        lines = [f"I think with {_shown(now or settings.default, prices)} in this conversation."]
        others = [name for name in known if name != (now or settings.default)]
        lines += ["", "There are also:", "", *(f"- {_shown(one, prices)}" for one in others)]
        buttons = tuple(f"/model {name}" for name in others)
        return now, CommandAnswer("\n".join(lines if others else lines[:1]), buttons=buttons)
    if received.untrusted:
        return now, CommandAnswer("Only my owner chooses the model.")
    meant = [name for name in known if given.lower() in name.lower()]
    wanted = settings.default if given.lower() == "default" else given
    name = meant[0] if len(meant) == 1 else wanted
    provider, _, model = name.partition("/")
    if provider not in providers or not model:
        text = (
            f"Which one is {one_line(given)}? Say its whole name, as in {', '.join(meant or known)}"
        )
        return now, CommandAnswer(f"{text}.")
    if lacks_key(providers[provider]):
        return now, CommandAnswer(f"There is no key for {provider}: {key_remedy(provider)}.")
    text = f"From the next answer on I think with {_shown(name, prices)} in this conversation."
    own = "" if name == settings.default else name
    return own, CommandAnswer(f"{text} /model default goes back." if own else text)


def _shown(model: str, prices: bool) -> str:
    """Name a model, with what the shortest prompts cost."""
    if not prices:
        return code(model)
    if model not in PRICES:
        return f"{code(model)} (price not known)"
    rate = PRICES[model][0]
    return f"{code(model)} (${rate.input:g} in, ${rate.output:g} out for a million tokens)"
