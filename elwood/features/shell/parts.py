"""What shell brings to one run of the app."""

import logging

import msgspec

from elwood.agent.approvals.messages import CommandResult
from elwood.agent.parts import ControlCommand, Gathered, Parts
from elwood.agent.policy.settings import PolicySettings
from elwood.agent.session.core import Core
from elwood.agent.session.extension import CommandAnswer, CommandCall, SlashCommand
from elwood.agent.tools.tool import WorkspaceFiles
from elwood.features.shell.tools import ID, NAME, tools
from elwood.foundation.checks import CheckContext, Finding
from elwood.foundation.net.control import ServiceUnreachable, ask
from elwood.foundation.sandbox.children import reap
from elwood.foundation.sandbox.command import NoSandbox
from elwood.foundation.sandbox.picking import Picked, find_engine, pick
from elwood.foundation.sandbox.settings import SandboxSettings
from elwood.foundation.settings import Config, Paths

log = logging.getLogger("elwood.shell")
# What `elwood` may ask the running service.
COMMAND = "sandbox"
WALLS = "no network; of your files they read the workspace and skills, and write the workspace"


class Seen(msgspec.Struct, frozen=True):
    """Where commands run, in *words* for people; *notes* say why, and what stays open.

    *warning* says what the owner should know of without asking: that it is weaker than what is
    installed, or that there is nowhere.  It *is_sound* if it is no worse than it could be.
    """

    words: str
    notes: tuple[str, ...] = ()
    warning: str = ""
    is_sound: bool = True

    @property
    def text(self) -> str:
        return "\n".join((self.words, *(f"- {note}" for note in self.notes)))


def see(found: Picked | NoSandbox, settings: SandboxSettings) -> Seen:
    """Put into words what came of the search for a sandbox."""
    if isinstance(found, NoSandbox):
        words, is_meant = f"Commands cannot be run: {found.why}", settings.kind == "none"
        return Seen(words, warning="" if is_meant else words, is_sound=is_meant)
    words, is_walled = f"Commands run in: {found.rung}", found.rung != "direct"
    notes = (*found.notes, *((WALLS,) if is_walled else ()))
    if not found.failed:
        return Seen(f"{words}.", notes, is_sound=is_walled)
    weaker = f"{words}, a weaker sandbox (/sandbox)"
    return Seen(f"{weaker}.", notes, f"{weaker}: {found.failed}", is_sound=False)


async def build(core: Core, others: Gathered) -> Parts:
    """Find a sandbox.  Commands that an earlier process left running are ended first."""
    blocking, paths = core.environment.blocking, core.paths
    if left := await blocking(lambda: reap(paths.state)):
        log.warning("ended commands of an earlier run", extra={"count": left})
    settings = core.config.of(SandboxSettings)
    found: Picked | NoSandbox
    try:
        folders = (paths.workspace, paths.state, tuple(root.path for root in others.lent))
        found = await pick(settings, *folders, blocking=blocking)
    except NoSandbox as error:
        found = error
    else:
        log.info("sandbox ready", extra={"rung": found.rung, "notes": "; ".join(found.notes)})
    seen = see(found, settings)
    if seen.warning:
        log.warning("no sandbox, or a weaker one", extra={"why": seen.warning})
        core.table.warn("sandbox", seen.warning)

    async def show(call: CommandCall) -> CommandAnswer:
        return CommandAnswer(seen.text)

    async def answer(words: object) -> CommandResult:
        return CommandResult(seen.text, ok=seen.is_sound)

    sandbox = found if isinstance(found, NoSandbox) else found.executor
    files = WorkspaceFiles(core.workspace, others.lent, others.place)
    return Parts(
        tools=tools(sandbox, files, blocking),
        sandbox=sandbox,
        commands=[
            SlashCommand(
                name=COMMAND,
                help="where commands run, and what holds",
                run=show,
                group="What I may do",
            )
        ],
        control=[ControlCommand(name=COMMAND, run=answer)],
        status=[] if seen.warning else [lambda: seen.words],  # warnings stand there anyway
    )


async def check(context: CheckContext) -> list[Finding]:
    """For the doctor: ask the running Elwood; without one take a sandbox, and give it back."""
    settings, paths = context.config.of(SandboxSettings), context.config.of(Paths)
    if settings.kind == "direct":
        return [_unconfined(context.config)]
    try:
        answer = await context.blocking(lambda: ask(paths.runtime, COMMAND))
    except ServiceUnreachable:
        if not (paths.state.is_dir() and paths.workspace.is_dir()):
            return []  # told with the folders
        seen = await _tried(settings, paths, context)
        text, is_sound = (
            f"{seen.text}\n- tried from here: a service may be allowed less",
            seen.is_sound,
        )
    else:
        text, is_sound = f"{answer.text}\n- so says the Elwood that runs", answer.ok
    what = text.replace(".\n- ", "; ").replace("\n- ", "; ")
    if is_sound:
        return [Finding("ok", "sandbox", what)]
    return [Finding("warning", "sandbox", what, "see docs/sandbox.md")]


async def _tried(settings: SandboxSettings, paths: Paths, context: CheckContext) -> Seen:
    try:
        if settings.kind == "docker":
            # To take it would remove the containers of a process that runs where we cannot see it.
            await find_engine(settings)
            return Seen("The container engine answers, and has the image.")
        picked = await pick(settings, paths.workspace, paths.state, blocking=context.blocking)
    except NoSandbox as error:
        return see(error, settings)
    except OSError as error:
        words = f"It cannot be tried: {error.strerror}: {error.filename}"
        return Seen(words, ("run the doctor as the user of Elwood",), is_sound=False)
    return see(picked, settings)


def _unconfined(config: Config) -> Finding:
    asked = "you are asked about each of them"
    match config.of(PolicySettings).word(NAME, ID):
        case "allow":
            asked = "policy.allow lets them run unasked"
        case "deny":
            return Finding("ok", "sandbox", "policy.deny forbids all commands")
    what = f"commands are not confined, and {asked}"
    return Finding("warning", "sandbox", what, 'set sandbox.kind to "auto"')
