"""How the owner is asked for approval."""

import attrs


@attrs.frozen(kw_only=True)
class ApprovalSettings:
    """How the owner is asked about calls; times in seconds.

    A call waits *wait* for an answer before the turn goes on without it.  A question is open for
    *expires*, a permission given for good stands for *standing*.  More than *group_after*
    questions within *group_within* are put together.
    """

    wait: float = 60.0
    expires: float = 86_400.0
    standing: float = 90 * 86_400.0
    group_after: int = 5
    group_within: float = 600.0
