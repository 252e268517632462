"""What sessions act with: tools, hands, rules, and the gate that all of it passes."""

from collections.abc import Mapping, Sequence

import attrs

from elwood.agent.gate import Gate
from elwood.agent.seeking import Hints, Seeking
from elwood.agent.session_log import SessionLog
from elwood.config import Config
from elwood.core.policy import Rules, Who, version
from elwood.core.redaction import reveals, strip
from elwood.core.replay import Session
from elwood.core.session import Route
from elwood.messages import ApprovalsMail, OutboxMail, Recognise
from elwood.outside import Channel, Outside
from elwood.runtime import Address
from elwood.store.disk import Disk
from elwood.store.notes import Notes
from elwood.tools import Hands, Tool
from elwood.tools.voice import Voice


class Equipment:
    """Makes the gates of all sessions.

    *owners* are the principals whose words are the owner's; the words of tasks are their own.
    *places* are where the owner can be told something.
    """

    def __init__(
        self,
        config: Config,
        outside: Outside,
        tools: Sequence[Tool],
        approvals: Address[ApprovalsMail],
        channels: Sequence[Channel],
        outboxes: Mapping[str, Address[OutboxMail]],
        disk: Disk,
        dry_run: bool,
    ) -> None:
        self.owners = frozenset[str]().union(*(channel.owners for channel in channels))
        self.places = tuple(route for channel in channels for route in channel.owner)
        self._config = config
        self._tools = {tool.name: tool for tool in tools}
        self._approvals = approvals
        self._dry_run = dry_run
        self._voice = Voice(
            outboxes=outboxes,
            owners=self.places,
            recognise=lambda principal: approvals.ask(Recognise(principal=principal)),
        )
        self._hands = Hands(
            config.paths.workspace,
            outside.blocking,
            notes=Notes(config.paths.state / "memory", disk),
        )
        self._rules = Rules(tools=config.policy.words())
        self._version = version(self._rules)

    def gate(self, session: str, log: SessionLog) -> Gate:
        """Make the gate of one session."""
        config = self._config
        return Gate(
            state=lambda: log.state,
            tools=self._tools,
            hands=attrs.evolve(
                self._hands,
                untrusted=lambda: log.state.taint.label.untrusted,
                source=lambda: _source(session, log.state),
                voice=attrs.evolve(self._voice, here=lambda: _here(log.state)),
            ),
            record=log.record,
            rules=self._rules,
            seeking=Seeking(
                session=session,
                state=lambda: log.state,
                record=log.record,
                approvals=self._approvals,
                hints=Hints(),
                version=self._version,
                wait=config.approvals.wait,
            ),
            strip=lambda text: strip(text, config.secrets),
            reveals=lambda text: reveals(text, config.secrets),
            who=self._who,
            dry_run=self._dry_run,
            deadline=config.turn.tool_deadline,
        )

    def _who(self, principal: str) -> Who:
        if principal.startswith(TASK):
            return "task"
        return "owner" if principal in self.owners else "guest"


def _here(state: Session) -> Route:
    assert state.turn is not None, "tools run in turns"
    return state.turn.route


def _source(session: str, state: Session) -> str:
    """Say where what is remembered now comes from."""
    who = f" by {state.turn.principal}" if state.turn else ""
    read = f", after reading {', '.join(state.taint.sources)}" if state.taint.sources else ""
    return f"{session}{who}{read}"


# With what the principals of scheduled work begin.
TASK = "task:"
