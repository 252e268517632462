"""How a tool speaks to people: through the outboxes, besides the answer of the turn."""

from typing import Literal

import attrs
import trio

from elwood.agent.approvals.messages import ApprovalsMail, FindPerson
from elwood.agent.channels.channel import Channels
from elwood.agent.channels.messages import (
    Attachment,
    Button,
    Post,
    Sent,
    Undeliverable,
    Unsent,
    Unsure,
)
from elwood.agent.conversation.inbound import user_of
from elwood.agent.conversation.route import Route
from elwood.foundation.runtime import ActorCrashed, ActorDown, Address
from elwood.foundation.text.markdown import Rich

# Messages with files that tools may send at a time: each holds its files in the memory, and one
# of them three times while it is uploaded.
MAX_UPLOADS = 2

Outcome = Sent | Unsure | Unsent | Undeliverable
Whom = Literal["owner", "group", "person"]


@attrs.frozen
class Place:
    """Where something is said: *whom* for the policy, *name* for people to read."""

    route: Route
    whom: Whom
    name: str


class Messenger:
    """Says something now, on any of *channels*; *approvals* knows who was let in."""

    def __init__(self, channels: Channels, approvals: Address[ApprovalsMail]) -> None:
        self._channels = channels
        self._approvals = approvals
        self.uploads = trio.Semaphore(MAX_UPLOADS)

    async def place(self, to: str, here: Route) -> Place | None:
        """Find "here", "owner", or a person by principal; None if there is no such place.

        *here* is where the running turn's answer goes.
        """
        if to == "here" or (to == "owner" and self._is_owners(here)):
            return self._placed(here, "this conversation")
        if to == "owner":
            places = self._channels.places
            return self._placed(places[0], "you") if places else None
        user = user_of(to)
        if user is None:
            return None
        route = Route("telegram", user)
        if self._is_owners(route):
            return self._placed(route, "you")
        name = await self._approvals.ask(FindPerson(principal=to))
        return None if name is None else self._placed(route, f"{name or 'somebody'} ({to})")

    def takes_files(self, route: Route) -> bool:
        """Tell whether files can be sent to *route*."""
        return self._channels.takes_files(route)

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
        outbox = self._channels.outboxes.get(route.channel)
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
        own = {(place.channel, place.chat) for place in self._channels.places}
        return route.private and (route.channel, route.chat) in own
