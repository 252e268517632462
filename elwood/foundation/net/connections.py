"""HTTP/1.1 on Trio's streams: connections, and a pool that keeps them for the next request.

Every failure is Unreachable or Interrupted; their texts hold neither address nor key.
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

# Gives the addresses to try for a host and a port, in order; refuses by raising.
Route = Callable[[str, int], Awaitable[Sequence[str]]]
# Addresses of one host that are tried; each may take a time-out.
MAX_TRIED = 4
# Seconds to send a request, and to wait for one of the pool's connections.
WRITE_TIMEOUT = 60.0
POOL_TIMEOUT = 60.0
# Idle connections are closed before common servers close them (60 s), so that none dies in use.
KEEPALIVE = 45.0
MAX_IDLE = 20
# Seconds of silence within which no server closes a connection.
FRESH = 0.5
# Seconds between two looks at an idle connection; word of its end takes about as long to arrive.
LOOKED = 0.05
# Seconds of silence after which the system asks whether the other end is there, between its
# questions, and how many: a long poll over a way that is gone ends with it, not with its time-out.
_PROBES = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 2}
_SOCKET_OPTIONS = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)] + [
    (socket.IPPROTO_TCP, getattr(socket, name), value)
    for name, value in _PROBES.items()
    if hasattr(socket, name)
]
# Bytes that are read at once, and of all headers of an answer.
_PIECE, _MAX_HEAD = 1 << 16, 100 * 1024
# Where certificates lie on systems whose OpenSSL was built for another one.
_CERTIFICATES = (
    "/etc/ssl/cert.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/ssl/ca-bundle.pem",
)
# The name of one in a folder of them.
_CERTIFICATE = re.compile(r"[0-9a-fA-F]{8}\.\d")


class Unreachable(Exception):
    """No connection could be made: the request was surely not sent.

    *why* is in words for the operator and holds neither address nor key.
    """

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class Interrupted(Exception):
    """The request went out, at least in part, and no whole answer came: it may have acted.

    *stalled* says that nothing came for too long; otherwise the connection broke.
    """

    def __init__(self, why: str, *, stalled: bool = False) -> None:
        super().__init__(why)
        self.why = why
        self.stalled = stalled


class Origin(NamedTuple):
    """The server of a request; *unix_socket* is where it listens, if not at *host* and *port*."""

    scheme: str
    host: str
    port: int
    unix_socket: Path | None = None


class Network:
    """Opens streams; tests put another one in its place.  Raises OSError."""

    async def connect(self, host: str, port: int) -> trio.abc.Stream:
        stream = await trio.open_tcp_stream(host, port)
        for option in _SOCKET_OPTIONS:
            stream.setsockopt(*option)
        return stream

    async def connect_unix(self, path: Path) -> trio.abc.Stream:
        return await trio.open_unix_socket(path)

    async def start_tls(self, stream: trio.abc.Stream, host: str) -> trio.abc.Stream:
        """Raises BrokenResourceError if the other end is not *host*, or speaks no TLS."""
        trust().set_alpn_protocols(["http/1.1"])
        tls = trio.SSLStream(stream, trust(), server_hostname=host, https_compatible=True)
        await tls.do_handshake()
        return tls


class HttpConnection:
    """A stream that speaks HTTP/1.1, one exchange after another.

    The head and the body of a request go out in one piece: fewer calls of the system.
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
        # A server may answer, and close, before it has read everything: the answer counts.
        with _answering(WRITE_TIMEOUT), suppress(trio.BrokenResourceError):
            await self.stream.send_all(data)
            self._is_broken = False

    async def receive_head(self, timeout: float) -> h11.Response | h11.InformationalResponse:
        """Return the head of the answer, or that of an upgrade."""
        while True:
            event = self._next_event()
            if event is h11.NEED_DATA:
                await self._fill(timeout)
            elif isinstance(event, h11.Response) or (
                isinstance(event, h11.InformationalResponse) and event.status_code == 101
            ):
                return event

    async def receive(self, timeout: float) -> bytes:
        """Return more of the body; nothing at its end."""
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
        """Return more of what comes behind an upgrade; nothing at its end."""
        if not self._has_ended:
            self._has_ended = True
            if ahead := self._http.trailing_data[0]:
                return ahead
        with _answering(None):
            return bytes(await self.stream.receive_some(_PIECE))

    def renew(self, now: float) -> bool:
        """Get ready for another exchange; return False if there can be none."""
        is_done = self._http.our_state is h11.DONE and self._http.their_state is h11.DONE
        # What has come beyond the answer would pass for the next one.
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
                return False  # all that can come now is its end
            self._open_until = now + LOOKED
        return True

    def _next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        try:
            return self._http.next_event()
        except h11.RemoteProtocolError:
            why = "the connection was closed in the middle, or spoke no HTTP"
            raise Interrupted(why) from None

    async def _fill(self, timeout: float) -> None:
        with _answering(timeout):
            data = await self.stream.receive_some(_PIECE)
        self._open_until = trio.current_time() + FRESH
        self._http.receive_data(bytes(data))


class Pool:
    """At most so many *connections*, of which *idle* are kept for later requests."""

    def __init__(
        self, network: Network, connections: int, idle: int, route: Route | None, timeout: float
    ) -> None:
        self._network = network
        self._most_idle = idle
        self._route = route
        self._timeout = timeout
        self._places = trio.Semaphore(connections)
        self._idle: list[HttpConnection] = []

    async def take(self, origin: Origin) -> HttpConnection:
        """Return a connection to *origin*, for one exchange; then `give` it back."""
        try:
            self._places.acquire_nowait()
        except trio.WouldBlock:
            try:
                with trio.fail_after(POOL_TIMEOUT):
                    await self._places.acquire()
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
            while len(self._idle) > self._places.value:
                await _close(self._idle.pop(0).stream)
            return HttpConnection(origin, await self._open(origin))
        except BaseException:
            self._places.release()
            raise

    async def give(self, one: HttpConnection) -> None:
        """Keep *one*, or close it if its exchange has not ended well."""
        now = trio.current_time()
        try:
            if len(self._idle) < self._most_idle and one.renew(now):
                self._idle.append(one)
            else:
                await trio.aclose_forcefully(one.stream)
        finally:
            self._places.release()

    async def aclose(self) -> None:
        """Close all, those in use when they are given back."""
        self._most_idle = 0
        while self._idle:
            await _close(self._idle.pop().stream)

    async def _open(self, origin: Origin) -> trio.abc.Stream:
        network = self._network
        if origin.unix_socket is not None:
            with _opening(self._timeout):
                return await network.connect_unix(origin.unix_socket)
        hosts = [origin.host]
        if self._route is not None:  # no name is looked up after it
            hosts = list(await self._route(origin.host, origin.port))[:MAX_TRIED]
        stream = await self._connect(hosts, origin.port)
        if origin.scheme != "https":
            return stream
        try:
            with _opening(self._timeout):
                return await network.start_tls(stream, origin.host)
        except BaseException:
            await _close(stream)
            raise

    async def _connect(self, hosts: Sequence[str], port: int) -> trio.abc.Stream:
        for host in hosts[:-1]:
            with suppress(Unreachable), _opening(self._timeout):
                return await self._network.connect(host, port)
        with _opening(self._timeout):
            return await self._network.connect(hosts[-1], port)


async def _close(stream: trio.abc.Stream) -> None:
    with trio.CancelScope(shield=True):  # it does not wait
        await trio.aclose_forcefully(stream)


def socket_of(stream: trio.abc.Stream) -> trio.socket.SocketType | None:
    """Return the socket beneath *stream*, if there is one."""
    while isinstance(stream, trio.SSLStream):
        stream = stream.transport_stream
    return stream.socket if isinstance(stream, trio.SocketStream) else None


@cache
def trust() -> ssl.SSLContext:
    """Return what servers' certificates are judged by: the system's, or those of SSL_CERT_FILE.

    It is that of httpcore2, whose import costs 15 ms and 3 MB; it takes 5 MB.
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
def _opening(timeout: float) -> Iterator[None]:
    """Turn what can go wrong before a request is sent into Unreachable."""
    try:
        with trio.fail_after(timeout):
            yield
    except trio.TooSlowError:
        raise Unreachable("no connection in time") from None
    except UnicodeError:  # of the codec that looks names up
        raise Unreachable("the address has a part that is empty or too long") from None
    except (OSError, trio.BrokenResourceError) as error:
        raise Unreachable(_reason(error)) from None


@contextmanager
def _answering(timeout: float | None) -> Iterator[None]:
    """Turn what can go wrong after the first byte was sent into Interrupted."""
    try:
        with trio.fail_after(float("inf") if timeout is None else timeout):
            yield
    except trio.TooSlowError:
        raise Interrupted("no answer for too long", stalled=True) from None
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        raise Interrupted("the connection broke") from None


def _reason(error: BaseException) -> str:
    """Say why a connection failed, from the error at the root: in the system's own words."""
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
