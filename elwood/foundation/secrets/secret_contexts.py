"""Knows the credentials that only their surroundings give away: names, headers, URLs, options."""

import re
from collections.abc import Callable, Iterator

import attrs

from elwood.foundation.secrets.token_patterns import Found, is_random

# Characters of one value; a key of 8192 bits in base64 has half of it.
_LIMIT = 16 * 1024
# A password is at least so long, a key that nobody types at least so.
_PASSWORD, _KEY = 6, 10
# A session's cookie is longer than a setting that is kept in one.
_COOKIE = 16

_PLACEHOLDER = re.compile(
    r"""(?aix)
    \$ [\w{(] .*  | %\w+%  | %[sdrv]  | %\( .*  | [*x.\-_\#•·0?]+
    | !(?:secret|env|vault|ref|include)
    | (?: my|the|new|old|db|user|some|default )? [_-]?
      (?: password\d{0,4}|passwd|pass|pw|pwd|secret|token|api[_-]?key|key|value|string|text|none
        | null|undefined|credentials? )
    | \d{4}-\d\d-\d\d .*                                   # a date
    | [0-9.,:/-]{1,9}                                      # a number, a time
    """
)
_SAYS_SO = re.compile(
    r"(?ai)your|example|placeholder|change[_-]?me|redacted|dummy|insert|replace|(?-i:xxxx|XXXX)|…|\.\.\."
    r"|hidden|removed"
)
# Characters at the beginning of a value in which it would say that it stands for another.
_SAYS_SO_WITHIN = 64
# Words as code, paths and prose have them: what is made of them alone is no secret.
_WORDS = re.compile(
    r"""(?ax)
    [\~./]* [A-Za-z_]? [a-z]+ (?: [_./:-]+ [a-z]+ | [_./:-] [0-9]{1,3} )* [/.]*  # a_name, a/path
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
    return len(value) >= _PASSWORD and not (_is_placeholder(value) or _is_words(value))


def _is_key(value: str) -> bool:
    return len(value) >= _KEY and is_random(value) and not _is_placeholder(value)


def _is_header(value: str) -> bool:
    joined = re.search(r"[a-zA-Z][_-][a-zA-Z]", value) is not None
    return not _is_placeholder(value) and (is_random(value) or not joined)


def _is_cookie(value: str) -> bool:
    return len(value) >= _COOKIE and is_random(value)


def _is_any(value: str) -> bool:
    return not _is_placeholder(value)


def _is_placeholder(value: str) -> bool:
    says_so = _SAYS_SO.search(value, 0, _SAYS_SO_WITHIN) is not None
    return says_so or _PLACEHOLDER.fullmatch(value) is not None


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
# A `key` is secret only with one of these in front, with or without a sign between.
_KEYS = (
    "access", "account", "api", "app", "auth", "client", "consumer", "deploy", "encryption",
    "license", "master", "private", "secret", "service", "shared", "signing", "storage",
    "subscription",
)  # fmt: skip
_SECRET_KEY = "|".join(f"(?<={word}[_. -]key)|(?<={word}key)" for word in _KEYS)
# Tokens that lead to the next page are no secrets, and needed.
_NO_PAGE = "".join(rf"(?<!{word}token)(?<!{word}[_-]token)" for word in ("next", "page", "sync"))


@attrs.frozen
class _Context:
    """A *pattern* for lower-case text that holds *hint*, and what its value must be."""

    kind: str
    hint: str
    pattern: re.Pattern[str]
    is_secret: Callable[[str], bool]


def _context(kind: str, hint: str, pattern: str, is_secret: Callable[[str], bool]) -> _Context:
    return _Context(kind, hint, re.compile(pattern, re.VERBOSE | re.MULTILINE), is_secret)


def _named(kind: str, hint: str, rest: str, is_secret: Callable[[str], bool]) -> _Context:
    """Look for a value whose name ends with *hint* and *rest*, and maybe a number."""
    name = rf"{hint}{rest}(?:[_-]?[0-9]{{1,2}})?"
    return _context(kind, hint, f"{name}{_IS}{_VALUE}", is_secret)


# Each begins with its hint where it can, so that the search goes by that.
_CONTEXTS = (
    _named("password", "pass", "(?:w(?:or)?d|phrase|code|(?<![a-z]pass))", _is_password),
    *(
        _named("password", name, f"(?<![a-z]{name})", _is_password) for name in ("pwd", "pw", "psk")
    ),
    _named("secret", "secret", "(?:[_-]key[_-]base)?", _is_key),
    _named("secret", "token", _NO_PAGE, _is_key),
    _named("secret", "credential", "s?", _is_key),
    _named("secret", "key", f"(?:{_SECRET_KEY})(?:[_-]?(?:data|base64|b64|hex))?", _is_key),
    _named("secret", "auth", "(?<![a-z0-9]auth)", _is_key),
    _context("secret", "--", rf"""(?<![a-z0-9-])--(?:[a-z0-9]{{1,16}}-){{0,3}}
        (?:passw(?:or)?d|passphrase|token|secret|key)[ \t]{{1,4}}{_QUOTE}{_VALUE}""", _is_password),
    _context("authorization", "authorization", rf"""authorization
        {_QUOTE}[ \t]{{0,8}}[:=,][ \t]{{0,8}}{_QUOTE}(?:[a-z][a-z0-9-]{{1,20}}[ \t]{{1,4}})?
        (?P<quoted>[a-z0-9._~+/=-]{{12,{_LIMIT}}}+)(?![(\[{{])""", _is_header),
    *(
        _context("authorization", scheme, rf"""{scheme}(?<![a-z]{scheme})(?:[ \t]|%20|\+)
            [ \t]{{0,4}}(?P<quoted>[a-z0-9._~+/=-]{{12,{_LIMIT}}}+)""", _is_key)
        for scheme in ("bearer", "basic")
    ),
    # The last @ in front of the path ends the password, as browsers have it.
    _context("password in a URL", "://",
             r"""://[^\s/?\#@:"'<>]{0,256}:(?P<quoted>[^\s/?\#"'<>]{3,1024})@""", _is_any),
    *(
        _context("signed URL", f"{name}=", rf"""{name}=(?<=[?&;]{name}=)
            (?P<quoted>[^\s"'<>&;\#\\]{{16,{_LIMIT}}}+)""", _is_key)
        for name in ("sig", "key")
    ),
    *(
        _context("signed URL", f"{name}=",
                 rf"""{name}=(?P<quoted>[^\s"'<>&;\#\\]{{16,{_LIMIT}}}+)""", _is_key)
        for name in ("x-amz-signature", "x-goog-signature", "x-amz-security-token")
    ),
    *(
        _context("password", option, rf"""{option}(?<![\w-]{option})(?:[ \t]{{1,4}}|=){_QUOTE}
            [^\s:"']{{1,128}}:(?P<quoted>[^\s"'`\\]{{4,1024}}+)""", _is_password)
        for option in ("-u", "--user", "--proxy-user")
    ),
    *(
        _context("password", program, rf"""{program}[^\n|;&]{{0,100}}?[ \t]
            -(?:a[ \t]{{1,4}}|p[ \t]?){_QUOTE}(?P<quoted>[^\s"'`\\]{{4,1024}}+)""", _is_password)
        for program in ("mysql", "mariadb", "sshpass", "redis-cli")
    ),
    *(
        _context("password", before.split()[0], rf"""{before}
            {_QUOTE}(?P<quoted>[^\s"'`\\]{{4,1024}}+)""", _is_password)
        for before in (
            r"login \s{1,8}\S{1,128}\s{1,8}password\s{1,8}",  # .netrc
            r"identified [ ]by[ ]",  # SQL
        )
    ),
    *(
        _context("password", f":{port}:", rf"""^[^\s:\#]{{1,255}}:{re.escape(port)}:[^\s:]{{1,63}}:
            [^\s:]{{1,63}}:(?P<quoted>[^\s:]{{4,256}}+)$""", _is_any)  # .pgpass
        for port in ("5432", "5433", "6432", "*")
    ),
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
        if context.hint in lowered:
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
        start, end = match.span("quoted")
        if start < 0:
            start, end = match.span("bare")
        kind = context.kind if context.is_secret(text[start:end]) else ""
        yield Found(match.start(), start, end, kind)
