"""Run one command, confined by Landlock on request, and end all its processes.

A separate program, started by `python3 -IS` with the numbers of two pipes.  From the first it
reads the request, in marshal format; the end of that pipe means that Elwood is done with the
command, or dead, and then everything is killed.  To the second it writes the exit code.  It stays
unconfined and adopts orphaned descendants, so that no process escapes.

Every command pays for every import: json, typing and contextlib would double the start time.
"""

from __future__ import annotations

import ctypes
import errno
import marshal
import os
import resource
import select
import signal
import struct
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# From linux/prctl.h.
PR_SET_PDEATHSIG, PR_SET_SECCOMP, PR_CAPBSET_DROP = 1, 22, 24
PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 36, 38
SECCOMP_MODE_FILTER = 2
CAPABILITY_VERSION_3 = 0x20080522
CAPABILITIES = 64
# From linux/landlock.h; the call numbers are the same on every architecture.
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
GET_VERSION, PATH_BENEATH = 1, 1
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
MAKE_CHAR, MAKE_BLOCK = 1 << 6, 1 << 11
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
READING = EXECUTE | READ_FILE | READ_DIR
OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV

# If memory is short, the kernel kills commands before Elwood; and they leave Elwood the processor.
FIRST_KILLED, NICENESS = 1000, 10
# Header of the request: its length in bytes.
LENGTH = struct.Struct("=I")

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long


def rights_of(abi: int) -> int:
    """Return all file rights of Landlock version *abi*."""
    return (1 << {1: 13, 2: 14, 3: 15, 4: 15}.get(abi, 16)) - 1


def call(*arguments: Any) -> int:  # any C type
    result = int(libc.syscall(*arguments))
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def prctl(option: int, *arguments: Any) -> None:
    longs = [ctypes.c_ulong(value) for value in (*arguments, 0, 0, 0, 0)[:4]]
    if libc.prctl(option, *longs) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def drop_capabilities() -> None:
    """Drop all capabilities, for this process and its descendants."""
    for capability in range(CAPABILITIES):
        try:
            prctl(PR_CAPBSET_DROP, capability)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.EPERM):  # unknown; not ours to drop
                raise
    header, has = struct.pack("=Ii", CAPABILITY_VERSION_3, 0), ctypes.create_string_buffer(24)
    if libc.capget(header, has) == 0 and not any(has.raw):
        return  # a strict unit denies capset, but has dropped all of them already
    if libc.capset(header, bytes(24)) != 0:
        raise OSError(ctypes.get_errno(), "capset")


def version() -> int:
    """Return the kernel's Landlock version."""
    return call(CREATE_RULESET, None, ctypes.c_size_t(0), GET_VERSION)


def restrict(read: list[str], write: list[str]) -> None:
    """Permanently forbid all files except those beneath *read* and *write*."""
    abi = version()
    rights = rights_of(abi)
    network = 3 if abi >= 4 else 0  # bind and connect by TCP
    scopes = 3 if abi >= 6 else 0  # abstract sockets and signals, to processes outside
    asked = struct.pack("=QQQ", rights, network, scopes)[: 8 if abi < 4 else 16 if abi < 6 else 24]
    rules = call(CREATE_RULESET, asked, ctypes.c_size_t(len(asked)), 0)
    writing = rights & ~(MAKE_CHAR | MAKE_BLOCK | IOCTL_DEV)
    for paths, granted in ((read, READING), (write, writing)):
        for path in paths:
            try:
                fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
            except FileNotFoundError:
                continue
            granted_here = granted if os.path.isdir(path) else granted & OF_FILES
            rule = struct.pack("=Qi", granted_here & rights, fd)
            call(ADD_RULE, rules, PATH_BENEATH, rule, 0)
            os.close(fd)
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    call(RESTRICT_SELF, rules, 0)
    os.close(rules)


def filter_calls(program: bytes) -> None:
    """Load *program*, an array of ``struct sock_filter``."""
    buffer = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("@HP", len(program) // 8, ctypes.addressof(buffer))
    address = ctypes.create_string_buffer(header, len(header))
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.addressof(address))


def limit(limits: dict[str, int]) -> None:
    for name, value in limits.items():
        kind = getattr(resource, f"RLIMIT_{name}")
        most = resource.getrlimit(kind)[1]
        if name == "NPROC" and os.getuid() != 0:  # the kernel does not limit root
            value += tasks_of_user()  # the limit counts all tasks of the user
        value = value if most == resource.RLIM_INFINITY else min(value, most)
        resource.setrlimit(kind, (value, value))


def stat(pid: int) -> list[bytes]:
    """Return the fields of `/proc/<pid>/stat` from the third on, or []."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read()
    except OSError:  # gone, or hidden from us
        return []
    return text[text.rindex(b")") + 2 :].split()


def pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def tasks_of_user() -> int:
    me, count = os.getuid(), 0
    for pid in pids():
        try:
            if os.stat(f"/proc/{pid}").st_uid == me and (fields := stat(pid)):
                count += int(fields[17])
        except OSError:
            continue
    return count


def descendants() -> set[int]:
    parents = {pid: int(fields[1]) for pid in pids() if (fields := stat(pid))}
    found = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {os.getpid()}


def send(pid: int, number: int) -> None:
    """Send a signal, to a group if *pid* is negative; ignore missing processes."""
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return


def kill_all() -> None:
    """Kill and reap every descendant; orphans become our children."""
    try:
        while True:
            while os.waitpid(-1, os.WNOHANG) != (0, 0):
                pass
            for pid in descendants():
                send(pid, signal.SIGKILL)
            os.waitpid(-1, 0)
    except ChildProcessError:
        return


def become(todo: dict[str, Any], monitor: int) -> int:  # Any: decoded by marshal
    """Execute the command in this process; return an exit code if that fails."""
    os.setpgid(0, 0)
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != monitor:
        return 1
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # python ignores them, and that is inherited
        signal.signal(number, signal.SIG_DFL)
    signal.set_wakeup_fd(-1)
    os.chdir(todo["folder"])
    limit(todo["limits"])
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write(str(FIRST_KILLED))
        os.nice(todo["niceness"])
    except OSError:  # a hardened unit may deny it
        pass
    walls = todo["walls"]
    if walls is not None:
        drop_capabilities()
        restrict(walls["read"], walls["write"])
        filter_calls(walls["filter"])
    # From here on errors are the command's own, and imports are impossible.
    error = execute(todo["argv"], todo["environment"])
    os.write(2, f"elwood: {todo['argv'][0]}: {error.strerror}\n".encode(errors="replace"))
    return 127 if error.errno in (errno.ENOENT, errno.ENOTDIR) else 126


def execute(argv: list[str], environment: dict[str, str]) -> OSError:
    """Execute the program, searched as by execvp; return only the error."""
    folders = [""] if "/" in argv[0] else environment["PATH"].split(":")
    worst = OSError(errno.ENOENT, os.strerror(errno.ENOENT))
    for folder in folders:
        try:
            os.execve(os.path.join(folder, argv[0]), argv, environment)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR):
                worst = error
    return worst


def main() -> None:
    life, status = map(int, sys.argv[2:4])  # after the title
    for fd in (life, status):
        os.set_inheritable(fd, False)
    request = b""
    while len(request) < LENGTH.size or len(request) < LENGTH.size + LENGTH.unpack_from(request)[0]:
        part = os.read(life, 1 << 16)
        if not part:
            return  # Elwood is dead, or has cancelled
        request += part
    todo = marshal.loads(request[LENGTH.size :])
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wake)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    broken, breaks = os.pipe2(os.O_CLOEXEC)
    monitor = os.getpid()
    command = os.fork()
    if command == 0:
        why = "an error in the launcher"
        try:
            os._exit(become(todo, monitor))
        except (OSError, ValueError) as error:  # never run the command unconfined
            why = f"{type(error).__name__}: {error}"
        finally:
            os.write(breaks, why.encode(errors="replace"))
            os._exit(1)
    os.close(breaks)
    code = watch(command, life, woken)
    kill_all()
    why = os.read(broken, 1000).decode(errors="replace").replace("\n", " ")
    os.write(status, f"failed {why}\n".encode() if why else f"exit {code}\n".encode())


def watch(command: int, life: int, woken: int) -> int | None:
    """Wait until *command* or the pipe *life* ends."""
    poll = select.poll()
    poll.register(life, select.POLLIN)
    poll.register(woken, select.POLLIN)
    while True:
        ready = [fd for fd, _ in poll.poll()]
        if life in ready:
            return None
        if signal.SIGTERM in os.read(woken, 4096):
            send(-command, signal.SIGTERM)
        while True:
            try:
                pid, how = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                pid = 0
            if pid == 0:
                break
            if pid == command:
                code = os.waitstatus_to_exitcode(how)
                return 128 - code if code < 0 else code


if __name__ == "__main__":
    main()
    os._exit(0)  # no cleanup is needed
