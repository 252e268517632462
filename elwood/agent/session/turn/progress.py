"""What is shown of a turn while it runs: the text so far, or that somebody is writing."""

import trio

from elwood.agent.channels.messages import Draft, Typing
from elwood.agent.conversation.route import Route
from elwood.agent.session.delivery.delivery import Delivery
from elwood.foundation.secrets.redaction import Redactor

# Seconds between two signs of life while a turn shows nothing; Telegram's lasts five.
TYPING_EVERY = 4.0
# Seconds for which a turn shows nothing: an answer that comes as soon needs no announcement.
SILENT = 0.5
# Characters of a draft: twice what the longest message has, so that what is held back at the end
# lies beyond it; more would be looked through for nothing each time the model says a word.
DRAFT = 8192
# Draft ids of one turn: one per model response, so fewer than this.
DRAFTS_PER_TURN = 1000


class Showing:
    """Shows the turn number *number* on *route*; make one per start of a turn."""

    def __init__(self, delivery: Delivery, redactor: Redactor, route: Route, number: int) -> None:
        self._delivery = delivery
        self._redactor = redactor
        self._route = route
        self._draft = number * DRAFTS_PER_TURN
        self._shown = False
        self._loud_at = trio.current_time() + SILENT

    def text(self, response: int, text: str) -> bool:
        """Show the *text* so far of a response, by its number; False if it cannot be shown."""
        if trio.current_time() < self._loud_at:
            return False
        if not text.strip():
            return False
        draft = Draft(
            route=self._route,
            draft=self._draft + response,
            unredacted=text[:DRAFT],
            redact=self._redactor.partial,
        )
        self._shown = self._delivery.show(draft)
        return self._shown

    async def typing(self) -> None:
        """Show that somebody is writing until there is a text."""
        await trio.sleep_until(self._loud_at)
        while not self._shown:
            self._delivery.show(Typing(route=self._route))
            await trio.sleep(TYPING_EVERY)
