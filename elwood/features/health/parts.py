"""What health brings to one run of the app."""

from functools import partial

from elwood.agent.parts import WORLD, Actor, Gathered, Parts
from elwood.agent.session.core import Core, inspect
from elwood.features.health.actor import VITAL, DiskMonitor, Health, told_before


async def build(core: Core, others: Gathered) -> Parts:
    """Make the actor that watches; it stands on the lowest step."""
    paths, blocking = core.paths, core.environment.blocking
    calls, file = core.environment.calls(), core.paths.state / "health.json"

    async def write(data: bytes) -> None:
        await blocking(lambda: core.disk.replace(file, data))

    known = await blocking(lambda: told_before(file.read_bytes() if file.is_file() else b""))

    disks = DiskMonitor(
        {
            "the state folder": lambda: blocking(lambda: calls.space(paths.state)),
            "the workspace": lambda: blocking(lambda: calls.space(paths.workspace)),
        },
        write,
        partial(inspect, core),
        core.clock.now,
        core.admission,
    )
    health = Health(
        core.table,
        core.channels.outboxes,
        core.channels.owner_routes,
        notify=core.environment.notify,
        vital=dict.fromkeys(("sessions", "models", "approvals"), VITAL),
        up=core.up,
        stop=core.stop,
        redact=core.redactor,
        disks=disks,
        known=known,
    )
    return Parts(
        actors=[Actor(step=0, mailbox=core.events, body=health.run, policy=WORLD, grace=1.0)]
    )
