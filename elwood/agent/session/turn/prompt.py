"""What stands before every conversation: the documents, skills and tools, as they are now."""

import math
from collections.abc import Callable, Collection, Sequence

import trio

from elwood.agent.conversation.message import Prompt
from elwood.agent.session.turn.context import Documents, assemble
from elwood.agent.session.turn.workspace import Workspace
from elwood.agent.tools.tool import Tool
from elwood.features.skills.matching import called, matching
from elwood.features.skills.skill import Skill, catalogue, resident
from elwood.features.skills.store import FoundSkill, FoundSkills, SkillStore
from elwood.features.skills.tools import ACTIVATE_SKILL, usable

NOTE = (
    "What your tools did is recorded and shown to the reader below your answer. "
    "Never claim to have done what no tool result confirms."
)
# Parts of the prompt: one of so many is for the list of skills, and one for those in every prompt.
SKILLS_SHARE = 5
# Seconds for which documents and skills are not looked at again: nobody saves one and sends a
# message sooner, and conversations that begin turns together need one look.
LOOK_EVERY = 1.0

_Made = tuple[Documents, tuple[FoundSkill, ...], Prompt]


class Prompting:
    """Makes the prompt within *budget* tokens; the same object while nothing has changed.

    *redact* takes secrets out: somebody may have written one into a document.  Of the skills on
    *shelf* those called *always*, or that ask for it themselves, stand in it as a whole.
    """

    def __init__(
        self,
        workspace: Workspace,
        tools: Sequence[Tool],
        budget: int,
        redact: Callable[[str], str],
        shelf: SkillStore | None = None,
        always: Collection[str] = (),
    ) -> None:
        self._workspace = workspace
        self._specs = tuple(tool.spec for tool in tools)
        self._budget = budget
        self._redact = redact
        self._shelf = shelf
        self._always = always
        self._skills: tuple[FoundSkill, ...] = ()
        self._made: _Made | None = None
        self._looking = trio.Lock()
        self._looked = -math.inf

    async def __call__(self) -> Prompt:
        """Give the prompt, as documents and skills were at most `LOOK_EVERY` seconds ago."""
        async with self._looking:
            made = self._made
            if made is None or trio.current_time() >= self._looked + LOOK_EVERY:
                self._made = made = await self._look(made)
                self._looked = trio.current_time()
            return made[2]

    async def _look(self, made: _Made | None) -> _Made:
        """Look at documents and skills, and make the prompt anew if they have changed."""
        documents = await self._workspace.documents()
        found = FoundSkills() if self._shelf is None else await self._shelf.found()
        self._skills = tuple(usable(found))
        if made is not None and made[0] is documents and made[1] == self._skills:
            return made
        return documents, self._skills, self._make(documents)

    def suggest(self, message: str, sees: Callable[[str], bool]) -> str:
        """Name the skill that *message* calls, or those that clearly fit and are not known yet."""
        if found := called((one.skill for one in self._skills), message):
            return f"Use the skill {found[0].name} for this."
        offered = [skill for skill in self._listed() if not sees(skill.mark)]
        fitting = [skill.name for skill in matching(offered, message)]
        return f"Skills that may fit: {', '.join(fitting)}." if fitting else ""

    async def expand_skill_command(self, command: str) -> str:
        """Say in words what *command* asks for, if it is the name of a skill; else nothing."""
        found = FoundSkills() if self._shelf is None else await self._shelf.found()
        if (one := called((one.skill for one in usable(found)), command)) is None:
            return ""
        skill, words = one
        return f"Use the skill {skill.name}: {words}" if words else f"Use the skill {skill.name}."

    def _make(self, documents: Documents) -> Prompt:
        share = self._budget // SKILLS_SHARE
        # Who is listed can be activated, so what is too long to stand here is not lost.
        bodies, too_long = resident(self._resident(), share)
        kept = {skill.name for skill in self._resident()}.difference(too_long)
        listed = [one.skill for one in self._skills if one.skill.name not in kept]
        parts = (NOTE, catalogue(listed, share), bodies)
        note = "\n\n".join(part for part in parts if part)
        specs = self._specs
        if not self._skills:
            specs = tuple(spec for spec in specs if spec.name != ACTIVATE_SKILL.name)
        return Prompt(self._redact(assemble(documents, note, self._budget)), specs)

    def _resident(self) -> list[Skill]:
        skills = (one.skill for one in self._skills)
        return [skill for skill in skills if skill.always or skill.name in self._always]

    def _listed(self) -> list[Skill]:
        return [one.skill for one in self._skills if one.skill not in self._resident()]
