"""A house with tasks that is killed at chosen steps, started anew each time, and judged in the end.

All of it is the real Elwood but for the kernel below: the disk counts steps and dies at them, and
Telegram is reached without sockets, so that hours pass in moments.  A step is each thing that a
kill can fall behind, and that is seen from outside: half a line on the disk, a whole one, a file
replaced, an answer of the model, an effect of a tool, a message sent.  What lies between two of
them is in the memory of the process, and dies with it.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import trio
import trio.testing

from elwood.agent.conversation.message import Completion
from elwood.agent.models.client import ModelRequest
from elwood.features.tasks import rules
from elwood.features.tasks.messages import Woken
from elwood.features.tasks.state import Timetable, TimetableEntry
from elwood.foundation.storage.journal import decoder, is_sound
from tests.fake_http import LOST, Reply, Request
from tests.fake_telegram import FakeTelegram, SentMessage
from tests.journeys.disk import BadDisk, Kill
from tests.journeys.home import EPOCH, Home, Life, short_folder
from tests.journeys.wires import Wires

# Virtual seconds between the end of a process and the next one, and between two looks whether
# all is quiet; after the last of them something hangs.
RESTART, LOOK, PATIENCE = 1.0, 0.5, 900.0
# Files that are about the process, and not about the work.
NOISE = {".health.json.tmp", "health.json", "reserve"}
# What a kill can fall behind; before it everything is as it was behind the last of these.
BEHIND = ("torn write", "after write", "after rename")
ZONE = "UTC"
Think = Callable[["Trial", ModelRequest], Completion]
Happen = Callable[["Trial"], Awaitable[None]]


def nothing(h: Home) -> None:
    """Prepare nothing."""


@attrs.frozen(kw_only=True)
class Story:
    """What is planned, what the model says, and what *happens* outside."""

    happen: Happen
    think: Think
    settings: Mapping[str, Any]
    prepare: Callable[[Home], None] = nothing


@attrs.define
class SteppedDisk(BadDisk):
    """A disk that says which step it takes, and loses nothing it was given."""

    step: Callable[[str], None] = lambda name: None

    def sync(self, fd: int) -> None:
        """Take no time."""
        if self.dead:
            raise Kill

    def _reach(self, when: str, tags: str, fd: int) -> None:
        super()._reach(when, tags, fd)
        file = self._names.get(fd, "")
        if when in BEHIND and not NOISE & {file, tags}:
            self.step(f"{when} {tags}")


class Trial:
    """Tells one story to a house that dies at the steps *kills*; steps are counted while *armed*.

    With *bug* only the actor that takes the step dies, of that.
    """

    def __init__(
        self, folder: Path, story: Story, *kills: int, bug: type[Exception] | None = None
    ) -> None:
        folder.mkdir()
        self.folder = folder
        self.story = story
        self.kills = list(kills)
        self.names: list[str] = []
        self.armed = False
        self.lives = 0
        self.jump = 0.0
        self.is_well = True
        self._bug = bug
        self.life: Life
        self._begun, self._over = trio.Event(), trio.Event()

    def run(self) -> "Trial":
        """Live as many lives as it takes."""
        clock = trio.testing.MockClock(autojump_threshold=0)
        trio.run(self._run, clock=clock)
        return self

    async def _run(self) -> None:
        with short_folder() as runtime:
            fake = FakeTelegram(clock=lambda: EPOCH + trio.current_time())
            fake.port = 80
            self.home = h = Home(self.folder, runtime, fake, disk=SteppedDisk(step=self._step))
            h.settings |= self.story.settings
            h.think = self._think
            h.effects.after = lambda name: self._step(f"after {name}")
            self.story.prepare(h)
            async with trio.open_nursery() as wires:
                h.network = Wires(wires, self._respond)
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._keep)
                    await self._begun.wait()
                    await self.story.happen(self)
                    await self.quiet()
                    self._over.set()
                wires.cancel_scope.cancel()
            self.ended_at = h.now()

    async def _keep(self) -> None:
        """Start Elwood whenever it has died, as systemd does."""
        while not self._over.is_set():
            async with self.home.life() as self.life:
                self.lives += 1
                self._begun.set()
                async with trio.open_nursery() as nursery:
                    for event in (self._over, self.life.over):
                        nursery.start_soon(_first, event, nursery.cancel_scope)
            if not self._over.is_set():
                assert self.life.was_killed, self.life.escalated
                await trio.sleep(RESTART)

    # --- steps -----------------------------------------------------------------------------------

    def _dies(self, name: str) -> bool:
        if not self.armed:
            return False
        self.names.append(name)
        if self.kills and len(self.names) == self.kills[0]:
            del self.kills[0]
            return True
        return False

    def _step(self, name: str) -> None:
        if self._dies(name):
            if self._bug is not None:
                raise self._bug(name)
            self.home.disk.die()

    async def _think(self, request: ModelRequest) -> Completion:
        await trio.lowlevel.checkpoint()
        completion = self.story.think(self, request)
        if self.jump:
            # The wall clock is set while the model thinks.
            self.home.clock_error -= self.jump
            self.jump = 0.0
        self._step("after the model answered")
        return completion

    async def _respond(self, asked: Request) -> Reply:
        answered = await self.home.fake.respond(asked)
        is_sent = asked.path.endswith("/sendMessage") and self._bug is None
        if is_sent and self._dies("after a message was sent"):
            self.life.kill()
            return LOST
        return answered

    # --- what happens outside --------------------------------------------------------------------

    async def until_time(self, at: float) -> None:
        """Let the wall clock be set to *at*, and wait until all that follows is done."""
        self.home.clock_error -= at - self.home.now()
        self.wake()
        await self.quiet()

    def wake(self) -> None:
        """Have the scheduler look at the clock now and not within a minute."""
        self.life.address("scheduler").offer(Woken())

    async def until(self, true: Callable[[], object], seconds: float = PATIENCE) -> None:
        """Wait until something holds."""
        with trio.fail_after(seconds):
            while True:
                if true():
                    return
                await trio.sleep(LOOK)

    async def quiet(self) -> None:
        """Wait until Elwood lives and nothing is left to do."""
        await trio.sleep(LOOK)
        await self.until(lambda: not self.life.over.is_set() and not self.left())

    def left(self) -> list[str]:
        """Say what is left to do now."""
        h, table = self.home, self.table()
        agenda = rules.agenda(table, h.now())
        return [
            *(f"{session} is busy" for session in h.sessions if not h.fold(session).is_idle),
            *(f"to do: {run}" for run in agenda.runs),
            *(f"passed: {entry}" for entry in rules.missed_runs(table, h.now(), ZONE)),
            *(["something to tell"] if agenda.tell else []),
            *(["unconfirmed"] if h.fake.unconfirmed else []),
            *(["nothing has begun"] if not table.tasks else []),
        ]

    def log(self) -> list[tuple[int, float, TimetableEntry]]:
        """Read schedule.jsonl, but for a torn end: number, time, entry."""
        path = self.home.state / "schedule.jsonl"
        raw = path.read_bytes().splitlines(keepends=True) if path.exists() else []
        lines = [decoder(TimetableEntry).decode(line) for line in raw if is_sound(line)]
        return [
            (line.seq + n, line.at, entry) for line in lines for n, entry in enumerate(line.entries)
        ]

    def table(self) -> Timetable:
        """What it adds up to."""
        table = Timetable()
        for seq, at, entry in self.log():
            table.apply(seq, at, entry)
        return table

    def button(self, words: str) -> tuple[str, SentMessage] | None:
        """Find the newest button that shows *words*: its data, and the message."""
        for message in reversed(self.home.fake.sent):
            markup = message.params.get("reply_markup") or {"inline_keyboard": []}
            for key in (key for row in markup["inline_keyboard"] for key in row):
                if words in key["text"]:
                    return key["callback_data"], message
        return None

    async def press(self, words: str) -> None:
        """Wait for a button that shows *words*, and press it once."""
        await self.until(partial(self.button, words))
        found = self.button(words)
        assert found is not None
        data, message = found
        self.home.fake.press(data, message=message)


async def _first(event: trio.Event, scope: trio.CancelScope) -> None:
    await event.wait()
    scope.cancel()


def sample(total: int, every: int, offset: int) -> Sequence[int]:
    """Choose every *every*-th of *total* steps."""
    return range(1 + offset % every, total + 1, every)
