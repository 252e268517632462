"""What sessions share to learn with: the notes, the day's allowance, and the way to the owner."""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import Protocol

import attrs
import trio

from elwood.agent.channels.messages import Button, OutboxMail, Post
from elwood.agent.conversation.choices import typing
from elwood.agent.conversation.route import Route
from elwood.features.memory.daily_quota import Allowance
from elwood.features.memory.learning import Kept, Seen, digests
from elwood.features.memory.lessons import (
    Change,
    Drop,
    Keep,
    Lesson,
    Question,
    learn,
    listing,
    refuse,
    take,
)
from elwood.features.memory.settings import LearningSettings
from elwood.foundation.runtime import ActorUnavailable, Address
from elwood.foundation.text.markdown import Rich

log = logging.getLogger("elwood.learning")

# Seconds for a question to be sent; one that is lost waits under /memory pending.
POST_LIMIT = 60.0


class Unwritten(Exception):
    """Not all of it was written; doing it again later does no harm."""


class Notebook(Protocol):
    """Where sightings and memories are kept.

    Its methods raise Unwritten and ActorUnavailable; what is done twice is as if done once.
    """

    async def pending(self) -> Sequence[Seen]:
        """List the sightings."""
        ...

    async def kept(self, keys: Iterable[str]) -> Sequence[Kept]:
        """List what is remembered under *keys*, also what was saved by other ways."""
        ...

    async def newest(self) -> Sequence[Kept]:
        """List what was remembered last, as far as it is of use to whoever looks for more."""
        ...

    async def keep(self, notes: Sequence[Seen | Kept], batch: str, *, learned: bool) -> None:
        """Write *notes*, each in the place of one of its name, to be taken back together.

        *learned* ones are wanted by nobody in particular: what was forgotten stays so.
        """
        ...

    async def drop(self, names: Sequence[str], bury: Sequence[str] = ()) -> None:
        """Remove these sightings; what has the hashes *bury* (`digests`) is not learned again."""
        ...

    async def buried(self, hashes: Iterable[str]) -> Collection[str]:
        """Tell which of *hashes* are those of what was forgotten."""
        ...


@attrs.frozen(kw_only=True)
class Learning:
    """Carries lessons out.  Make one for the house.

    The owner is asked at the first of *places*, as they are then, if there are any.
    """

    settings: LearningSettings
    notebook: Notebook
    allowance: Allowance
    outboxes: Mapping[str, Address[OutboxMail]]
    places: Callable[[], Sequence[Route]]
    # Between reading the notes and changing them nobody else may.
    _changing: trio.Lock = attrs.field(factory=trio.Lock, init=False, eq=False)

    @property
    def is_on(self) -> bool:
        """Whether anything is to be learned."""
        return self.settings.mode != "off"

    async def known(self) -> list[Kept | Seen]:
        """List what was noticed and is kept."""
        return [*await self.notebook.newest(), *await self.notebook.pending()]

    async def learn(self, found: Sequence[Seen], batch: str, *, corrected: bool) -> int:
        """Take in what the pass *batch* found, ask the owner what is to be asked; count the new.

        Raises what the notebook raises; then it may be done again.
        """
        async with self._changing:
            hashes = {one: digests(one.key, one.text) for one in found}
            buried = await self.notebook.buried(chain.from_iterable(hashes.values()))
            facts = [one for one in found if not any(hash_ in buried for hash_ in hashes[one])]
            pending = await self.notebook.pending()
            kept = await self.notebook.kept(one.key for one in (*facts, *pending))
            lesson = learn(facts, pending, kept, self.settings, corrected=corrected)
            await self._carry_out(lesson.changes, batch, learned=True)
        if lesson.lost:
            log.warning("oldest sightings dropped", extra={"count": lesson.lost})
        await self._ask(lesson)
        return lesson.learned

    async def command(self, given: str, at: float) -> str:
        """Carry out what the owner typed behind ``/memory``, at Unix time *at*; say what was done.

        Raises what the notebook raises.
        """
        async with self._changing:
            pending = await self.notebook.pending()
            match given.split():
                case ["pending"]:
                    return listing(pending)
                case ["keep", code]:
                    return await self._settle(take(code, pending, at), at, "Remembered")
                case ["drop", code]:
                    return await self._settle(refuse(code, pending), at, "Dropped")
        return "I do not understand that. /memory pending, keep CODE, drop CODE"

    async def _settle(self, changes: Sequence[Change], at: float, done: str) -> str:
        if not changes:
            return "There is nothing of that kind."
        await self._carry_out(changes, f"owner/{at:.3f}", learned=False)
        notes = [one.note.text for one in changes if isinstance(one, Keep)]
        return f"{done}: {' '.join(notes)}" if notes else f"{done}."

    async def _carry_out(self, changes: Sequence[Change], batch: str, *, learned: bool) -> None:
        """Write first, then drop: a crash between them leaves sightings of what is kept."""
        kept = [change.note for change in changes if isinstance(change, Keep)]
        dropped = [change for change in changes if isinstance(change, Drop)]
        if kept:
            await self.notebook.keep(kept, batch, learned=learned)
        if dropped:
            bury = dict.fromkeys(chain.from_iterable(change.bury for change in dropped))
            await self.notebook.drop([change.name for change in dropped], tuple(bury))

    async def _ask(self, lesson: Lesson) -> None:
        for question in lesson.questions:
            place = next(iter(self.places()), None)
            if place is not None and place.channel in self.outboxes:
                await self._post(place, question)

    async def _post(self, place: Route, question: Question) -> None:
        buttons = tuple(Button(text, typing(n)) for n, text in enumerate(question.answers))
        post = Post(route=place, part=Rich(question.text), buttons=buttons)
        try:
            with trio.move_on_after(POST_LIMIT):
                await self.outboxes[place.channel].ask(post)
        except ActorUnavailable as error:
            log.info("question not sent", extra={"why": str(error)})
