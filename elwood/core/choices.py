"""The answers that a question offers: how a button names one, and how it is shown without buttons.

A press says nothing that a person could not type; what it means stands on the button.
"""

from collections.abc import Iterable

# With what the data of such a button begins; others belong to approvals.
PREFIX = "q:"


def choice(number: int) -> str:
    """Name the answer *number* (from 0) as a button carries it.

    >>> choice(2)
    'q:2'
    """
    return f"{PREFIX}{number}"


def is_choice(data: str | None) -> bool:
    """Tell whether a button with *data* is an answer to a question.

    >>> is_choice("q:0"), is_choice("p:ABCD2345:y"), is_choice(None)
    (True, False, False)
    """
    return data is not None and data.startswith(PREFIX)


def numbered(options: Iterable[str]) -> str:
    r"""List *options* for whoever has no buttons to press.

    >>> numbered(["tea", "no tea"])
    '1. tea\n2. no tea'
    """
    return "\n".join(f"{number}. {option}" for number, option in enumerate(options, 1))
