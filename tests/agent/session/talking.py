"""A long conversation in memory, with the real turn, fold and gate."""

import itertools
from collections.abc import Awaitable, Callable

import msgspec
import trio

from elwood.agent.conversation.message import Prompt
from elwood.agent.conversation.route import Route
from elwood.agent.conversation.settings import OwnerClock, TurnSettings
from elwood.agent.models.messages import Complete, Completed
from elwood.agent.policy.decide import Rules
from elwood.agent.session.log.entries import (
    Compacted,
    Delivered,
    Entry,
    Received,
    Replied,
    Rewound,
    TurnStarted,
)
from elwood.agent.session.log.state import Session
from elwood.agent.session.turn.compaction import HIGH, INSTRUCTIONS, ContextLimits
from elwood.agent.session.turn.turn import TurnResult, TurnRun
from elwood.agent.tools.tool import Tool, ToolContext, ToolFailure
from tests.agent.session.gates import FREE, Approver, MemoryLog, make_gate
from tests.agent.session.scripted import Named

ROUTE = Route("console")
_encode = msgspec.json.Encoder().encode
_decoder = msgspec.json.Decoder(Entry)


def is_summary(request: Complete) -> bool:
    """Return True if the request is for a summary."""
    return request.prompt.system == INSTRUCTIONS


async def _note(given: Named, context: ToolContext) -> str:
    await trio.lowlevel.checkpoint()
    if given.name == "nothing":
        raise ToolFailure("there is nothing to note")
    return f"noted {given.name}: " + "a line of the old text\n" * 3


def _name(given: Named) -> str:
    return given.name


NOTE = Tool("note", "Note.", Named, _note, risk="read", effect="pure", target=_name)
# It needs approval, so it waits for the owner while the conversation continues.
PAY = Tool("pay", "Pay.", Named, _note, risk="write", effect="once", target=_name)
RULES = Rules(tools={**FREE.tools, "pay": "ask"})


class Talk(MemoryLog):
    """One session.  *crossings* counts how often the history passed the limit for a summary."""

    def __init__(
        self,
        think: Callable[[Complete], Awaitable[Completed]],
        *,
        context: int = 150_000,
        prompt: Prompt | None = None,
        approver: Approver | None = None,
    ) -> None:
        super().__init__()
        self.think = think
        self.prompt = prompt or Prompt("Be kind.", (NOTE.spec, PAY.spec))
        self.settings = TurnSettings(context_tokens=context)
        self.log: list[bytes] = []
        self.crossings = 0
        self.is_full = False
        self._approver = approver
        self._ids = itertools.count(1)

    @property
    def compactions(self) -> list[Compacted]:
        return [entry for entry in self.entries if isinstance(entry, Compacted)]

    def limits(self) -> ContextLimits:
        ratio = self.session.calibration.ratio
        return ContextLimits(
            context=self.settings.context_tokens, prompt=self.session.prompt_tokens, ratio=ratio
        )

    def apply(self, *entries: Entry) -> None:
        """Encode *entries* and apply the decoded ones, as a journal does."""
        for entry in entries:
            self.log.append(_encode(entry))
            super().apply(_decoder.decode(self.log[-1]))
        limits = self.limits()
        size = limits.size(sum(node.tokens for node in self.session.path))
        was_full, self.is_full = self.is_full, size > HIGH * limits.context
        self.crossings += self.is_full and not was_full

    def restart(self) -> None:
        """Read the whole log again; the state must be the same."""
        before, self.session = self.session, Session()
        for seq, line in enumerate(self.log, 1):
            self.session.apply(seq, 0.0, _decoder.decode(line))
        assert _encode(self.session) == _encode(before)

    async def say(self, *texts: str, untrusted: bool = False) -> TurnResult:
        """Run a turn about *texts*."""
        ids = tuple(f"m{next(self._ids)}" for _ in texts)
        received = (
            Received(id_, text, "me", ROUTE, 0.0, untrusted=untrusted)
            for id_, text in zip(ids, texts, strict=True)
        )
        turn = TurnStarted(f"t{self.session.turns + 1}", ids, 1, "\n".join(texts))
        await self.record(*received, turn)
        return await self.go_on()

    async def go_on(self) -> TurnResult:
        """Finish the open turn."""
        turn = self.session.turn
        assert turn is not None
        answer = await self._run().run()
        inputs = tuple(received.id for received in turn.inputs)
        replied = Replied(turn.id, turn.id, inputs, ROUTE, answer.text, failed=answer.failed)
        await self.record(*answer.entries, replied, Delivered(turn.id))
        return answer

    async def new(self) -> None:
        """Record the entries of /new."""
        await self.record(Rewound(0))

    def _run(self) -> TurnRun:
        return TurnRun(
            log=self,
            prompt=self.prompt,
            max_tokens=1000,
            settings=self.settings,
            gate=make_gate(self, (NOTE, PAY), approver=self._approver, rules=RULES, wait=0.0),
            ask=self.think,
            clock=OwnerClock(lambda: 0.0),
        )
