"""The services that sessions and features use, and their view from outside."""

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
from elwood.agent.conversation.route import Route
from elwood.agent.conversation.run import is_child
from elwood.agent.conversation.settings import OwnerClock
from elwood.agent.models.messages import ModelsMail
from elwood.agent.session.admission import Admission
from elwood.agent.session.inspection import Inspection, ProcessSeen, Vitals, inspect_actors
from elwood.agent.session.live import LiveSessions
from elwood.agent.session.messages import Interrupt, Returned, SessionsMail
from elwood.agent.session.own_config import OwnConfig
from elwood.foundation.environment import Environment, memory_of
from elwood.foundation.runtime import ActorTable, Address, Event, Mailbox
from elwood.foundation.secrets.redaction import Redactor
from elwood.foundation.settings import Config, Paths
from elwood.foundation.storage.anchors import AnchoringMail
from elwood.foundation.storage.disk import Disk
from elwood.foundation.storage.files import Root


@attrs.frozen(kw_only=True)
class Core:
    """The services that sessions and features use; each part gets only the services it needs."""

    config: Config
    environment: Environment
    clock: OwnerClock
    redactor: Redactor
    disk: Disk
    workspace: Root
    table: ActorTable
    sessions: Address[SessionsMail]  # conversations with people and of tasks
    children: Address[SessionsMail]  # child runs
    approvals: Address[ApprovalsMail]
    models: Address[ModelsMail]
    anchoring: Address[AnchoringMail]
    channels: Channels
    live: LiveSessions
    admission: Admission
    events: Mailbox[Event]  # receives the life cycle of actors
    up: trio.Event  # set when the actors start
    stop: trio.Event  # ends the app
    closing: AsyncExitStack  # closed at the end of the app
    stays: bool = True  # whether it does scheduled work
    own: OwnConfig = attrs.field(  # settings that the assistant has set itself
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
        return self.config.get(Paths)

    @property
    def tell_owner(self) -> TellOwner:
        """The function that sends the owner unrequested messages."""
        return TellOwner(self.channels.outboxes, self.channels.owner_routes, self.redactor)

    async def note_return(self, route: Route) -> None:
        """Hint to all sessions with work left that the person at *route* can be reached again."""
        for name in filter(self.channels.serves, await self.live.list_marked()):
            self.hint(Returned(session=name, route=route))

    def hint(self, hint: Decided | Interrupt | Returned) -> bool:
        """Send *hint* to its session; return False if there is no room."""
        return (self.children if is_child(hint.session) else self.sessions).offer(hint)


def inspect(core: Core) -> Inspection:
    python, seen = platform.python_version(), core.live.list_busy()
    pid = os.getpid()
    process = ProcessSeen(__version__, core.started, pid, python, seen, memory_of(pid))
    seen_now = inspect_actors(core.table, process, core.redactor)
    return msgspec.structs.replace(seen_now, vitals=core.vitals)
