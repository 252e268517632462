from typing import ClassVar

import attrs

from elwood.foundation.settings import Section, at_least, between, none_or, setting

# Seconds of a permission that never expires: a thousand years.
FOREVER = 1000 * 365 * 86_400.0


@attrs.frozen(kw_only=True)
class ApprovalSettings:
    """Times of questions to the owner, in seconds."""

    SECTION: ClassVar = Section("approvals", "Questions about tool calls.")

    # How long a call waits for an answer before the turn continues without it.
    wait: float = setting(
        60.0,
        help="seconds that a call waits for your decision before the turn continues without it",
        check=at_least(0),
    )
    # How long a question can be answered.
    expires: float = setting(
        86_400.0,
        help="seconds after which an unanswered question counts as denied and an unused "
        "approval expires",
        check=between(60, 30 * 86_400),
    )
    # How long a standing permission is valid.
    standing: float = setting(
        90 * 86_400.0,
        help='seconds that a permanent permission ("always") is valid; 0: until you revoke it',
        check=none_or(60, FOREVER),
    )

    @property
    def lasts(self) -> float:
        return self.standing or FOREVER
