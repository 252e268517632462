"""Learns from a conversation that has gone quiet: one call of the cheap model for what is new."""

import logging
from datetime import datetime

import trio

from elwood.agent.learning import Unwritten
from elwood.agent.session_log import SessionLog
from elwood.agent.surroundings import Surroundings
from elwood.core.conversation import Completion, Human
from elwood.core.errand import SESSION
from elwood.core.learning import Seen, corrects
from elwood.core.observing import AGAIN, PROMPT, Source, Unreadable, read, request, stretch
from elwood.core.session import Observed
from elwood.core.threads import without_recall
from elwood.messages import Complete
from elwood.runtime import ActorUnavailable
from elwood.store.calls import DiskFull

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

    Any entry of the log breaks a call off; it is made when all is quiet again.  What was looked at
    is recorded after what was learned, so a crash repeats one pass at most.  A pass that fails is
    not tried again before something new is said, or the next start.
    """

    def __init__(self, id_: str, log_: SessionLog, house: Surroundings) -> None:
        self._id = id_
        self._log = log_
        self._house = house
        self._learning = house.learning
        self._tried = 0

    @property
    def is_behind(self) -> bool:
        """Whether something was said that has not been looked at; runs of tasks are not."""
        if self._id.startswith(SESSION):
            return False
        if self._learning is None or not self._learning.is_on:
            return False
        return bool(stretch(self._log.state.path, self._log.state.observed))

    async def run(self) -> None:
        """Observe for as long as the session lives."""
        if self._learning is None or not self._learning.is_on:
            return
        # Or the session would have left the memory before.
        quiet = min(self._learning.settings.quiet, self._house.idle / 2)
        while True:
            state = self._log.state
            if not (state.is_idle and self.is_behind and state.path[-1].seq > self._tried):
                await self._log.wait_change()
                continue
            with trio.move_on_after(quiet):
                await self._log.wait_change()
                continue
            await self._observe()

    async def _observe(self) -> None:
        state, learning = self._log.state, self._learning
        assert learning is not None
        nodes = stretch(state.path, state.observed)
        upto = nodes[-1].seq
        messages = tuple(node.message for node in nodes)
        turn = state.done.turn if state.done else ""
        batch = f"{self._id}/{upto}"
        source = Source(self._id, turn, state.taint.label, self._house.now(), batch)
        said = (without_recall(one.text) for one in messages if isinstance(one, Human))
        corrected = any(map(corrects, said))
        try:
            text = request(messages, await learning.known(), source.label)
            found = await self._undisturbed(self._house.strip(text), source)
            if found is None:
                return
            self._tried = upto
            if isinstance(found, Unreadable):
                log.info("nothing learned", extra={"why": found.why})
                return
            learned = await learning.learn(found, batch, corrected=corrected)
            await self._log.record(Observed(upto, learned))
        except (ActorUnavailable, DiskFull, Unwritten) as error:
            self._tried = upto
            log.info("nothing learned", extra={"why": str(error)})
        else:
            log.info("conversation observed", extra={"upto": upto, "facts": learned})

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
            found = read(answer, source, house.strip)
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
