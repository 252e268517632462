"""What /status says of Elwood."""

from pathlib import Path

import trio

from elwood.agent.models.messages import ModelsMail
from elwood.agent.session.commands.status import Status
from elwood.foundation.runtime import (
    ActorTable,
    Child,
    Mailbox,
    report_error,
    report_warning,
    supervise,
)
from elwood.foundation.secrets.redaction import Redactor


async def test_what_is_stuck_and_what_should_be_known_is_told(
    tmp_path: Path, autojump_clock: object
) -> None:
    """A warning is nobody's failure, so no name stands before it."""
    actor_table, models = ActorTable(trio.current_time), Mailbox[ModelsMail]("models", 1)
    status = Status(models.address, actor_table, "offline/rules", (), Redactor(), lambda: 0.0)

    async def body(mailbox: Mailbox[None]) -> None:
        report_warning("rain", "it rains")
        for _ in range(3):
            report_error("the roof", "it leaks")
        await trio.sleep_forever()

    stop = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(
            lambda: supervise(
                [Child(Mailbox[None]("house", 1), body, grace=1)],
                stop=stop,
                listener=lambda event: None,
                actor_table=actor_table,
            )
        )
        await trio.sleep(1)
        lines = (await status.lines("s", owner=True)).splitlines()
        stop.set()
    assert lines[-2:] == ["it rains", "Stuck: house: the roof failed 3 times: it leaks"]
