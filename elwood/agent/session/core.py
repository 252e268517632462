"""What sessions and features are built on, and what is seen of it from outside."""

import os
import platform
from contextlib import AsyncExitStack

import attrs
import msgspec
import trio

from elwood import __version__
from elwood.agent.approvals.messages import ApprovalsMail, Decided
from elwood.agent.channels.channel import Channels
from elwood.agent.channels.client import TellOwner
from elwood.agent.conversation.run import is_child
from elwood.agent.conversation.settings import OwnerClock
from elwood.agent.models.messages import ModelsMail
from elwood.agent.session.admission import Admission
from elwood.agent.session.inspection import Inspection, ProcessSeen, Vitals, look
from elwood.agent.session.live import LiveSessions
from elwood.agent.session.messages import Interrupt, SessionsMail
from elwood.agent.session.own_config import OwnConfig
from elwood.foundation.environment import Environment
from elwood.foundation.runtime import ActorTable, Address, Event, Mailbox
from elwood.foundation.secrets.redaction import Redactor
from elwood.foundation.settings import Config, Paths
from elwood.foundation.storage.anchors import AnchoringMail
from elwood.foundation.storage.disk import Disk
from elwood.foundation.storage.files import Root


@attrs.frozen(kw_only=True)
class Core:
    """What sessions and features are built on; each part of them is given only what it needs.

    *sessions* are conversations with people and of tasks, *children* the child runs, a step below.
    *events* is told what becomes of actors.  *up* is set when the actors start, *stop* ends the
    app; what must be closed then goes into *closing*.  One that *stays* does what is due by the
    clock.  *own* is what the assistant has set itself.  *started* is Unix seconds.  *vitals* are
    written by whoever watches over the app.
    """

    config: Config
    environment: Environment
    clock: OwnerClock
    redactor: Redactor
    disk: Disk
    workspace: Root
    table: ActorTable
    sessions: Address[SessionsMail]
    children: Address[SessionsMail]
    approvals: Address[ApprovalsMail]
    models: Address[ModelsMail]
    anchoring: Address[AnchoringMail]
    channels: Channels
    live: LiveSessions
    admission: Admission
    events: Mailbox[Event]
    up: trio.Event
    stop: trio.Event
    closing: AsyncExitStack
    stays: bool = True
    own: OwnConfig = attrs.field(
        default=attrs.Factory(
            lambda core: OwnConfig(core.config, lambda text: core.config), takes_self=True
        )
    )
    started: float = attrs.field(
        default=attrs.Factory(lambda core: core.clock.now(), takes_self=True)
    )

    vitals: Vitals = attrs.field(factory=Vitals)

    @property
    def paths(self) -> Paths:
        return self.config.of(Paths)

    @property
    def tell_owner(self) -> TellOwner:
        """Return what tells the owner something unasked."""
        return TellOwner(self.channels.outboxes, self.channels.owner_routes, self.redactor)

    def hint(self, hint: Decided | Interrupt) -> bool:
        """Pass *hint* up to its session; False if there is no room."""
        return (self.children if is_child(hint.session) else self.sessions).offer(hint)


def inspect(core: Core) -> Inspection:
    python, seen = platform.python_version(), core.live.seen()
    process = ProcessSeen(__version__, core.started, os.getpid(), python, seen)
    seen_now = look(core.table, process, core.redactor)
    return msgspec.structs.replace(seen_now, vitals=core.vitals)
