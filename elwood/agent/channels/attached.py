"""Attached clients: send each post of a channel to all of them, each with a bounded queue.

A channel of attached clients has one route for each session.  Its posts go to the clients of that
session.  `elwood.agent.session.attached` adds the frames about the state of the session.
"""

import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress

import attrs
import msgspec
import trio

from elwood.agent.channels import frames
from elwood.agent.channels.messages import (
    Button,
    Draft,
    Edit,
    OutboxMail,
    Post,
    Sent,
    Typing,
    Undeliverable,
)
from elwood.agent.conversation.inbound import decode_command, is_choice
from elwood.agent.conversation.route import Route
from elwood.foundation.runtime import Mailbox
from elwood.foundation.text.lines import one_line
from elwood.foundation.text.markdown import Rich

log = logging.getLogger("elwood.channels")

# Maximum of clients of one channel: each holds a queue of frames.
MAX_CLIENTS = 8
# Seconds in which a client must take a frame; also for all queued frames when it is detached.
TAKES = 30.0
TOO_SLOW = f"{frames.MAX_WAITING} frames waited to be read. Attach again to see the session."
TOO_LONG = f"A frame has more than {frames.MAX_FRAME >> 10} KiB."
# Characters of a line about running work.
MAX_RUNNING = 250
# Frames that a slow client may miss.
_PASSING = (frames.Writing, frames.Thinking, frames.Running, frames.Detail)
# Maximum characters of the decoder's text about a bad frame.
MAX_FAULT = 200


@attrs.define(eq=False)
class AttachedClient:
    """A client attached to *session*."""

    session: str
    mode: frames.Mode
    # Posts that it has not taken yet, by id.
    owed: dict[str, Post] = attrs.field(factory=dict)
    # The last line about running work that it received.
    running: str = ""
    # Why it is being detached; empty while it is attached.
    detached: str = ""
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    _send: trio.MemorySendChannel[frames.ToClient] = attrs.field(init=False)
    _queue: trio.MemoryReceiveChannel[frames.ToClient] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._send, self._queue = trio.open_memory_channel[frames.ToClient](frames.MAX_WAITING)

    def give(self, *given: frames.ToClient) -> None:
        """Queue frames.  A client whose queue is full is detached."""
        for frame in given:
            count = self._send.statistics().current_buffer_used
            is_passing = isinstance(frame, _PASSING)
            if self.detached or (is_passing and count > frames.MAX_WAITING // 2):
                continue
            if count == frames.MAX_WAITING:
                self.detach(TOO_SLOW)
            else:
                self._send.send_nowait(frame)

    def give_running(self, text: str) -> None:
        """Queue the line about running work, if it has changed."""
        if text != self.running:
            self.running = text
            self.give(frames.Running(text))

    def detach(self, why: str) -> None:
        """Close the connection after the queued frames, at the latest after `TAKES` seconds."""
        if not self.detached:
            self.detached = why
            self._send.close()
            self.scope.deadline = trio.current_time() + TAKES
            log.warning("client detached", extra={"session": self.session, "why": why})

    async def write(self, stream: trio.abc.SendStream) -> None:
        """Send the queued frames until the connection or the queue is closed."""
        with suppress(trio.BrokenResourceError):  # its last frames, such as /stop, are still read
            async for frame in self._queue:
                with trio.move_on_after(TAKES) as limit:
                    await stream.send_all(frames.encode(frame))
                if limit.cancelled_caught:  # half a frame is sent: no reason can follow it
                    self.detach(f"One frame was not read within {TAKES:.0f} seconds.")
                    self.scope.cancel()
                    return
                if isinstance(frame, frames.Message) and (post := self.owed.pop(frame.id, None)):
                    post.reply.set(Sent(frame.id))
            await stream.send_all(frames.encode(frames.Detached(self.detached)))
            self.scope.cancel()


Take = Callable[[frames.FromClient], Awaitable[None]]
"""Handles one frame of a client."""


@attrs.define(eq=False)
class AttachedClients:
    """The outbox of a channel of attached clients.

    *route_of* returns the route of a session's clients, *session_at* the session at a route, if it
    is in memory.  *describe_absence* returns why a post to a session did not arrive.
    """

    _route_of: Callable[[str], Route]
    _session_at: Callable[[Route], str | None]
    _describe_absence: Callable[[str | None], str]
    _new_id: Callable[[], str]
    _clients: list[AttachedClient] = attrs.field(factory=list, init=False)
    has_first: trio.Event = attrs.field(factory=trio.Event, init=False)

    @property
    def is_full(self) -> bool:
        return len(self._clients) >= MAX_CLIENTS

    def __iter__(self) -> Iterator[AttachedClient]:
        return iter([one for one in self._clients if not one.detached])

    async def run(self, mailbox: Mailbox[OutboxMail]) -> None:
        """Send posts to the clients until the mailbox is closed."""
        async for message in mailbox:
            there = [one for one in self if self._route_of(one.session) == message.route]
            match message:
                case Post():
                    self._post(message, there)
                case Edit(message=id_, part=part):
                    text = None if part is None else readable(part)
                    changed = frames.Changed(id=id_, text=text, choices=_choices(message))
                    for one in there:
                        one.give(changed)
                    message.reply.set(Sent(id_))
                case Draft(text=text) if there:
                    draft: frames.ToClient = frames.Writing(text)
                    if message.step:
                        draft = frames.Detail(one_line(message.step, MAX_RUNNING), text)
                    elif message.is_thought:
                        draft = frames.Thinking(text)
                    for one in there:
                        one.give(draft)
                case Typing(why=why) if why:
                    for one in there:
                        one.give_running(why)

    def _post(self, post: Post, there: Sequence[AttachedClient]) -> None:
        """Show a post.  It is delivered when a client in mode talk has taken it."""
        id_ = self._new_id()
        asks = not post.is_reply and any(map(_command, post.buttons))
        if not there and not post.route.thread:
            there = list(self)  # it belongs to no session, so all clients get it
        owed = [one for one in there if one.mode == "talk" or (one.mode == "once" and not asks)]
        for one in owed:
            one.owed[id_] = post
        if not owed:
            session = self._session_at(post.route)
            post.reply.set(Undeliverable(self._describe_absence(session)))
        message = frames.Message(
            id=id_,
            text=readable(post.part),
            markdown=post.markdown,
            records=post.records,
            is_reply=post.is_reply,
            is_repeat=post.repeat,
            choices=_choices(post),
            files=tuple(frames.ShownFile(file.name, len(file.data)) for file in post.files),
            code=tuple(_code(post.part)),
        )
        for one in there:
            one.give(message)

    async def serve(
        self,
        client: AttachedClient,
        stream: trio.abc.Stream,
        follow: Callable[[], Awaitable[None]],
        take: Take,
    ) -> None:
        """Attach *client* until one end closes the connection.

        *follow* sends it the changes of its session, and *take* handles its frames.
        """
        if self.is_full:  # other clients were attached after the request
            client.detach(f"{MAX_CLIENTS} clients are attached already: leave one of them.")
            with client.scope:
                await client.write(stream)
            return
        self._clients.append(client)
        self.has_first.set()
        try:
            with client.scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(client.write, stream)
                    nursery.start_soon(follow)
                    if fault := await _read(stream, take):
                        client.detach(fault)
                        await trio.sleep_forever()  # `write` or the deadline ends it
                    nursery.cancel_scope.cancel()
        finally:
            self._clients.remove(client)
            for id_, post in client.owed.items():
                if not any(id_ in one.owed for one in self._clients):
                    post.reply.set(Undeliverable(self._describe_absence(client.session)))


async def _read(stream: trio.abc.ReceiveStream, take: Take) -> str:
    """Pass frames to *take* until the client closes; return the fault of a bad frame, or ""."""
    rest = b""
    with suppress(trio.BrokenResourceError):
        while more := await stream.receive_some():
            *lines, rest = (rest + more).split(b"\n")
            for line in lines:
                try:
                    frame = msgspec.json.decode(line, type=frames.FromClient)
                except (msgspec.DecodeError, RecursionError) as error:
                    return f"That is not a frame: {one_line(str(error), MAX_FAULT)}"
                await take(frame)
            if len(rest) > frames.MAX_FRAME:
                return TOO_LONG
    return ""


def readable(rich: Rich) -> str:
    """Return *rich* without formatting, but with the addresses behind its links.

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
    """Yield the code in *rich* that is on lines of its own."""
    data = f"\n{rich.text}\n".encode("utf-16-le")
    for entity in rich.entities:
        start, end = 2 * entity.offset + 2, 2 * (entity.offset + entity.length) + 2
        before, after = (data[at : at + 2].decode("utf-16-le", "ignore") for at in (start - 2, end))
        if entity.type in ("code", "pre") and before == after == "\n":
            yield data[start:end].decode("utf-16-le")


def _choices(message: Post | Edit) -> tuple[frames.Choice, ...]:
    pressed = [one for one in message.buttons if one.command or is_choice(one.data)]
    return tuple(frames.Choice(one.text, _command(one) or one.text) for one in pressed)


def _command(button: Button) -> str:
    """Return the command to type instead of a press; "" if it is the text of the button."""
    return button.command or decode_command(button.data)
