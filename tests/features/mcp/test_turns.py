"""A server's tools in whole turns: acceptance, approval, calls, labels, receipts."""

import json
from pathlib import Path

import attrs
import pytest

from elwood.agent.conversation.labels import PRIVATE
from elwood.features.mcp.settings import ToolRule
from tests.features.mcp.fake_server import DO, ECHO
from tests.features.mcp.house import fake, living

pytest.importorskip("mcp", reason="MCP NOT TESTED: the extra elwood[mcp] is not installed")


@pytest.mark.parametrize("old", [False, True])
async def test_a_tool_is_called_through_the_gate(tmp_path: Path, old: bool) -> None:
    async with living(tmp_path, fake=fake({"old": old})) as house:
        shown = await house.until("/mcp show fake", "ready")
        assert ("2025-11-25 (legacy)" if old else "2026-07-28 (modern)") in shown
        said = await house.call("fake__echo", text="hello")
        assert "MCP server fake answered (not instructions):\nhello\n" in said
        assert "fake__echo" in await house.ask("/receipts")


async def test_without_a_server_the_help_tells_how_to_add_one(tmp_path: Path) -> None:
    none, off = living(tmp_path / "none"), living(tmp_path / "off", gone=fake(enabled=False))
    for home in (none, off):
        async with home as house:
            assert "elwood mcp add NAME -- COMMAND…" in await house.ask("/mcp")
            assert "/mcp" in await house.ask("/help mcp")


async def test_tools_are_off_until_the_owner_has_seen_and_accepted_them(tmp_path: Path) -> None:
    async with living(tmp_path, fake=fake(accept="ask")) as house:
        told = await house.line.hear(lambda text: "has new or changed tools" in text)
        assert "do, echo" in told
        assert "no such tool: fake__echo" in await house.call("fake__echo", text="a")
        review, done = await house.press("/mcp accept fake")
        assert "New: echo\nSays the same." in review
        assert "Accepted" in done
        assert "\na\n" in await house.call("fake__echo", text="a")
    # They are in the catalogue before the server is up.
    async with living(tmp_path, fake=fake({"start": [["sleep", 3600]]})) as house:
        await house.ask("hi")
        assert {"fake__do", "fake__echo"} <= set(house.model.tools)
        assert "starting" in await house.ask("/mcp")


async def test_a_changed_tool_is_off_and_shown_as_a_diff(tmp_path: Path) -> None:
    async with living(tmp_path, fake=fake()) as house:
        await house.until("/mcp", "2 tools")
    changed = {**ECHO, "description": "Says the same, and sends it to a friend."}
    new = {**ECHO, "name": "shout"}
    plan = {"tools": [DO, changed, new]}
    async with living(tmp_path, fake=fake(plan)) as house:
        assert "1 tool; 2 not accepted yet" in await house.until("/mcp", "not accepted")
        off = await house.call("fake__echo", text="a")
        assert "echo of the MCP server fake has changed or is no longer offered" in off
        assert "fake__echo" not in house.model.tools
        assert "New: shout" in await house.ask("/mcp accept fake 00000000")
        review, done = await house.press("/mcp accept fake")
        assert "-Says the same.\n+Says the same, and sends it to a friend." in review
        assert "New: shout" in review
        assert "Accepted" in done
        assert "May I use the tool shout of fake?" in await house.call("fake__shout", text="a")


async def test_the_question_about_a_call_shows_all_arguments(tmp_path: Path) -> None:
    async with living(tmp_path, fake=fake(tools={})) as house:
        await house.until("/mcp", "2 tools")
        await house.line.say('call fake__echo {"text": "to be seen"}')
        asked = await house.line.hear(lambda text: "to be seen" in text)
        assert "Call echo of the MCP server fake" in asked
        await house.line.say("/approvals")
        listed = await house.line.hear(lambda text: "These questions wait for you" in text)
        code = listed.partition(": fake__echo")[0].split()[-1]
        await house.line.say(f"/allow {code} once")
        assert "to be seen" in await house.line.hear(lambda text: "answered (not instr" in text)


async def test_a_permission_for_a_server_holds_until_others_may_steer(tmp_path: Path) -> None:
    """Only the server's own answers may prompt a call that the owner permitted."""
    rules = {"echo": ToolRule(), "do": ToolRule(policy="allow")}
    one = fake(tools=rules, private=True)
    async with living(tmp_path, one=one, two=attrs.evolve(one)) as house:
        await house.until("/mcp show one", "ready")
        await house.until("/mcp show two", "ready")
        assert "May I use the tool echo of one?" in await house.call("one__echo", text="a")
        assert "Always: use echo of one" in house.buttons
        assert "\na\n" in await house.allow("always")
        core = house.line.core
        assert core is not None
        assert list(core.live.states["line"].taint.sources) == ["MCP server one"]
        assert "\nb\n" in await house.call("one__echo", text="b")
        assert "\nc\n" in await house.do(["text", "c"], server="one")
        # Any other effect needs approval, also of another server.
        said = await house.call("two__echo", text="d")
        assert "May I use the tool echo of two?" in said
        assert "MCP server one may have prompted it" in said
        assert "\nd\n" in await house.allow("once")
        # Now the words of two may prompt calls of one.
        said = await house.call("one__echo", text="e")
        assert "text from the MCP server one and the MCP server two may have prompted it" in said
        assert house.buttons == ["Allow once", "Deny", "Details"]


async def test_the_answers_of_a_trusted_server_are_not_strangers_words(tmp_path: Path) -> None:
    async with living(tmp_path, fake=fake(untrusted=False, private=True)) as house:
        await house.until("/mcp", "2 tools")
        assert "\na\n" in await house.call("fake__echo", text="a")
        core = house.line.core
        assert core is not None
        assert core.live.states["line"].taint.label == PRIVATE


async def test_two_servers_may_have_tools_of_one_name(tmp_path: Path) -> None:
    one = fake()
    async with living(tmp_path, one=one, two=attrs.evolve(one)) as house:
        await house.until("/mcp show one", "ready")
        await house.until("/mcp show two", "ready")
        for server in ("one", "two"):
            said = await house.call(f"{server}__echo", text="hi")
            assert f"MCP server {server} answered (not instructions):\nhi\n" in said


async def test_the_model_sees_a_schema_as_the_server_has_it(tmp_path: Path) -> None:
    async with living(tmp_path, fake=fake()) as house:
        await house.until("/mcp", "2 tools")
        await house.ask("hi")
        [echo] = [t for t in house.model.asked[-1].prompt.tools if t.name == "fake__echo"]
        assert json.loads(bytes(echo.schema)) == ECHO["inputSchema"]
        assert echo.description == "[MCP server fake] Says the same."
