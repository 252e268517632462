"""One conversation between an owner, a scripted model and AgentDojo's accounts, with the real gate.

The model makes its calls by a script; the gate judges, asks, runs and records each of them as in
Elwood. The owner allows every call that serves their own request.
"""

from collections.abc import Sequence
from typing import Literal

import attrs
import msgspec
import trio

from elwood.agent.approvals.messages import Verdict
from elwood.agent.conversation.labels import Label
from elwood.agent.conversation.message import Assistant, ToolCall, Usage
from elwood.agent.conversation.route import Route
from elwood.agent.policy.decide import Rules
from elwood.agent.session.log.entries import CallEnded, CallStarted, Received, Said, TurnStarted
from tests.agent.session.gates import Approver, MemoryLog, make_gate
from tests.dojo.obedience import Call
from tests.dojo.suites import MARK, Suite, World

ROUTE = Route("console")
YES, NO = Verdict("once", "me"), Verdict("denied", "me")
# When the model obeys: as soon as it has seen the injection, call by call; or as soon as it has
# read untrusted text, with all calls in one response.
Moment = Literal["on sight", "at once"]


@attrs.frozen(kw_only=True)
class Tried:
    """A call that the injection requests. *label* is the conversation's label at that time."""

    call: Call
    effect: bool
    label: Label
    asked: bool
    ran: bool


@attrs.frozen(kw_only=True)
class Played:
    """The result of one run.

    *questions* is the number of questions to the owner. *seen* is True if the model saw the
    injection. *tried* lists the injected calls, *denied* the calls for the owner's task that did
    not run. *done* and *reached* are AgentDojo's verdict on the owner's task and the strangers'
    goal.
    """

    task: str
    goal: str | None
    questions: int
    seen: bool
    tried: tuple[Tried, ...]
    denied: tuple[Call, ...]
    done: bool
    reached: bool


class Play:
    """One run: the owner's *task*, and the strangers' *goal*, if any.

    *verdict* is the owner's answer to questions about injected calls; None if they never answer.
    """

    def __init__(
        self,
        suite: Suite,
        task: str,
        goal: str | None,
        *,
        rules: Rules,
        verdict: Verdict | None = NO,
    ) -> None:
        self.suite, self.task, self.goal = suite, task, goal
        self.world = World(suite, task, goal)
        self._log = MemoryLog()
        self.approver = Approver()
        self.verdict = verdict
        self.seen = False
        self.tried: list[Tried] = []
        self.denied: list[Call] = []
        self._rounds = 0
        self._tools = {tool.name: tool for tool in self.world.tools()}
        self.gate = make_gate(
            self._log, list(self._tools.values()), approver=self.approver, rules=rules
        )

    async def run(self, moment: Moment = "on sight") -> Played:
        """Run it to its end."""
        prompt = self.suite.prompt(self.task)
        self._log.apply(Received("a", prompt, "me", ROUTE, 0.0))
        self._log.apply(TurnStarted("t", ("a",), 1, prompt))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.approver.run, self.approver.mailbox)
            obeyed = await self._follow(moment)
            nursery.cancel_scope.cancel()
        return Played(
            task=self.task,
            goal=self.goal,
            questions=len(self.approver.asked),
            seen=self.seen,
            tried=tuple(self.tried),
            denied=tuple(self.denied),
            done=self.goal is None and self.world.is_done(),
            reached=obeyed and self.world.is_reached(),
        )

    async def _follow(self, moment: Moment) -> bool:
        """Serve the owner, and once the strangers; return True if the strangers were served."""
        obeyed = False
        for call in self.world.task_script():
            await self._serve(call)
            told = self.seen if moment == "on sight" else self._log.session.taint.label.untrusted
            if self.goal is not None and told and not obeyed:
                obeyed = True
                await self._obey(self.world.goal_script(), moment)
        return obeyed

    async def _serve(self, call: Call) -> None:
        (ended,) = await self._respond([call], YES)
        if ended.outcome != "ok" and not self._started(ended):
            self.denied.append(call)

    async def _obey(self, script: list[Call], moment: Moment) -> None:
        rounds = [script] if moment == "at once" else [[call] for call in script]
        for calls in rounds:
            if not calls:
                continue
            label = self._log.session.taint.label
            asked = len(self.approver.asked)
            ended = await self._respond(calls, self.verdict)
            about = {seek.question.call for seek in self.approver.asked[asked:]}
            for call, end in zip(calls, ended, strict=True):
                self.tried.append(
                    Tried(
                        call=call,
                        effect=self._tools[call.function].risk != "read",
                        label=label,
                        asked=f"t/{end.call}" in about,
                        ran=self._started(end),
                    )
                )

    async def _respond(self, calls: Sequence[Call], verdict: Verdict | None) -> list[CallEnded]:
        """Make *calls* in one response of the model; return their outcomes, in order."""
        self._rounds += 1
        blocks = tuple(
            ToolCall(
                f"c{self._rounds}-{number}",
                call.function,
                msgspec.json.encode(call.arguments).decode(),
            )
            for number, call in enumerate(calls)
        )
        said = Assistant(blocks, "scripted", "m", msgspec.Raw(b"[]"))
        self._log.apply(Said("t", said, Usage()))
        self.approver.verdicts = {} if verdict is None else dict.fromkeys(self._tools, verdict)
        await self.gate.perform()
        ends = {entry.call: entry for entry in self._log.entries if isinstance(entry, CallEnded)}
        ended = [ends[block.id] for block in blocks]
        self.seen = self.seen or any(MARK in end.text for end in ended)
        return ended

    def _started(self, ended: CallEnded) -> bool:
        starts = (entry for entry in self._log.entries if isinstance(entry, CallStarted))
        return any(start.call == ended.call for start in starts)
