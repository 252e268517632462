"""Temporary: replaced by the branch policy."""

from collections.abc import Iterable


def quotes(text: str, private: Iterable[str], least: int = 12) -> bool:
    return False
