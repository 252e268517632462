"""A conversation on a terminal: what is finished stands above, as in any shell; below it is typed.

Knows the frames and the terminal, and nothing of who runs Elwood.  It may sit in a thread that is
not the main one, where signals cannot be heard: there the end of the connection ends it.
"""

import asyncio
import os
import secrets
import signal
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import assert_never

import msgspec
from prompt_toolkit import layout
from prompt_toolkit.application import Application, get_app_session
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.data_structures import Size
from prompt_toolkit.filters import Condition, FilterOrBool, is_searching
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout.menus import CompletionsMenu
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.patch_stdout import patch_stdout
from prompt_toolkit.styles import Style
from prompt_toolkit.widgets import SearchToolbar
from rich.segment import Segment

from elwood.agent.channels import frames
from elwood.features.console import drawing
from elwood.features.console.client import GONE, read
from elwood.features.console.drawing import ACCENT, ASKS, DIM, NUMBERS, Line
from elwood.features.console.editing import KeptHistory, Pasted, Words, files_in
from elwood.foundation.command_line import CliFailure
from elwood.foundation.text.lines import clip, duration, one_line

# Seconds between two pictures of an answer that is being written, and how many times as long as
# drawing one took: keys come first.
FRAME, REST = 1 / 15, 4
# Seconds for which a new question ignores keys: one that was on its way decides nothing.  Seconds
# without any key before one that decides: typing and pasting are faster.
NOT_AT_ONCE, PAUSE = 0.6, 0.25
# Seconds after which a lone Esc is no beginning of Alt-something.
ESC = 0.1
# Things printed last, which are drawn anew when the width has changed, and things that came while
# an editor is open; of more the oldest go.
MAX_ITEMS, MAX_PENDING = 60, 1000
# Steps of a turn that Ctrl-O shows, questions that wait for a key, messages not yet taken.
MAX_STEPS, MAX_BOXES, MAX_SENT = 50, 20, 100
# Bytes that may wait for an Elwood which does not read.
MAX_UNSENT = 4 * frames.MAX_FRAME
# Rows of what is typed, and of its completions.
INPUT_ROWS, MENU_ROWS = 8, 6
# Messages that are shown to wait, and questions that are listed; characters of one.
MAX_WAITING, MAX_LISTED, ONE_LINE = 3, 5, 100
# The bottom line; what does not fit is left out, from the end, and then the model before it.
HINT = "Ctrl-D ends · / commands · @ files · Alt-Enter new line · Ctrl-R history · Ctrl-G editor"
BUSY_HINT = "Esc stops · what you say now goes along · Ctrl-O shows more"
ASK_HINT = "Tab answers the question"
FOCUS_HINT = "a key answers · Esc to the line · Tab to the next"
NO_KEY = "Not a key of this box. Esc goes back to the line."
TOO_FAST = "That came too fast. Press it again."
LEAVES = "Ctrl-C again leaves."
WATCH_HINT = "Ctrl-D ends · you only look on · Ctrl-O shows more"
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_PLAIN = "noreverse bg:default fg:default"
_STYLE = Style(
    [
        ("completion-menu", _PLAIN),
        ("completion-menu.completion", _PLAIN),
        ("completion-menu.completion.current", "noreverse bg:default fg:ansicyan bold"),
        ("completion-menu.meta.completion", f"{_PLAIN} dim"),
        ("completion-menu.meta.completion.current", _PLAIN),
    ]
)
_Item = Callable[[int], list[Line]]


def sit(
    connection: socket.socket,
    *,
    session: str,
    history: Path,
    commands: Sequence[tuple[str, str]] = (),
    note: str = "",
    watches: bool = False,
) -> int:
    """Talk over *connection*, which is attached, until Ctrl-D, ``/quit`` or the end of Elwood.

    *commands* are completed, with what they do; *note* stands above it all.  Who *watches* types
    and decides nothing.  Return an exit code; the terminal is as it was before, whatever happens.
    """
    screen = _Screen(session, history, commands, watches)
    return asyncio.run(screen.run(connection, note))


class _Screen:
    """What is shown of one conversation, and what each key does to it."""

    def __init__(
        self, session: str, history: Path, commands: Sequence[tuple[str, str]], watches: bool
    ) -> None:
        self._session = session
        self._watches = watches
        self._writer: asyncio.StreamWriter | None = None
        # What was printed above, what will be, and whether an editor has the terminal.
        self._items: deque[_Item] = deque(maxlen=MAX_ITEMS)
        self._pending: deque[_Item] = deque(maxlen=MAX_PENDING)
        self._is_away = False
        self._last_words = ""
        # The answer as far as it is written, what of it was printed, the same as drawn, and the
        # columns it was drawn for.
        self._writing = self._above = ""
        self._answer: list[Line] = []
        self._width = 0
        self._changed = asyncio.Event()
        # What runs or ran in this turn, with its time, and its last thoughts; whether Ctrl-O shows
        # all of that.
        self._state = frames.State()
        self._steps: dict[str, str] = {}
        self._step = ""
        self._step_at = self._began = 0.0
        self._took_all = self._thought = ""
        self._is_open = False
        # Open questions; which one is shown, and whether all of it; the id of the one that takes
        # the keys, if any does; when the last question changed, and the last two keys came.
        self._boxes: dict[str, frames.Message] = {}
        self._chosen = 0
        self._is_cut = False
        self._focus = ""
        self._asked_at = 0.0
        self._keys_at = (0.0, 0.0)
        self._reason_for: frames.Message | None = None
        # What was sent and not yet taken; what waits for the turn.
        self._sent: dict[str, str] = {}
        self._waiting: dict[str, tuple[str, list[str]]] = {}
        # What the next Ctrl-C leaves at, and what the bottom line says instead of the usual.
        self._is_armed = False
        self._hint = ""

        self._pasted = Pasted()
        self._history = KeptHistory(history)
        self._buffer = Buffer(
            completer=Words(commands),
            complete_while_typing=True,
            history=self._history,
            tempfile_suffix=".md",
            on_text_changed=lambda _: self._typed(),
        )
        search = SearchToolbar()
        control = layout.BufferControl(
            self._buffer, search_buffer_control=search.control, preview_search=True
        )
        above = layout.FormattedTextControl(self._compose)
        below = layout.FormattedTextControl(self._bottom)
        input_rows: list[layout.containers.AnyContainer] = [
            layout.Window(
                control,
                height=layout.Dimension(min=1, max=INPUT_ROWS),
                dont_extend_height=True,
                wrap_lines=True,
                get_line_prefix=self._prefix,
            ),
            search,
            CompletionsMenu(max_height=MENU_ROWS),
        ]
        rows = [
            layout.Window(above, dont_extend_height=True),
            *(() if watches else input_rows),
            layout.Window(below, height=1, dont_extend_height=True),
        ]
        output = get_app_session().output
        if isinstance(output, Vt100_Output):
            # A terminal's answer to "where is the cursor?" may come when nobody reads it any more.
            output.enable_cpr = False
        has_colour = not os.environ.get("NO_COLOR")
        self._app: Application[int] = Application(
            layout=layout.Layout(
                layout.HSplit(rows, align=layout.VerticalAlign.TOP), None if watches else control
            ),
            key_bindings=self._keys(),
            style=_STYLE,
            color_depth=ColorDepth.DEPTH_4_BIT if has_colour else ColorDepth.DEPTH_1_BIT,
            erase_when_done=True,
            before_render=lambda _: self._fit(),
        )
        self._app.timeoutlen = self._app.ttimeoutlen = ESC
        self._app.key_processor.before_key_press += lambda _: self._note_key()

    async def run(self, connection: socket.socket, note: str) -> int:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: self._failed(context))
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGHUP):
                loop.add_signal_handler(number, self._end, 128 + number)
        connection.setblocking(False)
        reader, self._writer = await asyncio.open_connection(sock=connection)

        def start() -> None:
            self._width = self._size().columns
            if note:
                self._print(partial(drawing.markdown, note))
            self._flush()
            for task in (self._read(reader), self._draw(), self._tick()):
                self._app.create_background_task(task)

        try:
            # What a house in this process has to say on stderr is printed above as well.
            with patch_stdout():
                code = await self._app.run_async(pre_run=start, set_exception_handler=False)
            self._keep()
            for asked in list(self._boxes.values()):
                self._close(asked)
            if self._last_words:
                self._print(partial(drawing.words, self._last_words, style=ASKS))
            self._flush()
        except (EOFError, OSError):  # the terminal has gone
            return 1
        finally:
            self._writer.close()
        return code

    def _failed(self, context: dict[str, object]) -> None:
        error = context.get("exception")
        if isinstance(error, Exception) and self._app.future and not self._app.future.done():
            self._app.exit(exception=error)

    def _end(self, code: int = 0, words: str = "") -> None:
        if self._app.future and not self._app.future.done():
            self._last_words = words
            self._app.exit(result=code)

    # --- What Elwood says ---------------------------------------------------------------------

    async def _read(self, reader: asyncio.StreamReader) -> None:
        rest, words = b"", GONE.format(self._session)
        try:
            while len(rest) <= frames.MAX_FRAME and (data := await reader.read(64 * 1024)):
                *whole, rest = (rest + data).split(b"\n")
                for line in whole:
                    self._take(read(line))
                self._flush()
        except CliFailure as error:
            words = str(error)
        except OSError:
            pass  # it is the end of the connection, too
        self._end(1, words)

    def _take(self, frame: frames.Frame) -> None:
        self._changed.set()
        match frame:
            case frames.Message():
                self._post(frame)
            case frames.Changed():
                self._change(frame)
            case frames.HeardElsewhere():
                self._print(partial(drawing.heard, frame))
            case frames.Writing(markdown=text):
                is_above = self._above.startswith(text)
                self._writing = "" if is_above else text.removeprefix(self._above)
            case frames.Thinking(text=text):
                self._thought = text
            case frames.Running(text=text):
                self._run(drawing.safe(text).removeprefix("⏳ "))
            case frames.Took(id=id, why=why):
                self._took(id, why)
            case frames.State():
                self._turn(frame)
            case frames.StopWanted():
                pass  # it is for `once`
            case _:
                assert_never(frame)

    def _post(self, posted: frames.Message) -> None:
        if posted.is_said:
            self._above += f"{posted.text}\n\n"
        if posted.is_said or (posted.is_reply and not posted.is_old):
            self._writing, self._answer = "", []
        is_asked = posted.choices and not posted.is_old and len(self._boxes) < MAX_BOXES
        if is_asked and self._watches:  # no key of theirs decides it
            self._print(partial(drawing.message if posted.is_reply else drawing.decided, posted))
            return
        if posted.is_reply or not is_asked:
            self._print(partial(drawing.message, posted))
        if is_asked:
            self._boxes[posted.id] = posted
            self._asked_at = time.monotonic()
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
        self._asked_at = time.monotonic()
        if self._focus == asked.id:
            self._focus = ""

    def _took(self, id: str, why: str) -> None:
        text = self._sent.pop(id, "")
        if why:
            self._waiting.pop(id, None)
            self._print(partial(drawing.words, f"I did not take that: {why}", style=ASKS))
            if text and not self._buffer.text and not text.startswith("/"):
                self._fill(text)

    def _run(self, text: str) -> None:
        what, _, took = text.rpartition(" · ")
        if not took[:1].isdigit():
            what, took = text, ""  # for how long is not told, so it is from now on
        if what != self._step:
            if self._steps.get(self._step) == "":
                self._steps[self._step] = _since(self._step_at)
            self._step, self._step_at = what, time.monotonic()
        if what and (what in self._steps or len(self._steps) < MAX_STEPS):
            self._steps[what] = took

    def _turn(self, state: frames.State) -> None:
        before, self._state = self._state, state
        if state.busy and not before.busy:
            self._disarm()
            self._steps.clear()
            self._step = self._thought = self._above = ""
            self._began, self._is_open = time.monotonic(), False
        elif before.busy and not state.busy:
            self._run("")
            self._writing, self._answer, self._took_all = "", [], _since(self._began)
            self._hint = LEAVES if self._is_armed else ""
        while len(self._waiting) > state.waiting:
            self._print(partial(drawing.said, *self._waiting.pop(next(iter(self._waiting)))))

    # --- What is shown ------------------------------------------------------------------------

    def _print(self, item: _Item) -> None:
        self._pending.append(item)

    def _flush(self) -> None:
        """Print what is finished above the rest, which is drawn again below."""
        if self._pending and not self._is_away:
            drawn = self._drawn(self._pending)
            self._items.extend(self._pending)
            self._pending.clear()
            if self._app.is_running:
                self._app.renderer.erase()
            self._app.print_text(drawing.to_fragments(drawn))
            self._app.invalidate()

    def _drawn(self, items: Iterable[_Item]) -> list[Line]:
        # A full row would be two when the window becomes narrower.
        width = self._size().columns - 1
        return [line for item in items for line in ([], *item(width))]

    def _fit(self) -> None:
        """Draw what stands on the screen anew, if the width is another one."""
        size = self._size()
        if size.columns != self._width and not self._is_away:
            self._width = size.columns
            self._changed.set()
            drawn = self._drawn(self._items)
            self._app.output.erase_screen()
            self._app.output.cursor_goto(0, 0)
            self._app.renderer.reset()
            self._app.print_text(drawing.to_fragments(drawn[-size.rows :]))

    async def _draw(self) -> None:
        """Draw what goes on, not more often than anybody sees."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            began, size = time.monotonic(), self._size()
            self._answer = drawing.tail(self._writing, size.columns - 1, size.rows)
            self._app.invalidate()
            await asyncio.sleep(min(1.0, max(FRAME, REST * (time.monotonic() - began))))

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(0.25)
            if self._state.busy:
                self._changed.set()

    def _compose(self) -> StyleAndTextTuples:
        """Put together what stands above the input: of the answer, what there is room for."""
        size = self._size()
        width = size.columns - 1
        typed = sum(1 + len(line) // max(1, width - 2) for line in self._buffer.document.lines)
        # Besides: the line at the bottom, the one between, and one to search in.
        taken = min(INPUT_ROWS, typed) + 3 + (MENU_ROWS if self._buffer.complete_state else 0)
        room = size.rows - taken
        below = self._status(width)
        for text, files in [*self._waiting.values()][-MAX_WAITING:]:
            waits = f"{one_line(text, ONE_LINE)} (waiting)"
            below += drawing.dimmed(drawing.said(waits, files, width))
        if self._boxes:
            below += self._questions(width, room - len(below))
        room -= len(below) + 1
        drawn = [*self._answer[-room:], [], *below] if self._answer and room > 0 else below
        return drawing.to_fragments([[], *drawn])[:-1]

    def _status(self, width: int) -> list[Line]:
        count = len(self._steps)
        told, thought = list[str](), list[Line]()
        if self._is_open:
            rows = self._size().rows // 3
            thought = drawing.dimmed(drawing.tail(self._thought, width, rows))
            told = [f"  {step} · {took}".rstrip(" ·") for step, took in self._steps.items()]
        if self._state.busy:
            what = "waiting for you" if self._boxes else "writing" if self._writing else "thinking"
            since = self._step_at if self._step else self._began
            took = self._steps.get(self._step) or _since(since)
            spin = _SPINNER[int(time.monotonic() * 4) % len(_SPINNER)]
            told.append(f"{spin} {self._step or what} · {took}")
        elif count or self._thought:
            steps = f"{count} step{'s' * (count > 1)}" if count else "thought"
            steps = f"{steps}, {self._took_all}"
            told.append(f"{'▾' if self._is_open else '▸'} {steps} · Ctrl-O")
        return [*thought, *([Segment(clip(line, width), DIM)] for line in told)]

    def _questions(self, width: int, rows: int) -> list[Line]:
        asked = list(self._boxes.values())
        self._chosen %= len(asked)
        drawn: list[Line] = []
        if len(asked) > 1:
            drawn = drawing.words(f"{len(asked)} questions", width, ACCENT)
            for one in asked[max(0, self._chosen + 1 - MAX_LISTED) :][:MAX_LISTED]:
                line = one_line(" ".join(one.code) or drawing.bare(one), ONE_LINE)
                mark = "▸" if one is asked[self._chosen] else " "
                drawn += drawing.words(f"{mark} {line}", width)[:1]
        title = "empty the line, then Tab" if self._buffer.text else "Tab to answer"
        title = "press a key" if self._focus else "" if self._reason_for else title
        box = partial(
            drawing.box, asked[self._chosen], width, title=title, has_focus=bool(self._focus)
        )
        whole = box()
        rows = max(8, rows - len(drawn))
        self._is_cut = len(whole) > rows
        return drawn + (box(rows) if self._is_cut else whole)

    def _prefix(self, line: int, wrapped: int) -> StyleAndTextTuples:
        if line or wrapped:
            return [("", "  ")]
        return [("fg:ansicyan bold", "no, because > " if self._reason_for else "> ")]

    def _bottom(self) -> StyleAndTextTuples:
        usual = WATCH_HINT if self._watches else BUSY_HINT if self._state.busy else HINT
        if self._boxes and not self._buffer.text and self._reason_for is None:
            usual = FOCUS_HINT if self._focus else f"{ASK_HINT} · {usual}"
        hint = self._hint or usual
        names = (drawing.safe(one_line(name, 28)) for name in (self._session, self._state.model))
        parts = [*filter(None, names), *hint.split(" · ")]
        while len(parts) > 2 and len(" · ".join(parts)) >= self._size().columns:
            parts.pop(-1 if len(parts) > 3 or not self._state.model else 1)
        return [("dim", " · ".join(parts))]

    def _size(self) -> Size:
        return self._app.output.get_size()

    # --- What is typed ------------------------------------------------------------------------

    def _keys(self) -> KeyBindings:
        typing = ~is_searching
        is_empty = typing & Condition(lambda: not self._buffer.text)
        asked = is_empty & Condition(lambda: bool(self._boxes) and self._reason_for is None)
        focused = is_empty & Condition(lambda: bool(self._focus))
        keys = KeyBindings()
        table: tuple[tuple[str, FilterOrBool, Callable[[KeyPressEvent], None]], ...] = (
            ("enter", typing, self._enter),
            ("escape enter", typing, lambda _: self._buffer.insert_text("\n")),
            ("escape", typing, self._escape),
            ("c-c", True, self._interrupt),
            ("<sigint>", True, self._interrupt),
            ("c-d", is_empty, lambda _: self._end()),
            ("c-g", typing, self._edit),
            ("c-o", typing, self._open),
            ("<bracketed-paste>", True, self._paste),
            ("backspace", typing, self._backspace),
            ("tab", asked, lambda _: self._move_focus(1)),
            ("up", asked, lambda _: self._move_focus(-1)),
            ("down", focused, lambda _: self._move_focus(1)),
            ("<any>", focused, self._press),
            ("enter", focused, self._press),
            # Emacs' counts: the library fails at negative ones, and draws a million letters.
            *((f"escape {sign}", True, lambda _: None) for sign in f"-0{NUMBERS}"),
        )
        if self._watches:
            ends = ((key, True, lambda _: self._end()) for key in ("c-c", "<sigint>", "c-d"))
            table = (*ends, ("c-o", True, self._open))
        for names, when, act in table:
            keys.add(*names.split(), filter=when)(act)
        return keys

    def _enter(self, event: KeyPressEvent) -> None:
        completion = self._buffer.complete_state
        text = self._pasted.unfold(self._buffer.text)
        if completion and completion.current_completion and not text.startswith("/"):
            self._buffer.complete_state = None  # a file was chosen, and more is said
        elif self._reason_for is not None:
            asked, self._reason_for = self._reason_for, None
            if asked.id in self._boxes:
                no = dict(drawing.keyed(asked.choices))[drawing.DENY]
                self._answer_with(asked, no, text.strip())
                self._clear()
        elif text.strip() == "/quit":
            self._end()
        elif text.strip():
            self._say(text)

    def _say(self, text: str) -> None:
        shown = self._buffer.text  # with pasted blocks folded
        files = [] if text.startswith("/") else files_in(text)
        if len(files) > frames.MAX_FILES:
            self._hint = f"At most {frames.MAX_FILES} files go along; that names {len(files)}."
        elif id_ := self._send(text, files):
            self._history.append_string(text)
            self._clear()
            for asked in [one for one in self._boxes.values() if one.is_reply]:
                self._close(asked)  # it was answered in words
            if self._state.busy and not text.startswith("/"):
                self._waiting[id_] = (shown, files)
            else:
                self._print(partial(drawing.said, shown, files))
            self._flush()

    def _send(self, text: str, files: Sequence[str] = ()) -> str:
        """Send *text* and return its id; "" and a hint, if Elwood would not take it."""
        said = frames.SaidHere(id=secrets.token_hex(8), text=text, files=tuple(files))
        frame = frames.encode(said)
        assert self._writer is not None
        if len(frame) > frames.MAX_FRAME:
            self._hint = "That is too long. Save it as a file, and name it with @."
            return ""
        if self._writer.transport.get_write_buffer_size() > MAX_UNSENT:
            self._hint = "Elwood takes nothing at the moment; try again."
            return ""
        self._writer.write(frame)
        self._sent[said.id] = text
        if len(self._sent) > MAX_SENT:
            self._sent.pop(next(iter(self._sent)))
        return said.id

    def _move_focus(self, by: int) -> None:
        """Give the keys to the question that is shown, to the next one, or back to the line."""
        ids = list(self._boxes)
        at = self._chosen % len(ids)
        if self._focus:
            at = max(0, ids.index(self._focus) + by)
        self._focus = ids[at] if at < len(ids) else ""
        self._chosen = at % len(ids)
        self._disarm()

    def _press(self, event: KeyPressEvent) -> None:
        """Answer the question that has the focus, if the key is one of its box."""
        asked, key = self._boxes[self._focus], event.data
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

    def _shown_question(self) -> frames.Message:
        return list(self._boxes.values())[self._chosen % len(self._boxes)]

    def _note_key(self) -> None:
        self._keys_at = (self._keys_at[1], time.monotonic())

    def _is_too_soon(self) -> bool:
        """Check whether the key was on its way before the question was seen, or is of a burst."""
        before, now = self._keys_at
        return now - self._asked_at < NOT_AT_ONCE or now - before < PAUSE

    def _answer_with(self, asked: frames.Message, choice: frames.Choice, why: str = "") -> None:
        if self._send(choice.says):
            self._close(asked, f"{choice.text}: {why}" if why else choice.text)
            if why:
                self._send(why)
            self._flush()

    def _escape(self, event: KeyPressEvent) -> None:
        if self._buffer.complete_state:
            self._buffer.cancel_completion()
        elif self._focus:
            self._focus = ""
            self._disarm()
        elif self._reason_for:
            self._reason_for = None
        elif self._state.busy:
            self._stop()

    def _interrupt(self, event: KeyPressEvent) -> None:
        """Take a Ctrl-C: stop the answer or clear the line, and leave at the second one."""
        if self._is_armed:
            self._end()
        elif self._state.busy:
            self._stop()
            self._hint = f"{self._hint} {LEAVES}".strip()
        else:
            self._reason_for = None
            self._clear()
            self._hint = LEAVES
        self._is_armed = True

    def _stop(self) -> None:
        if self._send("/stop"):
            self._hint = "Stopping …"
            self._keep()
            self._flush()

    def _keep(self) -> None:
        """Print what is written: no answer may come that has it."""
        if self._writing.strip():
            self._print(partial(drawing.markdown, self._writing))
            self._above += self._writing
            self._writing, self._answer = "", []

    def _open(self, event: KeyPressEvent) -> None:
        """Show what ran in this turn, or the whole of a question that does not fit."""
        if self._boxes and self._is_cut:
            self._print(partial(drawing.message, self._shown_question()))
            self._flush()
        else:
            self._is_open = not self._is_open

    def _edit(self, event: KeyPressEvent) -> None:
        """Let the line be written in $EDITOR; what arrives meanwhile is printed afterwards."""
        self._fill(self._pasted.unfold(self._buffer.text))
        self._is_away = True

        def back(_: object) -> None:
            self._is_away = False
            self._flush()

        self._buffer.open_in_editor().add_done_callback(back)

    def _paste(self, event: KeyPressEvent) -> None:
        self._buffer.insert_text(self._pasted.fold(event.data))

    def _backspace(self, event: KeyPressEvent) -> None:
        folded = self._pasted.ending(self._buffer.document.text_before_cursor)
        self._buffer.delete_before_cursor(len(folded) or 1)

    def _fill(self, text: str) -> None:
        self._buffer.text = text
        self._buffer.cursor_position = len(text)

    def _typed(self) -> None:
        """Note that the line has changed: a question has the keys only while it is empty."""
        if self._buffer.text:
            self._focus = ""
        self._disarm()

    def _clear(self) -> None:
        self._focus = ""
        self._buffer.reset()
        self._pasted.clear()
        self._disarm()

    def _disarm(self) -> None:
        self._is_armed, self._hint = False, ""


def _since(at: float) -> str:
    return duration(time.monotonic() - at)
