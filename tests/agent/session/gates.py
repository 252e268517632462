"""Gates for tests: the real gate, and an approvals actor with scripted answers."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import trio

from elwood.agent.approvals.messages import (
    ApprovalsMail,
    CallReported,
    DecideRequest,
    ListApprovals,
    LookUpDecision,
    Pending,
    RequestApproval,
    RevokePermission,
    Verdict,
    WithdrawRequests,
)
from elwood.agent.approvals.settings import ApprovalSettings
from elwood.agent.conversation.inbound import CommandResult
from elwood.agent.people.messages import RemovedPeople
from elwood.agent.policy.decide import Rules
from elwood.agent.session.log.entries import Entry
from elwood.agent.session.log.session_log import SessionLog
from elwood.agent.session.log.state import Session
from elwood.agent.session.turn.approval_client import ApprovalClient
from elwood.agent.session.turn.gate import Gate, Toolset
from elwood.agent.tools.tool import Tool
from elwood.foundation.runtime import Mailbox
from elwood.foundation.secrets.redaction import Redactor
from elwood.foundation.storage.disk import DiskFull
from tests.agent.session.known import MOVING

# The tools of tests need no approval, unless the test is about approvals.
FREE = Rules(tools=dict.fromkeys(("act", "keep", "hang", "tap", "crash"), "allow"))

DAY = 86_400.0
Typed = DecideRequest | ListApprovals | RevokePermission


class Approver:
    """A fake of approvals and the owner. *verdicts* has a decision for each tool.

    A question about another tool is pending until `rule` is called. *hint* notifies the session.
    """

    def __init__(self, typed: list[Typed] | None = None) -> None:
        self.typed: list[Typed] = [] if typed is None else typed
        self.mailbox: Mailbox[ApprovalsMail] = Mailbox("approvals", 64)
        self.verdicts: dict[str, Verdict] = {}
        self.asked: list[RequestApproval] = []
        self.withdrawn: list[str] = []
        self.decided: dict[str, Verdict] = {}
        self.is_full = False  # its disk is full: nothing can be withdrawn
        self.hint: Callable[[], object] = lambda: None

    async def run(self, mailbox: Mailbox[ApprovalsMail]) -> None:
        """Answer requests until cancelled."""
        async for mail in mailbox:
            match mail:
                case RequestApproval(question=question):
                    if all(one.question != question for one in self.asked):
                        self.asked.append(mail)
                    known = self.decided.get(question.plan) or self.verdicts.get(question.tool)
                    mail.reply.set(known or Pending())
                case LookUpDecision(plan=plan):
                    mail.reply.set(self.decided.get(plan) or Pending())
                case WithdrawRequests() if self.is_full:
                    mail.reply.set(False)
                case WithdrawRequests(calls=calls):
                    self.withdrawn += calls
                    mail.reply.set(True)
                case RemovedPeople():
                    mail.reply.set(frozenset())
                case DecideRequest() | ListApprovals() | RevokePermission():
                    self.typed.append(mail)
                    mail.reply.set(CommandResult("So be it.", ok=True))
                case CallReported():
                    pass
                case _:
                    raise AssertionError(f"sessions do not send {mail}")

    def rule(self, verdict: Verdict, index: int = -1) -> None:
        """Decide a pending question and notify the session."""
        self.decided[self.asked[index].question.plan] = verdict
        self.hint()


class MemoryLog(SessionLog):
    """A session's log without a disk. It has no space for entries of the type *full*.

    It also calls *recorded* with each entry.
    """

    def __init__(self, id_: str = "s") -> None:
        self.id = id_
        self._moving = MOVING
        self.session = Session()
        self.entries: list[Entry] = []
        self.full: type[Entry] | None = None
        self.recorded: Callable[[Entry], object] = lambda entry: None

    @property
    def state(self) -> Session:
        return self.session

    def apply(self, *entries: Entry) -> None:
        """Apply *entries*, as a journal does when it is opened."""
        for entry in entries:
            self.entries.append(entry)
            self.session.apply(len(self.entries), 0.0, entry)

    async def stage(self, entry: Entry) -> None:
        await self.keep(entry)

    async def record(self, *entries: Entry) -> None:
        if self.full is not None and any(isinstance(entry, self.full) for entry in entries):
            raise DiskFull(Path("s.jsonl"))
        await self.keep(*entries)

    async def keep(self, *entries: Entry, last_words: bool = False, synced: bool = True) -> None:
        await trio.lowlevel.checkpoint()
        self.apply(*entries)
        for entry in entries:
            self.recorded(entry)


def make_gate(
    log: SessionLog,
    tools: Sequence[Tool],
    *,
    approver: Approver | None = None,
    rules: Rules = FREE,
    redactor: Redactor | None = None,
    dry_run: bool = False,
    wait: float = 60.0,
    now: Callable[[], float] = lambda: 0.0,
    timeouts: Mapping[str, float] | None = None,
) -> Gate:
    """Return a gate with the owner "me"."""
    approver = approver or Approver()
    settings = ApprovalSettings(wait=wait, expires=DAY)
    approvals = ApprovalClient(log, approver.mailbox.address, settings, "v1", now)
    toolset = Toolset(
        tools={tool.name: tool for tool in tools},
        rules=rules,
        version="v1",
        owners={"me"},
        zone="UTC",
        dry_run=dry_run,
        timeouts=timeouts or {},
    )
    return Gate(log, toolset, approvals, redactor or Redactor(), now)
