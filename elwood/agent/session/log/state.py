"""The state of a session, and its next step.

`Session` is the fold over the entries of `log.entries`, in the order of the log. Only `apply`
changes it, in place, so that the cost of a turn does not depend on the length of the log.
"""

import hashlib
import re
from collections.abc import Collection, Iterable, Iterator
from itertools import takewhile
from typing import Any

import msgspec

from elwood.agent.conversation.labels import CLEAN, Label
from elwood.agent.conversation.message import (
    Calibration,
    Human,
    Notice,
    ToolCall,
    is_opening_private,
)
from elwood.agent.conversation.route import Route
from elwood.agent.conversation.run import owner_of
from elwood.agent.session.log import entries
from elwood.agent.session.log.branch import (
    Branch,
    Tree,
    Why,
    find_own_words,
    response_node,
    viewable_files,
)
from elwood.agent.session.log.entries import Entry, Received, Step
from elwood.agent.session.log.turns import (
    TOLD,
    UNANSWERED,
    FinishedTurn,
    OpenCall,
    Turn,
    Undelivered,
    WaitingCall,
    call_key,
    is_answer,
    results_message,
    summarize_turn,
)

# The first word of a command: /NAME, or /SERVER:PROMPT of an MCP server.
_TYPED = re.compile(r"/(?:[^\W_]+|[a-z0-9-]+:\S+)")
# Remembered receipts, without their texts.
MAX_RECEIPTS = 50
# Tools of a search that stay in the prompt; the oldest leave it.
MAX_OPENED = 30
# Remembered results of task runs. The scheduler asks for them immediately; one per possible task.
MAX_RUNS = 200
# Replies that wait for the return of their person.
MAX_MISSED = 20
# Stops whose unanswered messages can still be answered with `/answer`.
MAX_SET_ASIDE = 3
# Messages whose digest is remembered to detect edits without changes: these come within seconds,
# with the preview of a link.
MAX_EDITABLE = 100
# Messages sent to people since they last wrote: as many as help the model, and characters of each.
MAX_OVERHEARD, MAX_WORDS = 10, 1000


class RunResult(msgspec.Struct, frozen=True):
    """How a run ended: *text* is its answer; if *failed*, it states a failure."""

    text: str
    failed: bool = False
    acted: bool = False  # something was done that must not be repeated without asking
    waiting: bool = False  # a call waits for the owner
    told: Route | None = None  # where the answer was posted, if it was
    label: Label = CLEAN  # of the conversation that it ran in
    denied: bool = False  # a call was denied; it must not be requested again


class Session(Branch):
    """The state of a session: the present line of the conversation, and the rest.

    The fields below do not belong to any line.
    """

    seen: dict[str, None] = msgspec.field(default_factory=dict)
    waiting: dict[str, Received] = msgspec.field(default_factory=dict)
    # notices for the model before a message, by message id
    notices: dict[str, str] = msgspec.field(default_factory=dict)
    # newest texts sent to people that the model does not know yet
    overheard: list[Received] = msgspec.field(default_factory=list)
    # results of task runs, by message id
    runs: dict[str, RunResult] = msgspec.field(default_factory=dict)
    turn: Turn | None = None
    turns: int = 0
    # conversations so far: `/new` or long idleness begins one, with its own account
    conversation: int = 1
    undelivered: dict[str, Undelivered] = msgspec.field(default_factory=dict)
    # replies that wait for the return of their person, who blocked the bot
    missed: dict[str, Undelivered] = msgspec.field(default_factory=dict)
    # calls that wait for the owner, by `<turn>/<call>`
    pending: dict[str, WaitingCall] = msgspec.field(default_factory=dict)
    # newest ended calls, of all lines
    receipts: list[entries.CallEnded] = msgspec.field(default_factory=list)
    tree: Tree = msgspec.field(default_factory=Tree)  # the other lines
    failed: bool = False  # the newest answer states a failure
    observed: int = 0  # newest entry that the observer processed
    done: FinishedTurn | None = None  # newest ended turn
    archived: bool = False  # the person does not know yet that the conversation was archived
    # corrects token estimates
    calibration: Calibration = msgspec.field(default_factory=Calibration)
    model: str = ""  # model chosen for this conversation; "" for the default
    # time and digest of the newest messages, by their channel's id
    editable: dict[str, tuple[float, str]] = msgspec.field(default_factory=dict)
    # messages left unanswered by a stop, by turn
    set_aside: dict[str, tuple[Received, ...]] = msgspec.field(default_factory=dict)
    calls: int = 0  # calls made so far; numbers them

    @property
    def is_idle(self) -> bool:
        """Whether nothing is left to do."""
        return not (self.waiting or self.turn or self.undelivered)

    def is_as_before(self, edit: Received) -> bool:
        """Return True if *edit* changes no words, or is older than the known text."""
        at, said = self.editable.get(edit.edits or "", (0.0, ""))
        return said != "" and (_digest(edit) == said or edit.sent_at < at)

    def apply(self, seq: int, at: float, entry: Entry) -> None:
        """Apply the entry number *seq*, written at Unix time *at*."""
        match entry:
            case Received(id_):
                self.seen[id_] = None
                _bound(self.seen, entries.MAX_SEEN)
                receive(self.waiting, entry)
                if (name := entry.edits or entry.message) is not None:
                    self.editable[name] = entry.sent_at, _digest(entry)
                    _bound(self.editable, MAX_EDITABLE)
                self.apply_taint(entry)
            case entries.TurnStarted():
                self._start(seq, entry)
            case entries.Joined(_, inputs, text):
                turn = self._open_turn(entry)
                begins = bool(turn.hidden) and not (turn.shown or turn.kept)
                turn.inputs.extend(self._take_waiting(inputs))
                turn.attempts = 1
                if text:
                    # A turn begins where it was started, also if its files came later.
                    self._show_inputs(turn.start if begins else seq, turn, text, begins=begins)
            case entries.Fetched(_, input_, found):
                turn = self._open_turn(entry)
                turn.attempts = 0
                for place, one in enumerate(turn.inputs):
                    if one.id == input_:
                        turn.inputs[place] = one.with_fetched(found)
                        self.apply_taint(turn.inputs[place])
            case entries.Prompted(prompt, blind):
                self.begin_epoch(prompt, blind=blind)
            case entries.Said():
                self._add_response(seq, entry)
            case entries.Noticed(_, text):
                self.push(seq, Notice(text))
            case entries.Reminded(_, text, label, source, key, private):
                self.taint.add(label, source)
                self.push(seq, Notice(text, key, source if private else ""))
            case entries.CallPending():
                open_call = self._open_call(entry)
                open_call.pending, open_call.decided = entry, None
            case entries.CallDecided():
                self._decide(seq, at, entry)
            case entries.Endorsed(origins):
                self.taint.endorse(origins)
            case entries.CallStarted(effect=effect):
                turn = self._open_turn(entry)
                self._open_call(entry).started = entry
                turn.acted = turn.acted or effect == "once"
            case entries.CallNested(_, outer, key, tool, arguments):
                turn = self._open_turn(entry)
                open_call = turn.calls[outer]
                open_call.within = max(open_call.within, entry.place)
                call = ToolCall(key, tool, arguments)
                turn.nested[key] = OpenCall(key, call, number=entry.number, outer=open_call)
            case entries.CallEnded():
                self._end_call(seq, self._open_turn(entry), entry)
            case entries.Compacted(summary, upto, why):
                self.summarise(summary, upto, self.turn.start if self.turn is not None else upto)
                if self.turn is not None:
                    self.turn.cut = why
            case entries.Rewound(to):
                if to == 0:
                    self.tree.leave(self, seq - 1, at, "new")
                    self.archived = False
                    self._begin_conversation()
                self.path = [node for node in self.path if node.seq <= to]
                if not self.path and not (self.turn and self.turn.calls):
                    self._move_to(entries.Resumed(0, same_prompt=True))
            case entries.Branched(name):
                self.tree.mark(name, self, seq, at)
            case entries.Archived():
                self.tree.leave(self, seq - 1, at, "archived")
                self._move_to(entries.Resumed(0, same_prompt=True))
                self.archived = True
                self._begin_conversation()
            case entries.Resumed():
                left: Why = "left" if entry.number else "undone"
                if not entry.number:
                    # the undone turn must not be reported again
                    self.done = None
                self.tree.leave(self, seq - 1, at, left)
                self.tree.go_on(entry.number)
                self._move_to(entry)
                self.archived = False
            case entries.Retried():
                self._retry(entry)
            case entries.Replied():
                self._reply(seq, at, entry)
            case entries.Posting(reply, part, attempt):
                if reply in self.missed:
                    self.undelivered[reply] = self.missed.pop(reply)
                self.undelivered[reply].attempts[part] = attempt
            case entries.Posted(reply, part, message):
                self.undelivered[reply].posted[part] = message
            case entries.Delivered(reply, away=away):
                undelivered = self.undelivered.pop(reply)
                if away:
                    self.missed[reply] = undelivered
                    _bound(self.missed, MAX_MISSED)
            case entries.Observed(upto):
                self.observed = max(self.observed, upto)
            case entries.ModelChosen(model):
                self.model = model
            case entries.Titled(title):
                self.chosen_title = title

    # --- messages that come in ---

    def _take_waiting(self, inputs: tuple[str, ...]) -> Iterator[Received]:
        for id_ in inputs:
            if (received := self.waiting.pop(id_, None)) is not None:
                yield received

    def _push_notices(self, seq: int, inputs: tuple[str, ...]) -> None:
        """Push the notices that precede *inputs*."""
        if self.overheard:
            told = [TOLD[one.bounds.says].format(one.text) for one in self.overheard if one.bounds]
            self.push(seq, Notice("\n\n".join(told)))
            for received in self.overheard:
                # again: it may have arrived on another line
                self.apply_taint(received)
            self.overheard = []
        for id_ in inputs:
            if (notice := self.notices.pop(id_, None)) is not None:
                self.push(seq, Notice(notice))

    def _retry(self, entry: entries.Retried) -> None:
        asked = self.waiting[entry.input]
        # The replacement may contain words of other people.
        asked = msgspec.structs.replace(
            asked,
            text=entry.text,
            untrusted=asked.untrusted or entry.untrusted,
            member=asked.member and not entry.untrusted,
            speaker="",  # the text contains it
            files=entry.files,
            pending=entry.pending,
        )
        self.waiting[entry.input] = asked
        self.add_taint(entry.origins, entry.private)
        self.apply_taint(asked)
        if entry.notice:
            self.notices[entry.input] = entry.notice

    # --- the head moves ---

    def _begin_conversation(self) -> None:
        self.conversation += 1
        self.model = self.chosen_title = ""

    def _move_to(self, line: entries.Resumed) -> None:
        """Move to *line* and its label; calls and messages that still wait bring their own."""
        old = self.taint
        self.move(line)
        for key, kept in self.pending.items():
            origins = tuple(dict.fromkeys((*kept.origins, *old.sources)))
            private = kept.private or old.private
            self.pending[key] = msgspec.structs.replace(kept, origins=origins, private=private)
        for received in self.waiting.values():
            self.apply_taint(received)

    # --- turns and their calls ---

    def _start(self, seq: int, entry: entries.TurnStarted) -> None:
        if self.turn is not None and self.turn.id == entry.turn:
            self.turn.attempts = entry.attempt
            return
        self.turns += 1
        inputs = list(self._take_waiting(entry.inputs))
        calls = [key for key in entry.calls if key in self.pending]
        if entry.calls and not (inputs or calls):
            return  # withdrawn while this was being written
        turn = self.turn = Turn(entry.turn, inputs, start=seq)
        for key in calls:
            turn.kept.append(kept := self.pending.pop(key))
            self.add_taint(kept.origins, kept.private)
            turn.calls[key] = kept.open(key)
        if entry.text:
            self._show_inputs(seq, turn, entry.text, begins=True)
        elif not inputs:
            self._push_notices(seq, ())

    def _show_inputs(self, seq: int, turn: Turn, text: str, *, begins: bool) -> None:
        """Show the model the hidden inputs of *turn*, as *text*."""
        hidden, turn.shown = turn.hidden, len(turn.inputs)
        self._push_notices(seq, tuple(one.id for one in hidden))
        own = find_own_words(text, hidden)
        self.push(seq, Human(text, viewable_files(hidden)), begins=begins, own=own)
        self.taint.add(Label(private=is_opening_private(text)), "")

    def _add_response(self, seq: int, entry: entries.Said) -> None:
        turn, message = self._open_turn(entry), entry.message
        self.calibration.update(message.model, self.prompt_tokens + self.tokens, entry.usage)
        turn.attempts = 0
        turn.calls = {
            call.id: OpenCall(call.id, call, number=self.calls + n)
            for n, call in enumerate(message.calls, 1)
        }
        self.calls += len(message.calls)
        turn.rounds += 1
        turn.left_out += entry.left_out
        self.path.append(response_node(seq, message, entry.usage, self.calibration.ratio))

    def _decide(self, seq: int, at: float, entry: entries.CallDecided) -> None:
        turn = self.turn
        call = turn.open_call(entry.call) if turn and turn.id == entry.turn else None
        if turn is not None and call is not None and call.ended is None:
            call.decided, call.decided_at = entry, at
            if not entry.allowed:
                turn.denied.append(entry.plan)
            return
        key = call_key(entry.turn, entry.call)
        if (kept := self.pending.get(key)) is None or (kept.decided is not None and entry.allowed):
            return
        if entry.allowed:
            self.pending[key] = msgspec.structs.replace(kept, decided=entry, decided_at=at)
            return
        del self.pending[key]
        self.add_taint(kept.origins, kept.private)
        self.untold.append(kept.refused(entry.ruling))
        if self.turn is None:
            self.push_untold(seq)

    def _end_call(self, seq: int, turn: Turn, entry: entries.CallEnded) -> None:
        open_call = self._open_call(entry)
        started, outer = open_call.started, open_call.outer
        acts = started is not None and started.effect != "pure"
        if acts or outer is None:  # one call may contain hundreds of reads
            self.receipts.append(msgspec.structs.replace(entry, text=""))
            del self.receipts[:-MAX_RECEIPTS]
        turn.attempts = 0
        open_call.ended = entry
        turn.receipts.append(entry)
        turn.acted = turn.acted or entry.acted or entry.outcome == "unknown"
        self.taint.add(entry.label, entry.origin or entry.tool)
        if outer is not None:
            turn.within += 1
            outer.brought |= entry.label
            if entry.label.untrusted:
                outer.origin = outer.origin or entry.origin or entry.tool
            if acts:
                outer.acts.append(entry)
            del turn.nested[entry.call]
            return
        if entry.label.private:
            self.private_calls[open_call.call.id] = None
        self.opened.update(dict.fromkeys(entry.opens))
        _bound(self.opened, MAX_OPENED)
        if entry.outcome == "waiting" and (pending := open_call.pending) is not None:
            kept = WaitingCall(
                open_call.call,
                pending,
                turn.principal,
                turn.route,
                bounds=turn.bounds,
                message=turn.message,
                number=open_call.number,
            )
            self.pending[call_key(turn.id, entry.call)] = kept
        if all(call.ended is not None for call in turn.calls.values()):
            self._close_calls(seq, turn)

    def _close_calls(self, seq: int, turn: Turn) -> None:
        if not turn.calls:
            return
        self.push(seq, results_message(turn))
        turn.calls = {}
        self.push_untold(seq)

    def _reply(self, seq: int, at: float, entry: entries.Replied) -> None:
        turn = None if entry.turn is None else self.turn
        if turn is not None:
            label = self.taint.label
            self.done = summarize_turn(at, turn.inputs, turn.receipts, entry, label) or self.done
            self._close_calls(seq, turn)
            last = self.path[-1] if self.path else None
            if last is not None and last.seq >= turn.start and not is_answer(last.message):
                # Otherwise the model would continue work that was stopped or given up.
                self.push(seq, Notice(UNANSWERED.format(entry.text[:500])))
            self.turn = None
        self._note_runs(entry, turn)
        unanswered = [one for one in self._take_waiting(entry.inputs) if is_said(one)]
        if turn is not None and unanswered:
            self.set_aside[turn.id] = tuple(unanswered)
            _bound(self.set_aside, MAX_SET_ASIDE)
        for id_ in entry.inputs:
            self.notices.pop(id_, None)
        if self.turn is None:
            self.push_untold(seq)
        self.failed = entry.failed
        self.archived = self.archived and entry.turn is None
        if entry.text and not entry.quiet:
            cause = turn.message if turn is not None else "".join(entry.inputs[:1])
            self.undelivered[entry.reply] = Undelivered(entry, message=cause)

    def _note_runs(self, replied: entries.Replied, turn: Turn | None) -> None:
        """Record the results of the runs that *replied* answers; *turn* if it ends with it."""
        answered = [self.waiting[id_] for id_ in replied.inputs if id_ in self.waiting]
        for received in (*(turn.inputs if turn else ()), *answered):
            if received.bounds is None:
                continue
            # Also if an earlier run asked for the same.
            ends = {receipt.outcome for receipt in turn.receipts} if turn is not None else set()
            self.runs[received.id] = RunResult(
                replied.text,
                replied.failed,
                acted=turn is not None and turn.acted,
                waiting="waiting" in ends and bool(self.pending),
                told=None if replied.quiet else replied.route,
                label=self.taint.label,
                denied="denied" in ends,
            )
            if received.bounds.says in TOLD:
                text = received.text
                cut = text if len(text) <= MAX_WORDS else f"{text[:MAX_WORDS]}… (cut)"
                self.overheard.append(msgspec.structs.replace(received, text=cut))
                del self.overheard[:-MAX_OVERHEARD]
        _bound(self.runs, MAX_RUNS)

    def _open_call(self, entry: Step) -> OpenCall:
        call = self._open_turn(entry).open_call(entry.call)
        if call is None:
            raise ValueError(f"{type(entry).__name__} of no call of the turn")
        return call

    def _open_turn(self, entry: Entry) -> Turn:
        if self.turn is None:
            raise ValueError(f"{type(entry).__name__} outside of a turn")
        return self.turn


def _bound(kept: dict[str, Any], most: int) -> None:
    while len(kept) > most:
        del kept[next(iter(kept))]


def receive(waiting: dict[str, Received], entry: Received) -> None:
    """Add *entry* to *waiting*, replacing a message that it edits.

    Both ids stay, so that both have an outcome; only the new text counts.
    """
    for id_, other in waiting.items():
        if entry.edits is not None and entry.edits in (other.message, other.edits):
            waiting[id_] = msgspec.structs.replace(other, text="", files=(), pending=())
    waiting[entry.id] = entry


def _digest(received: Received) -> str:
    names = (*(file.sha256 for file in received.files), *(file.name for file in received.pending))
    said = "".join((received.text, *names))
    return hashlib.blake2b(said.encode(), digest_size=8).hexdigest()


def account_name(session: str, conversation: int) -> str:
    """Return the account of the conversation with this number in *session*."""
    return session if conversation == 1 else f"{session} ({conversation})"


def may_close(session: Session) -> bool:
    """Return True if the log may be closed here: a message and its turn stay together."""
    return session.turn is None and not session.waiting


# Entries in order: number, Unix time, entry.
Log = Iterable[tuple[int, float, Entry]]


def state_at(session: Session, log: Log, to: int, without: Collection[str] = ()) -> Session:
    """Apply the entries of *log* up to *to* to *session* and return it.

    Skip the messages *without*.
    """
    for seq, at, entry in log:
        if seq > to:
            break
        match entry:
            case Received(id_) | entries.Retried(id_) if id_ in without:
                continue
        session.apply(seq, at, entry)
    return session


# --- the next step --------------------------------------------------------------------------------


class Start(msgspec.Struct, frozen=True):
    """Begin a turn on *inputs*, or on approved *calls* that waited for the owner."""

    inputs: tuple[Received, ...]
    calls: tuple[str, ...] = ()


class Resume(msgspec.Struct, frozen=True):
    """Continue the open turn: its *attempt*-th start in a row without progress."""

    attempt: int


class GiveUpTurn(msgspec.Struct, frozen=True):
    """The open turn was started too often without progress: report that and go on."""


def is_command(received: Received) -> bool:
    """Return True if a message is a slash command; "/etc/hosts is odd" is not."""
    return received.bounds is None and is_typed(received.text)


def command_name(received: Received) -> str:
    """Return the name of a message's slash command in lower case; "" if it is not a command.

    >>> command_name(Received("a", "/Undo 2", "tg:1", Route("telegram"), 0.0))
    'undo'
    """
    return received.text.split(maxsplit=1)[0][1:].lower() if is_command(received) else ""


def is_stop(received: Received) -> bool:
    """Return True if a message is the command that stops the turn and the waiting messages."""
    return command_name(received) == "stop"


def is_typed(text: str) -> bool:
    """Return True if *text* is a slash command when a person writes it.

    >>> is_typed("/undo 2"), is_typed("/notes:plan my week"), is_typed("/etc/hosts: what is it?")
    (True, True, False)
    """
    words = text.split(maxsplit=1)
    return bool(words) and bool(_TYPED.fullmatch(words[0]))


def is_said(received: Received) -> bool:
    """Return True if a person's message has content, is not a command, and was not replaced."""
    is_empty = not (received.text.strip() or received.pending)
    return received.bounds is None and not (is_empty or is_command(received))


def describe_open_work(session: Session) -> list[str]:
    """Describe the work that is left, without the open turn."""
    waiting = sum(not is_command(received) for received in session.waiting.values())
    counts = {
        "messages waiting": waiting,
        "calls waiting for your approval": len(session.pending),
        "answers on their way": len(session.undelivered),
    }
    return [f"{what}: {count}" for what, count in counts.items() if count]


def commands(session: Session) -> tuple[Received, ...]:
    """Return the waiting slash commands, the oldest first."""
    return tuple(received for received in session.waiting.values() if is_command(received))


def inputs(session: Session, moving: Collection[str]) -> tuple[Received, ...]:
    """Return the waiting messages that a turn may take: those before any command in *moving*.

    *moving* are the names of the commands that move the conversation. The run of a task is a
    separate turn; no message joins it, and it joins no turn.
    """
    before = takewhile(lambda one: command_name(one) not in moving, session.waiting.values())
    said = [received for received in before if not is_command(received)]
    if session.turn is None and said and said[0].bounds is not None:
        return (said[0],)
    if session.turn is not None and session.turn.bounds is not None:
        return ()
    return tuple(received for received in said if received.bounds is None)


def find_allowed_calls(session: Session) -> tuple[str, ...]:
    """Return the approved calls of one job: their turn has that job's bounds."""
    kept = {key: one for key, one in session.pending.items() if one.decided is not None}
    jobs = {key: owner_of(one.bounds) for key, one in kept.items()}
    return tuple(key for key, job in jobs.items() if job == next(iter(jobs.values())))


def next_work(session: Session, moving: Collection[str]) -> Start | Resume | GiveUpTurn | None:
    """Return the next step for turns; deliveries are independent of it.

    *moving* are the names of the commands that move the conversation.
    """
    if session.turn is not None:
        attempt = session.turn.attempts + 1
        return GiveUpTurn() if attempt >= entries.MAX_ATTEMPTS else Resume(attempt)
    names = map(command_name, session.waiting.values())
    if (calls := find_allowed_calls(session)) and not any(name in moving for name in names):
        return Start((), calls)
    taken = inputs(session, moving)
    return Start(taken) if taken else None
