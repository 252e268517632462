"""What a command of a person comes to."""

import msgspec


class CommandResult(msgspec.Struct, frozen=True):
    """What a press or a command decided, in words for the person who did it."""

    text: str
    ok: bool
