"""Asks the services outside whether they know us, and what time it is there."""

import difflib
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import attrs
import msgspec
import trio

from elwood.agent.models.settings import ProviderSettings
from elwood.app.config.settings import Config
from elwood.app.doctor.findings import Finding
from elwood.foundation.net.http import (
    Answer,
    Client,
    Interrupted,
    Unreachable,
)

# Seconds for one service, and for each wait within.
DEADLINE = 15.0
READ_TIMEOUT = 10.0
# Bytes of an answer; a list of some thousand models fits.
MAX_ANSWER = 4 * 1024 * 1024
# Seconds that our clock may differ from a server's (TG-37).
MAX_SKEW = 300.0
# Days before a model's end at which we begin to warn.
NOTICE = 60

_TOKEN = re.compile(r"[0-9]{1,20}:[A-Za-z0-9_-]{10,100}")
_TOO_EARLY_OR_LATE = ("not yet valid", "has expired")


class _Model(msgspec.Struct):
    id: str
    lifecycle: str | None = None
    retires_at: str | None = None


class _Models(msgspec.Struct):
    data: list[_Model] = []


class _Bot(msgspec.Struct):
    username: str = ""


class _Me(msgspec.Struct):
    result: _Bot


@attrs.frozen
class _Reached:
    """What one service has told: findings, and how far our clock is ahead of its, if known."""

    findings: list[Finding]
    skew: float | None = None


async def examine_services(config: Config, client: Client, now: float) -> list[Finding]:
    """Ask every service that *config* uses, all at once; *now* is our clock, Unix seconds."""
    reached: dict[str, _Reached] = {}

    async def ask_provider(name: str, models: list[str]) -> None:
        reached[name] = await _provider(name, config.providers[name], models, client, now)

    async def ask_telegram() -> None:
        reached["telegram"] = await _telegram(config, client, now)

    used = used_models(config)
    async with trio.open_nursery() as nursery:
        for name, models in used.items():
            if config.providers[name].api != "offline":
                nursery.start_soon(ask_provider, name, models)
        if config.telegram.token is not None:
            nursery.start_soon(ask_telegram)
    findings = [finding for name in sorted(reached) for finding in reached[name].findings]
    skews = [one.skew for one in reached.values() if one.skew is not None]
    return findings + _clock(skews, tried=bool(reached))


def used_models(config: Config) -> dict[str, list[str]]:
    """List the providers in use, each with the names of its models in use."""
    used: dict[str, list[str]] = {}
    for model in (config.models.default, config.models.summarizer, *config.models.fallbacks):
        provider, _, name = model.partition("/")
        used.setdefault(provider, [])
        if name not in used[provider]:
            used[provider].append(name)
    return used


async def _provider(
    name: str, provider: ProviderSettings, models: list[str], client: Client, now: float
) -> _Reached:
    base = provider.base_url.rstrip("/")
    headers: dict[str, str] = {}
    if provider.api == "anthropic":
        url = f"{base}/v1/models?limit=1000"
        headers["anthropic-version"] = provider.version
        if provider.key is not None:
            headers["x-api-key"] = provider.key.reveal()
    else:
        url = f"{base}/models"
        if provider.key is not None:
            headers["authorization"] = f"Bearer {provider.key.reveal()}"
    answer = await _get(client, url, headers)
    if isinstance(answer, str):
        return _Reached([_unreached(name, base, answer, now)])
    skew = _skew(answer.headers, now)
    if answer.status == 200:
        found = [Finding("ok", name, f"{base} answers"), *_offers(name, answer.body, models, now)]
        return _Reached(found, skew)
    if answer.status in (401, 403) and provider.key is None:
        return _Reached([Finding("ok", name, f"{base} answers")], skew)  # the key is missing
    if answer.status in (401, 403):
        what = f"{base} refuses the key ({answer.status})"
        remedy = f"make a new one there, and put it where {name}-key is kept"
        return _Reached([Finding("problem", name, what, remedy)], skew)
    if answer.status == 404:
        what = f"there is no list of models at {url.partition('?')[0]} (404)"
        remedy = f"check providers.{name}.base_url, unless the service has no such list"
        return _Reached([Finding("warning", name, what, remedy)], skew)
    what = f"{base} answers with status {answer.status}"
    return _Reached([Finding("warning", name, what, "try again later")], skew)


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


async def _telegram(config: Config, client: Client, now: float) -> _Reached:
    assert config.telegram.token is not None
    token = config.telegram.token.reveal()
    base = config.telegram.base_url.rstrip("/")
    new = "ask @BotFather for the token, and put it where telegram-token is kept"
    if not _TOKEN.fullmatch(token):
        what = "the token does not look like one (digits, a colon, letters)"
        return _Reached([Finding("problem", "telegram", what, new)])
    answer = await _get(client, f"{base}/bot{token}/getMe", {})
    if isinstance(answer, str):
        return _Reached([_unreached("telegram", base, answer, now)])
    skew = _skew(answer.headers, now)
    if answer.status in (401, 404):
        what = f"{base} refuses the token ({answer.status})"
        return _Reached([Finding("problem", "telegram", what, new)], skew)
    try:
        bot = msgspec.json.decode(answer.body, type=_Me).result
    except (msgspec.DecodeError, UnicodeDecodeError):
        what = f"{base} answers with status {answer.status}, but not as the Bot API does"
        remedy = "check telegram.base_url, or try again later"
        return _Reached([Finding("warning", "telegram", what, remedy)], skew)
    return _Reached(
        [Finding("ok", "telegram", f"{base} answers; the bot is @{bot.username}")], skew
    )


async def _get(client: Client, url: str, headers: Mapping[str, str]) -> Answer | str:
    """Fetch *url*, or say why that failed."""
    try:
        with trio.fail_after(DEADLINE):
            return await client.get(
                url, headers=headers, read_timeout=READ_TIMEOUT, limit=MAX_ANSWER
            )
    except (Unreachable, Interrupted) as error:
        return error.why
    except trio.TooSlowError:
        return f"no answer within {DEADLINE:.0f} s"


def _unreached(name: str, base: str, why: str, now: float) -> Finding:
    if any(phrase in why for phrase in _TOO_EARLY_OR_LATE):
        here = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%d %H:%M UTC")
        what = f"{base} has a certificate that, by our clock ({here}), is not valid: {why}"
        return Finding("problem", "clock", what, "set the clock: timedatectl set-ntp true")
    remedy = "check the network (DNS, proxy, firewall) and the address"
    return Finding("problem", name, f"{base} cannot be reached: {why}", remedy)


def _skew(headers: Mapping[str, str], now: float) -> float | None:
    try:
        at = parsedate_to_datetime(headers.get("date", ""))
    except ValueError:
        return None
    return now - at.timestamp()


def _clock(skews: list[float], *, tried: bool) -> list[Finding]:
    if not tried:
        return []
    if not skews:
        return [Finding("warning", "clock", "no service told the time to compare with")]
    skew = min(skews, key=abs)
    if abs(skew) <= MAX_SKEW:
        return [Finding("ok", "clock", f"agrees with the services within {abs(skew) + 1:.0f} s")]
    side = "ahead of" if skew > 0 else "behind"
    what = f"is {abs(skew) / 60:.0f} min {side} the services"
    return [Finding("problem", "clock", what, "set the clock: timedatectl set-ntp true")]
