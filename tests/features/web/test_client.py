"""The web client against hostile servers on loopback sockets."""

import gzip
import random
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

import attrs
import pytest
import trio
from trio.testing import MockClock

from elwood.features.web.client import Web, WebPage
from elwood.foundation.net.egress import WebFailed, is_reachable
from elwood.foundation.net.settings import EgressRules
from tests.fake_http import Reply, Request, connection, port_of, resolving

# Two addresses of this machine: one simulates the internet, one the internal network.
PUBLIC, INSIDE = "127.0.0.2", "127.0.0.1"
Answer = Callable[[Request], Awaitable[Reply]]


@attrs.define
class Scene:
    """A server at both addresses, on one *port*; *names* are the resolver's answers, in order."""

    web: Web
    port: int
    seen: dict[str, list[Request]]
    names: dict[str, list[Sequence[str]]]

    def url(self, path: str = "/", host: str = "site.example") -> str:
        return f"http://{host}:{self.port}{path}"


async def listening() -> tuple[trio.SocketListener, trio.SocketListener, int]:
    """Listen at both addresses, at one port that is free at both."""
    while True:
        [public] = await trio.open_tcp_listeners(0, host=PUBLIC)
        port = port_of(public)
        try:
            [inside] = await trio.open_tcp_listeners(port, host=INSIDE)
        except OSError:  # in use by another process
            await public.aclose()
            continue
        return public, inside, port


@asynccontextmanager
async def scene(
    answers: Mapping[str, Reply] | None = None,
    *,
    limit: int = 1000,
    deadline: float = 20.0,
    **rules: int | tuple[str, ...],
) -> AsyncIterator[Scene]:
    """Serve *answers*, by path; "PORT" in a location is the port that is served."""
    public, inside, port = await listening()
    seen: dict[str, list[Request]] = {PUBLIC: [], INSIDE: []}
    names: dict[str, list[Sequence[str]]] = {}

    def at(address: str) -> Answer:
        async def answer(request: Request) -> Reply:
            await trio.lowlevel.checkpoint()
            seen[address].append(request)
            reply = (answers or {}).get(request.path, Reply(pieces=(b"hello",)))
            fields = {
                name: value.replace("PORT", str(port)) for name, value in reply.headers.items()
            }
            return attrs.evolve(reply, headers=fields)

        return answer

    async def resolve(host: str, _port: int) -> Sequence[str]:
        await trio.lowlevel.checkpoint()
        left = names.setdefault(host, [[PUBLIC]])
        return left.pop(0) if len(left) > 1 else left[0]

    known = EgressRules(ports=(port,), **rules)  # type: ignore[arg-type]  # checked by attrs
    web = Web(known, allow=PUBLIC.__eq__, resolve=resolve, limit=limit, deadline=deadline)
    async with trio.open_nursery() as nursery:
        for address, listener in ((PUBLIC, public), (INSIDE, inside)):
            await nursery.start(trio.serve_listeners, connection(at(address)), [listener])
        yield Scene(web, port, seen, names)
        await web.aclose()
        nursery.cancel_scope.cancel()


def to(location: str, status: int = 302) -> Reply:
    return Reply(status=status, headers={"location": location})


async def test_a_page_has_the_servers_headers() -> None:
    page = Reply(status=404, headers={"content-type": "text/plain"}, pieces=(b"no", b"ne"))
    async with scene({"/x?y": page}) as s:
        got = await s.web.fetch(s.url("/x?y#z"))
        assert got == WebPage(404, s.url("/x?y"), "text/plain", b"none")
        [request] = s.seen[PUBLIC]
    assert request.headers["host"] == f"site.example:{s.port}"
    assert request.headers["accept-encoding"] == "identity"
    assert not {"cookie", "authorization", "referer"} & set(request.headers)


async def test_the_connection_goes_to_the_address_that_was_checked() -> None:
    async with scene() as s:
        s.names["rebind.example"] = [[PUBLIC], [INSIDE]]
        assert (await s.web.fetch(s.url(host="rebind.example"))).body == b"hello"
        with pytest.raises(WebFailed, match="has no public internet address"):
            await s.web.fetch(s.url(host="rebind.example"))
        assert (len(s.seen[PUBLIC]), s.seen[INSIDE]) == (1, [])


async def test_an_unknown_name_and_a_closed_port_are_failures() -> None:
    async with scene() as s:
        s.names["gone.example"] = [[]]
        with pytest.raises(WebFailed, match="cannot be resolved") as caught:
            await s.web.fetch(s.url(host="gone.example"))
        assert not caught.value.is_sent
        [free] = await trio.open_tcp_listeners(0, host=PUBLIC)
        port = port_of(free)
        await free.aclose()
        web = Web(EgressRules(ports=(port,)), allow=PUBLIC.__eq__, resolve=resolving(PUBLIC))
        with pytest.raises(WebFailed, match="cannot connect"):
            await web.fetch(f"http://site.example:{port}/")
        await web.aclose()


async def test_five_redirects_are_followed_and_not_six() -> None:
    chain = {f"/{n}": to(f"/{n + 1}") for n in range(6)}
    async with scene(chain) as s:
        assert (await s.web.fetch(s.url("/1"))).url == s.url("/6")
        with pytest.raises(WebFailed, match="more than 5 times"):
            await s.web.fetch(s.url("/0"))


async def test_the_owners_rules_apply_at_each_hop() -> None:
    answers = {"/": to("http://ads.example:PORT/"), "/m": to("http://mail.example:PORT/")}
    async with scene(answers, blocked=("ads.example",), always_ask=("mail.example",)) as s:
        with pytest.raises(WebFailed, match="the owner has blocked"):
            await s.web.fetch(s.url())
        with pytest.raises(WebFailed, match="fetch that address in a call of its own"):
            await s.web.fetch(s.url("/m"))
        assert (await s.web.fetch(s.url("/x", host="mail.example"))).body == b"hello"


async def test_too_many_requests_wait_for_a_minute(jumping_clock: MockClock) -> None:
    async with scene({"/": to("/a")}, per_minute=3) as s:
        await s.web.fetch(s.url())
        with pytest.raises(WebFailed, match="wait 60 s"):
            await s.web.fetch(s.url())  # its second hop exceeds the limit
        await trio.sleep(60)
        await s.web.fetch(s.url())


async def test_sending_has_its_own_limit() -> None:
    async with scene() as s:
        for _ in range(10):
            await s.web.send("POST", s.url(), b"x", "text/plain")
        with pytest.raises(WebFailed, match="at most 10 requests may be sent per minute; wait"):
            await s.web.send("POST", s.url(), b"x", "text/plain")
        await s.web.fetch(s.url())
        assert len(s.seen[PUBLIC]) == 11


@pytest.mark.parametrize(("size", "cut"), [(1000, False), (20_000_000, True)])
async def test_an_unrequested_gzip_is_unpacked_to_the_limit(size: int, cut: bool) -> None:
    packed = gzip.compress(b"\0" * size)
    bomb = Reply(headers={"content-encoding": "gzip"}, pieces=(packed,))
    async with scene({"/": bomb}) as s:
        tracemalloc.start()
        got = await s.web.fetch(s.url())
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert (got.body, got.cut) == (b"\0" * 1000, cut)
    assert peak < 5_000_000


@pytest.mark.parametrize("encoding", ["gzip", "x-gzip"])
async def test_a_truncated_packed_body_is_an_incomplete_page(encoding: str) -> None:
    """At each byte: the missing part may be the important one."""
    packed = gzip.compress(b"<p>It is not true that the bridge is open.</p>", mtime=0)
    for end in range(1, len(packed)):
        reply = Reply(headers={"content-encoding": encoding}, pieces=(packed[:end],))
        async with scene({"/": reply}) as s:
            with pytest.raises(WebFailed, match="is incomplete"):
                await s.web.fetch(s.url())


NOISE = random.Random(1).randbytes(99)


@pytest.mark.parametrize(
    ("encoding", "body"),
    [("gzip", NOISE), ("br", NOISE), ("gzip", 2 * gzip.compress(b"one", mtime=0))],
)
async def test_a_body_that_cannot_be_unpacked_fails(encoding: str, body: bytes) -> None:
    broken = Reply(headers={"content-encoding": encoding}, pieces=(body,))
    async with scene({"/": broken}) as s:
        with pytest.raises(WebFailed, match="has an unexpected compression, or is damaged"):
            await s.web.fetch(s.url())


@pytest.mark.parametrize(
    "slow",
    [
        Reply(pieces=(b"x",) * 100, pause=1.0),  # sends one byte at a time
        Reply(pieces=(b"x",), delay=1000.0),
        Reply(pieces=(b"xyz",), end="stall", end_at=1),
    ],
)
async def test_a_slow_server_times_out(slow: Reply, jumping_clock: MockClock) -> None:
    async with scene({"/": slow}, deadline=15.0) as s:
        began = trio.current_time()
        with pytest.raises(WebFailed, match="no complete response within 15 s"):
            await s.web.fetch(s.url())
        assert trio.current_time() - began == pytest.approx(15.0)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_sent_body_is_not_redirected(status: int) -> None:
    async with scene({"/": to("//other.example:PORT/", status)}) as s:
        answer = await s.web.send("POST", s.url(), b"x", "text/plain")
        assert (answer.status, answer.location) == (status, s.url(host="other.example"))
        sent = [(request.method, request.path, request.body) for request in s.seen[PUBLIC]]
    assert sent == [("POST", "/", b"x")]


def test_the_addresses_of_this_machine_are_private() -> None:
    """Loopback is the only address that every machine has; it is also private."""
    assert is_reachable("1.1.1.1")  # a system call; nothing is sent
    assert not is_reachable("127.0.0.1")
    assert not is_reachable("::1")
