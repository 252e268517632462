"""A house whose tools ask, and an owner who answers as the target of each call says.

The real approvals actor runs here beside a session, on one disk that dies as in `crashing`.  The
first word of a target says how the owner answers (`MANNERS`), so a story reads like a script:
``call act soon a, act late b``.
"""

import os
from collections.abc import Callable, Sequence
from itertools import takewhile
from pathlib import Path
from typing import TypeVar

import msgspec
import trio
import trio.testing

from elwood.agent.approvals.actor import Approvals
from elwood.agent.approvals.messages import ButtonPressed, Decided
from elwood.agent.approvals.prompt_text import button_pressed
from elwood.agent.approvals.settings import ApprovalSettings
from elwood.agent.approvals.state import ApprovalBook, ApprovalEntry
from elwood.agent.channels.messages import Post
from elwood.agent.conversation.calls import OwnerAnswer
from elwood.agent.conversation.inbound import Taken
from elwood.agent.conversation.message import Assistant, Human, Message, Notice, Results
from elwood.agent.conversation.message import texts as texts_of
from elwood.agent.models.messages import Complete, Completed
from elwood.agent.session.log.entries import Entry
from elwood.agent.session.log.state import Nothing, Session, next_work
from elwood.agent.session.log.turns import UNANSWERED, call_key
from elwood.agent.tools.tool import Output, Tool, ToolContext
from elwood.foundation.environment import Environment
from elwood.foundation.runtime import Blocking, Child, inline
from elwood.foundation.storage.disk import Disk
from elwood.foundation.storage.journal import Journal, JournalLine, decoder, is_sound
from tests.agent.session.scripted import Effects, Named, answer, call
from tests.journeys.approved import unapproved
from tests.journeys.crashing import CountedCalls, Steps, lived
from tests.journeys.disk import Kill, tags_of
from tests.journeys.scene import ALWAYS, ME, ROUTE, House, World, living

# Seconds: within the time that a turn waits, and long after it.
SOON, LATE = 5.0, 100.0
# How the owner answers, and after how many seconds; not at all, or only in the next life.
MANNERS: dict[str, tuple[OwnerAnswer, float]] = {
    "soon": ("once", SOON),
    "late": ("once", LATE),
    "brink": ("once", 59.0),
    "edge": ("once", 60.5),
    "no": ("denied", SOON),
    "tooLate": ("denied", LATE),
    "always": ("always", SOON),
    "here": ("conversation", SOON),
    "trust": ("source", SOON),
    "next": ("once", SOON),
}
# In place of a message: an orderly stop and a start, and a wait of some seconds.  A message behind
# a "!", and a command, does not wait until everything before has settled.
RESTART, PAUSE = "restart", "pause "
# Virtual seconds within which everything that is owed must have come to its end.
PATIENCE = 900.0
# Virtual seconds between two looks whether they have.
LOOK = 8.0
SESSION = "s"
DELIVERY = {"posting", "posted", "delivered"}
OF_SESSION, OF_APPROVALS = decoder(Entry), decoder(ApprovalEntry)
E = TypeVar("E")
T = TypeVar("T")


class Reading(Effects):
    """Has a tool that brings strangers' words, too."""

    def tools(self) -> Sequence[Tool]:
        """All of them."""

        async def browse(given: Named, context: ToolContext) -> Output:
            await trio.sleep(1)
            return Output(f"saw {given.name}", untrusted=True, origin=given.name)

        name = "browse"
        return (*super().tools(), Tool(name, "See.", Named, browse, risk="read", effect="pure"))


async def obedient(request: Complete) -> Completed:
    """Call the tools named after "call", then say what they gave; repeat anything else."""
    await trio.lowlevel.checkpoint()
    span = list(takewhile(lambda message: not _is_end(message), reversed(request.messages)))[::-1]
    texts = [
        text.split("\n", 1)[-1] if isinstance(message, Human) else text
        for message in span
        if not isinstance(message, Assistant)
        for text in texts_of(message)
    ]
    wanted = [text.removeprefix("call ") for text in texts if text.startswith("call ")]
    if wanted and not any(isinstance(message, Results) for message in span):
        calls = enumerate(wanted[-1].split(", "))
        return call(*(_call(number, *name.split(" ", 1)) for number, name in calls))
    return answer("re: " + " | ".join(texts))


def _is_end(message: Message) -> bool:
    if isinstance(message, Notice):
        return message.text.startswith(UNANSWERED[:40])
    return isinstance(message, Assistant) and not message.calls


def _call(number: int, tool: str, target: str) -> tuple[str, str, str]:
    return f"c{number}", tool, msgspec.json.encode(Named(target)).decode()


class Quick(CountedCalls):
    """Leaves out what a kill does not show, and deliveries: `test_crash_points` has those."""

    def write(self, fd: int, data: bytes) -> int:
        """Write, with a step before and after."""
        tags = tags_of(data)
        if DELIVERY.issuperset(tags.split("+")):
            if self._steps.is_dead:
                raise Kill
            return os.write(fd, data)
        self._steps.step(f"before write {tags}")
        written = os.write(fd, data)
        self._steps.step(f"after write {tags}")
        return written

    def sync(self, fd: int) -> None:
        """Do nothing."""


class AskingHouse(House):
    """A house with real approvals."""

    def __init__(self, world: World, settings: ApprovalSettings) -> None:
        super().__init__(world)
        # A disk of its own, so that `slow` slows the session only.
        disk = Disk(blocking=inline, clock=world.now, calls=world.calls())
        journal = Journal[ApprovalEntry, ApprovalBook](
            world.folder / "approvals.jsonl", ApprovalEntry, ApprovalBook, disk
        )
        number = world.numbers
        self._approvals = Approvals(
            journal,
            {"chat": self.outbox.address},
            Environment(
                now=world.now,
                new_id=lambda: f"id{next(number)}",
                new_code=lambda length: f"C{next(number):0{length - 1}}",
            ),
            owners=frozenset({ME.id}),
            owner_routes=[ROUTE],
            hint=lambda decided: self.sessions.address.offer(Decided(decided.session)),
            redact=str,
            settings=settings,
        )

    def children(self) -> Sequence[Child]:
        """All actors, the lowest first."""
        outbox, models, _, sessions = super().children()
        return outbox, models, Child(self.approver.mailbox, self._approvals.run, ALWAYS), sessions


class Owner:
    """Sees the questions, and presses buttons; outlives Elwood as people do.

    *owed* are presses that nobody has confirmed: Telegram brings them again.
    """

    def __init__(self) -> None:
        self.seen: dict[str, str] = {}
        self.owed: dict[str, None] = {}
        self.answered: set[str] = set()
        self.lives = 0
        self.busy = 0

    def begin(self, house: House, nursery: trio.Nursery) -> None:
        """Live beside *house*."""
        self.lives += 1
        self.busy = 0
        self._house, self._nursery, self._waiting = house, nursery, set[str]()
        for data in self.owed:
            self._nursery.start_soon(self._press, data)

    def read(self, post: Post) -> None:
        """See what was posted."""
        for button in post.buttons:
            found = button_pressed(button.data)
            assert found is not None
            _, id, answer = found
            self.seen.setdefault(id, post.part.text)
            manner = self._manner(post.part.text)
            if manner is None or id in self._waiting or id in self.answered:
                continue
            if manner[0] == answer and button.data not in self.owed:
                self._waiting.add(id)
                self._nursery.start_soon(self._later, button.data, manner[1])

    def _manner(self, text: str) -> tuple[OwnerAnswer, float] | None:
        found = [word for word in MANNERS if f'"name":"{word} ' in text]
        if not found or (found[0] == "next" and self.lives == 1):
            return None
        return MANNERS[found[0]]

    async def _later(self, data: str, seconds: float) -> None:
        self.busy += 1
        await trio.sleep(seconds)
        self.owed[data] = None
        await self._press(data)
        self.busy -= 1

    async def _press(self, data: str) -> None:
        self.busy += 1
        await self._house.approver.mailbox.address.insist(
            lambda: ButtonPressed(principal=ME.id, data=data, route=ROUTE)
        )
        found = button_pressed(data)
        assert found is not None
        self.answered.add(found[1])
        self.owed.pop(data, None)
        self.busy -= 1


class AskingTrial:
    """One story, told to a house that is killed at *kills* steps."""

    def __init__(
        self,
        folder: Path,
        story: Sequence[str],
        kills: Sequence[int] = (),
        settings: ApprovalSettings | None = None,
        slow: float = 0.0,
    ) -> None:
        folder.mkdir()
        self.steps = Steps(kills)
        self.story = [(f"m{n}", text) for n, text in enumerate(story)]
        self.settings = settings or ApprovalSettings()
        self.confirmed: set[str] = set()
        self.owner = Owner()
        self.lives = 0
        self.began = 0.0
        self.found: list[str] = []
        world = self.world = World(folder)
        world.effects = Reading()
        world.free = ()
        world.calls = lambda: Quick(self.steps)
        world.now = lambda: 1_000_000.0 + self.began + trio.current_time()
        world.model = self._think
        if slow:
            world.blocking = _slowly(slow)
        world.before_post = self._sending
        world.after_post = self._sent
        world.effects.before = self._before
        world.effects.after = lambda name: self.steps.step(f"after {name}")

    def run(self) -> "AskingTrial":
        """Live as many lives as it takes."""
        while True:
            self.lives += lived(self.steps, self._life)
            if all(id_ in self.confirmed for id_, _ in self.story):
                return self

    # --- one life --------------------------------------------------------------------------------

    async def _life(self) -> None:
        try:
            async with (
                living(AskingHouse(self.world, self.settings)) as house,
                trio.open_nursery() as nursery,
            ):
                self.owner.begin(house, nursery)
                await trio.sleep(1)  # what is left of the last life has been taken up
                await self._tell(house)
                await self._settled(house)
                nursery.cancel_scope.cancel()
        finally:
            self.began += trio.current_time()

    async def _tell(self, house: AskingHouse) -> None:
        for id_, text in self.story:
            if id_ in self.confirmed:
                continue
            if text == RESTART:
                await self._settled(house)
                self.confirmed.add(id_)
                return
            if text.startswith(PAUSE):
                await trio.sleep(float(text.removeprefix(PAUSE)))
                self.confirmed.add(id_)
                continue
            if not text.startswith(("/", "!")):  # these do not wait for an end
                await self._settled(house)
            text = text.removeprefix("!")
            assert await house.say(text, id_=id_) == Taken()
            self.confirmed.add(id_)

    async def _settled(self, house: House) -> None:
        """Wait until nobody owes anybody anything, and both journals agree on what waits."""
        until = trio.current_time() + PATIENCE
        while not self._is_settled(house):
            if trio.current_time() > until:
                here, there = self.waiting(), self.asked()
                self.found.append(f"never settled: session {here}, approvals {there}")
                return
            await trio.sleep(LOOK)

    def _is_settled(self, house: House) -> bool:
        is_up = (
            SESSION in house.states or not (self.world.folder / "sessions/open" / SESSION).exists()
        )
        idle = is_up and all(
            state.is_idle and isinstance(next_work(state), Nothing)
            for state in house.states.values()
        )
        return idle and not self.owner.busy and self.waiting() == self.asked()

    async def _think(self, request: Complete) -> Completed:
        self.steps.step("before the model is asked")
        completed = await obedient(request)
        self.steps.step("after the model answered")
        return completed

    async def _sending(self, post: Post) -> None:
        self.steps.step("before a message is sent")

    async def _sent(self, post: Post) -> None:
        self.owner.read(post)
        self.steps.step("after a message was sent")

    def _before(self, name: str) -> None:
        """Look, in the moment of an effect, for what must stand on the disk by then."""
        self.found += unapproved(self.entries, self.book())
        self.steps.step(f"before {name}")

    # --- what the disk says ----------------------------------------------------------------------

    @property
    def entries(self) -> list[Entry]:
        """The session's log, but for a torn end."""
        return [
            entry for _, entry in _read(self.world.folder / f"sessions/{SESSION}.jsonl", OF_SESSION)
        ]

    @property
    def rulings(self) -> list[ApprovalEntry]:
        """The log of approvals."""
        return [entry for _, entry in _read(self.world.folder / "approvals.jsonl", OF_APPROVALS)]

    def book(self) -> ApprovalBook:
        """What the log of approvals adds up to."""
        book = ApprovalBook()
        lines = _read(self.world.folder / "approvals.jsonl", OF_APPROVALS)
        for seq, (at, entry) in enumerate(lines, 1):
            book.apply(seq, at, entry)
        return book

    def waiting(self) -> set[str]:
        """Name the calls whose decision the session does not know."""
        state = Session()
        for seq, entry in enumerate(self.entries, 1):
            state.apply(seq, 0.0, entry)
        kept = {key for key, one in state.pending.items() if one.decided is None}
        calls = state.turn.calls.values() if state.turn is not None else ()
        open_ = {
            call_key(one.pending.turn, one.pending.call)
            for one in calls
            if one.pending is not None and one.decided is None and one.ended is None
        }
        return kept | open_

    def asked(self) -> set[str]:
        """Name the calls whose question is open."""
        return {case.question.call for case in self.book().calls.open()}


def _slowly(seconds: float) -> Blocking:
    """Make a disk that takes its time."""

    async def blocking(fn: Callable[[], T], /) -> T:
        await trio.sleep(seconds)
        return fn()

    return blocking


def _read(path: Path, lines: "msgspec.json.Decoder[JournalLine[E]]") -> list[tuple[float, E]]:
    raw = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    sound = (lines.decode(line) for line in raw if is_sound(line))
    return [(line.at, entry) for line in sound for entry in line.entries]
