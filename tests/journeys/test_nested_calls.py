"""A tool that calls tools, in all of Elwood: the receipts, and the state after kill -9."""

import json

import pytest

from elwood.agent.policy.settings import PolicySettings
from elwood.agent.session.log.entries import CallEnded
from tests.agent.session.test_reading_cli import run
from tests.journeys.home import FREE, MINE, Home
from tests.journeys.stories import add_nesting_tool

CHAIN = "chain boldly"


def prepare(h: Home) -> None:
    h.settings["policy"] = PolicySettings(allow=(*FREE, "chain"))
    add_nesting_tool(h)


async def test_nested_calls_are_shown_in_all_receipts(
    h: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    prepare(h)
    async with h.life() as life:
        told = await life.say(f"call {CHAIN}")
        for line in ("✓ act boldly", "✓ chain boldly", "✓ look boldly (2 times)"):
            assert line in told
        # The list omits reads; the opened call shows everything.
        listed = await life.say("/receipts")
        assert [one.split(" ", 2)[2] for one in listed.splitlines() if "✓" in one] == [
            "✓ act boldly · #1.2",
            "✓ chain boldly · #1",
        ]
        opened = await life.say("/receipts 1")
        assert "Calls it made: 3" in opened
        for line in ("1.1: ✓ look boldly", "1.2: ✓ act boldly", "1.3: ✓ look boldly"):
            assert line in opened

    run(h.config(), "receipts", "--json")
    found = {call["call"]: call for call in json.loads(capsys.readouterr().out)}
    (outer,) = (key for key in found if "." not in key)
    assert {key: (call["tool"], call["outer"]) for key, call in found.items()} == {
        outer: ("chain", ""),
        f"{outer}.1": ("look", outer),
        f"{outer}.2": ("act", outer),
        f"{outer}.3": ("look", outer),
    }
    run(h.config(), "session", "export", MINE, "--format", "html")
    page = capsys.readouterr().out
    assert "4 calls" in page
    seen = [page.count(f"✓ {what} boldly") for what in ("look", "act", "chain")]
    assert seen == [2, 1, 1]


# The end of a read shares a line with the next entry.
# Where the process dies, and the outcomes of the inner and outer call afterwards.
KILLS = {
    "before the inner call began": ("before write started", 2, 0, []),
    "the inner call had begun": ("before write ended", 2, 1, [("act boldly", "unknown")]),
    "the inner call had ended": ("after sync ended", 2, 1, [("act boldly", "ok")]),
}


@pytest.mark.parametrize("row", KILLS)
async def test_a_started_nested_call_is_not_repeated_after_a_kill(h: Home, row: str) -> None:
    prepare(h)
    place, nth, acted, inner = KILLS[row]
    h.kill(place, nth=nth)
    async with h.life() as life:
        h.fake.say(f"call {CHAIN}")
        await life.wait_for_kill()
    assert h.effects.done.count("act boldly") == acted
    async with h.life() as life:
        await life.wait_until_idle()
    assert h.effects.done.count("act boldly") == acted
    ended = [one for one in h.call_outcomes() if not one[0].startswith("look")]
    assert ended == [*inner, (CHAIN, "unknown")]
    outer = next(e for e in h.entries() if isinstance(e, CallEnded) and e.tool == "chain")
    assert "It was not repeated." in outer.text
    known = "".join(f" It had made these calls: {what} ({how})." for what, how in inner)
    assert outer.text.endswith(f"not repeated.{known}")
    assert not h.broken_promises()
