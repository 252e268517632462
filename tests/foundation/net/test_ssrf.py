"""The SSRF corpus with the real client on a scripted network.

Exactly the rows of the corpus are blocked.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

from elwood.features.web.client import Web
from elwood.foundation.net.connections import Network
from elwood.foundation.net.egress import WebFailed, is_public
from elwood.foundation.net.http import Client
from elwood.foundation.net.settings import EgressRules


@attrs.define
class Internet(Network):
    """Servers at any address, with redirects from *redirects*, inside this process."""

    redirects: Mapping[str, str] = attrs.field(factory=dict)
    dead: Sequence[str] = ()
    connected: list[str] = attrs.field(factory=list)
    asked: list[tuple[str, bytes]] = attrs.field(factory=list)  # URL, head of the request

    async def connect(self, host: str, port: int) -> trio.abc.Stream:
        await trio.lowlevel.checkpoint()
        self.connected.append(host)
        if host in self.dead:
            raise OSError
        return _Connection(self)

    async def start_tls(self, stream: trio.abc.Stream, host: str) -> trio.abc.Stream:
        await trio.lowlevel.checkpoint()
        assert isinstance(stream, _Connection)
        stream.scheme, stream.server_name = "https", host
        return stream


@attrs.define
class _Connection(trio.abc.Stream):
    network: Internet
    scheme: str = "http"
    server_name: str = ""
    received: bytes = b""
    answer: bytes | None = None

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await trio.lowlevel.checkpoint()
        self.received += data

    async def wait_send_all_might_not_block(self) -> None:
        await trio.lowlevel.checkpoint()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        await trio.lowlevel.checkpoint()
        if self.answer is None:
            self.answer = self._answered()
        data, self.answer = self.answer[:max_bytes], self.answer[max_bytes:]
        return data

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()

    def _answered(self) -> bytes:
        first, *lines = self.received.split(b"\r\n\r\n")[0].decode("ascii").split("\r\n")
        fields = dict(line.lower().split(": ", 1) for line in lines)
        if self.scheme == "https":
            assert self.server_name == fields["host"].split(":")[0], "SNI is not the name"
        url = f"{self.scheme}://{fields['host']}{first.split(' ')[1]}"
        self.network.asked.append((url, self.received))
        to = self.network.redirects.get(url)
        if to is None:
            return b"HTTP/1.1 200 X\r\ncontent-length: 2\r\n\r\nok"
        return b"HTTP/1.1 302 X\r\ncontent-length: 0\r\nlocation: %s\r\n\r\n" % to.encode()


def judge(case: Mapping[str, Any]) -> str:
    """Fetch the URL of *case*; return "allow" for a page, "pinned" if it came from one address."""
    answers = {name.rstrip("."): list(each) for name, each in case.get("dns", {}).items()}
    network = Internet(case.get("redirects", {}), case.get("connect_fail", ()))

    async def resolve(host: str, _port: int) -> Sequence[str]:
        await trio.lowlevel.checkpoint()
        left = answers.get(host, [[]])
        found: Sequence[str] = left.pop(0) if len(left) > 1 else left[0]
        return found

    async def fetch() -> bool:
        web = Web(
            EgressRules(),
            allow=lambda address: is_public(address, set(case.get("self_ips", ()))),
            resolve=resolve,
            client=lambda route: Client(route=route, network=network),
        )
        try:
            await web.fetch(case["input"])
        except WebFailed:
            return False
        finally:
            await web.aclose()
        return True

    has_come = trio.run(fetch)
    if set(network.connected) & set(case.get("forbid_connect", ())):
        return "connected to a forbidden address"
    if not has_come:
        return "block"
    return "pinned" if set(network.connected) == {case.get("pinned")} else "allow"


CASES = [
    json.loads(line)
    for line in (Path(__file__).parents[2] / "corpora/ssrf_urls.jsonl").read_text().splitlines()
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_row_of_the_corpus(case: Mapping[str, Any]) -> None:
    right = case.get("accept", [case["expected"]]) + (["pinned"] if case.get("pinned") else [])
    assert judge(case) in right, case["why"]
