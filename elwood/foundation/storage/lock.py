"""One process per state folder (CP-36)."""

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class AlreadyRunning(Exception):
    """Another process uses the state folder; the operator must stop one of them.

    *pid* is None if it did not have the time to say who it is.
    """

    def __init__(self, folder: Path, pid: int | None) -> None:
        who = "another process" if pid is None else f"process {pid}"
        super().__init__(
            f"{who} already uses the state folder {folder}; stop it, or give this one "
            f"another folder"
        )
        self.folder = folder
        self.pid = pid


@contextmanager
def holding(folder: Path) -> Iterator[None]:
    """Hold the state folder *folder*, which must exist, as long as the block runs.

    The kernel releases it when the process ends, however it ends; the file ``lock`` stays and
    holds the id of the last process that had it.  Raises AlreadyRunning; OSError where the file
    system knows no locks.
    """
    fd = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise AlreadyRunning(folder, _pid(fd)) from error
        except OSError as error:
            if error.errno == errno.ENOLCK:
                error.add_note(f"{folder} is on a file system without locks; use a local disk")
            raise
        os.ftruncate(fd, 0)
        os.write(fd, f"{os.getpid()}\n".encode())
        yield
    finally:
        os.close(fd)


def _pid(fd: int) -> int | None:
    text = os.read(fd, 20).strip()
    return int(text) if text.isdigit() else None
