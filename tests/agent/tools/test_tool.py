"""Merging tools."""

import pytest

from elwood.agent.tools.tool import Tool, ToolContext, merge
from tests.agent.session.scripted import Nothing


async def run(given: Nothing, context: ToolContext) -> str:
    raise AssertionError("nobody calls it")


def tool(name: str, id_: str) -> Tool:
    return Tool(name, "", Nothing, run, id=id_)


def test_sources_are_merged_in_order_and_all_clashes_are_told_at_once() -> None:
    read, send = tool("read", "files.read"), tool("send", "talk.send")
    assert merge({"one": [read], "two": [send]}) == (read, send)
    with pytest.raises(ValueError, match=r"from Elwood and from mail; .* from mail and from mail"):
        merge(
            {
                "Elwood": [read, send],
                "mail": [tool("send", "mail.send"), tool("a", "x"), tool("b", "x")],
            }
        )
