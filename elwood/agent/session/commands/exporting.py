"""Carries out ``/export``: writes the conversation into a file, and gives it to the person."""

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
from elwood.agent.session.turn.inputs import OwnerClock
from elwood.agent.tools.talk import MAX_BYTES, Messenger, Outcome
from elwood.foundation.runtime import Blocking
from elwood.foundation.secrets.redaction import Redactor
from elwood.foundation.storage.confined import PathRefused, Unconfined
from elwood.foundation.storage.files import Root
from elwood.foundation.text.markdown import Rich

# Where the files go that no chat takes, in the workspace.
FOLDER = "exports"
# Seconds for a file to be sent.
SEND_LIMIT = 60.0


class Exports:
    """Gives conversations to people as files: in a channel that takes files, else in *workspace*.

    There they are whenever nobody knows that they have arrived.
    """

    def __init__(
        self,
        workspace: Root,
        messenger: Messenger,
        redactor: Redactor,
        clock: OwnerClock,
        blocking: Blocking,
    ) -> None:
        self._workspace = workspace
        self._messenger = messenger
        self._redactor = redactor
        self._clock = clock
        self._blocking = blocking

    async def export(self, given: str, received: Received, log_: SessionLog, again: bool) -> str:
        """Give the present conversation to who asked; return what to tell them.

        *given* is the format; *again* says that the command was begun before, and cut off.
        """
        formats = {name: name for name in get_args(Format)}
        format_: Format | None = formats.get(given)
        if format_ is None:
            return "Say which kind of file: /export md or /export html"
        history = await log_.look_back(partial(read_history, log_.id))
        items = items_of(history, self._redactor)
        if not items:
            return "Nothing was said here yet that could be exported."
        zone = self._clock.zone
        when = datetime.fromtimestamp(self._clock.now(), zone)
        content = await self._blocking(lambda: written(log_.id, items, zone, format_))
        file = Attachment(f"{log_.id}-{when:%Y-%m-%d-%H%M%S}.{format_}", content.encode())
        # What was read on another line may have been brought along, and stand in an answer.
        strange = any(item.untrusted for item in items) or log_.state.taint.label.untrusted
        return await self._give(file, received.route, strange, again)

    async def _give(self, file: Attachment, route: Route, untrusted: bool, again: bool) -> str:
        """Give *file* to the people of *route*; *again* marks it as given before, perhaps."""
        if not self._messenger.takes_files(route) or len(file.data) > MAX_BYTES:
            return await self._keep(file, untrusted)
        outcome = await self._send(file, route, again)
        if isinstance(outcome, Sent):
            return "Here is the conversation, as a file."
        may = "may not have" if isinstance(outcome, Unsure) else "has not"
        return f"The file {may} arrived here: {outcome.why}. {await self._keep(file, untrusted)}"

    async def _send(self, file: Attachment, route: Route, again: bool) -> Outcome:
        with trio.move_on_after(SEND_LIMIT):
            async with self._messenger.uploads:
                return await self._messenger.post(route, Rich(""), (file,), repeat=again)
        return Unsure(f"nothing was heard of it for {SEND_LIMIT:.0f} s")

    async def _keep(self, file: Attachment, untrusted: bool) -> str:
        path = f"{FOLDER}/{file.name}"
        try:
            await self._blocking(
                lambda: self._workspace.write(path, file.data, untrusted=untrusted)
            )
        except (PathRefused, Unconfined) as error:
            return f"The file could not be written: {error}"
        return f"The conversation stands in your workspace, in `{path}`."
