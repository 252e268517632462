"""A check of a watched target of a task: one call through the gate, before there is a turn for it.

Most checks find no change; then nothing is written and no conversation is loaded.
"""

import msgspec

from elwood.agent.approvals.settings import ApprovalSettings
from elwood.agent.conversation.calls import Look
from elwood.agent.conversation.message import Assistant, ToolCall, Usage
from elwood.agent.conversation.route import NOWHERE
from elwood.agent.conversation.run import PRINCIPAL
from elwood.agent.session.core import Core
from elwood.agent.session.log.entries import Entry, Received, Said, TurnStarted
from elwood.agent.session.log.session_log import SessionLog
from elwood.agent.session.log.state import Session
from elwood.agent.session.turn.approval_client import ApprovalClient
from elwood.agent.session.turn.gate import Gate, Toolset

_TURN, _CALL = "look", "look"


class _ScratchLog(SessionLog):
    """The log of a conversation that consists of one check; it is never written."""

    def __init__(self, id_: str) -> None:
        self.id = id_
        self._session = Session()
        self._seq = 0

    @property
    def state(self) -> Session:
        return self._session

    async def stage(self, entry: Entry) -> None:
        self._seq += 1
        self._session.apply(self._seq, 0.0, entry)

    async def record(self, *entries: Entry) -> None:
        for entry in entries:
            await self.stage(entry)

    async def keep(self, *entries: Entry, last_words: bool = False, synced: bool = True) -> None:
        await self.record(*entries)


async def run_look(
    core: Core, toolset: Toolset, session: str, task: str, words: str, call: tuple[str, object]
) -> Look:
    """Make the *call*, a tool's name with arguments, for *task*.

    The owner wrote *words*, and so named the addresses in them. The outcome is "denied" if the call
    needs approval, or if it would do more than look.
    """
    name, given = call
    log, now = _ScratchLog(session), core.clock.now
    asked = ToolCall(_CALL, name, msgspec.json.encode(given).decode())
    message = Assistant((asked,), "", "", msgspec.Raw(b"null"))
    await log.record(
        Received(_TURN, words, f"{PRINCIPAL}{task}", NOWHERE, now()),
        TurnStarted(_TURN, (_TURN,), 1, words),
        Said(_TURN, message, Usage()),
    )
    settings = core.config.get(ApprovalSettings)
    approvals = ApprovalClient(log, core.approvals, settings, toolset.version, now)
    gate = Gate(log, toolset, approvals, core.redactor, now)
    end = await gate.run_look(log.turn.calls[_CALL])
    about = end.tool, end.target, end.outcome, end.at, end.label, end.origin, end.looked
    return Look(*about, text=end.text)
