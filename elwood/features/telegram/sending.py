"""One message as it goes to the Bot API: the calls it takes, and what to make of one refused."""

from collections.abc import Iterable, Sequence

import attrs

from elwood.features.telegram.client import Bot
from elwood.features.telegram.errors import Way
from elwood.foundation.text.characters import utf16_length
from elwood.foundation.text.markdown import Rich
from elwood.foundation.text.splitting import MESSAGE_LIMIT, split

# UTF-16 units of the text under a file.
MAX_CAPTION = 1024
# Bytes of a picture that is shown as one; Telegram makes it smaller then.  Larger ones, and what
# it cannot read, arrive as files, unchanged.
MAX_PHOTO = 5 << 20
_PICTURES = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff")


@attrs.frozen
class Parcel:
    """A file by its name."""

    name: str
    data: bytes = attrs.field(repr=False)

    @property
    def is_picture(self) -> bool:
        """Whether it can be shown in place."""
        return len(self.data) <= MAX_PHOTO and self.data.startswith(_PICTURES)


@attrs.frozen
class Piece:
    """What one call sends: a text, or a file with a text under it."""

    text: Rich
    file: Parcel | None = None

    async def send(
        self, bot: Bot, way: Way, buttons: Iterable[tuple[str, str]], *, silent: bool
    ) -> int:
        """Send it by *way* and return the message's id.  Raises what the bot raises."""
        entities = () if way.plain else self.text.entities
        if self.file is None:
            return await bot.send_message(
                way.chat,
                self.text.text,
                entities,
                topic=way.topic,
                reply_to=way.reply_to,
                buttons=buttons,
                silent=silent,
            )
        return await bot.send_file(
            way.chat,
            self.file.name,
            self.file.data,
            self.text.text,
            entities,
            photo=self.file.is_picture and not way.plain,
            topic=way.topic,
            reply_to=way.reply_to,
            buttons=buttons,
            silent=silent,
        )

    def smaller(self) -> tuple["Piece", ...]:
        """Cut it, as it was too long after all; nothing if there is nothing to cut."""
        if self.file is not None:
            return (Piece(self.text), Piece(Rich(""), self.file)) if self.text.text else ()
        halves = split(self.text, max(2, utf16_length(self.text.text) // 2))
        return tuple(Piece(half) for half in halves)


def pieces(text: Rich, files: Sequence[Parcel]) -> tuple[Piece, ...]:
    """Cut a message into what single calls can send; a short text goes under the first file."""
    if files and utf16_length(text.text) <= MAX_CAPTION:
        return (Piece(text, files[0]), *(Piece(Rich(""), file) for file in files[1:]))
    parts = (text,) if utf16_length(text.text) <= MESSAGE_LIMIT else split(text, MESSAGE_LIMIT)
    return (*map(Piece, parts), *(Piece(Rich(""), file) for file in files))
