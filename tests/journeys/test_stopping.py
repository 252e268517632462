"""What is said while something runs: stops, messages that wait, side questions, and edits."""

from typing import Any

from elwood.agent.session.log.entries import Received
from tests.journeys.home import Home


def edit(h: Home, message: Any, text: str, at: int = 5) -> int:
    """Let a message be edited, *at* seconds after it was written."""
    edited = message | {"text": text, "edit_date": message["date"] + at}
    return h.fake.push({"edited_message": edited})


async def test_an_edit_without_a_change_is_taken_and_changes_nothing(h: Home) -> None:
    """Telegram tells of one when it has added the preview of a link."""
    async with h.life() as life:
        message = h.fake.message("read https://example.org")
        h.fake.push({"message": message})
        await life.settled()
        edit(h, message, "read https://example.org")
        await life.settled()
    async with h.life() as life:
        edit(h, message, "read https://example.org")
        await life.settled()
        edit(h, message, "read https://example.com", at=9)
        await life.settled()
        edit(h, message, "read https://example.org", at=7)  # it comes late, and again
        await life.settled()

    assert len(h.asked) == len(h.charged()) == 2
    assert [text.splitlines()[0] for text in h.texts()] == [
        "re: read https://example.org",
        "re: [edited] read https://example.com",
    ]
    assert sum(isinstance(entry, Received) for entry in h.entries()) == 2
    assert h.broken() == []
