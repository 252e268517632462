"""A conversation on a terminal: finished output above, as in a shell, and the input line below.

Connect `ConversationView`, which decides what to show and send, with prompt_toolkit and a socket.
Outside the main thread there are no signals; there the end of the connection ends it.
"""

import asyncio
import os
import secrets
import signal
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import assert_never

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

from elwood.agent.channels import frames
from elwood.features.console import drawing
from elwood.features.console.client import GONE, decode_frame
from elwood.features.console.drawing import ASKS, DIM, NUMBERS, Line
from elwood.features.console.editing import (
    LineCompleter,
    PastedBlocks,
    PersistentHistory,
    find_files,
)
from elwood.features.console.settings import ConsoleSettings, choose_colors
from elwood.features.console.view import (
    Action,
    AddToHistory,
    ConversationView,
    FillLine,
    Item,
    Leave,
    Print,
    Send,
)
from elwood.foundation.command_line import CliFailure

# Seconds between two frames of an answer that is being written, and the pause as a multiple of the
# time to draw one: keys come first.
FRAME, REST = 1 / 15, 4
# Seconds after which an Esc is not the start of an Alt combination.
ESC = 0.1
# Printed items to draw again after a change of the width, and items that wait while an editor is
# open; beyond that the oldest are dropped.
MAX_ITEMS, MAX_PENDING = 60, 1000
# Bytes buffered for an Elwood that does not read.
MAX_UNSENT = 4 * frames.MAX_FRAME
# Answers in the background: each is a client, as `MAX_CLIENTS` counts them.
MAX_BACKGROUND = 4
# Attaches to a new conversation; returns the connection and its name.  Raises CliFailure.
OpenNew = Callable[[], tuple[socket.socket, str]]
# Rows of the input, and of its completions.
INPUT_ROWS, MENU_ROWS = 8, 6
_PLAIN = "noreverse bg:default fg:default"


def build_style(colors: Mapping[str, str]) -> Style:
    """Build the style of the screen, with a class for each of *colors*."""
    return Style(
        [
            ("completion-menu", _PLAIN),
            ("completion-menu.completion", _PLAIN),
            ("completion-menu.completion.current", f"noreverse bg:default {colors['cyan']} bold"),
            ("completion-menu.meta.completion", f"{_PLAIN} dim"),
            ("completion-menu.meta.completion.current", _PLAIN),
            *((name, f"fg:{color}") for name, color in colors.items()),
        ]
    )


def sit(
    connection: socket.socket,
    *,
    session: str,
    history: Path,
    commands: Sequence[tuple[str, str]] = (),
    note: str = "",
    watches: bool = False,
    settings: ConsoleSettings | None = None,
    open_new: OpenNew | None = None,
) -> int:
    """Talk over an attached *connection* until Ctrl-D, ``/quit`` or the end of Elwood.

    *commands* have descriptions for the completion; *note* is printed first.  With *watches* there
    is no input.  With *open_new*, Ctrl-B begins a new conversation while the answer continues in
    the background.  Return an exit code.  The terminal is always restored.
    """
    colors = choose_colors(settings or ConsoleSettings(), os.environ.get("COLORFGBG", ""))
    screen = _Screen(session, history, commands, watches, colors, open_new)
    return asyncio.run(screen.run(connection, note))


class _Screen:
    """Connect the view of one conversation with the terminal and the socket."""

    def __init__(
        self,
        session: str,
        history: Path,
        commands: Sequence[tuple[str, str]],
        watches: bool,
        colors: Mapping[str, str],
        open_new: OpenNew | None,
    ) -> None:
        self._open_new = open_new
        # Conversations that answer in the background; whether a new one is being opened.
        self._background: list[ConversationView] = []
        self._is_opening = False
        self._view = ConversationView(session, lambda: secrets.token_hex(8), watches=watches)
        self._watches = watches
        self._writer: asyncio.StreamWriter | None = None
        # Items printed, items to print, and whether an editor has the terminal.
        self._items: deque[Item] = deque(maxlen=MAX_ITEMS)
        self._pending: deque[Item] = deque(maxlen=MAX_PENDING)
        self._is_in_editor = False
        self._last_words = ""
        # The unfinished answer as drawn, and the width of the terminal.
        self._answer: list[Line] = []
        self._width = 0
        self._changed = asyncio.Event()

        self._pasted = PastedBlocks()
        self._history = PersistentHistory(history)
        self._buffer = Buffer(
            completer=LineCompleter(commands),
            complete_while_typing=True,
            history=self._history,
            tempfile_suffix=".md",
            on_text_changed=lambda buffer: self._view.change_line(buffer.text),
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
            # The terminal's response to a cursor query could arrive after we have stopped reading.
            output.enable_cpr = False
        is_own = any(color.startswith("#") for color in colors.values())
        depth = ColorDepth.DEPTH_8_BIT if is_own else ColorDepth.DEPTH_4_BIT
        self._app: Application[int] = Application(
            layout=layout.Layout(
                layout.HSplit(rows, align=layout.VerticalAlign.TOP), None if watches else control
            ),
            key_bindings=self._keys(),
            style=build_style(colors),
            color_depth=ColorDepth.DEPTH_1_BIT if os.environ.get("NO_COLOR") else depth,
            erase_when_done=True,
            before_render=lambda _: self._fit(),
        )
        self._app.timeoutlen = self._app.ttimeoutlen = ESC
        self._app.key_processor.before_key_press += lambda _: self._note_key()

    async def run(self, connection: socket.socket, note: str) -> int:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: self._exit_with_error(context))
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGHUP):
                loop.add_signal_handler(number, self._end, 128 + number)
        connection.setblocking(False)
        reader, writer = await asyncio.open_connection(sock=connection)
        self._writer = writer

        def start() -> None:
            self._width = self._size().columns
            if note:
                self._print(partial(drawing.markdown, note))
            self._flush()
            self._app.create_background_task(self._read(self._view, reader, writer))
            for task in (self._draw(), self._tick()):
                self._app.create_background_task(task)

        try:
            # An app in this process may write to stderr: print that above, too.
            with patch_stdout():
                code = await self._app.run_async(pre_run=start, set_exception_handler=False)
            self._act(self._view.leave())
            for view in self._background:
                still = f"“{view.name}” still answers. To see it: elwood chat --session "
                self._print(partial(drawing.words, still + view.session, style=ASKS))
            if self._last_words:
                self._print(partial(drawing.words, self._last_words, style=ASKS))
            self._flush()
        except (EOFError, OSError):  # the terminal was closed
            return 1
        finally:
            self._writer.close()
        return code

    def _exit_with_error(self, context: dict[str, object]) -> None:
        error = context.get("exception")
        if isinstance(error, Exception) and self._app.future and not self._app.future.done():
            self._app.exit(exception=error)

    def _end(self, code: int = 0, words: str = "") -> None:
        if self._app.future and not self._app.future.done():
            self._last_words = words
            self._app.exit(result=code)

    # --- Frames from Elwood -------------------------------------------------------------------

    async def _read(
        self, view: ConversationView, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Read the frames for *view*, in the background until its messages are answered."""
        rest, words = b"", GONE.format(view.session)
        try:
            while len(rest) <= frames.MAX_FRAME and (data := await reader.read(64 * 1024)):
                *whole, rest = (rest + data).split(b"\n")
                for line in whole:
                    self._take(view, decode_frame(line))
                self._changed.set()
                self._flush()
                if view is not self._view and not view.has_work:
                    words = ""
                    break
        except CliFailure as error:
            words = str(error)
        except OSError:
            pass  # this is the end of the connection, too
        finally:
            writer.close()
        if view is self._view:
            self._end(1, words)
            return
        self._background.remove(view)
        self._view.in_background = len(self._background)
        if words:
            self._print(partial(drawing.words, words, style=ASKS))
        self._flush()

    def _take(self, view: ConversationView, frame: frames.Frame) -> None:
        now = time.monotonic()
        if view is self._view:
            self._act(view.take(frame, now))
        else:
            self._act(self._view.take_from_background(view, frame, now))

    async def _begin_other(self, open_new: OpenNew) -> None:
        """Begin a new conversation; the present one continues in the background."""
        try:
            connection, session = await asyncio.to_thread(open_new)
            connection.setblocking(False)
            reader, writer = await asyncio.open_connection(sock=connection)
        except (CliFailure, OSError) as error:
            self._view.refuse(str(error))
            return
        finally:
            self._is_opening = False
        note = f"“{self._view.name}” continues in the background."
        self._print(partial(drawing.words, note, style=DIM))
        self._background.append(self._view)
        self._view, self._writer = self._view.begin_other(session), writer
        self._view.in_background = len(self._background)
        self._view.change_line(self._buffer.text)
        self._app.create_background_task(self._read(self._view, reader, writer))
        self._do(())

    def _act(self, actions: Sequence[Action]) -> None:
        """Carry out the actions of an event; printed items appear at the next flush."""
        if not self._view.writing:
            self._answer = []
        for action in actions:
            match action:
                case Print(item):
                    self._print(item)
                case Send(message):
                    assert self._writer is not None
                    self._writer.write(frames.encode(message))
                case AddToHistory(text):
                    self._history.append_string(text)
                case FillLine(""):
                    self._buffer.reset()
                    self._pasted.clear()
                case FillLine(text):
                    self._fill(text)
                case Leave():
                    self._end()
                case _:
                    assert_never(action)

    # --- Output -------------------------------------------------------------------------------

    def _print(self, item: Item) -> None:
        self._pending.append(item)

    def _flush(self) -> None:
        """Print the pending items above the rest, which is drawn again below."""
        if self._pending and not self._is_in_editor:
            drawn = self._draw_items(self._pending)
            self._items.extend(self._pending)
            self._pending.clear()
            if self._app.is_running:
                self._app.renderer.erase()
            self._app.print_text(drawing.to_fragments(drawn))
            self._app.invalidate()

    def _draw_items(self, items: Iterable[Item]) -> list[Line]:
        # A full row would wrap when the window becomes narrower.
        width = self._size().columns - 1
        return [line for item in items for line in ([], *item(width))]

    def _fit(self) -> None:
        """Draw the screen again if the width has changed."""
        size = self._size()
        if size.columns != self._width and not self._is_in_editor:
            self._width = size.columns
            self._changed.set()
            drawn = self._draw_items(self._items)
            self._app.output.erase_screen()
            self._app.output.cursor_goto(0, 0)
            self._app.renderer.reset()
            self._app.print_text(drawing.to_fragments(drawn[-size.rows :]))

    async def _draw(self) -> None:
        """Draw the unfinished answer at a limited rate."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            began, size = time.monotonic(), self._size()
            self._answer = drawing.tail(self._view.writing, size.columns - 1, size.rows)
            self._app.invalidate()
            await asyncio.sleep(min(1.0, max(FRAME, REST * (time.monotonic() - began))))

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(0.25)
            if self._view.is_busy:
                self._changed.set()

    def _compose(self) -> StyleAndTextTuples:
        """Build the part above the input: as much of the answer as fits."""
        size = self._size()
        width = size.columns - 1
        typed = sum(1 + len(line) // max(1, width - 2) for line in self._buffer.document.lines)
        # Plus three: the bottom line, the blank line and the search line.
        taken = min(INPUT_ROWS, typed) + 3 + (MENU_ROWS if self._buffer.complete_state else 0)
        room = size.rows - taken
        drawn = self._view.draw(self._answer, width, size.rows, room, time.monotonic())
        return drawing.to_fragments(drawn)[:-1]

    def _prefix(self, line: int, wrapped: int) -> StyleAndTextTuples:
        if line or wrapped:
            return [("", "  ")]
        return [("class:cyan bold", self._view.prompt)]

    def _bottom(self) -> StyleAndTextTuples:
        return [("dim", self._view.bottom(self._size().columns))]

    def _size(self) -> Size:
        return self._app.output.get_size()

    # --- Input --------------------------------------------------------------------------------

    def _keys(self) -> KeyBindings:
        typing = ~is_searching
        is_empty = typing & Condition(lambda: not self._buffer.text)
        can_answer = typing & Condition(lambda: self._view.can_answer)
        can_begin = Condition(lambda: self._open_new is not None and self._view.is_busy)
        focused = typing & Condition(lambda: self._view.has_focus)

        def press(event: KeyPressEvent) -> None:
            self._do(self._view.press(event.data))

        keys = KeyBindings()
        table: tuple[tuple[str, FilterOrBool, Callable[[KeyPressEvent], None]], ...] = (
            ("enter", typing, self._enter),
            ("escape enter", typing, lambda _: self._buffer.insert_text("\n")),
            ("escape", typing, self._escape),
            ("c-c", True, lambda _: self._do(self._view.interrupt())),
            ("<sigint>", True, lambda _: self._do(self._view.interrupt())),
            ("c-d", is_empty, lambda _: self._end()),
            ("c-b", typing & can_begin, self._to_background),
            ("c-g", typing, self._edit),
            ("c-z", Condition(lambda: os.isatty(0)), self._suspend),
            ("?", is_empty & ~focused, lambda _: self._do(self._view.show_keys())),
            ("c-o", typing, lambda _: self._do(self._view.open())),
            ("<bracketed-paste>", True, self._paste),
            ("backspace", typing, self._backspace),
            ("tab", can_answer, lambda _: self._view.move_focus(1)),
            ("up", can_answer, lambda _: self._view.move_focus(-1)),
            ("down", focused, lambda _: self._view.move_focus(1)),
            ("<any>", focused, press),
            ("enter", focused, press),
            # No Emacs counts: the library fails at negative ones, and draws a million letters.
            *((f"escape {sign}", True, lambda _: None) for sign in f"-0{NUMBERS}"),
        )
        if self._watches:
            ends = ((key, True, lambda _: self._end()) for key in ("c-c", "<sigint>", "c-d"))
            table = (*ends, ("c-o", True, lambda _: self._do(self._view.open())))
        for names, when, act in table:
            keys.add(*names.split(), filter=when)(act)
        return keys

    def _do(self, actions: Sequence[Action]) -> None:
        self._act(actions)
        self._flush()

    def _note_key(self) -> None:
        unsent = 0 if self._writer is None else self._writer.transport.get_write_buffer_size()
        self._view.note_key(time.monotonic(), can_send=unsent <= MAX_UNSENT)

    def _enter(self, event: KeyPressEvent) -> None:
        if self._is_opening:
            return  # the line is for the new conversation
        completion = self._buffer.complete_state
        text = self._pasted.unfold(self._buffer.text)
        if completion and completion.current_completion and not text.startswith("/"):
            self._buffer.complete_state = None  # a file was chosen; the message continues
        else:
            self._do(self._view.enter(text, [] if text.startswith("/") else find_files(text)))

    def _escape(self, event: KeyPressEvent) -> None:
        if self._buffer.complete_state:
            self._buffer.cancel_completion()
        else:
            self._do(self._view.escape())

    def _to_background(self, event: KeyPressEvent) -> None:
        if len(self._background) >= MAX_BACKGROUND:
            why = f"{MAX_BACKGROUND} answers are in the background. Wait until one is done."
            self._view.refuse(why)
        elif self._open_new is not None and not self._is_opening:
            self._is_opening = True
            self._app.create_background_task(self._begin_other(self._open_new))

    def _suspend(self, event: KeyPressEvent) -> None:
        self._app.renderer.erase()  # the shell prints its prompt here
        self._app.suspend_to_background()

    def _edit(self, event: KeyPressEvent) -> None:
        """Open the line in $EDITOR; frames that arrive until it closes are printed afterwards."""
        self._fill(self._pasted.unfold(self._buffer.text))
        self._is_in_editor = True

        def resume(_: object) -> None:
            self._is_in_editor = False
            self._flush()

        self._buffer.open_in_editor().add_done_callback(resume)

    def _paste(self, event: KeyPressEvent) -> None:
        self._buffer.insert_text(self._pasted.fold(event.data))

    def _backspace(self, event: KeyPressEvent) -> None:
        folded = self._pasted.mark_at_end(self._buffer.document.text_before_cursor)
        self._buffer.delete_before_cursor(len(folded) or 1)

    def _fill(self, text: str) -> None:
        self._buffer.text = text
        self._buffer.cursor_position = len(text)
