"""Find credentials by their format, their armour, or their context.

A token has a known format.  Private keys may be plain, escaped, indented, cut off, or in base64.
Passwords are only recognizable by names, headers, URLs and options in front of them.
"""

import re
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from string import ascii_lowercase, ascii_uppercase, digits

import msgspec


class FoundSecret(msgspec.Struct, frozen=True):
    """A credential at *text[start:end]*."""

    start: int
    end: int
    # "" for a false or incomplete match: partial texts hold it back, complete texts show it.
    kind: str


# Changes between letters and digits, and from lower to upper case.  Every second character of a
# random token starts one; words and compound names have almost none.
_CHANGE = (b"0a", b"0A", b"a0", b"A0", b"aA")
_KINDS = bytes.maketrans(
    f"{digits}{ascii_lowercase}{ascii_uppercase}".encode(), b"0" * 10 + b"a" * 26 + b"A" * 26
)
# A text is random with one change per so many characters, and at least so many changes.
_CHANGE_EVERY, _CHANGES = 12, 3


def is_random(text: str) -> bool:
    """Return True if *text* looks randomly generated."""
    changes = sum(map(text.encode("ascii", "replace").translate(_KINDS).count, _CHANGE))
    return changes >= max(_CHANGES, len(text) // _CHANGE_EVERY)


# Kind, prefixes, and pattern of the rest.  All runs are bounded and cannot be retried at each of
# their own characters: one unbounded `[a-z]*` is a denial of service.
_FORMS = (
    ("Anthropic or OpenAI key", "sk- sk-or-v1-", r"[A-Za-z0-9_-]{16,512}"),
    ("Stripe key", "sk_live_ sk_test_ rk_live_ rk_test_", r"[A-Za-z0-9]{16,256}"),
    # Groq, xAI, Hugging Face, Replicate, Perplexity, GitHub, npm, Linear, Notion
    ("access token",
     "gsk_ xai- hf_ api_org_ r8_ pplx- gho_ ghp_ ghr_ ghs_ ghu_ npm_ lin_api_ lin_oauth_ ntn_ "
     "secret_",
     r"[A-Za-z0-9]{30,255}"),
    # DigitalOcean, RubyGems, Shopify, Supabase, Pulumi
    ("access token",
     "doo_v1_ dop_v1_ dor_v1_ rubygems_ shpat_ shpca_ shppa_ shpss_ sbp_ pul-",
     r"[0-9a-fA-F]{32,64}"),
    # Tavily, Docker, Google, Vault
    ("access token", "tvly- dckr_pat_ dckr_oat_ GOCSPX- hvs. hvb. hvr.", r"[A-Za-z0-9_-]{20,512}"),
    # GitHub, Figma, NVIDIA, PyPI
    ("access token", "github_pat_ figd_ nvapi- pypi-", r"[A-Za-z0-9_-]{30,1024}"),
    # GitLab, Google
    ("access token",
     "glagent- glcbt- gldt- glfeed- glft- glimt- gloas- glpat- glptt- glrt- glsoat- ya29.",
     r"[A-Za-z0-9_.-]{20,2048}"),
    # Grafana, Atlassian, Sentry
    ("access token", "glsa_ glc_ ATATT3x ATCTT3x sntrys_ sntryu_", r"[A-Za-z0-9_=+/-]{32,512}"),
    ("access token", "dp.pt. dp.st. dp.ct. dp.sa.", r"[A-Za-z0-9._-]{40,128}"),  # Doppler
    ("access token", "sl.", r"[A-Za-z0-9_-]{100,2048}"),  # Dropbox
    ("webhook secret", "whsec_", r"[A-Za-z0-9+/]{24,128}"),
    ("Brave key", "BSA", r"(?<![+/]BSA)[A-Za-z0-9_-]{26,32}(?![A-Za-z0-9+/=_-])"),
    ("Slack token", "xox", r"[abceoprs]-[A-Za-z0-9-]{12,512}"),
    ("Slack token", "xapp-", r"[0-9]-[A-Za-z0-9-]{20,512}"),
    ("webhook address", "hooks.slack.com/",
     r"(?:services|triggers|workflows)/[A-Za-z0-9/]{20,128}"),
    ("webhook address", "discord.com/api/webhooks/ discordapp.com/api/webhooks/",
     r"[0-9]{15,20}/[A-Za-z0-9_-]{40,128}"),
    ("AWS key", "ABIA ACCA AKIA ASIA", r"[A-Z2-7]{16}(?![A-Za-z0-9+/])"),
    ("Google key", "AIza", r"(?<![+/]AIza)[A-Za-z0-9_-]{35}(?![A-Za-z0-9+/=_-])"),
    ("Databricks token", "dapi", r"[0-9a-f]{32}(?:-[0-9])?(?![0-9A-Za-z])"),
    ("Tailscale key", "tskey-", r"[a-z]{3,16}-[A-Za-z0-9-]{16,128}"),
    ("SendGrid key", "SG.", r"[A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{16,64}"),
    ("Twilio or Mailgun key", "SK key-", r"[0-9a-f]{32}(?![0-9A-Za-z])"),
    ("Brevo key", "xkeysib-", r"[0-9a-f]{64}-[A-Za-z0-9]{16}"),
    ("New Relic key", "NRAK-", r"[A-Z0-9]{27}"),
    ("Postman key", "PMAK-", r"[0-9a-f]{24}-[0-9a-f]{34}"),
    ("age key", "AGE-SECRET-KEY-1", r"[A-Z0-9]{58}"),
    ("signed token", "eyJ", r"[A-Za-z0-9_-]{8,1024}"
     r"(?:\.[A-Za-z0-9_-]{0,6144}){1,3}\.[A-Za-z0-9_-]{16,4096}"),
)  # fmt: skip
_HEADS = tuple((head, kind, rest) for kind, heads, rest in _FORMS for head in heads.split())


@cache
def _pattern(head: str, rest: str, *, glued: bool = False) -> re.Pattern[str]:
    """Compile a token pattern, which must start at a word boundary unless *glued* to a word.

    A boundary is the beginning, a punctuation mark, or an escaped character.  It is checked after
    the prefix, so that the search scans for the prefix.
    """
    return re.compile(f"{re.escape(head)}{'' if glued else _boundary(re.escape(head))}{rest}")


def _boundary(head: str) -> str:
    lookbehinds = (
        ("!", "[A-Za-z0-9]"),
        ("=", r"\\[nrt]"),
        ("=", "%[0-9A-Fa-f][0-9A-Fa-f]"),
        ("=", r"\\u00[0-9A-Fa-f][0-9A-Fa-f]"),
    )
    boundary = f"(?:{'|'.join(f'(?<{sign}{before}{head})' for sign, before in lookbehinds)})"
    # Match a base64 run only from its first character, or each `eyJ-` would scan all of it again.
    return f"{boundary}(?<![_-]eyJ)" if head == "eyJ" else boundary


# Tokens without a fixed prefix, found by a mark inside them; or with a prefix that also ends
# ordinary words, which the pattern excludes.
_BY_MARK = (
    ((":", "%3"), "Telegram bot token",
     re.compile(r"[0-9](?<![0-9][0-9])[0-9]{5,11}(?::|%3[Aa])[A-Za-z0-9_-]{34,64}")),
    (("Q~",), "Azure secret",
     re.compile(r"[A-Za-z0-9_~.]{3}[0-9]Q~[A-Za-z0-9_.~-]{31,37}")),
    # After a capital, or with a digit in the first part, which is a user id in base64.
    ((".",), "Discord token",
     re.compile(rf"[MNO](?:{_boundary('[MNO]')}|(?<=[a-z][MNO])|(?=[A-Za-z]{{0,27}}[0-9]))"
                r"[A-Za-z0-9]{22,28}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{25,45}")),
    # Not at the end of a word: TASK, monkey.
    (("SK", "key-"), "Twilio or Mailgun key",
     re.compile(r"(?:SK(?<=[a-z0-9B-DF-HJ-NP-TV-Z]SK)|key-(?<=[A-Z0-9]key-))"
                r"[0-9a-f]{32}(?![0-9A-Za-z])")),
    (("SG.",), "SendGrid key",
     re.compile(r"(?<=[A-Za-z0-9])SG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}(?![A-Za-z0-9_-])")),
    # Format of crypt(3), in /etc/shadow, .htpasswd and databases.
    (("$",), "password hash",
     re.compile(r"\$(?:1|2[abxy]?|5|6|7|y|gy|apr1|md5|sha1|scrypt|argon2(?:id|i|d))"
                r"\$[A-Za-z0-9./,=+$-]{20,512}")),
)  # fmt: skip
# Every token with a prefix is part of such a run.
_LONG = re.compile(r"[A-Za-z0-9_+/=.~-]{16,}")
# 16 of 32 letters and digits: one in 28 has no digit, so randomness is not required.
_ALWAYS = frozenset({"AWS key"})


def find_tokens(text: str) -> Iterator[FoundSecret]:
    runs = "\n".join(_LONG.findall(text))
    if not runs:
        return  # most lines of a log
    used = set(runs)  # rules out most prefixes fast
    heads = [one for one in _HEADS if used.issuperset(one[0]) and one[0] in runs]
    for head, kind, rest in heads:
        for match in _pattern(head, rest).finditer(text):
            yield _classify(match, kind)
    if heads:
        yield from _find_glued(text, heads)
    for marks, kind, pattern in _BY_MARK:
        if any(mark in text for mark in marks):
            for match in pattern.finditer(text):
                yield _classify(match, kind)


def _classify(match: re.Match[str], kind: str) -> FoundSecret:
    real = kind in _ALWAYS or is_random(match[0]) or _is_long(match[0])
    return FoundSecret(match.start(), match.end(), kind if real else "")


# Characters of a word in front of a glued token, and of the longest prefix.
_GLUE, _HEAD = 40, 28
# Prefixes that also end ordinary words: task-, monkey-, MSG.
_WORD_ENDS = frozenset({"sk-", "key-", "SK", "SG.", "sl.", "pul-", "eyJ"})


def _find_glued(text: str, heads: Sequence[tuple[str, str, str]]) -> Iterator[FoundSecret]:
    """Find tokens directly after a word: ``tokenghp_…``."""
    for run in _LONG.finditer(text):
        begin = run[0][: _GLUE + _HEAD]
        for head, kind, rest in heads:
            where = begin.find(head, 1)
            if not 0 < where <= _GLUE or is_random(begin[:where]):
                continue
            match = _pattern(head, rest, glued=True).match(text, run.start() + where)
            if match and (head not in _WORD_ENDS or _is_mixed(match[0][len(head) :])):
                yield _classify(match, kind)


_ALPHANUMERIC = re.compile("[A-Za-z0-9]{16,}")


def _is_mixed(text: str) -> bool:
    """Return True if *text* has a random run of mixed case, unlike hexadecimal hashes and names."""
    runs = _ALPHANUMERIC.findall(text)
    return any(is_random(run) and not (run.islower() or run.isupper()) for run in runs)


# A run of letters and digits longer than a word; placeholders have fewer different characters.
_RUN = re.compile(r"[A-Za-z0-9]{20,}")
_DIFFERENT = 8


def _is_long(text: str) -> bool:
    run = _RUN.search(text)
    if run is None or len(set(run[0])) < _DIFFERENT:
        return False
    return not (run[0].islower() and run[0].isalpha())


KIND = "private key"
# Maximum characters of an armoured key; RSA with 8192 bits takes 6,400.
LIMIT = 16 * 1024
# Characters between two runs of a key's body: a line break with the line prefix of a log, mail or
# diff, and the headers of old formats.
_GAP = 128
# Maximum distance from the start of a base64 armour to its name: `-----BEGIN ENCRYPTED `.
_BEFORE_NAME = 32
# The body of a key has runs at least this long; words are shorter.
_BASE64_RUN = re.compile(r"[A-Za-z0-9+/=]{16,}")
_BEGIN = re.compile(
    r"-----BEGIN (?:[A-Z0-9]{1,16} ){0,4}PRIVATE KEY(?: BLOCK)?-----"
    r"|Private-Lines: [0-9]{1,4}"  # PuTTY
)
# An incomplete heading at the end of a partial text.
_HALF_BEGIN = re.compile(r"-----B[A-Z0-9 ]{0,90}-{0,5}\Z")
_END = re.compile(r"-----END [A-Z0-9 ]{1,64}-----")
# In base64 only line breaks and indentation separate two lines.
_NEXT_LINE = re.compile(r"(?:[\s\"'+>|]|\\[nrt]){0,24}([A-Za-z0-9+/=]*)")


def encode_cores(
    text: bytes, encode: Callable[[bytes], bytes] = b64encode, group: int = 3, bits: int = 6
) -> Iterator[str]:
    """Yield *text* encoded at each offset within a *group* of bytes.

    One encoded character holds *bits* bits; characters that share bits with neighbours are omitted.
    """
    for before in range(group):
        padded = bytes(before) + text
        yield encode(padded).decode("ascii")[-(-before * 8 // bits) : len(padded) * 8 // bits]


_NAME_IN_BASE64 = tuple(encode_cores(b" PRIVATE KEY"))
_IN_BASE64 = re.compile("|".join(map(re.escape, _NAME_IN_BASE64)))


def find_private_keys(text: str) -> Iterator[FoundSecret]:
    """Find the private keys in *text*.

    A key without an end line ends with its body; a heading without a body is not a key.
    """
    if "PRIVATE KEY" in text or "Private-Lines" in text:
        yield from _find_armoured(text)
    if any(core in text for core in _NAME_IN_BASE64):
        yield from _find_in_base64(text)
    if half := _HALF_BEGIN.search(text, max(0, len(text) - 100)):
        yield FoundSecret(half.start(), len(text), "")


def _find_armoured(text: str) -> Iterator[FoundSecret]:
    at = 0
    while match := _BEGIN.search(text, at):
        begin, limit = match.start(), match.start() + LIMIT
        at = match.end()
        while at < limit and (run := _BASE64_RUN.search(text, at, min(limit, at + _GAP + 16))):
            at = _end_of_run(text, run.start(), limit)
        has_body = at > match.end()
        end = _END.search(text, at, at + _GAP)
        if end is not None:
            yield FoundSecret(begin, end.end(), KIND if has_body else "")
            at = end.end()
            continue
        if has_body:
            yield FoundSecret(begin, at, KIND)
        # More of the body, or its end line, may follow within this distance.
        yield FoundSecret(begin, min(len(text), limit, at + _GAP + 16), "")


def _find_in_base64(text: str) -> Iterator[FoundSecret]:
    at = 0
    while match := _IN_BASE64.search(text, at):
        begin, limit = match.start(), match.start() + LIMIT
        while begin > max(0, match.start() - _BEFORE_NAME) and (
            text[begin - 1].isalnum() or text[begin - 1] in "+/"
        ):
            begin -= 1
        end = _end_of_run(text, match.start(), limit)
        while end < limit:
            run = _NEXT_LINE.match(text, end, limit)
            if run is None or len(run[1]) < 16:
                break
            end = run.end()
        yield FoundSecret(begin, end, KIND)
        if run is not None and run.end() == len(text):  # it may continue
            yield FoundSecret(begin, len(text), "")
        at = end


def _end_of_run(text: str, start: int, limit: int) -> int:
    run = _BASE64_RUN.match(text, start, limit)
    return start + 16 if run is None else run.end()


# Characters of one value; an 8192-bit key in base64 has half of that.
_LIMIT = 16 * 1024
# Minimum length of a password, and of a generated key.
_PASSWORD, _KEY = 6, 10
# Minimum length of a session cookie; cookies with settings are shorter.
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
_PLACEHOLDER_WORD = re.compile(
    r"(?ai)your|example|placeholder|change[_-]?me|redacted|dummy|insert|replace|(?-i:xxxx|XXXX)|…|\.\.\."
    r"|hidden|removed"
)
# Characters at the beginning of a value that are searched for placeholder words.
_SEARCHED = 64
# Words of code, paths and prose; a value made of them alone is not a secret.
_WORDS = re.compile(
    r"""(?ax)
    [\~./]* [A-Za-z_]? [a-z]+ (?: [_./:-]+ [a-z]+ | [_./:-] [0-9]{1,3} )* [/.]*  # a_name, a/path
    | [A-Z]+ (?: [_-] [A-Z0-9]{1,12} )*                    # SOME_NAME
    | _{0,2} [A-Za-z]? [a-z]+ (?: [A-Z][a-z]{2,} | [A-Z]{2,5}(?=[A-Z][a-z]|$) )* (?:\.[A-Za-z]+)*
    | [a-z][a-z0-9+.-]{0,16}://.*                          # a URL: looked into elsewhere
    """
)


def _is_password(value: str) -> bool:
    """Return True if *value* is a password, not a word, name or placeholder."""
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
    has_form = _PLACEHOLDER.fullmatch(value) is not None
    return has_form or _PLACEHOLDER_WORD.search(value, 0, _SEARCHED) is not None


def _is_words(value: str) -> bool:
    return not is_random(value) and _WORDS.fullmatch(value) is not None


# Separator of a name and its value: in code, JSON, or JSON within JSON.
_QUOTE = r"""\\{0,3}["'`]?"""
_IS = rf"""(?:
    {_QUOTE}\]?[ \t]{{0,8}}(?: :=|=>|={{1,2}}|:|%3d )[ \t]{{0,8}}(?:[a-z]{{1,2}}(?=["']))?{_QUOTE}
  | \\{{0,3}}["'][ \t]{{0,2}},[ \t]{{0,2}}\\{{0,3}}["']
  | >
)"""
# A quoted value ends at the quote; a bare one is not a call or index: `getpass()`, `environ["X"]`.
# The possessive `+` prevents matching only a part of those.
_VALUE = rf"""(?:
    (?<=["'`]) (?P<quoted> [^\s"'`\\]{{3,{_LIMIT}}}+ )
  | (?<!["'`]) (?P<bare> [^\s"'`\\<>,;&(){{}}\[\]|]{{3,{_LIMIT}}}+ ) (?![(\[{{])
)"""
# A `key` is secret only after one of these words, with or without a separator.
_KEYS = (
    "access", "account", "api", "app", "auth", "client", "consumer", "deploy", "encryption",
    "license", "master", "private", "secret", "service", "shared", "signing", "storage",
    "subscription",
)  # fmt: skip
_SECRET_KEY = "|".join(f"(?<={word}[_. -]key)|(?<={word}key)" for word in _KEYS)
# Pagination tokens are not secret, and callers need them.
_NO_PAGE = "".join(rf"(?<!{word}token)(?<!{word}[_-]token)" for word in ("next", "page", "sync"))


class _Context(msgspec.Struct, frozen=True):
    """A context in which a value is a secret."""

    kind: str
    # A text without it is not searched.
    hint: str
    # Pattern for lower-case text.
    source: str
    # Decides on the value.
    is_secret: Callable[[str], bool]

    @property
    def pattern(self) -> re.Pattern[str]:
        """The pattern, compiled when a text first contains the hint: most never do."""
        return _compile(self.source)


@cache
def _compile(source: str) -> re.Pattern[str]:
    return re.compile(source, re.VERBOSE | re.MULTILINE)


def _named(kind: str, hint: str, rest: str, is_secret: Callable[[str], bool]) -> _Context:
    """Return a context for values with a name that ends with *hint*, *rest*, and maybe a number."""
    name = rf"{hint}{rest}(?:[_-]?[0-9]{{1,2}})?"
    return _Context(kind, hint, f"{name}{_IS}{_VALUE}", is_secret)


# Patterns start with their hint where possible, which makes the search fast.
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
    _Context("secret", "--", rf"""(?<![a-z0-9-])--(?:[a-z0-9]{{1,16}}-){{0,3}}
        (?:passw(?:or)?d|passphrase|token|secret|key)[ \t]{{1,4}}{_QUOTE}{_VALUE}""", _is_password),
    _Context("authorization", "authorization", rf"""authorization
        {_QUOTE}[ \t]{{0,8}}[:=,][ \t]{{0,8}}{_QUOTE}(?:[a-z][a-z0-9-]{{1,20}}[ \t]{{1,4}})?
        (?P<quoted>[a-z0-9._~+/=-]{{12,{_LIMIT}}}+)(?![(\[{{])""", _is_header),
    *(
        _Context("authorization", scheme, rf"""{scheme}(?<![a-z]{scheme})(?:[ \t]|%20|\+)
            [ \t]{{0,4}}(?P<quoted>[a-z0-9._~+/=-]{{12,{_LIMIT}}}+)""", _is_key)
        for scheme in ("bearer", "basic")
    ),
    # The last @ before the path ends the password, as in browsers.
    _Context("password in a URL", "://",
             r"""://[^\s/?\#@:"'<>]{0,256}:(?P<quoted>[^\s/?\#"'<>]{3,1024})@""", _is_any),
    *(
        _Context("signed URL", f"{name}=", rf"""{name}=(?<=[?&;]{name}=)
            (?P<quoted>[^\s"'<>&;\#\\]{{16,{_LIMIT}}}+)""", _is_key)
        for name in ("sig", "key")
    ),
    *(
        _Context("signed URL", f"{name}=",
                 rf"""{name}=(?P<quoted>[^\s"'<>&;\#\\]{{16,{_LIMIT}}}+)""", _is_key)
        for name in ("x-amz-signature", "x-goog-signature", "x-amz-security-token")
    ),
    *(
        _Context("password", option, rf"""{option}(?<![\w-]{option})(?:[ \t]{{1,4}}|=){_QUOTE}
            [^\s:"']{{1,128}}:(?P<quoted>[^\s"'`\\]{{4,1024}}+)""", _is_password)
        for option in ("-u", "--user", "--proxy-user")
    ),
    *(
        _Context("password", program, rf"""{program}[^\n|;&]{{0,100}}?[ \t]
            -(?:a[ \t]{{1,4}}|p[ \t]?){_QUOTE}(?P<quoted>[^\s"'`\\]{{4,1024}}+)""", _is_password)
        for program in ("mysql", "mariadb", "sshpass", "redis-cli")
    ),
    *(
        _Context("password", before.split()[0], rf"""{before}
            {_QUOTE}(?P<quoted>[^\s"'`\\]{{4,1024}}+)""", _is_password)
        for before in (
            r"login \s{1,8}\S{1,128}\s{1,8}password\s{1,8}",  # .netrc
            r"identified [ ]by[ ]",  # SQL
        )
    ),
    # Traditional crypt in /etc/shadow, which has no prefix.
    _Context("password hash", ":::", r""":!{0,2}(?P<quoted>[a-z0-9./]{13})
        :[0-9]{1,6}(?::[0-9]{0,6}){3}:::""", _is_any),
    *(
        _Context("password", f":{port}:", rf"""^[^\s:\#]{{1,255}}:{re.escape(port)}:[^\s:]{{1,63}}:
            [^\s:]{{1,63}}:(?P<quoted>[^\s:]{{4,256}}+)$""", _is_any)  # .pgpass
        for port in ("5432", "5433", "6432", "*")
    ),
)  # fmt: skip
_COOKIES = re.compile(r"""cookie["']?[ \t]{0,4}[:=][^\r\n]{0,8192}""")
_CRUMB = re.compile(r"[^\s;=:]{1,128}=(?P<value>[^\s;\"'\\]{3,4096}+)")


def find_in_context(text: str) -> Iterator[FoundSecret]:
    """Find the secrets in *text* that follow a name, header, option or URL."""
    # One character for one, so that positions are the same in *text*.
    lowered = text.replace("\u0130", "i").lower()
    for context in _CONTEXTS:
        if context.hint in lowered:
            yield from _search(context, text, lowered)
    if "cookie" in lowered:
        for header in _COOKIES.finditer(lowered):
            for crumb in _CRUMB.finditer(text, *header.span()):
                if _is_cookie(crumb["value"]):
                    yield FoundSecret(*crumb.span("value"), "cookie")


def _search(context: _Context, text: str, lowered: str) -> Iterator[FoundSecret]:
    for match in context.pattern.finditer(lowered):
        start, end = match.span("quoted")
        if start < 0:
            start, end = match.span("bare")
        kind = context.kind if context.is_secret(text[start:end]) else ""
        yield FoundSecret(start, end, kind)
