"""The console as a channel: lines in, answers out; on a terminal or in a pipe.

On a terminal the Outbox owns the prompt, because only it knows when an answer stands above it;
the Intake writes nothing itself.
"""

import os
from collections.abc import Awaitable, Callable
from functools import partial
from typing import assert_never

import trio

from elwood.agent.channels.messages import (
    Draft,
    Edit,
    OutboxMail,
    Post,
    Reachable,
    React,
    Sent,
    Status,
    Typing,
    Undeliverable,
)
from elwood.agent.conversation.inbound import (
    Busy,
    Inbound,
    NotNow,
    Principal,
    Refused,
    Taken,
    is_choice,
    numbered,
    typed,
)
from elwood.agent.conversation.route import Route
from elwood.agent.session.messages import SessionsMail
from elwood.foundation.runtime import Address, Blocking, Mailbox, waiting
from elwood.foundation.text.characters import printable
from elwood.foundation.text.lines import clip, escape_name
from elwood.foundation.text.markdown import Rich

# Seconds before a line that found no room is offered again, lest a pipe spins.
BUSY_PAUSE = 0.1
# Seconds for telling the person something that belongs to no session.
SAY_LIMIT = 60.0
# Columns of the line that shows what is being written.
PREVIEW = 72
# Who writes there, in which conversation, and where answers go.
OWNER = Principal("console", "owner", owner=True)
CONSOLE = "console"
ROUTE = Route(channel="console")
# Bytes of one line; what is longer is a paste that belongs into a file.
MAX_LINE = 64 * 1024

Receive = Callable[[], Awaitable[bytes]]
Write = Callable[[str], Awaitable[None]]


class TooLong:
    """A line of more than `MAX_LINE` bytes stood here."""


class Lines:
    """Lines of a source of bytes; outlives the incarnations of the Intake that reads them.

    *receive* returns some bytes, none at the end.  *count* is how many lines there were.
    """

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._buffer = b""
        self._ended = False
        self._skipping = False
        self.count = 0

    async def next(self) -> str | TooLong | None:
        """Return one line without its end, or None when there are no more."""
        while True:
            line, newline, rest = self._buffer.partition(b"\n")
            if newline or self._ended:
                self._buffer = rest
                skipped, self._skipping = self._skipping, False
                if not newline and not line and not skipped:
                    return None
                self.count += 1
                if skipped or len(line) > MAX_LINE:
                    return TooLong()
                return line.decode("utf-8", "replace").rstrip("\r")
            if len(self._buffer) > MAX_LINE:
                self._buffer, self._skipping = b"", True
            data = await self._receive()
            self._ended = not data
            self._buffer += data


def read_fd(fd: int) -> Receive:
    """Read from a descriptor that may be a terminal, a pipe or a file.

    The thread is left behind when cancelled, and it reads the bare descriptor: a thread that
    held the lock of ``sys.stdin`` would be fatal at the exit of the interpreter.
    """

    def read() -> bytes:
        try:
            return os.read(fd, 64 * 1024)
        except OSError:  # the terminal has gone
            return b""

    async def receive() -> bytes:
        return await trio.to_thread.run_sync(read, abandon_on_cancel=True)

    return receive


def write_fd(fd: int, blocking: Blocking) -> Write:
    """Write to a descriptor; raises OSError when nobody reads it, or the terminal has gone."""

    def write_all(data: bytes) -> None:
        while data:
            data = data[os.write(fd, data) :]

    async def write(text: str) -> None:
        data = text.encode("utf-8", "replace")
        await blocking(lambda: write_all(data))

    return write


def readable(rich: Rich) -> str:
    """Give *rich* without formatting, but with the addresses behind its links.

    >>> from elwood.foundation.text.markdown import Entity
    >>> readable(Rich("see 👋 here", (Entity("text_link", 7, 4, url="https://example.org"),)))
    'see 👋 here (https://example.org)'
    """
    text = rich.text.encode("utf-16-le")
    for entity in sorted(rich.entities, key=lambda e: e.offset + e.length, reverse=True):
        end = 2 * (entity.offset + entity.length)
        if entity.url and text[2 * entity.offset : end].decode("utf-16-le") != entity.url:
            text = text[:end] + f" ({entity.url})".encode("utf-16-le") + text[end:]
    return text.decode("utf-16-le")


def inbound(session: str, id: str, text: str, sent_at: float) -> Inbound:
    """Make the message that *text* is, by the one who sits there."""
    return Inbound(session=session, id=id, principal=OWNER, route=ROUTE, text=text, sent_at=sent_at)


class ConsoleIntake:
    """Asks *sessions* to take each line; one id for each, so that asking again is harmless.

    At the end of the input, or after ``/quit``, it waits for *quiet* (no session has work left)
    and sets *done*.  On a *terminal* a person is told when too much is waiting; a pipe waits.
    """

    def __init__(
        self,
        lines: Lines,
        sessions: Address[SessionsMail],
        outbox: Address[OutboxMail],
        *,
        new_id: Callable[[], str],
        now: Callable[[], float],
        quiet: Callable[[], Awaitable[None]],
        done: trio.Event,
        terminal: bool = False,
    ) -> None:
        self._lines = lines
        self._sessions = sessions
        self._outbox = outbox
        self._new_id = new_id
        self._now = now
        self._quiet = quiet
        self._done = done
        self._terminal = terminal
        self._nursery: trio.Nursery | None = None
        # How many lines there were, and whether an answer was to be stopped, at the last Ctrl-C.
        self._interrupted: tuple[int, bool] | None = None

    def interrupt(self, *, busy: bool) -> bool:
        """Take a Ctrl-C: it stops an answer, if we are *busy* with one, as ``/stop`` does.

        Otherwise it asks for a second one.  False at the second in the same place: it is to end us.
        """
        before, self._interrupted = self._interrupted, (self._lines.count, busy)
        if before == self._interrupted or self._nursery is None:
            return False
        if busy:
            self._nursery.start_soon(self._take, "/stop")
        else:
            self._nursery.start_soon(self._say, "Press Ctrl-C again to end.")
        return True

    async def run(self, mailbox: Mailbox[None]) -> None:
        """Read until the end of the input, then rest until the mailbox is closed."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            nursery.start_soon(self._read)
            try:
                async for _ in mailbox:
                    pass
            finally:
                self._nursery = None
            nursery.cancel_scope.cancel()

    async def _read(self) -> None:
        while not self._done.is_set():
            line = await self._lines.next()
            if isinstance(line, TooLong):
                await self._say(f"That line was longer than {MAX_LINE // 1024} KiB; I left it out.")
            elif line is None or line.strip() == "/quit":
                with waiting("the last answers"):
                    await self._quiet()
                self._done.set()
            elif line.strip():
                await self._take(line)
            elif self._terminal:
                await self._say("")  # the prompt again

    async def _take(self, text: str) -> None:
        make = partial(inbound, CONSOLE, f"console:{self._new_id()}", text, self._now())
        answer = None
        while answer is None:
            with waiting("a session to take a line"):
                answer = await self._sessions.insist(make)
            if isinstance(answer, Busy) and not self._terminal:
                answer = None  # it was not taken: offer it again when there is room
                with waiting("room in the session"):
                    await self._quiet()
                    await trio.sleep(BUSY_PAUSE)
        match answer:
            case Taken():
                pass
            case Busy(count):
                await self._say(f"{count} messages are waiting already; I did not take that one.")
            case Refused(why) | NotNow(why):
                await self._say(f"I did not take that: {why}")
            case _:
                assert_never(answer)

    async def _say(self, text: str) -> None:
        with trio.move_on_after(SAY_LIMIT):
            await self._outbox.insist(lambda: Post(route=ROUTE, part=Rich(text)))


class ConsoleOutbox:
    """Prints what it is asked to post: the bare text, or on a terminal with prompts.

    There *entered* counts the lines that were typed: from a prompt until the next line somebody may
    be typing, an answer to a question say, and nothing wipes that away but a post.

    A `Sent` means that the descriptor took it.  Files are named; the answers to a question stand
    as a list.  Why there is no answer yet goes *aside*, if it is a pipe.  Other buttons, and
    silence, mean nothing here.
    """

    def __init__(
        self, write: Write, *, entered: Callable[[], int] | None = None, aside: Write | None = None
    ) -> None:
        self._write = write
        self._aside = aside
        self._told = ""
        self._entered = entered
        self._posts = 0
        # Lines that had been typed when the prompt was written, and when a sign of life was.
        self._prompt_at = self._sign_at = 0

    async def run(self, mailbox: Mailbox[OutboxMail]) -> None:
        """Print until the mailbox is closed.  A reader that has gone away is not a crash."""
        if self._entered is not None:
            self._prompt_at = self._entered()
            await self._try("you> ")
        async for message in mailbox:
            match message:
                case Post():
                    await self._post(message)
                case Edit():
                    message.reply.set(Undeliverable("what was printed stays"))
                case Draft():
                    if self._may_sign(again=True):
                        await self._sign(" ".join(message.text.split())[-PREVIEW:])
                case Status(text=text):
                    if self._may_sign(again=True):
                        await self._sign(text)
                case Typing(why=why):
                    if self._may_sign(again=bool(why)):
                        await self._sign(why)
                    elif self._aside is not None and why not in ("", self._told):
                        self._told = why
                        await self._aside(f"{printable(why)}\n")
                case React() | Reachable():
                    pass  # it stands there, and is seen
                case _:
                    assert_never(message)
        if self._entered is not None:
            await self._try("\r\x1b[K")

    def _may_sign(self, *, again: bool) -> bool:
        """Tell whether the line below what was typed is free; *again* to write what changed."""
        entered = 0 if self._entered is None else self._entered()
        return entered > self._prompt_at and (again or entered > self._sign_at)

    async def _sign(self, text: str) -> None:
        """Show on the line below what was typed that something goes on."""
        assert self._entered is not None
        self._sign_at = self._entered()
        await self._try(f"\r\x1b[K… {clip(text, PREVIEW)}".rstrip())

    async def _post(self, post: Post) -> None:
        text = printable("\n".join(_lines(post))).rstrip("\n")
        again = "(again) " if post.repeat else ""
        if self._entered is not None:
            self._prompt_at = self._entered()
            gap = "\n" if "\n" in text else " "
            shown = f"elwood>{gap}{again}{text}\n" if text else ""
            line = f"\r\x1b[K{shown}you> "
        else:
            # A blank line between answers: they may have several lines each.
            gap = "\n" if self._posts else ""
            line = f"{gap}{again}{text}\n" if text else ""
        if await self._try(line):
            self._posts += 1
            post.reply.set(Sent(""))
        else:
            post.reply.set(Undeliverable("nobody reads the console any more"))

    async def _try(self, text: str) -> bool:
        try:
            with waiting("the console to take output"):
                await self._write(text)
        except OSError:
            return False
        return True


def _lines(post: Post) -> list[str]:
    text = readable(post.part).rstrip("\n")
    files = [f"[file {escape_name(file.name)}, {len(file.data):,} bytes]" for file in post.files]
    options = numbered(typed(b.data) or b.text for b in post.buttons if is_choice(b.data))
    return [part for part in (text, *files, options) if part]
