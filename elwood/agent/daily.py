"""What a session writes into the daily notes, and what comes back from them."""

from collections.abc import Sequence

from elwood.agent.session_log import SessionLog
from elwood.agent.surroundings import Surroundings
from elwood.core.conversation import Human
from elwood.core.session import Received
from elwood.core.threads import is_first
from elwood.runtime import trouble, well
from elwood.store.confined import PathRefused, Unconfined

NOTE = "writing the daily note"


class Daily:
    """The daily notes as one session uses them; notes that cannot be had or written hold up nobody.

    A turn stays in the session's state until the next one ends, so one that a crash kept out of
    its note is written at the next start.
    """

    def __init__(self, id_: str, log: SessionLog, house: Surroundings) -> None:
        self._id = id_
        self._log = log
        self._house = house

    def is_due(self, inputs: Sequence[Received]) -> bool:
        """Tell whether a turn on *inputs* begins with the notes: the first of a day, the owner's.

        Nobody else is told what the owner did, in a group neither.
        """
        threads = self._house.threads
        if threads is None or not inputs or any(one.untrusted or one.errand for one in inputs):
            return False
        if not all(one.route.private for one in inputs):
            return False
        said = (node.message for node in self._log.state.path)
        texts = (message.text for message in said if isinstance(message, Human))
        return is_first(texts, threads.today(self._house.now()))

    async def recall(self, inputs: Sequence[Received]) -> str:
        """Read what a turn on *inputs* begins with; empty if with nothing."""
        if self._house.threads is None or not self.is_due(inputs):
            return ""
        try:
            return self._house.strip(await self._house.threads.recall(self._house.now()))
        except (PathRefused, Unconfined) as error:
            trouble(NOTE, str(error))
            return ""

    async def note(self) -> None:
        """Write the newest turn that ended into its day's note, unless it stands there."""
        turn = self._log.state.done
        if self._house.threads is None or turn is None:
            return
        try:
            await self._house.threads.note(self._id, turn)
        except (PathRefused, Unconfined) as error:
            trouble(NOTE, str(error))
        else:
            well(NOTE)
