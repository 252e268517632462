"""What is learned, kept by a real store without an actor before it; and facts to put into it."""

from pathlib import Path
from typing import Any

import trio

from elwood.agent.conversation.labels import CLEAN, Label
from elwood.features.memory.learning import Kind, KnownFact, Observation, draft_of
from elwood.features.memory.messages import Learn, ListKnown, MemoryMail, Unlearned
from elwood.features.memory.store import NoteStore
from elwood.foundation.runtime import Address, Mailbox, inline
from elwood.foundation.storage.disk import Disk


class Notebook(Address[MemoryMail]):
    """Outlives the process that asks it; *full* is why nothing can be written."""

    def __init__(self, folder: Path) -> None:
        super().__init__(Mailbox("memory", 1))
        folder.mkdir()
        disk = Disk(blocking=inline, clock=lambda: 0.0)
        self.store = NoteStore(folder, disk, max_notes=1000)
        self.full = ""

    async def ask(self, message: Any) -> Any:
        await trio.lowlevel.checkpoint()
        match message:
            case ListKnown():
                return self.store.indexed.look_up(lambda _: self.store.known())
            case Learn(found=found, batch=batch, settings=settings, corrected=corrected):
                if self.full:
                    return Unlearned(self.full)
                return self.store.learn(found, batch, settings, corrected=corrected)
        raise AssertionError(message)

    def hold(self, *notes: Observation | KnownFact) -> None:
        self.store.save(map(draft_of, notes), batch="test")

    @property
    def notes(self) -> tuple[Observation | KnownFact, ...]:
        return self.store.indexed.look_up(lambda _: self.store.known())

    @property
    def seen(self) -> list[Observation]:
        return [note for note in self.notes if isinstance(note, Observation)]

    @property
    def facts(self) -> list[KnownFact]:
        return [note for note in self.notes if isinstance(note, KnownFact)]

    @property
    def remembered(self) -> dict[str, str]:
        return {fact.key: fact.text for fact in self.facts}


def seen(
    text: str = "Likes tea.",
    key: str = "tea",
    *,
    session: str = "s",
    at: float = 0.0,
    kind: Kind = "fact",
    label: Label = CLEAN,
    asked: bool = False,
) -> Observation:
    """One observation, in a pass of its own."""
    return Observation(key, text, kind, session, "t1", label, at, f"{session}/{at:.0f}", asked)


def kept(text: str = "Likes tea.", key: str = "tea", *, label: Label = CLEAN) -> KnownFact:
    """One memory."""
    return KnownFact(key, text, "fact", label, 0.0)
