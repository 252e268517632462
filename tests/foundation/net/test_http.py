"""The HTTP client: certain and uncertain failures, and errors without secrets."""

import gzip
import random
import socket
import ssl
import struct
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import httpcore2
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock, memory_stream_pair, wait_all_tasks_blocked

from elwood.foundation.net import connections
from elwood.foundation.net.connections import FRESH, LOOKED, POOL_TIMEOUT, socket_of, trust
from elwood.foundation.net.http import (
    MAX_NAME,
    Answer,
    Client,
    Interrupted,
    Unreachable,
    clean_file_name,
)
from tests.fake_http import Reply, Request, replying, serving

# A timeout in seconds that is enough for the slowest machine.
PATIENCE = 60.0
SECRET = "123456789:AAEhBOweik6ad9r_QXMENQjcrGbqCr4K-bc"


@asynccontextmanager
async def run_server(*replies: Reply) -> AsyncIterator[str]:
    left = list(replies)

    async def answer(request: Request) -> Reply:
        await trio.lowlevel.checkpoint()
        return left.pop(0) if left else Reply(pieces=(request.body,))

    async with serving(answer) as url:
        yield f"{url}/bot{SECRET}/getMe?q=%20x"


async def post(client: Client, url: str, **given: float) -> Answer:
    headers = {"x-api-key": SECRET}
    timeout = given.get("read_timeout", PATIENCE)
    limit = int(given.get("limit", 1000))
    return await client.post_json(url, b"{}", headers=headers, read_timeout=timeout, limit=limit)


def check_hidden(error: BaseException) -> None:
    """Check that neither the error nor its traceback contains the secret or the address."""
    text = "".join(traceback.format_exception(error, chain=True))
    shown = "\n".join(line for line in text.splitlines() if not line.startswith("    "))
    assert SECRET not in shown + repr(error)
    assert "127.0.0.1" not in shown


async def test_a_response_arrives_whole_with_lower_case_headers() -> None:
    client = Client()
    reply = Reply(status=418, headers={"X-Thing": "a"}, pieces=(b"te", b"a"))
    async with replying(reply) as (url, seen):
        got = await client.post_json(
            f"{url}/p?q=1", b"{}", headers={"k": "v"}, read_timeout=PATIENCE
        )
        assert (got.status, got.headers["x-thing"], got.body) == (418, "a", b"tea")
        assert (await client.get(f"{url}/g", read_timeout=PATIENCE)).status == 418
        await client.aclose()
    assert [(r.method, r.path, r.body) for r in seen] == [
        ("POST", "/p?q=1", b"{}"),
        ("GET", "/g", b""),
    ]
    assert seen[0].headers["host"] == url.removeprefix("http://")
    assert seen[0].headers["content-type"] == "application/json"
    assert seen[0].headers["k"] == "v"


async def test_keepalive_is_enabled() -> None:
    """Without keepalive a long poll would not notice a lost connection before its timeout."""
    client = Client()
    async with (
        replying(Reply(pieces=(b"x",))) as (url, _),
        client.stream("GET", url, read_timeout=PATIENCE) as answer,
    ):
        connection = socket_of(answer._connection.stream)
        assert connection is not None
        assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 10
    await client.aclose()


@pytest.mark.parametrize(
    ("reply", "stalled"),
    [
        (Reply(end="close", end_at=-1), False),
        (Reply(end="reset", end_at=-1), False),
        (Reply(end="stall", end_at=-1), True),
        (Reply(pieces=(b"x" * 100,), end="close", end_at=50), False),
        (Reply(pieces=(b"x" * 100,), end="reset", end_at=50), False),
        (Reply(pieces=(b"x" * 100,), end="stall", end_at=50), True),
        (Reply(pieces=(b"x" * 100,), end="close", end_at=50, is_chunked=False), False),
        (Reply(pieces=(b"x" * 1001,)), False),
    ],
)
async def test_a_failure_after_sending_is_uncertain(reply: Reply, stalled: bool) -> None:
    client = Client()
    async with run_server(reply) as url:
        with pytest.raises(Interrupted) as caught:
            await post(client, url, read_timeout=0.1 if stalled else PATIENCE)
        assert caught.value.stalled == stalled
        check_hidden(caught.value)
        # The pool still works.
        assert (await post(client, url)).body == b"{}"
        await client.aclose()


@pytest.mark.parametrize(
    "url",
    [
        f"http://127.0.0.1:1/{SECRET}",
        f"http://name.invalid/{SECRET}",
        f"ftp://127.0.0.1/{SECRET}",
        f"http://[::1/{SECRET}",
        f"http://127.0.0.1:99999/{SECRET}",
        f"http://müller.invalid/{SECRET}",
        f"http://{'x' * 64}.invalid/{SECRET}",
        SECRET,
        "",
    ],
)
async def test_a_failure_to_connect_is_certain(url: str) -> None:
    client = Client()
    with pytest.raises(Unreachable) as caught:
        await post(client, url)
    check_hidden(caught.value)
    await client.aclose()


async def test_an_invalid_header_is_refused_without_its_value() -> None:
    client = Client()
    async with run_server() as url:
        for bad in (f"{SECRET}\n", f"{SECRET}\r\nx: y", "\0" + SECRET):
            with pytest.raises(Unreachable) as caught:
                await client.get(url, headers={"x-api-key": bad}, read_timeout=PATIENCE)
            check_hidden(caught.value)
        with pytest.raises(Unreachable):
            await client.get(url + " x\r\n", read_timeout=PATIENCE)
        await client.aclose()


@asynccontextmanager
async def run_raw_server(words: bytes) -> AsyncIterator[str]:
    """Run a server that answers everything with *words*; yield its host and port."""

    async def talk(stream: trio.SocketStream) -> None:
        await stream.receive_some()
        await stream.send_all(words)
        await stream.aclose()

    async with trio.open_nursery() as nursery:
        [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
        await nursery.start(trio.serve_listeners, talk, [listener])
        yield f"127.0.0.1:{listener.socket.getsockname()[1]}"
        nursery.cancel_scope.cancel()


async def test_a_server_without_tls_is_unreachable_by_https() -> None:
    client = Client()
    async with run_raw_server(b"HTTP/1.1 400 Bad Request\r\n\r\n") as place:
        with pytest.raises(Unreachable, match="TLS failed") as caught:
            await post(client, f"https://{place}/{SECRET}")
        check_hidden(caught.value)
        await client.aclose()


async def test_a_cancelled_request_leaves_no_connection() -> None:
    """httpx 0.28 leaked connections under Trio, until the pool was full."""
    client = Client(connections=4)
    chance = random.Random(1)

    async def answer(request: Request) -> Reply:
        await trio.sleep(chance.random() / 500)
        return Reply(pieces=(b"a" * 5000, b"b"), pause=chance.random() / 1000)

    async def ask(url: str) -> None:
        for _ in range(15):
            with trio.move_on_after(chance.random() / 100):
                await client.get(url, read_timeout=PATIENCE)

    async with serving(answer) as url:
        async with trio.open_nursery() as nursery:
            for _ in range(12):
                nursery.start_soon(ask, url)
        with trio.fail_after(PATIENCE):
            for _ in range(8):
                assert (await client.get(url, read_timeout=PATIENCE)).status == 200
        await client.aclose()


TEXT = st.text(st.characters(exclude_categories=["Cs"]))


@given(
    st.dictionaries(st.sampled_from(["chat_id", "caption", "reply_markup"]), TEXT),
    st.text(),
    st.binary() | st.just(b"\r\n--") | st.just(b"--\r\n--x--\r\n\r\n"),
)
@settings(max_examples=50)
async def test_a_form_is_encoded(fields: dict[str, str], name: str, data: bytes) -> None:
    """The fake parses it like the Bot API's server."""
    client = Client()
    async with replying(Reply()) as (url, got):
        await client.post_form(url, fields, ("document", name, data), read_timeout=PATIENCE)
        await client.aclose()
    [sent] = got
    form, files = sent.form()
    assert form == fields
    assert files == {"document": (clean_file_name(name), data)}


@given(st.text())
def test_a_file_name_cannot_break_its_header(name: str) -> None:
    safe = clean_file_name(name)
    assert 0 < len(safe) <= MAX_NAME
    assert not set(safe) & set('\r\n";/\\\u202e\0')
    assert safe.strip(". ")
    assert clean_file_name(safe) == safe


async def test_redirects_cookies_and_proxies_are_ignored(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    caplog.set_level("INFO")
    client = Client()
    reply = Reply(status=302, headers={"set-cookie": "a=b", "location": "/elsewhere"})
    async with replying(reply) as (url, seen):
        for _ in range(2):
            assert (await client.get(f"{url}/{SECRET}", read_timeout=PATIENCE)).status == 302
        await client.aclose()
    assert [(request.path, "cookie" in request.headers) for request in seen] == [
        (f"/{SECRET}", False)
    ] * 2
    assert SECRET not in caplog.text


def test_tls_is_verified_with_one_context() -> None:
    context = trust()
    assert context is trust()
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)


async def test_a_request_avoids_closed_connections(mock_clock: MockClock) -> None:
    first_pieces, is_closed = list[bytes](), trio.Event()

    async def answer(stream: trio.SocketStream) -> None:
        first_pieces.append(await stream.receive_some())
        await stream.send_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
        await stream.aclose()
        is_closed.set()

    client = Client()
    async with trio.open_nursery() as nursery:
        [listener] = await nursery.start(partial(trio.serve_tcp, answer, 0, host="127.0.0.1"))
        url = f"http://127.0.0.1:{listener.socket.getsockname()[1]}"
        for _ in range(2):
            assert (await post(client, url)).body == b"ok"
            await is_closed.wait()
            mock_clock.jump(FRESH)
        nursery.cancel_scope.cancel()
    await client.aclose()
    assert [piece.partition(b"\r\n\r\n")[2] for piece in first_pieces] == [b"{}", b"{}"]


async def test_an_idle_connection_is_checked(mock_clock: MockClock) -> None:
    """The result of a check is cached briefly; a closed connection is still noticed."""
    is_to_close, has_closed, count = trio.Event(), trio.Event(), 0

    async def answer(stream: trio.SocketStream) -> None:
        nonlocal count
        count += 1
        is_first = count == 1
        while await stream.receive_some():
            await stream.send_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
            if is_first:
                await is_to_close.wait()
                await stream.aclose()
                has_closed.set()
                return

    client = Client()
    async with trio.open_nursery() as nursery:
        ports = []
        for _ in range(2):
            [listener] = await nursery.start(partial(trio.serve_tcp, answer, 0, host="127.0.0.1"))
            ports.append(listener.socket.getsockname()[1])
        first, second = (f"http://127.0.0.1:{port}" for port in ports)
        assert (await post(client, first)).body == b"ok"
        mock_clock.jump(FRESH)
        assert (await post(client, second)).body == b"ok"  # it checks the first one
        is_to_close.set()
        await has_closed.wait()
        mock_clock.jump(LOOKED)
        assert (await post(client, first)).body == b"ok"
        nursery.cancel_scope.cancel()
    await client.aclose()


@asynccontextmanager
async def run_scripted_server(*acts: bytes | str) -> AsyncIterator[tuple[str, list[bytes]]]:
    """Run a server that reads a request, then does each of *acts* in turn, and waits.

    It sends bytes; "more" waits for another request, "close" and "reset" end the connection.
    Yield the URL and the bytes from each connection.
    """
    seen: list[bytes] = []

    async def talk(stream: trio.SocketStream) -> None:
        number = len(seen)
        seen.append(await stream.receive_some())
        for act in acts:
            match act:
                case bytes():
                    await stream.send_all(act)
                case "more":
                    seen[number] += await stream.receive_some()
                case "reset":
                    linger = struct.pack("ii", 1, 0)
                    stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                    stream.socket.close()
                    return
                case "close":
                    await stream.aclose()
                    return
        with suppress(trio.BrokenResourceError):
            while await stream.receive_some():
                pass

    async with trio.open_nursery() as nursery:
        [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
        await nursery.start(trio.serve_listeners, talk, [listener])
        yield f"http://127.0.0.1:{listener.socket.getsockname()[1]}", seen
        nursery.cancel_scope.cancel()


OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


@pytest.mark.parametrize(
    ("acts", "stalled"),
    [
        (("close",), False),
        (("reset",), False),
        ((b"HTTP/1.1 200 OK\r\nx-slow: ",), True),  # headers without an end
        ((b"HTTP/1.1 200 OK\r\nx: " + b"a" * 200_000,), False),  # too long
        ((b"SSH-2.0-server\r\n\r\n",), False),
        ((b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhal", "close"), False),
        ((b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhal",), True),
        ((b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nx\r\n",), False),
        ((b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhal", "reset"), False),
    ],
)
async def test_a_written_request_is_never_reported_as_unsent(
    acts: tuple[bytes | str, ...], stalled: bool
) -> None:
    """It is sent once, with any outcome."""
    client = Client()
    async with run_scripted_server(*acts) as (url, seen):
        with pytest.raises(Interrupted) as caught:
            await post(client, url, read_timeout=0.1 if stalled else PATIENCE)
        assert caught.value.stalled == stalled
        assert len(seen) == 1
        assert seen[0].endswith(b"\r\n\r\n{}")
    await client.aclose()


async def test_a_broken_kept_connection_is_not_retried() -> None:
    """The request may have had an effect, so only the caller can decide to repeat it."""
    client = Client()
    async with run_scripted_server(OK, "more", "reset") as (url, seen):
        assert (await post(client, url)).body == b"ok"
        with pytest.raises(Interrupted):
            await post(client, url)
        assert len(seen) == 1
        assert seen[0].count(b"POST") == 2
    await client.aclose()


class Hasty(trio.abc.Stream):
    """The client end of a connection to a server that closes before it has read everything."""

    def __init__(self) -> None:
        self.is_closed = False
        self._answers = [b"HTTP/1.1 413 Too Large\r\ncontent-length: 2\r\n\r\nno"]

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await trio.lowlevel.checkpoint()
        raise trio.BrokenResourceError

    async def wait_send_all_might_not_block(self) -> None:
        await trio.lowlevel.checkpoint()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        await trio.lowlevel.checkpoint()
        if not self._answers:
            raise trio.BrokenResourceError
        return self._answers.pop()

    async def aclose(self) -> None:
        self.is_closed = True
        await trio.lowlevel.checkpoint()


async def test_an_early_response_counts() -> None:
    """Without a response the outcome of the request is unknown."""
    streams: list[Hasty] = []

    class Network(connections.Network):
        async def connect(self, host: str, port: int) -> trio.abc.Stream:
            await trio.lowlevel.checkpoint()
            streams.append(Hasty())
            return streams[-1]

    client = Client(network=Network())
    answer = await post(client, "http://a.example/")
    assert (answer.status, answer.body, streams[0].is_closed) == (413, b"no", True)
    await client.aclose()


async def test_surplus_bytes_are_no_response() -> None:
    client = Client()
    async with run_scripted_server(OK + b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil") as (
        url,
        seen,
    ):
        for _ in range(2):
            assert (await post(client, url)).body == b"ok"
        assert len(seen) == 2
    await client.aclose()


async def test_a_compressed_response_can_be_abandoned() -> None:
    packed = gzip.compress(b"a" * 200_000)
    head = b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: %d\r\n\r\n" % len(packed)
    client = Client()
    async with run_scripted_server(head + packed) as (url, _):
        async with client.stream("GET", url, read_timeout=PATIENCE) as answer:
            assert set(await anext(answer)) == {ord("a")}
        got = await client.get(url, read_timeout=PATIENCE)
        assert got.body == b"a" * 200_000
    async with run_scripted_server(head + packed[:-8] + b"x" * 8) as (url, _):
        with pytest.raises(Interrupted, match="compression"):
            await client.get(url, read_timeout=PATIENCE)
    await client.aclose()


async def test_interim_responses_are_skipped() -> None:
    client = Client()
    async with run_scripted_server(
        b"HTTP/1.1 100 Go on\r\n\r\nHTTP/1.1 103 Hints\r\nx: y\r\n\r\n" + OK
    ) as (url, _):
        assert (await post(client, url)).status == 200
    await client.aclose()


async def test_a_full_pool_times_out(autojump_clock: MockClock) -> None:
    far_ends: list[trio.abc.Stream] = []

    class Network(connections.Network):
        async def connect(self, host: str, port: int) -> trio.abc.Stream:
            await trio.lowlevel.checkpoint()
            near, far = memory_stream_pair()
            far_ends.append(far)
            return near

    async def hang() -> None:
        with pytest.raises(Interrupted):
            await post(client, "http://a.example/", read_timeout=2 * POOL_TIMEOUT)

    client = Client(connections=1, network=Network())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(hang)
        await wait_all_tasks_blocked()
        with pytest.raises(Unreachable, match="in use"):
            await post(client, "http://a.example/")
    assert len(far_ends) == 1
    await client.aclose()


@pytest.mark.parametrize("variable", [None, "SSL_CERT_FILE", "SSL_CERT_DIR"])
def test_servers_are_judged_as_by_httpx2(
    variable: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)
    if variable is not None:
        system = httpcore2.default_ssl_context().get_ca_certs(binary_form=True)
        file = tmp_path / "ca.pem"
        file.write_text("".join(map(ssl.DER_cert_to_PEM_cert, system[:2])))
        monkeypatch.setenv(variable, str(file if variable == "SSL_CERT_FILE" else tmp_path))
    ours, theirs = trust.__wrapped__(), httpcore2.default_ssl_context()
    for of in (ours, theirs):
        of.set_alpn_protocols(["http/1.1"])
    assert ours.get_ca_certs() == theirs.get_ca_certs()
    assert ours.cert_store_stats() == theirs.cert_store_stats()
    for name in ("verify_mode", "check_hostname", "verify_flags", "options", "minimum_version"):
        assert getattr(ours, name) == getattr(theirs, name)


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """Create a self-signed certificate of localhost, with its key, in one file."""
    x509 = pytest.importorskip("cryptography.x509")  # installed by an extra
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    made = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    now = datetime.now(UTC)
    made = made.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
    names = x509.SubjectAlternativeName([x509.DNSName("localhost")])
    signed = made.add_extension(names, critical=False).sign(key, SHA256())
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    path = tmp_path / "localhost.pem"
    path.write_bytes(secret + signed.public_bytes(Encoding.PEM))
    return path


async def test_only_a_valid_certificate_is_trusted(
    certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served: list[int] = []

    async def answer(stream: trio.SSLStream[trio.SocketStream]) -> None:
        served.append(0)
        with suppress(trio.BrokenResourceError):
            while await stream.receive_some():
                served[-1] += 1
                await stream.send_all(OK)

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    async with trio.open_nursery() as nursery:
        serve = partial(trio.serve_ssl_over_tcp, answer, 0, context, host="127.0.0.1")
        [listener] = await nursery.start(partial(serve, https_compatible=True))
        port = listener.transport_listener.socket.getsockname()[1]
        for name, is_known in (("localhost", True), ("127.0.0.1", True), ("localhost", False)):
            monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
            if not is_known:
                monkeypatch.delenv("SSL_CERT_FILE")
            trust.cache_clear()
            client = Client()
            if name == "localhost" and is_known:
                for _ in range(2):
                    assert (await post(client, f"https://{name}:{port}/{SECRET}")).body == b"ok"
            else:
                with pytest.raises(Unreachable, match="TLS failed") as caught:
                    await post(client, f"https://{name}:{port}/{SECRET}")
                assert SECRET not in str(caught.value)
            await client.aclose()
        nursery.cancel_scope.cancel()
    trust.cache_clear()
    assert served[0] == 2
    assert sum(served) == 2
