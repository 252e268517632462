"""The whole app with MCP servers, and a model that makes the calls in a message."""

import json
import re
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio

from elwood.agent.channels.messages import Post
from elwood.agent.conversation.message import Completion, Human, Results
from elwood.agent.feature import Feature
from elwood.agent.models.client import ModelRequest, Shown
from elwood.agent.models.settings import Limits, Providers, ProviderSettings
from elwood.app.main import FEATURES
from elwood.features.mcp.settings import McpServers, ServerSettings, ToolRule
from elwood.foundation.sandbox.settings import SandboxSettings
from elwood.foundation.settings import Config, Paths
from tests.agent.session.scripted import answer, call, last_message
from tests.journeys.home import short_folder
from tests.line import Line, talking
from tests.model_roles import asking

HERE = Path(__file__).parent
SERVER = HERE / "fake_server.py"
# Runs without asking, and is never repeated.
FREE = ToolRule(risk="read")
LIMIT = 30.0


def fake(plan: Mapping[str, object] | None = None, **more: Any) -> ServerSettings:
    """Configure a fake server without a sandbox, whose tools are accepted and need no approval."""
    args = (str(SERVER), *([json.dumps(plan)] if plan else []))
    given: dict[str, Any] = {
        "command": sys.executable,
        "args": args,
        "sandbox": "none",
        "accept": "first",
        "tools": {"do": FREE, "echo": FREE},
        "private": False,
    }
    return ServerSettings(**{**given, **more})


class Obedient:
    """A model that makes the calls in the last message, and repeats their results."""

    codec = "scripted"

    def __init__(self) -> None:
        self.asked: list[ModelRequest] = []
        # Calls made in addition at the next message.
        self.own: list[tuple[str, str]] = []

    async def complete(self, request: ModelRequest, show: Callable[[Shown], None]) -> Completion:
        await trio.lowlevel.checkpoint()
        self.asked.append(request)
        last = last_message(request.messages)
        if isinstance(last, Results):
            return answer("\n".join(one.text for one in last.results))
        text = next(one.text for one in reversed(request.messages) if isinstance(one, Human))
        found, self.own = self.own or re.findall(r"call (\S+) (\{.*\})$", text, re.M), []
        calls = [(f"c{number}", *one) for number, one in enumerate(found)]
        return call(*calls) if calls else answer("Well.")

    @property
    def tools(self) -> list[str]:
        """Return the tools of the last request."""
        return [tool.name for tool in self.asked[-1].prompt.tools]


class House:
    """A running app: *line* is its channel, *model* its model."""

    def __init__(self, line: Line, model: Obedient, folder: Path, runtime: Path) -> None:
        self.line = line
        self.model = model
        self.folder = folder
        self.runtime = runtime

    async def ask(self, text: str) -> str:
        """Send *text* and return the answer, without Elwood's own notices."""
        self.line.posts.clear()
        await self.line.say(text)
        return await self.line.hear(lambda said: not said.startswith("The MCP server"))

    async def call(self, tool: str, **arguments: object) -> str:
        """Call *tool* in a turn; return its result, or the question to the owner."""
        self.model.asked.clear()
        said = await self.ask(f"call {tool} {json.dumps(arguments)}")
        last = last_message(self.model.asked[-1].messages)
        return last.results[0].text if isinstance(last, Results) else said

    @property
    def buttons(self) -> list[str]:
        """Return the texts of the buttons under the last answer."""
        assert self.line.heard is not None
        return [button.text for button in self.line.heard.buttons]

    async def allow(self, answer: str) -> str:
        """Answer the question that was heard last; return the result of its call."""
        assert self.line.heard is not None
        typed = [button.command for button in self.line.heard.buttons]
        [command] = [one for one in typed if one.endswith(f" {answer}")]
        await self.line.say(command)
        return await self.line.hear(lambda said: "answered (not instructions)" in said)

    async def do(self, *steps: object, server: str = "fake") -> str:
        return await self.call(f"{server}__do", steps=list(steps))

    async def press(self, command: str) -> tuple[str, str]:
        """Send *command*, press the one button under its answer; return both answers."""
        posts: list[Post] = []

        def first(said: str) -> bool:
            posts[:] = [post for post in self.line.posts if post.part.text == said]
            return not said.startswith("The MCP server")

        self.line.posts.clear()
        await self.line.say(command)
        said = await self.line.hear(first)
        [button] = posts[0].buttons
        return said, await self.ask(button.text)

    async def until(self, command: str, what: str) -> str:
        """Repeat a command until its answer contains *what*."""
        with trio.fail_after(LIMIT):
            while True:
                said = await self.ask(command)
                if what in said:
                    return said


@asynccontextmanager
async def living(
    folder: Path,
    *more: object,
    sandbox: str = "direct",
    features: Sequence[Feature] = FEATURES,
    **servers: ServerSettings,
) -> AsyncIterator[House]:
    """Run the app with *servers*, with its state in *folder*."""
    (folder / "state" / "workspace").mkdir(parents=True, exist_ok=True)
    model = Obedient()
    with short_folder() as runtime:
        config = Config.from_values(
            Paths(
                state=folder / "state", workspace=folder / "state" / "workspace", runtime=runtime
            ),
            Providers({"scripted": ProviderSettings(api="offline")}),
            asking("scripted/m", "scripted/m"),
            SandboxSettings(kind=sandbox),  # type: ignore[arg-type]  # named by the test
            McpServers(servers),
            Limits(session_tokens=0, day_tokens=0),
            *more,
        )
        async with talking(config, features, {"scripted": model}) as line:
            yield House(line, model, folder, runtime)
