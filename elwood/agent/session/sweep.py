"""Opens the conversations that have been quiet for long: then they are put away."""

from pathlib import Path

import trio

from elwood.agent.approvals.messages import Decided
from elwood.agent.session.messages import SessionsMail
from elwood.foundation.runtime import Address, Blocking

# Conversations that are opened at once to be put away, and the seconds until the next ones are:
# each is in memory for a while.
SWEPT, PAUSE = 50, 30.0
# Seconds by which windows of sweeps overlap: clocks of file systems are coarse.
OVERLAP = 60.0


async def sweep(
    folder: Path,
    sessions: Address[SessionsMail],
    after: float,
    now: float,
    last: float,
    blocking: Blocking,
) -> int:
    """Open what was quiet for *after* seconds and has become due since *last*; return how many.

    *folder* holds the logs; *now* and *last* are Unix times.  Each conversation is opened once for
    that.  Raises ActorUnavailable.
    """
    names = await blocking(lambda: quiet(folder, last - after - OVERLAP, now - after))
    for number, name in enumerate(names, 1):
        # A hint that says nothing new: who gets it opens its log, which is all we want.
        await sessions.tell(Decided(name))
        if number % SWEPT == 0:
            await trio.sleep(PAUSE)
    return len(names)


def quiet(folder: Path, since: float, until: float) -> list[str]:
    """Name the sessions whose log was written last between two Unix times, the oldest first.

    Blocks.
    """
    if not folder.is_dir():
        return []
    found = [(path.stat().st_mtime, path.stem) for path in folder.glob("*.jsonl")]
    return [name for written, name in sorted(found) if since < written <= until]
