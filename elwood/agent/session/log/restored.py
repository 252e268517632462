"""The note that the state folder came out of a backup, and when.

What was under way when the backup was taken may have been done since; who finds work older than
`restored_at` tells of it and does not do it.
"""

from pathlib import Path

import msgspec

from elwood.agent.session.log.after_restore import Restored

NAME = "restored.json"


class RestoredDamaged(Exception):
    """Somebody changed the note; the backup must be restored again."""


def restored(state: Path) -> Restored | None:
    """Read when the state folder *state* was restored last; None if it never was.

    Raises OSError, and RestoredDamaged if somebody edited it.
    """
    path = state / NAME
    try:
        return msgspec.json.decode(path.read_bytes(), type=Restored)
    except FileNotFoundError:
        return None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RestoredDamaged(f"{path} was changed: restore the backup again") from error
