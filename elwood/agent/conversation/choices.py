"""The answers that a question offers: how a button names one, and how it is shown without buttons.

A press says nothing that a person could not type; what it means stands on the button.
"""

from collections.abc import Iterable

# With what the data of such a button begins; others belong to approvals.  Answers to what the model
# asks are words to it, whatever stands on them; those to what Elwood asks are its commands.
PREFIX, TYPES = "q:", "c:"


def choice(number: int) -> str:
    """Name the answer *number* (from 0) as a button carries it.

    >>> choice(2)
    'q:2'
    """
    return f"{PREFIX}{number}"


def typing(number: int) -> str:
    """Name the command *number* (from 0) that a button of Elwood's own question types.

    >>> typing(2)
    'c:2'
    """
    return f"{TYPES}{number}"


def is_choice(data: str | None) -> bool:
    """Tell whether a button with *data* is an answer to a question.

    >>> is_choice("q:0"), is_choice("c:0"), is_choice("p:ABCD2345:y"), is_choice(None)
    (True, True, False, False)
    """
    return data is not None and data.startswith((PREFIX, TYPES))


def types(data: str | None) -> bool:
    """Tell whether a press on a button with *data* is as if a command had been typed.

    >>> types("c:0"), types("q:0")
    (True, False)
    """
    return data is not None and data.startswith(TYPES)


def numbered(options: Iterable[str]) -> str:
    r"""List *options* for whoever has no buttons to press.

    >>> numbered(["tea", "no tea"])
    '1. tea\n2. no tea'
    """
    return "\n".join(f"{number}. {option}" for number, option in enumerate(options, 1))
