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

import msgspec

from elwood.agent.channels import frames
from elwood.foundation.command_line import FAILURE, INTERRUPTED, OK, CliFailure
from elwood.foundation.net.control import NotRunning, ServiceUnreachable, ask_over
from elwood.foundation.text.characters import printable_json
from elwood.foundation.text.lines import escape_name

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
    began = time.time()
    id_, is_taken, stopped_by = say(connection, text), False, 0
    answers, records, files = list[str](), list[str](), list[str]()
    for frame in _frames(connection, signals):
        match frame:
            case frames.Took(why=why):
                if why:
                    raise CliFailure(f"I could not accept that: {why}")
                is_taken = True
            case frames.StopWanted(number=number):
                # A command is recorded, so a later Elwood knows it, too.
                say(connection, "/stop")
                print("\nStopping … Press Ctrl-C again to quit now.", file=sys.stderr)
                stopped_by = number
            case _ if draw is not None and draw(frame):
                pass
            case frames.Message(is_reply=True):
                files += [file.name for file in frame.files]
                gap = "\n" if answers else ""
                answers.append(format_message(frame, records=False))
                records += filter(None, [frame.records])
                if not as_json:
                    stream = sys.stderr if stopped_by else sys.stdout
                    print(f"{gap}{answers[-1]}", file=stream, flush=True)
                    if frame.records:
                        print(f"\n{frame.records}", file=sys.stderr)
            case frames.Message():
                print(format_message(frame), file=sys.stderr)
            case frames.Running(why) if why:
                print(why, file=sys.stderr)
            case frames.State(busy=False, waiting=0) if is_taken:
                code = FAILURE if frame.failed else WAITS if frame.asks else OK
                outcome = {OK: "answered", FAILURE: "failed", WAITS: "waits"}[code]
                if stopped_by:
                    code, outcome = 128 + stopped_by, "stopped"
                if as_json:
                    log = state / "sessions" / f"{session}.jsonl"
                    models, cost = _usage(state / "usage.jsonl", session, began)
                    whole = {
                        "answer": "\n\n".join(answers),
                        "records": "\n\n".join(records),
                        "session": session,
                        "outcome": outcome,
                        "failed": frame.failed,
                        "receipts": _receipts(log, f"console:{id_}"),
                        "files": files,
                        "models": models,
                        "cost": cost,
                        "duration": round(time.time() - began, 3),
                    }
                    print(printable_json(msgspec.json.encode(whole).decode()))
                return code
    raise AppGone(GONE.format(session))


def _frames(connection: socket.socket, signals: Sequence[socket.socket]) -> Iterator[frames.Frame]:
    """Yield the frames from Elwood, and a `StopWanted` for each number on *signals*."""
    rest = b""
    with suppress(ConnectionResetError):
        while len(rest) <= frames.MAX_FRAME:
            ready, _, _ = select.select([connection, *signals], [], [])
            for one in signals:
                if one in ready:
                    yield from map(frames.StopWanted, one.recv(16))
            if connection in ready:
                if not (data := connection.recv(65_536)):
                    return
                *lines, rest = (rest + data).split(b"\n")
                yield from map(decode_frame, lines)


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
