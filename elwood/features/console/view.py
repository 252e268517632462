"""The state of a conversation on a terminal: frames and keys in; print, send and draw actions out.

It has no terminal, no socket and no clock: `elwood.features.console.screen` has them.  Each event
returns its actions.  Times are seconds of a monotonic clock.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import assert_never

import attrs
import msgspec
from rich.segment import Segment

from elwood.agent.channels import frames
from elwood.features.console import drawing
from elwood.features.console.drawing import ASKS, DIM, Line
from elwood.foundation.text.lines import clip, duration, one_line

# Seconds for which a new question ignores keys, which may not refer to it.  Seconds without any
# key before a key that decides: typing and pasting are faster.
NOT_AT_ONCE, PAUSE = 0.6, 0.25
# Steps of a turn that Ctrl-O shows, and open questions.
MAX_STEPS, MAX_BOXES = 50, 20
# Rows of a box in the smallest terminal.
MIN_BOX = 8
# Unacknowledged messages; beyond that the oldest cannot be put back into the line.
MAX_SENT = 100
# Waiting messages to show, and characters of one.
MAX_WAITING, ONE_LINE = 3, 100
# Hints of the bottom line; the last ones are omitted if they do not fit, and then the model.
HINT = "Ctrl-D to quit · / commands · @ files · Alt-Enter new line · Ctrl-R history · Ctrl-G editor"
BUSY_HINT = (
    "Esc to stop · Ctrl-B to the background · Ctrl-O for details · "
    "messages sent now join this answer"
)
ASK_HINT = "Tab to answer"
FOCUS_HINT = "press a key to answer · Esc to put it aside · Tab for the next question"
NO_KEY = "That key has no answer here. Press Esc to put the question aside."
TOO_FAST = "That was too quick. Press the key again."
TOO_LONG = "That is too long. Save it as a file and name it with @."
BLOCKED = "Elwood cannot accept messages right now. Try again."
LEAVES = "Press Ctrl-C again to quit."
WATCH_HINT = "Ctrl-D to quit · read-only · Ctrl-O for details"
KEYS = """\
Enter  send · Alt-Enter  new line · Ctrl-G  write in your editor
Esc  stop the answer · Ctrl-C  stop, or clear the line; again to quit · Ctrl-D  quit
Ctrl-O  show the steps · Ctrl-R  search the history · ↑ ↓  earlier lines
/  commands · @  send a file · Tab  answer a question · Ctrl-Z  suspend"""
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"

Item = Callable[[int], list[Line]]
"""Draws a printed item for a width in columns."""


@attrs.frozen
class Print:
    """Print *item* above the rest."""

    item: Item


@attrs.frozen
class Send:
    """Send *message* to Elwood."""

    message: frames.SaidHere


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
    """The newest turn."""

    began: float = 0.0
    # Its duration as text, when it is over.
    took: str = ""
    # Each step with its duration; the running step, and its start.
    steps: dict[str, str] = attrs.field(factory=dict)
    step: str = ""
    step_at: float = 0.0
    # More about steps: the change of a file, or the last lines of output.
    details: dict[str, str] = attrs.field(factory=dict)
    thought: str = ""
    # The part of the unfinished text that is printed above already.
    above: str = ""


class ConversationView:
    """The display of one conversation, and the effects of keys.

    With *watches* there is no input.  *new_id* returns ids for messages.
    """

    def __init__(self, session: str, new_id: Callable[[], str], *, watches: bool = False) -> None:
        self.session = session
        # Number of other conversations that answer in the background.
        self.in_background = 0
        self._new_id = new_id
        self._watches = watches
        self._actions: list[Action] = []
        self._state = frames.State()
        self._turn = _Turn()
        # The unfinished answer, without the part that was printed.
        self.writing = ""
        # Whether the steps and thoughts of the turn are shown.
        self._is_open = False
        # Open questions; those that are one line until they get the focus; those whose answer is
        # not acknowledged yet, by the id of the answer.
        self._boxes: dict[str, frames.Message] = {}
        self._aside: set[str] = set()
        self._answered: dict[str, frames.Message] = {}
        # The index of the question shown, and whether it is cut; the id of the one with the focus,
        # or ""; the time of the last change of a question; the number that one key can allow.
        self._chosen = 0
        self._is_cut = False
        self._focus = ""
        self._asked_at = 0.0
        self._all = 1
        self._reason_for: frames.Message | None = None
        # Messages sent but not acknowledged; messages that wait for the turn.
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
    def has_work(self) -> bool:
        """Whether a message has no answer yet."""
        return self._state.busy or self._state.waiting > 0

    @property
    def name(self) -> str:
        """The title of the conversation, or its name."""
        return drawing.safe(one_line(self._state.title, 40)) or self.session

    @property
    def can_answer(self) -> bool:
        """Whether Tab and ↑ move the focus to a question."""
        return not self._line and bool(self._boxes) and self._reason_for is None

    @property
    def has_focus(self) -> bool:
        """Whether a question gets the keys."""
        return not self._line and bool(self._focus)

    def _take_actions(self) -> list[Action]:
        done, self._actions = self._actions, []
        return done

    def _print(self, item: Item) -> None:
        self._actions.append(Print(item))

    # --- Frames from Elwood -------------------------------------------------------------------

    def take(self, frame: frames.Frame, now: float) -> list[Action]:
        self._now = now
        match frame:
            case frames.Message():
                self._show_message(frame)
            case frames.Changed():
                self._update_question(frame)
            case frames.HeardElsewhere():
                self._print(partial(drawing.draw_message, frame))
            case frames.Writing(markdown=text):
                above = self._turn.above
                self.writing = "" if above.startswith(text) else text.removeprefix(above)
            case frames.Thinking(text=text):
                self._turn.thought = text
            case frames.Running(text=text):
                self._set_step(drawing.safe(text).removeprefix("⏳ "))
            case frames.Detail(step=step, text=text):
                steps = self._turn.steps
                if step in steps or len(steps) < MAX_STEPS:
                    steps.setdefault(step, "")
                    self._turn.details[step] = text
            case frames.Took(id=id, why=why):
                self._acknowledge(id, why)
            case frames.State():
                self._change_state(frame)
            case frames.StopWanted():
                pass  # it is for `once`
            case _:
                assert_never(frame)
        return self._take_actions()

    def begin_other(self, session: str) -> "ConversationView":
        """Return the view of the new *session*; it also has the open questions of this one."""
        other = ConversationView(session, self._new_id)
        other._boxes = {id_: one for id_, one in self._boxes.items() if not one.is_reply}
        other._asked_at = self._now
        return other

    def take_from_background(
        self, other: "ConversationView", frame: frames.Frame, now: float
    ) -> list[Action]:
        """Show the answers and questions of a conversation in the background; note its state."""
        self._now = now
        match frame:
            case frames.Message(is_old=False, is_said=False):
                head = f"“{other.name}” in the background. To continue it: elwood chat --session "
                self._print(partial(drawing.words, head + other.session, style=DIM))
                # Choices of an answer belong to the other conversation.
                choices = () if frame.is_reply else frame.choices
                shown = msgspec.structs.replace(frame, is_reply=False, choices=choices)
                self._show_message(shown)
            case frames.Changed():
                self._update_question(frame)
            case frames.State():
                other.take(frame, now)
        return self._take_actions()

    def _show_message(self, posted: frames.Message) -> None:
        if posted.is_said:
            self._turn.above += f"{posted.text}\n\n"
        if posted.is_said or (posted.is_reply and not posted.is_old):
            self.writing = ""
        is_asked = posted.choices and not posted.is_old and len(self._boxes) < MAX_BOXES
        if is_asked and self._watches:  # a watcher cannot answer it
            self._print(
                partial(drawing.message if posted.is_reply else drawing.draw_question, posted)
            )
            return
        if posted.is_reply or not is_asked:
            self._print(partial(drawing.message, posted))
        if is_asked:
            self._boxes[posted.id] = posted
            self._asked_at = self._now
            self._leave_aside()
        elif posted.choices:
            self._print(partial(drawing.draw_typed_choices, posted.choices))

    def _update_question(self, changed: frames.Changed) -> None:
        question = self._boxes.get(changed.id)
        if question is None:
            return  # printed text stays as it is
        if changed.text is not None:
            question = msgspec.structs.replace(question, text=changed.text, markdown="")
        if changed.choices:
            self._boxes[question.id] = msgspec.structs.replace(question, choices=changed.choices)
            self._reset_focus(question)
        else:
            self._close(question)
            if not question.is_reply:
                self._print(partial(drawing.draw_decision, question, text=question.text))

    def _close(self, question: frames.Message) -> None:
        self._chosen -= question.id in list(self._boxes)[: self._chosen]
        self._boxes.pop(question.id, None)
        self._aside.discard(question.id)
        self._reset_focus(question)
        self._leave_aside()

    def _leave_aside(self) -> None:
        """Show the first question that is not aside, if the shown one is."""
        ids = list(self._boxes)
        if not ids[self._chosen : self._chosen + 1] or ids[self._chosen] in self._aside:
            shown = (at for at, id_ in enumerate(ids) if id_ not in self._aside)
            self._chosen = next(shown, max(0, min(self._chosen, len(ids) - 1)))

    def _reset_focus(self, question: frames.Message) -> None:
        """Remove the focus from a changed question: a key may refer to its old text."""
        self._asked_at = self._now
        if self._focus == question.id:
            self._focus = ""

    def _acknowledge(self, id: str, why: str) -> None:
        text, question = self._sent.pop(id, ""), self._answered.pop(id, None)
        if why:
            if question is not None and len(self._boxes) < MAX_BOXES:
                self._boxes[question.id] = question
                self._asked_at = self._now
            self._waiting.pop(id, None)
            self._print(partial(drawing.words, f"I could not accept that: {why}", style=ASKS))
            if text and not self._line and not text.startswith("/"):
                self._actions.append(FillLine(text))

    def _set_step(self, text: str) -> None:
        turn = self._turn
        what, _, took = text.rpartition(" · ")
        if not took[:1].isdigit():
            what, took = text, ""  # without a duration the step starts now
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
            self._set_step("")
            self.writing, self._turn.took = "", duration(self._now - self._turn.began)
            self._hint = LEAVES if self._is_armed else ""
        while len(self._waiting) > state.waiting:
            self._print(partial(drawing.draw_answer, *self._waiting.pop(next(iter(self._waiting)))))

    # --- Input --------------------------------------------------------------------------------

    def note_key(self, now: float, *, can_send: bool) -> None:
        """Record the time of a key, before its event, and whether Elwood accepts data."""
        self._now, self._can_send = now, can_send
        self._keys_at = (self._keys_at[1], now)

    def change_line(self, line: str) -> None:
        """Set the text of the line: a question has the focus only while the line is empty."""
        if line != self._line:
            self._line = line
            if line:
                self._focus = ""
            self._disarm()

    def enter(self, text: str, files: Sequence[str] = ()) -> list[Action]:
        """Handle Enter: *text* is the line with its pasted blocks; it names *files*."""
        if self._reason_for is not None:
            question, self._reason_for = self._reason_for, None
            if question.id in self._boxes:
                no = dict(drawing.assign_keys(question.choices))[drawing.DENY]
                self._answer_question(question, no, text.strip())
                self._clear()
        elif text.strip() == "/quit":
            self._actions.append(Leave())
        elif text.strip():
            self._send_line(text, files)
        return self._take_actions()

    def _send_line(self, text: str, files: Sequence[str]) -> None:
        shown = self._line
        if len(files) > frames.MAX_FILES:
            self._hint = f"You can send {frames.MAX_FILES} files at once; this names {len(files)}."
        elif id_ := self._send(text, files):
            self._actions.append(AddToHistory(text))
            self._clear()
            for question in [one for one in self._boxes.values() if one.is_reply]:
                self._close(question)  # the message is its answer
            if self._state.busy and not text.startswith("/"):
                self._waiting[id_] = (shown, files)
            else:
                self._print(partial(drawing.draw_answer, shown, files))

    def _send(self, text: str, files: Sequence[str] = ()) -> str:
        """Send *text* and return its id; set a hint and return "" if that is not possible."""
        message = frames.SaidHere(id=self._new_id(), text=text, files=tuple(files))
        if len(frames.encode(message)) > frames.MAX_FRAME:
            self._hint = TOO_LONG
            return ""
        if not self._can_send:
            self._hint = BLOCKED
            return ""
        self._actions.append(Send(message))
        self._sent[message.id] = text
        while len(self._sent) > MAX_SENT:
            del self._sent[next(iter(self._sent))]
        return message.id

    def move_focus(self, by: int) -> None:
        """Move the focus to the shown question, to the next one, or back to the line."""
        ids = list(self._boxes)
        at = self._chosen % len(ids)
        if self._focus:
            at = max(0, ids.index(self._focus) + by)
        self._focus = ids[at] if at < len(ids) else ""
        self._aside.discard(self._focus)
        self._chosen = at % len(ids)
        self._disarm()

    def press(self, key: str) -> list[Action]:
        """Answer the focused question if *key* is in its box."""
        question = self._boxes[self._focus]
        choices = dict(drawing.assign_keys(question.choices))
        is_reason = key == drawing.REASON and drawing.DENY in choices
        is_all = key == drawing.ALL and drawing.DENY in choices and self._all > 1
        self._disarm()
        if not key or not (is_reason or is_all or key in choices):
            self._hint = NO_KEY
        elif self._is_too_soon():
            self._hint = TOO_FAST
        elif is_reason:
            self._reason_for, self._focus = question, ""
        elif is_all:
            for one in self._about_calls():
                self._answer_question(one, dict(drawing.assign_keys(one.choices))["y"])
        elif key == drawing.DETAILS:
            self._send(choices[key].says)
        else:
            self._answer_question(question, choices[key])
        return self._take_actions()

    def _is_too_soon(self) -> bool:
        """Return True if the key came right after the question, or in a burst of keys."""
        before, now = self._keys_at
        return now - self._asked_at < NOT_AT_ONCE or now - before < PAUSE

    def _about_calls(self) -> list[frames.Message]:
        """Return the open questions about calls."""
        once = drawing.LETTERS["once"]
        return [
            one for one in self._boxes.values() if once in dict(drawing.assign_keys(one.choices))
        ]

    def _answer_question(
        self, question: frames.Message, choice: frames.Choice, why: str = ""
    ) -> None:
        """Send the answer; Elwood's reply tells the decision."""
        if id_ := self._send(choice.says):
            self._close(question)
            self._answered[id_] = question
            if question.is_reply:
                self._print(partial(drawing.draw_answer, choice.text, ()))
            if why and self._send(why):
                self._print(partial(drawing.draw_answer, why, ()))

    def escape(self) -> list[Action]:
        """Put the focused question aside, end a reason, or stop the answer."""
        if self._focus:
            self._aside.add(self._focus)
            self._focus = ""
            self._leave_aside()
            self._disarm()
        elif self._reason_for:
            self._reason_for = None
        elif self._state.busy:
            self._stop_answer()
        return self._take_actions()

    def interrupt(self) -> list[Action]:
        """Handle Ctrl-C: stop the answer or clear the line; leave at the second one."""
        if self._is_armed:
            self._actions.append(Leave())
        elif self._state.busy:
            self._stop_answer()
            self._hint = f"{self._hint} {LEAVES}".strip()
        else:
            self._reason_for = None
            self._clear()
            self._hint = LEAVES
        self._is_armed = True
        return self._take_actions()

    def _stop_answer(self) -> None:
        if self._send("/stop"):
            self._hint = "Stopping …"
            self._keep_writing()

    def _keep_writing(self) -> None:
        """Print the unfinished answer: the final one may not contain it."""
        if self.writing.strip():
            self._print(partial(drawing.markdown, self.writing))
            self._turn.above += self.writing
            self.writing = ""

    def open(self) -> list[Action]:
        """Print all of a question that does not fit, show the steps, or print those of before."""
        turn = self._turn
        if self._boxes and self._is_cut:
            question = list(self._boxes.values())[self._chosen % len(self._boxes)]
            self._print(partial(drawing.message, question))
        elif self._state.busy:
            self._is_open = not self._is_open
        elif turn.steps or turn.thought:
            self._print(partial(drawing.draw_steps, turn.steps, turn.details, turn.thought))
            self._turn = _Turn()
        return self._take_actions()

    def refuse(self, why: str) -> None:
        """Show why a key has no effect."""
        self._hint = why

    def show_keys(self) -> list[Action]:
        self._print(partial(drawing.words, KEYS, style=DIM))
        return self._take_actions()

    def leave(self) -> list[Action]:
        """Print the unfinished answer and the open questions."""
        self._keep_writing()
        for question in self._boxes.values():
            if not question.is_reply:
                self._print(partial(drawing.summarize_question, question, note="still waiting"))
        return self._take_actions()

    def _clear(self) -> None:
        self._actions.append(FillLine(""))
        self._focus = self._line = ""
        self._disarm()

    def _disarm(self) -> None:
        self._is_armed, self._hint = False, ""

    # --- Output -------------------------------------------------------------------------------

    def draw(
        self, answer: Sequence[Line], width: int, rows: int, room: int, now: float
    ) -> list[Line]:
        """Draw the part above the line, in *room* of the *rows* of the terminal.

        *answer* is `writing` as drawn; its last lines are shown.
        """
        below = self._draw_status(width, rows // 3, now)
        for text, files in [*self._waiting.values()][-MAX_WAITING:]:
            waits = f"{one_line(text, ONE_LINE)} (waiting)"
            below += drawing.dim(drawing.draw_answer(waits, files, width))
        if self._boxes:
            below += self._draw_questions(width, min(room - len(below), rows // 2))
        room -= len(below) + 1
        return [[], *answer[-room:], [], *below] if answer and room > 0 else [[], *below]

    def _draw_status(self, width: int, rows: int, now: float) -> list[Line]:
        """Draw the running step and its last line; if opened, the last *rows* about all steps."""
        turn = self._turn
        count = len(turn.steps)
        if self._state.busy:
            what = "waiting for you" if self._boxes else "writing" if self.writing else "thinking"
            since = turn.step_at if turn.step else turn.began
            took = turn.steps.get(turn.step) or duration(now - since)
            spin = _SPINNER[int(now * 4) % len(_SPINNER)]
            last = drawing.safe(turn.details.get(turn.step, "").rstrip().rpartition("\n")[2])
            lines: list[Line] = [[Segment(clip(f"  {last}", width), DIM)]] if last else []
            if self._is_open:
                lines = drawing.draw_steps(turn.steps, turn.details, turn.thought, width)[-rows:]
            now_runs = clip(f"{spin} {turn.step or what}", width - len(took) - 3)
            return [*lines, [Segment(f"{now_runs} · {took}", DIM)]]
        if count or turn.thought:
            steps = f"{count} step{'s' * (count > 1)}" if count else "thought"
            return [[Segment(clip(f"▸ {steps}, {turn.took} · Ctrl-O", width), DIM)]]
        return []

    def _draw_questions(self, width: int, rows: int) -> list[Line]:
        """Draw one question in a box and the others in a line each, in *rows* if possible."""
        questions = list(self._boxes.values())
        self._chosen %= len(questions)
        shown = questions[self._chosen]
        is_aside = shown.id in self._aside
        others = [one for one in questions if is_aside or one is not shown]
        fits = max(1, rows if is_aside else rows - MIN_BOX)
        drawn = [line for one in others[:fits] for line in drawing.summarize_question(one, width)]
        if more := len(others[fits:]):
            drawn[-1] = drawing.words(f"? and {more + 1} more questions", width, ASKS)[0]
        # One key allows only questions that are shown.
        self._all = 1 if more else len(self._about_calls())
        self._is_cut = False
        if is_aside:
            return drawn
        title = "clear the line, then Tab to answer" if self._line else "Tab to answer"
        title = "press a key" if self._focus else "" if self._reason_for else title
        box = partial(
            drawing.box, shown, width, title=title, has_focus=bool(self._focus), count=self._all
        )
        whole = box()
        rows = max(MIN_BOX, rows - len(drawn))
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
        if self.in_background:
            hint = f"{self.in_background} in the background · {hint}"
        names = (drawing.safe(one_line(name, 28)) for name in (self.session, self._state.model))
        parts = [*filter(None, names), *hint.split(" · ")]
        while len(parts) > 2 and len(" · ".join(parts)) >= columns:
            parts.pop(-1 if len(parts) > 3 or not self._state.model else 1)
        if title := drawing.safe(one_line(self._state.title, 40)):
            titled = " · ".join([parts[0], title, *parts[1:]])
            return titled if len(titled) < columns else " · ".join(parts)
        return " · ".join(parts)
