"""Files that exist only while they are written: their names, and what a crash leaves of them.

Who writes one holds a lock on it; the kernel drops the lock with the process.  So what can be
locked is left over, and is swept.
"""

import fcntl
import os
import re
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from elwood.foundation.storage.syscalls import Calls

_NAME = re.compile(r"\.elwood-[0-9a-f]{16}\.tmp")
# Names that are tried; more than one is needed only if somebody sweeps at that very moment.
_TRIES = 10


def is_temporary(name: str) -> bool:
    """Tell whether *name* is one that a file has only while it is written."""
    return _NAME.fullmatch(name) is not None


def make(calls: Calls, folder: int) -> tuple[str, int]:
    """Make a file for us alone in the open *folder*; return its name and descriptor, locked.

    Raises OSError.
    """
    for _ in range(_TRIES):
        name = f".elwood-{secrets.token_hex(8)}.tmp"
        fd = calls.open(_path(folder, name), os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        if _locked(fd) and os.fstat(fd).st_nlink:
            return name, fd
        calls.close(fd)
    raise BlockingIOError("its folder is swept all the time")


def sweep(calls: Calls, folder: int) -> None:
    """Remove what a crash has left in the open *folder*."""
    with os.scandir(folder) as entries:
        left = [entry.name for entry in entries if is_temporary(entry.name)]
    for name in left:
        with suppress(OSError):
            fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
            try:
                if stat.S_ISREG(os.fstat(fd).st_mode) and _locked(fd):
                    calls.unlink(_path(folder, name))
            finally:
                os.close(fd)


def _path(folder: int, name: str) -> Path:
    return Path(f"/proc/self/fd/{folder}", name)


def _locked(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
