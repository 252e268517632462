"""The tools that read skills, and take new ones in.

One gets a new skill, the other places what the owner has seen: asking a server for files, and
letting instructions and code of somebody else be Elwood's own, are judged apart.
"""

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

import msgspec
import trio
from msgspec import Meta

from elwood.agent.conversation.calls import CreateTool, FetchUrl, Plan, ReadFiles
from elwood.agent.conversation.labels import PRIVATE
from elwood.agent.tools.tool import Output, Tool, ToolContext, ToolFailure, always
from elwood.agent.tools.workspace import path_failure
from elwood.features.skills.git_client import Git, GitFailed
from elwood.features.skills.installer import Offer, SkillInstaller, SkillRefused, read_tree
from elwood.features.skills.offered import candidate, review
from elwood.features.skills.skill import MAX_FILE, There, Unusable, missing
from elwood.features.skills.store import FoundSkill, FoundSkills, SkillStore, files_of
from elwood.foundation.net.egress import destination
from elwood.foundation.net.urls import MAX_URL
from elwood.foundation.runtime import Blocking
from elwood.foundation.sandbox.layout import environment
from elwood.foundation.storage.confined import PathRefused, Unconfined
from elwood.foundation.storage.files import Root
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


class SkillReading:
    """Gives skills of the *shelf*; *place* says where commands find a folder, if they do."""

    def __init__(
        self, shelf: SkillStore, blocking: Blocking, place: Callable[[Path], str | None]
    ) -> None:
        self._shelf = shelf
        self._blocking = blocking
        self._place = place

    async def activate(self, given: Activate, context: ToolContext) -> str | Output:
        """Give the instructions of a skill, or one of its files."""
        found = await self._shelf.found()
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
                return await self._blocking(partial(_file, placed, given.file))
            if context.sees(placed.skill.mark):
                return f"{placed.skill.name} is active already: its instructions stand further up"
            files, more = await self._blocking(partial(files_of, placed))
            directory = await self._blocking(partial(self._place_of, placed))
        except (PathRefused, Unconfined) as error:
            raise path_failure(given.file or placed.folder, error) from error
        return _activated(placed, directory, files, more)

    def _place_of(self, placed: FoundSkill) -> str | None:
        """Say where commands find the skill; None if they do not.  Blocks."""
        path = placed.root.path / placed.folder
        return self._place(path) or (str(path) if placed.is_inside else None)


def _activated(placed: FoundSkill, directory: str | None, files: list[str], more: bool) -> str:
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


def _file(placed: FoundSkill, path: str) -> str | Output:
    if path.startswith("/") or ".." in path.split("/"):
        raise PathRefused(path, "is not a file of the skill")
    # From the skill's own folder, so that no link in it leads to the rest of the workspace.
    root = type(placed.root)(placed.root.path / placed.folder)
    with root.file(path) as file:
        # Characters have at most four bytes.
        data = file.read(4 * MAX_SHOWN + 1)
        if b"\0" in data:
            raise PathRefused(path, "is not a text file")
        text = data.decode("utf-8", "replace").replace("\r\n", "\n").rstrip("\n")
        if len(text) > MAX_SHOWN:
            text = f"{text[:MAX_SHOWN]}\n[the rest is too long to be shown]"
        text = text or f"{escape_name(path)} is empty"
        return Output(text, untrusted=True, origin=escape_name(path)) if file.untrusted else text


def there(skills: list[FoundSkill]) -> There:
    """Find out which of the things that *skills* need commands would find."""
    least = environment({}, home="/")
    programs = {program for placed in skills for program in placed.skill.needs.programs}
    found = {program for program in programs if shutil.which(program, path=least["PATH"])}
    return There(frozenset(found), frozenset(least))


def usable(found: FoundSkills) -> list[FoundSkill]:
    """List the skills whose needs are met."""
    around = there(list(found.skills))
    return [one for one in found.skills if missing(one.skill.needs, around) is None]


# --- taking in new ones, in two steps, each of which is judged before it is done ------------------

_UNTRUSTED = (
    "this conversation has read content from strangers, so no skill is taken in here; "
    "the owner can do it in a new conversation, or by: elwood skills install"
)


class Fetch(msgspec.Struct, forbid_unknown_fields=True):
    source: Annotated[
        str,
        Meta(
            max_length=MAX_URL,
            description="https address of a git repository, or a folder of the workspace",
        ),
    ]
    folder: Annotated[
        str, Meta(max_length=500, description="Folder of the skill in the repository, if not '.'")
    ] = "."


class Install(msgspec.Struct, forbid_unknown_fields=True):
    id: Annotated[str, Meta(pattern="^[0-9a-f]{64}$", description="What fetch_skill answered")]


class SkillTaking:
    """Gets skills by *git* or from the *workspace*, keeps them at *places*, and places them."""

    def __init__(
        self,
        shelf: SkillStore,
        places: SkillInstaller,
        git: Git,
        workspace: Root,
        blocking: Blocking,
    ) -> None:
        self._shelf = shelf
        self._places = places
        self._git = git
        self._workspace = workspace
        self._blocking = blocking

    async def plan_fetch(self, given: Fetch, context: ToolContext) -> Plan:
        """Say where a skill would come from.  Nothing is fetched before that is decided."""
        await trio.lowlevel.checkpoint()
        if context.label.untrusted:
            raise ToolFailure(_UNTRUSTED)
        if "://" not in given.source:
            return Plan(ReadFiles(), f"Look at the skill in {given.source}")
        try:
            url = self._git.url(given.source)
        except GitFailed as error:
            raise ToolFailure(str(error)) from error
        outgoing = f"{url.text}\n{given.folder}"
        action = FetchUrl(
            url.text, url.host, destination(self._git.rules, url.host), len(url.target)
        )
        return Plan(action, f"Fetch the git repository {url.text}", outgoing=outgoing)

    async def fetch(self, given: Fetch, context: ToolContext) -> str:
        """Get a skill, and keep it for the owner to look at."""
        if context.label.untrusted:
            raise ToolFailure(_UNTRUSTED)
        try:
            id_, count = await self.take(given.source, given.folder)
        except GitFailed as error:
            raise ToolFailure(f"this skill cannot be taken in: {error}") from error
        except SkillRefused as error:
            # What is wrong with a stranger's skill may be told in the stranger's words.
            text = f"this skill cannot be taken in: {error}"
            is_theirs = "://" in given.source
            origin = given.source if is_theirs else ""
            raise ToolFailure(text, untrusted=is_theirs, origin=origin) from error
        except (PathRefused, Unconfined) as error:
            raise path_failure(given.source, error) from error
        return (
            f"fetched {count} files; nothing is installed yet. Its id is {id_}\n"
            "install_skill with this id shows the owner what is in it, and asks."
        )

    async def take(self, source: str, folder: str) -> tuple[str, int]:
        """Read the skill at *source*, judge and keep it; return its digest and the number of files.

        Raises SkillRefused, GitFailed, PathRefused and Unconfined.
        """
        commit = ""
        if "://" in source:
            with self._places.scratch() as scratch:
                fetched = await self._git.files(source, folder, scratch)
            files, commit = list(fetched.files), fetched.commit
        else:
            files = await self._blocking(
                partial(read_tree, self._workspace, source.rstrip("/") or ".")
            )
        offered = candidate(files)
        if isinstance(offered, Unusable):
            raise SkillRefused(offered.why)
        named = source if folder in ("", ".") else f"{source} ({folder})"
        await self._blocking(partial(self._places.keep, offered, Offer(named, commit)))
        return offered.digest, len(offered.files)

    async def plan_install(self, given: Install, context: ToolContext) -> Plan:
        """Show all that could act in a skill."""
        if context.label.untrusted:
            raise ToolFailure(_UNTRUSTED)
        try:
            offered, offer = await self._blocking(partial(self._places.offered, given.id))
        except (SkillRefused, PathRefused, Unconfined) as error:
            raise ToolFailure(str(error)) from error
        hidden = (await self._shelf.found()).place_of(offered.skill.name)
        facts = {"files": offered.digest, "source": offer.source, "commit": offer.commit}
        return Plan(CreateTool(), review(offered, _from(offer), hidden), facts)

    async def install(self, given: Install, context: ToolContext) -> str:
        """Place a skill that the owner has seen."""
        if context.label.untrusted:
            raise ToolFailure(_UNTRUSTED)

        def place() -> str:
            offered, offer = self._places.offered(given.id)
            self._places.place(offered, offer, by="approval")
            return offered.skill.name

        try:
            name = await self._blocking(place)
        except (SkillRefused, PathRefused, Unconfined) as error:
            raise ToolFailure(str(error)) from error
        return f"installed the skill {name} in skills/{name}; it can be used from the next turn on"


def _from(offer: Offer) -> str:
    return f"{offer.source} at commit {offer.commit}" if offer.commit else offer.source


def tools(reading: SkillReading, taking: SkillTaking) -> tuple[Tool, ...]:
    """List the tools about skills."""
    return (
        Tool(
            name="activate_skill",
            id="skills.skill.read",
            description=(
                "Read the instructions of one of the skills that are listed in the system prompt, "
                "before work that it is about; or, with file, one of the files that belong to it."
            ),
            input=Activate,
            run=reading.activate,
            risk="read",
            effect="pure",
            timeout=30.0,
            limit=2 * MAX_FILE,
            target=lambda given: f"{given.name} {escape_name(given.file)}".strip(),
            plan=always(ReadFiles()),
            gives=PRIVATE,
        ),
        Tool(
            name="fetch_skill",
            id="skills.skill.fetch",
            description=(
                "Get a skill, a folder with a SKILL.md, from a git repository on the web or from a "
                "folder of the workspace, so that it can be installed. It is kept apart; "
                "install_skill is next."
            ),
            input=Fetch,
            run=taking.fetch,
            risk="read",
            effect="pure",
            timeout=150.0,
            target=lambda given: escape_name(given.source),
            plan=taking.plan_fetch,
        ),
        Tool(
            name="install_skill",
            id="skills.skill.install",
            description=(
                "Install a skill that fetch_skill has got. The owner is shown everything in it "
                "that can act, and is asked each time."
            ),
            input=Install,
            run=taking.install,
            risk="write",
            effect="once",
            timeout=60.0,
            target=lambda given: given.id[:12],
            plan=taking.plan_install,
        ),
    )
