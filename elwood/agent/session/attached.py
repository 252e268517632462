"""Clients that are attached to sessions.

A client gets the posts of its channel (`elwood.agent.channels.attached`), and also the state of the
session and its messages and answers in other channels. These are read from the published state of
the session: they are offered, and a client may miss some.
"""

import math
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import attrs
import trio

from elwood.agent.approvals.messages import ListApprovals
from elwood.agent.channels import frames
from elwood.agent.channels.attached import MAX_RUNNING, AttachedClient, AttachedClients, readable
from elwood.agent.conversation.inbound import Busy, Inbound, NotNow, Principal, Refused, Taken
from elwood.agent.conversation.message import Assistant, ReceivedFile
from elwood.agent.conversation.route import Route
from elwood.agent.media.store import FileKeeper
from elwood.agent.models.settings import ModelSettings
from elwood.agent.session.core import Core
from elwood.agent.session.log.entries import Entry, Received, Replied
from elwood.agent.session.log.state import Session
from elwood.agent.session.reading.records import History
from elwood.foundation.storage.confined import PathRefused, Unconfined
from elwood.foundation.storage.files import Root
from elwood.foundation.storage.journal import JournalDamaged, entries_of
from elwood.foundation.text.lines import one_line, shorten
from elwood.foundation.text.splitting import with_footer

# Exchanges shown to a new client, and characters of an old text or one from another channel.
EXCHANGES, MAX_SHOWN = 2, 4000
# Bytes of a file sent with a message.
MAX_FILE = 20 << 20


@attrs.define(eq=False)
class _View:
    """The parts of a session that *client* has received."""

    client: AttachedClient
    # Keys of the messages and answers that it has received.
    known: set[str]
    # Id of the newest message from this client.
    own: str = ""
    state: frames.State | None = None


class SessionClients:
    """Attaches clients to sessions, through the channel *name*, in which all of them are *owner*.

    *route_of* and *describe_absence* are as in `AttachedClients`. Without *keeper*, a client cannot
    send files of this machine.
    """

    def __init__(
        self,
        core: Core,
        keeper: FileKeeper | None,
        name: str,
        owner: Principal,
        route_of: Callable[[str], Route],
        describe_absence: Callable[[str | None], str],
    ) -> None:
        self._core = core
        self._keeper = keeper
        self._name = name
        self._owner = owner
        self._route_of = route_of
        new_id = core.environment.new_id
        self.attached = AttachedClients(route_of, self.session_at, describe_absence, new_id)
        self._stop: tuple[frames.StopWanted, ...] = ()
        self.has_stopped = False

    def session_at(self, route: Route) -> str | None:
        """Return the session whose clients are at *route*, if it is in memory."""
        live = self._core.live.states
        return next((name for name in live if self._route_of(name) == route), None)

    def stop(self, number: int) -> None:
        """Have all clients, also later ones, stop their own message after the signal *number*.

        *has_stopped* is set when that is recorded.
        """
        self._stop = (frames.StopWanted(number),)
        for client in self.attached:
            client.give(*self._stop)

    async def serve(self, session: str, mode: frames.Mode, stream: trio.abc.Stream) -> None:
        """Attach a client to *session* until one end closes the connection."""
        before, known = await self._core.environment.blocking(
            partial(self._read_last_exchanges, session)
        )
        view = _View(AttachedClient(session, mode), known)
        view.client.give(*(before if mode != "once" else ()), *self._stop)
        await self.attached.serve(
            view.client, stream, partial(self._follow, view), partial(self._take, view)
        )

    async def _follow(self, view: _View) -> None:
        client = view.client
        if [one for one in self.attached if one.mode == "talk"] == [client]:
            # The pending questions were sent to a client that has gone.
            asked = ListApprovals(by=self._owner.id, route=self._route_of(client.session))
            self._core.approvals.offer(asked)
        while True:
            self._send_changes(view)
            await self._core.live.wait_change()

    def _send_changes(self, view: _View) -> None:
        """Send the client the changes since the last call."""
        client = view.client
        state = self._core.live.states.get(client.session) or Session()
        turn, waiting = state.turn, state.waiting.values()
        # A recording is shown after its transcription.
        heard = [one for one in (*(turn.inputs if turn else ()), *waiting) if not one.pending]
        replied = [one.replied for one in state.undelivered.values()]
        said = _texts_before_calls(state)
        if client.mode != "once":
            for one in heard:
                if one.id not in view.known and one.id != view.own:
                    client.give(self._describe_heard(one))
            for reply in replied:
                if _key(reply) not in view.known and reply.route.channel != self._name:
                    client.give(_answer_frame(reply))
            for id_, words in said.items():
                if id_ not in view.known:
                    text = shorten(self._core.redactor(words), MAX_SHOWN)
                    client.give(frames.Message(id=id_, text=text, markdown=text, is_said=True))
        now = frames.State(
            busy=bool(turn or state.undelivered),
            waiting=len(waiting),
            failed=state.failed,
            asks=len(state.pending),
            model=state.model or self._core.config.get(ModelSettings).role("default").model,
            title=state.title,
        )
        if now != view.state:
            view.state = now
            client.give(now)
        if client.mode != "once":  # after the state, with which a turn begins
            has_box = client.mode == "talk" and turn and turn.route.channel == self._name
            is_asked = turn and turn.asking and not has_box
            waits = turn.under_way if turn and is_asked else ""
            running = (turn.running if turn else "") or waits
            client.give_running(one_line(self._core.redactor(running), MAX_RUNNING))
        view.known = {*(one.id for one in heard), *map(_key, replied), *said}

    def _describe_heard(self, received: Received, *, is_old: bool = False) -> frames.HeardElsewhere:
        who, run = received.speaker or received.principal, received.bounds
        if received.principal in self._core.channels.owners:
            channel = received.route.channel
            who = "you" if channel == self._name else f"you ({channel})"
        who = who if run is None else f"the task {run.owner}"
        return frames.HeardElsewhere(who=who, text=shorten(received.text, MAX_SHOWN), is_old=is_old)

    def _read_last_exchanges(self, session: str) -> tuple[list[frames.ToClient], set[str]]:
        """Return the last exchanges of *session* and their keys.  Blocks."""
        path = self._core.paths.state / "sessions" / f"{session}.jsonl"
        shown, known = list[frames.ToClient](), set[str]()
        # The session is new, or it reports the damage itself.
        with suppress(JournalDamaged, OSError):
            history = History(session, list(entries_of(path, Entry)))
            for turn in [one for one in history.turns if history.is_present(one.seq)][-EXCHANGES:]:
                for heard in turn.heard:
                    shown.append(self._describe_heard(heard.received, is_old=True))
                    known.add(heard.received.id)
                if turn.answer is not None and not turn.answer.quiet:
                    shown.append(_answer_frame(turn.answer, is_old=True))
                    known.add(_key(turn.answer))
        return shown, known

    # --- messages from clients --------------------------------------------------------------------

    async def _take(self, view: _View, said: frames.SaidHere) -> None:
        why = await self._send_to_session(view, said)
        self.has_stopped |= bool(self._stop) and said.text == "/stop" and not why
        view.client.give(frames.Took(said.id, why))
        view.state = None  # sent again after this, even if the work is done by now
        self._send_changes(view)

    async def _send_to_session(self, view: _View, said: frames.SaidHere) -> str:
        """Send a message to the session; return why it was refused, or ""."""
        session = view.client.session
        if view.client.mode == "watch":
            return "this terminal only watches"
        if len(said.text.encode()) > frames.MAX_TEXT or len(said.files) > frames.MAX_FILES:
            return (
                f"it has more than {frames.MAX_TEXT >> 10} KiB of text, or {frames.MAX_FILES} files"
            )
        if not (said.text.strip() or said.files):
            return "the message is empty"
        files = []
        for path in said.files:
            if self._keeper is None:
                return "you cannot send files of this machine here"
            try:
                files.append(await self._store(self._keeper, session, Path(path)))
            except (OSError, PathRefused, Unconfined) as error:
                return f"I cannot read {path}: {error}"
        view.own = f"{self._name}:{said.id}"
        make = partial(
            Inbound,
            session=session,
            id=view.own,
            principal=self._owner,
            route=self._route_of(session),
            text=said.text,
            sent_at=self._core.clock.now(),
            files=tuple(files),
        )
        match await self._core.sessions.insist(make):
            case Taken():
                return ""
            case Busy(count):
                return f"{count} messages are already waiting"
            case Refused(why) | NotNow(why):
                return why

    async def _store(self, keeper: FileKeeper, session: str, path: Path) -> ReceivedFile:
        """Copy a file of this machine into the workspace, and read it."""
        read = partial(Root(path.parent).read, path.name, MAX_FILE)
        data = await self._core.environment.blocking(read)
        file, _ = await keeper.keep(session, path.name, "a file", data)
        return await keeper.understand(session, file, data)


def _key(replied: Replied) -> str:
    return f"reply {replied.reply}"


def _texts_before_calls(state: Session) -> dict[str, str]:
    """Return the texts of the model before its calls in this turn; no answer has them."""
    start = state.turn.start if state.turn else math.inf
    messages = [(node.seq, node.message) for node in state.path if node.seq > start]
    return {
        f"said {seq}": one.text
        for seq, one in messages
        if isinstance(one, Assistant) and one.calls and one.text.strip()
    }


def _answer_frame(replied: Replied, *, is_old: bool = False) -> frames.Message:
    text = shorten(replied.text, MAX_SHOWN)
    return frames.Message(
        id=_key(replied),
        text=readable(with_footer(text, replied.footer)),
        markdown=text,
        records=replied.footer,
        is_reply=True,
        is_old=is_old,
    )
