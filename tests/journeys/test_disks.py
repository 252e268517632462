"""Full disks under the whole app: nothing is lost or repeated, and the owner gets a notice.

Rows CP-30 to CP-34 are in test_crash_table; here are the other places that need room.
"""

import errno
import os

import pytest
import trio

from elwood.foundation.storage.journal import Verified, verify
from tests.fake_telegram import OWNER
from tests.journeys.home import OTHER, Home


def no_room() -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


PLACES = ("prompted", "said", "replied", "posting", "posted", "delivered")


@pytest.mark.parametrize("reserve", [True, False])
@pytest.mark.parametrize("place", PLACES)
async def test_a_full_disk_only_delays_work(h: Home, place: str, reserve: bool) -> None:
    """The reserve lets a finished answer through; all other work waits for room."""
    async with h.life() as life:
        if not reserve:
            h.disk.reserve_is_worth = 0
        h.disk.at(f"before write {place}", h.disk.fill)
        h.fake.say("call act boldly")
        if reserve and place in ("replied", "posting", "posted", "delivered"):
            await life.wait_until_idle(30)
        else:
            await life.until(h.alarms, 60)
            assert "no space on the disk" in h.alarms()[0]
        h.disk.clear()
        await life.wait_until_idle()
        assert h.broken_promises() == []
        assert h.texts() == ["re: acted on boldly\n\n— What I actually did —\n✓ act boldly"]
        assert not [
            status.name for status in life.actor_table.statuses.values() if status.last_crash
        ]
        assert isinstance(verify(h.journal()), Verified)


async def test_a_kill_on_a_full_disk_loses_nothing(h: Home) -> None:
    h.disk.reserve_is_worth = 0
    h.disk.at("before write said", h.disk.fill)
    async with h.life() as life:
        h.fake.say("one")
        await life.until(h.alarms, 60)
        life.kill()
    async with h.life() as life:  # the disk is still full
        number = h.fake.say("two")
        await life.until(h.texts, 60)
        assert h.fake.unconfirmed == [number]
        assert "I cannot take messages now" in h.texts()[0]
        h.disk.clear()
        await life.wait_until_idle()
    assert h.broken_promises() == []
    assert h.names().count("received") == 2
    assert h.texts()[-1].endswith("two")


@pytest.mark.parametrize("place", ["before it was taken", "while it was written"])
async def test_a_message_that_waits_for_the_disk_is_handled_once(h: Home, place: str) -> None:
    """Elwood requests no repeat of a message that it can still accept."""
    async with h.life() as life:
        chat = OWNER if place == "while it was written" else OTHER
        await life.say("before", chat=chat)
        h.hold_disk()
        number = h.fake.say("call act once")
        await trio.sleep(100)
        assert h.fake.unconfirmed == [number]
        [notice] = [text for text in h.texts() if text != "re: before"]
        assert notice.startswith("I cannot take messages now: ")
        assert "again" not in notice
        h.release_disk()
        await life.wait_until_idle()
    assert h.effects.done.count("act once") == 1
    assert h.broken_promises() == []


async def test_a_cost_that_cannot_be_recorded_stops_further_calls(h: Home) -> None:
    """The finished answer is sent; its cost is recorded later, and no further call is made."""
    async with h.life() as life:
        for _ in range(20):
            h.disk.at("before write charged", no_room)
        await life.say("one")
        for number in range(3):
            await life.say(f"two {number}")
        assert len(h.asked) == 1
        await life.until(h.alarms, 60)
        assert "models: usage journal failed" in h.alarms()[0]
        assert h.texts() == [
            "re: one",
            *[
                "I cannot answer now: the disk is full, so I cannot record the cost: "
                "please free some space"
            ]
            * 3,
        ]
        h.disk.clear()
        assert (await life.say("three")) == "re: three"
        assert len(h.usage_entries()) == len(h.asked) == 2
