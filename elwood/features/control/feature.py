"""The local control socket, as the app sees it."""

from functools import partial

from elwood.agent.feature import WORLD, Actor, Feature, Gathered, Parts
from elwood.agent.session.core import Core, inspect
from elwood.features.control.actor import Control
from elwood.foundation.runtime import Mailbox


async def build(core: Core, others: Gathered) -> Parts:
    """Make the actor that answers the command line."""
    control = Control(
        core.paths.runtime,
        partial(inspect, core),
        core.approvals,
        others.control,
        redact=core.redactor,
        blocking=core.environment.blocking,
    )
    mailbox: Mailbox[None] = Mailbox("control", 16)
    return Parts(actors=[Actor(step=5, mailbox=mailbox, body=control.run, policy=WORLD, grace=1.0)])


FEATURE = Feature(name="control", build=build)
