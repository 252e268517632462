"""Knows the credentials that only their surroundings give away: names, headers, URLs, options."""

import re
from collections.abc import Callable, Iterator

import attrs

from elwood.core.token_patterns import Found, is_random

# Characters of one value; a key of 8192 bits in base64 has half of it.
_LIMIT = 16 * 1024
# A password is at least so long, a key that nobody types at least so.
_PASSWORD, _KEY = 6, 10
# A session's cookie is longer than a setting that is kept in one.
_COOKIE = 16

_PLACEHOLDER = re.compile(
    r"""(?aix)
    \$ [\w{(] .*  | %\w+%  | %[sdrv]  | %\( .*  | [*x.\-_\#•·0?]+  | !\w+
    | (?: my|the|new|old|db|user|some|default )? [_-]?
      (?: password\d{0,4}|passwd|pass|pw|pwd|secret|token|api[_-]?key|key|value|string|text|none
        | null|undefined|credentials? )
    | .{0,64} (?: your|example|placeholder|change[_-]?me|redacted|dummy|insert|replace|xxxx|…
        | \.\.\.|hidden|removed ) .*
    | \d{4}-\d\d-\d\d .*                                   # a date
    | [0-9.,:/-]{1,9}                                      # a number, a time
    """
)
# Words as code, paths and prose have them: what is made of them alone is no secret.
_WORDS = re.compile(
    r"""(?ax)
    [\~./]* [A-Za-z_]? [a-z]+ (?: [_./:-]+ [a-z]+ | [_./:-] [0-9]{1,3} )* [/.]*   # some_name, a/path
    | [A-Z]+ (?: [_-] [A-Z0-9]{1,12} )*                    # SOME_NAME
    | _{0,2} [A-Za-z]? [a-z]+ (?: [A-Z][a-z]{2,} | [A-Z]{2,5}(?=[A-Z][a-z]|$) )* (?:\.[A-Za-z]+)*
    | [a-z][a-z0-9+.-]{0,16}://.*                          # a URL: looked into elsewhere
    """
)


def _is_password(value: str) -> bool:
    """Tell a password from a word, a name or a place where one is to be put.

    >>> _is_password("hunter2"), _is_password("Xk!fq-Zmw"), _is_password("required")
    (True, True, False)
    """
    value = value.rstrip(".,:;!?")
    return len(value) >= _PASSWORD and not (_PLACEHOLDER.fullmatch(value) or _is_words(value))


def _is_key(value: str) -> bool:
    return len(value) >= _KEY and is_random(value) and not _PLACEHOLDER.fullmatch(value)


def _is_header(value: str) -> bool:
    joined = re.search(r"[a-zA-Z][_-][a-zA-Z]", value) is not None
    return not _PLACEHOLDER.fullmatch(value) and (is_random(value) or not joined)


def _is_cookie(value: str) -> bool:
    return len(value) >= _COOKIE and is_random(value)


def _is_any(value: str) -> bool:
    return not _PLACEHOLDER.fullmatch(value)


def _is_words(value: str) -> bool:
    return not is_random(value) and _WORDS.fullmatch(value) is not None


# What stands between a name and its value, quoted in code, in JSON, or in JSON within JSON.
_QUOTE = r"""\\{0,3}["'`]?"""
_IS = rf"""(?:
    {_QUOTE}\]?[ \t]{{0,8}}(?: :=|=>|={{1,2}}|:|%3d )[ \t]{{0,8}}(?:[a-z]{{1,2}}(?=["']))?{_QUOTE}
  | \\{{0,3}}["'][ \t]{{0,2}},[ \t]{{0,2}}\\{{0,3}}["']
  | >
)"""
# In quotes a value ends with them; bare it is no call and no index: `getpass()`, `environ["X"]`.
# The possessive `+` forbids to take a piece of such a thing instead.
_VALUE = rf"""(?:
    (?<=["'`]) (?P<quoted> [^\s"'`\\]{{3,{_LIMIT}}}+ )
  | (?<!["'`]) (?P<bare> [^\s"'`\\<>,;&(){{}}\[\]|]{{3,{_LIMIT}}}+ ) (?![(\[{{])
)"""
_PASS = r"(?: passw(?:or)?d | passphrase | passcode | (?<![a-z])pwd | (?<=[a-z]_)pwd )"
# Tokens that lead to the next page are no secrets, and needed.
_TOKEN = r"(?<!page)(?<!page[_-])(?<!next)(?<!next[_-])(?<!sync)(?<!sync[_-]) token"
_SECRET = rf"""(?:
    secret | {_TOKEN} | credentials? | secret[_-]key[_-]base
  | (?: access|account|api|app|auth|client|consumer|deploy|encryption|license|master|private|secret
      | service|shared|signing|storage|subscription )
    [_. -]? key (?: [_-]?(?:data|base64|b64|hex) )?
  | (?<![a-z0-9]) _?auth
) (?: [_-]?[0-9]{{1,2}} )?"""


@attrs.frozen
class _Context:
    """A *pattern* for lower-case text that holds one of *hints*, and what its value must be."""

    kind: str
    hints: tuple[str, ...]
    pattern: re.Pattern[str]
    is_secret: Callable[[str], bool]


def _context(
    kind: str, hints: tuple[str, ...], pattern: str, is_secret: Callable[[str], bool]
) -> _Context:
    return _Context(kind, hints, re.compile(pattern, re.VERBOSE | re.MULTILINE), is_secret)


_CONTEXTS = (
    _context("password", ("pass", "pwd"), rf"{_PASS}(?:[_-]?[0-9]{{1,2}})?{_IS}{_VALUE}",
             _is_password),
    _context("secret", ("secret", "token", "key", "credential", "auth"), rf"{_SECRET}{_IS}{_VALUE}",
             _is_key),
    _context("secret", ("--",), rf"""(?<![a-z0-9-])--(?:[a-z0-9]{{1,16}}-){{0,3}}
        (?:{_PASS}|token|secret|key)[ \t]{{1,4}}{_QUOTE}{_VALUE}""", _is_password),
    _context("authorization", ("authorization",), rf"""authorization
        {_QUOTE}[ \t]{{0,8}}[:=,][ \t]{{0,8}}{_QUOTE}(?:[a-z][a-z0-9-]{{1,20}}[ \t]{{1,4}})?
        (?P<quoted>[a-z0-9._~+/=-]{{12,{_LIMIT}}}+)(?![(\[{{])""", _is_header),
    _context("authorization", ("bearer", "basic"), rf"""(?<![a-z])(?:bearer|basic)(?:[ \t]|%20|\+)
        [ \t]{{0,4}}(?P<quoted>[a-z0-9._~+/=-]{{12,{_LIMIT}}}+)""", _is_key),
    # The last @ in front of the path ends the password, as browsers have it.
    _context("password in a URL", ("://",),
             r"""://[^\s/?\#@:"'<>]{0,256}:(?P<quoted>[^\s/?\#"'<>]{2,1024})@""", _is_any),
    _context("signed URL", ("sig", "token", "key="),
             rf"""[?&;](?:sig|(?:x-(?:amz|goog)-)?signature|x-amz-security-token|key)=
             (?P<quoted>[^\s"'<>&;\#\\]{{16,{_LIMIT}}}+)""", _is_key),
    _context("password", ("-u", "-user"),
             rf"""(?<![\w-])(?:-u|--user|--proxy-user)(?:[ \t]{{1,4}}|=){_QUOTE}
             [^\s:"']{{1,128}}:(?P<quoted>[^\s"'`\\]{{4,1024}}+)""", _is_password),
    _context("password", ("mysql", "mariadb", "sshpass", "redis-cli"),
             rf"""(?:mysql|mariadb|sshpass|redis-cli)[^\n|;&]{{0,256}}?[ \t]-(?:a[ \t]+|p[ \t]{{0,1}})
             {_QUOTE}(?P<quoted>[^\s"'`\\]{{4,1024}}+)""", _is_password),
    _context("password", ("login", "identified"),
             rf"""(?:login\s{{1,8}}\S{{1,128}}\s{{1,8}}password\s{{1,8}}|identified\s{{1,4}}by\s{{1,4}})
             {_QUOTE}(?P<quoted>[^\s"'`\\]{{4,1024}}+)""", _is_password),
    _context("password", (":5432:", ":5433:", ":6432:", ":3306:", ":*:"),  # .pgpass
             r"""^[^\s:\#]{1,255}:(?:[0-9]{2,5}|\*):[^\s:]{1,63}:[^\s:]{1,63}:
             (?P<quoted>[^\s:]{4,256}+)$""", _is_any),
)  # fmt: skip
_COOKIES = re.compile(r"""cookie["']?[ \t]{0,4}[:=][^\r\n]{0,8192}""")
_CRUMB = re.compile(r"[^\s;=:]{1,128}=(?P<value>[^\s;\"'\\]{3,4096}+)")


def in_context(text: str, at: int = 0) -> Iterator[Found]:
    r"""Find the secrets in *text* that are given away by what begins at *at* or later.

    >>> text = "DB_PASSWORD=hunter2 x"
    >>> [text[found.start:found.end] for found in in_context(text) if found.kind]
    ['hunter2']
    >>> any(found.kind for found in in_context('api_key = os.environ["KEY"]'))
    False
    """
    # One to one, so that what is found there stands in *text* at the same place.
    lowered = text.replace("\u0130", "i").lower()
    for context in _CONTEXTS:
        if any(hint in lowered for hint in context.hints):
            yield from _in(context, text, lowered, at)
    if "cookie" in lowered:
        for header in _COOKIES.finditer(lowered, at):
            begin, end = header.span()
            yield Found(begin, end, end, "")
            for crumb in _CRUMB.finditer(text, begin, end):
                if _is_cookie(crumb["value"]):
                    yield Found(begin, *crumb.span("value"), "cookie")


def _in(context: _Context, text: str, lowered: str, at: int) -> Iterator[Found]:
    for match in context.pattern.finditer(lowered, at):
        group = "quoted" if match["quoted"] is not None else "bare"
        start, end = match.span(group)
        kind = context.kind if context.is_secret(text[start:end]) else ""
        yield Found(match.start(), start, end, kind)
