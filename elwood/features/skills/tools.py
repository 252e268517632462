"""The tools that read skills, and take new ones in.

One gets a new skill, the other places what the owner has seen: asking a server for files, and
letting instructions and code of somebody else be Elwood's own, are judged apart.
"""

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

import msgspec
import trio
from msgspec import Meta

from elwood.agent.conversation.calls import CreateTool, FetchUrl, Plan, ReadFiles
from elwood.agent.conversation.labels import PRIVATE
from elwood.agent.tools.tool import Tool, ToolContext, ToolFailure, always, reaching
from elwood.features.skills.git_client import Git, GitFailed
from elwood.features.skills.skill import MAX_FILE, Candidate, Unusable, candidate, review
from elwood.features.skills.store import (
    FoundSkill,
    SkillInstaller,
    SkillRefused,
    SkillStore,
    lacking,
    read_tree,
)
from elwood.foundation.net.egress import destination
from elwood.foundation.net.urls import MAX_URL
from elwood.foundation.runtime import Blocking
from elwood.foundation.storage.confined import PathRefused, Unconfined
from elwood.foundation.storage.files import Root
from elwood.foundation.text.lines import escape_name

# Names of skills that a failure lists.
MAX_NAMES = 50
# Skills that wait for a word, each of 4 MiB at most; the oldest go first.
MAX_OFFERED = 5

_UNTRUSTED = (
    "this conversation has read content from strangers, so no skill is taken in here; "
    "the owner can do it in a new conversation, or by: elwood skills install"
)


class Activate(msgspec.Struct, forbid_unknown_fields=True):
    name: Annotated[str, Meta(max_length=300, description="Name of the skill, as it is listed")]


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


class SkillTools:
    """Gives skills of the *shelf*, and takes new ones in, by *git* or from the *workspace*.

    *place* says where commands find a folder, if they do.  What was fetched is kept until it is
    installed or Elwood stops: what is placed is what was shown.
    """

    def __init__(
        self,
        shelf: SkillStore,
        installer: SkillInstaller,
        git: Git,
        workspace: Root,
        blocking: Blocking,
        place: Callable[[Path], str | None],
    ) -> None:
        self._shelf = shelf
        self._installer = installer
        self._git = git
        self._workspace = workspace
        self._blocking = blocking
        self._place = place
        self._offered: dict[str, Candidate] = {}

    async def activate(self, given: Activate, context: ToolContext) -> str:
        """Give the instructions of a skill, and say where its files are."""
        found = await self._shelf.found()
        one = found.named(given.name)
        if one is None:
            names = [one.skill.name for one in found.skills]
            listed = ", ".join(names[:MAX_NAMES]) or "none"
            raise ToolFailure(f"there is no skill of this name; there are: {listed}")
        if (why := lacking(one.skill)) is not None:
            raise ToolFailure(f"the skill {one.skill.name} cannot be used: {why}")
        if context.sees(one.skill.mark):
            return f"{one.skill.name} is active already: its instructions stand further up"
        return await self._blocking(partial(self._activated, one))

    def _activated(self, found: FoundSkill) -> str:
        place = self._place(found.path)
        note = (
            "Paths in it start at its directory: its files can be listed and read, and its scripts "
            "are run by their path."
        )
        if not found.is_inside:
            note += " It is only read."
            if place is None:
                note = "Commands do not reach its directory: its scripts can be read, not run."
        head = f'{found.skill.mark} directory="{place or found.path}">'
        lines = [head, found.skill.body, "</skill>", note]
        return "\n".join(lines)

    async def plan_fetch(self, given: Fetch, context: ToolContext) -> Plan:
        """Say where a skill would come from.  Nothing is fetched before that is decided."""
        await trio.lowlevel.checkpoint()
        _need_trust(context)
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
        _need_trust(context)
        try:
            with reaching(given.source):
                offered = await take(
                    given.source, given.folder, self._git, self._workspace, self._blocking
                )
        except GitFailed as error:
            raise ToolFailure(f"this skill cannot be taken in: {error}") from error
        except SkillRefused as error:
            # What is wrong with a stranger's skill may be told in the stranger's words.
            text = f"this skill cannot be taken in: {error}"
            is_theirs = "://" in given.source
            origin = given.source if is_theirs else ""
            raise ToolFailure(text, untrusted=is_theirs, origin=origin) from error
        self._offered[offered.digest] = offered
        if len(self._offered) > MAX_OFFERED:
            del self._offered[next(iter(self._offered))]
        return (
            f"fetched {len(offered.files)} files; nothing is installed yet. "
            f"Its id is {offered.digest}\n"
            "install_skill with this id shows the owner what is in it, and asks."
        )

    async def plan_install(self, given: Install, context: ToolContext) -> Plan:
        """Show all that could act in a skill."""
        offered = self._waiting(given, context)
        hidden = (await self._shelf.found()).place_of(offered.skill.name)
        facts = {"files": offered.digest, "source": offered.source, "commit": offered.commit}
        return Plan(CreateTool(), review(offered, hidden), facts)

    async def install(self, given: Install, context: ToolContext) -> str:
        """Place a skill that the owner has seen."""
        offered = self._waiting(given, context)
        try:
            await self._blocking(partial(self._installer.place, offered, by="approval"))
        except (SkillRefused, PathRefused, Unconfined) as error:
            raise ToolFailure(str(error)) from error
        self._offered.pop(given.id, None)
        name = offered.skill.name
        return f"installed the skill {name} in skills/{name}; it can be used from the next turn on"

    def _waiting(self, given: Install, context: ToolContext) -> Candidate:
        _need_trust(context)
        if (offered := self._offered.get(given.id)) is None:
            raise ToolFailure("no such skill waits to be installed; fetch it again")
        return offered


def _need_trust(context: ToolContext) -> None:
    if context.label.untrusted:
        raise ToolFailure(_UNTRUSTED)


async def take(
    source: str, folder: str, git: Git, workspace: Root, blocking: Blocking
) -> Candidate:
    """Read the skill at *source*, and judge it.

    Raises SkillRefused, GitFailed, PathRefused and Unconfined.
    """
    commit = ""
    if "://" in source:
        with tempfile.TemporaryDirectory(prefix="elwood-skill-") as scratch:
            fetched = await git.files(source, folder, Path(scratch))
        files, commit = list(fetched.files), fetched.commit
    else:
        files = await blocking(partial(read_tree, workspace, source))
    named = source if folder in ("", ".") else f"{source} ({folder})"
    offered = candidate(files, named, commit)
    if isinstance(offered, Unusable):
        raise SkillRefused(offered.why)
    return offered


def tools(skills: SkillTools) -> tuple[Tool, ...]:
    return (
        Tool(
            name="activate_skill",
            id="skills.skill.read",
            description=(
                "Read the instructions of one of the skills that are listed in the system prompt, "
                "before work that it is about."
            ),
            input=Activate,
            run=skills.activate,
            risk="read",
            effect="pure",
            timeout=30.0,
            limit=2 * MAX_FILE,
            target=lambda given: str(given.name),
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
            run=skills.fetch,
            risk="read",
            effect="pure",
            timeout=150.0,
            target=lambda given: escape_name(given.source),
            plan=skills.plan_fetch,
        ),
        Tool(
            name="install_skill",
            id="skills.skill.install",
            description=(
                "Install a skill that fetch_skill has got. The owner is shown everything in it "
                "that can act, and is asked each time."
            ),
            input=Install,
            run=skills.install,
            risk="write",
            effect="once",
            timeout=60.0,
            target=lambda given: given.id[:12],
            plan=skills.plan_install,
        ),
    )
