"""Who is speaking, and in which session."""

import attrs


@attrs.frozen
class Principal:
    """A person: *id* as the channel proves it (``tg:<user id>``), never a name they chose."""

    id: str
    name: str
    owner: bool
