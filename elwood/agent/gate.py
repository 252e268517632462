"""The only way to run a tool: find, validate, decide, record, run, redact, record.

What a tool did stands in the log before anybody is told, and that it is about to do something
stands there before it does (reliability.md §1.1).
"""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence

import attrs
import msgspec
import trio

from elwood.core.conversation import INTERRUPTED, ToolCall, repair_text
from elwood.core.replay import OpenCall
from elwood.core.session import CallEnded, CallStarted, Entry, Outcome
from elwood.runtime import ActorUnavailable, waiting
from elwood.store.journal import DiskFull
from elwood.tools import Hands, Tool, ToolFailure

log = logging.getLogger("elwood.gate")

Record = Callable[..., Awaitable[None]]


@attrs.frozen(kw_only=True)
class Gate:
    """Runs the calls of one turn.

    *strip* takes secrets out of a text; *dry_run* answers everything that would change something
    with "dry run"; *record* appends to the session's log.  No tool may take longer than
    *deadline* seconds, nor longer than its own limit.
    """

    tools: Mapping[str, Tool]
    hands: Hands
    record: Record
    strip: Callable[[str], str]
    dry_run: bool = False
    deadline: float = 60.0

    async def perform(self, turn: str, calls: Sequence[OpenCall]) -> None:
        """Bring every one of *calls* to its end; neighbours that only read run side by side.

        A call that was under way when the process died is judged by its effect class: a pure one
        runs again, any other is unknown, and is not repeated (CP-14 to CP-16).
        """
        left = [call for call in calls if call.ended is None]
        while left:
            together = 1
            if self._only_reads(left[0].call):
                while together < len(left) and self._only_reads(left[together].call):
                    together += 1
            async with trio.open_nursery() as nursery:
                for call in left[:together]:
                    nursery.start_soon(self._perform, turn, call)
            left = left[together:]

    async def abandon(self, turn: str, calls: Sequence[OpenCall]) -> None:
        """Write down what became of calls whose turn was stopped while they ran."""
        for open_call in calls:
            started = open_call.started
            if open_call.ended is not None or started is None:
                continue
            if started.effect == "pure":
                await self._end(turn, open_call.call, "failed", "stopped", started.target)
            else:
                text = f"stopped; {INTERRUPTED}"
                await self._end(turn, open_call.call, "unknown", text, started.target)

    async def _perform(self, turn: str, open_call: OpenCall) -> None:
        call, started = open_call.call, open_call.started
        if started is not None and started.effect != "pure":
            text = f"{started.tool}: {INTERRUPTED}. It was not repeated."
            await self._end(turn, call, "unknown", text, started.target)
            return
        tool = self.tools.get(call.name)
        if tool is None:
            known = ", ".join(sorted(self.tools)) or "none"
            await self._end(turn, call, "failed", f"no such tool: {call.name}; available: {known}")
            return
        try:
            given = msgspec.json.decode(call.arguments or "{}", type=tool.input)
        except (msgspec.DecodeError, UnicodeEncodeError) as error:
            await self._end(turn, call, "failed", f"bad arguments for {tool.name}: {error}")
            return
        target = self._clean(tool.target(given), 200)
        if self.dry_run and tool.risk != "read":
            text = "dry run: nothing was done"
            await self._end(turn, call, "dry run", text, target)
            return
        if started is None:
            try:
                await self.record(CallStarted(turn, call.id, tool.name, tool.effect, target))
            except DiskFull:
                text = "not run: the disk is full, so it could not be recorded first"
                await self._end(turn, call, "failed", text, target)
                return
        outcome, text = await self._run(tool, given)
        await self._end(turn, call, outcome, self._clean(text, tool.limit), target)

    async def _run(self, tool: Tool, given: msgspec.Struct) -> tuple[Outcome, str]:
        limit = min(self.deadline, tool.timeout)
        try:
            with trio.fail_after(limit), waiting(f"tool {tool.name}", limit=limit):
                found = await tool.run(given, self.hands)
                return "ok", found if isinstance(found, str) else found.text
        except ToolFailure as error:
            return "failed", str(error)
        except trio.TooSlowError:
            text = f"{tool.name} took longer than {limit:.0f} s and was ended"
            if tool.effect == "pure":
                return "failed", text
            return "unknown", f"{text}; {INTERRUPTED}"
        except ActorUnavailable as error:
            return "failed", f"{tool.name} is not available now: {error}"
        except Exception as error:  # a bug in a tool is the model's to work around, not the turn's
            log.exception("tool crashed", extra={"tool": tool.name})
            return "failed", f"{tool.name} broke ({type(error).__name__}); this is a bug in it"

    async def _end(
        self, turn: str, call: ToolCall, outcome: Outcome, text: str, target: str = ""
    ) -> None:
        entry: Entry = CallEnded(turn, call.id, call.name, outcome, text, target)
        # The effect has happened: its record may use the reserved space (CP-32).
        await self.record(entry, last_words=True)

    def _clean(self, text: str, limit: int) -> str:
        text = self.strip(repair_text(text))
        if len(text) > limit:
            text = f"{text[:limit]}\n[cut: {len(text) - limit} more characters]"
        return text

    def _only_reads(self, call: ToolCall) -> bool:
        tool = self.tools.get(call.name)
        return tool is not None and tool.risk == "read"
