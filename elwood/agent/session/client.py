"""Requests to sessions for runs, from the task scheduler and from tools."""

from collections.abc import Callable, Collection
from functools import partial

import msgspec
import trio

from elwood.agent.conversation.inbound import Inbound, Principal, Refused, Taken
from elwood.agent.conversation.run import Budget, RunBounds, child_name, is_child
from elwood.agent.session.log.state import RunResult
from elwood.agent.session.messages import Await, SessionsMail, StopRun
from elwood.agent.tools.tool import Output, ToolContext, ToolFailure
from elwood.foundation.runtime import Address

# Seconds between tries if a session has no room, doubling up to the last.
FIRST_PAUSE, LAST_PAUSE = 5.0, 60.0
# Concurrent child runs in the process, and child runs of one turn: each is a model conversation.
MAX_AT_ONCE, MAX_IN_TURN = 4, 8
# Seconds, or a tenth of the remaining time, in which the parent can still use the answer.
TO_ANSWER = 60.0
# Seconds for a child run to stop: it records the work in progress.
STOP_LIMIT = 10.0


class RunClient:
    """Requests runs from *sessions*.

    A session accepts a message id only once and has one answer for it. So each method may be
    repeated, also after a crash: it finds the same run.
    """

    def __init__(self, sessions: Address[SessionsMail]) -> None:
        self._sessions = sessions

    async def begin(self, make: Callable[[], Inbound]) -> Taken | Refused:
        """Send the message of a run; repeat it while its session has no room."""
        pause = FIRST_PAUSE
        while True:
            taken = await self._sessions.insist(make)
            if isinstance(taken, Taken | Refused):
                return taken
            await trio.sleep(pause)
            pause = min(LAST_PAUSE, 2 * pause)

    async def wait(self, session: str, id_: str) -> RunResult | None:
        """Wait for the answer; return None if the session does not know the run."""
        return await self._sessions.insist(lambda: Await(session=session, id=id_))

    async def stop(self, session: str, id_: str, why: str) -> RunResult | None:
        """Stop the run and return its recorded end; None if the session does not know it."""
        return await self._sessions.insist(lambda: StopRun(session=session, id=id_, why=why))


class ChildRun(msgspec.Struct, frozen=True, kw_only=True):
    """A request of a tool for work in a separate conversation."""

    prompt: str
    tools: Collection[str] | None = None  # names; None: those of the parent
    role: str = "default"  # role of the model
    budget: Budget | None = None  # for all child runs of the parent in a day
    seconds: float = 300.0  # until it is stopped


class ChildRuns:
    """Runs the child runs of tool calls: each in a session below its parent's.

    A call has one child, which is named after it. A repeated call, after a crash, finds that child
    with any answer. One object limits all child runs of the process.
    """

    def __init__(self, children: Address[SessionsMail]) -> None:
        self._runs = RunClient(children)
        self._room = trio.Semaphore(MAX_AT_ONCE)

    async def run(self, wanted: ChildRun, context: ToolContext) -> Output:
        """Run *wanted*; return the child's answer with its label.  Raises ToolFailure."""
        tools = _check(wanted, context)
        child = child_name(context.session, context.number)
        async with self._room:
            now = trio.current_time()
            left = trio.current_effective_deadline() - now
            spare = min(TO_ANSWER, left / 10)
            seconds = max(0.0, min(wanted.seconds, left - 2 * spare))
            make = partial(_inbound, wanted, context, tools, context.now + seconds)
            with trio.move_on_at(now + seconds + spare) as scope:
                taken = await self._runs.begin(make)
                if isinstance(taken, Refused):
                    raise ToolFailure(taken.why)
                done = await self._runs.wait(child, child)
            if scope.cancelled_caught:
                done = await self._runs.stop(child, child, "It took too long")
        if done is None:
            raise ToolFailure(f"the answer of {child} is lost", unknown=True)
        return _output(child, done)

    async def stop(self, context: ToolContext) -> Output | None:
        """Stop the child of a call; return its recorded end, None if that is unknown."""
        child = child_name(context.session, context.number)
        with trio.move_on_after(STOP_LIMIT):
            done = await self._runs.stop(child, child, "The call that started this run was stopped")
            return _output(child, done) if done is not None else None
        return None


def _check(wanted: ChildRun, context: ToolContext) -> tuple[str, ...]:
    """Return the tools of the child.  Raises ToolFailure if the child is not allowed."""
    if is_child(context.session):
        raise ToolFailure("a child run cannot start child runs")
    if not context.number:
        raise ToolFailure("only a call of the model can start a child run")
    if context.earlier >= MAX_IN_TURN:
        raise ToolFailure(f"one turn can start at most {MAX_IN_TURN} child runs")
    names = context.tools if wanted.tools is None else wanted.tools
    if missing := sorted(set(names) - set(context.tools)):
        raise ToolFailure(f"no such tool: {', '.join(missing)}")
    return tuple(names)


def _inbound(
    wanted: ChildRun, context: ToolContext, tools: tuple[str, ...], deadline: float
) -> Inbound:
    """Build the message of a child run; it has the label of its parent."""
    child, own = child_name(context.session, context.number), context.bounds
    who, untrusted = context.principal, context.label.untrusted
    return Inbound(
        session=child,
        id=child,
        principal=Principal(who, who, owner=not untrusted),
        route=context.route,
        text=wanted.prompt,
        sent_at=context.now,
        untrusted=untrusted,
        bounds=RunBounds(
            own.owner if own is not None else context.session,
            wanted.role,
            tools,
            own.budget if own is not None else wanted.budget,
            deadline=deadline,
            parent=context.session,
            fresh=False,
            private=context.label.private,
            series=own.series if own is not None else 0,
        ),
    )


def _output(child: str, done: RunResult) -> Output:
    waits = "\n[One of its calls waits for the owner. The owner will receive its result.]"
    return Output(
        f"{done.text}{waits if done.waiting else ''}",
        untrusted=done.label.untrusted,
        private=done.label.private,
        origin=f"the answer of {child}",
        failed=done.failed,
        acted=done.acted,
    )
