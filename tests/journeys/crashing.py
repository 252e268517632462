"""Kills a house at a chosen step, starts it anew on what is left, and judges what came of it.

Steps are counted over everything that can be seen from outside: each write and sync of the disk
(before it, and after it), each request to the model, each effect of a tool, each message sent.
"""

import itertools
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import msgspec
import trio
import trio.testing

from elwood.agent.channels.messages import Post
from elwood.agent.conversation.inbound import NotNow, Taken
from elwood.agent.models.messages import Complete, Completed
from elwood.agent.session.log.entries import CallEnded, Delivered, Entry, Received, Replied
from elwood.foundation.storage.disk import Calls
from tests.agent.session.scripted import answer, call
from tests.journeys.disk import Kill
from tests.journeys.scene import World, house


class Steps:
    """Counts steps and kills at those whose numbers are in *at*; a killed process does no more."""

    def __init__(self, at: Sequence[int] = ()) -> None:
        self.at = list(at)
        self.count = 0
        self.names: list[str] = []
        self.is_dead = False

    def step(self, name: str) -> None:
        """Take one step."""
        if self.is_dead:
            raise Kill
        self.count += 1
        self.names.append(name)
        if self.at and self.count == self.at[0]:
            del self.at[0]
            self.is_dead = True
            raise Kill(name)


class CountedCalls(Calls):
    """The disk as the steps see it."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps

    def open(self, path: Path, flags: int) -> int:
        """Open, unless the process is dead."""
        if self._steps.is_dead:
            raise Kill
        return super().open(path, flags)

    def write(self, fd: int, data: bytes) -> int:
        """Write, with a step before and after."""
        self._steps.step("before write")
        written = super().write(fd, data)
        self._steps.step("after write")
        return written

    def sync(self, fd: int) -> None:
        """Sync, with a step after."""
        super().sync(fd)
        self._steps.step("after sync")

    def rename(self, old: Path, new: Path) -> None:
        """Rename, with a step before."""
        self._steps.step("before rename")
        super().rename(old, new)


class _Line(msgspec.Struct):
    entries: list[Entry]


Message = tuple[str, str]
STORY: tuple[Message, ...] = (("m1", "hello"), ("m2", "please act"), ("m3", "/status"))


async def obedient(request: Complete) -> Completed:
    """Look and act when asked to act; else say what was heard."""
    await trio.lowlevel.checkpoint()
    last = request.messages[-1]
    text = getattr(last, "text", "")
    if "please act" in text:
        calls = [("c1", "look", '{"name": "around"}'), ("c2", "act", '{"name": "boldly"}')]
        return call(*calls)
    if hasattr(last, "results"):
        return answer("I acted.")
    return answer("re: " + text.split("\n", 1)[-1])


class Trial:
    """One story, told to a house that is killed at *kills* steps."""

    def __init__(
        self,
        folder: Path,
        kills: Sequence[int] = (),
        story: Sequence[Message] = STORY,
        model: Callable[[Complete], Awaitable[Completed]] = obedient,
    ) -> None:
        folder.mkdir()
        self.steps = Steps(kills)
        self.story = story
        self.confirmed: set[str] = set()
        self.world = World(folder)
        self.world.calls = lambda: CountedCalls(self.steps)
        self.lives = 0

        async def asked(request: Complete) -> Completed:
            self.steps.step("before the model is asked")
            completed = await model(request)
            self.steps.step("after the model answered")
            return completed

        self.world.model = asked
        self.world.after_post = self._sent
        self.world.before_post = self._sending
        self.world.effects.before = lambda name: self.steps.step(f"before {name}")
        self.world.effects.after = lambda name: self.steps.step(f"after {name}")

    async def _sending(self, post: Post) -> None:
        self.steps.step("before a message is sent")

    async def _sent(self, post: Post) -> None:
        self.steps.step("after a message was sent")

    def run(self) -> "Trial":
        """Live as many lives as it takes."""
        self.lives = lived(self.steps, self._life)
        return self

    async def _life(self) -> None:
        async with house(self.world) as h:
            # What was not confirmed comes again, as Telegram does it.
            for id_, text in self.story:
                if id_ not in self.confirmed:
                    outcome = await h.say(text, id_=id_)
                    while isinstance(outcome, NotNow):
                        await trio.sleep(1)
                        outcome = await h.say(text, id_=id_)
                    assert outcome == Taken()
                    self.confirmed.add(id_)
                await h.quiet()
            await trio.testing.wait_all_tasks_blocked()
            await h.quiet()

    @property
    def entries(self) -> list[Entry]:
        """The session's log."""
        lines = (self.world.folder / "sessions/s.jsonl").read_bytes().splitlines()
        return [entry for line in lines for entry in msgspec.json.decode(line, type=_Line).entries]

    def broken(self) -> list[str]:
        """List the promises that were broken."""
        found = []
        entries, said = self.entries, self.world.said
        replies = [entry for entry in entries if isinstance(entry, Replied)]
        for id_, text in self.story:
            received = sum(isinstance(e, Received) and e.id == id_ for e in entries)
            outcomes = sum(id_ in reply.inputs for reply in replies)
            if (received, outcomes) != (1, 1):
                found.append(f"P1: {text!r} accepted {received} times, {outcomes} outcomes")
        for reply in replies:
            delivered = sum(isinstance(e, Delivered) and e.reply == reply.reply for e in entries)
            first = [line for line in said if line.startswith(reply.text[:20])]
            again = [line for line in said if line.startswith("(again) " + reply.text[:20])]
            if delivered != 1 or len(first) > 1 or not first + again:
                found.append(
                    f"P1: reply {reply.text!r}: delivered {delivered} times, seen {len(first)} "
                    f"times, marked {len(again)} times"
                )
        done = self.world.effects.done.count("act boldly")
        if done > 1:
            found.append(f"P2: acted {done} times")
        told = "\n".join(said)
        for entry in entries:
            if isinstance(entry, CallEnded) and entry.tool == "act":
                if entry.outcome == "unknown" and "? act boldly" not in told:
                    found.append("P3: an unknown effect was not told")
                if entry.outcome == "ok" and not done:
                    found.append("P4: success without an effect")
        return found


def lived(steps: Steps, life: Callable[[], Awaitable[None]]) -> int:
    """Run *life* anew after each kill until it comes to its end; return how many it took."""
    for number in itertools.count(1):
        steps.is_dead = False
        try:
            trio.run(life, clock=trio.testing.MockClock(autojump_threshold=0))
        except (Kill, BaseExceptionGroup) as death:
            if not only_kills(death):
                raise
        else:
            return number
    raise AssertionError


def only_kills(error: BaseException) -> bool:
    """Tell whether *error* is nothing but the end of the process."""
    if isinstance(error, BaseExceptionGroup):
        return all(only_kills(inner) for inner in error.exceptions)
    return isinstance(error, Kill | trio.Cancelled)
