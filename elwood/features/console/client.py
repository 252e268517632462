"""The plain ends of a terminal: lines in and answers out, or one message.

They sit at a socket, as all terminals do, whose other end may be in this process.
"""

import os
import secrets
import select
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from elwood.features.console import wire
from elwood.foundation.command_line import FAILURE, INTERRUPTED, OK, CliFailure
from elwood.foundation.net.control import NobodyRuns, ServiceUnreachable, ask_over
from elwood.foundation.text.characters import printable_json
from elwood.foundation.text.lines import escape_name

# The exit code of `elwood once` if a call waits for the owner.
WAITS = 3
GONE = "Elwood has ended. What was said stands in its log: elwood chat --session {} shows it."


class HouseGone(CliFailure):
    """The other end has closed."""


def attach(runtime: Path, session: str, mode: str) -> tuple[socket.socket, str] | None:
    """Join the Elwood that runs in *runtime*; give the name of the session as well.

    None if none does.  Raises CliFailure.
    """
    client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        answer = ask_over(client, runtime, "attach", session, mode, buffering=0)
        if not answer.ok:
            raise CliFailure(answer.text)
    except NobodyRuns:
        client.close()
        return None
    except ServiceUnreachable as error:
        raise CliFailure(error) from error
    client.settimeout(None)
    return client, answer.text


def say(connection: socket.socket, text: str) -> str:
    """Say *text*; return its id."""
    said = wire.SaidHere(id=secrets.token_hex(16), text=text)
    with suppress(BrokenPipeError, ConnectionResetError):  # whoever reads sees that it has gone
        connection.sendall(wire.encode(said))
    return said.id


def read(line: bytes) -> wire.ToTerminal:
    """Read a frame.  Raises CliFailure."""
    try:
        frame: wire.ToTerminal = msgspec.json.decode(line, type=wire.ToTerminal)
    except msgspec.DecodeError as error:
        raise CliFailure(f"The running Elwood is of another version: {error}") from error
    return frame


def shown(message: wire.Message) -> str:
    """Put a message into plain lines."""
    files = [f"[file {escape_name(file.name)}, {file.size:,} bytes]" for file in message.files]
    options = [_option(number, one) for number, one in enumerate(message.choices, 1)]
    text = "\n".join(filter(None, (message.text.rstrip("\n"), *files, *options)))
    return f"(again) {text}" if message.is_repeat else text


def _option(number: int, choice: wire.Choice) -> str:
    """Write what can be typed; a number is understood only where the model asks."""
    if choice.says.startswith("/"):
        return f"  {choice.text}: {choice.says}" if choice.text != choice.says else choice.says
    return f"{number}. {choice.says}"


# --- one message ----------------------------------------------------------------------------------


def once(connection: socket.socket, session: str, text: str, logs: Path, *, as_json: bool) -> int:
    """Say *text* and print the answer, what is told besides on stderr; return the exit code.

    As JSON it comes with the receipts, of which the *logs* of conversations are the source.
    """
    id_, is_taken = say(connection, text), False
    answers, files = list[str](), list[str]()
    for frame in _frames(connection):
        match frame:
            case wire.Took(why=why):
                if why:
                    raise CliFailure(f"I did not take that: {why}")
                is_taken = True
            case wire.Message(is_reply=is_reply):
                files += [file.name for file in frame.files]
                gap = "\n" if is_reply and answers else ""
                answers += [shown(frame)] if is_reply else []
                if not (is_reply and as_json):
                    print(f"{gap}{shown(frame)}", file=sys.stdout if is_reply else sys.stderr)
            case wire.Running(why) if why:
                print(why, file=sys.stderr)
            case wire.State(busy=False, waiting=0) if is_taken:
                code = FAILURE if frame.failed else WAITS if frame.asks else OK
                if as_json:
                    whole = {
                        "answer": "\n\n".join(answers),
                        "session": session,
                        "outcome": {OK: "answered", FAILURE: "failed", WAITS: "waits"}[code],
                        "failed": frame.failed,
                        "receipts": _receipts(logs / f"{session}.jsonl", f"console:{id_}"),
                        "files": files,
                    }
                    print(printable_json(msgspec.json.encode(whole).decode()))
                return code
    raise HouseGone(GONE.format(session))


def _frames(connection: socket.socket) -> Iterator[wire.ToTerminal]:
    with suppress(ConnectionResetError), connection.makefile("rb") as lines:
        while (line := lines.readline(wire.MAX_FRAME + 1)).endswith(b"\n"):
            yield read(line)


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


# --- lines ----------------------------------------------------------------------------------------


def talk(
    connection: socket.socket, session: str, commands: object = (), *, watches: bool = False
) -> int:
    """Say each line of stdin and print what comes, until both are at their end.

    On a terminal lines are said as they come, from a pipe when what was said before is answered.
    """
    terminal = os.isatty(0) and os.isatty(1) and not watches
    is_pipe, has_printed = not (terminal or watches), False
    todo, house, typed = list[str](), b"", b""
    is_busy, is_over, on_its_way, is_prompted = True, watches, 0, False
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
            if watches or not is_busy:
                return INTERRUPTED
            todo.insert(0, "/stop")
            continue
        if connection.fileno() in ready:
            data = connection.recv(65_536)
            if not data:
                raise HouseGone(GONE.format(session))
            *lines, house = (house + data).split(b"\n")
            for frame in map(read, lines):
                on_its_way -= isinstance(frame, wire.Took)
                if isinstance(frame, wire.State):
                    # What is on its way is behind it: one more comes when that was taken.
                    is_busy = frame.busy or frame.waiting + on_its_way > 0
                elif line := _line(frame, is_pipe=is_pipe):
                    gap = "\n" if is_prompted or (is_pipe and has_printed) else ""
                    print(f"{gap}{line}", flush=True)
                    is_prompted, has_printed = False, True
        else:
            data, is_prompted = os.read(0, 65_536), False
            *said, typed = (typed + (data or b"\n")).split(b"\n")
            texts = [line.decode("utf-8", "replace").strip() for line in said]
            is_over = not data or "/quit" in texts
            if len(typed) > wire.MAX_TEXT:
                most = f"{wire.MAX_TEXT >> 10} KiB"
                raise CliFailure(f"A line has more than {most}: put it into a file and name that.")
            todo += filter(None, texts[: texts.index("/quit")] if "/quit" in texts else texts)


def _line(frame: wire.ToTerminal, *, is_pipe: bool) -> str:
    """Say *frame* in words; a pipe has the answers only, and knows what it asked."""
    match frame:
        case wire.Message() if is_pipe:
            return "" if frame.is_old else shown(frame)
        case wire.Message():
            text = shown(frame)
            return f"elwood>{chr(10) if chr(10) in text else ' '}{text}"
        case wire.HeardElsewhere() if not is_pipe:
            return f"{frame.who}> {frame.text}"
        case wire.Running(text) if text and not is_pipe:
            return f"… {text}"
        case wire.Took(why=why) if why:
            return f"I did not take that: {why}"
    return ""
