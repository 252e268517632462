"""What may leave Elwood for the web: whose domains, which ports, how often, to which addresses.

That an address is public, and a URL understood in one way only (`urls`), is checked always: no rule
and no approval lifts that.
"""

import socket
from collections.abc import Awaitable, Callable, Sequence, Set
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Literal

import msgspec
import trio

from elwood.foundation.net.http import Route, Unreachable
from elwood.foundation.net.settings import EgressRules
from elwood.foundation.net.urls import Url, is_address

# Seconds in which requests are counted.
WINDOW = 60.0
# Differences below this (seconds) are rounding: waiting for them would not move the clock.
_GRAIN = 1e-6

Destination = Literal["allowed", "ask", "blocked", "open"]


def destination(rules: EgressRules, host: str) -> Destination:
    """Say what the rules hold of *host*, which is one of a Url; "open" if they do not name it."""
    if _is_within(host, rules.blocked):
        return "blocked"
    if _is_within(host, rules.always_ask):
        return "ask"
    return "allowed" if _is_within(host, rules.allowed) else "open"


def refusal(rules: EgressRules, url: Url, hop: int) -> str | None:
    """Say why the rules forbid hop number *hop* of a request, to *url*; None if they do not.

    Hop 0 is what was asked for and, where that is needed, approved; a redirect to a domain that
    must be asked for is not covered by it.

    >>> rules = EgressRules(always_ask=("bank.example",))
    >>> refusal(rules, Url("https", "bank.example", 443, "/"), 0)
    >>> refusal(rules, Url("https", "bank.example", 443, "/"), 1)
    'it redirects to bank.example, which must be asked for by itself'
    """
    match destination(rules, url.host):
        case "blocked":
            return f"the owner has blocked {url.host}"
        case "ask" if hop > 0:
            return f"it redirects to {url.host}, which must be asked for by itself"
        case _:
            return None


class Windows(msgspec.Struct):
    """Counts the requests of the last minute, of which at most *total* are made."""

    per_host: int
    total: int
    _asked: list[tuple[float, str]] = msgspec.field(default_factory=list)

    def wait(self, host: str, now: float) -> float:
        """Count a request to *host*, and return 0; or say in how many seconds it may be made."""
        self._asked = [each for each in self._asked if now - each[0] < WINDOW - _GRAIN]
        theirs = [at for at, name in self._asked if name == host]
        bounds = (([at for at, _ in self._asked], self.total), (theirs, self.per_host))
        wait = max(at[-most] + WINDOW - now if len(at) >= most else 0.0 for at, most in bounds)
        if wait <= 0:
            self._asked.append((now, host))
        return wait


def _is_within(host: str, domains: tuple[str, ...]) -> bool:
    return any(host == each or host.endswith(f".{each}") for each in domains)


# --- public addresses -----------------------------------------------------------------------------
# Own lists of blocks, because libraries disagree, and ``ipaddress.is_private`` and ``is_global``
# are no filter (of 230 that we tried 58 got through).  The blocks are those of IANA's
# special-purpose registries that do not lead to a public server.

# Asks DNS for the addresses of a host.
Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
# The port of a socket that is never sent from: any does, 9 discards.
_NO_PORT = 9
_NOT_PUBLIC_4 = [
    IPv4Network(block)
    for block in (
        "0.0.0.0/8",  # this host
        "10.0.0.0/8",  # private
        "100.64.0.0/10",  # carrier-grade NAT
        "127.0.0.0/8",  # loopback
        "168.63.129.16/32",  # the host of an Azure machine: public by number only
        "169.254.0.0/16",  # link local, and the metadata of clouds
        "172.16.0.0/12",  # private
        "192.0.0.0/24",  # protocol assignments
        "192.0.2.0/24",  # documentation
        "192.88.99.0/24",  # relays of 6to4
        "192.168.0.0/16",  # private
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, broadcast
    )
]
# All that is handed out as global unicast; what lies outside is loopback, mapped, local, multicast.
_GLOBAL_6 = IPv6Network("2000::/3")
_NOT_PUBLIC_6 = [
    IPv6Network(block)
    for block in (
        "2001::/23",  # protocol assignments: Teredo, benchmarks, ORCHID
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4
        "3fff::/20",  # documentation
    )
]
# The one prefix whose last 32 bits are an IPv4 address that a public NAT64 reaches (RFC 6052).
_NAT64 = IPv6Network("64:ff9b::/96")
# The upper half of an interface identifier of ISATAP (RFC 5214), whose lower half is IPv4.
_ISATAP = (0x00005EFE, 0x02005EFE)


def is_public(address: str, own: Set[str] = frozenset()) -> bool:
    """Tell whether *address* is one that anybody on the internet could connect to.

    *own* are the addresses of this machine: what listens on them may count on being reached from
    inside only.  What is no address, or has a zone, is not public.

    >>> is_public("1.1.1.1"), is_public("10.0.0.1"), is_public("100.64.0.1")
    (True, False, False)
    >>> is_public("2606:4700::1111"), is_public("::1"), is_public("::ffff:1.1.1.1")
    (True, False, False)
    >>> is_public("64:ff9b::101:101"), is_public("64:ff9b::7f00:1"), is_public("2002:101:101::")
    (True, False, False)
    >>> is_public("1.1.1.1", own={"1.1.1.1"}), is_public("fe80::1%eth0"), is_public("localhost")
    (False, False, False)
    """
    parsed = _parsed(address)
    if parsed is None or parsed in {_parsed(each) for each in own}:
        return False
    if isinstance(parsed, IPv4Address):
        return _is_public_4(parsed)
    if parsed in _NAT64:
        return _is_public_4(IPv4Address(int(parsed) & 0xFFFFFFFF))
    return (
        parsed in _GLOBAL_6
        and not any(parsed in block for block in _NOT_PUBLIC_6)
        and (int(parsed) >> 32) & 0xFFFFFFFF not in _ISATAP
    )


def _is_public_4(address: IPv4Address) -> bool:
    return not any(address in block for block in _NOT_PUBLIC_4)


def _parsed(address: str) -> IPv4Address | IPv6Address | None:
    try:
        return None if "%" in address else ip_address(address)
    except ValueError:
        return None


class WebFailed(Exception):
    """We do not fetch this, or the other side or the way there failed; *why* is for the model.

    *is_sent* says that the request went out, at least in part: it may have acted.  *text_from*
    names the host whose answer sent us there, if one did.
    """

    def __init__(self, why: str, *, is_sent: bool = False, text_from: str = "") -> None:
        super().__init__(why)
        self.why = why
        self.is_sent = is_sent
        self.text_from = text_from


async def resolved(host: str, port: int) -> Sequence[str]:
    """Look *host* up with the resolver of the system; no answer is an empty list."""
    try:
        found = await trio.socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError:
        return []
    return [str(each[4][0]) for each in found]


def is_reachable(address: str) -> bool:
    """Tell whether *address* is public and not one of this machine's own.

    The system says which: what it would send to itself it would send from the same address.
    """
    if not is_public(address):
        return False
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((address, _NO_PORT))  # of a datagram socket: nothing is sent
        except OSError:
            return True  # there is no way there at all
        return is_public(address, own={str(probe.getsockname()[0])})


def pinned(allow: Callable[[str], bool], resolve: Resolve) -> Route:
    """Make a route whose every address *allow* lets pass.

    One bad address among several refuses the host: which of them answers is chance.  Raises
    WebFailed and Unreachable.
    """

    async def route(host: str, port: int) -> Sequence[str]:
        addresses = [host] if is_address(host) else await resolve(host, port)
        if not addresses:
            raise Unreachable(f"the name {host} is not known")
        if not all(map(allow, addresses)):
            raise WebFailed(f"{host} does not lead to a public address of the internet")
        return addresses

    return route
