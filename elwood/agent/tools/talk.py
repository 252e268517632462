"""Tools that send messages in addition to the answer of a turn.

They send a message with files, or a question with answer buttons.
"""

import hashlib
from collections import deque
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Annotated, Literal

import attrs
import msgspec
import trio
from msgspec import Meta

from elwood.agent.channels.channel import Channel, Channels
from elwood.agent.channels.client import post_once
from elwood.agent.channels.messages import (
    Attachment,
    Button,
    Edit,
    Post,
    PostResult,
    Sent,
    Undeliverable,
    Unsure,
)
from elwood.agent.conversation.calls import Plan, SendMessage
from elwood.agent.conversation.inbound import choice, number_options
from elwood.agent.conversation.route import Route
from elwood.agent.people.messages import ListPeople, PeopleMail
from elwood.agent.tools.tool import Tool, ToolContext, ToolFailure, convert_refusals
from elwood.foundation.runtime import Address, Blocking
from elwood.foundation.storage.files import Root
from elwood.foundation.text.lines import escape_name, escape_names, one_line
from elwood.foundation.text.markdown import Rich

# Maximum of messages with files that tools send at a time: each holds its files in memory, and
# one file three times during its upload.
MAX_UPLOADS = 2
# Maximum characters of a message: five or ten messages of a channel; more belongs in a file.
MAX_TEXT = 20_000
# Maximum of files of a message, and bytes of all of them: they are in memory while they are sent.
MAX_FILES = 10
MAX_BYTES = 20 << 20
# Maximum characters of a question, number of its options, and characters of each: one row each.
MAX_QUESTION, MAX_OPTIONS, MAX_OPTION = 3000, 6, 40
# Seconds for a message with all its files: less than the call's timeout, so that the call can
# report its progress.
PATIENCE = 170.0

Whom = Literal["owner", "group", "person"]


@attrs.frozen
class Recipient:
    """The recipient of a message."""

    route: Route
    # For the policy.
    whom: Whom
    # For people, and with the chat.
    who: str
    name: str


class Messenger:
    """Sends messages on any of *channels*; *approvals* knows who has access."""

    def __init__(self, channels: Channels, approvals: Address[PeopleMail]) -> None:
        self._channels = channels
        self._approvals = approvals
        self.uploads = trio.Semaphore(MAX_UPLOADS)
        # Questions with buttons; older ones, and those of another process, keep theirs.
        self._open: deque[tuple[Route, str]] = deque(maxlen=100)

    async def find_recipient(self, to: str, here: Route) -> Recipient | None:
        """Return the recipient "here", "owner", or a person by principal; None if there is none.

        *here* is where the running turn's answer goes.
        """
        if to == "here" or (to == "owner" and self._is_owners(here)):
            return self._build_recipient(here, "this conversation")
        if to == "owner":
            routes = self._channels.owner_routes()
            return self._build_recipient(routes[0], "you") if routes else None
        route = self._channels.recipient(to)
        if route is None:
            return None
        if self._is_owners(route):
            return self._build_recipient(route, "you")
        for known in await self._approvals.ask(ListPeople()):
            if known.principal == to:
                return self._build_recipient(route, f"{known.name or 'someone'} ({to})")
        return None

    def remove_buttons(self, route: Route, *, typed: bool) -> None:
        """Remove the buttons of questions at *route*, unless a press already removed them."""
        for there, message in [*self._open]:
            if there.is_same_chat(route) and there.thread == route.thread:
                self._open.remove((there, message))
                if typed:
                    self._channels.outboxes[there.channel].offer(Edit(route=there, message=message))

    async def post(
        self,
        route: Route,
        part: Rich,
        files: tuple[Attachment, ...] = (),
        buttons: tuple[Button, ...] = (),
        *,
        repeat: bool = False,
    ) -> PostResult:
        """Send one message, once, and return its known outcome.

        *repeat* marks a message that may already have arrived.
        """
        outbox = self._channels.outboxes.get(route.channel)
        if outbox is None:
            return Undeliverable(f"the channel {route.channel} is off now")
        post = Post(route=route, part=part, files=files, buttons=buttons, repeat=repeat)
        outcome = await post_once(outbox, post, PATIENCE)
        if buttons and isinstance(outcome, Sent):
            self._open.append((route, outcome.message))
        return outcome

    def get_channel(self, route: Route) -> Channel:
        """Return the channel of *route*."""
        return self._channels.get_by_route(route)

    def _build_recipient(self, route: Route, name: str) -> Recipient:
        whom: Whom = "person" if route.private else "group"
        if self._is_owners(route):
            whom = "owner"
        topic = f", topic {route.thread}" if route.thread else ""
        chat = f" {route.chat}" if route.chat else ""
        kind = {"owner": "your own chat", "group": "a group", "person": "a private chat"}[whom]
        return Recipient(route, whom, name, f"{name}: {kind}, {route.channel}{chat}{topic}")

    def _is_owners(self, route: Route) -> bool:
        return route.private and any(map(route.is_same_chat, self._channels.rank_owner_routes))


class MessageToSend(msgspec.Struct, forbid_unknown_fields=True):
    text: Annotated[str, Meta(max_length=MAX_TEXT, description="Text of the message, as Markdown")]
    to: Annotated[
        str,
        Meta(
            pattern=r"^(here|owner|[a-z][a-z0-9]{0,15}:[!-~]{1,64})$",
            description="Recipient: 'here' (this conversation), 'owner', or the id of an "
            "admitted person: 'tg:123'",
        ),
    ] = "here"
    files: Annotated[
        tuple[str, ...],
        Meta(max_length=MAX_FILES, description="Files to attach, relative to the workspace"),
    ] = ()


class AskUser(msgspec.Struct, forbid_unknown_fields=True):
    question: Annotated[
        str, Meta(min_length=1, max_length=MAX_QUESTION, description="The question, as Markdown")
    ]
    options: Annotated[
        tuple[Annotated[str, Meta(min_length=1, max_length=MAX_OPTION)], ...],
        Meta(max_length=MAX_OPTIONS, description="Short answers to choose from (optional)"),
    ] = ()


@attrs.frozen
class _OutgoingMessage:
    """A message to send, with its recipient; files by path, with the hash of their bytes."""

    place: Recipient
    files: Mapping[str, tuple[bytes, str]]

    @property
    def facts(self) -> dict[str, str]:
        hashes = {f"file {n}": sha for n, (_, sha) in enumerate(self.files.values())}
        return {"to": repr(self.place.route), **hashes}

    @property
    def attachments(self) -> tuple[Attachment, ...]:
        files = self.files.items()
        return tuple(Attachment(path.rsplit("/", 1)[-1], data) for path, (data, _) in files)


class Talk:
    """Sends messages and questions by *messenger*; files come from *workspace*."""

    def __init__(self, messenger: Messenger, workspace: Root, blocking: Blocking) -> None:
        self._messenger = messenger
        self._workspace = workspace
        self._blocking = blocking

    async def plan_message(self, given: MessageToSend, context: ToolContext) -> Plan:
        """Plan a message: its recipient, the whole text, and each file with its hash."""
        draft = await self._prepare(given, context)
        lines = [f"To {draft.place.name}"]
        for path, (data, sha) in draft.files.items():
            lines.append(f"File {escape_name(path)}: {len(data):,} bytes, sha256 {sha}")
        # Freely chosen text comes last, so it cannot pass for another recipient or file.
        subject = "\n".join([*lines, "Text:", given.text])
        outgoing = "\n".join([given.text, *given.files])
        asks = f"send this message to {one_line(draft.place.who)}"
        return Plan(SendMessage(draft.place.whom), subject, draft.facts, outgoing, asks=asks)

    async def send_message(self, given: MessageToSend, context: ToolContext) -> str:
        """Send the planned message, if it is unchanged, and return the outcome of each part."""
        if not given.files:
            return await self._send(given, context)
        uploads = self._messenger.uploads
        try:
            uploads.acquire_nowait()
        except trio.WouldBlock:
            why = "not sent: others are sending files; try again in a minute"
            raise ToolFailure(why) from None
        try:
            return await self._send(given, context)
        finally:
            uploads.release()

    async def ask_user(self, given: AskUser, context: ToolContext) -> str:
        options = [one_line(option, MAX_OPTION) for option in given.options]
        if not all(options) or len(set(options)) < len(options):
            raise ToolFailure("the options must differ and must not be empty; no question was sent")
        pieces = self._messenger.get_channel(context.route).render(given.question)
        buttons = tuple(Button(option, choice(number)) for number, option in enumerate(options))
        for number, piece in enumerate(pieces):
            last = number == len(pieces) - 1
            under = buttons if last else ()
            outcome = await self._messenger.post(context.route, piece, buttons=under)
            if not isinstance(outcome, Sent):
                raise _failure(outcome, [f"the question, part {n + 1}" for n in range(number)])
        listed = f" ({number_options(options)})".replace("\n", ", ") if options else ""
        return f"asked{listed}; the answer will come as the next message: end your turn"

    async def _prepare(self, given: MessageToSend, context: ToolContext) -> _OutgoingMessage:
        """Resolve the recipient and read the files."""
        place = await self._messenger.find_recipient(given.to, context.route)
        if place is None:
            raise ToolFailure(f"{given.to} cannot be reached: no one with this id has access")
        if not (given.text.strip() or given.files):
            raise ToolFailure("the message has neither text nor a file; nothing was sent")
        if len(set(given.files)) < len(given.files):
            raise ToolFailure("a file is named twice; nothing was sent")
        return _OutgoingMessage(place, await self._blocking(partial(self._read, given.files)))

    def _read(self, paths: Sequence[str]) -> dict[str, tuple[bytes, str]]:
        """Read files, with their hashes; blocks."""
        found = {}
        room = MAX_BYTES
        for path in paths:
            name = escape_name(path)
            with convert_refusals(path), self._workspace.file(path) as file:
                data = file.read(room + 1)
            room -= len(data)
            if room < 0:
                text = f"the files may have at most {MAX_BYTES:,} bytes together"
                raise ToolFailure(f"{text}, and {name} exceeds that; nothing was sent")
            if not data:
                text = f"{name} is empty, and empty files cannot be sent; nothing was sent"
                raise ToolFailure(text)
            found[path] = data, hashlib.sha256(data).hexdigest()
        return found

    async def _send(self, given: MessageToSend, context: ToolContext) -> str:
        draft = await self._prepare(given, context)
        if draft.facts != dict(context.facts):
            raise ToolFailure("the message changed after the approval; nothing was sent")
        posts = _posts(
            self._messenger.get_channel(draft.place.route), given.text, draft.attachments
        )
        sent: list[str] = []
        messages: list[str] = []
        until = trio.current_time() + PATIENCE
        for what, part, files in posts:
            outcome: PostResult = Unsure("no answer in time")
            with trio.move_on_at(until):
                outcome = await self._messenger.post(draft.place.route, part, files)
            if not isinstance(outcome, Sent):
                raise _failure(outcome, sent, of=len(posts), what=what)
            sent.append(what)
            messages.append(f"{outcome.message} ({what})" if len(posts) > 1 else outcome.message)
        return f"sent as message {', '.join(messages)}"


async def plan_question(given: AskUser, context: ToolContext) -> Plan:
    await trio.lowlevel.checkpoint()
    text = "\n".join([given.question, *given.options])
    return Plan(SendMessage("owner"), f"Ask: {text}", outgoing=text, asks="ask this question")


def _posts(
    channel: Channel, text: str, files: tuple[Attachment, ...]
) -> list[tuple[str, Rich, tuple[Attachment, ...]]]:
    """Split a message into named posts, each of which arrives or does not.

    Each file is a separate post, but pictures form an album.  A short text, or the short end of
    a long one, is the caption of the first.
    """
    pieces = list(channel.render(text)) if text.strip() else []
    caption = Rich("")
    if files and pieces and channel.fits_below_file(pieces[-1].text):
        caption = pieces.pop()
    words = [f"text part {n + 1} of {len(pieces)}" for n in range(len(pieces))]
    if len(pieces) == 1:
        words = ["the text"]
    posts: list[tuple[str, Rich, tuple[Attachment, ...]]] = [
        (what, piece, ()) for what, piece in zip(words, pieces, strict=True)
    ]
    for pictures, run in groupby(files, lambda file: file.is_picture):
        together = tuple(run)
        for group in [together] if pictures else [(file,) for file in together]:
            what = escape_names([file.name for file in group], MAX_FILES)
            what = f"{what} with text" if caption.text else what
            posts.append((what, caption, group))
            caption = Rich("")
    return posts


def _failure(
    outcome: PostResult, sent: list[str], *, of: int = 1, what: str = "the question"
) -> ToolFailure:
    """Build the failure of a message that did not arrive completely."""
    assert not isinstance(outcome, Sent)
    before = f"; sent before it: {', '.join(sent)}" if sent else ""
    after = "; nothing after it was sent" if of > len(sent) + 1 else ""
    if isinstance(outcome, Unsure):
        text = f"{what} may or may not have arrived: {outcome.why}{before}{after}"
        return ToolFailure(text, unknown=True)
    return ToolFailure(f"not sent: {what}: {outcome.why}{before}{after}")


def tools(messenger: Messenger, workspace: Root, blocking: Blocking) -> tuple[Tool, ...]:
    talk = Talk(messenger, workspace, blocking)
    return (
        Tool(
            name="send_message",
            id="talk.message.send",
            description=(
                "Send a message now, optionally with files, in addition to your "
                "answer: to deliver a file, or to inform someone else. Your answer "
                "at the end of the turn is sent anyway; do not repeat it here."
            ),
            input=MessageToSend,
            run=talk.send_message,
            risk="write",
            effect="once",
            timeout=180.0,
            target=lambda given: ", ".join([given.to, *map(escape_name, given.files)]),
            plan=talk.plan_message,
            deeds=("send",),
        ),
        Tool(
            name="ask_user",
            id="talk.question.ask",
            description=(
                "Ask the person in this conversation a question, optionally with "
                "answers to choose from. It does not wait: the answer comes as the "
                "next message."
            ),
            input=AskUser,
            run=talk.ask_user,
            risk="write",
            effect="once",
            timeout=60.0,
            target=lambda given: one_line(given.question, 100),
            plan=plan_question,
            deeds=("send",),
        ),
    )
