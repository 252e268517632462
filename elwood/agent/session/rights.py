"""Who may use a slash command, and whether it is answered where others read."""

from typing import get_args

import msgspec

from elwood.agent.conversation.inbound import Role

# The most powerful first.
ROLES: tuple[Role, ...] = get_args(Role)


class Right(msgspec.Struct, frozen=True):
    """The least role that a command takes in a private chat, and in a group; None: never there."""

    private: Role
    group: Role | None


ANYBODY = Right("guest", "guest")
# What changes a conversation, stops it or hands it out: a guest's own, but not that of a group.
CONVERSATION = Right("guest", "member")
# What tells of the owner's affairs, or decides about them.
OWNER = Right("admin", None)


def refusal(name: str, right: Right, role: Role, *, private: bool) -> str:
    """Say why the command *name* is not for *role* here; empty if it is.

    >>> refusal("undo", CONVERSATION, "guest", private=False)
    '/undo is not for guests here: my owner can let you in.'
    >>> refusal("undo", CONVERSATION, "guest", private=True)
    ''
    """
    least = right.private if private else right.group
    if ROLES.index(role) > ROLES.index(least or right.private):
        if "admin" in (least, right.private):
            return f"/{name} is for my owner only."
        return f"/{name} is not for guests here: my owner can let you in."
    return "" if least else f"/{name} is private, and others read this chat: ask me in our own."
