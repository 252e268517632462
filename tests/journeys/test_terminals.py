"""Terminals attached to a running Elwood, over its real control socket."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import attrs
import msgspec
import pytest
import trio

from elwood.agent.approvals.settings import ApprovalSettings
from elwood.agent.channels import frames as wire
from elwood.agent.channels.attached import TOO_SLOW
from elwood.agent.channels.messages import Post, Sent
from elwood.agent.conversation.message import Completion, Text
from elwood.agent.models.client import ModelRequest, Thought
from elwood.agent.policy.settings import PolicySettings
from elwood.agent.session.log.entries import Delivered
from elwood.features.console.feature import FEATURE as CONSOLE
from elwood.features.console.intake import ROUTE
from elwood.features.console.view import ConversationView
from elwood.foundation.net import control
from elwood.foundation.sandbox.settings import SandboxSettings
from elwood.foundation.text.markdown import Rich
from tests.journeys.home import MINE, MODEL, Home, Life, follow_message
from tests.journeys.test_approval_journeys import press

IDLE = wire.State(model=MODEL)
LOOKS_SECRET = "ghp_" + "a1B2c3D4e5F6" * 3
DONE = "re: acted on quickly"


@attrs.define
class Sitting:
    """A person at a terminal, and all frames sent to it."""

    stream: trio.abc.Stream
    session: str = ""
    frames: list[wire.ToClient] = attrs.field(factory=list)
    read: int = 0
    rest: bytes = b""
    title: str = ""

    async def next(self) -> wire.ToClient:
        while b"\n" not in self.rest:
            more = await self.stream.receive_some()
            if not more:
                raise EOFError
            self.rest += more
        line, _, self.rest = self.rest.partition(b"\n")
        frame: wire.ToClient = msgspec.json.decode(line, type=wire.ToClient)
        if isinstance(frame, wire.State):  # its title is in each state after the first message
            self.title, frame = frame.title, msgspec.structs.replace(frame, title="")
        self.frames.append(frame)
        return frame

    async def until(self, *wanted: object) -> list[wire.ToClient]:
        """Read until a frame equals a *wanted* one, or has its type; return the frames read."""
        with trio.fail_after(300):
            while True:
                frame = await self.next()
                if frame in wanted or type(frame) in wanted:
                    came, self.read = self.frames[self.read :], len(self.frames)
                    return came

    async def say(self, text: str, id_: str = "", **more: tuple[str, ...]) -> str:
        """Send a message; return the reason if it is refused."""
        said = wire.SaidHere(id=id_ or text, text=text, **more)
        await self.stream.send_all(wire.encode(said))
        took = (await self.until(wire.Took))[-1]
        assert isinstance(took, wire.Took)
        assert took.id == said.id
        return took.why

    async def ask(self, text: str) -> list[str]:
        """Send a message, wait for the outcome, and return the answer."""
        before = len(self.frames)
        assert await self.say(text) == ""
        await self.until(IDLE)
        return texts(self.frames[before:])


def texts(frames: list[wire.ToClient]) -> list[str]:
    return [frame.text for frame in frames if isinstance(frame, wire.Message)]


def heard(frames: list[wire.ToClient]) -> list[tuple[str, str]]:
    return [(one.who, one.text) for one in frames if isinstance(one, wire.HeardElsewhere)]


async def answered(h: Home, *words: str) -> tuple[control.ControlAnswer, trio.SocketStream]:
    stream = await trio.open_unix_socket(str(h.runtime / control.NAME))
    await stream.send_all(control.encode(control.ControlRequest("attach", words)))
    line = b""
    while not line.endswith(b"\n"):
        line += await stream.receive_some(1)
    return control.decode(line, control.ControlAnswer), stream


@asynccontextmanager
async def sitting(h: Home, session: str = "console", mode: str = "talk") -> AsyncIterator[Sitting]:
    answer, stream = await answered(h, session, mode)
    assert answer.ok, answer.text
    async with stream:
        yield Sitting(stream, answer.text)


@asynccontextmanager
async def served(h: Home, **settings: object) -> AsyncIterator[Life]:
    h.more_channels = (CONSOLE,)
    h.settings.update(settings)
    async with h.life() as life:
        await life.until((h.runtime / control.NAME).exists)
        yield life


async def test_a_terminal_can_reconnect_to_its_conversation(h: Home) -> None:
    async with served(h):
        async with sitting(h) as me:
            assert await me.until(wire.State) == [IDLE]
            assert await me.ask("one") == ["re: one"]
            assert me.title == "one"
            assert await me.ask("two") == ["re: two"]
            assert await me.ask("three") == ["re: three"]
            assert heard(me.frames) == []
            assert await me.ask("three") == [], "the same id is the same message"
        async with sitting(h, "--last") as me:
            assert me.session == "console"
            before = await me.until(wire.State)
            assert heard(before) == [("you", "two"), ("you", "three")]
            assert texts(before) == ["re: two", "re: three"]
            assert all(getattr(one, "is_old", True) for one in before)


async def test_a_terminal_gets_the_markdown_that_the_model_wrote(h: Home) -> None:
    """Limits of other channels do not decide about it."""
    async with served(h), sitting(h) as me:
        source = "**<b>** ![p](https://example.org/p.png) $a$ ||b|| [c](https://example.org)"
        await me.ask(source)
        await me.ask("call act quickly")
        answers = [one for one in me.frames if isinstance(one, wire.Message)]
        assert answers[0].markdown == f"re: {source}"
        assert answers[-1].markdown.startswith(DONE)
        assert answers[-1].records.startswith("— What I actually did —\n✓ act quickly")


async def test_thinking_is_shown_redacted_and_is_not_a_message(h: Home) -> None:
    async def think(request: ModelRequest) -> Completion:
        h.show(Thought(f"{'hm ' * 9000}the token is {LOOKS_SECRET}, and so it is"))
        await trio.sleep(2)  # a text that comes immediately replaces it
        return follow_message(request)

    async with served(h), sitting(h) as me:
        h.think = think
        assert await me.ask("one") == ["re: one"]
        [thinking] = [one for one in me.frames if isinstance(one, wire.Thinking)]
        assert thinking.text.startswith("hm")
        assert LOOKS_SECRET not in thinking.text
        assert re.search(r"hm the token is \S+, and so it ", thinking.text)
        assert len(thinking.text) < 20_000


async def test_text_before_a_call_stays_and_is_redacted(h: Home) -> None:
    def say_and_call(request: ModelRequest) -> Completion:
        completion = follow_message(request)
        if completion.message.calls:
            said = (Text(f"I act with {LOOKS_SECRET} now."), *completion.message.blocks)
            message = msgspec.structs.replace(completion.message, blocks=said)
            completion = msgspec.structs.replace(completion, message=message)
        return completion

    async with served(h), sitting(h) as me, sitting(h, mode="once") as other:
        h.think = say_and_call
        said, answered = await me.ask("call act quickly")
        assert re.fullmatch(r"I act with \S+ now\.", said)
        assert LOOKS_SECRET not in said
        assert answered.startswith(DONE)
        await other.until(wire.Message)
        assert [text.partition("\n")[0] for text in texts(other.frames)] == [DONE]


async def test_a_terminal_gets_the_changes_and_the_output_of_calls(h: Home) -> None:
    async with served(h), sitting(h) as me:
        await me.ask("call act quickly")
        [detail] = [one for one in me.frames if isinstance(one, wire.Detail)]
        assert detail.step == "act quickly"
        assert detail.text.startswith("acted on quickly")


async def test_only_terminals_of_a_conversation_see_it(h: Home) -> None:
    async with served(h), sitting(h) as a, sitting(h) as b, sitting(h, "other") as c:
        async with sitting(h, mode="watch") as d:
            await a.ask("hello")
            for other in (b, d):
                await other.until(IDLE)
                came = await other.until(IDLE)
                assert heard(came) == [("you", "hello")]
                assert texts(came) == ["re: hello"]
            assert await d.say("me, too") == "this terminal only watches"
        assert await c.ask("hi") == ["re: hi"]
        assert heard(c.frames) == []


async def test_a_telegram_conversation_continues_at_the_terminal(h: Home) -> None:
    async with served(h) as life:
        await life.say("from the phone")
        async with sitting(h, "telegram") as me, sitting(h, MINE, "watch") as watcher:
            assert me.session == MINE
            assert heard(await me.until(IDLE)) == [("you (telegram)", "from the phone")]
            assert await me.ask("from the desk") == ["re: from the desk"]
            assert "from the phone" in str(h.asked[-1].messages)
            await watcher.until(IDLE)
            await watcher.until(IDLE)
            await life.say("call act quickly")
            for one in (me, watcher):
                came = await one.until(IDLE)
                assert heard(came) == [("you (telegram)", "call act quickly")]
                assert [text.partition("\n")[0] for text in texts(came)] == [DONE]
        assert len(h.texts()) == 2, "the terminal got its own answer"


async def test_an_approval_is_asked_at_each_new_terminal(h: Home) -> None:
    limits = ApprovalSettings(wait=5.0)
    async with served(h, policy=PolicySettings(), approvals=limits) as life:
        async with sitting(h) as me:
            await me.until(IDLE)
            await me.say("call act boldly")
            asked = texts(await me.until(wire.Message))
            assert "May I use act?" in asked[-1]
        async with sitting(h) as me:
            question = (await me.until(wire.Message))[-1]
            while not (isinstance(question, wire.Message) and question.choices):
                question = (await me.until(wire.Message))[-1]
            assert question.code == ("name: boldly",)
            allow, *_, deny, details = question.choices
            assert (allow.text, allow.says[:7], deny.says[:6]) == (
                "Allow once",
                "/allow ",
                "/deny ",
            )
            await me.say(details.says)
            shown = (await me.until(wire.Message))[-1]
            assert isinstance(shown, wire.Message)
            assert "Arguments: {" in shown.text
            await me.say(allow.says)
            changed = (await me.until(wire.Changed))[-1]
            assert isinstance(changed, wire.Changed)
            assert (changed.id, changed.choices) == (question.id, ())
            assert "Allowed once at the console" in (changed.text or "")
            await life.until(lambda: h.effects.done == ["act boldly"])
        assert h.texts() == []


async def test_without_a_terminal_the_owner_is_asked_on_telegram(h: Home) -> None:
    async with served(h, policy=PolicySettings()) as life, sitting(h, "job", "once") as me:
        await me.until(IDLE)
        await me.say("call act boldly")
        await life.until(lambda: h.fake.sent)
        [question] = h.fake.sent
        await press(h, life, question, "o")
        came = await me.until(IDLE)
        assert texts(came)[-1].startswith("re: acted on boldly")
        # The chat where the owner decided gets the result, too.
        await life.until(lambda: h.texts()[-1] == "✓ Done: act name: boldly, in job.")


async def test_a_terminal_that_joins_shows_the_question_on_telegram(h: Home) -> None:
    async with served(h, policy=PolicySettings()) as life:
        h.fake.say("call act boldly")
        await life.until(lambda: h.fake.sent)
        async with sitting(h, "telegram") as me:
            view = ConversationView(me.session, lambda: "id")
            await me.until(wire.Running)
            for frame in me.frames:
                assert not isinstance(frame, wire.Detached)
                view.take(frame, 0.0)
            shown = "\n".join(
                "".join(p.text for p in line) for line in view.draw([], 80, 24, 20, 0.0)
            )
            assert "waiting for your answer about “act boldly”" in shown
            assert "thinking" not in shown


async def test_unread_answers_are_shown_to_the_next_terminal(h: Home) -> None:
    async with served(h) as life:
        async with sitting(h, "job") as me:
            me_said = wire.SaidHere(id="1", text="hello")
            await me.stream.send_all(wire.encode(me_said))
        await life.until(lambda: h.fold("job").turns)
        await life.until(lambda: h.fold("job").is_idle)
        [delivered] = [one for one in h.entries("job") if isinstance(one, Delivered)]
        assert delivered.why in (
            "",
            "no terminal is attached; to read it: elwood chat --session job",
        )
        async with sitting(h, "job") as me:
            assert texts(await me.until(wire.State)) == ["re: hello"]


async def test_a_refused_terminal_gets_the_reason(h: Home) -> None:
    async with served(h) as life:
        for words, why in [
            (("tg-77", "talk"), "not your own conversation. To read it: elwood watch tg-77"),
            (("tg--5", "talk"), "not your own conversation"),
            (("task-1", "talk"), "not your own conversation"),
            (("../x", "talk"), "There is no conversation ../x"),
            (("../x", "watch"), "There is no conversation ../x"),
            (("nobody", "watch"), "There is no conversation nobody"),
            (("console", "shout"), "There is no conversation console"),
            ((), "There is no conversation"),
        ]:
            answer, stream = await answered(h, *words)
            await stream.aclose()
            assert not answer.ok
            assert why in answer.text
        async with trio.open_nursery() as nursery:
            streams = [(await answered(h, "console", "talk"))[1] for _ in range(8)]
            await life.until(lambda: True)
            answer, stream = await answered(h, "console", "talk")
            assert "8 terminals are already attached" in answer.text
            for one in (*streams, stream):
                nursery.start_soon(one.aclose)


async def test_without_a_sandbox_terminals_are_refused(h: Home) -> None:
    """An allowed command could attach, read the code of the next question, and say yes."""
    async with served(h, sandbox=SandboxSettings(kind="direct")):
        for mode in ("talk", "watch", "once"):
            answer, stream = await answered(h, "console", mode)
            await stream.aclose()
            assert "Commands are not confined here" in answer.text


async def test_a_file_can_be_attached(h: Home) -> None:
    path = h.folder / "note.txt"
    path.write_text("milk and bread")
    async with served(h), sitting(h) as me:
        await me.until(IDLE)
        assert await me.say("sum up", files=(str(path),)) == ""
        await me.until(IDLE)
        assert "milk and bread" in str(h.asked[-1].messages)
        for odd in ("/dev/zero", str(h.folder), str(h.folder / "none"), "note.txt"):
            why = await me.say("and this", "x", files=(odd,))
            assert why.startswith(f"I cannot read {odd}: ")
            print(why)


async def test_a_terminal_that_does_not_read_is_disconnected(h: Home) -> None:
    async with served(h) as life, sitting(h) as slow, sitting(h) as me:
        outbox = life.core.channels.outboxes["console"]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(me.until, None)
            for _ in range(wire.MAX_WAITING + 100):
                sent = await outbox.ask(Post(route=ROUTE, part=Rich("x" * 4000)))
                assert isinstance(sent, Sent)
            nursery.cancel_scope.cancel()
        with pytest.raises(EOFError):
            await slow.until(None)
        assert slow.frames[-1] == wire.Detached(TOO_SLOW)


async def test_an_invalid_frame_ends_the_connection(h: Home) -> None:
    async with served(h):
        for odd, why in (
            (b"hello\n", "That is not a frame: JSON is malformed"),
            (b'{"type":"Took","id":"1"}\n', "That is not a frame: Invalid value"),
            (b"x" * (wire.MAX_FRAME + 65_536), "A frame has more than 1024 KiB"),
        ):
            async with sitting(h) as me:
                await me.until(IDLE)
                with suppress(trio.BrokenResourceError):
                    await me.stream.send_all(odd)
                detached = (await me.until(wire.Detached))[-1]
                assert isinstance(detached, wire.Detached)
                assert detached.why.startswith(why)
                with pytest.raises((EOFError, trio.BrokenResourceError)):
                    await me.next()
