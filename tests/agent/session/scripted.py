"""A scripted model and small tools, for tests of turns and of the whole app."""

from collections.abc import Awaitable, Callable, Sequence

import msgspec
import trio

from elwood.agent.conversation.message import (
    Assistant,
    Completion,
    Message,
    Notice,
    Stop,
    Text,
    ToolCall,
    Usage,
)
from elwood.agent.models.messages import Complete, Completed
from elwood.agent.session.turn.turn import RECORDS
from elwood.agent.tools.tool import Tool, ToolContext, ToolFailure

USAGE = Usage(10, 5)


def answer(text: str, stop: Stop = "end", detail: str = "") -> Completion:
    """Return a complete response with text."""
    blocks = (Text(text),) if text else ()
    native = msgspec.Raw(msgspec.json.encode([{"type": "text", "text": text}]))
    return Completion(Assistant(blocks, "scripted", "m", native), stop, USAGE, detail)


def call(*calls: tuple[str, str, str], stop: Stop = "tools", text: str = "") -> Completion:
    """Return a response with tool calls: (id, name, raw arguments)."""
    words = (Text(text),) if text else ()
    blocks = tuple(ToolCall(*one) for one in calls)
    native = msgspec.Raw(msgspec.json.encode([*map(msgspec.structs.asdict, blocks)]))
    return Completion(Assistant((*words, *blocks), "scripted", "m", native), stop, USAGE)


Step = Completed | Callable[[Complete], Awaitable[Completed]]


class ScriptedModel:
    """Answers each request with the next step and stores the requests."""

    def __init__(self, *steps: Step) -> None:
        self.steps: list[Step] = list(steps)
        self.asked: list[Complete] = []

    async def __call__(self, request: Complete) -> Completed:
        self.asked.append(request)
        await trio.lowlevel.checkpoint()
        assert self.steps, "the model got more requests than the script has steps"
        step = self.steps.pop(0)
        return await step(request) if callable(step) else step


class Nothing(msgspec.Struct, forbid_unknown_fields=True):
    """No arguments."""


class Named(msgspec.Struct, forbid_unknown_fields=True):
    """One argument."""

    name: str


class Effects:
    """Tools that record their effects: `look` is pure, `act` is once, `keep` is keyed."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.together = 0
        self.most_together = 0
        self.hang = trio.Event()
        self.before: Callable[[str], None] = lambda name: None
        self.after: Callable[[str], None] = lambda name: None

    def tools(self) -> Sequence[Tool]:
        """Return all tools."""

        async def look(given: Named, context: ToolContext) -> str:
            self.together += 1
            self.most_together = max(self.together, self.most_together)
            await trio.sleep(1)
            self.together -= 1
            self.done.append(f"look {given.name}")
            return f"saw {given.name}"

        async def act(given: Named, context: ToolContext) -> str:
            self.before("act")
            self.done.append(f"act {given.name}")
            self.after("act")
            await trio.sleep(1)
            return f"acted on {given.name}"

        async def fail(given: Nothing, context: ToolContext) -> str:
            await trio.lowlevel.checkpoint()
            raise ToolFailure("there is nothing to do it with")

        async def crash(given: Nothing, context: ToolContext) -> str:
            await trio.lowlevel.checkpoint()
            raise ZeroDivisionError("oops")

        async def hang(given: Nothing, context: ToolContext) -> str:
            self.hang.set()
            await trio.sleep_forever()
            raise AssertionError

        def name(given: Named) -> str:
            return given.name

        def nothing(given: Nothing) -> str:
            return ""

        return (
            Tool("look", "Look.", Named, look, risk="read", effect="pure", target=name),
            Tool("act", "Act.", Named, act, risk="write", effect="once", target=name),
            Tool("destroy", "…", Named, act, risk="destructive", effect="once", target=name),
            Tool("fail", "Fail.", Nothing, fail, risk="read", effect="pure", target=nothing),
            Tool("crash", "Crash.", Nothing, crash, risk="read", effect="pure", target=nothing),
            Tool("hang", "Hang.", Nothing, hang, risk="write", effect="once", target=nothing),
        )


def last_message(messages: Sequence[Message]) -> Message:
    """Return the last of *messages*, without the records after a round."""
    head = RECORDS.partition("{")[0]
    told = (isinstance(one, Notice) and one.text.startswith(head) for one in messages)
    return [one for one, is_told in zip(messages, told, strict=True) if not is_told][-1]
