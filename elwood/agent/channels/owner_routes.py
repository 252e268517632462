"""Where the owner is to be told something that nobody asked for."""

from collections.abc import Sequence

from elwood.agent.conversation.route import Route


def owner_routes(owner: Sequence[Route], heard: Route | None) -> tuple[Route, ...]:
    """List the places *owner*, the best first: the chat, and topic, where they were *heard* last.

    What was heard elsewhere counts for nothing: there others may read, too, or nobody does.

    >>> desk, phone = Route("console"), Route("telegram", 7)
    >>> owner_routes((desk, phone), Route("telegram", 7, topic=3)) == (
    ...     Route("telegram", 7, topic=3), desk)
    True
    >>> owner_routes((desk, phone), Route("telegram", -5, private=False)) == (desk, phone)
    True
    """
    if heard is None or not heard.private:
        return tuple(owner)
    others = tuple(one for one in owner if (one.channel, one.chat) != (heard.channel, heard.chat))
    return (heard, *others) if len(others) < len(owner) else tuple(owner)
