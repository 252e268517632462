"""Checks of `elwood doctor` for models: keys, prices, and whether the services offer them.

Also the questions of ``elwood init`` about models.
"""

import time
from collections.abc import Iterable, Iterator
from contextlib import aclosing
from difflib import get_close_matches
from urllib.parse import urlsplit

import attrs
import msgspec
import trio

from elwood.agent.conversation.message import Human, Prompt
from elwood.agent.models.client import HttpProvider, ModelFailure, ModelRequest
from elwood.agent.models.ledger import day_of, price_of
from elwood.agent.models.lifecycle import RECOMMENDED, find_doubt
from elwood.agent.models.providers import make_provider
from elwood.agent.models.routing import Fault, describe, split_name
from elwood.agent.models.settings import (
    MAX_TOKENS,
    Limits,
    ModelSettings,
    Providers,
    ProviderSettings,
    key_remedy,
    models_in_use,
)
from elwood.foundation.checks import CheckContext, Finding
from elwood.foundation.command_line import ask
from elwood.foundation.net.http import Client
from elwood.foundation.secrets.redaction import Secret
from elwood.foundation.settings import Answers, Config
from elwood.foundation.text.lines import clip

LOOPBACK = ("127.0.0.1", "::1", "localhost")


async def check(context: CheckContext) -> list[Finding]:
    """Check keys and limits, and ask all providers concurrently whether they offer the models."""
    asked: dict[str, list[Finding]] = {}
    by_provider: dict[str, list[str]] = {}
    for model in models_in_use(context.config):
        by_provider.setdefault(split_name(model)[0], []).append(model)

    async def ask(name: str) -> None:
        asked[name] = await _check_provider(context, name, by_provider[name])

    async with trio.open_nursery() as nursery:
        for name in by_provider:
            nursery.start_soon(ask, name)
    services = (finding for name in sorted(asked) for finding in asked[name])
    doubts = find_doubts(context.config, day_of(context.now, "UTC"))
    return [*credentials(context.config), *prices(context.config), *doubts, *services]


def check_models(config: Config) -> Iterator[Finding]:
    """Check the models in use at a start, without any request."""
    return find_doubts(config, day_of(time.time(), "UTC"))


def find_doubts(config: Config, today: str) -> Iterator[Finding]:
    """Find known problems of the models in use on the ISO date *today*."""
    for model in models_in_use(config):
        base = config.get(Providers).by_name[split_name(model)[0]].base_url
        if (doubt := find_doubt(model, base, today)) is not None:
            yield Finding("problem" if doubt.is_over else "warning", "models", *doubt[:2])


def credentials(config: Config) -> Iterator[Finding]:
    """Find missing keys of the providers in use."""
    for name in dict.fromkeys(split_name(model)[0] for model in models_in_use(config)):
        provider = config.get(Providers).by_name[name]
        is_local = urlsplit(provider.base_url).hostname in LOOPBACK
        if provider.key is not None:
            yield Finding("ok", "credentials", f"{name}-key is set")
        elif provider.api != "offline" and not is_local:
            what = f"there is no key for {name}"
            yield Finding("problem", "credentials", what, key_remedy(name))


def prices(config: Config) -> Iterator[Finding]:
    """Find limits in dollars that cannot be kept, because the price of a model is unknown."""
    limits, models = config.get(Limits), models_in_use(config)
    for scope in ("session", "day", "month"):
        if is_written(limits, f"{scope}_usd"):
            yield from check_prices(config, models, f"limits.{scope}_usd blocks")
    if is_written(limits, "job_usd") and not is_written(limits, "job_tokens"):
        yield from check_prices(config, models, "limits.job_usd does not count")


def is_written(settings: object, name: str) -> bool:
    """Return True if the field *name* differs from its default."""
    return bool(getattr(settings, name) != getattr(type(settings)(), name))


def check_prices(config: Config, models: Iterable[str], limit: str) -> Iterator[Finding]:
    """Report the effect of a *limit* in dollars on those of *models* whose price is unknown."""
    own = config.get(ModelSettings).prices
    if unknown := [model for model in models if price_of(model, own) is None]:
        what = f"{limit} {', '.join(unknown)}: Elwood does not know the price"
        yield Finding("warning", "limits", what, "add the price to models.prices")


async def _check_provider(context: CheckContext, name: str, models: Iterable[str]) -> list[Finding]:
    settings = context.config.get(Providers).by_name[name]
    provider = make_provider(name, settings, client=context.client, new_id=str)
    if not isinstance(provider, HttpProvider):
        return []
    base = settings.base_url.rstrip("/")
    answer = await context.get(name, base, provider.models_path, provider.headers())
    if isinstance(answer, Finding):
        return [answer]
    is_refused = answer.status in (401, 403)
    if answer.status == 200 or (is_refused and settings.key is None):  # the key is missing
        offers = _check_listed(name, models, answer.body) if answer.status == 200 else ()
        return [Finding("ok", name, f"{base} answers"), *offers]
    if is_refused:
        what = f"{base} refuses the key ({answer.status})"
        remedy = f"create a new key there and store it as {name}-key"
        return [Finding("problem", name, what, remedy)]
    if answer.status == 404:
        path = provider.models_path.partition("?")[0]
        what = f"there is no list of models at {base}{path} (404)"
        remedy = f"check providers.{name}.base_url, unless the service has no such list"
        return [Finding("warning", name, what, remedy)]
    what = f"{base} answers with status {answer.status}"
    return [Finding("warning", name, what, "try again later")]


class _ListedModel(msgspec.Struct):
    id: str
    lifecycle: str | None = None
    retires_at: str | None = None
    shutdown_date: str | None = None  # OpenAI's field


class _ModelList(msgspec.Struct):
    data: tuple[_ListedModel, ...]


def _check_listed(name: str, models: Iterable[str], body: bytes) -> Iterator[Finding]:
    """Find among *models* those that the service *name* retires or does not list (LLM-39)."""
    try:
        known = {offer.id: offer for offer in msgspec.json.decode(body, type=_ModelList).data}
    except (msgspec.DecodeError, UnicodeDecodeError):
        remedy = f"check providers.{name}.base_url"
        yield Finding("warning", name, "the list of models cannot be read", remedy)
        return
    for model in models if known else ():
        its = split_name(model)[1]
        remedy = "choose another in [models.roles]"
        match known.get(its) or known.get(f"{its}:latest"):  # as Ollama lists them
            case None:
                near = get_close_matches(its, known, n=1)
                remedy = f"did you mean {name}/{near[0]}?" if near else remedy
                what = f"the model {model} is not among the {len(known)} models that {name} lists"
                yield Finding("problem", name, what, remedy)
            case _ListedModel(lifecycle="retired"):
                yield Finding("problem", name, f"the model {model} is retired", remedy)
            case _ListedModel(lifecycle="deprecated", retires_at=day):
                when = f" and retires on {day[:10]}" if day else ""
                yield Finding("warning", name, f"the model {model} is deprecated{when}", remedy)
            case _ListedModel(shutdown_date=str(day)):
                what = f"{name} says that it shuts the model {model} down on {day[:10]}"
                yield Finding("warning", name, what, remedy)


# --- questions of `elwood init` -------------------------------------------------------------------

# The usual model of each service, and a cheaper one that is good enough for summaries.
USUAL = {
    "anthropic": RECOMMENDED["api.anthropic.com"],
    "openai": RECOMMENDED["api.openai.com"],
    "openrouter": ("openrouter/auto", ""),
    "ollama": ("qwen3", ""),
}


def set_up(config: Config) -> Answers:
    """Ask for the model, and test it with one small request."""
    print("\nThe AI service: anthropic, openai, openrouter, ollama (on this machine), offline")
    print("(no AI: eight fixed commands), or the address of an OpenAI-compatible service.")
    services, answers = config.get(Providers).by_name, Answers()
    usual = "anthropic" if services["anthropic"].key else "offline"
    form = f"Write {', '.join(services)}, or an address that begins with https:// or http://."
    name = ask("Which one?", usual, rf"{'|'.join(services)}|https?://[^\s?#@\[\]]+", form)
    if name == "offline":
        return _build_role_answers("offline/rules", "offline/rules")
    provider = services.get(name)
    if provider is None:
        provider = ProviderSettings(api="openai", base_url=name)
        name, where = "custom", ("providers", "custom")
        answers = {(*where, "api"): "openai", (*where, "base_url"): provider.base_url}
    (usual, cheap), again = USUAL.get(name, ("default", "")), "a"
    while again:
        question = (
            f"API key, hidden (Enter: {'keep the current key' if provider.key else 'no key'}):"
        )
        form = "A key has letters, digits and signs, without spaces."
        if name != "ollama" and (typed := ask(question, "", "[!-~]*", form, unseen=True)):
            provider = attrs.evolve(provider, key=Secret(typed))
            answers["providers", name, "key"] = provider.key
        model = ask("Which model?", usual)
        doubt = find_doubt(f"{name}/{model}", provider.base_url, day_of(time.time(), "UTC"))
        if doubt is not None:
            why = f"{doubt.what[0].upper()}{doubt.what[1:]}; {doubt.remedy}."
        else:
            print("  Testing the model …", flush=True)
            fault = trio.run(_say_hello, name, provider, model)
            why = describe(f"{name}/{model}", fault) if fault else ""
            if fault and fault.kind != "no_model":
                usual = model  # the name is not the mistake
        question = f"  {why}\n  Press Enter to keep it anyway, or a and Enter to try again:"
        again = why and ask(question, "", "a?", "Press Enter, or type a.")
    return answers | _build_role_answers(f"{name}/{model}", f"{name}/{cheap or model}")


def _build_role_answers(default: str, cheap: str) -> Answers:
    models = {"default": default, "cheap": cheap}
    return {("models", "roles", role, "model"): model for role, model in models.items()}


async def _say_hello(name: str, settings: ProviderSettings, model: str) -> Fault | None:
    """Print the model's reply, or return why there is none."""
    hello = (Human("Say hello in at most five words."),)
    most = MAX_TOKENS  # the same as in real requests
    request = ModelRequest(model=model, prompt=Prompt(""), messages=hello, max_tokens=most)
    async with aclosing(Client()) as client:
        provider = make_provider(name, settings, client=client, new_id=str)
        try:
            completion = await provider.complete(request, lambda text: None)
        except ModelFailure as error:
            return error.fault
    print(f"  The model answers: {clip(completion.message.text.strip(), 60)}")
    return None
