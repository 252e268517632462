"""Attempt every known escape from inside a sandbox.

A standalone program without libraries: ``python3 -IS probes.py CONFIG`` prints, as JSON, which
tries reached something.  CONFIG says where the things are that must not be reached.
"""

import ctypes
import errno
import json
import mmap
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

AIM: dict[str, Any] = {}  # Any: numbers and names from JSON
LIBC = ctypes.CDLL(None, use_errno=True)
# x86_64, and all others.
KEYCTL, UNSHARE = (250, 272) if os.uname().machine == "x86_64" else (219, 97)
IO_URING_SETUP = 425
NEW_USER = 0x10000000
SEIZE = 0x4206
# The errors of a missing network, before any packet is sent.
NO_NETWORK = {errno.ENETUNREACH, errno.EACCES, errno.EPERM, errno.EAFNOSUPPORT}


def connects(family: int, address: object) -> bool:
    with socket.socket(family, socket.SOCK_STREAM) as sock:
        sock.settimeout(2)
        sock.connect(address)  # type: ignore[arg-type]  # of whichever family
    return True


def leaves(kind: int, host: str, port: int) -> bool:
    """Return True if a packet may have been sent."""
    with socket.socket(socket.AF_INET, kind) as sock:
        sock.settimeout(0.3)
        try:
            sock.connect((host, port))
            sock.send(b"x")
        except OSError as error:
            return error.errno not in NO_NETWORK
    return True


def reads(path: str, first: bytes = b"") -> bool:
    with open(path, "rb") as file:
        return (read := file.read(1)) != b"" and read.startswith(first)


def writes(path: str) -> bool:
    with open(path, "ab") as file:
        file.write(b"x")
    return True


def dns() -> bool:
    return leaves(socket.SOCK_DGRAM, "9.9.9.9", 53) or leaves(socket.SOCK_STREAM, "9.9.9.9", 53)


def dev_tcp() -> bool:
    line = f": <>/dev/tcp/127.0.0.1/{AIM['port']}"
    return subprocess.run(["bash", "-c", line], stderr=subprocess.DEVNULL).returncode == 0


def environment_of_first() -> bool:
    with open("/proc/1/environ", "rb") as file:
        return AIM["mark"].encode() in file.read()


def environment_of_others() -> bool:
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                if AIM["mark"].encode() in file.read():
                    return True
        except OSError:
            continue
    return False


def move_away(path: str) -> None:
    os.rename(path, f"{path}.old")


def put_link(path: str) -> None:
    os.symlink("/tmp", f"{path}.new")
    os.rename(f"{path}.new", path)


def makes_socket(family: int) -> bool:
    with socket.socket(family, socket.SOCK_STREAM):
        return True


def replaces() -> bool:
    """Replace a protected file or folder."""
    workspace, done = AIM["workspace"], False
    for old in ("AGENTS.md", ".git/config", ".git"):
        for act in (move_away, put_link, os.unlink):
            try:
                act(f"{workspace}/{old}")
                done = True
            except OSError:
                continue
    return done


def becomes_another() -> bool:
    os.setuid(0 if os.getuid() else 65534)
    return True


def makes_setuid() -> bool:
    path = f"{AIM['workspace']}/setuid"
    with suppress(OSError):
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o4755))
    with suppress(OSError):
        os.chmod(path, 0o4755)
    return bool(os.stat(path).st_mode & 0o4000)


def traces() -> bool:
    return bool(LIBC.ptrace(SEIZE, AIM["pid"], None, None) == 0)


def mounts() -> bool:
    place = f"{AIM['workspace']}/mount"
    os.mkdir(place)
    done = bool(LIBC.mount(b"none", place.encode(), b"tmpfs", 0, None) == 0)
    if done:
        LIBC.umount(place.encode())
    return done


def calls(number: int, *arguments: object) -> bool:
    return bool(LIBC.syscall(number, *arguments) >= 0)


def makes_ring() -> bool:
    return calls(IO_URING_SETUP, 1, ctypes.create_string_buffer(120))


def forks() -> bool:
    pids = []
    try:
        for _ in range(300):
            pid = os.fork()
            if pid == 0:
                os.execvp("sleep", ["sleep", "30"])
            pids.append(pid)
    finally:
        for pid in pids:
            os.kill(pid, 9)
            os.waitpid(pid, 0)
    return True


def takes_memory() -> bool:
    mmap.mmap(-1, 3 << 30, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS).close()
    return True


def takes_disk() -> bool:
    path = f"{AIM['workspace']}/big"
    with open(path, "wb") as file:
        try:
            file.truncate(20 << 30)
        finally:
            os.unlink(path)
    return True


def changes_mode() -> bool:
    os.chmod(AIM["journal"], 0o644)
    return True


def shares_memory() -> bool:
    return bool(LIBC.shmget(AIM["shm"], 0, 0) >= 0)


def sees() -> bool:
    os.stat(AIM["journal"])
    return True


PROBES: dict[str, Callable[[], bool]] = {
    "connect to 127.0.0.1": lambda: connects(socket.AF_INET, ("127.0.0.1", AIM["port"])),
    "connect to ::1": lambda: connects(socket.AF_INET6, ("::1", AIM["port6"])),
    "connect to the LAN": lambda: connects(socket.AF_INET, (AIM["lan"], AIM["port"])),
    "connect to metadata": lambda: leaves(socket.SOCK_STREAM, "169.254.169.254", 80),
    "DNS by UDP and TCP": dns,
    "/dev/tcp": dev_tcp,
    "abstract socket": lambda: connects(socket.AF_UNIX, "\0" + AIM["abstract"]),
    "socket by path": lambda: connects(socket.AF_UNIX, AIM["socket"]),
    "read ~/.ssh": lambda: reads(AIM["ssh"]),
    "read secrets": lambda: reads(AIM["secrets"]),
    "read the journal": lambda: reads(AIM["journal"]),
    "read /proc/1/environ": environment_of_first,
    "read /proc of others": environment_of_others,
    "write outside": lambda: writes(AIM["outside"]),
    "write .git/hooks": lambda: writes(f"{AIM['workspace']}/.git/hooks/post-checkout"),
    "write deeper .git/hooks": lambda: writes(f"{AIM['workspace']}/a/b/.git/hooks/post-checkout"),
    "socket in the workspace": lambda: connects(socket.AF_UNIX, f"{AIM['workspace']}/a/socket"),
    "setuid file": makes_setuid,
    "replace a protected file": replaces,
    "ptrace": traces,
    "mount": mounts,
    "user namespace": lambda: calls(UNSHARE, NEW_USER),
    "keyctl": lambda: calls(KEYCTL, 0, -3, 1),
    "io_uring": makes_ring,
    "300 processes": forks,
    "3 GB of memory": takes_memory,
    "a file of 20 GB": takes_disk,
    # More than the 25.
    "read secrets in the workspace": lambda: reads(f"{AIM['workspace']}/.env", b"r"),
    "chmod outside": changes_mode,
    "stat outside": sees,
    "shared memory": shares_memory,
    "vsock": lambda: makes_socket(40),
    # One of the 25; it is last because it affects the others.
    "setuid": becomes_another,
}


def is_reached(probe: Callable[[], bool]) -> bool:
    try:
        return probe()
    except (OSError, MemoryError):
        return False


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as _file:
        AIM |= json.load(_file)
    print(json.dumps({name: is_reached(probe) for name, probe in PROBES.items()}))
