"""What control brings to one run of the app."""

from collections.abc import Sequence
from typing import get_args

from elwood.agent.approvals.messages import (
    ApprovalsMail,
    ApprovePairing,
    CommandResult,
    DecideRequest,
    ListApprovals,
    RevokePermission,
)
from elwood.agent.approvals.state import CONTROL
from elwood.agent.conversation.calls import OwnerAnswer
from elwood.agent.parts import WORLD, Actor, ControlCommand, Gathered, Parts
from elwood.agent.session.core import Core, inspect
from elwood.features.control.actor import Control
from elwood.features.control.view import fitted
from elwood.foundation.runtime import Address, Mailbox


async def build(core: Core, others: Gathered) -> Parts:
    """Make the actor that answers the command line."""

    async def look(words: Sequence[str]) -> CommandResult:
        return CommandResult(fitted(inspect(core)), ok=True)

    mailbox: Mailbox[None] = Mailbox("control", 16)
    control = Control(
        core.paths.runtime, others.control, redact=core.redactor, blocking=core.environment.blocking
    )
    return Parts(
        actors=[Actor(step=5, mailbox=mailbox, body=control.run, policy=WORLD, grace=1.0)],
        control=[ControlCommand(name="inspect", run=look), *approval_commands(core.approvals)],
    )


def approval_commands(approvals: Address[ApprovalsMail]) -> list[ControlCommand]:
    """Make what approvals are asked in the name of whoever may use the socket."""

    async def pair(words: Sequence[str]) -> CommandResult:
        return await approvals.ask(ApprovePairing(code="".join(words)))

    async def show(words: Sequence[str]) -> CommandResult:
        return await approvals.ask(ListApprovals(by=CONTROL))

    async def decide(words: Sequence[str]) -> CommandResult:
        for answer in get_args(OwnerAnswer):
            if list(words[1:]) == [answer]:
                request = DecideRequest(code=words[0], answer=answer, by=CONTROL)
                return await approvals.ask(request)
        return CommandResult("a code and an answer are wanted", ok=False)

    async def revoke(words: Sequence[str]) -> CommandResult:
        number = "".join(words)
        if not number.isdecimal():
            return CommandResult("the number of a permission is wanted", ok=False)
        return await approvals.ask(RevokePermission(number=int(number[:10]), by=CONTROL))

    return [
        ControlCommand(name="pair", run=pair),
        ControlCommand(name="approvals", run=show),
        ControlCommand(name="decide", run=decide),
        ControlCommand(name="revoke", run=revoke),
    ]
