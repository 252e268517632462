"""Learns from a conversation that has gone quiet: a call of the cheap model for what is new."""

import logging
from datetime import datetime
from functools import partial

import trio

from elwood.agent.conversation.message import Completion, Human
from elwood.agent.conversation.task_run import SESSION
from elwood.agent.models.messages import Complete
from elwood.agent.session.log.entries import Node, Observed
from elwood.agent.session.log.replay_until import state_at
from elwood.agent.session.log.session_log import SessionLog
from elwood.agent.session.log.tree import fresh
from elwood.agent.session.turn.surroundings import Surroundings
from elwood.features.daily_notes.notes import without_recall
from elwood.features.memory.learning import Seen, corrects
from elwood.features.memory.learning_deps import Unwritten
from elwood.features.memory.observing import (
    AGAIN,
    PROMPT,
    Source,
    Unreadable,
    read,
    request,
)
from elwood.foundation.runtime import ActorUnavailable
from elwood.foundation.storage.journal import DiskFull, JournalDamaged

log = logging.getLogger("elwood.observer")

# Only the cheap model, and nothing in its place.
ROLE = "observer"
# Seconds for one call: a cheap model needs a few.  Before its end, who makes it says why it failed.
LIMIT, TO_SAY_WHY = 60.0, 5.0
# Tokens of the answer: ten facts, and room for models that think first.
MAX_TOKENS = 2_000
# Calls of one pass: what cannot be read is asked for once more.
CALLS = 2


class Observer:
    """Observes one session, when nobody has said anything for a while.

    One pass looks at one stretch: first those that were put away before it was quiet, each with
    the label its line had then, at last the present one.  Any entry of the log breaks a call off;
    it is made when all is quiet again.  What was looked at is recorded after what was learned, so a
    crash repeats one pass at most.  A pass that fails is not tried again before something new is
    said, or the next start.
    """

    def __init__(self, id_: str, log_: SessionLog, house: Surroundings) -> None:
        self._id = id_
        self._log = log_
        self._house = house
        self._learning = house.learning
        # How many turns there were when a pass failed.
        self._tried = -1

    @property
    def is_behind(self) -> bool:
        """Whether something was said that has not been looked at, here or on a line put away.

        Runs of tasks are not looked at.
        """
        if self._id.startswith(SESSION):
            return False
        if self._learning is None or not self._learning.is_on:
            return False
        state = self._log.state
        return bool(state.unobserved.owed or fresh(state.path, state.unobserved.after))

    @property
    def _is_due(self) -> bool:
        state = self._log.state
        return state.is_idle and self.is_behind and state.turns > self._tried

    async def run(self) -> None:
        """Observe for as long as the session lives."""
        if self._learning is None or not self._learning.is_on:
            return
        # Or the session would have left the memory before.
        quiet = min(self._learning.settings.quiet, self._house.idle / 2)
        while True:
            if not self._is_due:
                await self._log.wait_change()
                continue
            with trio.move_on_after(quiet):
                await self._log.wait_change()
                continue
            while self._is_due and await self._observe():
                pass

    async def _observe(self) -> bool:
        """Look at one stretch; False if that was broken off, or failed."""
        learning = self._learning
        assert learning is not None
        turns = self._log.state.turns
        try:
            nodes, source = await self._oldest()
            messages = tuple(node.message for node in nodes)
            text = request(messages, await learning.known(), source.label)
            found = await self._undisturbed(self._house.redact(text), source)
            if found is None:
                return False
            if isinstance(found, Unreadable):
                self._tried = turns
                log.info("nothing learned", extra={"why": found.why})
                return False
            said = (without_recall(one.text) for one in messages if isinstance(one, Human))
            corrected = any(map(corrects, said))
            learned = await learning.learn(found, source.batch, corrected=corrected)
            await self._log.record(Observed(nodes[-1].seq, learned))
        except (ActorUnavailable, DiskFull, JournalDamaged, Unwritten) as error:
            self._tried = turns
            log.info("nothing learned", extra={"why": str(error)})
            return False
        log.info("conversation observed", extra={"upto": nodes[-1].seq, "facts": learned})
        return True

    async def _oldest(self) -> tuple[tuple[Node, ...], Source]:
        """Find what is to be looked at next, and what the line that it was said on knew then."""
        line = self._log.state
        after = line.unobserved.after
        if line.unobserved.owed:
            owed = line.unobserved.owed[0]
            line = await self._log.look_back(partial(state_at, to=owed.tip))
            after = owed.after
        nodes = fresh(line.path, after)
        turn, at = (line.done.turn, line.done.at) if line.done else ("", self._house.now())
        return nodes, Source(self._id, turn, line.taint.label, at, f"{self._id}/{nodes[-1].seq}")

    async def _undisturbed(self, text: str, source: Source) -> tuple[Seen, ...] | Unreadable | None:
        """Extract facts unless something happens in the conversation meanwhile; None if it did."""
        found: tuple[Seen, ...] | Unreadable | None = None
        async with trio.open_nursery() as nursery:

            async def watch() -> None:
                await self._log.wait_change()
                nursery.cancel_scope.cancel()

            nursery.start_soon(watch)
            found = await self._extract(text, source)
            nursery.cancel_scope.cancel()
        return found

    async def _extract(self, text: str, source: Source) -> tuple[Seen, ...] | Unreadable:
        """Ask for facts; `Unreadable` if nobody answered.  Nonsense, twice, comes to no facts."""
        house, learning = self._house, self._learning
        assert learning is not None
        wanted = text
        why = ""
        for _ in range(CALLS):
            day = datetime.fromtimestamp(house.now(), house.zone).date().isoformat()
            if not await learning.allowance.take(day):
                return Unreadable("the calls of this day are used up (learning.calls_per_day)")
            answer = await self._ask(wanted)
            if not isinstance(answer, Completion):
                return Unreadable(answer)
            found = read(answer, source, house.redact)
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
                answer = await self._house.models.ask(wanted)
            except ActorUnavailable as error:
                return str(error)
            return answer if isinstance(answer, Completion) else answer.why
        return f"no answer within {LIMIT:.0f} s"
