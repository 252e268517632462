"""Above 30 tools, those of servers come into the prompt when a search has found them."""

from pathlib import Path

import pytest

from tests.features.mcp.fake_server import DO, ECHO
from tests.features.mcp.house import fake, living

pytest.importorskip("mcp", reason="MCP NOT TESTED: the extra elwood[mcp] is not installed")

KINDS = ("invoice", "contact", "meeting", "parcel")
VERBS = ("list", "read", "write", "move", "delete", "export", "share", "archive")
MANY = [
    {**ECHO, "name": f"{verb}_{kind}", "description": f"{verb.title()} the {kind}s of a person."}
    for kind in KINDS
    for verb in VERBS
]
PLAN = {"tools": [DO, ECHO, *MANY]}


async def test_tools_stay_in_the_prompt_once_a_search_has_found_them(tmp_path: Path) -> None:
    async with living(tmp_path, fake=fake(PLAN)) as house:
        await house.until("/mcp", "34 tools")
        await house.ask("hi")
        before = house.model.tools
        assert "search_tools" in before
        assert not [name for name in before if name.startswith("fake__")]

        found = await house.call("search_tools", query="archive a parcel")
        assert found.startswith("You can call these tools from now on:\n- fake__archive_parcel: ")
        after = house.model.tools
        assert after[: len(before)] == before, "a cached beginning stays the same"
        assert "fake__archive_parcel" in after
        assert len(after) - len(before) <= 8
        assert "\na\n" in await house.call("fake__echo", text="a"), "a known name needs no search"

        await house.call("search_tools", query="fake__do")
        assert house.model.tools[: len(after)] == after
        assert house.model.tools[-1] == "fake__do"
        kept = house.model.tools

    async with living(tmp_path, fake=fake(PLAN)) as house:
        await house.until("/mcp", "34 tools")
        await house.ask("hi again")
        assert house.model.tools == kept, "after a restart"
        await house.ask("/new")
        await house.ask("hi")
        assert house.model.tools == before
        await house.ask("/resume 1")
        await house.ask("hi")
        assert house.model.tools == kept

        missing = await house.call("search_tools", query="zebra")
        assert missing.startswith("No tool matches. There are: fake__")


async def test_with_few_tools_there_is_no_search(tmp_path: Path) -> None:
    async with living(tmp_path, fake=fake()) as house:
        await house.until("/mcp", "2 tools")
        await house.ask("hi")
        assert {"fake__do", "fake__echo"} <= set(house.model.tools)
        assert "search_tools" not in house.model.tools
