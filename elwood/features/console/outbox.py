"""The terminals that are attached: what is posted at the console goes to those of its conversation.

They are shown besides how it stands, and what is said and answered in it elsewhere.  That is read
off the state which the conversation publishes: it is offered to who looks on, and owed to nobody.
"""

import hashlib
import math
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Literal, get_args

import attrs
import msgspec
import trio

from elwood.agent.approvals.messages import CommandResult, ListApprovals
from elwood.agent.channels.messages import (
    Draft,
    Edit,
    OutboxMail,
    Post,
    Sent,
    Typing,
    Undeliverable,
)
from elwood.agent.conversation.inbound import (
    PREFIX,
    Busy,
    Inbound,
    NotNow,
    Principal,
    Refused,
    Taken,
    is_choice,
    typed,
)
from elwood.agent.conversation.message import Assistant, ReceivedFile
from elwood.agent.conversation.route import Route
from elwood.agent.conversation.run import is_unattended
from elwood.agent.media.store import FileKeeper
from elwood.agent.models.settings import ModelSettings
from elwood.agent.parts import Connected
from elwood.agent.session.core import Core
from elwood.agent.session.log.entries import Entry, Received, Replied
from elwood.agent.session.log.state import Session
from elwood.agent.session.reading.records import History
from elwood.features.console import wire
from elwood.foundation.runtime import Mailbox
from elwood.foundation.sandbox.settings import SandboxSettings
from elwood.foundation.storage.confined import PathRefused, Unconfined
from elwood.foundation.storage.files import Root
from elwood.foundation.storage.journal import JournalDamaged, entries_of
from elwood.foundation.text.lines import cut, one_line
from elwood.foundation.text.markdown import Rich, native
from elwood.foundation.text.splitting import with_footer

# Who sits there, in which conversation if they say none, and where answers go.
OWNER = Principal("console", "owner", owner=True)
CONSOLE = "console"
ROUTE = Route(channel="console")
# Terminals at once, and seconds in which one must take a frame.
MAX_TERMINALS, TAKES = 8, 30.0
# Exchanges that one is shown when it comes, and characters of what was said elsewhere or before.
EXCHANGES, MAX_SHOWN = 2, 4000
# Characters of the line that says what runs; bytes of a file that goes along with a message.
MAX_RUNNING, MAX_FILE = 150, 20 << 20
NOT_CONFINED = (
    "Commands are not confined here (sandbox.kind), so what asks could be one of them: no terminal "
    "may join. Talk on Telegram, or stop Elwood and start elwood chat."
)
# Nobody sits at one that asks `once`: it gets answers, and no question is put to it.
Mode = Literal["talk", "watch", "once"]


def route_to(session: str) -> Route:
    """Say where its terminals are: the console is one chat, with a topic for each conversation."""
    digest = hashlib.sha256(session.encode()).digest()
    topic = None if session == CONSOLE else int.from_bytes(digest[:6])
    return msgspec.structs.replace(ROUTE, topic=topic)


@attrs.define(eq=False)
class _Terminal:
    """One that is attached to *session*.

    *owed* are posts that it has not taken yet, by their ids; *known* is what it has seen of the
    conversation, *own* what was said at it last, *running* and *state* what it was told last.
    """

    session: str
    mode: Mode
    known: set[str]
    send: trio.MemorySendChannel[wire.ToTerminal]
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    owed: dict[str, Post] = attrs.field(factory=dict)
    own: str = ""
    running: str = ""
    state: wire.State | None = None

    def give(self, frame: wire.ToTerminal) -> None:
        """Queue *frame*; a terminal that reads too slowly is let go."""
        is_offered = isinstance(frame, wire.Writing | wire.Thinking | wire.Running)
        if is_offered and self.send.statistics().current_buffer_used > wire.MAX_WAITING // 2:
            return
        try:
            self.send.send_nowait(frame)
        except (trio.WouldBlock, trio.BrokenResourceError):
            self.scope.cancel()

    def runs(self, what: str) -> None:
        """Say what runs now, or why nothing does, unless that was said."""
        if what != self.running:
            self.running = what
            self.give(wire.Running(what))


class Terminals:
    """The outbox of the console, and the way in for who sits there; the first one *came*."""

    def __init__(self, core: Core, keeper: FileKeeper) -> None:
        self._core = core
        self._keeper = keeper
        self._attached: list[_Terminal] = []
        self._stop: tuple[wire.StopWanted, ...] = ()
        self.has_stopped = False
        self.came = trio.Event()

    def session_at(self, route: Route) -> str | None:
        """Name the conversation whose terminals are at *route*, if it is in memory."""
        live = self._core.live.states
        return next((name for name in live if route_to(name).topic == route.topic), None)

    # --- what is posted ---------------------------------------------------------------------------

    async def run(self, mailbox: Mailbox[OutboxMail]) -> None:
        """Hand on until the mailbox is closed."""
        async for message in mailbox:
            topic = message.route.topic
            there = [one for one in self._attached if route_to(one.session).topic == topic]
            match message:
                case Post():
                    self._post(message, there)
                case Edit(message=id_, part=part):
                    text = None if part is None else readable(part)
                    _give(there, wire.Changed(id=id_, text=text, choices=_choices(message)))
                    message.reply.set(Sent(id_))
                case Draft(text=text) if there:
                    _give(there, (wire.Thinking if message.is_thought else wire.Writing)(text))
                case Typing(why=why) if why:
                    for one in there:
                        one.runs(why)

    def _post(self, post: Post, there: Sequence[_Terminal]) -> None:
        """Show a post, which has arrived when one of those who talk has taken it."""
        id_ = self._core.environment.new_id()
        asks = not post.is_reply and any(typed(one.data) for one in post.buttons)
        if not there and post.route.topic is None:
            there = self._attached  # it is of no conversation, so for whoever is here
        owed = [one for one in there if one.mode == "talk" or (one.mode == "once" and not asks)]
        for one in owed:
            one.owed[id_] = post
        if not owed:
            post.reply.set(_nobody(self.session_at(post.route)))
        files = tuple(wire.ShownFile(file.name, len(file.data)) for file in post.files)
        shown = wire.Message(
            id=id_,
            text=readable(post.part),
            markdown=post.markdown,
            is_reply=post.is_reply,
            is_repeat=post.repeat,
            choices=_choices(post),
            files=files,
            code=tuple(_code(post.part)),
        )
        _give(there, shown)

    # --- who comes --------------------------------------------------------------------------------

    async def attach(self, words: Sequence[str]) -> CommandResult:
        """Let a terminal in that asks at the control socket; the answer names its conversation."""
        if self._core.config.of(SandboxSettings).kind == "direct":
            return CommandResult(NOT_CONFINED, ok=False)
        return await self.admit(*(*words, "", "")[:2])

    async def admit(self, wanted: str, mode: str) -> CommandResult:
        """Let one in, whoever it is."""
        modes: list[Mode] = [one for one in get_args(Mode) if one == mode]
        session = await self._core.environment.blocking(partial(self._session, wanted, mode))
        why = ""
        if len(self._attached) >= MAX_TERMINALS:
            why = f"{MAX_TERMINALS} terminals are attached already: leave one of them."
        elif not (session and modes):
            why = f"There is no conversation {one_line(wanted)}."
        elif mode != "watch" and not self._is_owners(session):
            why = f"{session} is not a conversation of yours: elwood watch {session} shows it."
        if why:
            return CommandResult(why, ok=False)
        return Connected(session, ok=True, serve=partial(self.serve, session, modes[0]))

    def _session(self, wanted: str, mode: str) -> str:
        """Find what is *wanted*; empty if that is no conversation, or no name of one.  Blocks."""
        channels, folder = self._core.channels, self._core.paths.state / "sessions"
        if wanted == "telegram":
            routes = [one for one in channels.owner_routes() if one.channel == wanted]
            return next(filter(None, map(channels.session_at, routes)), "")
        if wanted == wire.LAST:
            own = [path for path in folder.glob("*.jsonl") if self._is_owners(path.stem)]
            return max(own, key=lambda path: path.stat().st_mtime).stem if own else CONSOLE
        is_name = re.fullmatch(wire.SESSION, wanted) is not None
        if is_name and mode == "watch" and wanted != CONSOLE:
            is_name = (folder / f"{wanted}.jsonl").exists()
        return wanted if is_name else ""

    def _is_owners(self, session: str) -> bool:
        """Tell whether an owner talks there: nobody else, no group, and not the run of a task."""
        if session.startswith(PREFIX):
            chat = session.removeprefix(PREFIX).partition("-")[0]
            return f"tg:{chat}" in self._core.channels.owners
        return not (is_unattended(session) or session.startswith("mcp-"))

    def stop(self, number: int) -> None:
        """Have each terminal, also one that comes, stop what was said at it: a signal came.

        *has_stopped* is set when that is recorded.
        """
        self._stop = (wire.StopWanted(number),)
        _give(self._attached, *self._stop)

    async def serve(self, session: str, mode: Mode, stream: trio.SocketStream) -> None:
        """Let a terminal sit in *session* until one of us goes."""
        send, receive = trio.open_memory_channel[wire.ToTerminal](wire.MAX_WAITING)
        before, known = await self._core.environment.blocking(partial(self._before, session))
        if len(self._attached) >= MAX_TERMINALS:
            return  # others came at the same moment
        me = _Terminal(session, mode, known, send)
        self._attached.append(me)
        self.came.set()
        try:
            with me.scope:
                _give([me], *(before if mode != "once" else ()), *self._stop)
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._write, me, stream, receive)
                    nursery.start_soon(self._follow, me)
                    await self._read(me, stream)
                    nursery.cancel_scope.cancel()
        finally:
            self._attached.remove(me)
            for id_, post in me.owed.items():
                if not any(id_ in one.owed for one in self._attached):
                    post.reply.set(_nobody(session))

    async def _write(
        self,
        me: _Terminal,
        stream: trio.SocketStream,
        frames: trio.MemoryReceiveChannel[wire.ToTerminal],
    ) -> None:
        async for frame in frames:
            try:
                with trio.fail_after(TAKES):
                    await stream.send_all(wire.encode(frame))
            except trio.TooSlowError:
                me.scope.cancel()
                return
            except trio.BrokenResourceError:
                return  # it has gone; what it said last, such as /stop, is still to be read
            if isinstance(frame, wire.Message) and (post := me.owed.pop(frame.id, None)):
                post.reply.set(Sent(frame.id))

    async def _follow(self, me: _Terminal) -> None:
        if [one for one in self._attached if one.mode == "talk"] == [me]:
            # What waits for a decision was asked of somebody who has gone.
            asked = ListApprovals(by=OWNER.id, route=route_to(me.session))
            self._core.approvals.offer(asked)
        while True:
            self._look(me)
            await self._core.live.wait_change()

    def _look(self, me: _Terminal) -> None:
        """Tell *me* what has changed in its conversation."""
        state = self._core.live.states.get(me.session) or Session()
        turn, waiting = state.turn, state.waiting.values()
        # A recording is shown when it has words.
        heard = [one for one in (*(turn.inputs if turn else ()), *waiting) if not one.pending]
        replied = [one.replied for one in state.undelivered.values()]
        said = _said(state)
        if me.mode != "once":
            for one in heard:
                if one.id not in me.known and one.id != me.own:
                    me.give(self._heard(one))
            for reply in replied:
                if _key(reply) not in me.known and reply.route.channel != CONSOLE:
                    me.give(_told(reply))
            for id_, words in said.items():
                if id_ not in me.known:
                    text = cut(self._core.redactor(words), MAX_SHOWN)
                    me.give(wire.Message(id=id_, text=text, markdown=text, is_said=True))
            has_box = me.mode == "talk" and turn and turn.route.channel == CONSOLE
            is_asked = turn and turn.asking and not has_box
            under_way = turn.under_way if turn and (turn.running or is_asked) else ""
            me.runs(one_line(self._core.redactor(under_way), MAX_RUNNING))
        now = wire.State(
            busy=bool(turn or state.undelivered),
            waiting=len(waiting),
            failed=state.failed,
            asks=len(state.pending),
            model=state.model or self._core.config.of(ModelSettings).default,
        )
        if now != me.state:
            me.state = now
            me.give(now)
        me.known = {*(one.id for one in heard), *map(_key, replied), *said}

    def _heard(self, received: Received, *, is_old: bool = False) -> wire.HeardElsewhere:
        who, run = received.speaker or received.principal, received.bounds
        if received.principal in self._core.channels.owners:
            who = "you" if received.route.channel == CONSOLE else f"you ({received.route.channel})"
        who = who if run is None else f"the task {run.owner}"
        return wire.HeardElsewhere(who=who, text=cut(received.text, MAX_SHOWN), is_old=is_old)

    def _before(self, session: str) -> tuple[list[wire.ToTerminal], set[str]]:
        """Give the last exchanges of *session*, and what is known with them.  Blocks."""
        path = self._core.paths.state / "sessions" / f"{session}.jsonl"
        frames, known = list[wire.ToTerminal](), set[str]()
        # It is a new one, or the session itself says what is wrong.
        with suppress(JournalDamaged, OSError):
            history = History(session, list(entries_of(path, Entry)))
            for turn in [one for one in history.turns if history.is_present(one.seq)][-EXCHANGES:]:
                for heard in turn.heard:
                    frames.append(self._heard(heard.received, is_old=True))
                    known.add(heard.received.id)
                if turn.answer is not None and not turn.answer.quiet:
                    frames.append(_told(turn.answer, is_old=True))
                    known.add(_key(turn.answer))
        return frames, known

    # --- what they say ----------------------------------------------------------------------------

    async def _read(self, me: _Terminal, stream: trio.SocketStream) -> None:
        """Take in what is said at *me* until it goes, or sends what is no frame."""
        rest = b""
        with suppress(trio.BrokenResourceError, msgspec.DecodeError):
            while len(rest) <= wire.MAX_FRAME and (more := await stream.receive_some()):
                *lines, rest = (rest + more).split(b"\n")
                for line in lines:
                    said = msgspec.json.decode(line, type=wire.FromTerminal)
                    why = await self._take(me, said)
                    self.has_stopped |= bool(self._stop) and said.text == "/stop" and not why
                    me.give(wire.Took(said.id, why))
                    me.state = None  # it is told behind this, also if all is over by now
                    self._look(me)

    async def _take(self, me: _Terminal, said: wire.SaidHere) -> str:
        """Hand on what was said; say why not, if it was not taken."""
        if me.mode == "watch":
            return "this terminal only watches"
        if len(said.text.encode()) > wire.MAX_TEXT or len(said.files) > wire.MAX_FILES:
            return f"more than {wire.MAX_TEXT >> 10} KiB of text, or {wire.MAX_FILES} files"
        if not (said.text.strip() or said.files):
            return "it is empty"
        files = []
        for path in said.files:
            try:
                files.append(await self._keep(me.session, Path(path)))
            except (OSError, PathRefused, Unconfined) as error:
                return f"I cannot take {path}: {error}"
        me.own = f"{CONSOLE}:{said.id}"
        make = partial(
            Inbound,
            session=me.session,
            id=me.own,
            principal=OWNER,
            route=route_to(me.session),
            text=said.text,
            sent_at=self._core.clock.now(),
            files=tuple(files),
        )
        match await self._core.sessions.insist(make):
            case Taken():
                return ""
            case Busy(count):
                return f"{count} messages are waiting already"
            case Refused(why) | NotNow(why):
                return why

    async def _keep(self, session: str, path: Path) -> ReceivedFile:
        """Copy a file of this machine into the workspace, and find out what is in it."""
        read = partial(Root(path.parent).read, path.name, MAX_FILE)
        data = await self._core.environment.blocking(read)
        file, _ = await self._keeper.keep(session, path.name, "a file", data)
        return await self._keeper.understand(session, file, data)


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


def _code(rich: Rich) -> Iterator[str]:
    """Yield what of *rich* is code and has lines of its own."""
    data = f"\n{rich.text}\n".encode("utf-16-le")
    for entity in rich.entities:
        start, end = 2 * entity.offset + 2, 2 * (entity.offset + entity.length) + 2
        before, after = (data[at : at + 2].decode("utf-16-le", "ignore") for at in (start - 2, end))
        if entity.type in ("code", "pre") and before == after == "\n":
            yield data[start:end].decode("utf-16-le")


def _nobody(session: str | None) -> Undeliverable:
    shows = f"elwood chat --session {session} shows it" if session else "elwood session has it"
    return Undeliverable(f"no terminal is attached; {shows}")


def _give(terminals: Sequence[_Terminal], *frames: wire.ToTerminal) -> None:
    for terminal in terminals:
        for frame in frames:
            terminal.give(frame)


def _choices(message: Post | Edit) -> tuple[wire.Choice, ...]:
    pressed = [one for one in message.buttons if is_choice(one.data)]
    return tuple(wire.Choice(one.text, typed(one.data) or one.text) for one in pressed)


def _key(replied: Replied) -> str:
    return f"reply {replied.reply}"


def _said(state: Session) -> dict[str, str]:
    """Give what the model said in this turn before its calls, which stands in no answer."""
    start = state.turn.start if state.turn else math.inf
    messages = [(node.seq, node.message) for node in state.path if node.seq > start]
    return {
        f"said {seq}": one.text
        for seq, one in messages
        if isinstance(one, Assistant) and one.calls and one.text.strip()
    }


def _told(replied: Replied, *, is_old: bool = False) -> wire.Message:
    text = cut(replied.text, MAX_SHOWN)
    return wire.Message(
        id=_key(replied),
        text=readable(with_footer(text, replied.footer)),
        markdown=native(text, replied.footer),
        is_reply=True,
        is_old=is_old,
    )
