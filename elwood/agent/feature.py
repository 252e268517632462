"""The record that describes a feature.  Imports little: commands that exit immediately read it."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from elwood.foundation.command_line import import_lazily as import_lazily

if TYPE_CHECKING:
    from pathlib import Path

    from elwood.agent.parts import Gathered, Parts
    from elwood.agent.session.core import Core
    from elwood.agent.tools.tool import MountedRoot
    from elwood.foundation.checks import Check
    from elwood.foundation.command_line import CliCommand
    from elwood.foundation.settings import Answers, Config
    from elwood.foundation.storage.anchors import CarriedHead


class LiveTools(NamedTuple):
    """Tools that are only known at run time; ids by name, or by prefix of the name.

    Reading it may block briefly.
    """

    # Those known already.
    known: "Mapping[str, str]" = MappingProxyType({})
    prefixes: "Mapping[str, str]" = MappingProxyType({})


class Feature(NamedTuple):
    """One part of the app with its own folder: listed only in `app/main.py`.

    The functions may be called before, or without, a run.
    """

    name: str
    # Build its parts for one run.  It may keep the Gathered, and read it once the actors run.
    build: "Callable[[Core, Gathered], Awaitable[Parts]]"
    # Its sections of config.toml, each as ``module:Class``, which is imported when needed.
    settings: Sequence[str] = ()
    # Its `elwood` commands.
    cli: "Sequence[CliCommand]" = ()
    # Its checks of `elwood doctor`.
    checks: "Sequence[Check]" = ()
    # Repair the state folder before anything in it is opened, under its lock, and return what was
    # done.  Blocks; raises CliFailure and OSError.
    mend: "Callable[[Config], str] | None" = None
    # Its sections of agent.toml, as in *settings*.
    own: Sequence[str] = ()
    # The ids of all its chores, whether a run has them or not: reserved for it.
    chores: Sequence[str] = ()
    # Ask the questions of `elwood init`, given the unsaved configuration; changes nothing.
    set_up: "Callable[[Config], Answers] | None" = None
    # Return the principal of the owner in its channel; "" if there is none, or several.
    owner: "Callable[[Config], str]" = lambda config: ""
    # The ids of its tools by name, whether a run has them or not.
    tools: "Mapping[str, str]" = MappingProxyType({})
    # Find the tools that are only known at run time.
    live: "Callable[[Config], LiveTools]" = lambda config: LiveTools()
    # Return its folders outside the workspace that commands and tools of all features reach.
    lent: "Callable[[Config], Sequence[MountedRoot]]" = lambda config: ()
    # True if *name* is the name of a channel.
    is_channel: bool = False
    # Prefix of its session names, reserved even if it is not configured.
    sessions: str = ""
    # Return True if the principal is a group of its channel.
    is_group: "Callable[[str], bool]" = lambda principal: False
    # Return the setting that lets a person or group of its channel in, by principal.
    allowed: "Callable[[Config], Mapping[str, str]]" = lambda config: {}
    # Return True if a chat and a thread (or "") can be ids of its channel; settings are checked so.
    is_chat: "Callable[[str, str], bool]" = lambda chat, thread: True
    # Read the heads of the anchors from its files, for `elwood receipts verify`.  Blocks.
    carried_heads: "Callable[[Config], Iterable[CarriedHead]]" = lambda config: ()
    # Write the anchors of one of its archives into a folder.  Blocks; raises ValueError on failure.
    extract_anchors: "Callable[[Path, Path], None]" = lambda archive, folder: None


def collect_reserved_sessions(features: Iterable[Feature]) -> dict[str, str]:
    """Return the reserved prefixes of session names, with the name of the feature of each."""
    return {one.sessions: one.name for one in features if one.sessions}
