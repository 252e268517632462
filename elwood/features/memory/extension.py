"""The memory's part in a conversation: notes that go along with a message, and the observer.

The observer learns from a conversation that has gone quiet, by a call of the cheap model.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, tzinfo
from functools import partial
from pathlib import Path

import attrs
import trio

from elwood.agent.channels.messages import Button, OutboxMail, Post
from elwood.agent.conversation.inbound import typing
from elwood.agent.conversation.labels import Label
from elwood.agent.conversation.message import Completion, Human, without_days
from elwood.agent.conversation.route import Route
from elwood.agent.conversation.task_run import SESSION
from elwood.agent.models.messages import Complete, ModelsMail
from elwood.agent.session.log.branch import fresh, private_texts
from elwood.agent.session.log.entries import Node, Observed, Reminded
from elwood.agent.session.log.session_log import SessionLog
from elwood.agent.session.log.state import is_command, state_at
from elwood.agent.session.settings import LearningSettings
from elwood.features.memory.learning import LearningQuestion, Observation, corrects
from elwood.features.memory.messages import Learn, ListKnown, MemoryMail, Suggest, Unlearned
from elwood.features.memory.note import Note
from elwood.features.memory.observe import AGAIN, PROMPT, FactSource, Unreadable, read, request
from elwood.features.memory.ranking import offered, relevant
from elwood.foundation.runtime import ActorUnavailable, Address, clear_error, report_error
from elwood.foundation.storage.disk import Disk, DiskFull
from elwood.foundation.storage.journal import JournalDamaged
from elwood.foundation.text.markdown import Rich

log = logging.getLogger("elwood.observer")

# Seconds that a turn waits for notes that may help: an answer must not be late for them.
SUGGEST_WAIT = 0.5
# Only the cheap model, and nothing in its place.
ROLE = "observer"
# Seconds for one call: a cheap model needs a few.  Before its end, who makes it says why it failed.
LIMIT, TO_SAY_WHY = 60.0, 5.0
# Tokens of the answer: ten facts, and room for models that think first.
MAX_TOKENS = 2_000
# Calls of one pass: what cannot be read is asked for once more.
CALLS = 2
# Seconds for a question to be sent; one that is lost waits under /memory pending.
POST_LIMIT = 60.0
# Bytes of the file of a quota that are read: a date and a number.
_MAX_FILE = 64
_COUNTING = "counting what may be done in a day"


class NoteReminder:
    """Chooses notes, of up to *offered* tokens, that go along with the open turn of *log_*.

    *redact* takes secrets out of a text.
    """

    def __init__(
        self,
        log_: SessionLog,
        memory: Address[MemoryMail],
        offered: int,
        redact: Callable[[str], str],
    ) -> None:
        self._log = log_
        self._memory = memory
        self._offered = offered
        self._redact = redact

    async def remind(self) -> Reminded | None:
        """Choose notes that may help in the turn that has begun; None if there are none.

        Only the owner's own words, in a private chat that has read none of strangers, bring notes
        along: they hold private data, and nobody asked for them.  What is in view is not offered
        again.
        """
        session, turn = self._log.state, self._log.state.turn
        if not self._offered or turn is None or not turn.inputs:
            return None
        if turn.errand is not None:
            return None  # it can look them up
        strange = session.taint.label.untrusted or any(one.untrusted for one in turn.inputs)
        if strange or not turn.route.private or turn.attempts > 1:
            return None
        message = "\n".join(one.text for one in turn.inputs if not is_command(one))
        notes: tuple[Note, ...] = ()
        with trio.move_on_after(SUGGEST_WAIT):
            try:
                notes = await self._memory.ask(Suggest(message=message))
            except ActorUnavailable:
                return None
        if not notes:
            return None
        seen = "\n".join(private_texts(session.path, (), summed_up=False))
        chosen = relevant([n for n in notes if n.text not in seen], message, self._offered)
        if not chosen:
            return None
        private = any(note.label.private for note in chosen)
        return Reminded(turn.id, self._redact(offered(chosen)), Label(private=private))


class DailyQuota:
    """At most *limit* times a day, in all; the file *path* says how often it was.  Make one.

    It is counted on the disk, so that no restart begins anew.  What cannot be counted may not be
    done.
    """

    def __init__(self, path: Path, disk: Disk, limit: int) -> None:
        self._path = path
        self._disk = disk
        self._limit = limit
        self._taking = trio.Lock()

    async def take(self, day: str) -> bool:
        """Count one more on *day* (ISO date) before it is done; False if it may not be."""
        async with self._taking:
            try:
                taken = await self._disk.blocking(lambda: self._take(day))
            except DiskFull as error:
                report_error(_COUNTING, str(error))
                return False
            clear_error(_COUNTING)
            return taken

    def _take(self, day: str) -> bool:
        try:
            with self._path.open("rb") as file:
                last, _, count = file.read(_MAX_FILE).decode("ascii", "replace").partition(" ")
        except FileNotFoundError:
            last, count = day, "0"
        done = int(count) if last == day and count.isascii() and count.isdigit() else 0
        if done >= self._limit:
            return False
        self._disk.make_folder(self._path.parent)
        self._disk.replace(self._path, f"{day} {done + 1}".encode())
        return True


@attrs.frozen
class OwnerQuestions:
    """Asks the owner at the first of *routes*, as they are then, if there are any."""

    outboxes: Mapping[str, Address[OutboxMail]]
    routes: Callable[[], Sequence[Route]]

    async def ask(self, question: LearningQuestion) -> None:
        """Send *question*; one that is lost waits under /memory pending."""
        route = next(iter(self.routes()), None)
        if route is None or route.channel not in self.outboxes:
            return
        buttons = tuple(Button(text, typing(n)) for n, text in enumerate(question.answers))
        post = Post(route=route, part=Rich(question.text), buttons=buttons)
        try:
            with trio.move_on_after(POST_LIMIT):
                await self.outboxes[route.channel].ask(post)
        except ActorUnavailable as error:
            log.info("question not sent", extra={"why": str(error)})


@attrs.frozen(kw_only=True)
class Learning:
    """What observers share: make one for Elwood.

    *redact* takes secrets out of a text; *now* is Unix time, *zone* that of the days of *quota*.
    """

    settings: LearningSettings
    memory: Address[MemoryMail]
    models: Address[ModelsMail]
    quota: DailyQuota
    questions: OwnerQuestions
    redact: Callable[[str], str]
    now: Callable[[], float]
    zone: tzinfo


class Observer:
    """Observes one session, when nobody has said anything for a while.

    One pass looks at one stretch: first those that were put away before it was quiet, each with
    the label its line had then, at last the present one.  Any entry of the log breaks a call off;
    it is made when all is quiet again.  What was looked at is recorded after what was learned, so a
    crash repeats one pass at most.  A pass that fails is not tried again before something new is
    said, or the next start.  *idle* is after how many seconds a session leaves the memory.
    """

    def __init__(self, id_: str, log_: SessionLog, learning: Learning, idle: float) -> None:
        self._id = id_
        self._log = log_
        self._learning = learning
        # Or the session would have left the memory before.
        self._quiet = min(learning.settings.quiet, idle / 2)
        # Runs of tasks are not looked at.
        self._is_on = learning.settings.mode != "off" and not id_.startswith(SESSION)
        # How many turns there were when a pass failed.
        self._tried = -1

    @property
    def is_behind(self) -> bool:
        """Whether something was said that has not been looked at, here or on a line put away."""
        unobserved = self._log.state.unobserved
        path = self._log.state.path
        return self._is_on and bool(unobserved.owed or fresh(path, unobserved.after))

    @property
    def _is_due(self) -> bool:
        state = self._log.state
        return state.is_idle and self.is_behind and state.turns > self._tried

    async def run(self) -> None:
        """Observe for as long as the session lives."""
        while self._is_on:
            if not self._is_due:
                await self._log.wait_change()
                continue
            with trio.move_on_after(self._quiet):
                await self._log.wait_change()
                continue
            while self._is_due and await self._observe():
                pass

    async def _observe(self) -> bool:
        """Look at one stretch; False if that was broken off, or failed."""
        turns = self._log.state.turns
        try:
            upto = await self._look()
        except (ActorUnavailable, DiskFull, JournalDamaged) as error:
            upto = Unlearned(str(error))
        if isinstance(upto, Unlearned):
            self._tried = turns
            log.info("nothing learned", extra={"why": upto.why})
        return isinstance(upto, int)

    async def _look(self) -> int | Unlearned | None:
        """Learn from the oldest stretch; return its end, or None if that was broken off."""
        learning = self._learning
        nodes, source = await self._oldest()
        messages = tuple(node.message for node in nodes)
        known = await learning.memory.ask(ListKnown())
        text = request(messages, known, source.label)
        found = await self._undisturbed(learning.redact(text), source)
        if found is None:
            return None
        if isinstance(found, Unreadable):
            return Unlearned(found.why)
        said = (without_days(one.text) for one in messages if isinstance(one, Human))
        learn = Learn(
            found=found,
            batch=source.batch,
            settings=learning.settings,
            corrected=any(map(corrects, said)),
        )
        lesson = await learning.memory.ask(learn)
        if isinstance(lesson, Unlearned):
            return lesson
        if lesson.lost:
            log.warning("oldest observations dropped", extra={"count": lesson.lost})
        for question in lesson.questions:
            await learning.questions.ask(question)
        upto = nodes[-1].seq
        await self._log.record(Observed(upto, lesson.learned))
        log.info("conversation observed", extra={"upto": upto, "facts": lesson.learned})
        return upto

    async def _oldest(self) -> tuple[tuple[Node, ...], FactSource]:
        """Find what is to be looked at next, and what the line that it was said on knew then."""
        line = self._log.state
        after = line.unobserved.after
        if line.unobserved.owed:
            owed = line.unobserved.owed[0]
            line = await self._log.look_back(partial(state_at, to=owed.tip))
            after = owed.after
        nodes = fresh(line.path, after)
        turn, at = (line.done.turn, line.done.at) if line.done else ("", self._learning.now())
        return nodes, FactSource(
            self._id, turn, line.taint.label, at, f"{self._id}/{nodes[-1].seq}"
        )

    async def _undisturbed(
        self, text: str, source: FactSource
    ) -> tuple[Observation, ...] | Unreadable | None:
        """Extract facts unless something happens in the conversation meanwhile; None if it did."""
        found: tuple[Observation, ...] | Unreadable | None = None
        async with trio.open_nursery() as nursery:

            async def watch() -> None:
                await self._log.wait_change()
                nursery.cancel_scope.cancel()

            nursery.start_soon(watch)
            found = await self._extract(text, source)
            nursery.cancel_scope.cancel()
        return found

    async def _extract(self, text: str, source: FactSource) -> tuple[Observation, ...] | Unreadable:
        """Ask for facts; `Unreadable` if nobody answered.  Nonsense, twice, comes to no facts."""
        learning = self._learning
        wanted = text
        why = ""
        for _ in range(CALLS):
            day = datetime.fromtimestamp(learning.now(), learning.zone).date().isoformat()
            if not await learning.quota.take(day):
                return Unreadable("the calls of this day are used up (learning.calls_per_day)")
            answer = await self._ask(wanted)
            if not isinstance(answer, Completion):
                return Unreadable(answer)
            found = read(answer, source, learning.redact)
            if not isinstance(found, Unreadable):
                return found
            why = found.why
            wanted = f"{text}\n\n{AGAIN.format(why[:200])}"
        log.warning("observer gave up", extra={"why": why})
        return ()

    async def _ask(self, text: str) -> Completion | str:
        """Ask the model; the reason if it cannot answer."""
        until = trio.current_time() + LIMIT
        wanted = Complete(
            session=self._id,
            role=ROLE,
            prompt=PROMPT,
            messages=(Human(text),),
            max_tokens=MAX_TOKENS,
            until=until - TO_SAY_WHY,
        )
        with trio.move_on_at(until):
            try:
                answer = await self._learning.models.ask(wanted)
            except ActorUnavailable as error:
                return str(error)
            return answer if isinstance(answer, Completion) else answer.why
        return f"no answer within {LIMIT:.0f} s"
