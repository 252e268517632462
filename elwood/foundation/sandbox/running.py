"""Which commands run, on the disk: what a killed process left behind is ended by the next one.

Every running command has a file in ``<state>/running`` that names its processes by id and start
time.  It is written before the command may begin, and needs no sync: a crash of the machine ends
the processes too.  What dies between the start of a bwrap and that is known by its title.
"""

import os
import select
import shutil
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import msgspec

# Seconds until a killed process must be gone; one that hangs in the kernel cannot be waited for.
GONE = 5.0
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Process(msgspec.Struct, frozen=True):
    """A process by `/proc/<pid>/stat`; *started* in clock ticks since the start of the machine."""

    pid: int
    parent: int
    session: int
    started: int


class _Record(msgspec.Struct):
    boot: str
    processes: list[tuple[int, int]]


class Running:
    """The records in *folder*; their temporary folders lie beside them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def title(self) -> str:
        """What bwrap is called, in place of its path: so it is known before it can be noted."""
        return f"elwood-sandbox {self.folder.resolve()}"

    def name(self) -> str:
        """Make up a name for one command."""
        return uuid4().hex

    def note(self, name: str, pids: Iterable[int]) -> None:
        """Write down that the command *name* consists of *pids*."""
        found = [process for pid in pids if (process := look(pid)) is not None]
        record = _Record(_boot(), [(process.pid, process.started) for process in found])
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self.folder / f"{name}.new"
        path.write_bytes(msgspec.json.encode(record))
        path.rename(self.folder / name)

    def make_tmp(self, name: str) -> Path:
        """Make a folder for temporary files of the command *name*."""
        path = self.folder / f"{name}.tmp"
        path.mkdir(mode=0o700, parents=True)
        return path

    def forget(self, name: str) -> None:
        """Remove what stands here of the command *name*, which has ended."""
        shutil.rmtree(self.folder / f"{name}.tmp", ignore_errors=True)
        for path in (self.folder / f"{name}.new", self.folder / name):
            with suppress(OSError):  # a record of the dead does no harm
                path.unlink()


def reap(folder: Path) -> int:
    """End the commands in *folder* that a process before this one left; say how many lived.

    For the start of Elwood, before anything else is started; blocks until they are gone.
    """
    alive = _end_strays(Running(folder).title)
    if not folder.is_dir():
        return alive
    for path in sorted(folder.iterdir()):
        if path.suffix == ".tmp":
            shutil.rmtree(path, ignore_errors=True)
            continue
        with suppress(msgspec.DecodeError, FileNotFoundError):
            record = msgspec.json.decode(path.read_bytes(), type=_Record)
            alive += _end(record)
        path.unlink(missing_ok=True)
    return alive


def _end_strays(title: str) -> int:
    """End what was started and not noted yet when Elwood died.

    A bwrap whose parent dies before it has asked for a signal on that lives on, and waits for ever.
    """
    strays = {process.pid for process in processes() if _title(process.pid) == title}
    if strays:
        kill_family(strays)
    return len(strays)


def _title(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    return words.partition(b"\0")[0].decode(errors="replace")


def _end(record: _Record) -> bool:
    if record.boot != _boot():
        return False
    # An id may belong to somebody else by now; the start time cannot.
    ours = {
        pid
        for pid, started in record.processes
        if (process := look(pid)) is not None and process.started == started
    }
    if ours:
        kill_family(ours)
    return bool(ours)


def kill_family(roots: set[int]) -> None:
    """Kill *roots*, their descendants, and all in the sessions they lead; wait until they are gone.

    They are stopped first, so that none of them gets away by forking.
    """
    stopped: dict[int, int] = {}
    try:
        while new := _family(roots) - stopped.keys():
            for pid in new:
                with suppress(ProcessLookupError, PermissionError):
                    stopped[pid] = os.pidfd_open(pid)
                    signal.pidfd_send_signal(stopped[pid], signal.SIGSTOP)
            if not new & stopped.keys():
                break
        for pidfd in stopped.values():
            with suppress(ProcessLookupError, PermissionError):
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        _wait_until_gone(stopped.values())
    finally:
        for pidfd in stopped.values():
            os.close(pidfd)


def _wait_until_gone(pidfds: Iterable[int]) -> None:
    until = time.monotonic() + GONE
    for pidfd in pidfds:
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        poll.poll(max(0.0, until - time.monotonic()) * 1000)


def _family(roots: set[int]) -> set[int]:
    everybody = processes()
    found = {p.pid for p in everybody if p.pid in roots or p.session in roots}
    while more := {p.pid for p in everybody if p.parent in found} - found:
        found |= more
    return found


def processes() -> list[Process]:
    """List the processes of the machine, as far as we can see them."""
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return [process for pid in pids if (process := look(pid)) is not None]


def look(pid: int) -> Process | None:
    """Look at the process *pid*; None if there is none, or only what is left of one."""
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:  # gone, or hidden from us
        return None
    # The name of the program, in brackets, may hold anything.
    fields = text[text.rindex(b")") + 2 :].split()
    if fields[0] in (b"Z", b"X"):
        return None
    return Process(pid, parent=int(fields[1]), session=int(fields[3]), started=int(fields[19]))


def _boot() -> str:
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return ""
