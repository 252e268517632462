"""Who may use a slash command, and whether it is answered in groups."""

from typing import get_args

import msgspec

from elwood.agent.conversation.inbound import Role

# The most powerful first.
ROLES: tuple[Role, ...] = get_args(Role)


class Right(msgspec.Struct, frozen=True):
    """The lowest role for a command in a private chat, and in a group; None: never there."""

    private: Role
    group: Role | None


ANYBODY = Right("guest", "guest")
# Commands that change, stop or export a conversation: a guest's own, but not a group's.
CONVERSATION = Right("guest", "member")
# Commands about the owner's affairs.
OWNER = Right("admin", None)


def refusal(name: str, right: Right, role: Role, *, private: bool) -> str:
    """Return why the command *name* is not for *role* here; "" if it is.

    >>> refusal("undo", CONVERSATION, "guest", private=False)
    'Guests cannot use /undo here. My owner can let you in.'
    >>> refusal("undo", CONVERSATION, "guest", private=True)
    ''
    """
    least = right.private if private else right.group
    if ROLES.index(role) > ROLES.index(least or right.private):
        if "admin" in (least, right.private):
            return f"/{name} is for my owner only."
        return f"Guests cannot use /{name} here. My owner can let you in."
    return "" if least else f"/{name} is private, and others read this chat: send it to me alone."
