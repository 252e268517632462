"""What the house does itself at planned times: the contract."""

from collections.abc import Awaitable, Callable

import attrs


@attrs.frozen
class Report:
    """What came of a chore, in *words*.

    With *prompt* it is not done yet: a model is to be asked this, in the run of the chore's task.
    """

    words: str = ""
    failed: bool = False
    prompt: str = ""


Chore = Callable[[float], Awaitable[Report]]
"""Does what is due; is given when it was last done well, Unix seconds (0: never)."""
