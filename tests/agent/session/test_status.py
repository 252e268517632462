"""What /status says of Elwood."""

from pathlib import Path

import pytest
import trio

from elwood.foundation.runtime import Child, Mailbox, report_error, report_warning, supervise
from tests.agent.session.scene import World, house

pytestmark = pytest.mark.usefixtures("virtual_time")


async def test_what_is_stuck_and_what_should_be_known_is_told(tmp_path: Path) -> None:
    """A warning is nobody's failure, so no name stands before it."""

    async def body(mailbox: Mailbox[None]) -> None:
        report_warning("rain", "it rains")
        for _ in range(3):
            report_error("the roof", "it leaks")
        await trio.sleep_forever()

    world, stop = World(tmp_path), trio.Event()
    async with house(world) as h, trio.open_nursery() as nursery:
        nursery.start_soon(
            lambda: supervise(
                [Child(Mailbox[None]("attic", 1), body, grace=1)],
                stop=stop,
                listener=lambda event: None,
                actor_table=h.actor_table,
            )
        )
        await trio.sleep(1)
        await h.say("/status")
        await h.quiet()
        stop.set()
    (said,) = world.said
    assert said.splitlines()[-2:] == ["it rains", "Stuck: attic: the roof failed 3 times: it leaks"]
