"""The tool that runs commands in the sandbox."""

import hashlib
import logging
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Annotated

import attrs
import msgspec
import trio
from msgspec import Meta

from elwood.agent.conversation.calls import DEEDS, Plan, RunCommand
from elwood.agent.conversation.labels import PRIVATE
from elwood.agent.conversation.route import Route
from elwood.agent.policy.settings import PolicySettings
from elwood.agent.tools.tool import (
    MountedRoot,
    Output,
    Tool,
    ToolContext,
    ToolFailure,
    WorkspaceFiles,
)
from elwood.features.shell.judge import (
    MAX_COMMAND,
    READ_CONFIGURATION,
    READ_KINDS,
    Safe,
    Unclear,
    apply_overrides,
    judge,
    list_files_argv,
    overrides,
    parse,
    revisions,
)
from elwood.features.shell.rules import rule
from elwood.features.shell.scope import IMPLIED, UNTRUSTED, scope_of
from elwood.foundation.runtime import Blocking
from elwood.foundation.sandbox.command import (
    GIT_ENVIRONMENT,
    Command,
    CommandOutcome,
    Executor,
    NoSandbox,
    Rung,
    SandboxFailed,
)
from elwood.foundation.sandbox.following import FollowedCommand, begin
from elwood.foundation.sandbox.instructions import SetAside
from elwood.foundation.storage.confined import PathRefused, Unconfined
from elwood.foundation.storage.files import Root
from elwood.foundation.storage.paths import holds_secrets
from elwood.foundation.storage.traces import TooManyFiles
from elwood.foundation.text.lines import escape_name, escape_names

log = logging.getLogger("elwood.shell")

NAME, ID = "run_command", "shell.command.run"
# Seconds for one command by default, at most, and extra for the tool itself, so that the command's
# own limit ends it.
TIMEOUT, MAX_TIMEOUT, GRACE = 60, 600, 30.0
# Seconds to wait until fewer commands run; within GRACE.
WAIT = 20.0
# Bytes of output kept of one command; longer output loses its middle.
MAX_OUTPUT = 45_000
# Bytes of output shown while it runs.
SHOWN = 2_000
# Bytes passed from one program of a pipeline to the next.
MAX_PIPED = 8 << 20
# Files named in a command whose content is part of the approval, and bytes of each.
MAX_FILES, MAX_BYTES = 20, 16 << 20
# Words of a command looked up as file names; a command that runs without asking has fewer.
MAX_WORDS = MAX_COMMAND // 2
NO_MARKS = (
    "this conversation has read strangers' words, and the file system cannot mark files (it has no "
    "user extended attributes)"
)
# Separators of words in a shell command.
_APART = re.compile(r"[\s'\"`;|&<>(){}=]+")
# A file after > or >>.
_OUTPUT = re.compile(r"(?<![<>=-])>>?[ \t]*([\w./-]+)(?![^\s;&|)])")


# Description of the environment for the model.
CONFINED = (
    ", in a sandbox: it has no network, and can change files only in the workspace "
    "and in folders opened to you. Read-only commands (ls, cat, git status, …) run "
    "immediately; other commands need the owner's approval."
)
OPEN = (
    ". There is no sandbox: a command can read and change everything that the "
    "owner's account can. So each command, and each request that sends data to the "
    "web, needs the owner's approval."
)


# Every user of the machine can read the arguments of a process, but not its environment.
_TEXT = "ELWOOD_COMMAND"
_EVALUATE = f'export -n {_TEXT}; eval "${_TEXT}"'
# The hooks of a mounted project expect the owner's programs and network.
_WITHOUT_HOOKS = {
    "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.hooksPath", "GIT_CONFIG_VALUE_0": "/dev/null"
}  # fmt: skip


class ShellCommand(msgspec.Struct, forbid_unknown_fields=True):
    command: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=20_000,
            description="A bash command. Its working directory is the workspace",
        ),
    ]
    timeout: Annotated[int, Meta(ge=1, le=MAX_TIMEOUT, description="Timeout in seconds")] = TIMEOUT


@attrs.define(eq=False)
class CommandTool:
    """Runs commands in *sandbox*, or reports why there is none.

    *files* are those that a command may name: their content is part of the approval.  *report*
    receives instruction files that a command changed; *state* is Elwood's own folder.
    """

    sandbox: Executor | NoSandbox
    _files: WorkspaceFiles
    _state: Path
    _blocking: Blocking
    _policy: PolicySettings
    _report: Callable[[Sequence[SetAside]], None]
    _places: trio.Semaphore = attrs.field(factory=lambda: trio.Semaphore(4))

    async def examine(self, given: ShellCommand, context: ToolContext) -> Plan:
        """Plan a command: judge its words, and collect the facts that its result depends on."""
        sandbox, root = self._need_sandbox(), str(self._files.root.path)
        confined = sandbox.rung != "direct"
        action = rule(given.command, self._policy, root, confined=confined).action
        facts = {"sandbox": sandbox.rung, "timeout": str(given.timeout)}
        if action.judged not in ("safe", "forbidden"):
            facts |= await self._blocking(partial(self._hash_named, given.command, context))
        if action.judged == "listed" and any(fact.endswith(UNTRUSTED) for fact in facts.values()):
            action = RunCommand("unclear", "it uses a file that strangers may have written")
        # With too many files, some were not hashed.
        scope = scope_of(given.command, facts) if len(facts) < MAX_FILES else None
        return Plan(action, given.command, facts, scope=scope)

    async def run_command(self, given: ShellCommand, context: ToolContext) -> str | Output:
        """Run a command when there is a place for it."""
        with trio.move_on_after(WAIT) as waiting:
            await self._places.acquire()
        if waiting.cancelled_caught:
            raise ToolFailure("not run: too many other commands run; try again when one has ended")
        try:
            return await self._run_now(given, context)
        finally:
            self._places.release()

    async def _run_now(self, given: ShellCommand, context: ToolContext) -> str | Output:
        """Run a safe command as it was parsed, any other in bash."""
        sandbox = self._need_sandbox()
        verdict = judge(given.command, str(self._files.root.path))
        script = verdict if isinstance(verdict, Safe) and sandbox.rung != "direct" else None
        mounts = [] if script else self._files.find_named_mounts(given.command, context.route)
        followed = await self._start_following(
            given.command, context, mounts, sandbox.rung, script is None
        )
        outcome: CommandOutcome | None = None
        note = ""
        try:
            root = self._files.root
            with nullcontext() if script else root.expect_changes(followed.guarded):
                try:
                    outcome = await self._run(given, context, script, mounts, sandbox, followed)
                finally:
                    with trio.CancelScope(shield=True):
                        note = await self._finish_following(followed, outcome)
        except SandboxFailed as error:
            text = f"{error}; the command may or may not have had an effect"
            raise ToolFailure(text, unknown=True) from error
        except ToolFailure as failure:
            raise _add_sources(failure, followed) from failure
        try:
            text = _format_outcome(outcome, given)
        except ToolFailure as failure:
            raise _add_sources(failure, followed) from failure
        source = next(iter(followed.sources), "")
        text += note
        return Output(text, untrusted=True, origin=escape_name(source)) if source else text

    async def _run(
        self,
        given: ShellCommand,
        context: ToolContext,
        script: Safe | None,
        mounts: Sequence[MountedRoot],
        sandbox: Executor,
        followed: FollowedCommand,
    ) -> CommandOutcome:
        if script is not None:
            return await _run_script(script, given, sandbox)
        writable = not followed.needs_marks or await self._blocking(lambda: followed.can_mark)
        if not writable and sandbox.rung == "direct":
            raise ToolFailure(f"not run: {NO_MARKS}")
        command = Command(
            argv=("bash", "--norc", "--noprofile", "-c", _EVALUATE),
            environment={_TEXT: given.command} | (_WITHOUT_HOOKS if mounts else {}),
            timeout=given.timeout,
            limit=MAX_OUTPUT,
            mounts=[one.place for one in mounts],
            writable=writable,
            watch=lambda last: context.show(lambda: last(SHOWN).decode("utf-8", "replace")),
        )
        outcome = await sandbox.run(command)
        if writable:
            return outcome
        note = "; ".join(filter(None, (outcome.note, f"it could not write files: {NO_MARKS}")))
        return msgspec.structs.replace(outcome, note=note)

    async def _start_following(
        self,
        command: str,
        context: ToolContext,
        mounts: Sequence[MountedRoot],
        rung: Rung,
        writes: bool,
    ) -> FollowedCommand:
        def start() -> FollowedCommand:
            words = _split_words(command)
            followed = [one.root for one in mounts if one.root.writable and not one.untrusted]
            return begin(
                [self._files.root, *followed],
                list(self._find_places(words, context.route)),
                [one.place for one in mounts if one.untrusted],
                self._state,
                rung,
                uses_git="git" in words,
                untrusted=context.label.untrusted,
                writes=writes,
            )

        try:
            return await self._blocking(start)
        except TooManyFiles as error:
            text = f"not run: {error}, so strangers' words in them cannot be tracked"
            raise ToolFailure(f"{text}; move some of them to a mounted folder") from error

    def _find_places(self, words: Sequence[str], route: Route) -> Iterator[tuple[Root, str]]:
        """Find the files and folders that *words* name.  Blocks."""
        if len(words) > MAX_WORDS:
            yield self._files.root, "."
        for word in words[:MAX_WORDS]:
            # For commands "$HOME/a" is the file a, and a glob matches files in its folder.
            for name in dict.fromkeys((word, word.partition("/")[2] if "$" in word else word)):
                root, path, _ = self._files.resolve(_strip_glob(name), route)
                with suppress(PathRefused, Unconfined):
                    yield root, root.locate(path)

    async def _finish_following(
        self, followed: FollowedCommand, outcome: CommandOutcome | None
    ) -> str:
        """Mark the files that the command wrote; return notes for the reader of its result."""
        printed = outcome.output.decode("utf-8", "replace") if outcome else ""
        failed, changed = await self._blocking(lambda: followed.finish(printed))
        parts: list[str] = []
        if failed:
            names = escape_names(failed, 3)
            log.warning("files could not be marked as untrusted", extra={"count": len(failed)})
            parts.append(f"{names} may contain strangers' words, but could not be marked")
        if changed:
            self._report(changed)
            names = escape_names([one.path for one in changed], 3)
            parts.append(f"it changed {names}; this is set aside until the owner has reviewed it")
        return "".join(f"\n({part})" for part in parts)

    def _need_sandbox(self) -> Executor:
        if isinstance(self.sandbox, NoSandbox):
            raise ToolFailure(f"commands cannot be run here: {self.sandbox.why}")
        return self.sandbox

    def _hash_named(self, command: str, context: ToolContext) -> dict[str, str]:
        """Hash the files that *command* names, and the commit that git would push.  Blocks.

        A file that it only writes is bound by its place: each run changes the content.
        """
        facts: dict[str, str] = {}
        words = _split_words(command)
        implied = [name for word in words for name in IMPLIED.get(word, ())]
        for word in (*implied, *words):
            if len(facts) >= MAX_FILES:
                break
            root, path, _ = self._files.resolve(word, context.route)
            if (digest := _hash_file(root, path)) is not None:
                facts[f"file {PurePosixPath(word)}"] = digest
        for word in _list_outputs(command):
            digest = facts.get(name := f"file {PurePosixPath(word)}", "")
            # Another name of the same file has the same digest and inode.
            if list(facts.values()).count(digest) > 1 or digest.endswith(UNTRUSTED):
                continue
            root, path, _ = self._files.resolve(word, context.route)
            with suppress(PathRefused, Unconfined):
                facts[f"output {word}"] = root.locate(path)
                facts.pop(name, None)
        if "git" in words:
            facts |= _read_head(self._files.root)
        return facts


def _split_words(command: str) -> list[str]:
    """Return everything in *command* that may be a word for a program, each once."""
    parsed = parse(command)
    plain = () if isinstance(parsed, Unclear) else parsed
    whole = [word.text for piped in plain for argv in piped.commands for word in argv]
    return [word for word in dict.fromkeys((*whole, *_APART.split(command))) if word]


def _list_outputs(command: str) -> list[str]:
    """Return the files that *command* names only as the output of a program.

    >>> _list_outputs("date >> a.log && sort b > c 2>./d && cat ./c")
    ['a.log', './d']
    """
    named = [PurePosixPath(word) for word in _APART.split(command)]
    return [word for word in _OUTPUT.findall(command) if named.count(PurePosixPath(word)) == 1]


def _strip_glob(word: str) -> str:
    """Return the folder of a glob; other words unchanged.

    >>> _strip_glob("a/b*/c"), _strip_glob("*.txt"), _strip_glob("a/b")
    ('a', '.', 'a/b')
    """
    start = min((word.find(char) for char in "*?[" if char in word), default=-1)
    return word if start < 0 else word[:start].rpartition("/")[0] or "."


def _add_sources(failure: ToolFailure, followed: FollowedCommand) -> ToolFailure:
    """Return *failure*, marked if its text may contain words of untrusted files."""
    source = next(iter(followed.sources), "")
    return ToolFailure(
        str(failure),
        untrusted=failure.untrusted or bool(source),
        origin=failure.origin or escape_name(source),
        unknown=failure.unknown,
    )


def _format_outcome(outcome: CommandOutcome, given: ShellCommand) -> str:
    text = outcome.output.decode("utf-8", "replace").rstrip("\n")
    if outcome.note:
        text += f"\n({outcome.note})"
    if outcome.timed_out:
        raise ToolFailure(f"stopped after {given.timeout} s; so far it printed:\n{text}")
    if outcome.code != 0:
        raise ToolFailure(f"exit code {outcome.code}\n{text}")
    return text if outcome.output else f"exit code 0, no output{text}"


async def _run_script(script: Safe, given: ShellCommand, sandbox: Executor) -> CommandOutcome:
    """Run the steps of a safe script without a shell, each in a read-only sandbox."""
    printed: list[bytes] = []
    code: int | None = 0
    for step in script.steps:
        if (step.joined == "&&" and code != 0) or (step.joined == "||" and code == 0):
            continue
        flowing = b""
        for number, argv in enumerate(step.pipeline, 1):
            last = number == len(step.pipeline)
            hardened = await _harden_git(argv, given, sandbox)
            outcome = await sandbox.run(_make_command(hardened, given, flowing, last=last))
            if outcome.timed_out:
                return outcome
            if outcome.cut and not last:
                raise ToolFailure(f"{argv[0]} printed more than {MAX_PIPED:,} bytes into the pipe")
            printed.append(outcome.output if last else outcome.errors)
            flowing, code = outcome.output, outcome.code
    return CommandOutcome(code, b"".join(printed))


def _make_command(
    argv: tuple[str, ...], given: ShellCommand, stdin: bytes = b"", *, last: bool = False
) -> Command:
    """Create a read-only command; the output of the *last* one of a pipeline is the result."""
    return Command(
        argv=argv,
        stdin=stdin,
        timeout=given.timeout,
        limit=MAX_OUTPUT if last else MAX_PIPED,
        writable=False,
        environment=GIT_ENVIRONMENT if argv[0] == "git" else {},
        merge=last,
    )


async def _harden_git(
    argv: tuple[str, ...], given: ShellCommand, sandbox: Executor
) -> tuple[str, ...]:
    """Disable the programs that a hostile repository's configuration makes git run.

    Raises ToolFailure if that is impossible, and if it would show files with the names of secrets.
    """
    if argv[0] != "git":
        return argv
    outcome = await sandbox.run(_make_command(READ_CONFIGURATION, given))
    if outcome.code not in (0, 1):
        return argv  # no repository: git reports that itself
    words = overrides(outcome.output.decode("utf-8", "replace").splitlines())
    if isinstance(words, Unclear):
        raise _make_failure(words.why)
    if objects := revisions(argv):
        kinds = await sandbox.run(_make_command(READ_KINDS, given, "\n".join(objects).encode()))
        if kinds.code != 0 and b"not a git repository" not in kinds.errors:
            raise _make_failure("git does not list the objects that it would compare")
        for name, kind in zip(objects, kinds.output.decode().splitlines(), strict=False):
            if kind != "commit" and not kind.endswith(" missing"):
                raise _make_failure(f"{name.removesuffix('^{}')} is not a commit and has no name")
    if (list_names := list_files_argv(argv)) is not None:
        names = await sandbox.run(_make_command(apply_overrides(list_names, words), given))
        if names.cut:
            raise _make_failure("it has too many files to check")
        if names.code not in (0, 1):
            return list_names  # it fails with its own message
        shown = set(names.output.decode("utf-8", "surrogateescape").split("\0"))
        if secret := sorted(filter(holds_secrets, shown)):
            why = f"it would show {escape_names(secret, 3)}, which may contain secrets"
            raise _make_failure(f"{why}; name other paths")
    return apply_overrides(argv, words)


def _make_failure(why: str) -> ToolFailure:
    return ToolFailure(f"{why}; to ask the owner instead, use bash -c '…'")


def _read_head(root: Root) -> dict[str, str]:
    """Return where git's HEAD is: the branch, and its commit."""
    text = _read_text(root, ".git/HEAD")
    if text is None:
        return {}
    name = text.removeprefix("ref: ").strip()
    commit = _read_text(root, f".git/{name}") if name != text.strip() else text
    return {
        "git HEAD": f"{name} {(commit or _read_text(root, '.git/packed-refs') or '').strip()}"[
            :10_000
        ]
    }


def _read_text(root: Root, path: str) -> str | None:
    try:
        return root.read(path, 1 << 20).decode("utf-8", "replace")
    except (PathRefused, Unconfined):
        return None


def _hash_file(root: Root, path: str) -> str | None:
    try:
        with root.file(path) as file, open(file.fd, "rb", closefd=False) as source:
            digest, left = hashlib.sha256(), MAX_BYTES
            while left > 0 and (block := source.read(1 << 20)):
                digest.update(block)
                left -= len(block)
            mark = UNTRUSTED if file.untrusted else ""
            return f"{digest.hexdigest()} {file.stat.st_size} {file.stat.st_ino}{mark}"
    except (PathRefused, Unconfined):
        return None


def tool(command: CommandTool) -> Tool:
    sandbox = command.sandbox
    is_open = not isinstance(sandbox, NoSandbox) and sandbox.rung == "direct"
    return Tool(
        name=NAME,
        id=ID,
        description=f"Run a bash command in the workspace{OPEN if is_open else CONFINED} The "
        "result is the exit code, if it is not 0, and the output.",
        input=ShellCommand,
        run=command.run_command,
        risk="write",
        effect="once",
        timeout=MAX_TIMEOUT + GRACE,
        target=lambda given: given.command,
        plan=command.examine,
        # A sandbox has no network.
        deeds=DEEDS if is_open else ("run", "write", "delete"),
        gives=PRIVATE,
        watched=lambda text: ShellCommand(text[2:]) if text.startswith("$ ") else None,
    )
