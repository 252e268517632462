"""What the doctor asks about backups: how old is the last one?"""

from collections.abc import Iterator

from elwood.features.backup.settings import BackupSettings, backup_folder
from elwood.features.backup.store import found
from elwood.foundation.checks import CheckContext, Finding
from elwood.foundation.settings import Config, Paths
from elwood.foundation.text.lines import duration

# Times as long as a backup takes to become due, after which the last one is too old.
OVERDUE = 2.5


async def check(context: CheckContext) -> list[Finding]:
    """Look at the newest backup."""
    return await context.blocking(lambda: list(_newest(context.config, context.now)))


def _newest(config: Config, now: float) -> Iterator[Finding]:
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
    if not newest.whole:
        yield Finding("warning", "backup", f"{newest.path} is cut off", "run: elwood backup now")
    elif every and old > OVERDUE * every:
        what = f"the last one is {duration(old)} old"
        yield Finding("warning", "backup", what, "look at /tasks all; run: elwood backup now")
    else:
        yield Finding("ok", "backup", f"the last one is {duration(max(0.0, old))} old")
