"""A session with an observer, whose model and notes are in memory; and its observations."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import trio

from elwood.agent.channels.client import TellOwner
from elwood.agent.conversation.inbound import Inbound, Principal
from elwood.agent.conversation.labels import CLEAN, Label
from elwood.agent.conversation.settings import OwnerClock
from elwood.agent.models.messages import Complete, Completed
from elwood.agent.session.extension import SessionExtension
from elwood.agent.session.log.session_log import SessionLog
from elwood.features.memory.extension import ROLE, Learning, MemoryExtension
from elwood.features.memory.learning import Kind, Observation, observations_of
from elwood.features.memory.messages import (
    GetOverview,
    Learn,
    MemoryMail,
    MemoryOverview,
    Unlearned,
)
from elwood.features.memory.note import Note
from elwood.features.memory.settings import LearningSettings
from elwood.features.memory.store import NoteStore
from elwood.foundation.runtime import Address, Mailbox, inline
from elwood.foundation.secrets.redaction import Redactor, Secret
from elwood.foundation.storage.disk import Disk
from tests.agent.session.scene import ROUTE, Process, World, echo
from tests.agent.session.scripted import answer

QUIET = 120.0
TEA = {"kind": "fact", "key": "tea", "text": "Likes tea."}


def facts(*found: dict[str, str]) -> str:
    return json.dumps({"facts": list(found)})


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
    """Return one observation, made in a separate pass."""
    return Observation(key, text, kind, session, label, at, f"{session}/{at:.0f}", asked)


def kept(text: str = "Likes tea.", key: str = "tea", *, label: Label = CLEAN) -> Note:
    """Return one saved note."""
    return Note(key, text, label=label)


class Notebook(Address[MemoryMail]):
    """The memory actor's part; it survives restarts. *full* is the error of every write."""

    def __init__(self, folder: Path) -> None:
        super().__init__(Mailbox("memory", 1))
        folder.mkdir()
        disk = Disk(blocking=inline, clock=lambda: 0.0)
        self.store = NoteStore(folder, disk, max_notes=1000)
        self.full = ""

    async def ask(self, message: Any) -> Any:
        await trio.lowlevel.checkpoint()
        match message:
            case GetOverview():
                return self.overview
            case Learn(found=found, batch=batch, settings=settings):
                if self.full:
                    return Unlearned(self.full)
                return self.store.learn(found, batch, settings)
        raise AssertionError(message)

    @property
    def overview(self) -> MemoryOverview:
        return self.store.indexed.look_up(self.store.overview)

    @property
    def notes(self) -> tuple[Note, ...]:
        return (*self.overview.newest, *self.overview.pending)

    @property
    def seen(self) -> list[Observation]:
        return observations_of(self.notes)

    @property
    def remembered(self) -> dict[str, str]:
        return {note.key: note.text for note in self.notes if note.status == "active"}


class Scene:
    """A world with an observer: *answers* in turn, the last one repeated."""

    def __init__(self, folder: Path) -> None:
        self.world = World(folder)
        self.world.archive = 30 * 86_400.0
        self.world.model = self.model
        self.world.extend = self.extend
        self.notebook = Notebook(folder / "notes")
        self.settings = LearningSettings(mode="auto", threshold=1)
        self.answers: list[Completed] = [answer(facts(TEA))]
        self.slow = 1.0
        self.talk = echo

    @property
    def passes(self) -> list[Complete]:
        return [one for one in self.world.asked if one.role == ROLE]

    @property
    def observed(self) -> int:
        return (self.world.folder / "sessions/s.jsonl").read_text().count('"observed"')

    async def model(self, request: Complete) -> Completed:
        if request.role != ROLE:
            return await self.talk(request)
        await trio.sleep(self.slow)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    def extend(self, one: Process) -> list[Callable[[SessionLog], SessionExtension]]:
        redact = Redactor([Secret("hunter2")])
        learning = Learning(
            lambda: self.settings,
            one.models.address,
            TellOwner({"chat": one.outbox.address}, lambda: (ROUTE,), redact),
            redact,
            OwnerClock(self.world.now, self.world.zone),
        )
        return [lambda log: MemoryExtension(self.notebook, learning, 0, self.world.idle, log)]


async def hear(h: Process, text: str) -> None:
    """Send a message as another person."""
    await h.sessions.address.insist(
        lambda: Inbound(
            session="s",
            id="x",
            principal=Principal("other", "Other", owner=False),
            route=ROUTE,
            text=text,
            sent_at=0.0,
        )
    )
