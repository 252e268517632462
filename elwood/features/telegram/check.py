"""What the doctor asks about Telegram: is there a token, does it know it, and whose is it?"""

import re

import msgspec

from elwood.features.telegram.settings import TelegramSettings
from elwood.foundation.checks import CheckContext, Finding

_TOKEN = re.compile(r"[0-9]{1,20}:[A-Za-z0-9_-]{10,100}")


class _Bot(msgspec.Struct):
    username: str = ""


class _Me(msgspec.Struct):
    result: _Bot


async def check(context: CheckContext) -> list[Finding]:
    """Look for token and owners, and ask Telegram who the bot is."""
    settings = context.config.of(TelegramSettings)
    if settings.token is None:
        return [Finding("ok", "credentials", "there is no telegram-token: that channel is off")]
    found = [Finding("ok", "credentials", "telegram-token is there")]
    if not settings.owners:
        remedy = "write your id into telegram.owners, or pair yourself: elwood pair CODE"
        found.append(Finding("warning", "telegram", "it has no owner", remedy))
    return [*found, await _bot(context, settings.token.reveal(), settings.base_url.rstrip("/"))]


async def _bot(context: CheckContext, token: str, base: str) -> Finding:
    new = "ask @BotFather for the token, and put it where telegram-token is kept"
    if not _TOKEN.fullmatch(token):
        what = "the token does not look like one (digits, a colon, letters)"
        return Finding("problem", "telegram", what, new)
    answer = await context.get("telegram", base, f"/bot{token}/getMe")
    if isinstance(answer, Finding):
        return answer
    if answer.status in (401, 404):
        what = f"{base} refuses the token ({answer.status})"
        return Finding("problem", "telegram", what, new)
    try:
        bot = msgspec.json.decode(answer.body, type=_Me).result
    except (msgspec.DecodeError, UnicodeDecodeError):
        what = f"{base} answers with status {answer.status}, but not as the Bot API does"
        remedy = "check telegram.base_url, or try again later"
        return Finding("warning", "telegram", what, remedy)
    return Finding("ok", "telegram", f"{base} answers; the bot is @{bot.username}")
