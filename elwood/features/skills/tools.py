"""The tool that reads skills, when the work is there that they are about."""

import shutil
from functools import partial
from typing import Annotated

import msgspec
from msgspec import Meta

from elwood.agent.conversation.actions import ReadFiles
from elwood.agent.conversation.labels import PRIVATE
from elwood.agent.tools.tool import (
    Hands,
    Output,
    Tool,
    ToolFailure,
    always,
)
from elwood.agent.tools.workspace import path_failure
from elwood.features.skills.needs import There, missing
from elwood.features.skills.skill import MAX_FILE
from elwood.features.skills.store import (
    Found,
    Placed,
    Shelf,
    files_of,
)
from elwood.foundation.sandbox.command import NoSandbox
from elwood.foundation.sandbox.layout import environment
from elwood.foundation.storage.confined import PathRefused, Unconfined
from elwood.foundation.storage.text_files import decoded, raw_lines
from elwood.foundation.text.lines import escape_name

# Names of skills that a failure lists.
MAX_NAMES = 50
# Characters of a file of a skill that one call gives, below the limit of the tool.
MAX_SHOWN = MAX_FILE


class Activate(msgspec.Struct, forbid_unknown_fields=True):
    name: Annotated[str, Meta(max_length=300, description="Name of the skill, as it is listed")]
    file: Annotated[
        str, Meta(max_length=500, description="A file of the skill to read; else its instructions")
    ] = ""


async def activate_skill(given: Activate, hands: Hands) -> str | Output:
    """Give the instructions of a skill, or one of its files."""
    found = await _shelf(hands).found()
    placed = found.named(given.name)
    if placed is None:
        names = [one.skill.name for one in found.skills]
        listed = ", ".join(names[:MAX_NAMES]) or "none"
        raise ToolFailure(f"there is no skill of this name; there are: {listed}")
    lacking = missing(placed.skill.needs, there([placed]))
    if lacking is not None:
        raise ToolFailure(f"the skill {placed.skill.name} cannot be used: {lacking}")
    try:
        if given.file:
            return await hands.blocking(partial(_file, placed, given.file))
        if hands.sees(placed.skill.mark):
            return f"{placed.skill.name} is active already: its instructions stand further up"
        files, more = await hands.blocking(partial(files_of, placed))
        directory = await hands.blocking(partial(place_of, placed, hands))
    except (PathRefused, Unconfined) as error:
        raise path_failure(given.file or placed.folder, error) from error
    return _activated(placed, directory, files, more)


def _activated(placed: Placed, directory: str | None, files: list[str], more: bool) -> str:
    skill = placed.skill
    if directory is not None:
        where = f'{skill.mark} directory="{directory}">'
        note = "Paths in it start at its directory; run its scripts by their path from there."
        if not placed.is_inside:
            note += " It is only read, also by read_file."
    else:
        where = f"{skill.mark}>"
        note = "It lies where commands do not reach: its scripts cannot be run."
    lines = [where, skill.body, "</skill>", note]
    if files:
        lines += ["Its files (read one by activate_skill with file):", *files]
        lines += ["[there are more]"] if more else []
    return "\n".join(lines)


def place_of(placed: Placed, hands: Hands) -> str | None:
    """Say where commands find the skill; None if they do not.  Blocks."""
    path = placed.root.path / placed.folder
    if isinstance(hands.sandbox, NoSandbox):
        return str(path) if placed.is_inside else None
    return hands.sandbox.place(path)


def _file(placed: Placed, path: str) -> str | Output:
    if path.startswith("/") or ".." in path.split("/"):
        raise PathRefused(path, "is not a file of the skill")
    # From the skill's own folder, so that no link in it leads to the rest of the workspace.
    root = type(placed.root)(placed.root.path / placed.folder)
    with root.file(path) as file:
        lines, room = [], MAX_SHOWN
        for raw in raw_lines(path, file):
            line = decoded(raw)
            room -= len(line) + 1
            if room < 0:
                lines.append("[the rest is too long to be shown]")
                break
            lines.append(line)
        text = "\n".join(lines) or f"{escape_name(path)} is empty"
        return Output(text, untrusted=True, origin=escape_name(path)) if file.untrusted else text


def there(skills: list[Placed]) -> There:
    """Find out which of the things that *skills* need commands would find."""
    least = environment({}, home="/")
    programs = {program for placed in skills for program in placed.skill.needs.programs}
    found = {program for program in programs if shutil.which(program, path=least["PATH"])}
    return There(frozenset(found), frozenset(least))


def usable(found: Found) -> list[Placed]:
    """List the skills whose needs are met."""
    around = there(list(found.skills))
    return [one for one in found.skills if missing(one.skill.needs, around) is None]


def _shelf(hands: Hands) -> Shelf:
    if hands.skills is None:
        raise ToolFailure("there are no skills here")
    return hands.skills


ACTIVATE_SKILL = Tool(
    name="activate_skill",
    id="skills.skill.read",
    description=(
        "Read the instructions of one of the skills that are listed in the system prompt, before "
        "work that it is about; or, with file, one of the files that belong to it."
    ),
    input=Activate,
    run=activate_skill,
    risk="read",
    effect="pure",
    timeout=30.0,
    limit=2 * MAX_FILE,
    target=lambda given: f"{given.name} {escape_name(given.file)}".strip(),
    plan=always(ReadFiles()),
    gives=PRIVATE,
)
