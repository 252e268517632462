"""Knows the credentials that give themselves away by their form, wherever they stand."""

import re
from collections.abc import Iterator

import attrs


@attrs.frozen
class Found:
    """*text[start:end]* is a *kind* of credential, given away by what begins at *begin*.

    A text in pieces must not be cut between *begin* and *end*.  *kind* is empty for what only
    looks like the beginning of one, or turned out to be none: it is to be seen whole, and stays.
    """

    begin: int
    start: int
    end: int
    kind: str


# Changes between letters and digits, and from small to capital letters; every second character
# of a random token begins one, a word or a name of words has next to none.
_CHANGE = re.compile(r"[0-9](?=[A-Za-z])|[A-Za-z](?=[0-9])|[a-z](?=[A-Z])")
# One change in so many characters, and so many at least, make a text random.
_CHANGE_EVERY, _CHANGES = 12, 3


def is_random(text: str) -> bool:
    """Tell whether *text* looks drawn by lot, not written by a person.

    >>> is_random("q8Zr1vX0c2N4m6B8"), is_random("3f786850e387550fdab836ed7e6dc881de23001b")
    (True, True)
    >>> is_random("pipelines-are-not-keys"), is_random("x" * 40), is_random("SomeClassName")
    (False, False, False)
    """
    changes = sum(1 for _ in _CHANGE.finditer(text))
    return changes >= max(_CHANGES, len(text) // _CHANGE_EVERY)


# A token begins where a word does: at the beginning, after a mark, or after an escaped character.
_LEFT = r"""
    (?: (?<![A-Za-z0-9]) | (?<=\\[nrt]) | (?<=%[0-9A-Fa-f][0-9A-Fa-f])
      | (?<=\\u00[0-9A-Fa-f][0-9A-Fa-f]) )
"""
# Kinds and their forms: a fixed head, then bounded runs only, none of which can be tried anew at
# each of its own characters: one unbounded `[a-z]*` is a denial of service (security.md §4).
_FORMS = (
    ("Anthropic key", r"sk-ant-[A-Za-z0-9_-]{12,512}"),
    ("OpenAI or OpenRouter key", r"sk-[A-Za-z0-9_-]{16,512}"),
    ("Stripe key", r"[sr]k_(?:live|test)_[A-Za-z0-9]{16,256}"),
    ("webhook secret", r"whsec_[A-Za-z0-9+/]{24,128}"),
    ("Groq key", r"gsk_[A-Za-z0-9]{32,128}"),
    ("xAI key", r"xai-[A-Za-z0-9]{32,128}"),
    ("Hugging Face token", r"(?:hf_|api_org_)[A-Za-z0-9]{30,64}"),
    ("Replicate token", r"r8_[A-Za-z0-9]{30,64}"),
    ("Perplexity key", r"pplx-[A-Za-z0-9]{32,128}"),
    ("Brave key", r"(?<![+/])BSA[A-Za-z0-9_-]{26,32}(?![A-Za-z0-9+/=_-])"),
    ("Tavily key", r"tvly-[A-Za-z0-9-]{20,64}"),
    ("NVIDIA key", r"nvapi-[A-Za-z0-9_-]{48,128}"),
    ("GitHub token", r"gh[oprsu]_[A-Za-z0-9]{30,255}"),
    ("GitHub token", r"github_pat_[A-Za-z0-9_]{30,255}"),
    ("GitLab token", r"gl(?:agent|cbt|dt|feed|ft|imt|oas|pat|ptt|rt|soat)-[A-Za-z0-9_.-]{20,300}"),
    ("npm token", r"npm_[A-Za-z0-9]{36,64}"),
    ("PyPI token", r"pypi-[A-Za-z0-9_-]{50,1024}"),
    ("Docker token", r"dckr_[op]at_[A-Za-z0-9_-]{20,64}"),
    ("RubyGems key", r"rubygems_[0-9a-f]{48}"),
    ("Slack token", r"xox[abceoprs]-[A-Za-z0-9-]{10,512}"),
    ("Slack token", r"xapp-[0-9]-[A-Za-z0-9-]{20,512}"),
    ("webhook address", r"hooks\.slack\.com/(?:services|triggers|workflows)/[A-Za-z0-9/]{20,128}"),
    ("webhook address", r"discord(?:app)?\.com/api/webhooks/[0-9]{15,20}/[A-Za-z0-9_-]{40,128}"),
    ("Discord token", r"[MNO][A-Za-z0-9]{22,28}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{25,45}"),
    ("AWS key", r"(?:ABIA|ACCA|AKIA|ASIA)[A-Z2-7]{16}(?![A-Za-z0-9+/])"),
    ("Google key", r"(?<![+/])AIza[A-Za-z0-9_-]{35}(?![A-Za-z0-9+/=_-])"),
    ("Google token", r"ya29\.[A-Za-z0-9_.-]{20,2048}"),
    ("Google secret", r"GOCSPX-[A-Za-z0-9_-]{20,64}"),
    ("DigitalOcean token", r"do[opr]_v1_[0-9a-f]{64}"),
    ("Vault token", r"hv[bsr]\.[A-Za-z0-9_-]{20,512}"),
    ("Databricks token", r"dapi[0-9a-f]{32}(?:-[0-9])?(?![0-9A-Za-z])"),
    ("Tailscale key", r"tskey-[a-z]{3,16}-[A-Za-z0-9-]{16,128}"),
    ("SendGrid key", r"SG\.[A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{16,64}"),
    ("Twilio key", r"SK[0-9a-f]{32}(?![0-9A-Za-z])"),
    ("Mailgun key", r"key-[0-9a-f]{32}(?![0-9A-Za-z])"),
    ("Brevo key", r"xkeysib-[0-9a-f]{64}-[A-Za-z0-9]{16}"),
    ("Shopify token", r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}"),
    ("Linear key", r"lin_(?:api|oauth)_[A-Za-z0-9]{32,128}"),
    ("Notion token", r"(?:ntn_|secret_)[A-Za-z0-9]{40,64}"),
    ("Grafana token", r"gl(?:sa|c)_[A-Za-z0-9+/_]{32,512}"),
    ("Supabase token", r"sbp_[0-9a-f]{40}"),
    ("Atlassian token", r"AT[AC]TT3x[A-Za-z0-9_=-]{40,512}"),
    ("Sentry token", r"sntry[su]_[A-Za-z0-9_=+/-]{40,512}"),
    ("Figma token", r"figd_[A-Za-z0-9_-]{32,128}"),
    ("New Relic key", r"NRAK-[A-Z0-9]{27}"),
    ("Postman key", r"PMAK-[0-9a-f]{24}-[0-9a-f]{34}"),
    ("Doppler token", r"dp\.(?:pt|st|ct|sa)\.[A-Za-z0-9._-]{40,128}"),
    ("Dropbox token", r"sl\.[A-Za-z0-9_-]{100,2048}"),
    ("Pulumi token", r"pul-[0-9a-f]{40}"),
    ("age key", r"AGE-SECRET-KEY-1[A-Z0-9]{58}"),
    # A run of base64 is tried from its first character only, or each `eyJ-` would cost all of it.
    ("signed token", r"(?<![_-])eyJ[A-Za-z0-9_-]{8,1024}"
     r"(?:\.[A-Za-z0-9_-]{0,6144}){1,3}\.[A-Za-z0-9_-]{16,4096}"),
)  # fmt: skip
_TOKEN = re.compile(
    f"{_LEFT}(?:{'|'.join(f'({form})' for _, form in _FORMS)})",
    re.VERBOSE,
)
# Their first characters may be any, so they are looked for by what stands further on.
_TELEGRAM = re.compile(r"(?<![0-9])[0-9]{6,12}(?::|%3[Aa])[A-Za-z0-9_-]{34,64}")
_AZURE = re.compile(r"(?<![A-Za-z0-9_~.-])[A-Za-z0-9_~.]{3}[0-9]Q~[A-Za-z0-9_.~-]{31,37}")
# 16 of 32 letters and digits: one in 28 has no digit at all, so this form is believed as it is.
_ALWAYS = frozenset({"AWS key"})


def tokens(text: str, at: int = 0) -> Iterator[Found]:
    """Find the tokens in *text* that begin at *at* or later.

    >>> text = "use ghp" + "_" + "q8Zr1vX0c2N4m6B8" * 2 + "Az3."
    >>> [(found.kind, text[found.start:found.end][:4]) for found in tokens(text)]
    [('GitHub token', 'ghp_')]
    """
    for match in _TOKEN.finditer(text, at):
        kind = _FORMS[(match.lastindex or 1) - 1][0]
        yield _judged(match, kind)
    if ":" in text or "%3" in text:
        for match in _TELEGRAM.finditer(text, at):
            yield _judged(match, "Telegram bot token")
    if "Q~" in text:
        for match in _AZURE.finditer(text, at):
            yield _judged(match, "Azure secret")


def _judged(match: re.Match[str], kind: str) -> Found:
    real = kind in _ALWAYS or is_random(match[0]) or _is_long(match[0])
    return Found(match.start(), match.start(), match.end(), kind if real else "")


# A run of letters and digits longer than words are, in which a placeholder has few different.
_RUN = re.compile(r"[A-Za-z0-9]{20,}")
_DIFFERENT = 8


def _is_long(text: str) -> bool:
    run = _RUN.search(text)
    if run is None or len(set(run[0])) < _DIFFERENT:
        return False
    return not (run[0].islower() and run[0].isalpha())
