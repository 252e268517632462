"""``elwood doctor``: check everything that Elwood needs, without changing anything."""

import os
import shlex
import stat
import time
from argparse import Namespace
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

import trio

from elwood.agent.feature import Feature
from elwood.agent.session.reading.verify import journals_in
from elwood.app.config.load import load, load_own
from elwood.app.config.toml_file import ConfigErrors
from elwood.app.main import checks, own_sections
from elwood.foundation import log
from elwood.foundation.checks import Check, CheckContext, Finding, Level
from elwood.foundation.command_line import show_list
from elwood.foundation.net.http import Client
from elwood.foundation.runtime import in_thread
from elwood.foundation.secrets.redaction import Secret, redact
from elwood.foundation.settings import Config, Paths
from elwood.foundation.storage.confined import Unconfined, open_beneath
from elwood.foundation.storage.disk import find_running
from elwood.foundation.storage.files import can_be_marked
from elwood.foundation.storage.journal import JournalDamaged, verify
from elwood.foundation.storage.version import refusal
from elwood.foundation.text.tables import Styled

# Bytes of space: a warning below the first, a problem below the second.
ENOUGH_SPACE, LEAST_SPACE = 1 << 30, 100 << 20
ENOUGH_INODES, LEAST_INODES = 10_000, 1_000
# Bytes of journals verified here; `elwood receipts verify` checks all.
QUICK = 64 << 20
# Seconds that our clock may differ from a server's.
MAX_SKEW = 300.0
_LABELS: dict[Level, Styled] = {
    "ok": Styled("ok", "good"),
    "warning": Styled("warning", "warning"),
    "problem": Styled("PROBLEM", "bad"),
}


async def check(context: CheckContext) -> list[Finding]:
    return await context.blocking(lambda: examine_machine(context.config))


def doctor(unread: Config, given: Namespace) -> int:
    try:
        config = load(unread.file, os.environ, given.features)
    except ConfigErrors as errors:
        findings = [
            Finding("problem", "configuration", problem.complaint, problem.remedy)
            for problem in errors.problems
        ]
        secrets: tuple[Secret, ...] = ()
    else:
        secrets = config.secrets
        settings = config.get(log.LogSettings)
        # Warnings are findings here.
        log.set_up(settings, partial(redact, secrets=secrets), environ=os.environ, quiet=True)
        findings = trio.run(_run_checks, config, given.features)
    redacted = [
        Finding(one.level, *(redact(text, secrets) for text in (one.subject, one.what, one.remedy)))
        for one in findings
    ]
    rows = [
        (one, (_LABELS[one.level], one.subject, f"{one.what}\n{one.remedy and f'→ {one.remedy}'}"))
        for one in redacted
    ]
    # More output may follow, as in `elwood init`.
    show_list(("level", "subject", "finding"), rows, given, "nothing was checked", pages=False)
    return 1 if any(finding.level == "problem" for finding in findings) else 0


async def _run_checks(config: Config, features: Sequence[Feature]) -> list[Finding]:
    client = Client(connections=10)
    context = CheckContext(config=config, client=client, now=time.time(), blocking=in_thread)
    context.own = partial(load_own, config=config, sections=own_sections(features))
    try:
        return await examine(context, checks(features))
    finally:
        with trio.CancelScope(shield=True, deadline=trio.current_time() + 5.0):
            await client.aclose()


async def examine(context: CheckContext, checks: Iterable[Check]) -> list[Finding]:
    """Run all *checks* concurrently; return their findings in the order of the checks."""
    findings: dict[int, list[Finding]] = {}

    async def run_check(number: int, one: Check) -> None:
        try:
            findings[number] = list(await one(context))
        except OSError as error:
            findings[number] = [_report_unreadable(error)]

    async with trio.open_nursery() as nursery:
        for number, one in enumerate(checks):
            nursery.start_soon(run_check, number, one)
    return [
        *(finding for number in sorted(findings) for finding in findings[number]),
        *_check_clock(context),
    ]


def _report_unreadable(error: OSError) -> Finding:
    what = f"{error.filename} cannot be read: {error.strerror}"
    remedy = "run this as the user that runs Elwood, and check the paths in its configuration"
    return Finding("problem", "files", what, remedy)


def _check_clock(context: CheckContext) -> Iterator[Finding]:
    if not context.asked:
        return
    if not context.skews:
        yield Finding("warning", "clock", "no service gave a time to compare with")
        return
    skew = min(context.skews, key=abs)
    if abs(skew) <= MAX_SKEW:
        yield Finding("ok", "clock", f"agrees with the services within {abs(skew) + 1:.0f} s")
        return
    side = "ahead of" if skew > 0 else "behind"
    what = f"is {abs(skew) / 60:.0f} min {side} the services"
    yield Finding("problem", "clock", what, "set the clock: run timedatectl set-ntp true")


# --- this machine ---------------------------------------------------------------------------------


def examine_machine(config: Config) -> list[Finding]:
    """Check files, folders, disk, kernel and journals; blocks for a second or two at most."""
    parts = (configuration, folders, space, kernel, workspace, process, records)
    findings: list[Finding] = []
    for check_part in parts:
        try:
            findings += check_part(config)
        except OSError as error:
            findings.append(_report_unreadable(error))
    return list(dict.fromkeys(findings))


def configuration(config: Config) -> Iterator[Finding]:
    """Check the permissions of the configuration file."""
    mode = stat.S_IMODE(config.file.stat().st_mode)
    command = f"run: chmod 600 {shlex.quote(str(config.file))}"
    if mode & 0o022:
        what = f"{config.file} can be changed by other users (mode {mode:04o})"
        yield Finding("problem", "configuration", what, command)
    elif config.inline and mode & 0o077:
        what = (
            f"{config.file} can be read by other users (mode {mode:04o}) and contains "
            f"{', '.join(config.inline)}"
        )
        yield Finding("problem", "configuration", what, command)
    else:
        yield Finding("ok", "configuration", f"{config.file} is valid")
    yield from (Finding("warning", "configuration", *doubt) for doubt in config.warnings)


def folders(config: Config) -> Iterator[Finding]:
    """Check the permissions of the state folder: it holds every conversation."""
    path = config.get(Paths).state
    quoted = shlex.quote(str(path))
    try:
        status = path.stat()
    except FileNotFoundError:
        yield Finding("warning", "state", f"{path} does not exist yet", "run: elwood init")
        return
    mode = stat.S_IMODE(status.st_mode)
    if status.st_uid != os.geteuid():
        what = f"{path} belongs to user {status.st_uid}, and you are {os.geteuid()}"
        yield Finding("problem", "state", what, "run this as the user that runs Elwood")
    elif mode & 0o077:
        what = f"other users have access to {path} (mode {mode:04o})"
        yield Finding("problem", "state", what, f"run: chmod 700 {quoted}")
    elif not os.access(path, os.W_OK | os.X_OK):
        what = f"{path} is not writable"
        yield Finding("problem", "state", what, "mount it writable, and correct its mode")
    else:
        yield Finding("ok", "state", f"only you can read {path}")


def space(config: Config) -> Iterator[Finding]:
    """Check the free space and inodes of the disk."""
    path = next(
        p for p in (config.get(Paths).state, *config.get(Paths).state.parents) if p.exists()
    )
    disk = os.statvfs(path)
    free = disk.f_bavail * disk.f_frsize
    level = _rate(free, ENOUGH_SPACE, LEAST_SPACE)
    size = f"{free >> 30} GiB" if level == "ok" else f"{free >> 20} MiB"
    remedy = "" if level == "ok" else f"free some space on the disk of {path}"
    yield Finding(level, "disk", f"{size} of free space", remedy)
    if disk.f_files:  # some file systems create inodes as needed and report none
        level = _rate(disk.f_favail, ENOUGH_INODES, LEAST_INODES)
        remedy = "" if level == "ok" else f"delete files on the disk of {path}"
        count = f"{disk.f_favail / 1e6:.1f} million" if level == "ok" else f"{disk.f_favail:,}"
        yield Finding(level, "disk", f"{count} free inodes", remedy)


def _rate(left: int, enough: int, least: int) -> Level:
    if left < least:
        return "problem"
    return "ok" if left >= enough else "warning"


def kernel(config: Config) -> Iterator[Finding]:
    """Check the system call that confines file tools to the workspace."""
    root = os.open("/", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.close(open_beneath(root, ".", os.O_RDONLY | os.O_DIRECTORY))
    except Unconfined as error:
        what = f"file tools are off: {error}"
        yield Finding("problem", "kernel", what, "update the kernel, or allow openat2 in seccomp")
    else:
        yield Finding("ok", "kernel", f"Linux {os.uname().release} has openat2")
    finally:
        os.close(root)


def workspace(config: Config) -> Iterator[Finding]:
    folder = config.get(Paths).workspace
    if not folder.is_dir():
        yield Finding(
            "warning", "workspace", f"the folder {folder} does not exist", "run: elwood init"
        )
        return
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if not can_be_marked(fd):
            what = f"{folder} has no extended attributes, so Elwood writes no files there in a"
            remedy = "move it to ext4, XFS, Btrfs or ZFS"
            yield Finding(
                "warning", "workspace", f"{what} conversation with strangers' words", remedy
            )
        else:
            yield Finding("ok", "workspace", f"{folder} is usable")
    finally:
        os.close(fd)


def process(config: Config) -> Iterator[Finding]:
    """Check whether a process holds the state folder."""
    try:
        pid = find_running(config.get(Paths).state)
    except OSError:
        yield Finding("ok", "process", "Elwood has not run here yet")
    else:
        running = f"Elwood is running (process {pid or 'unknown'})"
        yield Finding("ok", "process", "Elwood is not running" if pid is None else running)


def records(config: Config) -> Iterator[Finding]:
    """Verify the most recent journals, as many as can be read quickly."""
    state = config.get(Paths).state
    if not state.is_dir():
        return
    if why := refusal(state):
        yield Finding("problem", "state", why)
        return
    found = sorted(((path.stat().st_mtime, path) for path in journals_in([state])), reverse=True)
    left, sound, unread = QUICK, 0, 0
    for _, path in found:
        size = path.stat().st_size
        if size > left:
            unread += 1
            continue
        left -= size
        try:
            verify(path)
        except OSError as error:
            yield _report_unreadable(error)
        except JournalDamaged as error:
            what = f"{path}: line {error.line} {error.why}"
            remedy = "restore it from a backup, or move it away to start without it"
            yield Finding("problem", "journals", what, remedy)
        else:
            sound += 1
    if unread:
        what = f"{unread} not verified, because they are large"
        yield Finding("warning", "journals", what, "run: elwood receipts verify")
    if sound or not found:
        what = f"{sound} verified: no line is missing, moved or edited" if found else "none yet"
        yield Finding("ok", "journals", what)
