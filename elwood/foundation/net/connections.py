"""HTTP/1.1 on Trio's streams: connections, and a pool that reuses them.

Every failure is Unreachable or Interrupted; their texts contain neither address nor key.
"""

import os
import re
import socket
import ssl
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

import h11
import trio

# Returns the addresses to try for a host and a port, in order; raises to refuse.
Route = Callable[[str, int], Awaitable[Sequence[str]]]
# Maximum addresses tried per host; each may take a timeout.
MAX_TRIED = 4
# Seconds to send a request, and to wait for a connection of the pool.
WRITE_TIMEOUT = 60.0
POOL_TIMEOUT = 60.0
# Seconds until an idle connection is closed.  Common servers close at 60 s, and a connection must
# not close during a request.
KEEPALIVE = 45.0
MAX_IDLE = 20
# Seconds after the last data during which no server closes a connection.
FRESH = 0.5
# Seconds between two checks of an idle connection; a close takes about as long to arrive.
LOOKED = 0.05
# TCP keepalive: seconds of silence before the first probe, seconds between probes, and their
# number.  It ends a long poll over a dead connection before its timeout does.
_PROBES = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 2}
_SOCKET_OPTIONS = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)] + [
    (socket.IPPROTO_TCP, getattr(socket, name), value)
    for name, value in _PROBES.items()
    if hasattr(socket, name)
]
# Bytes per read, and bytes of all headers of a response.
_PIECE, _MAX_HEAD = 1 << 16, 100 * 1024
# Certificate files of systems whose OpenSSL was built for another system.
_CERTIFICATES = (
    "/etc/ssl/cert.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/ssl/ca-bundle.pem",
)
# File name in a certificate folder.
_CERTIFICATE = re.compile(r"[0-9a-fA-F]{8}\.\d")


class Unreachable(Exception):
    """The connection failed: the request was certainly not sent.

    *why* is for the operator and contains neither address nor key.
    """

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class Interrupted(Exception):
    """The request was sent, at least in part, without a complete response: it may have acted.

    *stalled* is True after a read timeout, *too_long* for a response above its limit; otherwise
    the connection broke.
    """

    def __init__(self, why: str, *, stalled: bool = False, too_long: bool = False) -> None:
        super().__init__(why)
        self.why = why
        self.stalled = stalled
        self.too_long = too_long


class Origin(NamedTuple):
    """The server of a request; *unix_socket* replaces *host* and *port*."""

    scheme: str
    host: str
    port: int
    unix_socket: Path | None = None


class Network:
    """Open streams; tests replace it.  Raises OSError."""

    async def connect(self, host: str, port: int) -> trio.abc.Stream:
        stream = await trio.open_tcp_stream(host, port)
        for option in _SOCKET_OPTIONS:
            stream.setsockopt(*option)
        return stream

    async def connect_unix(self, path: Path) -> trio.abc.Stream:
        return await trio.open_unix_socket(path)

    async def start_tls(self, stream: trio.abc.Stream, host: str) -> trio.abc.Stream:
        """Raises BrokenResourceError if the peer is not *host*, or does not speak TLS."""
        trust().set_alpn_protocols(["http/1.1"])
        tls = trio.SSLStream(stream, trust(), server_hostname=host, https_compatible=True)
        await tls.do_handshake()
        return tls


class HttpConnection:
    """A stream that speaks HTTP/1.1, one exchange after another.

    It sends the head and the body of a request together, to save system calls.
    """

    def __init__(self, origin: Origin, stream: trio.abc.Stream) -> None:
        self.origin = origin
        self.stream = stream
        self.expires = 0.0
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MAX_HEAD)
        self._is_broken = self._has_ended = False
        self._open_until = 0.0

    async def send(self, request: h11.Request, body: bytes | None) -> None:
        """Send a whole request."""
        self._has_ended = False
        data = self._http.send(request) or b""
        if body:
            data += self._http.send(h11.Data(body)) or b""
        self._http.send(h11.EndOfMessage())
        self._is_broken = True
        # A server may respond and close before it has read everything: the response counts.
        with _map_response_errors(WRITE_TIMEOUT), suppress(trio.BrokenResourceError):
            await self.stream.send_all(data)
            self._is_broken = False

    async def receive_head(self, timeout: float) -> h11.Response | h11.InformationalResponse:
        """Return the head of the response, or of an upgrade."""
        while True:
            event = self._next_event()
            if event is h11.NEED_DATA:
                await self._fill(timeout)
            elif isinstance(event, h11.Response) or (
                isinstance(event, h11.InformationalResponse) and event.status_code == 101
            ):
                return event

    async def receive(self, timeout: float) -> bytes:
        """Return more of the body; empty at its end."""
        while not self._has_ended:
            event = self._next_event()
            if event is h11.NEED_DATA:
                await self._fill(timeout)
            elif not isinstance(event, h11.Data):
                self._has_ended = True
            elif event.data:
                return bytes(event.data)
        return b""

    async def receive_raw(self) -> bytes:
        """Return more of the data after an upgrade; empty at its end."""
        if not self._has_ended:
            self._has_ended = True
            if ahead := self._http.trailing_data[0]:
                return ahead
        with _map_response_errors(None):
            return bytes(await self.stream.receive_some(_PIECE))

    def renew(self, now: float) -> bool:
        """Prepare for another exchange; return False if the connection cannot be reused."""
        is_done = self._http.our_state is h11.DONE and self._http.their_state is h11.DONE
        # Data after the response would be read as the next response.
        if self._is_broken or not is_done or self._http.trailing_data[0]:
            return False
        self._http.start_next_cycle()
        self.expires = now + KEEPALIVE
        return True

    def is_open(self, now: float) -> bool:
        """Return False if it has been idle for too long, or the server has closed it."""
        if now > self.expires:
            return False
        if now >= self._open_until:
            if (sock := socket_of(self.stream)) is not None and sock.is_readable():
                return False  # an idle connection can only become readable by closing
            self._open_until = now + LOOKED
        return True

    def _next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        try:
            return self._http.next_event()
        except h11.RemoteProtocolError:
            why = "the connection was closed too early, or the server does not speak HTTP"
            raise Interrupted(why) from None

    async def _fill(self, timeout: float) -> None:
        with _map_response_errors(timeout):
            data = await self.stream.receive_some(_PIECE)
        self._open_until = trio.current_time() + FRESH
        self._http.receive_data(bytes(data))


class Pool:
    """A pool of at most *connections* connections; *idle* of them are kept for later requests."""

    def __init__(
        self, network: Network, connections: int, idle: int, route: Route | None, timeout: float
    ) -> None:
        self._network = network
        self._most_idle = idle
        self._route = route
        self._timeout = timeout
        self._slots = trio.Semaphore(connections)
        self._idle: list[HttpConnection] = []

    async def take(self, origin: Origin) -> HttpConnection:
        """Return a connection to *origin* for one exchange; return it with `give`."""
        try:
            self._slots.acquire_nowait()
        except trio.WouldBlock:
            try:
                with trio.fail_after(POOL_TIMEOUT):
                    await self._slots.acquire()
            except trio.TooSlowError:
                raise Unreachable("all connections are in use") from None
        try:
            now = trio.current_time()
            ended = [one for one in self._idle if not one.is_open(now)]
            self._idle = [one for one in self._idle if one not in ended]
            for one in ended:
                await _close(one.stream)
            for one in reversed(self._idle):
                if one.origin == origin:
                    self._idle.remove(one)
                    return one
            while len(self._idle) > self._slots.value:
                await _close(self._idle.pop(0).stream)
            return HttpConnection(origin, await self._open(origin))
        except BaseException:  # re-raised; the place of the pool must not be lost
            self._slots.release()
            raise

    async def give(self, one: HttpConnection) -> None:
        """Keep *one* for reuse, or close it if its exchange did not end cleanly."""
        now = trio.current_time()
        try:
            if len(self._idle) < self._most_idle and one.renew(now):
                self._idle.append(one)
            else:
                await trio.aclose_forcefully(one.stream)
        finally:
            self._slots.release()

    async def aclose(self) -> None:
        """Close all connections; those in use are closed by `give`."""
        self._most_idle = 0
        while self._idle:
            await _close(self._idle.pop().stream)

    async def _open(self, origin: Origin) -> trio.abc.Stream:
        network = self._network
        if origin.unix_socket is not None:
            with _map_connect_errors(self._timeout):
                return await network.connect_unix(origin.unix_socket)
        hosts = [origin.host]
        if self._route is not None:  # there is no DNS lookup after it
            hosts = list(await self._route(origin.host, origin.port))[:MAX_TRIED]
        stream = await self._connect(hosts, origin.port)
        if origin.scheme != "https":
            return stream
        try:
            with _map_connect_errors(self._timeout):
                return await network.start_tls(stream, origin.host)
        except BaseException:  # re-raised; the stream must not stay open
            await _close(stream)
            raise

    async def _connect(self, hosts: Sequence[str], port: int) -> trio.abc.Stream:
        for host in hosts[:-1]:
            with suppress(Unreachable), _map_connect_errors(self._timeout):
                return await self._network.connect(host, port)
        with _map_connect_errors(self._timeout):
            return await self._network.connect(hosts[-1], port)


async def _close(stream: trio.abc.Stream) -> None:
    with trio.CancelScope(shield=True):  # it does not wait
        await trio.aclose_forcefully(stream)


def socket_of(stream: trio.abc.Stream) -> trio.socket.SocketType | None:
    """Return the socket of *stream*, or None."""
    while isinstance(stream, trio.SSLStream):
        stream = stream.transport_stream
    return stream.socket if isinstance(stream, trio.SocketStream) else None


@cache
def trust() -> ssl.SSLContext:
    """Return the TLS context: it trusts the system's certificates, or those of SSL_CERT_FILE.

    It equals the context of httpcore2, whose import costs 15 ms and 3 MB; it takes 5 MB.
    """
    if sys.platform != "linux":
        import httpcore2

        return httpcore2.default_ssl_context()
    file, folder = os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")
    if file or folder:
        return ssl.create_default_context(cafile=file or None, capath=None if file else folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    paths = ssl.get_default_verify_paths()
    file = paths.openssl_cafile if os.path.isfile(paths.openssl_cafile) else None
    folder = paths.openssl_capath if os.path.isdir(paths.openssl_capath) else None
    if not file and not (folder and any(map(_CERTIFICATE.fullmatch, os.listdir(folder)))):
        folder = None
        file = next(filter(os.path.isfile, _CERTIFICATES), None)
    if file or folder:
        context.load_verify_locations(file, folder)
    return context


@contextmanager
def _map_connect_errors(timeout: float) -> Iterator[None]:
    """Turn errors before a request is sent into Unreachable."""
    try:
        with trio.fail_after(timeout):
            yield
    except trio.TooSlowError:
        raise Unreachable("connecting took too long") from None
    except UnicodeError:  # from the IDNA codec
        raise Unreachable("the host name has a part that is empty or too long") from None
    except (OSError, trio.BrokenResourceError) as error:
        raise Unreachable(_describe_root(error)) from None


@contextmanager
def _map_response_errors(timeout: float | None) -> Iterator[None]:
    """Turn errors after the first sent byte into Interrupted."""
    try:
        with trio.fail_after(float("inf") if timeout is None else timeout):
            yield
    except trio.TooSlowError:
        raise Interrupted("the server did not answer in time", stalled=True) from None
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        raise Interrupted("the connection broke") from None


def _describe_root(error: BaseException) -> str:
    """Describe the root cause of a failed connection, in the words of the system."""
    root = error
    while (deeper := root.__cause__ or root.__context__) is not None:
        root = deeper
    if isinstance(root, BaseExceptionGroup):
        root = root.exceptions[0]
    if isinstance(root, ssl.SSLError):
        return f"TLS failed: {getattr(root, 'verify_message', '') or root.reason}"
    if isinstance(root, OSError) and root.errno is not None:
        # Trio puts the address into strerror; a resolver's codes are negative.
        words = os.strerror(root.errno) if root.errno > 0 else root.strerror
        return f"cannot connect: {words}"
    return "cannot connect"
