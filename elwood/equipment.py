"""What sessions act with: tools, hands, rules, and the gate that all of it passes."""

from collections.abc import Sequence

import attrs

from elwood.agent.gate import Gate
from elwood.agent.seeking import Hints, Seeking
from elwood.agent.session_log import SessionLog
from elwood.config import Config
from elwood.core.policy import Rules, Who, version
from elwood.core.redaction import reveals, strip
from elwood.messages import ApprovalsMail
from elwood.outside import Outside
from elwood.runtime import Address
from elwood.tools import Hands, Tool


class Equipment:
    """Makes the gates of all sessions.

    *owners* are the principals whose words are the owner's; the words of tasks are their own.
    """

    def __init__(
        self,
        config: Config,
        outside: Outside,
        tools: Sequence[Tool],
        approvals: Address[ApprovalsMail],
        owners: frozenset[str],
        *,
        dry_run: bool,
    ) -> None:
        self._config = config
        self._tools = {tool.name: tool for tool in tools}
        self._approvals = approvals
        self._owners = owners
        self._dry_run = dry_run
        self._hands = Hands(config.paths.workspace, outside.blocking)
        self._rules = Rules(tools=config.policy.words())
        self._version = version(self._rules)

    def gate(self, session: str, log: SessionLog) -> Gate:
        """Make the gate of one session."""
        config = self._config
        return Gate(
            state=lambda: log.state,
            tools=self._tools,
            hands=attrs.evolve(self._hands, untrusted=lambda: log.state.taint.label.untrusted),
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
        return "owner" if principal in self._owners else "guest"


# With what the principals of scheduled work begin.
TASK = "task:"
