"""A session with an observer, whose model and notes are in memory."""

import json
from collections.abc import Callable
from pathlib import Path

import trio
import trio.testing

from elwood.agent.conversation.inbound import Inbound, Principal
from elwood.agent.models.messages import Complete, Completed
from elwood.agent.session.extension import SessionExtension
from elwood.agent.session.log.session_log import SessionLog
from elwood.agent.session.settings import LearningSettings
from elwood.features.memory.extension import ROLE, DailyQuota, Learning, Observer, OwnerQuestions
from elwood.foundation.secrets.redaction import Redactor, Secret
from tests.agent.session.scripted import answer
from tests.features.memory.notebook import Notebook
from tests.journeys.scene import ROUTE, House, World, echo

QUIET = 120.0
TEA = {"kind": "fact", "key": "tea", "text": "Likes tea."}


def facts(*found: dict[str, str]) -> str:
    return json.dumps({"facts": list(found)})


class Scene:
    """A world with an observer: *answers* in turn, the last one for ever."""

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
        self.learning: Learning

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

    def extend(self, one: House) -> list[Callable[[SessionLog], SessionExtension]]:
        self.learning = Learning(
            settings=self.settings,
            memory=self.notebook,
            models=one.models.address,
            quota=DailyQuota(self.world.folder / "calls", one.disk, self.settings.calls_per_day),
            questions=OwnerQuestions({"chat": one.outbox.address}, lambda: (ROUTE,)),
            redact=Redactor([Secret("hunter2")]),
            now=self.world.now,
            zone=self.world.zone,
        )
        return [lambda log: Observing(Observer(log.id, log, self.learning, self.world.idle))]


class Observing(SessionExtension):
    """An observer, and nothing else of the memory."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer

    @property
    def is_behind(self) -> bool:
        return self._observer.is_behind

    async def run(self) -> None:
        await self._observer.run()


async def hear(h: House, text: str) -> None:
    """Say something as somebody else."""
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
