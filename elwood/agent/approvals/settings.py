from typing import ClassVar

import attrs

from elwood.foundation.settings import Section, at_least, between, none_or, setting

# Seconds of a permission without an end: a thousand years.
FOREVER = 1000 * 365 * 86_400.0


@attrs.frozen(kw_only=True)
class ApprovalSettings:
    """How the owner is asked about calls; times in seconds.

    A call waits *wait* for an answer before the turn goes on without it.  A question is open for
    *expires*, a permission given for good stands for *standing*.
    """

    SECTION: ClassVar = Section("approvals", "How you are asked whether a tool may do something.")

    wait: float = setting(
        60.0, help="seconds that a call waits for you before the turn goes on", check=at_least(0)
    )
    expires: float = setting(
        86_400.0,
        help="seconds after which no answer means no, and a yes that was not used counts no more",
        check=between(60, 30 * 86_400),
    )
    standing: float = setting(
        90 * 86_400.0,
        help="seconds for which a permission for good stands; 0: until you revoke it",
        check=none_or(60, FOREVER),
    )

    @property
    def lasts(self) -> float:
        return self.standing or FOREVER
