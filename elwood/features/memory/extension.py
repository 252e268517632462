"""The memory in a conversation: offered notes, and the observer.

The observer learns from an idle conversation, by a call of the cheap model.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import datetime
from functools import partial

import attrs
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
from elwood.features.memory.learning import (
    PROMPT,
    Fact,
    Observation,
    Unreadable,
    parse_facts,
    request,
)
from elwood.features.memory.messages import (
    GetOverview,
    Learn,
    MemoryMail,
    Suggest,
    Unlearn,
    Unlearned,
)
from elwood.features.memory.note import Note
from elwood.features.memory.settings import LearningSettings
from elwood.foundation.runtime import ActorUnavailable, Address
from elwood.foundation.storage.disk import DiskFull
from elwood.foundation.text.tokens import estimate
from elwood.foundation.text.words import count_words, parse_query

log = logging.getLogger("elwood.memory")

# Seconds that a turn waits for notes that may help.
SUGGEST_WAIT = 0.5
# Seconds that an /undo waits for the memory.
UNLEARN_WAIT = 10.0
# Words of a note's text that must match before it is offered, unless one is in its key or tags.
ENOUGH = 2
# First line of the offered notes.
OFFERED = "[notes that may help:"
# Role of the cheap model; it has no fallback.
ROLE = "observer"
# Seconds for one call: a cheap model takes a few.
LIMIT = 60.0
# Tokens of the answer: ten facts, and space for reasoning.
MAX_TOKENS = 2_000
# Seconds to send a question; if it is lost, /memory pending still lists it.
POST_LIMIT = 60.0


@attrs.define(eq=False)
class Learning:
    """The parts that the observers of all conversations share.

    *settings* returns the current settings, *tell* asks the owner, *redact* removes secrets.
    """

    _settings: Callable[[], LearningSettings]
    _models: Address[ModelsMail]
    tell: TellOwner
    redact: Callable[[str], str]
    clock: OwnerClock
    _day: str = attrs.field(default="", init=False)
    _calls: int = attrs.field(default=0, init=False)

    @property
    def settings(self) -> LearningSettings:
        return self._settings()

    async def find(self, session: str, text: str) -> tuple[Fact, ...] | Unreadable:
        """Request the facts in *text*; `Unreadable` if there is no answer, () if it is invalid."""
        if not self._may_call():
            return Unreadable("today's calls are used up (learning.calls_per_day)")
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
        found = parse_facts(answer, self.redact)
        if isinstance(found, Unreadable):
            log.warning("response of the observer not understood", extra={"why": found.why})
            return ()
        return found

    def _may_call(self) -> bool:
        """Count a call of the owner's day.  Restarts reset the count; `limits` still hold."""
        day = datetime.fromtimestamp(self.clock.now(), self.clock.zone).date().isoformat()
        self._calls = self._calls + 1 if day == self._day else 1
        self._day = day
        return self._calls <= self.settings.calls_per_day


class MemoryExtension(SessionExtension):
    """The memory of one conversation: it offers notes and observes when the conversation is idle.

    The end of a pass is recorded after its facts, so a crash repeats at most one pass.  A failed
    pass is retried after the next message or restart.  *offered* is the most tokens of offered
    notes; *idle* is the seconds until the session is unloaded.
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
        # Shorter than *idle*, or the session would be unloaded first.
        self._quiet = min(learning.settings.quiet, idle / 2)
        # Number of turns when a pass failed last.
        self._tried = -1

    @property
    def _observes(self) -> bool:
        """Return True if it is observed; runs of tasks are not."""
        return self._learning.settings.mode != "off" and not is_unattended(self._log.id)

    def reminder(self) -> Reminder | None:
        """Return the choice of notes that may help in the current turn; None if there is none.

        Notes hold private data, so they are offered only for the owner's own words in a private
        chat without strangers' words.  Notes in view are not offered again.
        """
        session, turn = self._log.state, self._log.state.turn
        if not self._offered or turn is None or turn.attempts > 1:
            return None
        if turn.bounds is not None:
            return None  # the run can search
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
        return Reminded(turn.id, self._learning.redact(format_offer(chosen)), label)

    @property
    def is_behind(self) -> bool:
        """Return True if there are messages that were not observed."""
        return self._observes and any(isinstance(node.message, Human) for node in self._new)

    @property
    def _new(self) -> tuple[Node, ...]:
        state = self._log.state
        return tuple(node for node in state.path if node.seq > state.observed)

    @property
    def _is_due(self) -> bool:
        state = self._log.state
        return state.is_idle and self.is_behind and state.turns > self._tried

    async def remove_turns(self, gone: TakenBack) -> None:
        if is_unattended(self._log.id):
            return
        with trio.move_on_after(UNLEARN_WAIT):
            try:
                done = await self._memory.ask(Unlearn(session=self._log.id, parts=gone.parts))
            except ActorUnavailable as error:
                log.warning("undone facts not removed", extra={"why": str(error)})
            else:
                if not done.ok:
                    log.warning("undone facts not removed", extra={"why": done.text})

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
        """Learn from new messages; return the reason for a failure, or ""."""
        state, nodes = self._log.state, self._new
        # Members' words must not be learned as facts about the owner.
        label = state.taint.label | Label(untrusted=state.members)
        done, upto = state.done, nodes[-1].seq
        messages = tuple(node.message for node in nodes)
        known = await self._memory.ask(GetOverview())
        shown = request(messages, (*known.newest, *known.pending), label)
        facts = await self._learning.find(self._log.account, shown)
        if isinstance(facts, Unreadable):
            return facts.why
        if nodes[-1] not in self._log.state.path:
            return ""  # it was taken back during the call
        at = done.at if done else self._learning.clock.now()
        id_, batch = self._log.id, f"{self._log.id}/{upto}"
        learn = Learn(
            found=tuple(
                Observation(one.key, one.text, one.kind, id_, label, at, batch) for one in facts
            ),
            batch=batch,
            settings=self._learning.settings,
        )
        plan = await self._memory.ask(learn)
        if isinstance(plan, Unlearned):
            return plan.why
        for question in plan.questions:
            with trio.move_on_after(POST_LIMIT):
                await self._learning.tell(question.text, question.answers)
        await self._log.record(Observed(upto, plan.learned))
        log.info("conversation observed", extra={"upto": upto, "facts": plan.learned})
        return ""


def relevant(notes: Iterable[Note], message: str, budget: int) -> tuple[Note, ...]:
    """Choose the *notes* that may help with *message*, in at most *budget* tokens.

    Pending notes, and those that may hold strangers' words, are never chosen.
    """
    chosen = parse_query(message)
    fitting: list[tuple[tuple[int, str], Note]] = []
    for note in notes:
        if note.untrusted or note.status != "active":
            continue
        matched = count_words(note.words, chosen)
        named = count_words(msgspec.structs.replace(note, text="").words, chosen)
        if named or matched >= ENOUGH:
            fitting.append(((matched + named, note.updated), note))
    fitting.sort(key=lambda one: one[0], reverse=True)
    result: list[Note] = []
    left = budget - estimate(OFFERED)
    for _, note in fitting:
        cost = estimate(_line(note))
        if cost <= left:
            left -= cost
            result.append(note)
    return tuple(result)


def format_offer(notes: Sequence[Note]) -> str:
    """Format *notes* that are offered to the model.

    >>> print(format_offer([Note("tea", "Green.", updated="2026-11-22T10:00:00+00:00")]))
    [notes that may help:
    - tea (2026-11-22): Green.]
    """
    return "\n".join([OFFERED, *map(_line, notes)]) + "]"


def _line(note: Note) -> str:
    when = f" ({note.updated[:10]})" if note.updated else ""
    return f"- {note.key}{when}: {note.text}"
