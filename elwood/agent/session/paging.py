"""Long lists, a page at a time: ``/receipts page 2``, and the buttons that type it."""

import re
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

_NUMBER = re.compile("[0-9]{1,4}")
_END_OF_WORD = re.compile(r"\w\Z")


def parse_page(given: str) -> tuple[str, int]:
    """Split the arguments of a command into the text before the page, and the page.

    >>> parse_page("all page 3"), parse_page("all"), parse_page("page 2")
    (('all', 3), ('all', 1), ('', 2))
    """
    before, page, number = given.rpartition("page ")
    if not page or not _NUMBER.fullmatch(number) or _END_OF_WORD.search(before[-1:]):
        return given, 1
    return before.rstrip(), int(number)


def page(
    items: Sequence[T], number: int, size: int, command: str
) -> tuple[Sequence[T], dict[str, str]]:
    """Return the page *number* of *items*, or the nearest one, and the buttons to other pages.

    A button is a label and the command that it types: *command* with a page.

    >>> page("abcde", 2, 2, "/tasks all")
    ('cd', {'← 1/3': '/tasks all page 1', '3/3 →': '/tasks all page 3'})
    """
    count = max(1, -(-len(items) // size))
    number = min(max(1, number), count)
    buttons = {}
    if number > 1:
        buttons[f"← {number - 1}/{count}"] = f"{command} page {number - 1}"
    if number < count:
        buttons[f"{number + 1}/{count} →"] = f"{command} page {number + 1}"
    return items[(number - 1) * size : number * size], buttons
