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
    every = core.config.of(BackupSettings).every

    async def back_up(last: float) -> Report:
        # What packs archives takes 20 ms and 1 MB to import: a start must not wait for it.
        from elwood.features.backup.rules import BackupFailed
        from elwood.features.backup.store import planned

        began = trio.current_time()
        with suppress(ActorUnavailable):
            await core.anchoring.ask(Anchor())  # and it carries them
        try:
            said = await core.environment.blocking(lambda: planned(core.config, core.clock.now))
        except BackupFailed as error:
            took = trio.current_time() - began
            event(log, "backup", {"why": str(error)}, success=False, seconds=took)
            return Report(f"no backup was taken: {error}", failed=True)
        event(log, "backup", {"what": said}, success=True, seconds=trio.current_time() - began)
        return Report(said)

    async def show(call: CommandCall) -> CommandAnswer:
        if call.given.lower() == "now":
            taken = await back_up(0.0)
            head = "It did not work:" if taken.failed else "A backup was taken:"
            return CommandAnswer(head, taken.words)
        text = await core.environment.blocking(lambda: _last(core.config, core.clock.now()))
        return CommandAnswer(text, buttons=("/backup now",))

    chore = Chore(id="backup", title="take a backup", every=every, do=back_up)
    command = SlashCommand(
        name="backup",
        help="when the last backup was taken",
        usage="/backup now takes one.",
        run=show,
    )
    return Parts(chores=[chore] if every else [], commands=[command])


def _last(config: Config, now: float) -> str:
    from elwood.features.backup.store import found

    try:
        known = found(backup_folder(config))
    except OSError as error:
        return f"The backups cannot be looked at: {error.strerror}."
    if not known:
        return "There is no backup yet."
    ago, size = duration(max(0.0, now - known[0].at)), size_text(known[0].size)
    return f"The last backup was taken {ago} ago, and has {size}. There are {len(known)} in all."


# Times as long as a backup takes to become due, after which the last one is too old.
OVERDUE = 2.5


async def check(context: CheckContext) -> list[Finding]:
    return await context.blocking(lambda: list(_newest(context.config, context.now)))


def _newest(config: Config, now: float) -> Iterator[Finding]:
    from elwood.features.backup.store import found

    folder, every = backup_folder(config), config.of(BackupSettings).every
    try:
        known = found(folder)
    except OSError as error:
        what = f"{folder} cannot be looked at: {error.strerror}"
        yield Finding("warning", "backup", what, "run this as the user of Elwood")
        return
    if not known:
        if every and (config.of(Paths).state / "schedule.jsonl").exists():
            yield Finding("ok", "backup", "the first one is still to come")
        return
    newest = known[0]
    old = now - newest.at
    if every and old > OVERDUE * every:
        what = f"the last one is {duration(old)} old"
        yield Finding("warning", "backup", what, "look at /tasks all; run: elwood backup now")
    else:
        yield Finding("ok", "backup", f"the last one is {duration(max(0.0, old))} old")
