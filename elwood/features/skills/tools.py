"""The tool that reads a skill."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from elwood.agent.conversation.calls import ReadFiles
from elwood.agent.conversation.route import Route
from elwood.agent.tools.tool import Tool, ToolContext, ToolFailure, always
from elwood.features.skills.skill import MAX_FILE
from elwood.features.skills.store import FoundSkill, SkillStore, describe_missing
from elwood.foundation.runtime import Blocking
from elwood.foundation.sandbox.layout import missing_programs

NAME, ID = "activate_skill", "skills.skill.read"
Read = Callable[[str, Route], Awaitable[str]]
# Skill names listed by a failure.
MAX_NAMES = 50


class Activate(msgspec.Struct, forbid_unknown_fields=True):
    name: Annotated[str, Meta(max_length=300, description="A name from the list of skills")]


async def read_skill(
    shelf: SkillStore,
    blocking: Blocking,
    place: Callable[[Path], str | None],
    name: str,
    route: Route,
) -> str:
    """Format the skill *name* of the *shelf* for the model in the conversation at *route*.

    *place* maps a folder to its path for commands, if any; it blocks.  Raises ToolFailure.
    """
    skills = [one for one in (await shelf.list_skills()).skills if one.is_open(route)]
    one = next((one for one in skills if one.skill.name == name), None)
    if one is None:
        listed = ", ".join([one.skill.name for one in skills][:MAX_NAMES]) or "none"
        raise ToolFailure(f"there is no skill with this name; available: {listed}")
    if (why := describe_missing(one.skill)) is not None:
        raise ToolFailure(f"the skill {one.skill.name} cannot be used: {why}")
    return await blocking(lambda: _format_skill(one, place(one.path)))


def tools(read: Read) -> tuple[Tool, ...]:
    async def activate(given: Activate, context: ToolContext) -> str:
        text = await read(given.name, context.route)
        if context.sees(text.partition(" directory=")[0]):
            return f"{given.name} is already active: its instructions are further up"
        return text

    return (
        Tool(
            name=NAME,
            id=ID,
            description=(
                "Read the instructions of a skill from the list in the system prompt, before work "
                "that matches it."
            ),
            input=Activate,
            run=activate,
            risk="read",
            effect="pure",
            timeout=30.0,
            limit=2 * MAX_FILE,
            target=lambda given: str(given.name),
            plan=always(ReadFiles(), "read a skill"),
        ),
    )


def _format_skill(entry: FoundSkill, place: str | None) -> str:
    """Format a skill for the model; commands find it at *place*, if given."""
    note = (
        "Paths in it are relative to its directory. You can list and read its files, and run its "
        "scripts by their path."
    )
    if not entry.is_inside:
        note += " The directory is read-only."
        if place is None:
            note = (
                "Commands cannot reach its directory: you can read its scripts, but not run them."
            )
    if packages := entry.skill.packages:
        note += f" It needs the packages {', '.join(packages)}"
        missing = ", ".join(missing_programs(packages))
        note += f"; these programs are missing: {missing}. Tell the owner." if missing else "."
    head = f'{entry.skill.mark} directory="{place or entry.path}">'
    return "\n".join([head, entry.skill.body, "</skill>", note])
