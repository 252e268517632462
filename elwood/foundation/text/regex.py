r"""Regular expressions of owners and models, run by RE2 in time linear in the text.

RE2 has no look-around, such as ``(?=…)``, and no back-references, such as ``\1``.
"""

from collections.abc import Callable
from functools import lru_cache

# Bytes for an expression and its states: the longest possible one (8,000 steps) needs half a second
# for 64 KiB in the worst case, and cannot be interrupted.
MAX_MEMORY = 1 << 20


class BadRegex(ValueError):
    """RE2 cannot compile it; the text says why."""


@lru_cache(maxsize=128)
def compile_regex(pattern: str, *, ignore_case: bool = False) -> Callable[[bytes], int | None]:
    r"""Return a function that returns the end of the first match in its argument, or None.

    Raises BadRegex.

    >>> compile_regex(r"b\w+")(b"a bee or two"), compile_regex("B")(b"bee")
    (5, None)
    """
    import re2  # compiled code that most commands do not need

    options = re2.Options()
    options.max_mem = MAX_MEMORY
    options.case_sensitive = not ignore_case
    options.log_errors = False
    try:
        expression = re2.compile(pattern.encode("utf-8", "replace"), options)
    except re2.error as error:
        why = error.args[0].decode("utf-8", "replace") if error.args else "it is not valid"
        raise BadRegex(why) from error

    def search(text: bytes) -> int | None:
        match = expression.search(text)
        return None if match is None else int(match.end())

    return search
