"""Limits on web requests: domains, ports, rates and addresses.

Addresses must always be public, and URLs unambiguous (`urls`): no rule and no approval lifts that.
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

# Seconds over which requests are counted.
WINDOW = 60.0
# Seconds; smaller differences are rounding errors, and a wait for them would not move the clock.
_GRAIN = 1e-6

Destination = Literal["allowed", "ask", "blocked", "open"]


def destination(rules: EgressRules, host: str) -> Destination:
    """Classify the *host* of a Url by the rules; return "open" if no rule matches."""
    if _is_within(host, rules.blocked):
        return "blocked"
    if _is_within(host, rules.always_ask):
        return "ask"
    return "allowed" if _is_within(host, rules.allowed) else "open"


def refusal(rules: EgressRules, url: Url, hop: int) -> str | None:
    """Return why the rules forbid hop number *hop* of a request, to *url*, or None.

    Hop 0 is the original URL, approved if necessary; that approval does not cover redirects to
    domains in *always_ask*.

    >>> rules = EgressRules(always_ask=("bank.example",))
    >>> refusal(rules, Url("https", "bank.example", 443, "/"), 0)
    >>> refusal(rules, Url("https", "bank.example", 443, "/"), 1)
    'it redirects to bank.example; fetch that address in a call of its own'
    """
    match destination(rules, url.host):
        case "blocked":
            return f"the owner has blocked {url.host}"
        case "ask" if hop > 0:
            return f"it redirects to {url.host}; fetch that address in a call of its own"
        case _:
            return None


class Windows(msgspec.Struct):
    """Limit the requests of the last minute, per host and in total."""

    per_host: int
    total: int
    _sent: list[tuple[float, str]] = msgspec.field(default_factory=list)

    def wait(self, host: str, now: float) -> float:
        """Count a request to *host* and return 0, or return the seconds until it is allowed."""
        self._sent = [each for each in self._sent if now - each[0] < WINDOW - _GRAIN]
        to_host = [at for at, name in self._sent if name == host]
        bounds = (([at for at, _ in self._sent], self.total), (to_host, self.per_host))
        wait = max(at[-most] + WINDOW - now if len(at) >= most else 0.0 for at, most in bounds)
        if wait <= 0:
            self._sent.append((now, host))
        return wait


def _is_within(host: str, domains: tuple[str, ...]) -> bool:
    return any(host == each or host.endswith(f".{each}") for each in domains)


# --- public addresses -----------------------------------------------------------------------------
# Own lists of blocks, because libraries disagree, and ``ipaddress.is_private`` and ``is_global``
# are not reliable (58 of 230 tested addresses passed).  The blocks are those of IANA's
# special-purpose registries without public servers.

# Looks up the addresses of a host in DNS.
Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
# Port for a socket that never sends: any port works, 9 is "discard".
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
# Global unicast addresses; all others are loopback, mapped, local or multicast.
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
# Prefix of IPv4 addresses (in the last 32 bits) behind a public NAT64 (RFC 6052).
_NAT64 = IPv6Network("64:ff9b::/96")
# Upper half of an ISATAP interface identifier (RFC 5214); the lower half is an IPv4 address.
_ISATAP = (0x00005EFE, 0x02005EFE)


def is_public(address: str, own: Set[str] = frozenset()) -> bool:
    """Return True if *address* is reachable from the internet.

    *own* are the addresses of this machine: its services may rely on local access only.  Invalid
    addresses and addresses with a zone are not public.

    >>> is_public("1.1.1.1"), is_public("10.0.0.1"), is_public("100.64.0.1")
    (True, False, False)
    >>> is_public("2606:4700::1111"), is_public("::1"), is_public("::ffff:1.1.1.1")
    (True, False, False)
    >>> is_public("64:ff9b::101:101"), is_public("64:ff9b::7f00:1"), is_public("2002:101:101::")
    (True, False, False)
    >>> is_public("1.1.1.1", own={"1.1.1.1"}), is_public("fe80::1%eth0"), is_public("localhost")
    (False, False, False)
    """
    parsed = _parse_address(address)
    if parsed is None or parsed in {_parse_address(each) for each in own}:
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


def _parse_address(address: str) -> IPv4Address | IPv6Address | None:
    try:
        return None if "%" in address else ip_address(address)
    except ValueError:
        return None


class WebFailed(Exception):
    """A request was refused or failed; *why* is for the model.

    If *is_sent*, the request was sent, at least in part, and may have acted.  *text_from* is the
    host that redirected here, or "".
    """

    def __init__(self, why: str, *, is_sent: bool = False, text_from: str = "") -> None:
        super().__init__(why)
        self.why = why
        self.is_sent = is_sent
        self.text_from = text_from


async def resolve_host(host: str, port: int) -> Sequence[str]:
    """Look up *host* with the system's resolver; return an empty list on failure."""
    try:
        found = await trio.socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError:
        return []
    return [str(each[4][0]) for each in found]


def is_reachable(address: str) -> bool:
    """Return True if *address* is public and does not belong to this machine.

    The system knows its addresses: it sends to each of them from the same address.
    """
    if not is_public(address):
        return False
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((address, _NO_PORT))  # a datagram socket sends nothing here
        except OSError:
            return True  # no route to it
        return is_public(address, own={str(probe.getsockname()[0])})


def pin_route(allow: Callable[[str], bool], resolve: Resolve) -> Route:
    """Return a route that refuses a host unless *allow* accepts all of its addresses.

    A single bad address refuses the host, because any of its addresses may be used.  The route
    raises WebFailed and Unreachable.
    """

    async def route(host: str, port: int) -> Sequence[str]:
        addresses = [host] if is_address(host) else await resolve(host, port)
        if not addresses:
            raise Unreachable(f"the host name {host} cannot be resolved")
        if not all(map(allow, addresses)):
            raise WebFailed(f"{host} has no public internet address")
        return addresses

    return route
