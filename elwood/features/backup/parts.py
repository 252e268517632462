import logging
from collections.abc import Iterator
from contextlib import suppress

import trio

from elwood.agent.parts import Chore, Gathered, Parts, Report
from elwood.agent.session.core import Core
from elwood.agent.session.extension import CommandAnswer, CommandCall, SlashCommand
from elwood.features.backup.settings import BackupSettings, backup_folder
from elwood.foundation.checks import CheckContext, Finding
from elwood.foundation.log import event
from elwood.foundation.runtime import ActorUnavailable
from elwood.foundation.settings import Config, Paths
from elwood.foundation.storage.anchors import Anchor
from elwood.foundation.text.lines import duration, size_text

log = logging.getLogger("elwood.backup")


async def build(core: Core, others: Gathered) -> Parts:
    every = core.config.get(BackupSettings).every

    async def back_up(last: float) -> Report:
        # Importing the archive code takes 20 ms and 1 MB, which would slow every start.
        from elwood.features.backup.rules import BackupFailed
        from elwood.features.backup.store import take_scheduled

        began = trio.current_time()
        with suppress(ActorUnavailable):
            await core.anchoring.ask(Anchor())  # the backup then contains the new anchors
        try:
            summary = await core.environment.blocking(
                lambda: take_scheduled(core.config, core.clock.now)
            )
        except BackupFailed as error:
            took = trio.current_time() - began
            event(log, "backup", {"why": str(error)}, success=False, seconds=took)
            return Report(f"no backup was made: {error}", failed=True)
        event(log, "backup", {"what": summary}, success=True, seconds=trio.current_time() - began)
        return Report(summary)

    async def show(call: CommandCall) -> CommandAnswer:
        if call.given.lower() == "now":
            report = await back_up(0.0)
            head = "The backup failed:" if report.failed else "I made a backup:"
            return CommandAnswer(head, report.words)
        text = await core.environment.blocking(
            lambda: _describe_last(core.config, core.clock.now())
        )
        return CommandAnswer(text, buttons=("/backup now",))

    chore = Chore(id="backup", title="make a backup", every=every, do=back_up)
    command = SlashCommand(
        name="backup",
        help="show the time of the last backup",
        usage="/backup now: make a backup.",
        run=show,
    )
    return Parts(chores=[chore] if every else [], commands=[command])


def _describe_last(config: Config, now: float) -> str:
    from elwood.features.backup.store import list_backups

    try:
        backups = list_backups(backup_folder(config))
    except OSError as error:
        return f"I cannot read the folder of the backups: {error.strerror}."
    if not backups:
        return "There is no backup yet."
    ago, size = duration(max(0.0, now - backups[0].at)), size_text(backups[0].size)
    return f"The last backup was made {ago} ago ({size}). Number of backups: {len(backups)}."


# A backup older than this multiple of the interval is overdue.
OVERDUE = 2.5


async def check(context: CheckContext) -> list[Finding]:
    return await context.blocking(lambda: list(_check_newest(context.config, context.now)))


def _check_newest(config: Config, now: float) -> Iterator[Finding]:
    from elwood.features.backup.store import list_backups

    folder, every = backup_folder(config), config.get(BackupSettings).every
    try:
        backups = list_backups(folder)
    except OSError as error:
        what = f"{folder} cannot be read: {error.strerror}"
        yield Finding("warning", "backup", what, "run this as the user who runs Elwood")
        return
    if not backups:
        if every and (config.get(Paths).state / "schedule.jsonl").exists():
            yield Finding("ok", "backup", "no backup yet")
        return
    newest = backups[0]
    old = now - newest.at
    if every and old > OVERDUE * every:
        what = f"the last backup is {duration(old)} old"
        yield Finding(
            "warning",
            "backup",
            what,
            "send /tasks all in a chat to see why; run: elwood backup now",
        )
    else:
        yield Finding("ok", "backup", f"the last backup is {duration(max(0.0, old))} old")
