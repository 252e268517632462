"""The plain terminals: lines in and answers out, or one message.

Like all terminals they use a socket, whose other end may be in this process.
"""

import os
import secrets
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from elwood.agent.channels import frames
from elwood.foundation.command_line import FAILURE, INTERRUPTED, OK, CliFailure
from elwood.foundation.net.control import NotRunning, ServiceUnreachable, ask_over
from elwood.foundation.text.characters import printable_json
from elwood.foundation.text.lines import escape_name

if TYPE_CHECKING:
    from elwood.features.console.asking import Questions

# The name of the last used session on the command line.
LAST = "--last"
# The exit code of `elwood once` if a call waits for the owner.
WAITS = 3
# Draws a frame on the terminal; returns False if it has nothing to draw.
Draw = Callable[[frames.Frame], bool]
GONE = "Elwood has stopped. To reopen this conversation: elwood chat --session {}"


class AppGone(CliFailure):
    """The app has closed the connection."""


def attach(runtime: Path, session: str, mode: str) -> tuple[socket.socket, str] | None:
    """Connect to the Elwood that runs in *runtime*; return the socket and the session's name.

    Return None if none runs.  Raises CliFailure.
    """
    client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        answer = ask_over(client, runtime, "attach", session, mode, buffering=0)
        if not answer.ok:
            raise CliFailure(answer.text)
    except NotRunning:
        client.close()
        return None
    except ServiceUnreachable as error:
        raise CliFailure(error) from error
    client.settimeout(None)
    return client, answer.text


def say(connection: socket.socket, text: str) -> str:
    message = frames.SaidHere(id=secrets.token_hex(16), text=text)
    with suppress(BrokenPipeError, ConnectionResetError):  # the next read reports it
        connection.sendall(frames.encode(message))
    return message.id


def decode_frame(line: bytes) -> frames.Frame:
    """Decode a frame.  Raises CliFailure if it is invalid, or ends the connection."""
    try:
        frame: frames.ToClient = msgspec.json.decode(line, type=frames.ToClient)
    except (msgspec.DecodeError, RecursionError) as error:
        raise CliFailure(f"The running Elwood has another version: {error}") from error
    if isinstance(frame, frames.Detached):
        raise CliFailure(f"Elwood has closed the connection. {frame.why}")
    return frame


def format_message(message: frames.Message, *, records: bool = True) -> str:
    """Format a message as plain lines: an answer as Markdown, above its *records*."""
    body = message.markdown if message.markdown or message.records else message.text
    receipts = f"{chr(10) * bool(body)}{message.records}" if records and message.records else ""
    files = [f"[file {escape_name(file.name)}, {file.size:,} bytes]" for file in message.files]
    options = [_format_choice(number, one) for number, one in enumerate(message.choices, 1)]
    text = "\n".join(filter(None, (body.rstrip("\n"), receipts, *files, *options)))
    return f"(again) {text}" if message.is_repeat else text


def _format_choice(number: int, choice: frames.Choice) -> str:
    """Format a choice: a command to type, or a numbered answer to the model."""
    if not choice.says.startswith("/"):
        return f"{number}. {choice.says}"
    about = "" if choice.text == choice.says else f"{choice.text}: "
    return f"  {about}{choice.says}"


# --- one message ----------------------------------------------------------------------------------


def once(connection: socket.socket, session: str, text: str, state: Path, *, as_json: bool) -> int:
    """Send *text*, print the answer as Markdown, and the rest on stderr; return the exit code.

    A terminal shows the answer while it is written.  With *as_json* the output has the receipts and
    the cost, read from the folder *state*.  SIGINT, SIGTERM and SIGHUP stop the answer; outside
    the main thread they arrive as a frame.
    """
    with _signals() as signals, nullcontext() if as_json else _open_live() as draw:
        return _once(connection, signals, draw, session, text, state, as_json=as_json)


def _open_live() -> AbstractContextManager[Draw | None]:
    """Yield `LiveAnswer.take`; None without a capable terminal or the extra `tui`."""
    if not sys.stdout.isatty() or os.environ.get("TERM", "dumb") == "dumb":
        return nullcontext()
    try:
        live = import_module("elwood.features.console.live")
    except ImportError:
        return nullcontext()
    answer: AbstractContextManager[Draw] = live.LiveAnswer()
    return answer


@contextmanager
def _signals() -> Iterator[tuple[socket.socket, ...]]:
    """Yield a socket that gets the number of such a signal; the second one raises SystemExit.

    Yield () outside the main thread.
    """
    if threading.current_thread() is not threading.main_thread():
        yield ()
        return
    count = 0

    def leave_at_second(number: int, frame: object) -> None:
        nonlocal count
        count += 1
        if count > 1:
            raise SystemExit(128 + number)

    reader, writer = socket.socketpair()
    writer.setblocking(False)
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    with reader, writer:
        wakes = signal.set_wakeup_fd(writer.fileno())
        before = [signal.signal(number, leave_at_second) for number in numbers]
        try:
            yield (reader,)
        finally:
            for number, handler in zip(numbers, before, strict=True):
                signal.signal(number, handler)
            signal.set_wakeup_fd(wakes)


def _once(
    connection: socket.socket,
    signals: Sequence[socket.socket],
    draw: Draw | None,
    session: str,
    text: str,
    state: Path,
    *,
    as_json: bool,
) -> int:
    began, questions = time.time(), None if as_json else _make_questions()
    now, stopped_by, id_, unacknowledged = frames.State(busy=True), 0, say(connection, text), 1
    asks_before: int | None = None  # of earlier messages
    answers, records, files = list[str](), list[str](), list[str]()
    for event in _events(connection, signals, questions):
        match event:
            case frames.Took(why=why):
                if why:
                    raise CliFailure(f"I could not accept that: {why}")
                unacknowledged -= 1
                now = frames.State(busy=True)  # until the next one, which follows
            case frames.StopWanted(number=number):
                # A command is recorded, so a later Elwood knows it, too.
                say(connection, "/stop")
                unacknowledged += 1
                print("\nStopping … Press Ctrl-C again to quit now.", file=sys.stderr)
                stopped_by = number
            case str(line):
                for word in questions.answer(line) if questions else ():
                    say(connection, word)
                    unacknowledged += 1
            case frames.Message() if questions is not None and _is_about_call(event):
                if draw is not None:
                    draw(frames.Writing(""))  # the question comes below all other text
                questions.add(event)
            case frames.Message(is_reply=True) if questions is not None and questions.replies:
                questions.show_reply(event)
            case frames.Writing() | frames.Running() if questions:
                pass  # it would be drawn over the line for the answer
            case frames.State():
                now, asks_before = event, event.asks if asks_before is None else asks_before
            case _ if draw is not None and draw(event):
                pass
            case frames.Message(is_reply=True):
                files += [file.name for file in event.files]
                gap = "\n" if answers else ""
                answers.append(format_message(event, records=False))
                records += filter(None, [event.records])
                if not as_json:
                    stream = sys.stderr if stopped_by else sys.stdout
                    print(f"{gap}{answers[-1]}", file=stream, flush=True)
                    if event.records:
                        print(f"\n{event.records}", file=sys.stderr)
            case frames.Message():
                shown = event.text if _is_about_call(event) else format_message(event)
                print(shown, file=sys.stderr)
            case frames.Running(why) if why:
                print(why, file=sys.stderr)
        is_over = not (now.busy or now.waiting or unacknowledged)
        if questions is not None and not stopped_by:
            # A question may wait for a key; a call that was just allowed may not have started.
            is_over = is_over and not questions and now.asks <= (asks_before or 0) + questions.later
        if not is_over:
            continue
        code = FAILURE if now.failed else WAITS if now.asks else OK
        outcome = {OK: "answered", FAILURE: "failed", WAITS: "waits"}[code]
        if stopped_by:
            code, outcome = 128 + stopped_by, "stopped"
        open_calls = _list_open_calls(state, session) if now.asks else []
        for one in open_calls:
            where = f"elwood approve {one['code']}"
            print(f"This call waits for you: {one['call']}\nTo decide: {where}", file=sys.stderr)
        if as_json:
            log = state / "sessions" / f"{session}.jsonl"
            models, cost = _usage(state / "usage.jsonl", session, began)
            whole = {
                "answer": "\n\n".join(answers),
                "records": "\n\n".join(records),
                "session": session,
                "outcome": outcome,
                "failed": now.failed,
                "waiting": open_calls,
                "receipts": _receipts(log, f"console:{id_}"),
                "files": files,
                "models": models,
                "cost": cost,
                "duration": round(time.time() - began, 3),
            }
            print(printable_json(msgspec.json.encode(whole).decode()))
        return code
    raise AppGone(GONE.format(session))


def _is_about_call(message: frames.Message) -> bool:
    return any(choice.says.startswith("/allow ") for choice in message.choices)


def _make_questions() -> "Questions | None":
    """Return the questions to a person at this terminal; None without one or the extra `tui`."""
    if os.isatty(0) and os.isatty(2) and os.environ.get("TERM", "dumb") != "dumb":
        with suppress(ImportError):
            made: Questions = import_module("elwood.features.console.asking").Questions()
            return made
    return None


def _events(
    connection: socket.socket, signals: Sequence[socket.socket], questions: "Questions | None"
) -> Iterator[frames.Frame | str]:
    """Yield the frames from Elwood, a `StopWanted` for each number on *signals*, and typed lines.

    The keyboard is read only while a question is open.
    """
    rest = b""
    with suppress(ConnectionResetError):
        while len(rest) <= frames.MAX_FRAME:
            inputs: list[socket.socket | int] = [connection, *signals, *([0] if questions else [])]
            ready, _, _ = select.select(inputs, [], [])
            for one in signals:
                if one in ready:
                    yield from map(frames.StopWanted, one.recv(16))
            if 0 in ready:
                yield os.read(0, 4096).decode("utf-8", "replace")
            if connection in ready:
                if not (data := connection.recv(65_536)):
                    return
                *lines, rest = (rest + data).split(b"\n")
                yield from map(decode_frame, lines)


def _list_open_calls(state: Path, session: str) -> list[dict[str, str]]:
    """List the calls of *session* that wait for the owner."""
    from elwood.agent.approvals.state import ApprovalBook, ApprovalEntry, gist
    from elwood.foundation.storage.journal import JournalDamaged, replay

    with suppress(FileNotFoundError, JournalDamaged):
        book, _ = replay(state / "approvals.jsonl", ApprovalEntry, ApprovalBook)
        own = [one for one in book.calls.open() if one.question.session == session]
        return [{"code": one.code, "call": gist(one.question)} for one in own]
    return []


def _receipts(path: Path, id_: str) -> Sequence[dict[str, str]]:
    """List the calls of the turn that answered the message *id_*."""
    from elwood.agent.session.log.entries import Entry
    from elwood.agent.session.reading.records import History
    from elwood.foundation.storage.journal import JournalDamaged, entries_of

    with suppress(JournalDamaged, OSError):
        for turn in History("", list(entries_of(path, Entry))).turns[::-1]:
            if any(heard.received.id == id_ for heard in turn.heard):
                calls = turn.calls
                return [{"tool": c.tool, "target": c.target, "outcome": c.outcome} for c in calls]
    return []


def _usage(path: Path, session: str, since: float) -> tuple[list[str], float | None]:
    """Return the models that *session* used *since*, and their cost in US dollars, if known."""
    from elwood.agent.models.ledger import Charged
    from elwood.foundation.storage.journal import JournalDamaged, entries_of

    charged = list[Charged]()
    with suppress(JournalDamaged, OSError):
        entries = entries_of(path, Charged)
        charged = [one for _, at, one in entries if at >= since and one.session == session]
    known = [one.usd for one in charged if one.usd is not None]
    cost = sum(known) if charged and len(known) == len(charged) else None
    return sorted({one.model for one in charged}), cost


# --- lines ----------------------------------------------------------------------------------------


def talk(
    connection: socket.socket, session: str, commands: object = (), *, watches: bool = False
) -> int:
    """Send each line of stdin and print the answers, until stdin ends and all is answered.

    Lines of a terminal are sent immediately, lines of a pipe after the answer to the one before.
    """
    terminal = os.isatty(0) and os.isatty(1) and not watches
    is_pipe, has_printed = not (terminal or watches), False
    todo, received, typed = list[str](), b"", b""
    is_busy, is_over, on_its_way, is_prompted = True, watches, 0, False
    is_armed = False  # a Ctrl-C came, and nothing was typed since
    while True:
        if todo and (terminal or not is_busy):
            say(connection, todo.pop(0))
            is_busy, on_its_way = True, on_its_way + 1
        if is_over and not (todo or is_busy or watches):
            return OK
        if terminal and not (is_busy or is_prompted):
            print("you> ", end="", flush=True)
            is_prompted = True
        try:
            keyboard = [] if is_over or (todo and not terminal) else [0]
            ready, _, _ = select.select([connection.fileno(), *keyboard], [], [])
        except KeyboardInterrupt:
            if watches or is_armed:
                return INTERRUPTED
            is_armed, is_prompted = True, False
            print("\nPress Ctrl-C again to quit.", file=sys.stderr)
            if is_busy:
                say(connection, "/stop")
                on_its_way += 1
            continue
        if connection.fileno() in ready:
            data = connection.recv(65_536)
            if not data:
                raise AppGone(GONE.format(session))
            *lines, received = (received + data).split(b"\n")
            for frame in map(decode_frame, lines):
                on_its_way -= isinstance(frame, frames.Took)
                if isinstance(frame, frames.State):
                    # It does not cover messages on their way: a newer state follows them.
                    is_busy = frame.busy or frame.waiting + on_its_way > 0
                elif line := _format_frame(frame, is_pipe=is_pipe):
                    gap = "\n" if is_prompted or (is_pipe and has_printed) else ""
                    print(f"{gap}{line}", flush=True)
                    is_prompted, has_printed = False, True
        else:
            data, is_prompted, is_armed = os.read(0, 65_536), False, False
            *lines, typed = (typed + (data or b"\n")).split(b"\n")
            texts = [line.decode("utf-8", "replace").strip() for line in lines]
            is_over = not data or "/quit" in texts
            if len(typed) > frames.MAX_TEXT:
                most = f"{frames.MAX_TEXT >> 10} KiB"
                why = f"A line is longer than {most}. Save it as a file and name that file."
                raise CliFailure(why)
            todo += filter(None, texts[: texts.index("/quit")] if "/quit" in texts else texts)


def _format_frame(frame: frames.Frame, *, is_pipe: bool) -> str:
    """Format *frame* as text, or "" to print nothing; a pipe gets answers and errors only."""
    match frame:
        case frames.Message() if is_pipe:
            return "" if frame.is_old else format_message(frame)
        case frames.Message():
            text = format_message(frame)
            return f"elwood>{chr(10) if chr(10) in text else ' '}{text}"
        case frames.HeardElsewhere() if not is_pipe:
            return f"{frame.who}> {frame.text}"
        case frames.Running(text) if text and not is_pipe:
            return f"… {text}"
        case frames.Took(why=why) if why:
            return f"I could not accept that: {why}"
    return ""
