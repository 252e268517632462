"""One running tool: its time limit, and the order of its nested calls."""

import itertools
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from math import inf

import trio

from elwood.agent.session.log.branch import PrivateText
from elwood.agent.tools.tool import Tool
from elwood.foundation.runtime import show_wait

# Concurrent reads of one tool: few enough to leave room for others.
MAX_READS = 8


class RunningTool:
    """*tool*, which may run for *limit* seconds without the time of its nested calls.

    It has made *within* calls before. *places* are the numbers of the next ones, *known* their
    private results.
    """

    def __init__(self, tool: Tool, limit: float, within: int = 0) -> None:
        self.tool = tool
        self.places = itertools.count(within + 1)
        self.known: list[PrivateText] = []
        self.is_over = False
        self._room = trio.Semaphore(MAX_READS)
        self._alone = trio.Lock()
        self._left = limit
        self._scope = trio.CancelScope()
        self._shown = ExitStack()
        self._calls = set[trio.CancelScope]()
        self._left_behind = trio.Event()

    @asynccontextmanager
    async def within_limit(self) -> AsyncIterator[None]:
        """Limit the time of the block.  Raises TooSlowError.

        A nested call that its tool leaves behind, in another task, is cancelled at the end: nothing
        may be recorded of it after the tool's end.
        """
        try:
            with self._scope:
                self._start()
                yield
        finally:
            self.is_over = True
            self._shown.close()
            for scope in self._calls:
                scope.cancel()
            with trio.CancelScope(shield=True):
                while self._calls:
                    self._left_behind = trio.Event()
                    await self._left_behind.wait()
        if self._scope.cancelled_caught:
            raise trio.TooSlowError

    @contextmanager
    def pause_clock(self) -> Iterator[trio.CancelScope]:
        """Stop the tool's clock during the block, in which a nested call runs."""
        if not self._calls:
            self._left = self._scope.deadline - trio.current_time()
            self._scope.deadline = inf
            self._shown.close()
        with trio.CancelScope() as scope:
            self._calls.add(scope)
            try:
                yield scope
            finally:
                self._calls.remove(scope)
                self._left_behind.set()
                if not (self._calls or self.is_over):
                    self._start()

    @asynccontextmanager
    async def wait_turn(self, *, alone: bool) -> AsyncIterator[None]:
        """Wait until the call of the block may run: reads run concurrently, others *alone*."""
        async with AsyncExitStack() as held:
            if alone:
                await held.enter_async_context(self._alone)
            for _ in range(MAX_READS if alone else 1):
                await held.enter_async_context(self._room)
            yield

    def _start(self) -> None:
        self._scope.deadline = trio.current_time() + self._left
        self._shown.enter_context(show_wait(f"tool {self.tool.name}", limit=self._left))
