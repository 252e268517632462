"""The tool that reads a skill."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from elwood.agent.conversation.calls import ReadFiles
from elwood.agent.conversation.labels import PRIVATE
from elwood.agent.tools.tool import Tool, ToolContext, ToolFailure, always
from elwood.features.skills.skill import MAX_FILE
from elwood.features.skills.store import FoundSkill, SkillStore, lacking
from elwood.foundation.runtime import Blocking

# Names of skills that a failure lists.
MAX_NAMES = 50


class Activate(msgspec.Struct, forbid_unknown_fields=True):
    name: Annotated[str, Meta(max_length=300, description="Name of the skill, as it is listed")]


def tools(
    shelf: SkillStore, blocking: Blocking, place: Callable[[Path], str | None]
) -> tuple[Tool, ...]:
    """Make the tools that give skills of the *shelf*.

    *place* says where commands find a folder, if they do; it blocks.
    """

    async def activate(given: Activate, context: ToolContext) -> str:
        found = await shelf.found()
        one = found.named(given.name)
        if one is None:
            names = [one.skill.name for one in found.skills]
            listed = ", ".join(names[:MAX_NAMES]) or "none"
            raise ToolFailure(f"there is no skill of this name; there are: {listed}")
        if (why := lacking(one.skill)) is not None:
            raise ToolFailure(f"the skill {one.skill.name} cannot be used: {why}")
        if context.sees(one.skill.mark):
            return f"{one.skill.name} is active already: its instructions stand further up"
        return _written(one, await blocking(partial(place, one.path)))

    return (
        Tool(
            name="activate_skill",
            id="skills.skill.read",
            description=(
                "Read the instructions of one of the skills that are listed in the system prompt, "
                "before work that it is about."
            ),
            input=Activate,
            run=activate,
            risk="read",
            effect="pure",
            timeout=30.0,
            limit=2 * MAX_FILE,
            target=lambda given: str(given.name),
            plan=always(ReadFiles()),
            gives=PRIVATE,
        ),
    )


def _written(found: FoundSkill, place: str | None) -> str:
    """Write a skill out for the model; commands find it at *place*, if they do."""
    note = (
        "Paths in it start at its directory: its files can be listed and read, and its scripts "
        "are run by their path."
    )
    if not found.is_inside:
        note += " It is only read."
        if place is None:
            note = "Commands do not reach its directory: its scripts can be read, not run."
    head = f'{found.skill.mark} directory="{place or found.path}">'
    return "\n".join([head, found.skill.body, "</skill>", note])
