"""Which Elwood wrote the state folder: an older one's is read for ever, a newer one's is refused.

Imports little: every command asks.
"""

import time
from pathlib import Path

import msgspec

from elwood import __version__
from elwood.foundation.command_line import CliFailure

# What the state folder holds, as a number: one more with the first change after a release that the
# Elwood of that release cannot read (docs/extending.md).  Without a file it is 1.
FORMAT = 2
NAME = "version.json"


class StateVersion(msgspec.Struct, frozen=True):
    """The *format* of a state folder, and the version of *elwood* that wrote it last."""

    format: int
    elwood: str


def refusal(state: Path) -> str:
    """Say why this Elwood must not use the folder *state*, or any copy of it; empty if it may."""
    path = state / NAME
    try:
        found = _read(path)
    except msgspec.MsgspecError as error:
        return f"{path} was changed ({error}): restore it from a backup"
    if found.format <= FORMAT:
        return ""
    return (
        f"{state} was written by Elwood {found.elwood} (format {found.format}), and this is "
        f"{__version__} (format {FORMAT}), which would read half of it. Use that Elwood or a newer "
        "one; or name another folder (paths.state), and restore a backup there that is old enough"
    )


def claim(state: Path) -> None:
    """Write down that this Elwood writes the folder *state*, which it holds.

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
        # There is none; or it is not for who asks, who will hear so at the next file.
        return StateVersion(1, "")
