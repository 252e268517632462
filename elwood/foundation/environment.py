"""What the program is given from outside: clock, chance, threads, system calls."""

import os
import random
import secrets
import time
from collections.abc import Callable

import attrs

from elwood.foundation.net.systemd import Notify
from elwood.foundation.runtime import Blocking, in_thread
from elwood.foundation.storage.disk import Calls
from elwood.foundation.text.characters import CODE_ALPHABET


def typed_code(length: int) -> str:
    """Make a code that nobody can guess, and that can be typed."""
    return "".join(secrets.choice(CODE_ALPHABET) for _ in range(length))


@attrs.frozen(kw_only=True)
class Environment:
    """All that is not decided by the program: the seam for tests.

    *now* is Unix time, *random* gives numbers from 0 to 1, *new_id* 128 random bits as text,
    *new_code* a code of the given length that can be typed.
    """

    now: Callable[[], float] = time.time
    random: Callable[[], float] = random.random
    new_id: Callable[[], str] = lambda: secrets.token_urlsafe(16)
    new_code: Callable[[int], str] = typed_code
    blocking: Blocking = in_thread
    calls: Callable[[], Calls] = Calls
    notify: Notify = attrs.field(factory=lambda: Notify.from_environment({}, os.getpid()))
