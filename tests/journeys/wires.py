"""A network in this process: a house, and a Bot API that it reaches without the kernel.

Virtual time may then jump as soon as nobody has anything to do, as nothing is on its way.
"""

from typing import Any

import httpcore2
import trio
import trio.testing

from tests.fake_http import Answer, connection


class Wires(httpcore2.AsyncNetworkBackend):
    """Connects everybody to one server, which lives in *nursery*."""

    def __init__(self, nursery: trio.Nursery, respond: Answer) -> None:
        self._nursery = nursery
        self._serve = connection(respond)

    async def connect_tcp(self, host: str, port: int, *_: Any, **__: Any) -> "_Wire":
        """Connect."""
        await trio.lowlevel.checkpoint()
        here, there = trio.testing.memory_stream_pair()
        self._nursery.start_soon(self._serve, there)
        return _Wire(here)


class _Wire(httpcore2.AsyncNetworkStream):
    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream

    async def read(self, max_bytes: int, *_: Any, **how: Any) -> bytes:
        try:
            with trio.fail_after(how.get("timeout") or float("inf")):
                return bytes(await self._stream.receive_some(max_bytes))
        except trio.TooSlowError as error:
            raise httpcore2.ReadTimeout from error
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise httpcore2.ReadError from error

    async def write(self, buffer: bytes, *_: Any, **__: Any) -> None:
        try:
            await self._stream.send_all(buffer)
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise httpcore2.WriteError from error

    async def aclose(self) -> None:
        await self._stream.aclose()

    def get_extra_info(self, info: str) -> Any:
        return None
