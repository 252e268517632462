import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import attrs
import msgspec
import trio

from elwood.agent.conversation.inbound import CommandResult
from elwood.agent.conversation.route import addresses
from elwood.agent.conversation.settings import Owner
from elwood.agent.parts import ControlCommand, Gathered, Parts
from elwood.agent.policy.settings import PolicySettings
from elwood.agent.session.core import Core
from elwood.agent.session.extension import CommandAnswer, CommandCall, SlashCommand
from elwood.agent.tools.tool import MountedRoot, WorkspaceFiles
from elwood.features.shell.commands import USAGE, WorkspaceReview
from elwood.features.shell.extension import EnvironmentExtension, build_probe
from elwood.features.shell.tools import ID, NAME, CommandTool, tool
from elwood.foundation.checks import CheckContext, Finding
from elwood.foundation.net.control import ServiceUnreachable, ask
from elwood.foundation.runtime import Blocking
from elwood.foundation.sandbox.children import reap
from elwood.foundation.sandbox.command import NoSandbox
from elwood.foundation.sandbox.following import finish_interrupted
from elwood.foundation.sandbox.instructions import SetAside, list_set_aside
from elwood.foundation.sandbox.layout import missing_programs
from elwood.foundation.sandbox.picking import ChosenSandbox, engines, find_engine, pick
from elwood.foundation.sandbox.settings import FolderMount, SandboxSettings
from elwood.foundation.settings import Config, Paths
from elwood.foundation.storage.files import Root
from elwood.foundation.text.lines import escape_name

log = logging.getLogger("elwood.shell")
# Command of the control socket.
COMMAND = "sandbox"
WALLS = "no network; of your files they can read the workspace and skills, and write the workspace"
# There is no state that a reset could remove.
FRESH = "nothing of a command remains except files it wrote to the workspace"
MODES = {"ro": "read-only", "rw": "read and write"}
CLOSED = "files with secrets and folders whose names begin with a dot (except .git) cannot be read"


class SandboxStatus(msgspec.Struct, frozen=True):
    """Where commands run."""

    words: str  # for people
    notes: tuple[str, ...] = ()  # reasons and remarks
    warning: str = ""  # for the owner: the sandbox is weaker than it could be, or missing
    is_sound: bool = True  # False if it is weaker than it could be

    @property
    def text(self) -> str:
        return "\n".join((self.words, *(f"- {note}" for note in self.notes)))


def describe_sandbox(picked: ChosenSandbox | NoSandbox, settings: SandboxSettings) -> SandboxStatus:
    """Describe the sandbox that was chosen."""
    if isinstance(picked, NoSandbox):
        words, is_meant = f"Commands cannot be run: {picked.why}", settings.kind == "none"
        notes = _list_mounts(settings)
        return SandboxStatus(words, notes, warning="" if is_meant else words, is_sound=is_meant)
    is_walled = picked.rung != "direct"
    words = f"Commands run in {picked.rung}" if is_walled else "Commands run without a sandbox"
    notes = (*picked.notes, *((WALLS, FRESH) if is_walled else ()), *_list_mounts(settings))
    if not picked.failed:
        return SandboxStatus(f"{words}.", notes, is_sound=is_walled)
    weaker = f"{words}, a weaker sandbox (/sandbox)"
    return SandboxStatus(f"{weaker}.", notes, f"{weaker}: {picked.failed}", is_sound=False)


def _list_mounts(settings: SandboxSettings) -> tuple[str, ...]:
    """List the mounted folders; a sandbox that cannot show them reports that itself."""
    return tuple(
        f"mounted at {one.place}: {one.path}, {MODES[one.mode]}"
        f"{', in some chats only' if one.chats else ''}; {CLOSED}"
        for one in settings.mounts
    )


@attrs.frozen
class MountedFolders:
    """Prompt part that lists the mounted folders; *place* maps them to paths for commands."""

    mounts: Sequence[FolderMount]
    place: Callable[[Path], str | None]
    blocking: Blocking

    async def text(self, budget: int) -> str:
        if not self.mounts:
            return ""
        lines = await self.blocking(lambda: [self._line(one) for one in self.mounts])
        head = (
            "The owner has given you access to folders outside of the workspace. A command sees a "
            f"folder only if it names its path. In them, {CLOSED}:"
        )
        return "\n".join((head, *lines))

    def _line(self, one: FolderMount) -> str:
        place = self.place(one.path)
        tools = "" if place else ", for file tools only"
        chats = ", in some conversations only" if one.chats else ""
        return f"- {place or one.place} ({MODES[one.mode]}{tools}{chats})"


NOTHING_KEPT = (
    "There is nothing to reset. Each command starts in a fresh sandbox, and only the files that it "
    "wrote in the workspace or in a mounted folder stay. I do not delete those."
)


async def build(core: Core, others: Gathered) -> Parts:
    """Choose a sandbox, after ending commands left by an earlier process."""
    blocking, paths = core.environment.blocking, core.paths
    if left := await blocking(lambda: reap(paths.state)):
        log.warning("stopped commands of an earlier run", extra={"count": left})
    settings = core.config.get(SandboxSettings)
    picked: ChosenSandbox | NoSandbox
    try:
        # Mounts have a place and are taken from the settings.
        folders = [one.root.path for one in others.lent if not one.place]
        picked = await pick(settings, paths.workspace, paths.state, folders, blocking=blocking)
    except NoSandbox as error:
        picked = error
    else:
        log.info("sandbox ready", extra={"rung": picked.rung, "notes": "; ".join(picked.notes)})
    seen = describe_sandbox(picked, settings)
    if seen.warning:
        log.warning("sandbox missing or weaker", extra={"why": seen.warning})
        core.table.warn("sandbox", seen.warning)

    async def show(call: CommandCall) -> CommandAnswer:
        return CommandAnswer(NOTHING_KEPT if call.given.lower() == "reset" else seen.text)

    async def answer(words: object) -> CommandResult:
        return CommandResult(seen.text, ok=seen.is_sound)

    async def show_status() -> str:
        return seen.words

    def report(changed: Sequence[SetAside]) -> None:
        for one in changed:
            log.warning("instruction file set aside", extra={"file": one.path, "id": one.id})
            what = f"A command changed {escape_name(one.path)}, so I set its version aside"
            core.table.warn(_change_subject(one), f"{what}. To see it: /workspace review")

    await blocking(lambda: finish_interrupted(core.workspace, paths.state))
    report(await blocking(lambda: list_set_aside(paths.state)))
    review = WorkspaceReview(
        core.workspace,
        paths.state,
        blocking,
        lambda one: core.table.end_warning(_change_subject(one)),
    )
    sandbox = picked if isinstance(picked, NoSandbox) else picked.executor
    look = build_probe(sandbox, paths.workspace, core.config.get(Owner).timezone, blocking)
    files = WorkspaceFiles(core.workspace, others.lent, others.map_path)
    places = trio.Semaphore(settings.max_concurrent)
    policy = core.config.get(PolicySettings)
    return Parts(
        tools=[tool(CommandTool(sandbox, files, paths.state, blocking, policy, report, places))],
        sandbox=sandbox,
        sessions=[partial(EnvironmentExtension, look)],
        prompt=[MountedFolders(settings.mounts, others.map_path, blocking)],
        commands=[
            SlashCommand(
                name=COMMAND, help="how commands are kept safe", run=show, group="What I may do"
            ),
            SlashCommand(
                name="workspace",
                help="review instruction files that a command changed",
                usage=USAGE,
                run=review.answer,
                group="What I may do",
            ),
        ],
        control=[ControlCommand(name=COMMAND, run=answer)],
        status=[] if seen.warning else [show_status],  # warnings are shown anyway
    )


def _change_subject(one: SetAside) -> str:
    return f"set aside {one.id}"


def list_mounts(config: Config) -> list[MountedRoot]:
    return [_lend_mount(one) for one in config.get(SandboxSettings).mounts]


def _lend_mount(mount: FolderMount) -> MountedRoot:
    strange = (".",) if mount.untrusted else ()
    root = Root(mount.path.resolve(), writable=mount.mode == "rw", dots=False, untrusted=strange)
    return MountedRoot(root, mount.place, addresses(mount.chats), mount.untrusted)


async def check(context: CheckContext) -> list[Finding]:
    """Query the running Elwood, for the doctor; without one open a sandbox and close it again."""
    settings, paths = context.config.get(SandboxSettings), context.config.get(Paths)
    unknown = [] if settings.kind == "docker" else list(_unknown_programs(context.config))
    if settings.kind == "direct":
        return [*unknown, _check_confined(context.config)]
    try:
        answer = await context.blocking(lambda: ask(paths.runtime, COMMAND))
    except ServiceUnreachable:
        if not (paths.state.is_dir() and paths.workspace.is_dir()):
            return unknown  # the folder checks report it
        seen = await _try_sandbox(settings, paths, context)
        text, is_sound = (
            f"{seen.text}\n- tested from this shell; a service may have fewer rights",
            seen.is_sound,
        )
    else:
        text, is_sound = f"{answer.text}\n- reported by the running Elwood", answer.ok
    what = text.replace(".\n- ", "; ").replace("\n- ", "; ")
    if is_sound:
        return [*unknown, Finding("ok", "sandbox", what)]
    remedy = "; ".join(filter(None, ("see docs/sandbox.md", engines())))
    return [*unknown, Finding("warning", "sandbox", what, remedy)]


def _unknown_programs(config: Config) -> Iterator[Finding]:
    """Report rules for commands of missing programs: they may be misspelt."""
    policy = config.get(PolicySettings)
    for key, rules in (("ask", policy.ask_commands), ("safe", policy.safe_commands)):
        for name in missing_programs(rule.split()[0] for rule in rules if rule.strip()):
            what = f"policy.{key}_commands names {name}, but commands find no such program"
            yield Finding("warning", "policy", what, "correct the name or install the program")


async def _try_sandbox(
    settings: SandboxSettings, paths: Paths, context: CheckContext
) -> SandboxStatus:
    try:
        # Opening Docker would remove the containers of a process that we cannot see.
        if settings.kind == "docker":
            await find_engine(settings)
            return SandboxStatus("The container engine answers, and has the image.")
        without = tuple(one for one in settings.order if one != "docker")
        tested = attrs.evolve(settings, order=without)
        picked = await pick(tested, paths.workspace, paths.state, blocking=context.blocking)
        if without != settings.order and settings.kind == "auto":
            note = "docker, in sandbox.order, is not tested"
            picked = msgspec.structs.replace(picked, notes=(note, *picked.notes))
    except NoSandbox as error:
        return describe_sandbox(error, settings)
    except OSError as error:
        words = f"It cannot be tested: {error.strerror}: {error.filename}"
        return SandboxStatus(words, ("run doctor as Elwood's user",), is_sound=False)
    return describe_sandbox(picked, settings)


def _check_confined(config: Config) -> Finding:
    if config.get(PolicySettings).word(NAME, ID) == "deny":
        return Finding("ok", "sandbox", "policy.deny forbids all commands")
    what = "commands are not confined, so Elwood asks you about each one"
    return Finding("warning", "sandbox", what, 'set sandbox.kind to "auto"')
