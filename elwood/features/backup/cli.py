"""What ``elwood backup`` does: takes backups, lists them, puts one in place; so does the chore."""

import logging
import sys
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from elwood.agent.session.turn.inputs import age
from elwood.app.config.settings import Config
from elwood.features.backup import restore as restoring
from elwood.features.backup.rules import (
    WEEKS,
    Row,
    listing,
    size_text,
    told,
)
from elwood.features.backup.settings import backup_folder
from elwood.features.backup.sources import BackupFailed
from elwood.features.backup.store import (
    Backup,
    Scope,
    found,
    take,
)
from elwood.features.tasks.chores import Report
from elwood.foundation.storage.lock import AlreadyRunning

log = logging.getLogger("elwood.clock")

OK, FAILURE = 0, 1


def scope_of(config: Config) -> Scope:
    """Say what of the house is backed up, and where to."""
    paths, settings = config.paths, config.backup
    return Scope(
        state=paths.state,
        workspace=paths.workspace,
        runtime=paths.runtime,
        folder=backup_folder(config),
        limit=settings.size << 20,
    )


def backup(config: Config, what: str, which: str, *, agreed: bool) -> int:
    """Do *what* was typed, to the backup *which* if it is about one; return the exit code."""
    match what:
        case "now":
            return now(config)
        case "list":
            return show_list(config)
        case _:
            return restore(config, which, agreed=agreed)


def now(config: Config) -> int:
    """Take a backup and print what is in it; return the exit code."""
    began = time.monotonic()
    try:
        taken = take(scope_of(config), clock=time.time, keep=config.backup.keep)
    except BackupFailed as error:
        print(f"No backup was taken: {error}.", file=sys.stderr)
        return FAILURE
    manifest = taken.manifest
    whole = sum(member.size for member in manifest.members)
    print(
        f"{taken.path}: {manifest.files:,} files, {size_text(whole)}, "
        f"packed {size_text(taken.size)}, in {time.monotonic() - began:.1f} s"
    )
    for line in told(manifest.left_out):
        print(line)
    for path in taken.removed:
        print(f"removed {path.name}: {config.backup.keep} and one of each of {WEEKS} weeks stay")
    for line in taken.stuck:
        print(line, file=sys.stderr)
    return OK


def planned(config: Config, clock: Callable[[], float]) -> Report:
    """Take the backup that is due; blocks."""
    try:
        taken = take(scope_of(config), clock=clock, keep=config.backup.keep)
    except BackupFailed as error:
        return Report(f"no backup was taken: {error}", failed=True)
    left_out = told(taken.manifest.left_out)
    if left_out:
        log.warning("not all is in the backup", extra={"what": "; ".join(left_out)})
    if taken.stuck:
        log.warning("old backups stay", extra={"what": "; ".join(taken.stuck)})
    return Report("\n".join([f"{taken.path}, {size_text(taken.size)}", *taken.stuck, *left_out]))


def show_list(config: Config) -> int:
    """Print the backups with their numbers; return the exit code."""
    folder = scope_of(config).folder
    known = _found(folder)
    if known is None:
        return FAILURE
    if not known:
        print(f"there are no backups in {folder}", file=sys.stderr)
        return OK
    rows = [Row(backup.at, backup.size, backup.whole) for backup in known]
    when = [f"{datetime.fromtimestamp(row.at, config.zone):%Y-%m-%d %H:%M:%S}" for row in rows]
    ages = [age(max(0.0, time.time() - row.at)) for row in rows]
    print(listing(rows, when, ages))
    return OK


def restore(config: Config, which: str, *, agreed: bool) -> int:
    """Put a backup in place, after asking unless it was *agreed* to; return the exit code."""
    path = _chosen(config, which)
    if path is None:
        return FAILURE
    question = f"Put {path} in the place of {config.paths.state} and {config.paths.workspace}?"
    if not agreed and not _is_wanted(question):
        print("Nothing was changed.")
        return FAILURE
    try:
        done = restoring.restore(scope_of(config), path, clock=time.time)
    except AlreadyRunning as error:
        print(f"{error}. Nothing was changed.", file=sys.stderr)
        return FAILURE
    except BackupFailed as error:
        print(f"Not restored: {error}.", file=sys.stderr)
        return FAILURE
    at = datetime.fromtimestamp(done.manifest.at, config.zone)
    print(f"Restored {done.manifest.files:,} files, as they were at {at:%Y-%m-%d %H:%M:%S}.")
    for aside in done.aside:
        print(f"What was there before is in {aside}; remove it when you need it no more.")
    for problem in done.problems:
        print(problem, file=sys.stderr)
    for line in told(done.manifest.left_out):
        print(line)
    return OK


def _chosen(config: Config, which: str) -> Path | None:
    if not which.isdecimal():
        return Path(which)
    known = _found(scope_of(config).folder)
    if known is None:
        return None
    number = int(which[:10])
    if not 1 <= number <= len(known):
        print(f"there is no backup number {which}; elwood backup list has them", file=sys.stderr)
        return None
    return known[number - 1].path


def _found(folder: Path) -> list[Backup] | None:
    try:
        return found(folder)
    except OSError as error:
        print(f"{error.strerror}: {error.filename or folder}", file=sys.stderr)
        return None


def _is_wanted(question: str) -> bool:
    """Ask on the terminal; where there is none the answer is no."""
    if not sys.stdin.isatty():
        print("Nobody can be asked here; say --yes if you are sure.", file=sys.stderr)
        return False
    return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
