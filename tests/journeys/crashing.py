"""Run the real Elwood through a story, kill it at chosen steps, and restart it each time.

Everything is real except the kernel below: the disk counts steps and dies at them, and Telegram is
reached without sockets, so hours pass in moments. A step is anything visible from outside after
which a kill can happen: half a line on the disk, a whole line, a replaced file, an answer of the
model, an effect of a tool, a sent message. Anything between two steps is only in memory and is lost
with the process.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import trio
import trio.testing

from elwood.agent.approvals.prompt_text import button_pressed
from elwood.agent.conversation.calls import OwnerAnswer
from elwood.agent.conversation.message import Completion
from elwood.agent.models.client import ModelRequest
from elwood.agent.session.log.state import next_work
from elwood.features.tasks import rules
from elwood.features.tasks.messages import TimetableChanged
from elwood.features.tasks.rules import DueRun
from elwood.features.tasks.state import Timetable, TimetableEntry
from elwood.features.tasks.store import fingerprint
from elwood.foundation.storage.files import Root
from tests.agent.session.known import MOVING
from tests.fake_http import LOST, Reply, Request
from tests.fake_telegram import FakeTelegram, SentMessage
from tests.journeys.disk import BadDisk, Kill
from tests.journeys.home import EPOCH, Home, Life, Wires, short_folder
from tests.journeys.judging import approvals, read, undecided_calls

# Virtual seconds between the end of a process and the next one, and between two checks for
# idleness; after the last of them something hangs.
RESTART, LOOK, PATIENCE = 1.0, 0.5, 900.0
# Files about the process, not about the work.
NOISE = {".health.json.tmp", "health.json", "reserve"}
# Events after which a kill can happen.
BEHIND = ("torn write", "after write", "after rename")
ZONE = "UTC"
# The owner's answer to a question, by the first word of the call's target, and its delay in
# seconds. With another word there is no automatic answer; "next" means the next process.
MANNERS: dict[str, tuple[OwnerAnswer, float]] = {
    "soon": ("once", 5.0),
    "late": ("once", 100.0),
    "brink": ("once", 55.0),
    "edge": ("once", 60.5),
    "no": ("denied", 5.0),
    "tooLate": ("denied", 100.0),
    "always": ("always", 5.0),
    "here": ("conversation", 5.0),
    "trust": ("source", 5.0),
    "next": ("once", 5.0),
}


@attrs.define
class SteppedDisk(BadDisk):
    """A disk that counts steps, dies at *deaths*, and loses nothing.

    With *bug* only the actor that takes the step crashes, with that exception.
    """

    deaths: list[int] = attrs.field(factory=list)
    names: list[str] = attrs.field(factory=list)
    armed: bool = True
    bug: type[Exception] | None = None

    def step(self, name: str) -> None:
        """Take one step."""
        if self.dead:
            raise Kill
        if self.count_step(name):
            if self.bug is not None:
                raise self.bug(name)
            self.die()

    def count_step(self, name: str) -> bool:
        """Count a step; return True if it kills the process or actor."""
        if self.armed:
            self.names.append(name)
            if self.deaths and len(self.names) == self.deaths[0]:
                del self.deaths[0]
                return True
        return False

    def sync(self, fd: int) -> None:
        """Return immediately."""
        if self.dead:
            raise Kill

    def _reach(self, when: str, tags: str, fd: int) -> None:
        super()._reach(when, tags, fd)
        if when in BEHIND and not NOISE & {self._names.get(fd, ""), tags}:
            self.step(f"{when} {tags}")


def prepare_nothing(h: Home) -> None:
    """Prepare nothing."""


@attrs.frozen(kw_only=True)
class Story:
    """Outside events (*happens*), the model (*thinks*), and the setup of Elwood."""

    happen: Callable[["Trial"], Awaitable[None]]
    think: Callable[["Trial", ModelRequest], Completion]
    settings: Mapping[str, Any] = attrs.field(factory=dict)
    prepare: Callable[[Home], None] = prepare_nothing


class Trial:
    """Run a story with an Elwood that dies at the steps *kills*, counted while *armed*.

    With *bug* only the actor that takes the step crashes, with that exception.
    """

    def __init__(
        self, folder: Path, story: Story, *kills: int, bug: type[Exception] | None = None
    ) -> None:
        folder.mkdir()
        self.folder = folder
        self.story = story
        self.disk = SteppedDisk(deaths=list(kills), armed=False, bug=bug)
        self.lives = 0
        self.jump = 0.0
        self.is_well = True
        # Buttons of questions that were shown without the repeat mark.
        self.prompts: Counter[str] = Counter()
        self._answering: set[str] = set()
        self._unread: list[SentMessage] = []
        self.life: Life
        self._begun, self._over = trio.Event(), trio.Event()

    @property
    def names(self) -> list[str]:
        """Return the steps taken."""
        return self.disk.names

    def run(self) -> "Trial":
        """Run processes until the story ends."""
        clock = trio.testing.MockClock(autojump_threshold=0)
        trio.run(self._run, clock=clock)
        return self

    async def _run(self) -> None:
        with short_folder() as runtime:
            fake = FakeTelegram(clock=lambda: EPOCH + trio.current_time())
            async with trio.open_nursery() as outside:
                self._outside = outside
                network = Wires(outside, {fake.port: self._respond})
                self.home = h = Home(self.folder, runtime, fake, network, disk=self.disk)
                h.settings |= self.story.settings
                h.think = self._think
                h.effects.after = lambda name: self.disk.step(f"after {name}")
                self.story.prepare(h)
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._keep)
                    await self._begun.wait()
                    await self.story.happen(self)
                    await self.wait_until_idle()
                    self._over.set()
                assert not fake.violations, fake.violations
                outside.cancel_scope.cancel()
            self.ended_at = h.now()

    async def _keep(self) -> None:
        """Restart Elwood whenever it has ended, as systemd does."""
        while not self._over.is_set():
            async with self.home.life() as self.life:
                self.lives += 1
                if self.lives > 1:
                    for message in self._unread:
                        self._decide(message)
                    self._unread.clear()
                self._begun.set()
                async with trio.open_nursery() as nursery:
                    for event in (self._over, self.life.over):
                        nursery.start_soon(_first, event, nursery.cancel_scope)
            if not self._over.is_set():
                assert self.life.escalated is None, self.life.escalated
                await trio.sleep(RESTART)

    async def _think(self, request: ModelRequest) -> Completion:
        await trio.lowlevel.checkpoint()
        completion = self.story.think(self, request)
        if self.jump:
            # The wall clock is set while the model thinks.
            self.home.clock_error -= self.jump
            self.jump = 0.0
        self.disk.step("after the model answered")
        return completion

    async def _respond(self, asked: Request) -> Reply:
        answered = await self.home.fake.respond(asked)
        if asked.path.endswith("/sendMessage"):
            self._read(self.home.fake.sent[-1])
            if self.disk.bug is None and self.disk.count_step("after a message was sent"):
                self.life.kill()
                return LOST
        return answered

    # --- the owner -------------------------------------------------------------------------------

    def _read(self, message: SentMessage) -> None:
        """Answer a new question as its call's target says."""
        again = message.text.startswith("(again)")
        for data in message.buttons:
            if button_pressed(data) is not None:
                self.prompts[data] += not again
        if "name: next " in message.text and self.lives == 1:
            self._unread.append(message)
        else:
            self._decide(message)

    def _decide(self, message: SentMessage) -> None:
        for data in message.buttons:
            found = button_pressed(data)
            manner = next((m for m in MANNERS if f"name: {m} " in message.text), "")
            if found is None or not manner:
                continue
            answer, seconds = MANNERS[manner]
            if found[1] == answer and found[0] not in self._answering:
                self._answering.add(found[0])
                self._outside.start_soon(self._answer, found[0], data, message, seconds)

    async def _answer(self, id_: str, data: str, message: SentMessage, seconds: float) -> None:
        await trio.sleep(seconds)
        self.home.fake.press(data, message=message)
        self._answering.remove(id_)

    async def press(self, words: str) -> None:
        """Wait for a button that shows *words*, and press it once."""
        await self.until(partial(self.home.fake.button, words))
        found = self.home.fake.button(words)
        assert found is not None
        data, message = found
        self.home.fake.press(data, message=message)

    # --- what happens outside --------------------------------------------------------------------

    async def restart(self) -> None:
        """Stop Elwood in order; it is restarted."""
        self.life.core.stop.set()
        await self.life.over.wait()
        await trio.sleep(2 * RESTART)

    async def until_time(self, at: float) -> None:
        """Set the wall clock to *at*, and wait until all due work is done."""
        self.home.clock_error -= at - self.home.now()
        self.wake()
        await self.wait_until_idle()

    def wake(self) -> None:
        """Make the scheduler check the clock now instead of within a minute."""
        self.life.address("scheduler").offer(TimetableChanged())

    async def until(self, true: Callable[[], object], seconds: float = PATIENCE) -> None:
        """Wait until the condition holds."""
        with trio.fail_after(seconds):
            while True:
                if true():
                    return
                await trio.sleep(LOOK)

    async def wait_until_idle(self) -> None:
        """Wait until Elwood runs and has no work left."""
        await trio.sleep(LOOK)
        await self.until(lambda: not self.disk.dead and not self.open_work())

    def open_work(self) -> list[str]:
        """Return the work left now."""
        h, table = self.home, self.table()
        agenda = rules.agenda(table, h.now())
        states = {session: h.fold(session) for session in h.sessions}
        asked, waiting = undecided_calls(approvals(h.state)[1], states)
        return [
            *(
                f"{session} is busy"
                for session, state in states.items()
                if not state.is_idle or next_work(state, MOVING) is not None
            ),
            *(f"to do: {run}" for run in agenda.runs if run.begun or not self._unchanged(run)),
            *(f"passed: {entry}" for entry in rules.close_missed(table, h.now(), ZONE)),
            *(["something to tell"] if agenda.tell else []),
            *(["unconfirmed"] if h.fake.unconfirmed else []),
            *(["nothing has begun"] if not self._has_begun(table) else []),
            *(["the owner will press"] if self._answering else []),
            *([f"asked {asked}, waiting {waiting}"] if asked != waiting else []),
        ]

    def _unchanged(self, run: DueRun) -> bool:
        """Return True if a watching run would find no change."""
        watch, root = run.task.watch, Root(self.home.folder / "workspace")
        return watch is not None and run.seen == fingerprint(root, watch, run.task.prompt)

    def _has_begun(self, table: Timetable) -> bool:
        """Return True if Elwood accepts messages and has loaded the planned tasks."""
        checklist = self.home.folder / "workspace" / "HEARTBEAT.md"
        plans = self.story.settings["tasks"].tasks or checklist.exists()
        return self.life.core.up.is_set() and bool(table.tasks or not plans)

    def log(self) -> list[tuple[int, float, TimetableEntry]]:
        """Read schedule.jsonl without a torn end: number, time, entry."""
        return read(self.home.state / "schedule.jsonl", TimetableEntry)

    def table(self) -> Timetable:
        """Return the folded timetable."""
        table = Timetable()
        for seq, at, entry in self.log():
            table.apply(seq, at, entry)
        return table


async def _first(event: trio.Event, scope: trio.CancelScope) -> None:
    await event.wait()
    scope.cancel()
