"""The client for the official conformance suite: Elwood's own, with a simulated browser.

``python -m tests.features.mcp.conformance_client URL``; the suite sets the scenario in variables.
"""

import json
import math
import os
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio

from elwood.features.mcp import client
from elwood.features.mcp.login import Redirect, parse_redirect
from elwood.features.mcp.messages import ServerRefused
from elwood.features.mcp.parts import http_client
from elwood.features.mcp.questions import answer_to, questions
from elwood.features.mcp.settings import ServerSettings
from elwood.features.mcp.store import LoginStore
from elwood.foundation.net.http import Client
from elwood.foundation.secrets.redaction import Secret


def sample(schema: dict[str, Any]) -> dict[str, Any]:
    """Return arguments that fit *schema*."""
    made: dict[str, Any] = {"integer": 5, "number": 5, "boolean": True, "array": [], "object": {}}
    fields = schema.get("properties", {})
    return {
        name: field.get("default", field.get("enum", [made.get(str(field.get("type")), "test")])[0])
        for name, field in fields.items()
        if isinstance(field, dict)
    }


class Browser:
    """Opens the login page and follows its redirects."""

    async def show(self, url: str) -> None:
        http = Client()
        self.answer = await http.get(url, read_timeout=10)
        await http.aclose()

    async def come_back(self) -> Redirect:
        await trio.lowlevel.checkpoint()
        return parse_redirect(self.answer.headers["location"])


async def elicit(asked: Any) -> dict[str, object]:
    """Answer with the default values."""
    await trio.lowlevel.checkpoint()
    found = questions("suite", asked)
    if isinstance(found, str):
        return {"action": "decline"}
    content: dict[str, object] = {}
    for step in found:
        answer = answer_to(step, "")
        content.update(answer if isinstance(answer, dict) else {})
    return {"action": "accept", "content": content}


async def main(url: str) -> None:
    scenario = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
    secret = context.get("client_secret")
    settings = ServerSettings(
        url=url,
        local=True,
        auth="oauth" if scenario.startswith("auth/") else "none",
        client_id=context.get("client_id", ""),
        client_secret=Secret(secret) if secret else None,
    )
    browser, auth = Browser(), None
    if settings.auth == "oauth":
        store = LoginStore(Path(tempfile.mkdtemp()), "suite")
        auth = client.oauth(settings, store, browser.show, browser.come_back)
    transport = client.remote(url, "http", lambda: http_client(settings, lambda status: None, auth))
    async with (
        limited(),
        client.connect(
            transport, legacy=False, within=math.inf, changed=lambda: None, elicit=elicit
        ) as connection,
    ):
        tools = await connection.list_tools()
        with trio.move_on_after(1):
            await connection.list_resources()
            await connection.list_prompts()
        said = {one["name"]: one["arguments"] for one in context.get("toolCalls", ())}
        for tool in tools:
            given = said.get(tool.name) or sample(json.loads(tool.input))
            if tool.name == "json_schema_echo":
                [focal] = [one for one in tools if one.name == "json_schema_2020_12_tool"]
                given = {"schema": json.loads(focal.input)}
            try:
                print(tool.name, await connection.call(tool.name, given, progress))
            except ServerRefused as error:
                print(tool.name, "refused:", error)


@asynccontextmanager
async def limited() -> AsyncIterator[None]:
    """Print where it hangs, before the suite kills it."""
    with trio.fail_after(60):
        yield


async def progress(progress: float, total: float | None, message: str | None) -> None:
    await trio.lowlevel.checkpoint()


if __name__ == "__main__":
    trio.run(main, sys.argv[1])
