"""The version of the state folder: older formats are always readable, newer ones are refused.

Imports little, because every command uses it.
"""

import time
from pathlib import Path

import msgspec

from elwood import __version__
from elwood.foundation.command_line import CliFailure

# Format number of the state folder. Increment it with the first change after a release that the
# released Elwood cannot read (docs/extending.md). Without a file it is 1.
FORMAT = 2
NAME = "version.json"


class StateVersion(msgspec.Struct, frozen=True):
    """The *format* of a state folder, and the version of *elwood* that wrote it last."""

    format: int
    elwood: str


def refusal(state: Path) -> str:
    """Return why this Elwood must not use the folder *state*, or a copy of it; "" if it may."""
    path = state / NAME
    try:
        found = _read(path)
    except msgspec.MsgspecError as error:
        return f"{path} was changed ({error}): restore it from a backup"
    if found.format <= FORMAT:
        return ""
    return (
        f"{state} was written by Elwood {found.elwood} (format {found.format}), and this is "
        f"{__version__} (format {FORMAT}), which can read only part of it. Use that Elwood or "
        "a newer one, or set paths.state to another folder and restore an older backup there"
    )


def claim(state: Path) -> None:
    """Record that this Elwood writes the folder *state*, which it has locked.

    Raises CliFailure if it must not; DiskFull, JournalBroken.
    """
    if why := refusal(state):
        raise CliFailure(why)
    own = StateVersion(FORMAT, __version__)
    if not (state / NAME).exists() or _read(state / NAME) != own:
        from elwood.foundation.runtime import inline
        from elwood.foundation.storage.disk import Disk

        disk = Disk(blocking=inline, clock=time.time)
        disk.replace(state / NAME, msgspec.json.encode(own) + b"\n")


def _read(path: Path) -> StateVersion:
    try:
        return msgspec.json.decode(path.read_bytes(), type=StateVersion)
    except OSError:
        # It does not exist; or it is not readable for this user, which the next file will report.
        return StateVersion(1, "")
