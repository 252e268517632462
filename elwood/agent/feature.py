"""What a feature is to the app: one record.  Imports little: commands that end at once read it."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from elwood.foundation.command_line import imported as imported

if TYPE_CHECKING:
    from pathlib import Path

    from elwood.agent.parts import Gathered, Parts
    from elwood.agent.session.core import Core
    from elwood.agent.tools.tool import LentFolder
    from elwood.foundation.checks import Check
    from elwood.foundation.command_line import CliCommand
    from elwood.foundation.settings import Answers, Config
    from elwood.foundation.storage.anchors import CarriedHead


class LiveTools(NamedTuple):
    """Tools that come and go: those *known* by now, and how the others begin; ids by names.

    Reading it may block for a moment.
    """

    known: "Mapping[str, str]" = MappingProxyType({})
    prefixes: "Mapping[str, str]" = MappingProxyType({})


class Feature(NamedTuple):
    """One subject of the app: listed by hand in `app/main.py`, and nowhere else.

    *build* makes its parts for one run, out of what everything is built on.  What other features
    bring it may keep, and read when the actors run: all features are built by then.  *settings*
    are its sections of config.toml, *own* those of agent.toml, each as ``module:Class``, which is
    imported when such a file is read.  *cli* are its commands, *checks* those of the doctor.
    *mend* puts the state folder in order before anything in it is opened, under its lock; it
    blocks, says what it did, and may raise CliFailure and OSError.  *set_up* asks at `elwood
    init`, given what holds unwritten, and changes nothing.  *owner* says as whom its channel knows
    the owner, "" if as nobody or as several.

    *chores* are the ids of its chores, whether a run has them or not: no other task may have them.
    *tools* are the ids of its tools by their names, whether a run has them or not; *live* finds
    those that come and go.  *lent* makes the folders beside the workspace that commands and tools
    of all features reach.  *is_channel* if its name is that of a channel.  *sessions* is the prefix
    of the names of its sessions: no other channel uses it, whether this one is configured or not.
    *is_group* says whether a principal is a group of its channel, *is_chat* whether a chat, and a
    thread or "", can be ids of it: those in settings are checked by that.

    *carried_heads* reads the heads of the anchors from its files, so that `elwood receipts verify`
    compares them; *extract_anchors* writes the anchors of an archive of its own into a folder, and
    raises ValueError if it cannot.  Both block.
    """

    name: str
    build: "Callable[[Core, Gathered], Awaitable[Parts]]"
    settings: Sequence[str] = ()
    cli: "Sequence[CliCommand]" = ()
    checks: "Sequence[Check]" = ()
    mend: "Callable[[Config], str] | None" = None
    own: Sequence[str] = ()
    chores: Sequence[str] = ()
    set_up: "Callable[[Config], Answers] | None" = None
    owner: "Callable[[Config], str]" = lambda config: ""
    tools: "Mapping[str, str]" = MappingProxyType({})
    live: "Callable[[Config], LiveTools]" = lambda config: LiveTools()
    lent: "Callable[[Config], Sequence[LentFolder]]" = lambda config: ()
    is_channel: bool = False
    sessions: str = ""
    is_group: "Callable[[str], bool]" = lambda principal: False
    is_chat: "Callable[[str, str], bool]" = lambda chat, thread: True
    carried_heads: "Callable[[Config], Iterable[CarriedHead]]" = lambda config: ()
    extract_anchors: "Callable[[Path, Path], None]" = lambda archive, folder: None


def reserved_sessions(features: Iterable[Feature]) -> dict[str, str]:
    """Return the names of *features* by the prefix of the sessions that each reserves."""
    return {one.sessions: one.name for one in features if one.sessions}
