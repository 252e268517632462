"""What ``elwood backup`` does: takes backups, lists them, puts one in place."""

import sys
import time
from argparse import ArgumentParser, Namespace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from elwood.foundation.command_line import (
    FAILURE,
    OK,
    CliCommand,
    CliFailure,
    is_wanted,
    json_switch,
    show_list,
)

if TYPE_CHECKING:
    from elwood.features.backup.rules import Backup
    from elwood.foundation.settings import Config


def now(config: "Config", given: Namespace) -> int:
    from elwood.features.backup.feature import BackupSettings
    from elwood.features.backup.rules import BackupFailed, told
    from elwood.features.backup.store import Scope, take
    from elwood.foundation.text.lines import size_text

    try:
        taken = take(Scope.of(config), clock=time.time, keep=config.of(BackupSettings).keep)
    except BackupFailed as error:
        raise CliFailure(f"No backup was taken: {error}.") from error
    manifest = taken.manifest
    whole = sum(member.size for member in manifest.members)
    print(
        f"{taken.path}: {manifest.files:,} files, {size_text(whole)}, "
        f"packed {size_text(taken.size)}"
    )
    for line in told(manifest.left_out):
        print(line)
    return OK


def show_backups(config: "Config", given: Namespace) -> int:
    from datetime import datetime

    from elwood.agent.conversation.settings import Owner
    from elwood.foundation.text.lines import ago, size_text

    zone, now = config.of(Owner).zone, time.time()
    found = []
    for number, one in enumerate(_known(config), 1):
        taken = f"{datetime.fromtimestamp(one.at, zone):%Y-%m-%d %H:%M:%S}"
        row = (str(number), ago(now - one.at), taken, size_text(one.size), one.path.name)
        found.append((one, row))
    titles = ("number", "when", "time", "size", "file")
    show_list(titles, found, given, "there are no backups", ("file",))
    return OK


def restore(config: "Config", given: Namespace) -> int:
    from datetime import datetime

    from elwood.agent.conversation.settings import Owner
    from elwood.features.backup import restore as restoring
    from elwood.features.backup.rules import BackupFailed, told
    from elwood.features.backup.store import Scope
    from elwood.foundation.settings import Paths
    from elwood.foundation.storage.disk import AlreadyRunning

    path, paths = _chosen(config, given.which), config.of(Paths)
    question = f"Put {path} in the place of {paths.state} and {paths.workspace}?"
    if not given.yes and not is_wanted(question):
        print("Nothing was changed.")
        return FAILURE
    try:
        done = restoring.restore(Scope.of(config), path, clock=time.time)
    except (AlreadyRunning, BackupFailed) as error:
        raise CliFailure(f"Nothing was changed: {error}.") from error
    at = datetime.fromtimestamp(done.manifest.at, config.of(Owner).zone)
    print(f"Restored {done.manifest.files:,} files, as they were at {at:%Y-%m-%d %H:%M:%S}.")
    for aside in done.aside:
        print(f"What was there before is in {aside}; remove it when you need it no more.")
    for problem in done.problems:
        print(problem, file=sys.stderr)
    for line in told(done.manifest.left_out):
        print(line)
    return OK


def reset(config: "Config", given: Namespace) -> int:
    from elwood.features.backup import restore as restoring
    from elwood.features.backup.rules import BackupFailed
    from elwood.features.backup.store import Scope
    from elwood.foundation.storage.disk import AlreadyRunning

    scope = Scope.of(config)
    if not given.yes and not is_wanted(f"Move what {scope.state} holds aside, and begin anew?"):
        print("Nothing was changed.")
        return FAILURE
    try:
        aside = restoring.reset(scope, clock=time.time)
    except (AlreadyRunning, BackupFailed) as error:
        raise CliFailure(f"Nothing was changed: {error}.") from error
    back = f"mv {quote(str(aside))}/* {quote(str(scope.state))}/"
    print(f"Elwood begins anew. What was there is in {aside}.")
    print("The configuration, the workspace and the backups are as they were.")
    print(f"To come back: stop Elwood, `elwood reset` again, then `{back}`.")
    return OK


def _known(config: "Config") -> "list[Backup]":
    from elwood.features.backup.feature import backup_folder
    from elwood.features.backup.store import found

    return found(backup_folder(config))


def _chosen(config: "Config", which: str) -> Path:
    if not which.isdecimal():
        return Path(which)
    number, known = int(which[:10]), _known(config)
    if not 1 <= number <= len(known):
        raise CliFailure(f"there is no backup number {which}; elwood backup list has them")
    return known[number - 1].path


def _yes(parser: ArgumentParser) -> None:
    parser.add_argument("--yes", action="store_true", help="do not ask")


def _of_restore(parser: ArgumentParser) -> None:
    parser.add_argument("which", metavar="N", help="its number in the list, or a file")
    _yes(parser)


COMMAND = CliCommand(
    "backup",
    "Take a backup, list them, or put one in place.",
    within=(
        CliCommand("now", "take one, beside a running Elwood or without", now),
        CliCommand("list", "number them, the newest first", show_backups, json_switch),
        CliCommand(
            "restore", "put one in place; what is there is moved aside", restore, _of_restore
        ),
    ),
)
RESET = CliCommand(
    "reset", "Begin anew: move conversations, notes, tasks and permissions aside.", reset, _yes
)
