"""Knows the credentials that give themselves away by their form, wherever they stand."""

import re
from collections.abc import Iterator
from functools import cache

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


# Kinds, their heads, and what follows: bounded runs only, none of which can be tried anew at each
# of its own characters: one unbounded `[a-z]*` is a denial of service (security.md §4).
_FORMS = (
    ("Anthropic or OpenAI key", "sk-", r"[A-Za-z0-9_-]{16,512}"),
    ("Stripe key", "sk_live_ sk_test_ rk_live_ rk_test_", r"[A-Za-z0-9]{16,256}"),
    ("webhook secret", "whsec_", r"[A-Za-z0-9+/]{24,128}"),
    ("Groq key", "gsk_", r"[A-Za-z0-9]{32,128}"),
    ("xAI key", "xai-", r"[A-Za-z0-9]{32,128}"),
    ("Hugging Face token", "hf_ api_org_", r"[A-Za-z0-9]{30,64}"),
    ("Replicate token", "r8_", r"[A-Za-z0-9]{30,64}"),
    ("Perplexity key", "pplx-", r"[A-Za-z0-9]{32,128}"),
    ("Brave key", "BSA", r"(?<![+/]BSA)[A-Za-z0-9_-]{26,32}(?![A-Za-z0-9+/=_-])"),
    ("Tavily key", "tvly-", r"[A-Za-z0-9-]{20,64}"),
    ("NVIDIA key", "nvapi-", r"[A-Za-z0-9_-]{48,128}"),
    ("GitHub token", "gho_ ghp_ ghr_ ghs_ ghu_", r"[A-Za-z0-9]{30,255}"),
    ("GitHub token", "github_pat_", r"[A-Za-z0-9_]{30,255}"),
    ("GitLab token",
     "glagent- glcbt- gldt- glfeed- glft- glimt- gloas- glpat- glptt- glrt- glsoat-",
     r"[A-Za-z0-9_.-]{20,300}"),
    ("npm token", "npm_", r"[A-Za-z0-9]{36,64}"),
    ("PyPI token", "pypi-", r"[A-Za-z0-9_-]{50,1024}"),
    ("Docker token", "dckr_pat_ dckr_oat_", r"[A-Za-z0-9_-]{20,64}"),
    ("RubyGems key", "rubygems_", r"[0-9a-f]{48}"),
    ("Slack token", "xox", r"[abceoprs]-[A-Za-z0-9-]{12,512}"),
    ("Slack token", "xapp-", r"[0-9]-[A-Za-z0-9-]{20,512}"),
    ("webhook address", "hooks.slack.com/",
     r"(?:services|triggers|workflows)/[A-Za-z0-9/]{20,128}"),
    ("webhook address", "discord.com/api/webhooks/ discordapp.com/api/webhooks/",
     r"[0-9]{15,20}/[A-Za-z0-9_-]{40,128}"),
    ("AWS key", "ABIA ACCA AKIA ASIA", r"[A-Z2-7]{16}(?![A-Za-z0-9+/])"),
    ("Google key", "AIza", r"(?<![+/]AIza)[A-Za-z0-9_-]{35}(?![A-Za-z0-9+/=_-])"),
    ("Google token", "ya29.", r"[A-Za-z0-9_.-]{20,2048}"),
    ("Google secret", "GOCSPX-", r"[A-Za-z0-9_-]{20,64}"),
    ("DigitalOcean token", "doo_v1_ dop_v1_ dor_v1_", r"[0-9a-f]{64}"),
    ("Vault token", "hvs. hvb. hvr.", r"[A-Za-z0-9_-]{20,512}"),
    ("Databricks token", "dapi", r"[0-9a-f]{32}(?:-[0-9])?(?![0-9A-Za-z])"),
    ("Tailscale key", "tskey-", r"[a-z]{3,16}-[A-Za-z0-9-]{16,128}"),
    ("SendGrid key", "SG.", r"[A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{16,64}"),
    ("Twilio key", "SK", r"[0-9a-f]{32}(?![0-9A-Za-z])"),
    ("Mailgun key", "key-", r"[0-9a-f]{32}(?![0-9A-Za-z])"),
    ("Brevo key", "xkeysib-", r"[0-9a-f]{64}-[A-Za-z0-9]{16}"),
    ("Shopify token", "shpat_ shpca_ shppa_ shpss_", r"[0-9a-fA-F]{32}"),
    ("Linear key", "lin_api_ lin_oauth_", r"[A-Za-z0-9]{32,128}"),
    ("Notion token", "ntn_ secret_", r"[A-Za-z0-9]{40,64}"),
    ("Grafana token", "glsa_ glc_", r"[A-Za-z0-9+/_]{32,512}"),
    ("Supabase token", "sbp_", r"[0-9a-f]{40}"),
    ("Atlassian token", "ATATT3x ATCTT3x", r"[A-Za-z0-9_=-]{40,512}"),
    ("Sentry token", "sntrys_ sntryu_", r"[A-Za-z0-9_=+/-]{40,512}"),
    ("Figma token", "figd_", r"[A-Za-z0-9_-]{32,128}"),
    ("New Relic key", "NRAK-", r"[A-Z0-9]{27}"),
    ("Postman key", "PMAK-", r"[0-9a-f]{24}-[0-9a-f]{34}"),
    ("Doppler token", "dp.pt. dp.st. dp.ct. dp.sa.", r"[A-Za-z0-9._-]{40,128}"),
    ("Dropbox token", "sl.", r"[A-Za-z0-9_-]{100,2048}"),
    ("Pulumi token", "pul-", r"[0-9a-f]{40}"),
    ("age key", "AGE-SECRET-KEY-1", r"[A-Z0-9]{58}"),
    # A run of base64 is tried from its first character only, or each `eyJ-` would cost all of it.
    ("signed token", "eyJ", r"(?<![_-]eyJ)[A-Za-z0-9_-]{8,1024}"
     r"(?:\.[A-Za-z0-9_-]{0,6144}){1,3}\.[A-Za-z0-9_-]{16,4096}"),
)  # fmt: skip
_HEADS = tuple((head, kind, rest) for kind, heads, rest in _FORMS for head in heads.split())


@cache
def _pattern(head: str, rest: str) -> re.Pattern[str]:
    """Make the pattern of a form, which begins where a word does.

    That is at the beginning, after a mark, or after an escaped character.  It is looked at behind
    the head, so that the search goes by the head.
    """
    return re.compile(f"{re.escape(head)}{_left(re.escape(head))}{rest}")


def _left(head: str = "") -> str:
    befores = (
        ("!", "[A-Za-z0-9]"),
        ("=", r"\\[nrt]"),
        ("=", "%[0-9A-Fa-f][0-9A-Fa-f]"),
        ("=", r"\\u00[0-9A-Fa-f][0-9A-Fa-f]"),
    )
    return f"(?:{'|'.join(f'(?<{sign}{before}{head})' for sign, before in befores)})"


# Their first characters may be any, so they are looked for by a mark further on.
_BY_MARK = (
    ((":", "%3"), "Telegram bot token",
     re.compile(r"(?<![0-9])[0-9]{6,12}(?::|%3[Aa])[A-Za-z0-9_-]{34,64}")),
    (("Q~",), "Azure secret",
     re.compile(_left() + r"[A-Za-z0-9_~.]{3}[0-9]Q~[A-Za-z0-9_.~-]{31,37}")),
    ((".",), "Discord token",
     re.compile(_left() + r"[MNO][A-Za-z0-9]{22,28}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{25,45}")),
)  # fmt: skip
# Every form with a head is, with it, a part of such a run.
_LONG = re.compile(r"[A-Za-z0-9_+/=.~-]{16,}")
# 16 of 32 letters and digits: one in 28 has no digit at all, so this form is believed as it is.
_ALWAYS = frozenset({"AWS key"})


def tokens(text: str, at: int = 0) -> Iterator[Found]:
    """Find the tokens in *text* that begin at *at* or later.

    >>> text = "use ghp" + "_" + "q8Zr1vX0c2N4m6B8" * 2 + "Az3."
    >>> [(found.kind, text[found.start:found.end][:4]) for found in tokens(text)]
    [('GitHub token', 'ghp_')]
    """
    runs = "\n".join(_LONG.findall(text, at))
    if not runs:
        return  # most lines of a log
    for head, kind, rest in _HEADS:
        if head in runs:
            for match in _pattern(head, rest).finditer(text, at):
                yield _judged(match, kind)
    for marks, kind, pattern in _BY_MARK:
        if any(mark in text for mark in marks):
            for match in pattern.finditer(text, at):
                yield _judged(match, kind)


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
