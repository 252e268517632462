"""Doctor checks: the free space of the disks, and health.json."""

from collections.abc import Iterator
from datetime import UTC, datetime

from elwood.features.health.actor import parse_health_file
from elwood.features.health.settings import HealthSettings
from elwood.foundation.checks import CheckContext, Finding
from elwood.foundation.settings import Config, Paths
from elwood.foundation.storage.disk import Calls, describe_room, find_running, refusal
from elwood.foundation.text.lines import duration, one_line

# Seconds after which health.json is stale: three times the pause between two writes.
OLD = 180.0


async def check(context: CheckContext) -> list[Finding]:
    return await context.blocking(lambda: list(findings(context.config, context.now)))


def findings(config: Config, now: float) -> Iterator[Finding]:
    """Check the disks and health.json at Unix time *now*.  Blocks.  Raises OSError."""
    settings, paths = config.get(HealthSettings), config.get(Paths)
    folders = {"the state folder": paths.state, "the workspace": paths.workspace}
    spaces = {name: Calls().space(path) for name, path in folders.items() if path.is_dir()}
    if full := refusal(spaces, settings.disk_full):
        yield Finding("problem", "disk", full, "free some space, or raise health.disk_full")
    elif little := describe_room(spaces, settings.disk_warning, settings.disk_full):
        yield Finding("warning", "disk", little, "free some space, or raise health.disk_warning")
    file = paths.state / "health.json"
    if (seen := parse_health_file(file.read_bytes() if file.exists() else b"")) is None:
        return
    try:
        is_running = find_running(paths.state) is not None
    except FileNotFoundError:
        is_running = False
    if not is_running:
        when = datetime.fromtimestamp(seen.at, UTC)
        yield Finding("ok", "health", f"not running since {when:%Y-%m-%d %H:%M UTC}")
        return
    is_well = now - seen.at <= OLD and seen.status == "running"
    what = f"{one_line(seen.status)}, {duration(now - seen.at)} ago"
    remedy = "" if is_well else "run: elwood inspect"
    yield Finding("ok" if is_well else "warning", "health", what, remedy)
