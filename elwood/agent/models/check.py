"""What the doctor asks about models: is there a key, does the service know it and the models?"""

import difflib
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from urllib.parse import urlsplit

import msgspec
import trio

from elwood.agent.models.routing import split_name
from elwood.agent.models.settings import Limits, Providers, models_in_use
from elwood.agent.models.spending.ledger import PRICES
from elwood.foundation.checks import CheckContext, Finding
from elwood.foundation.settings import Config

# Days before a model's end at which we begin to warn.
NOTICE = 60
LOOPBACK = ("127.0.0.1", "::1", "localhost")


class _Model(msgspec.Struct):
    id: str
    lifecycle: str | None = None
    retires_at: str | None = None


class _Models(msgspec.Struct):
    data: list[_Model] = []


async def check(context: CheckContext) -> list[Finding]:
    """Look at keys and limits, and ask every provider in use, all at once."""
    config = context.config
    asked: dict[str, list[Finding]] = {}

    async def ask(name: str, models: list[str]) -> None:
        asked[name] = await _provider(context, name, models)

    async with trio.open_nursery() as nursery:
        for name, models in used_models(config).items():
            if config.of(Providers).by_name[name].api != "offline":
                nursery.start_soon(partial(ask, name, models))
    services = [finding for name in sorted(asked) for finding in asked[name]]
    return [*credentials(config), *prices(config), *services]


def used_models(config: Config) -> dict[str, list[str]]:
    """List the providers in use, each with the names of its models in use."""
    used: dict[str, list[str]] = {}
    for model in models_in_use(config):
        provider, name = split_name(model)
        used.setdefault(provider, []).append(name)
    return used


def credentials(config: Config) -> Iterator[Finding]:
    """Tell which keys are missing for what is in use."""
    for name in used_models(config):
        provider = config.of(Providers).by_name[name]
        is_local = urlsplit(provider.base_url).hostname in LOOPBACK
        if provider.key is not None:
            yield Finding("ok", "credentials", f"{name}-key is there")
        elif provider.api != "offline" and not is_local:
            remedy = (
                f"put it into the credential {name}-key, into "
                f"${name.upper().replace('-', '_')}_API_KEY, or name a file that has it in "
                f"providers.{name}.key"
            )
            yield Finding("problem", "credentials", f"there is no key for {name}", remedy)


def prices(config: Config) -> Iterator[Finding]:
    """Tell when a limit in dollars cannot hold, since nobody knows what a model costs."""
    limits = config.of(Limits)
    if limits.session_usd is None and limits.day_usd is None:
        return
    for provider, models in used_models(config).items():
        for model in models:
            if f"{provider}/{model}" not in PRICES:
                what = f"what {provider}/{model} costs is not known: it counts as free"
                remedy = "write limits.session_tokens or limits.day_tokens too"
                yield Finding("warning", "limits", what, remedy)


async def _provider(context: CheckContext, name: str, models: list[str]) -> list[Finding]:
    provider = context.config.of(Providers).by_name[name]
    base = provider.base_url.rstrip("/")
    headers: dict[str, str] = {}
    if provider.api == "anthropic":
        path = "/v1/models?limit=1000"
        headers["anthropic-version"] = provider.version
        if provider.key is not None:
            headers["x-api-key"] = provider.key.reveal()
    else:
        path = "/models"
        if provider.key is not None:
            headers["authorization"] = f"Bearer {provider.key.reveal()}"
    answer = await context.get(name, base, path, headers)
    if isinstance(answer, Finding):
        return [answer]
    if answer.status == 200:
        offers = _offers(name, answer.body, models, context.now)
        return [Finding("ok", name, f"{base} answers"), *offers]
    if answer.status in (401, 403) and provider.key is None:
        return [Finding("ok", name, f"{base} answers")]  # the key is missing
    if answer.status in (401, 403):
        what = f"{base} refuses the key ({answer.status})"
        remedy = f"make a new one there, and put it where {name}-key is kept"
        return [Finding("problem", name, what, remedy)]
    if answer.status == 404:
        what = f"there is no list of models at {base}{path.partition('?')[0]} (404)"
        remedy = f"check providers.{name}.base_url, unless the service has no such list"
        return [Finding("warning", name, what, remedy)]
    what = f"{base} answers with status {answer.status}"
    return [Finding("warning", name, what, "try again later")]


def _offers(name: str, body: bytes, models: list[str], now: float) -> list[Finding]:
    """Compare the models in use with those that the service offers."""
    try:
        offered = {model.id: model for model in msgspec.json.decode(body, type=_Models).data}
    except (msgspec.DecodeError, UnicodeDecodeError):
        what = "the list of models cannot be read"
        return [Finding("warning", name, what, f"check providers.{name}.base_url")]
    findings = []
    for wanted in models:
        model = offered.get(wanted)
        if model is None and offered:
            near = difflib.get_close_matches(wanted, offered, n=1)
            remedy = f"did you mean {name}/{near[0]}?" if near else "choose another in [models]"
            findings.append(Finding("problem", name, f"there is no model {wanted}", remedy))
        elif model is not None and model.lifecycle == "retired":
            what = f"the model {wanted} has been retired"
            findings.append(Finding("problem", name, what, "choose another in [models]"))
        elif model is not None and (days := _days_left(model.retires_at, now)) is not None:
            what = f"the model {wanted} will be retired in {days} days"
            findings.append(Finding("warning", name, what, "choose another in [models]"))
    return findings


def _days_left(retires_at: str | None, now: float) -> int | None:
    try:
        at = datetime.fromisoformat(retires_at or "")
    except ValueError:
        return None
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    days = int((at.timestamp() - now) // 86_400)
    return max(days, 0) if days <= NOTICE else None
