"""What the doctor asks about models: is there a key, does the service know it and the models?"""

from collections.abc import Iterator
from urllib.parse import urlsplit

import trio

from elwood.agent.models.client import HttpProvider, models_in
from elwood.agent.models.providers import make_provider
from elwood.agent.models.routing import at_risk, split_name
from elwood.agent.models.settings import Limits, Providers, key_remedy, models_in_use
from elwood.agent.models.spending import PRICES
from elwood.foundation.checks import CheckContext, Finding
from elwood.foundation.settings import Config

LOOPBACK = ("127.0.0.1", "::1", "localhost")


async def check(context: CheckContext) -> list[Finding]:
    """Look at keys and limits, and ask every provider in use, all at once."""
    asked: dict[str, list[Finding]] = {}

    async def ask(name: str) -> None:
        asked[name] = await _provider(context, name)

    async with trio.open_nursery() as nursery:
        for name in used_providers(context.config):
            nursery.start_soon(ask, name)
    services = [finding for name in sorted(asked) for finding in asked[name]]
    return [*credentials(context.config), *prices(context.config), *services]


def used_providers(config: Config) -> list[str]:
    """List the providers of the models in use."""
    return list(dict.fromkeys(split_name(model)[0] for model in models_in_use(config)))


def credentials(config: Config) -> Iterator[Finding]:
    """Tell which keys are missing for what is in use."""
    for name in used_providers(config):
        provider = config.of(Providers).by_name[name]
        is_local = urlsplit(provider.base_url).hostname in LOOPBACK
        if provider.key is not None:
            yield Finding("ok", "credentials", f"{name}-key is there")
        elif provider.api != "offline" and not is_local:
            what = f"there is no key for {name}"
            yield Finding("problem", "credentials", what, key_remedy(name))


def prices(config: Config) -> Iterator[Finding]:
    """Tell when a limit in dollars cannot hold, since nobody knows what a model costs."""
    limits = config.of(Limits)
    if limits.session_usd is None and limits.day_usd is None:
        return
    for model in models_in_use(config):
        if model not in PRICES:
            what = f"what {model} costs is not known: it counts as free"
            remedy = "write limits.session_tokens or limits.day_tokens too"
            yield Finding("warning", "limits", what, remedy)


async def _provider(context: CheckContext, name: str) -> list[Finding]:
    settings = context.config.of(Providers).by_name[name]
    provider = make_provider(
        name, settings, client=context.client, now=lambda: context.now, new_id=str
    )
    if not isinstance(provider, HttpProvider):
        return []
    base = settings.base_url.rstrip("/")
    answer = await context.get(name, base, provider.models_path, provider.headers())
    if isinstance(answer, Finding):
        return [answer]
    is_refused = answer.status in (401, 403)
    if answer.status == 200 or (is_refused and settings.key is None):  # the key is missing
        offers = _offers(context, name, answer.body) if answer.status == 200 else ()
        return [Finding("ok", name, f"{base} answers"), *offers]
    if is_refused:
        what = f"{base} refuses the key ({answer.status})"
        remedy = f"make a new one there, and put it where {name}-key is kept"
        return [Finding("problem", name, what, remedy)]
    if answer.status == 404:
        path = provider.models_path.partition("?")[0]
        what = f"there is no list of models at {base}{path} (404)"
        remedy = f"check providers.{name}.base_url, unless the service has no such list"
        return [Finding("warning", name, what, remedy)]
    what = f"{base} answers with status {answer.status}"
    return [Finding("warning", name, what, "try again later")]


def _offers(context: CheckContext, name: str, body: bytes) -> Iterator[Finding]:
    """Compare the models in use with those that the service offers."""
    try:
        offers = models_in(body)
    except ValueError:
        remedy = f"check providers.{name}.base_url"
        yield Finding("warning", name, "the list of models cannot be read", remedy)
        return
    for model, risk in at_risk(models_in_use(context.config), name, offers).items():
        what = f"the model {model} {risk.why}"
        yield Finding("problem" if risk.is_gone else "warning", name, what, risk.remedy)
