"""What one chat is shown of an answer that is still being written: never needed for the answer."""

from contextlib import suppress

from elwood.agent.channels.pacing import Pacing
from elwood.features.telegram.client import Bot
from elwood.features.telegram.errors import FAILURES
from elwood.foundation.text.splitting import MESSAGE_LIMIT, clipped, frame

# Seconds for which a draft is taken to be on the screen (the API shows it for 30).
DRAFT_SHOWN = 25.0
# What ends the message that a group is shown.  A kill leaves it standing: it must not pass for an
# answer, or the answer behind it would be a repeat that nobody marked.
UNFINISHED = " …"


class Preview:
    """Drafts in a private chat; in a group a message that is edited, and deleted at the end."""

    def __init__(self) -> None:
        self.message: int | None = None
        self._draft: int | None = None
        self._shown: str | None = None
        self._shown_at = float("-inf")
        self._typed_at = float("-inf")
        self._is_lost = False

    def wants_typing(self, now: float, pacing: Pacing) -> bool:
        """Tell whether a sign of life is worth a call: not while a draft is on the screen."""
        drafting = self._shown is not None and now - self._shown_at < DRAFT_SHOWN
        return not drafting and now - self._typed_at >= pacing.typing_gap

    def wants(self, now: float, draft: int, text: str, pacing: Pacing, *, private: bool) -> bool:
        """Tell whether *text* shows anything new, and long enough after the frame before."""
        gap = pacing.draft_gap if private else pacing.edit_gap
        if self._is_lost or now - self._shown_at < gap:
            return False
        if not private:
            return bool(text.strip()) and text != self._shown
        return frame(text, self._shown if self._draft == draft else None) is not None

    async def type(self, bot: Bot, chat: int, topic: int | None, now: float) -> None:
        """Show that work goes on.  Raises what the bot raises."""
        self._typed_at = now
        await bot.send_chat_action(chat, topic=topic)

    async def draft(
        self, bot: Bot, chat: int, topic: int | None, draft: int, text: str, now: float
    ) -> None:
        """Show *text* in a private chat.  Raises what the bot raises."""
        text = frame(text) or ""
        self._draft, self._shown, self._shown_at = draft, text, now
        await bot.send_message_draft(chat, draft, text, topic=topic)

    async def edit(self, bot: Bot, chat: int, topic: int | None, text: str, now: float) -> None:
        """Show *text* in a group, where there are no drafts.  Raises what the bot raises."""
        self._shown, self._shown_at = text, now
        text = clipped(text, MESSAGE_LIMIT - len(UNFINISHED)) + UNFINISHED
        if self.message is not None:
            await bot.edit_message_text(chat, self.message, text)
            return
        # If it is not known whether it was sent, there may be one stray message, but no second.
        self._is_lost = True
        self.message = await bot.send_message(chat, text, (), topic=topic, silent=True)
        self._is_lost = False

    async def end(self, bot: Bot, chat: int) -> None:
        """A real message has come: forget what was shown, and take it away in a group."""
        message, self.message = self.message, None
        self._draft, self._shown = None, None
        self._typed_at = float("-inf")
        self._is_lost = False
        if message is not None:
            with suppress(*FAILURES):
                await bot.delete_message(chat, message)
