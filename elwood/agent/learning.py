"""What sessions share to learn with: the notes, the day's allowance, and the way to the owner."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import attrs
import trio

from elwood.core.choices import choice
from elwood.core.learning import Kept, LearningSettings, Seen, digests
from elwood.core.lessons import (
    Change,
    Drop,
    Keep,
    Lesson,
    Question,
    learn,
    listing,
    refuse,
    take,
    undo,
)
from elwood.core.markdown import Rich
from elwood.core.session import Route
from elwood.messages import Button, OutboxMail, Post
from elwood.runtime import ActorUnavailable, Address
from elwood.store.allowance import Allowance

log = logging.getLogger("elwood.learning")

# Seconds for a question to be sent; one that is lost waits under /memory pending.
POST_LIMIT = 60.0


class Notebook(Protocol):
    """Where sightings and memories are kept.

    Its methods raise DiskFull and ActorUnavailable; what is done twice is as if done once.
    """

    async def pending(self) -> Sequence[Seen]:
        """List the sightings."""
        ...

    async def kept(self) -> Sequence[Kept]:
        """List what is remembered, also what was saved by other ways."""
        ...

    async def keep(self, note: Seen | Kept) -> None:
        """Write *note*, in the place of one of its name."""
        ...

    async def drop(self, key: str) -> None:
        """Remove the note that has the name *key*, if there is one."""
        ...

    async def bury(self, hash: str) -> None:
        """Remember that what has this hash was forgotten (`core.learning.digests`)."""
        ...

    async def tombstoned(self, hash: str) -> bool:
        """Tell whether what has this hash was forgotten."""
        ...


@attrs.frozen(kw_only=True)
class Learning:
    """Carries lessons out.  Make one for the house.

    *place* is where the owner is asked, if there is such a place.
    """

    settings: LearningSettings
    notebook: Notebook
    allowance: Allowance
    outboxes: Mapping[str, Address[OutboxMail]]
    place: Route | None
    # Between reading the notes and changing them nobody else may.
    _changing: trio.Lock = attrs.field(factory=trio.Lock, init=False, eq=False)

    @property
    def is_on(self) -> bool:
        """Whether anything is to be learned."""
        return self.settings.mode != "off"

    async def known(self) -> list[Kept | Seen]:
        """List what was noticed and is kept."""
        return [*await self.notebook.kept(), *await self.notebook.pending()]

    async def learn(self, found: Iterable[Seen], *, corrected: bool) -> int:
        """Take in what one pass found, and ask the owner what is to be asked; count what was new.

        Raises what the notebook raises; then it may be done again.
        """
        async with self._changing:
            facts = [one for one in found if not await self._forgotten(one)]
            pending, kept = await self.notebook.pending(), await self.notebook.kept()
            lesson = learn(facts, pending, kept, self.settings, corrected=corrected)
            await self._carry_out(lesson.changes)
        if lesson.lost:
            log.warning("oldest sightings dropped", extra={"count": lesson.lost})
        await self._ask(lesson)
        return lesson.learned

    async def command(self, given: str, at: float) -> str:
        """Carry out what the owner typed behind ``/memory``, at Unix time *at*; say what was done.

        Raises what the notebook raises.
        """
        async with self._changing:
            pending, kept = await self.notebook.pending(), await self.notebook.kept()
            match given.split():
                case ["pending"]:
                    return listing(pending)
                case ["keep", code]:
                    return await self._settle(take(code, pending, kept, at), "Remembered")
                case ["drop", code]:
                    return await self._settle(refuse(code, pending), "Dropped")
                case ["undo"]:
                    return await self._settle(undo(pending, kept), "Taken back")
        return "I do not understand that. /memory pending, keep CODE, drop CODE, undo"

    async def _settle(self, changes: Sequence[Change], done: str) -> str:
        if not changes:
            return "There is nothing of that kind."
        await self._carry_out(changes)
        notes = [one.note.text for one in changes if isinstance(one, Keep)]
        return f"{done}: {' '.join(notes)}" if notes else f"{done}."

    async def _carry_out(self, changes: Iterable[Change]) -> None:
        for change in changes:
            match change:
                case Keep(note):
                    await self.notebook.keep(note)
                case Drop(name, bury):
                    for hash_ in bury:
                        await self.notebook.bury(hash_)
                    await self.notebook.drop(name)

    async def _forgotten(self, one: Seen) -> bool:
        for hash_ in digests(one.key, one.text):
            if await self.notebook.tombstoned(hash_):
                return True
        return False

    async def _ask(self, lesson: Lesson) -> None:
        for question in lesson.questions:
            if self.place is not None and self.place.channel in self.outboxes:
                await self._post(self.place, question)

    async def _post(self, place: Route, question: Question) -> None:
        buttons = tuple(Button(text, choice(n)) for n, text in enumerate(question.answers))
        post = Post(route=place, part=Rich(question.text), buttons=buttons)
        try:
            with trio.move_on_after(POST_LIMIT):
                await self.outboxes[place.channel].ask(post)
        except ActorUnavailable as error:
            log.info("question not sent", extra={"why": str(error)})
