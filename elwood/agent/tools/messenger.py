"""How a tool speaks to people: through the outboxes, besides the answer of the turn."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Literal

import attrs
import trio

from elwood.agent.channels.messages import (
    Attachment,
    Button,
    OutboxMail,
    Post,
    Sent,
    Undeliverable,
    Unsent,
    Unsure,
)
from elwood.agent.conversation.identity import user_of
from elwood.agent.conversation.route import Route
from elwood.foundation.runtime import ActorCrashed, ActorDown, Address
from elwood.foundation.text.markdown import Rich

# Messages with files that tools may send at a time: each holds its files in the memory, and one
# of them three times while it is uploaded.
MAX_UPLOADS = 2

Outcome = Sent | Unsure | Unsent | Undeliverable
Whom = Literal["owner", "group", "person"]


def _nowhere() -> Route:
    raise AssertionError("a voice without a conversation has no here")


@attrs.frozen
class Place:
    """Where something is said: *whom* for the policy, *name* for people to read."""

    route: Route
    whom: Whom
    name: str


@attrs.frozen(kw_only=True)
class Voice:
    """Says something now.  Make one for the house, and evolve it for each session.

    *here* is where the running turn's answer goes; *owners* are the places where the owner can be
    told something, the first one when nothing speaks for another.  *recognise* gives the name of
    a person who was let in, by their principal.  *uploads* is shared by all sessions.
    """

    outboxes: Mapping[str, Address[OutboxMail]]
    owners: tuple[Route, ...]
    recognise: Callable[[str], Awaitable[str | None]]
    here: Callable[[], Route] = _nowhere
    uploads: trio.Semaphore = attrs.field(
        factory=lambda: trio.Semaphore(MAX_UPLOADS), eq=False, repr=False
    )

    async def place(self, to: str) -> Place | None:
        """Find "here", "owner", or a person by principal; None if there is no such place."""
        here = self.here()
        if to == "here" or (to == "owner" and self._is_owners(here)):
            return self._placed(here, "this conversation")
        if to == "owner":
            return self._placed(self.owners[0], "you") if self.owners else None
        user = user_of(to)
        if user is None:
            return None
        route = Route("telegram", user)
        if self._is_owners(route):
            return self._placed(route, "you")
        name = await self.recognise(to)
        return None if name is None else self._placed(route, f"{name or 'somebody'} ({to})")

    async def post(
        self,
        route: Route,
        part: Rich,
        files: tuple[Attachment, ...] = (),
        buttons: tuple[Button, ...] = (),
        *,
        repeat: bool = False,
    ) -> Outcome:
        """Send one message, once, and return what is known of it.

        *repeat* marks it as one that may have arrived before.
        """
        outbox = self.outboxes.get(route.channel)
        if outbox is None:
            return Undeliverable(f"there is no {route.channel} now")
        try:
            return await outbox.ask(
                Post(route=route, part=part, files=files, buttons=buttons, repeat=repeat)
            )
        except ActorDown as error:
            return Unsent(str(error))
        except ActorCrashed as error:
            return Unsure(str(error))

    def _placed(self, route: Route, name: str) -> Place:
        whom: Whom = "person" if route.private else "group"
        if self._is_owners(route):
            whom = "owner"
        topic = "" if route.topic is None else f", topic {route.topic}"
        chat = f" {route.chat}" if route.chat else ""
        kind = {"owner": "your own chat", "group": "a group", "person": "a private chat"}[whom]
        return Place(route, whom, f"{name}: {kind}, {route.channel}{chat}{topic}")

    def _is_owners(self, route: Route) -> bool:
        own = {(place.channel, place.chat) for place in self.owners}
        return route.private and (route.channel, route.chat) in own
