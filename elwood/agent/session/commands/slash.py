"""Slash commands by name, and the texts of /help and menus."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import get_args

from elwood.agent.session.extension import Group, SlashCommand


class SlashCommands:
    """All commands, with those of features.

    *moving* are the names of commands that later messages wait for.
    """

    def __init__(self, commands: Iterable[SlashCommand]) -> None:
        self.all = tuple(commands)
        self._named: dict[str, SlashCommand] = {}
        for one in self.all:
            for name in (one.name, *one.aliases):
                if name in self._named:
                    raise ValueError(f"two slash commands are called /{name}")
                self._named[name] = one
        self.moving = frozenset(name for name, one in self._named.items() if one.moves)

    def find(self, name: str) -> SlashCommand | None:
        return self._named.get(name)


def menu(commands: Iterable[SlashCommand]) -> Mapping[Group, list[SlashCommand]]:
    """Group the visible commands by their headings in /help."""
    groups: dict[Group, list[SlashCommand]] = {group: [] for group in get_args(Group)}
    for one in commands:
        if one.menu != "nobody":
            groups[one.group].append(one)
    return groups


def help_text(commands: Iterable[SlashCommand], given: str = "") -> str:
    """Return the text of /help, or of /help NAME for the name *given*."""
    groups = menu(commands)
    if not given:
        lines = [ABOUT]
        for group, members in groups.items():
            lines += ["", f"**{group}**", *(f"/{one.name}: {one.help}" for one in members)]
        return "\n".join([*lines, "", MORE])
    name = given.split()[0].removeprefix("/").lower()
    shown = SlashCommands(one for members in groups.values() for one in members)
    if (found := shown.find(name)) is not None:
        return f"/{found.name}: {found.about}"
    near = get_close_matches(name, [one.name for one in shown.all], n=1)
    meant = f" Did you mean /{near[0]}?" if near else ""
    return f"I do not know /{name}.{meant} /help lists my commands."


ABOUT = (
    "Write to me as you would to a person. I answer, remember important things, remind you, and "
    "do things for you. I ask before I do anything that could cause harm. For example:\n"
    "- Remind me tomorrow at nine to call Ann.\n"
    "- What did we say about the trip?\n"
    "- Read notes.txt and make a list of it."
)
MORE = "/help NAME explains one command, as in /help undo. The name of a skill is also a command."
