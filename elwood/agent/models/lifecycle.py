"""Models of the vendors' services that shut down, or need an API that Elwood does not support.

From the vendors' pages on 2026-11-27.
"""

import re
from typing import NamedTuple
from urllib.parse import urlsplit

# Suffix of the names of dated snapshots.
_DATE = r"(-\d{4}-?\d{2}-?\d{2})?"
# Patterns of model names, by the host of their service, and the date from which requests fail; ""
# is long ago.
_ENDS: dict[str, tuple[tuple[str, str], ...]] = {
    "api.openai.com": (
        (r"gpt-5(-mini|-nano|-pro)?|o3", "2026-12-11"),
        (r"gpt-4\.1|gpt-4o(-mini)?", "2027-01-14"),
        (r"gpt-5\.1|gpt-5\.4-nano", "2027-04-01"),
        (r"o1|o3-mini|o4-mini|gpt-4-turbo|gpt-3\.5-turbo|gpt-4", "2026-10-23"),
    ),
    "api.anthropic.com": (
        (r"claude-sonnet-4-5", "2026-11-30"),
        (r"claude-opus-4-5", "2027-01-22"),
        (r"claude-3-.*|claude-(sonnet|opus)-4|claude-opus-4-1|claude-mythos-preview", ""),
    ),
    "generativelanguage.googleapis.com": ((r"gemini-2\.0-.*", "2026-06-01"),),
}
# Models of api.openai.com that take no tools over Chat Completions, because they think by default.
# For gpt-5.5 some accounts report it.
_NEEDS_RESPONSES = re.compile(r"gpt-5\.[6-9].*|gpt-([6-9]|\d\d).*")
_MAY_NEED_RESPONSES = re.compile(r"gpt-5\.5.*")
# Models that work today, of the services that Elwood recommends.
RECOMMENDED = {
    "api.anthropic.com": ("claude-sonnet-5-5", "claude-haiku-5-5"),
    "api.openai.com": ("gpt-5.4", "gpt-5.4-mini"),
}


class ModelDoubt(NamedTuple):
    """The reason why a model does not work, or will not; *is_over*: it does not work today."""

    what: str
    remedy: str
    is_over: bool


def find_doubt(model: str, base_url: str, today: str) -> ModelDoubt | None:
    """Return the known problem of the model ``provider/name`` on the ISO date *today*, if any.

    *base_url* is that of its provider.

    >>> find_doubt("openai/gpt-5", "https://api.openai.com/v1", "2026-11-27").what
    'the model openai/gpt-5 shuts down on 2026-12-11'
    >>> find_doubt("openai/gpt-5.4", "https://api.openai.com/v1", "2026-11-27")
    """
    provider, _, name = model.partition("/")
    host = urlsplit(base_url).hostname or ""
    usual = " or ".join(f"{provider}/{one}" for one in RECOMMENDED.get(host, ()))
    remedy = f"choose {usual}" if usual else "choose another"
    for pattern, day in _ENDS.get(host, ()):
        if re.fullmatch(f"({pattern}){_DATE}", name):
            is_over = day <= today
            when = "is shut down" if is_over else f"shuts down on {day}"
            return ModelDoubt(f"the model {model} {when}", remedy, is_over)
    if host != "api.openai.com":
        return None
    surely = _NEEDS_RESPONSES.fullmatch(name) is not None
    if not (surely or _MAY_NEED_RESPONSES.fullmatch(name)):
        return None
    verb = "supports" if surely else "may support"
    what = f"the model {model} {verb} tools only in OpenAI's Responses API, which Elwood does "
    return ModelDoubt(f"{what}not support yet", remedy, surely)
