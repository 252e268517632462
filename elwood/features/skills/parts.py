import re
from contextlib import suppress
from functools import partial

from elwood.agent.conversation.labels import CLEAN
from elwood.agent.conversation.route import Route
from elwood.agent.parts import Gathered, Parts
from elwood.agent.policy.settings import PolicySettings
from elwood.agent.session.core import Core
from elwood.agent.session.extension import (
    CommandAnswer,
    CommandCall,
    Reminder,
    SessionExtension,
    SlashCommand,
)
from elwood.agent.session.log.entries import Reminded
from elwood.agent.session.log.session_log import SessionLog
from elwood.agent.session.paging import page, parse_page
from elwood.agent.tools.tool import MountedRoot, ToolFailure
from elwood.features.skills.settings import SkillSettings
from elwood.features.skills.skill import (
    LOADS,
    find_matching,
    format_catalogue,
    format_resident,
    match_command,
)
from elwood.features.skills.store import FoundSkill, SkillStore, describe_missing
from elwood.features.skills.tools import ID, NAME, Read, read_skill, tools
from elwood.foundation.checks import CheckContext, Finding
from elwood.foundation.settings import Config, Paths
from elwood.foundation.storage.files import Root
from elwood.foundation.text.lines import shorten
from elwood.foundation.text.tokens import estimate

# Skills on a page, and characters of a description there.
LISTED, GLIMPSE = 10, 120
# A fifth of the prompt is for the list of skills, and a fifth for those in every prompt.
SHARE = 5
# Tokens of a skill sent with a message; longer ones are only named.
MAX_GIVEN = 4_000
USE = "Use the skill "


class SkillList:
    """The usable skills at the last read of the prompt.

    The skills that *always* names are in the prompt as a whole; those for some chats are not in it.
    """

    def __init__(self, shelf: SkillStore, always: tuple[str, ...]) -> None:
        self._shelf = shelf
        self.always = always
        self.found: list[FoundSkill] = []

    async def text(self, budget: int) -> str:
        self.found = await self.usable()
        skills = [one.skill for one in self.found if not one.chats]
        whole = [skill for skill in skills if skill.name in self.always]
        # Listed skills can be activated, so a too long one is not lost.
        bodies, too_long = format_resident(whole, budget // SHARE)
        whole_names = {skill.name for skill in whole}.difference(too_long)
        listed = [skill for skill in skills if skill.name not in whole_names]
        return "\n\n".join(filter(None, (format_catalogue(listed, budget // SHARE), bodies)))

    async def usable(self) -> list[FoundSkill]:
        return [
            one
            for one in (await self._shelf.list_skills()).skills
            if not describe_missing(one.skill)
        ]


class SkillExtension(SessionExtension):
    """Skills in one conversation: matching ones are added, and a skill's name is a command.

    At most *most* are added as a whole, by *read*; others are named.
    """

    def __init__(self, log: SessionLog, skills: SkillList, read: Read, most: int) -> None:
        self._log = log
        self._skills = skills
        self._read = read
        self._most = most

    def reminder(self) -> Reminder | None:
        turn = self._log.state.turn
        is_new = turn is not None and not turn.rounds and turn.attempts <= 1
        return self._remind if is_new and self._skills.found else None

    async def _remind(self) -> Reminded | None:
        """Add the skills that fit best and are not in view, and list others, as the turn begins.

        Only the owner's own words select them.
        """
        turn, label = self._log.state.turn, self._log.state.taint.label
        if turn is None or turn.rounds or turn.attempts > 1:
            return None
        message = "\n".join(one.text for one in turn.inputs)
        usable = [one.skill for one in self._skills.found if one.is_open(turn.route)]
        always, sees = self._skills.always, self._log.sees
        new = [one for one in usable if one.name not in always and not sees(one.mark)]
        named, given = match_command(usable, re.sub(f"^{USE}", "/", message)), list[str]()
        if not (label.untrusted or turn.bounds) and turn.is_owners_alone:
            best = named[:1] if named else find_matching(new, message, self._most, LOADS)
            for skill in best[: self._most]:
                with suppress(ToolFailure):
                    text = await self._read(skill.name, turn.route) if skill in new else ""
                    if 0 < estimate(text) <= MAX_GIVEN:
                        given.append(text)
                        new.remove(skill)
        hint = ", ".join(skill.name for skill in find_matching(new, message))
        hint = f"Skills that may fit: {hint}." if hint else ""
        hint = f"{USE}{named[0].name} for this." if named and message[0] == "/" else hint
        text = "\n\n".join(filter(None, (*given, hint)))
        return Reminded(turn.id, text, CLEAN, "your skills", "skill", False) if text else None

    async def expand(self, command: str) -> str:
        """Return the request for the skill that *command* names, or ""."""
        usable = [one.skill for one in await self._skills.usable()]
        if (match := match_command(usable, command)) is None:
            return ""
        skill, words = match
        return f"{USE}{skill.name}: {words}" if words else f"{USE}{skill.name}."


async def run_skills(shelf: SkillStore, call: CommandCall) -> CommandAnswer:
    """Run ``/skills``: list the skills, and what makes some unusable."""
    result, (_, number) = await shelf.list_skills(), parse_page(call.given)
    shown, pages = page(result.skills, number, LISTED, "/skills")
    lines = []
    for skill in (one.skill for one in shown):
        why = describe_missing(skill)
        lines.append(f"{skill.name}: {shorten(skill.description, GLIMPSE)}")
        lines += [f"  cannot be used: {why}"] if why else []
    lines += [f"⚠ {problem}" for problem in result.problems[:LISTED]] if number == 1 else []
    text = "My skills; type / and a name to use one:" if shown else "I have no skills yet."
    return CommandAnswer(text, "\n".join(lines), pages=pages)


async def check(context: CheckContext) -> list[Finding]:
    workspace = Root(context.config.get(Paths).workspace)
    shelf = SkillStore(workspace, context.blocking, context.config.get(SkillSettings))
    return [
        Finding("warning", "skills", problem) for problem in (await shelf.list_skills()).problems
    ]


def list_mounts(config: Config) -> list[MountedRoot]:
    """Return the skill folders outside the workspace."""
    return [MountedRoot(Root(one, writable=False)) for one in config.get(SkillSettings).folders]


async def build(core: Core, others: Gathered) -> Parts:
    settings, blocking = core.config.get(SkillSettings), core.environment.blocking
    shelf = SkillStore(core.workspace, blocking, settings)
    if settings.always or settings.off or settings.chats or settings.folders:
        await shelf.list_skills()  # it logs problems; without settings it would only cost 1.3 MB
    skills = SkillList(shelf, settings.always)

    async def read(name: str, route: Route) -> str:
        return core.redactor(await read_skill(shelf, blocking, others.map_path, name, route))

    is_free = core.config.get(PolicySettings).word(NAME, ID) in (None, "allow")
    most = settings.load if is_free else 0
    return Parts(
        tools=tools(read),
        prompt=[skills],
        sessions=[lambda log: SkillExtension(log, skills, read, most)],
        commands=[
            SlashCommand(
                name="skills",
                help="my skills for special work",
                run=partial(run_skills, shelf),
                group="What I know and plan",
            )
        ],
    )
