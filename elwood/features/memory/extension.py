"""The memory's part in a conversation: notes that go along with a message, and the observer.

The observer learns from a conversation that has gone quiet, by a call of the cheap model.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import datetime
from functools import partial

import msgspec
import trio

from elwood.agent.channels.client import TellOwner
from elwood.agent.conversation.labels import Label
from elwood.agent.conversation.message import Completion, Human
from elwood.agent.conversation.run import is_unattended
from elwood.agent.conversation.settings import OwnerClock
from elwood.agent.models.messages import Complete, ModelsMail, ask_model
from elwood.agent.session.extension import Reminder, SessionExtension, TakenBack
from elwood.agent.session.log.branch import private_texts
from elwood.agent.session.log.entries import Node, Observed, Reminded
from elwood.agent.session.log.session_log import SessionLog
from elwood.agent.session.log.state import is_command
from elwood.agent.session.log.turns import Turn
from elwood.features.memory.learning import PROMPT, Fact, Observation, Unreadable, read, request
from elwood.features.memory.messages import Learn, MemoryMail, Overlook, Suggest, Unlearn, Unlearned
from elwood.features.memory.note import Note
from elwood.features.memory.settings import LearningSettings
from elwood.foundation.runtime import ActorUnavailable, Address
from elwood.foundation.storage.disk import DiskFull
from elwood.foundation.text.tokens import estimate
from elwood.foundation.text.words import asked, having

log = logging.getLogger("elwood.memory")

# Seconds that a turn waits for notes that may help: an answer must not be late for them.
SUGGEST_WAIT = 0.5
# Seconds that an /undo waits for the memory.
UNLEARN_WAIT = 10.0
# Words that must be in a note's text for it to be offered, unless one is in its key or tags.
ENOUGH = 2
# What begins a list of notes that may help.
OFFERED = "[notes that may help:"
# Only the cheap model, and nothing in its place.
ROLE = "observer"
# Seconds for one call: a cheap model needs a few.
LIMIT = 60.0
# Tokens of the answer: ten facts, and room for models that think first.
MAX_TOKENS = 2_000
# Seconds for a question to be sent; one that is lost waits under /memory pending.
POST_LIMIT = 60.0


class Learning:
    """What the observers of all conversations share: the model, and the owner to ask.

    *settings* gives what holds now, *tell* asks the owner, *redact* takes secrets out of a text.
    """

    def __init__(
        self,
        settings: Callable[[], LearningSettings],
        models: Address[ModelsMail],
        tell: TellOwner,
        redact: Callable[[str], str],
        clock: OwnerClock,
    ) -> None:
        self._settings = settings
        self.tell = tell
        self.redact = redact
        self.clock = clock
        self._models = models
        self._day = ""
        self._calls = 0

    @property
    def settings(self) -> LearningSettings:
        return self._settings()

    async def find(self, session: str, text: str) -> tuple[Fact, ...] | Unreadable:
        """Ask for the facts in *text*; `Unreadable` if nobody answered.  Nonsense holds none."""
        if not self._may_call():
            return Unreadable("the calls of this day are used up (learning.calls_per_day)")
        wanted = Complete(
            session=session,
            role=ROLE,
            prompt=PROMPT,
            messages=(Human(self.redact(text)),),
            max_tokens=MAX_TOKENS,
        )
        answer = await ask_model(self._models.ask, wanted, trio.current_time() + LIMIT)
        if not isinstance(answer, Completion):
            return Unreadable(answer.why)
        found = read(answer, self.redact)
        if isinstance(found, Unreadable):
            log.warning("observer not understood", extra={"why": found.why})
            return ()
        return found

    def _may_call(self) -> bool:
        """Count one more call of the owner's day; `limits` bound what restarts add to it."""
        day = datetime.fromtimestamp(self.clock.now(), self.clock.zone).date().isoformat()
        self._calls = self._calls + 1 if day == self._day else 1
        self._day = day
        return self._calls <= self.settings.calls_per_day


class MemoryExtension(SessionExtension):
    """What one conversation does with the memory: notes come along, and it is learned from.

    It is observed when nobody has said anything for a while.  What was looked at is recorded after
    what was learned, so a crash repeats one pass at most.  A pass that fails is not tried again
    before something new is said, or the next start.  *offered* is how many tokens of notes go
    along; *idle* is after how many seconds the session leaves the memory.
    """

    def __init__(
        self,
        memory: Address[MemoryMail],
        learning: Learning,
        offered: int,
        idle: float,
        log_: SessionLog,
    ) -> None:
        self._memory = memory
        self._learning = learning
        self._offered = offered
        self._log = log_
        # Or the session would have left the memory before.
        self._quiet = min(learning.settings.quiet, idle / 2)
        # How many turns there were when a pass failed.
        self._tried = -1

    @property
    def _observes(self) -> bool:
        """Whether it is learned from now; runs of tasks are not looked at."""
        return self._learning.settings.mode != "off" and not is_unattended(self._log.id)

    def reminder(self) -> Reminder | None:
        """Have notes chosen that may help in the turn that has begun.

        Only the owner's own words, in a private chat that has read none of strangers, bring notes
        along: they hold private data, and nobody asked for them.  What is in view is not offered
        again.
        """
        session, turn = self._log.state, self._log.state.turn
        if not self._offered or turn is None or turn.attempts > 1:
            return None
        if turn.bounds is not None:
            return None  # it can look them up
        if session.taint.label.untrusted or not turn.is_owners_alone:
            return None
        return partial(self._remind, turn)

    async def _remind(self, turn: Turn) -> Reminded | None:
        """Choose notes; None if there are none."""
        session = self._log.state
        message = "\n".join(one.text for one in turn.inputs if not is_command(one))
        notes: tuple[Note, ...] = ()
        with trio.move_on_after(SUGGEST_WAIT):
            try:
                notes = await self._memory.ask(Suggest(message=message))
            except ActorUnavailable:
                return None
        if not notes:
            return None
        private = private_texts(session.path, (), summed_up=False)
        seen = "\n".join(one.text for one in private)
        chosen = relevant([n for n in notes if n.text not in seen], message, self._offered)
        if not chosen:
            return None
        label = Label(private=any(note.label.private for note in chosen))
        return Reminded(turn.id, self._learning.redact(offered(chosen)), label)

    @property
    def is_behind(self) -> bool:
        """Whether something was said that has not been looked at."""
        return self._observes and any(isinstance(node.message, Human) for node in self._new)

    @property
    def _new(self) -> tuple[Node, ...]:
        state = self._log.state
        return tuple(node for node in state.path if node.seq > state.observed)

    @property
    def _is_due(self) -> bool:
        state = self._log.state
        return state.is_idle and self.is_behind and state.turns > self._tried

    async def taken_back(self, gone: TakenBack) -> None:
        if is_unattended(self._log.id):
            return
        with trio.move_on_after(UNLEARN_WAIT):
            try:
                done = await self._memory.ask(Unlearn(session=self._log.id, parts=gone.parts))
            except ActorUnavailable as error:
                log.warning("what was taken back is still known", extra={"why": str(error)})
            else:
                if not done.ok:
                    log.warning("what was taken back is still known", extra={"why": done.text})

    @property
    def work(self) -> Callable[[], Awaitable[None]] | None:
        return self._observe_each if self._observes else None

    async def _observe_each(self) -> None:
        while True:
            await self._log.wait_until(lambda: self._is_due)
            with trio.move_on_after(self._quiet):
                await self._log.wait_change()
                continue
            turns = self._log.state.turns
            try:
                why = await self._observe()
            except (ActorUnavailable, DiskFull) as error:
                why = str(error)
            if why:
                self._tried = turns
                log.info("nothing learned", extra={"why": why})

    async def _observe(self) -> str:
        """Learn from what is new; say why that failed."""
        state, nodes = self._log.state, self._new
        # What a member says of themselves is trusted, but nothing about the owner.
        label = state.taint.label | Label(untrusted=state.members)
        done, upto = state.done, nodes[-1].seq
        messages = tuple(node.message for node in nodes)
        known = await self._memory.ask(Overlook())
        shown = request(messages, (*known.newest, *known.pending), label)
        facts = await self._learning.find(self._log.account, shown)
        if isinstance(facts, Unreadable):
            return facts.why
        if nodes[-1] not in self._log.state.path:
            return ""  # it was taken back meanwhile
        at = done.at if done else self._learning.clock.now()
        id_, batch = self._log.id, f"{self._log.id}/{upto}"
        learn = Learn(
            found=tuple(
                Observation(one.key, one.text, one.kind, id_, label, at, batch) for one in facts
            ),
            batch=batch,
            settings=self._learning.settings,
        )
        lesson = await self._memory.ask(learn)
        if isinstance(lesson, Unlearned):
            return lesson.why
        for question in lesson.questions:
            with trio.move_on_after(POST_LIMIT):
                await self._learning.tell(question.text, question.answers)
        await self._log.record(Observed(upto, lesson.learned))
        log.info("conversation observed", extra={"upto": upto, "facts": lesson.learned})
        return ""


def relevant(notes: Iterable[Note], message: str, budget: int) -> tuple[Note, ...]:
    """Choose of *notes* what may help with *message*, in at most *budget* tokens.

    Neither pending ones nor what may hold strangers' words: nobody asked for these.
    """
    chosen = asked(message)
    fitting: list[tuple[tuple[int, str], Note]] = []
    for note in notes:
        if note.untrusted or note.status != "active":
            continue
        different = having(note.words, chosen)
        named = having(msgspec.structs.replace(note, text="").words, chosen)
        if named or different >= ENOUGH:
            fitting.append(((different + named, note.updated), note))
    fitting.sort(key=lambda one: one[0], reverse=True)
    taken: list[Note] = []
    left = budget - estimate(OFFERED)
    for _, note in fitting:
        cost = estimate(_line(note))
        if cost <= left:
            left -= cost
            taken.append(note)
    return tuple(taken)


def offered(notes: Sequence[Note]) -> str:
    """Write *notes* as the model is offered them.

    >>> print(offered([Note("tea", "Green.", updated="2026-11-22T10:00:00+00:00")]))
    [notes that may help:
    - tea (2026-11-22): Green.]
    """
    return "\n".join([OFFERED, *map(_line, notes)]) + "]"


def _line(note: Note) -> str:
    when = f" ({note.updated[:10]})" if note.updated else ""
    return f"- {note.key}{when}: {note.text}"
