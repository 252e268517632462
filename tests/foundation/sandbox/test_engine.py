"""The Docker backend with a scripted engine: requests and responses."""

import json
import re
from collections.abc import Iterator
from typing import Any

import attrs
import pytest
import trio

from elwood.foundation.sandbox.command import Command, SandboxFailed
from elwood.foundation.sandbox.docker import Docker
from tests.foundation.sandbox import scene
from tests.foundation.sandbox.scene import Home

Json = dict[str, Any]  # Any: decoded from JSON


@attrs.define
class Engine:
    """Answers like Docker; programs write *frames*."""

    frames: list[tuple[int, bytes]] = attrs.field(factory=list)
    code: int = 0
    hangs: bool = False
    breaks: bool = False
    asked: list[tuple[str, Json]] = attrs.field(factory=list)

    async def serve(self, stream: trio.SocketStream) -> None:
        async with stream:
            head, body = b"", b""
            while b"\r\n\r\n" not in head:
                head += await stream.receive_some(1 << 16)
            head, _, body = head.partition(b"\r\n\r\n")
            length = re.search(rb"content-length: (\d+)", head.lower())
            while length and len(body) < int(length[1]):
                body += await stream.receive_some(1 << 16)
            what = " ".join(head.decode().split(" ")[:2]).replace("/v1.41", "")
            self.asked.append((what, json.loads(body or b"{}")))
            if "/attach" in what:
                await stream.send_all(b"HTTP/1.1 101 UPGRADED\r\nUpgrade: tcp\r\n\r\n")
                await self._attached(stream)
            else:
                await self._answer(stream, self._body(what))

    def _body(self, what: str) -> object:
        if what.endswith("/wait"):
            return {"StatusCode": self.code}
        return [{"Id": "old"}] if "/containers/json" in what else {"Id": "made"}

    async def _attached(self, stream: trio.SocketStream) -> None:
        if self.hangs:
            await trio.sleep_forever()
        sent = b"".join(
            bytes([kind, 0, 0, 0]) + len(data).to_bytes(4, "big") + data
            for kind, data in self.frames
        )
        for at in range(0, len(sent), 5):  # never at the end of a frame
            await stream.send_all(sent[at : at + 5])
        await stream.send_all(b"\1\0" if self.breaks else b"")
        await stream.send_eof()

    async def _answer(self, stream: trio.SocketStream, value: object) -> None:
        data = json.dumps(value).encode()
        await stream.send_all(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(data) + data)


@pytest.fixture
def fake() -> Engine:
    return Engine()


@pytest.fixture
async def docker(fake: Engine, home: Home, nursery: trio.Nursery) -> Docker:
    path = home.state / "engine"
    sock = trio.socket.socket(trio.socket.AF_UNIX)
    await sock.bind(str(path))
    sock.listen()
    nursery.start_soon(trio.serve_listeners, fake.serve, [trio.SocketListener(sock)])
    return scene.make_docker(str(path), home.workspace, home.state)


def make_command(**more: object) -> Command:
    given: dict[str, object] = {"argv": ("make",), "timeout": 5.0} | more
    return Command(**given)  # type: ignore[arg-type]  # named by the test


def bodies(fake: Engine, part: str) -> Iterator[Json]:
    return (body for what, body in fake.asked if part in what)


async def test_output_is_assembled_from_frames(docker: Docker, fake: Engine) -> None:
    fake.frames, fake.code = [(1, b"one "), (2, b"two "), (1, b"three")], 3
    outcome = await docker.run(make_command())
    assert (outcome.code, outcome.output) == (3, b"one two three")
    outcome = await docker.run(make_command(merge=False))
    assert (outcome.output, outcome.errors) == (b"one three", b"two ")


async def test_an_interrupted_output_is_a_failure(docker: Docker, fake: Engine) -> None:
    fake.frames, fake.breaks = [(1, b"one")], True
    with pytest.raises(SandboxFailed, match="cut off the output"):
        await docker.run(make_command())


async def test_the_container_has_no_privileges(docker: Docker, fake: Engine) -> None:
    await docker.run(make_command())
    (made,) = bodies(fake, "/containers/create")
    user, group = made["User"].split(":")
    assert int(user) != 0
    assert int(group) != 0
    host = made["HostConfig"]
    assert host["NetworkMode"] == "none"
    assert host["ReadonlyRootfs"]
    assert host["CapDrop"] == ["ALL"]
    assert host["SecurityOpt"] == ["no-new-privileges"]
    assert host["PidsLimit"] > 0
    assert host["NanoCpus"] == 1_000_000_000
    assert host["Runtime"] == ""
    assert host["Memory"] == host["MemorySwap"] > 0


async def test_the_container_ends_with_elwood(docker: Docker, fake: Engine) -> None:
    await docker.run(make_command(timeout=2.5))
    (made,) = bodies(fake, "/containers/create")
    assert made["Cmd"] == ["timeout", "-k", "2", "2.5", "make"]


async def test_hidden_files_are_covered(docker: Docker, fake: Engine, home: Home) -> None:
    (home.workspace / ".env").write_text("secret")
    await docker.run(make_command())
    (made,) = bodies(fake, "/containers/create")
    covered = [m for m in made["HostConfig"]["Mounts"] if m["Target"] == "/workspace/.env"]
    assert [m["ReadOnly"] for m in covered] == [True]
    assert "/sandbox/covers/6-" in covered[0]["Source"]


async def test_cancelling_removes_the_container(docker: Docker, fake: Engine) -> None:
    await docker.run(make_command())
    fake.hangs = True
    async with trio.open_nursery() as nursery:
        nursery.start_soon(docker.run, make_command())
        await scene.wait_until(lambda: len([*bodies(fake, "/start")]) == 2)
        nursery.cancel_scope.cancel()
    made, removed = (
        {what.partition("elwood-")[2][:32] for what, _ in fake.asked if what.startswith(verb)}
        for verb in ("POST /containers/create", "DELETE")
    )
    assert len(made) == 2
    assert made == removed


async def test_orphaned_containers_are_removed(docker: Docker, fake: Engine) -> None:
    await docker.remove_orphans()
    assert any("DELETE /containers/old?force=true" in what for what, _ in fake.asked)


async def test_a_missing_engine_is_a_failure(home: Home) -> None:
    with pytest.raises(SandboxFailed, match="nowhere"):
        await scene.make_docker("/nowhere", home.workspace, home.state).run(make_command())
