"""What skills brings to one run of the app."""

from functools import partial

from elwood.agent.conversation.labels import CLEAN
from elwood.agent.parts import Gathered, Parts
from elwood.agent.session.commands.paging import asked_page, page
from elwood.agent.session.core import Core
from elwood.agent.session.extension import (
    CommandAnswer,
    CommandCall,
    SessionExtension,
    SlashCommand,
)
from elwood.agent.session.log.entries import Reminded
from elwood.agent.session.log.session_log import SessionLog
from elwood.agent.tools.tool import LentFolder
from elwood.features.skills.feature import SkillSettings
from elwood.features.skills.skill import Skill, called, catalogue, matching, resident
from elwood.features.skills.store import SkillStore, lacking
from elwood.features.skills.tools import tools
from elwood.foundation.text.lines import cut

# Skills on a page, and characters of a description there.
LISTED, GLIMPSE = 10, 120
# Parts of the prompt: one of so many is for the list of skills, and one for those in every prompt.
SHARE = 5


class SkillList:
    """The skills that can be used, as they were when the prompt was looked at last.

    Those that *always* names stand in the prompt as a whole.
    """

    def __init__(self, shelf: SkillStore, always: tuple[str, ...]) -> None:
        self._shelf = shelf
        self.always = always
        self.skills: list[Skill] = []

    async def text(self, budget: int) -> str:
        self.skills = await self.usable()
        whole = [skill for skill in self.skills if skill.name in self.always]
        # Who is listed can be activated, so what is too long to stand here is not lost.
        bodies, too_long = resident(whole, budget // SHARE)
        kept = {skill.name for skill in whole}.difference(too_long)
        listed = [skill for skill in self.skills if skill.name not in kept]
        return "\n\n".join(filter(None, (catalogue(listed, budget // SHARE), bodies)))

    async def usable(self) -> list[Skill]:
        found = await self._shelf.found()
        return [one.skill for one in found.skills if lacking(one.skill) is None]


class SkillExtension(SessionExtension):
    """Skills in one conversation: those that fit are named, and the name of one is a command."""

    def __init__(self, log: SessionLog, skills: SkillList) -> None:
        self._log = log
        self._skills = skills

    async def remind(self) -> Reminded | None:
        """Say which skills may help, as the turn begins."""
        turn = self._log.state.turn
        if turn is None or turn.rounds or turn.attempts > 1:
            return None
        hint = self.hint("\n".join(said.text for said in turn.inputs))
        return Reminded(turn.id, hint, CLEAN) if hint else None

    def hint(self, message: str) -> str:
        """Name the skill that *message* calls, or those that clearly fit and are not known yet."""
        known = self._skills
        if found := called(known.skills, message):
            return f"Use the skill {found[0].name} for this."
        unknown = (
            skill
            for skill in known.skills
            if skill.name not in known.always and not self._log.sees(skill.mark)
        )
        names = ", ".join(skill.name for skill in matching(unknown, message))
        return f"Skills that may fit: {names}." if names else ""

    async def expand(self, command: str) -> str:
        """Say in words what *command* asks for, if it is the name of a skill; else nothing."""
        if (found := called(await self._skills.usable(), command)) is None:
            return ""
        skill, words = found
        return f"Use the skill {skill.name}: {words}" if words else f"Use the skill {skill.name}."


async def command(shelf: SkillStore, call: CommandCall) -> CommandAnswer:
    """Carry ``/skills`` out: list them, and what keeps some from being used."""
    found, (_, number) = await shelf.found(), asked_page(call.given)
    shown, pages = page(found.skills, number, LISTED, "/skills")
    lines = []
    for skill in (one.skill for one in shown):
        why = lacking(skill)
        lines.append(f"{skill.name}: {cut(skill.description, GLIMPSE)}")
        lines += [f"  cannot be used: {why}"] if why else []
    lines += [f"⚠ {problem}" for problem in found.problems[:LISTED]] if number == 1 else []
    text = "Skills; the name of one is a command:" if shown else "There are no skills."
    return CommandAnswer(text, "\n".join(lines), pages=pages)


async def build(core: Core, others: Gathered) -> Parts:
    settings, blocking = core.config.of(SkillSettings), core.environment.blocking
    shelf = SkillStore(core.workspace, blocking, settings.folders, off=settings.off)
    skills = SkillList(shelf, settings.always)
    return Parts(
        tools=tools(shelf, blocking, others.place),
        prompt=[skills],
        sessions=[lambda log: SkillExtension(log, skills)],
        commands=[
            SlashCommand(
                name="skills",
                help="the skills that I have",
                run=partial(command, shelf),
                group="What I know and plan",
            )
        ],
        lent=tuple(map(LentFolder, shelf.packages)),
    )
