"""The state of a conversation on a terminal: frames and keys in; what to print, send and draw out.

It has no terminal, no socket and no clock: `elwood.features.console.screen` has them.  Each event
returns the actions that follow from it.  Times are seconds of a monotonic clock.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import assert_never

import attrs
import msgspec
from rich.segment import Segment

from elwood.agent.channels import frames
from elwood.features.console import drawing
from elwood.features.console.drawing import ACCENT, ASKS, DIM, Line
from elwood.foundation.text.lines import clip, duration, one_line

# Seconds for which a new question ignores keys: one that was on its way decides nothing.  Seconds
# without any key before one that decides: typing and pasting are faster.
NOT_AT_ONCE, PAUSE = 0.6, 0.25
# Steps of a turn that Ctrl-O shows, and questions that wait for a key.
MAX_STEPS, MAX_BOXES = 50, 20
# Messages that are not yet taken; of more the oldest cannot be put back into the line.
MAX_SENT = 100
# Messages that are shown to wait; characters of one.
MAX_WAITING, ONE_LINE = 3, 100
# The bottom line; what does not fit is left out, from the end, and then the model before it.
HINT = "Ctrl-D ends · / commands · @ files · Alt-Enter new line · Ctrl-R history · Ctrl-G editor"
BUSY_HINT = "Esc stops · what you say now goes along · Ctrl-O shows more"
ASK_HINT = "Tab answers the question"
FOCUS_HINT = "a key answers · Esc to the line · Tab to the next"
NO_KEY = "Not a key of this box. Esc goes back to the line."
TOO_FAST = "That came too fast. Press it again."
TOO_LONG = "That is too long. Save it as a file, and name it with @."
BLOCKED = "Elwood takes nothing at the moment; try again."
LEAVES = "Ctrl-C again leaves."
WATCH_HINT = "Ctrl-D ends · you only look on · Ctrl-O shows more"
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"

Item = Callable[[int], list[Line]]
"""Draws something that is printed, for a width in columns."""


@attrs.frozen
class Print:
    """Print *item* above the rest."""

    item: Item


@attrs.frozen
class Send:
    """Send *said* to Elwood."""

    said: frames.SaidHere


@attrs.frozen
class AddToHistory:
    """Add *text* to the history of the line."""

    text: str


@attrs.frozen
class FillLine:
    """Replace the text of the line; "" empties it."""

    text: str


@attrs.frozen
class Leave:
    """End with exit code 0."""


Action = Print | Send | AddToHistory | FillLine | Leave


@attrs.define
class _Turn:
    """What is known of the newest turn."""

    began: float = 0.0
    # How long it took, in words, when it is over.
    took: str = ""
    # Each step with the time it took; the one that runs, and since when.
    steps: dict[str, str] = attrs.field(factory=dict)
    step: str = ""
    step_at: float = 0.0
    thought: str = ""
    # What of the text being written was printed above already.
    above: str = ""


class ConversationView:
    """What is shown of one conversation, and what each key does to it.

    Who *watches* types and decides nothing.  *new_id* returns ids for messages.
    """

    def __init__(self, session: str, new_id: Callable[[], str], *, watches: bool = False) -> None:
        self._session = session
        self._new_id = new_id
        self._watches = watches
        self._actions: list[Action] = []
        self._state = frames.State()
        self._turn = _Turn()
        # The answer as far as it is written, without the part that was printed.
        self.writing = ""
        # Whether the steps and thoughts of the turn are shown.
        self._is_open = False
        # Open questions; which one is shown, and whether all of it; the id of the one that takes
        # the keys, if any does; when the last question changed.
        self._boxes: dict[str, frames.Message] = {}
        self._chosen = 0
        self._is_cut = False
        self._focus = ""
        self._asked_at = 0.0
        self._reason_for: frames.Message | None = None
        # What was sent and not yet taken; what waits for the turn.
        self._sent: dict[str, str] = {}
        self._waiting: dict[str, tuple[str, Sequence[str]]] = {}
        # The text of the line; the times of the last two keys, and of the last event.
        self._line = ""
        self._keys_at = (0.0, 0.0)
        self._now = 0.0
        # Whether Elwood reads; whether the next Ctrl-C leaves; the hint instead of the usual one.
        self._can_send = True
        self._is_armed = False
        self._hint = ""

    @property
    def is_busy(self) -> bool:
        return self._state.busy

    @property
    def can_answer(self) -> bool:
        """Whether Tab and ↑ give the keys to a question."""
        return not self._line and bool(self._boxes) and self._reason_for is None

    @property
    def has_focus(self) -> bool:
        """Whether a question takes the keys."""
        return not self._line and bool(self._focus)

    def _done(self) -> list[Action]:
        done, self._actions = self._actions, []
        return done

    def _print(self, item: Item) -> None:
        self._actions.append(Print(item))

    # --- What Elwood says ---------------------------------------------------------------------

    def take(self, frame: frames.Frame, now: float) -> list[Action]:
        self._now = now
        match frame:
            case frames.Message():
                self._post(frame)
            case frames.Changed():
                self._change(frame)
            case frames.HeardElsewhere():
                self._print(partial(drawing.heard, frame))
            case frames.Writing(markdown=text):
                above = self._turn.above
                self.writing = "" if above.startswith(text) else text.removeprefix(above)
            case frames.Thinking(text=text):
                self._turn.thought = text
            case frames.Running(text=text):
                self._run(drawing.safe(text).removeprefix("⏳ "))
            case frames.Took(id=id, why=why):
                self._took(id, why)
            case frames.State():
                self._change_state(frame)
            case frames.StopWanted():
                pass  # it is for `once`
            case _:
                assert_never(frame)
        return self._done()

    def _post(self, posted: frames.Message) -> None:
        if posted.is_said:
            self._turn.above += f"{posted.text}\n\n"
        if posted.is_said or (posted.is_reply and not posted.is_old):
            self.writing = ""
        is_asked = posted.choices and not posted.is_old and len(self._boxes) < MAX_BOXES
        if is_asked and self._watches:  # no key of theirs decides it
            self._print(partial(drawing.message if posted.is_reply else drawing.decided, posted))
            return
        if posted.is_reply or not is_asked:
            self._print(partial(drawing.message, posted))
        if is_asked:
            self._boxes[posted.id] = posted
            self._asked_at = self._now
        elif posted.choices:
            self._print(partial(drawing.typed_choices, posted.choices))

    def _change(self, changed: frames.Changed) -> None:
        asked = self._boxes.get(changed.id)
        if asked is None:
            return  # what was printed stays
        if changed.text is not None:
            asked = msgspec.structs.replace(asked, text=changed.text, markdown="")
        if changed.choices:
            self._boxes[asked.id] = msgspec.structs.replace(asked, choices=changed.choices)
            self._renew(asked)
        else:
            self._close(asked)

    def _close(self, asked: frames.Message, end: str = "") -> None:
        self._chosen -= asked.id in list(self._boxes)[: self._chosen]
        self._boxes.pop(asked.id, None)
        self._renew(asked)
        if not asked.is_reply:
            self._print(partial(drawing.decided, asked, end=end))
        elif end:
            self._print(partial(drawing.said, end, ()))

    def _renew(self, asked: frames.Message) -> None:
        """Take the focus from a question that changed: a key may be on its way to the old one."""
        self._asked_at = self._now
        if self._focus == asked.id:
            self._focus = ""

    def _took(self, id: str, why: str) -> None:
        text = self._sent.pop(id, "")
        if why:
            self._waiting.pop(id, None)
            self._print(partial(drawing.words, f"I did not take that: {why}", style=ASKS))
            if text and not self._line and not text.startswith("/"):
                self._actions.append(FillLine(text))

    def _run(self, text: str) -> None:
        turn = self._turn
        what, _, took = text.rpartition(" · ")
        if not took[:1].isdigit():
            what, took = text, ""  # without a duration it is from now on
        if what != turn.step:
            if turn.steps.get(turn.step) == "":
                turn.steps[turn.step] = duration(self._now - turn.step_at)
            turn.step, turn.step_at = what, self._now
        if what and (what in turn.steps or len(turn.steps) < MAX_STEPS):
            turn.steps[what] = took

    def _change_state(self, state: frames.State) -> None:
        before, self._state = self._state, state
        if state.busy and not before.busy:
            self._disarm()
            self._turn = _Turn(began=self._now)
            self._is_open = False
        elif before.busy and not state.busy:
            self._run("")
            self.writing, self._turn.took = "", duration(self._now - self._turn.began)
            self._hint = LEAVES if self._is_armed else ""
        while len(self._waiting) > state.waiting:
            self._print(partial(drawing.said, *self._waiting.pop(next(iter(self._waiting)))))

    # --- What is typed ------------------------------------------------------------------------

    def note_key(self, now: float, *, can_send: bool) -> None:
        """Note the time of a key, before the event that it causes, and whether Elwood reads."""
        self._now, self._can_send = now, can_send
        self._keys_at = (self._keys_at[1], now)

    def change_line(self, line: str) -> None:
        """Note that the line reads *line*: a question has the keys only while it is empty."""
        if line != self._line:
            self._line = line
            if line:
                self._focus = ""
            self._disarm()

    def enter(self, text: str, files: Sequence[str] = ()) -> list[Action]:
        """Take the line, which is *text* with its pasted blocks and names *files*."""
        if self._reason_for is not None:
            asked, self._reason_for = self._reason_for, None
            if asked.id in self._boxes:
                no = dict(drawing.keyed(asked.choices))[drawing.DENY]
                self._answer_with(asked, no, text.strip())
                self._clear()
        elif text.strip() == "/quit":
            self._actions.append(Leave())
        elif text.strip():
            self._say(text, files)
        return self._done()

    def _say(self, text: str, files: Sequence[str]) -> None:
        shown = self._line
        if len(files) > frames.MAX_FILES:
            self._hint = f"At most {frames.MAX_FILES} files go along; that names {len(files)}."
        elif id_ := self._send(text, files):
            self._actions.append(AddToHistory(text))
            self._clear()
            for asked in [one for one in self._boxes.values() if one.is_reply]:
                self._close(asked)  # it was answered in words
            if self._state.busy and not text.startswith("/"):
                self._waiting[id_] = (shown, files)
            else:
                self._print(partial(drawing.said, shown, files))

    def _send(self, text: str, files: Sequence[str] = ()) -> str:
        """Send *text* and return its id; "" and a hint, if Elwood would not take it."""
        said = frames.SaidHere(id=self._new_id(), text=text, files=tuple(files))
        if len(frames.encode(said)) > frames.MAX_FRAME:
            self._hint = TOO_LONG
            return ""
        if not self._can_send:
            self._hint = BLOCKED
            return ""
        self._actions.append(Send(said))
        self._sent[said.id] = text
        while len(self._sent) > MAX_SENT:
            del self._sent[next(iter(self._sent))]
        return said.id

    def move_focus(self, by: int) -> None:
        """Give the keys to the question that is shown, to the next one, or back to the line."""
        ids = list(self._boxes)
        at = self._chosen % len(ids)
        if self._focus:
            at = max(0, ids.index(self._focus) + by)
        self._focus = ids[at] if at < len(ids) else ""
        self._chosen = at % len(ids)
        self._disarm()

    def press(self, key: str) -> list[Action]:
        """Answer the question that has the focus, if *key* is one of its box."""
        asked = self._boxes[self._focus]
        choices = dict(drawing.keyed(asked.choices))
        is_reason = key == drawing.REASON and drawing.DENY in choices
        self._disarm()
        if not key or not (is_reason or key in choices):
            self._hint = NO_KEY
        elif self._is_too_soon():
            self._hint = TOO_FAST
        elif is_reason:
            self._reason_for, self._focus = asked, ""
        elif key == drawing.DETAILS:
            self._send(choices[key].says)
        else:
            self._answer_with(asked, choices[key])
        return self._done()

    def _is_too_soon(self) -> bool:
        """Check whether the key was on its way before the question was seen, or is of a burst."""
        before, now = self._keys_at
        return now - self._asked_at < NOT_AT_ONCE or now - before < PAUSE

    def _answer_with(self, asked: frames.Message, choice: frames.Choice, why: str = "") -> None:
        if self._send(choice.says):
            self._close(asked, f"{choice.text}: {why}" if why else choice.text)
            if why:
                self._send(why)

    def escape(self) -> list[Action]:
        if self._focus:
            self._focus = ""
            self._disarm()
        elif self._reason_for:
            self._reason_for = None
        elif self._state.busy:
            self._stop()
        return self._done()

    def interrupt(self) -> list[Action]:
        """Take a Ctrl-C: stop the answer or clear the line, and leave at the second one."""
        if self._is_armed:
            self._actions.append(Leave())
        elif self._state.busy:
            self._stop()
            self._hint = f"{self._hint} {LEAVES}".strip()
        else:
            self._reason_for = None
            self._clear()
            self._hint = LEAVES
        self._is_armed = True
        return self._done()

    def _stop(self) -> None:
        if self._send("/stop"):
            self._hint = "Stopping …"
            self._keep_writing()

    def _keep_writing(self) -> None:
        """Print what is written: no answer may come that has it."""
        if self.writing.strip():
            self._print(partial(drawing.markdown, self.writing))
            self._turn.above += self.writing
            self.writing = ""

    def open(self) -> list[Action]:
        """Show the steps of this turn, or the whole of a question that does not fit."""
        if self._boxes and self._is_cut:
            asked = list(self._boxes.values())[self._chosen % len(self._boxes)]
            self._print(partial(drawing.message, asked))
        else:
            self._is_open = not self._is_open
        return self._done()

    def leave(self) -> list[Action]:
        """Print what would be lost with the terminal."""
        self._keep_writing()
        for asked in list(self._boxes.values()):
            self._close(asked)
        return self._done()

    def _clear(self) -> None:
        self._actions.append(FillLine(""))
        self._focus = self._line = ""
        self._disarm()

    def _disarm(self) -> None:
        self._is_armed, self._hint = False, ""

    # --- What is shown ------------------------------------------------------------------------

    def draw(
        self, answer: Sequence[Line], width: int, rows: int, room: int, now: float
    ) -> list[Line]:
        """Draw the part above the line, in *room* of the *rows* of the terminal.

        *answer* is `writing` as drawn; its end is shown, as far as there is room.
        """
        below = self._status(width, rows // 3, now)
        for text, files in [*self._waiting.values()][-MAX_WAITING:]:
            waits = f"{one_line(text, ONE_LINE)} (waiting)"
            below += drawing.dimmed(drawing.said(waits, files, width))
        if self._boxes:
            below += self._questions(width, room - len(below))
        room -= len(below) + 1
        return [[], *answer[-room:], [], *below] if answer and room > 0 else [[], *below]

    def _status(self, width: int, rows: int, now: float) -> list[Line]:
        """Draw what runs, at most *rows* of thoughts, and the steps before, if they are open."""
        turn = self._turn
        count = len(turn.steps)
        lines, thought = list[str](), list[Line]()
        if self._is_open:
            thought = drawing.dimmed(drawing.tail(turn.thought, width, rows))
            lines = [f"  {step} · {took}".rstrip(" ·") for step, took in turn.steps.items()]
        if self._state.busy:
            what = "waiting for you" if self._boxes else "writing" if self.writing else "thinking"
            since = turn.step_at if turn.step else turn.began
            took = turn.steps.get(turn.step) or duration(now - since)
            spin = _SPINNER[int(now * 4) % len(_SPINNER)]
            lines.append(f"{spin} {turn.step or what} · {took}")
        elif count or turn.thought:
            steps = f"{count} step{'s' * (count > 1)}" if count else "thought"
            lines.append(f"{'▾' if self._is_open else '▸'} {steps}, {turn.took} · Ctrl-O")
        return [*thought, *([Segment(clip(line, width), DIM)] for line in lines)]

    def _questions(self, width: int, rows: int) -> list[Line]:
        asked = list(self._boxes.values())
        self._chosen %= len(asked)
        drawn: list[Line] = []
        if len(asked) > 1:
            which = f"Question {self._chosen + 1} of {len(asked)}"
            drawn = drawing.words(which, width, ACCENT)
        title = "empty the line, then Tab" if self._line else "Tab to answer"
        title = "press a key" if self._focus else "" if self._reason_for else title
        box = partial(
            drawing.box, asked[self._chosen], width, title=title, has_focus=bool(self._focus)
        )
        whole = box()
        rows = max(8, rows - len(drawn))
        self._is_cut = len(whole) > rows
        return drawn + (box(rows) if self._is_cut else whole)

    @property
    def prompt(self) -> str:
        return "no, because > " if self._reason_for else "> "

    def bottom(self, columns: int) -> str:
        """Return the bottom line: session, model and hints."""
        usual = WATCH_HINT if self._watches else BUSY_HINT if self._state.busy else HINT
        if self.can_answer:
            usual = FOCUS_HINT if self._focus else f"{ASK_HINT} · {usual}"
        hint = self._hint or usual
        names = (drawing.safe(one_line(name, 28)) for name in (self._session, self._state.model))
        parts = [*filter(None, names), *hint.split(" · ")]
        while len(parts) > 2 and len(" · ".join(parts)) >= columns:
            parts.pop(-1 if len(parts) > 3 or not self._state.model else 1)
        return " · ".join(parts)
