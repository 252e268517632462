"""Runs a session's turns one after another: starts, stops, time limits, and replies."""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from itertools import takewhile
from typing import TypeVar

import msgspec
import trio

from elwood.agent.conversation.message import FetchedFile, Prompt
from elwood.agent.conversation.run import without_child
from elwood.agent.conversation.settings import Owner, TurnSettings
from elwood.agent.conversation.stop_words import says_stop
from elwood.agent.models.settings import ModelSettings
from elwood.agent.people.messages import RemovedPeople
from elwood.agent.session.core import Core
from elwood.agent.session.delivery import MUCH, Delivery, Showing
from elwood.agent.session.extension import Opening, Runs, SessionExtension, build_reminder
from elwood.agent.session.log.entries import (
    Entry,
    Fetched,
    Joined,
    Received,
    Replied,
    Rewound,
    TurnStarted,
)
from elwood.agent.session.log.session_log import SessionLog
from elwood.agent.session.log.state import GiveUpTurn, Resume, Start, is_command, is_said, is_stop
from elwood.agent.session.log.turns import describe_message, get_answer
from elwood.agent.session.turn.compaction import describe_cut
from elwood.agent.session.turn.gate import Gate
from elwood.agent.session.turn.prompt import SystemPrompt, render, stale_note, waiting_calls
from elwood.agent.session.turn.turn import TurnResult, TurnRun, call_alone
from elwood.agent.session.turn.unsupported_claims import with_receipts
from elwood.foundation.log import bind, event
from elwood.foundation.runtime import show_wait
from elwood.foundation.secrets.redaction import Masked, screen
from elwood.foundation.storage.disk import DiskFull
from elwood.foundation.text.characters import well_formed
from elwood.foundation.text.lines import duration, in_quotes

log = logging.getLogger("elwood.sessions")

T = TypeVar("T")
# Seconds for all features together to add to a turn: twice the longest limit of a single feature.
FEATURES_LIMIT = 10.0
# Seconds after its deadline at which a turn is reported as stuck.
STUCK_AFTER = 300.0
# Prefix of the first answer after a conversation was archived.
PUT_AWAY = "(Our last conversation was idle, so I archived it. /resume brings it back.)\n\n"
# Answer of a turn that was interrupted too often.
GIVEN_UP = (
    "I tried this several times and was cut off each time, so I gave up. "
    "The rest of our conversation is not affected."
)
# Log text of a turn whose person was removed; it is not sent.
DROPPED = "Dropped: the person who asked for it no longer has access. {}"
# Log text for a message that was only a credential.
NOT_KEPT = "[a credential was here; it was not kept]"
# Beginning of the reminder of calls that wait for an approval.
WAITING = "[waiting for the owner's approval: "

UNANSWERED = "Not answered yet: {}."
ANSWER = "Answer it now", "Answer them now"


class TurnRunner:
    """Runs the turns of one session; at most one at a time."""

    def __init__(
        self,
        core: Core,
        prompt: SystemPrompt,
        log_: SessionLog,
        delivery: Delivery,
        gate: Gate,
        showing: Showing,
        extensions: Sequence[SessionExtension],
    ) -> None:
        self._core = core
        self.prompt = prompt
        self._log = log_
        self._delivery = delivery
        self._gate = gate
        self.get_deeds = gate.get_deeds
        self._extensions = extensions
        self._clock = core.clock
        self._settings = core.config.get(TurnSettings)
        self.approvals = gate.approvals
        self._showing = showing
        self._run: TurnRun | None = None
        self._scope: trio.CancelScope | None = None
        self._stopping = False
        self._ending = False
        self._held = 0
        self._starting = False  # its start is being written
        self._stopped_by: Received | None = None
        self._failure = ""  # why the run of a task was stopped
        self._dropped = ""  # turn of removed people
        # Held by the command that moves the conversation.
        self._rest = trio.Lock()
        self.is_working = False

    @property
    def is_acting(self) -> bool:
        turn = self._log.state.turn
        calls = turn.calls.values() if self.is_working and turn is not None else ()
        open_ = [call.started for call in calls if call.ended is None]
        # A keyed call finds its earlier work when it is repeated after a restart.
        return any(one is not None and one.effect != "keyed" for one in open_)

    def build_start(self, received: Received) -> TurnStarted | None:
        """Return the entry that starts a turn on *received*; None if something else comes first.

        The caller that writes it, in one line with *received*, must call `work` immediately.
        """
        state = self._log.state
        is_busy = self.is_working or state.turn is not None or state.waiting or state.pending
        if is_busy or received.bounds is not None:
            return None
        return self._start(Start((received,)))

    def work(self, nursery: trio.Nursery, begun: TurnStarted | None = None) -> None:
        """Start working if there is something to do, unless a task works already.

        *begun* is the first turn to run, if its start has been written.
        """
        if not self.is_working and self._log.next_work() is not None:
            self.is_working = True
            nursery.start_soon(self._run_turns, begun)

    @asynccontextmanager
    async def at_rest(self, nursery: trio.Nursery, *, stops: bool) -> AsyncIterator[None]:
        """Keep the conversation still during the block, in which a waiting command moves it.

        Messages before the command are answered first, with the running turn; or stopped, if the
        command *stops* them. Nothing else begins until the command is answered (`next_work`).
        """
        async with self._rest:
            stopped = None
            while True:
                turn = self._log.state.turn if stops else None
                if turn is not None and turn is not stopped and self.stop(None):
                    stopped = turn
                self.work(nursery)
                if not self.is_working:
                    break
                await self._log.wait_change()
            self._stopping = False
            yield
        self.work(nursery)

    def notify_arrival(self) -> None:
        """Notify a running turn that another message waits."""
        if self._run is not None:
            self._run.notify_arrival()
        self.approvals.hints.give()

    async def apply_decisions(self, nursery: trio.Nursery) -> None:
        """Fetch the owner's new decisions, and run the calls that are allowed now."""
        self.approvals.hints.give()
        await self._cancel_forbidden()
        await self.approvals.fetch_decisions()
        self.work(nursery)

    def stop(self, command: Received | None) -> bool:
        """Stop the open turn; return False if there is none, or its reply is being written.

        It ends as soon as it can be cancelled, or before it is resumed after a restart. Its reply
        names the work in progress, and also answers *command*.
        """
        if self._log.state.turn is None or self._ending:
            return False
        self._stopping = True
        self._stopped_by = command or self._stopped_by
        if self._scope is not None:
            self._scope.cancel()
        return True

    async def stop_run(self, id_: str, why: str) -> None:
        """Stop the run of a task with the message *id_*, if it has no answer yet.

        If it has not begun, it is answered here and never begins.
        """
        with self.hold():
            while self._starting:
                await self._log.wait_change()
            turn, waits = self._log.state.turn, self._log.state.waiting.get(id_)
            if waits is not None:
                text = f"{why}. It had not started."
                replied = Replied(id_, None, (id_,), waits.route, text, failed=True, quiet=True)
                await self._delivery.accept(replied)
            elif turn is not None and any(one.id == id_ for one in turn.inputs) and self.stop(None):
                self._failure = why

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Prevent turns from beginning, or resuming after a restart, during the block."""
        self._held += 1
        try:
            yield
        finally:
            self._held -= 1
            self._log.get_changed()

    async def halt(self, command: Received | None) -> tuple[bool, int]:
        """Stop the open turn and cancel all waiting calls; nothing begins during that.

        Return whether the turn's reply answers *command*, and the number of cancelled calls.
        """
        with self.hold():
            stopped = self.stop(command)  # immediately: approvals may be away
            gone = await self.approvals.cancel_pending()
        # The start of a turn may have been in the middle of its write.
        return stopped or self.stop(command), gone

    async def _cancel_forbidden(self) -> None:
        """Cancel the pending and approved calls of cancelled tasks and removed people."""
        await self._stop_for_removed()
        if await self.approvals.cancel_removed_runs(self._find_cancelled):
            self.stop(None)

    async def _stop_for_removed(self) -> None:
        """Stop the open turn if only removed people asked for it (decision 26)."""
        turn = self._log.state.turn
        if turn is None or turn.bounds or turn.principal in self._core.channels.owners:
            return
        removed = await self._core.approvals.insist(RemovedPeople)
        if turn is self._log.state.turn and turn.is_only_of(removed) and self.stop(None):
            self._dropped = turn.id
            log.warning("turn of a removed person dropped", extra={"principal": turn.principal})

    async def _find_cancelled(self, runs: Runs) -> Runs:
        found = [await extension.find_cancelled(runs) for extension in self._extensions]
        return frozenset[tuple[str, int]]().union(*found)

    def _openings(self, inputs: Sequence[Received]) -> list[Opening]:
        openings = [extension.get_opening(inputs) for extension in self._extensions]
        return [opening for opening in openings if opening is not None]

    def _start(self, start: Start) -> TurnStarted:
        """Build the start of a turn; its inputs stay hidden until their files are fetched."""
        ids, inputs = tuple(received.id for received in start.inputs), start.inputs
        is_hidden = any(received.pending for received in inputs) or self._openings(inputs)
        text = render(inputs, self._clock) if inputs and not is_hidden else ""
        return TurnStarted(f"t{self._log.state.turns + 1}", ids, 1, text, start.calls)

    async def _run_turns(self, started: TurnStarted | None) -> None:
        try:
            while True:
                if started is None:
                    started = await self._next_turn()
                if started is None:
                    break
                with bind(turn=started.turn, message=self._log.turn.message):
                    await self._run_turn(started)
                if self._log.state.pending:
                    await self.approvals.fetch_decisions()
                started = None
        except* ImportError:  # a fault of the changed installation, not of the message
            await self.suspend_turn()
            raise
        finally:
            self.is_working = False
            self._log.get_changed()

    async def suspend_turn(self) -> None:
        """Record that the start of the open turn, if any, does not count as an attempt."""
        turn = self._log.state.turn
        if turn is not None and turn.attempts:
            with suppress(DiskFull):
                await self._log.record(TurnStarted(turn.id, (), turn.attempts - 1, ""))

    async def _next_turn(self) -> TurnStarted | None:
        """Record that the next turn starts and return it; None if there is nothing to do."""
        state = self._log.state
        while True:
            await self._cancel_forbidden()
            work = self._log.next_work()
            while self._held:
                await self._log.wait_change()
            if self._log.next_work() != work:
                continue  # another message came during the wait, or was taken back
            before: tuple[Rewound, ...] = ()
            match work:
                case None:
                    return None
                case GiveUpTurn():
                    await self._gate.abandon()
                    await self._reply(TurnResult(GIVEN_UP, failed=True))
                    continue
                case Start() as start:
                    started = self._start(start)
                    if any(one.bounds and one.bounds.fresh for one in start.inputs):
                        before = (Rewound(0),)
                case Resume(attempt):
                    started = TurnStarted(self._log.turn.id, (), attempt, "")
            self._starting = True
            try:
                await self._log.keep(*before, started)
            finally:
                self._starting = False
            if state.turn is not None:  # otherwise its input was withdrawn during the write
                return started

    async def _run_turn(self, started: TurnStarted) -> None:
        turn, began = self._log.turn, trio.current_time()
        limit, name = self._settings.deadline, "my time limit for one answer"
        until = turn.bounds.deadline if turn.bounds is not None and turn.inputs else None
        if until is not None and until - self._clock.now() < limit:
            limit, name = max(0.0, until - self._clock.now()), "the time limit of this run"
        answer: TurnResult | None = None
        log.debug("turn started", extra={"attempt": started.attempt, "inputs": len(turn.inputs)})
        with show_wait(f"turn {turn.id}", limit=limit + STUCK_AFTER):
            with trio.CancelScope() as self._scope, trio.move_on_after(limit):
                await self._stop_for_removed()
                if self._stopping:
                    self._scope.cancel()
                answer = await self._think()
            self._scope = None
            if answer is None:
                what = turn.cut_off
                await self._gate.abandon()
                if self._dropped == turn.id:
                    answer = TurnResult(DROPPED.format(what), failed=True)
                elif self._failure:
                    answer = TurnResult(f"{self._failure}. {what}", failed=True)
                elif self._stopping:
                    answer = TurnResult(f"Stopped. {what}")
                else:
                    text = f"I stopped after {duration(limit)}, {name}. {what}"
                    answer = TurnResult(text, failed=True)
                if self._run is not None and self._dropped != turn.id:
                    answer = self._run.cut(answer, self._core.redactor.partial)
            self._run = None
            await self._reply(answer)
        took = trio.current_time() - began
        event(log, "turn", {"rounds": turn.rounds}, success=not answer.failed, seconds=took)

    async def _think(self) -> TurnResult:
        turn = self._log.turn
        if turn.bounds is not None and turn.bounds.tool:
            return await self._fetch() or await call_alone(self._log, self._gate, turn.bounds)
        if turn.bounds is not None:  # no person waits for the run of a task
            return await self._fetch() or await self._ask(None)
        self._showing.begin(turn, self._log.state.turns)
        try:
            return await self._fetch() or await self._ask(self._showing)
        finally:
            self._showing.end()

    async def _fetch(self) -> TurnResult | None:
        """Fetch the pending files and openings of the hidden inputs, and show them to the model.

        Each result is recorded before the next fetch. Errors are sent to the sender; they are the
        answer if there is nothing else to answer.
        """
        turn, channels = self._log.turn, self._core.channels
        for received in turn.inputs:
            for file in received.pending:
                found = await channels.get_by_route(received.route).fetch(self._log.id, file)
                found = self._screen_file(found)
                await self._log.keep(Fetched(turn.id, received.id, found))
                if self._is_spoken_stop(received, found.words):
                    self.stop(None)
        hidden = turn.hidden
        if not hidden:
            return None
        troubles = "\n".join(trouble for received in hidden for trouble in received.troubles)
        if troubles and not (turn.shown or any(map(_has_content, hidden))):
            return TurnResult(troubles, failed=True)
        openings = await _gather([] if turn.shown else self._openings(hidden))
        text = "".join([text for text in openings if text is not None])
        joined = Joined(turn.id, (), text + render(hidden, self._clock))
        if not troubles:
            await self._log.stage(joined)
            return None
        route = self._delivery.route(hidden[-1])
        told = Replied(f"{hidden[-1].id}:files", None, (), route, troubles)
        await self._delivery.accept(told, joined)
        return None

    def _is_spoken_stop(self, received: Received, words: str) -> bool:
        """Return True if a recording of the person says to stop earlier work of this turn."""
        turn, (_, _, said) = self._log.turn, words.partition("]\n")
        is_later = received.id != turn.message
        languages = self._core.config.get(Owner).languages
        return is_later and not received.untrusted and says_stop(said, languages)

    def _screen_file(self, found: FetchedFile) -> FetchedFile:
        """Remove secrets from the fetched text."""
        words, redact = well_formed(found.words), self._core.redactor
        if (secret := screen(words)) is not None:
            words = secret.text if isinstance(secret, Masked) else NOT_KEPT
        file = found.file
        if file is not None:
            file = msgspec.structs.replace(file, text=redact(well_formed(file.text)))
        return FetchedFile(file=file, words=redact(words), trouble=redact(found.trouble))

    async def _ask(self, showing: Showing | None) -> TurnResult:
        """Query the model until there is an answer."""
        core, turn = self._core, self._log.turn
        group = core.channels.group(without_child(self._log.id))

        async def make_prompt() -> Prompt:
            only = turn.bounds.tools if turn.bounds is not None else None
            return await self.prompt.get_prompt(group, only, self._log.state.opened)

        prompt = await make_prompt()
        pending = waiting_calls(self._log.state)
        reminders = [build_reminder(self._log, "waiting", WAITING, pending, "your waiting calls")]
        reads = (extension.reminder() for extension in self._extensions)
        reminders += await _gather([read for read in reads if read is not None])
        for reminded in filter(None, reminders):
            await self._log.stage(reminded)
        role = turn.bounds.role if turn.bounds else "default"
        run = TurnRun(
            log=self._log,
            gate=self._gate,
            ask=core.models.ask,
            prompt=prompt,
            settings=self._settings,
            max_tokens=core.config.get(ModelSettings).role(role).max_tokens,
            clock=self._clock,
            showing=showing,
            fetch=self._fetch,
            renew=make_prompt,
        )
        self._run = run
        return await run.run()

    async def _reply(self, answer: TurnResult) -> None:
        """Record the answer of the open turn, and give it to the delivery."""
        state, turn = self._log.state, self._log.turn
        inputs = [received.id for received in turn.inputs]
        stop, self._stopped_by = self._stopped_by, None
        said: list[Received] = []
        if stop is not None:
            # A stop also stops the waiting messages; this reply is the outcome of each.
            before = list(takewhile(lambda one: one.id != stop.id, state.waiting.values()))
            stopped = [r for r in before if not is_command(r) or is_stop(r)]
            inputs += [received.id for received in (*stopped, stop)]
            said = [received for received in stopped if is_said(received)]
        self._stopping, self._ending, self._failure = False, True, ""
        text, quiet = get_answer(turn, answer.text, failed=answer.failed)
        head = ""
        if turn.bounds is None:
            head = PUT_AWAY if state.archived else ""
            head += stale_note(turn.inputs, self._clock.now())

        route, channels = self._delivery.route(stop or turn), self._core.channels
        opens = channels.session_at(route) == self._log.id and turn.principal in channels.owners

        def add_receipts() -> tuple[str, str]:
            shown = self._core.redactor(text)
            earlier, zone = state.receipts, self._clock.zone
            return with_receipts(shown, turn, self.get_deeds, earlier, zone, numbered=opens)

        beside = self._core.environment.blocking
        shown, footer = add_receipts() if len(text) <= MUCH else await beside(add_receipts)
        end = self._core.redactor(answer.end)
        if said:
            told = ", ".join(in_quotes(describe_message(one)) for one in said)
            if end:
                end = f"{end}\n{UNANSWERED.format(told)}"
            else:
                shown += f"\n\n{UNANSWERED.format(told)}"
        pages: dict[str, str] = {}
        did = [one.number for one in turn.receipts if one.number and not one.looked]
        if did and opens and channels.get_by_route(route).buttons:
            pages = {f"Receipt {did[0]}": f"/receipts {did[0]}"}
        replied = Replied(
            turn.id,
            turn.id,
            tuple(inputs),
            route,
            head + shown,
            "\n".join(filter(None, (end, footer, turn.cut and describe_cut(turn.cut)))),
            answer.failed,
            # A stop command always gets an answer.
            quiet=(quiet and stop is None) or self._dropped == turn.id,
            pages={ANSWER[len(said) > 1]: f"/answer {turn.id}"} if said else pages,
            untrusted=self._log.state.taint.label.untrusted,
        )
        for extension in self._extensions:
            await extension.finish_previous_turn()  # the previous turn, which this one replaces
        late: list[Entry] = []
        if turn.hidden:  # it ended while their files were fetched
            late.append(Joined(turn.id, (), render(turn.hidden, self._clock)))
        await self._delivery.accept(replied, *late, *answer.entries)
        self._ending = False


async def _gather(reads: Sequence[Callable[[], Awaitable[T]]]) -> list[T | None]:
    """Run all *reads* of features concurrently; a late result is None."""
    results: list[T | None] = [None] * len(reads)

    async def read(place: int) -> None:
        results[place] = await reads[place]()

    with trio.move_on_after(FEATURES_LIMIT) as scope:
        if len(reads) == 1:
            await read(0)
        elif reads:
            async with trio.open_nursery() as nursery:
                for place in range(len(reads)):
                    nursery.start_soon(read, place)
    if scope.cancelled_caught:
        log.warning("features took too long for a turn", extra={"seconds": FEATURES_LIMIT})
    return results


def _has_content(received: Received) -> bool:
    """Return True if a message has something to answer: words, or a file to look at."""
    return bool(received.text.strip()) or any(file.untrusted for file in received.files)
