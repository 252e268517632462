"""Where a connection into the web may go: looked up once, checked, and connected to as checked."""

import socket
from collections.abc import Awaitable, Callable, Sequence

import trio

from elwood.foundation.net.addresses import is_public
from elwood.foundation.net.outcomes import Unreachable
from elwood.foundation.net.urls import is_address

# Asks DNS for the addresses of a host.
Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
# The port of a socket that is never sent from: any does, 9 discards.
_NO_PORT = 9


class WebRefused(Exception):
    """We do not fetch this, and trying again will not help; *why* is for the model.

    It is the fault of the URL, of where it leads, or a wish of the owner.  Nothing was sent to
    where it points; *text_from* names the host whose answer sent us there, if one did.
    """

    def __init__(self, why: str, text_from: str = "") -> None:
        super().__init__(why)
        self.why = why
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


class Pinned:
    """A route whose every address *allow* lets pass.

    One bad address among several refuses the host: which of them answers is chance.
    """

    def __init__(self, allow: Callable[[str], bool], resolve: Resolve) -> None:
        self._allow = allow
        self._resolve = resolve

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        """Give the addresses of *host*.  Raises WebRefused, Unreachable."""
        addresses = [host] if is_address(host) else await self._resolve(host, port)
        if not addresses:
            raise Unreachable(f"the name {host} is not known")
        if not all(map(self._allow, addresses)):
            raise WebRefused(f"{host} does not lead to a public address of the internet")
        return addresses
