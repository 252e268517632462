"""Events of the app's actors."""

import logging

import pytest
import trio

from elwood.app.build import listener
from elwood.foundation.runtime import Crashed, Event, Mailbox, Started


class Bug(Exception):
    """A bug in a body."""


def test_events_become_log_lines_and_offers(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "elwood.health")
    offered: list[Event] = []

    async def main() -> None:
        mailbox = Mailbox[Event]("health", 2)
        listen = listener(mailbox.address)
        await trio.lowlevel.checkpoint()
        for event in (Started("a", 1), Started("a/b", 0), Crashed("a", Bug("odd"), 2.0)):
            listen(event)  # the third finds no room, and does not wait
        offered.extend([mailbox.receive_nowait(), mailbox.receive_nowait()])

    trio.run(main)
    assert offered == [Started("a", 1), Started("a/b", 0)]
    seen = [(r.levelname, r.message, r.__dict__["actor"]) for r in caplog.records]
    assert seen == [
        ("INFO", "actor started", "a"),
        ("DEBUG", "actor started", "a/b"),
        ("ERROR", "actor crashed", "a"),
    ]
    assert caplog.records[2].exc_info is not None
    assert caplog.records[2].exc_info[1] is not None
