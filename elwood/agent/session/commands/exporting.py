"""Carries out ``/export``: writes the conversation into a file, and gives it to the person."""

from collections.abc import Collection
from datetime import datetime
from functools import partial
from typing import get_args

import trio

from elwood.agent.channels.messages import Attachment, Sent, Unsure
from elwood.agent.conversation.route import Route
from elwood.agent.session.log.entries import Received
from elwood.agent.session.log.session_log import SessionLog
from elwood.agent.session.reading.export import Format, items_of, written
from elwood.agent.session.reading.records import read_history
from elwood.agent.session.turn.surroundings import Surroundings
from elwood.agent.tools.messenger import Outcome, Voice
from elwood.agent.tools.talk import MAX_BYTES
from elwood.foundation.runtime import Blocking
from elwood.foundation.storage.confined import PathRefused, Unconfined
from elwood.foundation.storage.files import Root
from elwood.foundation.text.markdown import Rich

# Where the files go that no chat takes, in the workspace.
FOLDER = "exports"
# Seconds for a file to be sent.
SEND_LIMIT = 60.0


class Exports:
    """Gives files to people: in a channel that is *carrying* files, else in the workspace *root*.

    There they are whenever nobody knows that they have arrived.
    """

    def __init__(
        self, root: Root, blocking: Blocking, voice: Voice, carrying: Collection[str]
    ) -> None:
        self._root = root
        self._blocking = blocking
        self._voice = voice
        self._carrying = carrying

    async def __call__(self, file: Attachment, route: Route, untrusted: bool, again: bool) -> str:
        """Give *file* to the people of *route*; return what to tell them.

        *again* marks it as one that may have been given before.
        """
        if route.channel not in self._carrying or len(file.data) > MAX_BYTES:
            return await self._keep(file, untrusted)
        outcome = await self._send(file, route, again)
        if isinstance(outcome, Sent):
            return "Here is the conversation, as a file."
        may = "may not have" if isinstance(outcome, Unsure) else "has not"
        return f"The file {may} arrived here: {outcome.why}. {await self._keep(file, untrusted)}"

    async def _send(self, file: Attachment, route: Route, again: bool) -> Outcome:
        with trio.move_on_after(SEND_LIMIT):
            async with self._voice.uploads:
                return await self._voice.post(route, Rich(""), (file,), repeat=again)
        return Unsure(f"nothing was heard of it for {SEND_LIMIT:.0f} s")

    async def _keep(self, file: Attachment, untrusted: bool) -> str:
        path = f"{FOLDER}/{file.name}"
        try:
            await self._blocking(lambda: self._root.write(path, file.data, untrusted=untrusted))
        except (PathRefused, Unconfined) as error:
            return f"The file could not be written: {error}"
        return f"The conversation stands in your workspace, in `{path}`."


async def export(
    given: str,
    received: Received,
    id_: str,
    log_: SessionLog,
    house: Surroundings,
    *,
    again: bool,
) -> str:
    """Give the present conversation of the session *id_* to who asked; return what to tell them.

    *given* is the format; *again* says that the command was begun before, and cut off.
    """
    formats = {name: name for name in get_args(Format)}
    format_: Format | None = formats.get(given)
    if format_ is None:
        return "Say which kind of file: /export md or /export html"
    history = await log_.look_back(partial(read_history, id_))
    items = items_of(history, house.redact)
    if not items:
        return "Nothing was said here yet that could be exported."
    when = datetime.fromtimestamp(house.now(), house.zone)
    content = await house.blocking(lambda: written(id_, items, house.zone, format_))
    file = Attachment(f"{id_}-{when:%Y-%m-%d-%H%M%S}.{format_}", content.encode())
    # What was read on another line may have been brought along, and stand in an answer.
    strange = any(item.untrusted for item in items) or log_.state.taint.label.untrusted
    return await house.export(file, received.route, strange, again)
