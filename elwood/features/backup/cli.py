"""``elwood backup`` and ``elwood reset``: create, list and restore backups."""

import sys
import time
from argparse import Namespace
from datetime import datetime
from pathlib import Path
from shlex import quote

from elwood.agent.conversation.settings import Owner
from elwood.features.backup import restore as restoring
from elwood.features.backup.rules import BackupFailed, describe_left_out
from elwood.features.backup.settings import BackupSettings, backup_folder
from elwood.features.backup.store import Scope, list_backups, take
from elwood.foundation.command_line import FAILURE, OK, CliFailure, is_wanted, show_json, show_list
from elwood.foundation.settings import Config, Paths
from elwood.foundation.storage.disk import AlreadyRunning
from elwood.foundation.text.lines import ago, size_text


def now(config: Config, given: Namespace) -> int:
    try:
        backup = take(
            Scope.from_config(config), clock=time.time, keep=config.get(BackupSettings).keep
        )
    except BackupFailed as error:
        raise CliFailure(f"No backup was made: {error}.") from error
    manifest = backup.manifest
    whole = sum(member.size for member in manifest.members)
    if given.json:
        show_json(
            {
                "path": backup.path,
                "files": manifest.files,
                "bytes": whole,
                "compressed": backup.size,
                "left_out": manifest.left_out,
            }
        )
        return OK
    print(
        f"{backup.path}: {manifest.files:,} files, {size_text(whole)}, "
        f"compressed to {size_text(backup.size)}"
    )
    for line in describe_left_out(manifest.left_out):
        print(line)
    return OK


def show_backups(config: Config, given: Namespace) -> int:
    zone, now = config.get(Owner).zone, time.time()
    listed = []
    for number, one in enumerate(list_backups(backup_folder(config)), 1):
        moment = f"{datetime.fromtimestamp(one.at, zone):%Y-%m-%d %H:%M:%S}"
        row = (str(number), ago(now - one.at), moment, size_text(one.size), one.path.name)
        listed.append((one, row))
    titles = ("number", "when", "time", "size", "file")
    show_list(titles, listed, given, "There are no backups.", ("file",))
    return OK


def restore(config: Config, given: Namespace) -> int:
    path, paths = _choose_backup(config, given.which), config.get(Paths)
    question = f"Replace {paths.state} and {paths.workspace} with the backup {path}?"
    if not given.yes and not is_wanted(question):
        print("Nothing was changed.")
        return FAILURE
    try:
        done = restoring.restore(Scope.from_config(config), path, clock=time.time)
    except (AlreadyRunning, BackupFailed) as error:
        raise CliFailure(f"Nothing was changed: {error}.") from error
    at = datetime.fromtimestamp(done.manifest.at, config.get(Owner).zone)
    print(f"Restored {done.manifest.files:,} files, as they were at {at:%Y-%m-%d %H:%M:%S}.")
    for aside in done.aside:
        print(f"The previous files are in {aside}. Delete them when you no longer need them.")
    for problem in done.problems:
        print(problem, file=sys.stderr)
    for line in describe_left_out(done.manifest.left_out):
        print(line)
    return OK


def reset(config: Config, given: Namespace) -> int:
    scope = Scope.from_config(config)
    if not given.yes and not is_wanted(
        f"Move the data in {scope.state} aside and start without data?"
    ):
        print("Nothing was changed.")
        return FAILURE
    try:
        aside = restoring.reset(scope, clock=time.time)
    except (AlreadyRunning, BackupFailed) as error:
        raise CliFailure(f"Nothing was changed: {error}.") from error
    back = f"mv {quote(str(aside))}/* {quote(str(scope.state))}/"
    print(f"Elwood will start without data. The previous data is in {aside}.")
    print("The configuration, the workspace and the backups are unchanged.")
    print(f"To undo this: stop Elwood, run `elwood reset` again, then run `{back}`.")
    return OK


def _choose_backup(config: Config, which: str) -> Path:
    if not which.isdecimal():
        return Path(which)
    number, backups = int(which[:10]), list_backups(backup_folder(config))
    if not 1 <= number <= len(backups):
        raise CliFailure(f"There is no backup {which}. `elwood backup list` shows the numbers.")
    return backups[number - 1].path
