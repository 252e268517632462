"""Strict URL parser.  It rejects URLs that other parsers could read differently.

URL parsers disagree: a URL that is harmless to one leads another to an internal address.  So
ambiguous URLs are refused, not repaired.
"""

import re
import unicodedata
from collections.abc import Collection
from ipaddress import IPv6Address
from urllib.parse import quote, urljoin

import msgspec

# Ports of web servers; services on other ports could be attacked with a web request.
PORTS = (80, 443, 8080, 8443)
# Characters of a URL.  Common servers reject longer ones, or they exfiltrate data.
MAX_URL = 4096
# Redirects followed for one request.
MAX_HOPS = 5
# Characters of a DNS name (RFC 1035).
MAX_NAME = 253

_DEFAULT_PORTS = {"http": 80, "https": 443}
_WHOLE = re.compile(r"(?P<scheme>[A-Za-z]+)://(?P<authority>[^/?#]*)(?P<rest>.*)")
_AUTHORITY = re.compile(r"(?P<host>\[[^\[\]]*\]|[^\[\]:@]*)(?::(?P<port>[1-9][0-9]{0,4}))?")
_QUAD = re.compile(r"(?:(?:0|[1-9]\d?|1\d\d|2[0-4]\d|25[0-5])(?:\.(?!\Z)|\Z)){4}", re.ASCII)
# A last label that parsers may read as a number (WHATWG URL, "ends in a number").
_NUMBER = re.compile(r"\d+|0x[\da-f]*", re.ASCII)
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
# Categories of invisible characters.
_INVISIBLE = {"Cc", "Cf", "Co", "Cs", "Zl", "Zp", "Zs"}
# RFC 5892: LetterDigits, and the exceptions that the check in `_encode_label` would refuse.
_WORD = {"Ll", "Lo", "Lm", "Mn", "Mc", "Nd"}
_EXCEPTIONS = "\u00df\u03c2\u3007"
# Names that are never public (RFC 6761, 6762, 7686, 8375, and ICANN for "internal").
_LOCAL = ("localhost", "localdomain", "local", "internal", "home.arpa", "onion")
# Not percent-encoded in a path (RFC 3986) and in a query.
_PATH = "/%:@!$&'()*+,;=~"
_QUERY = _PATH + "?"


class RefusedUrl(msgspec.Struct, frozen=True):
    """A refused URL; *why* is a sentence for the model."""

    why: str


class Url(msgspec.Struct, frozen=True):
    """A URL accepted by the strict parser."""

    scheme: str
    # A name in lower-case ASCII without a final dot, or an address without brackets.
    host: str
    port: int
    # The path and the query, as sent.
    target: str

    @property
    def text(self) -> str:
        """The URL in its normal form."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == _DEFAULT_PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{host}{port}{self.target}"


def parse(url: str, ports: Collection[int] = PORTS) -> Url | RefusedUrl:
    """Parse *url* strictly; the fragment is dropped, because it is never sent."""
    if len(url) > MAX_URL:
        return RefusedUrl(f"the URL is longer than {MAX_URL} characters")
    if any(unicodedata.category(char) in _INVISIBLE for char in url):
        return RefusedUrl("the URL has a space or an invisible character; write it percent-encoded")
    if "\\" in url:
        return RefusedUrl("the URL has a backslash; write it as %5C")
    whole = _WHOLE.fullmatch(url)
    if whole is None:
        return RefusedUrl("this is not a full URL; it must begin with http:// or https://")
    scheme = whole["scheme"].lower()
    if scheme not in _DEFAULT_PORTS:
        return RefusedUrl("only http and https are fetched")
    authority = whole["authority"]
    if "@" in authority:
        return RefusedUrl("the URL has a user name or a password in it")
    parts = _AUTHORITY.fullmatch(authority)
    if parts is None:
        return RefusedUrl("the host or the port of the URL is malformed")
    host = _parse_host(parts["host"])
    if isinstance(host, RefusedUrl):
        return host
    port = int(parts["port"] or _DEFAULT_PORTS[scheme])
    if port not in ports:
        return RefusedUrl(f"port {port} is not allowed")
    parsed = Url(scheme, host, port, _encode_target(whole["rest"]))
    if len(parsed.text) > MAX_URL:
        return RefusedUrl(f"the URL is longer than {MAX_URL} characters when percent-encoded")
    return parsed


def follow(url: Url, location: str, hops: int, ports: Collection[int] = PORTS) -> Url | RefusedUrl:
    """Return the target of a redirect from *url* to *location*, after *hops* redirects."""
    if hops >= MAX_HOPS:
        return RefusedUrl(f"it redirects more than {MAX_HOPS} times")
    # Before urljoin, which silently drops some control characters.
    if any(unicodedata.category(char) in _INVISIBLE for char in location) or "\\" in location:
        return RefusedUrl(
            "it redirects to a URL with a space, a backslash or an invisible character"
        )
    try:
        joined = urljoin(url.text, location)
    except ValueError:
        return RefusedUrl("it redirects to a malformed URL")
    return parse(joined, ports)


def domain(text: str) -> str | None:
    """Normalize a host or domain of a rule; return None if it is invalid."""
    text = text.strip().lower().removeprefix("*.")
    is_bare = ":" in text and not text.startswith("[")
    host = _parse_host(f"[{text}]" if is_bare else text, is_rule=True)
    return None if isinstance(host, RefusedUrl) else host


def is_address(host: str) -> bool:
    """Return True if the *host* of a Url is an address, False if it is a name.

    >>> is_address("1.1.1.1"), is_address("2606::1"), is_address("1.1.1.example")
    (True, True, False)
    """
    return ":" in host or _QUAD.fullmatch(host) is not None


def _parse_host(text: str, *, is_rule: bool = False) -> str | RefusedUrl:
    if text.startswith("["):
        try:
            return str(IPv6Address("" if "%" in text else text[1:-1]))
        except ValueError:
            return RefusedUrl("the host in brackets is not an IPv6 address")
    labels = [_encode_label(label) for label in text.removesuffix(".").split(".")]
    known = [label for label in labels if label is not None]
    if len(known) < len(labels):
        return RefusedUrl("the host name is not valid")
    name = ".".join(known)
    if _NUMBER.fullmatch(known[-1]):
        if _QUAD.fullmatch(text):
            return text
        return RefusedUrl(
            "the host is a number in an unusual form; write it as four decimal numbers"
        )
    if len(name) > MAX_NAME:
        return RefusedUrl(f"the host name is longer than {MAX_NAME} characters")
    if is_rule:
        return name
    if len(known) == 1 or any(f".{name}".endswith(f".{local}") for local in _LOCAL):
        return RefusedUrl("the host name belongs to a local network")
    return name


def _encode_label(label: str) -> str | None:
    """Return the ASCII form of one label of a name, or None if it would need a mapping first.

    A non-ASCII label must be stable under case folding and compatibility composition, and consist
    of letters, marks and digits: RFC 5892 without a previous mapping (so no full-width digits).
    """
    label = label.lower() if label.isascii() else label
    if not label.isascii():
        stable = "".join(char for char in label if char not in _EXCEPTIONS)
        if (
            unicodedata.normalize("NFKC", stable.casefold()) != stable
            or unicodedata.normalize("NFC", label) != label
            or any(unicodedata.category(char) not in _WORD and char != "-" for char in label)
            or unicodedata.category(label[0]).startswith("M")
        ):
            return None
        label = "xn--" + label.encode("punycode").decode("ascii")
    return label if _LABEL.fullmatch(label) else None


def _encode_target(rest: str) -> str:
    path, mark, query = rest.partition("#")[0].partition("?")
    return (quote(path, _PATH) or "/") + mark + quote(query, _QUERY)
