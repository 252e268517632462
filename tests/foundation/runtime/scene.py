"""A supervised app for one test: its children run inside and stop in order at the end."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import attrs
import trio
import trio.testing

from elwood.foundation.runtime import (
    ActorTable,
    Child,
    Crashed,
    Ended,
    Escalated,
    Event,
    Mailbox,
    Request,
    RestartPolicy,
    Started,
    supervise,
)


@attrs.define
class Scene:
    """The actor table, the listener's events with their times, and the end."""

    actor_table: ActorTable = attrs.field(factory=lambda: ActorTable(trio.current_time))
    heard: list[tuple[float, Event]] = attrs.field(factory=list)
    stop: trio.Event = attrs.field(factory=trio.Event)
    ended: Escalated | None = None

    def listen(self, event: Event) -> None:
        self.heard.append((trio.current_time(), event))

    def starts(self, name: str) -> list[float]:
        """Return the times at which *name* was started."""
        return [at for at, event in self.heard if isinstance(event, Started) and event.name == name]

    def crashes(self, name: str) -> list[Crashed]:
        return [e for _, e in self.heard if isinstance(e, Crashed) and e.name == name]

    def order_of_ends(self) -> list[str]:
        return [e.name for _, e in self.heard if isinstance(e, Ended)]


@asynccontextmanager
async def run_app(*children: Child, scene: Scene | None = None) -> AsyncIterator[Scene]:
    """Supervise *children*; store an escalation in ``scene.ended``."""
    scene = scene or Scene()

    async def run() -> None:
        try:
            await supervise(
                children, stop=scene.stop, listener=scene.listen, actor_table=scene.actor_table
            )
        except Escalated as error:
            scene.ended = error

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        await trio.testing.wait_all_tasks_blocked()
        yield scene
        scene.stop.set()


def make_child(
    name: str,
    body: Callable[[Mailbox[Any]], Awaitable[None]],
    policy: RestartPolicy | None = None,
    *,
    capacity: int = 8,
    grace: float = 5.0,
) -> Child:
    return Child(Mailbox[Any](name, capacity), body, policy or RestartPolicy(), grace)


class Say(Request[str], frozen=True, kw_only=True):
    """A request that is answered with its own word."""

    word: str = "hello"
    key: str = "a"


async def echo(mailbox: Mailbox[Any]) -> None:
    """Answer each `Say` immediately."""
    async for message in mailbox:
        message.reply.set(message.word)
