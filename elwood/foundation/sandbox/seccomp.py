"""The seccomp filter of every sandboxed command, written by hand.

It needs no library, and means the same on every supported architecture.  It denies what namespaces
do not: unusual socket families (AF_VSOCK reaches the host from an empty network namespace), new
namespaces and mounts, memory of other processes, keys, io_uring (whose system calls no filter
sees), typing into the terminal, and files with setuid or setgid: in the workspace other users of
the machine could run them as Elwood's user.
"""

import errno
import os
import socket
import struct
from collections.abc import Sequence

import msgspec

# Families that are harmless in a separate network namespace.
PLAIN_FAMILIES = (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6)

# From linux/bpf_common.h: load a word, jump if equal, if greater or equal, if a bit is set; return.
_LD, _JEQ, _JGE, _JSET, _RET = 0x20, 0x15, 0x35, 0x45, 0x06
# From linux/seccomp.h.
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
# Offsets in struct seccomp_data: number, architecture, low halves of arguments.
_NR, _ARCH = 0, 4
_ARG0, _ARG1, _ARG2, _ARG3 = 16, 24, 32, 40
# O_CREAT and __O_TMPFILE, with which the mode of a call counts; S_ISUID and S_ISGID.
_CREATES, _RUNS_AS_OWNER = 0x400040, 0o6000
# CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID and NEWNET.
_NEW_NAMESPACES = 0x7E020000
_TYPES_INTO_TERMINALS = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX

Instruction = tuple[int, int, int, int]

# Calls with the same number everywhere, like all new ones.
_COMMON = {
    "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "open_tree": 428,
    "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433,
    "mount_setattr": 442,
}  # fmt: skip


class Architecture(msgspec.Struct, frozen=True):
    """The number of an architecture in linux/audit.h, and those of its system calls."""

    audit: int
    socket: int
    ioctl: int
    clone: int
    denied: dict[str, int]
    # By call: the offset of its mode.
    modes: dict[int, int]
    # By call: the offsets of its flags and its mode.
    creating: dict[int, tuple[int, int]]
    clone3: int = 435
    openat2: int = 437


ARCHITECTURES = {
    "x86_64": Architecture(
        0xC000003E, socket=41, ioctl=16, clone=56,
        denied={
            "ptrace": 101, "unshare": 272, "setns": 308, "mount": 165, "umount2": 166,
            "pivot_root": 155, "chroot": 161, "bpf": 321, "keyctl": 250, "add_key": 248,
            "request_key": 249, "userfaultfd": 323, "perf_event_open": 298,
            "process_vm_readv": 310, "process_vm_writev": 311, "open_by_handle_at": 304,
            "kexec_load": 246, "init_module": 175, "finit_module": 313,
        } | _COMMON,
        # chmod, fchmod, creat, mknod, mknodat, fchmodat, fchmodat2; open, openat.
        modes={90: _ARG1, 91: _ARG1, 85: _ARG1, 133: _ARG1, 259: _ARG2, 268: _ARG2, 452: _ARG2},
        creating={2: (_ARG1, _ARG2), 257: (_ARG2, _ARG3)},
    ),
    "aarch64": Architecture(
        0xC00000B7, socket=198, ioctl=29, clone=220,
        denied={
            "ptrace": 117, "unshare": 97, "setns": 268, "mount": 40, "umount2": 39,
            "pivot_root": 41, "chroot": 51, "bpf": 280, "keyctl": 219, "add_key": 217,
            "request_key": 218, "userfaultfd": 282, "perf_event_open": 241,
            "process_vm_readv": 270, "process_vm_writev": 271, "open_by_handle_at": 265,
            "kexec_load": 104, "init_module": 105, "finit_module": 273,
        } | _COMMON,
        # fchmod, mknodat, fchmodat, fchmodat2; openat.
        modes={52: _ARG1, 33: _ARG2, 53: _ARG2, 452: _ARG2},
        creating={56: (_ARG2, _ARG3)},
    ),
}  # fmt: skip


def program(families: Sequence[int], machine: str | None = None) -> bytes:
    """Build the filter, an array of ``struct sock_filter``, for this machine or *machine*.

    Only sockets of *families* are allowed.  Raises KeyError for an unsupported architecture.
    """
    arch = ARCHITECTURES[machine or os.uname().machine]
    return b"".join(struct.pack("=HBBI", *one) for one in _instructions(arch, families))


def _instructions(arch: Architecture, families: Sequence[int]) -> list[Instruction]:
    code = [(_LD, 0, 0, _ARCH), (_JEQ, 1, 0, arch.audit), (_RET, 0, 0, _KILL), (_LD, 0, 0, _NR)]
    if arch.audit == ARCHITECTURES["x86_64"].audit:
        # The x32 numbering would evade the numbers below.
        code += [(_JGE, 0, 1, 0x40000000), (_RET, 0, 0, _KILL)]
    for number in arch.denied.values():
        code += [(_JEQ, 0, 1, number), _error(errno.EPERM)]
    # The filter cannot read their flags, which are in memory; programs then use clone and openat.
    for number in (arch.clone3, arch.openat2):
        code += [(_JEQ, 0, 1, number), _error(errno.ENOSYS)]
    for number, mode in arch.modes.items():
        code += _if_called(number, _refuse_setuid(mode))
    for number, (flags, mode) in arch.creating.items():
        refuse = _refuse_setuid(mode)
        body = [(_LD, 0, 0, flags), (_JSET, 0, len(refuse), _CREATES), *refuse]
        code += _if_called(number, body)
    code += _if_called(
        arch.clone, [(_LD, 0, 0, _ARG0), (_JSET, 0, 1, _NEW_NAMESPACES), _error(errno.EPERM)]
    )
    typing = [(_LD, 0, 0, _ARG1)]
    for request in _TYPES_INTO_TERMINALS:
        typing += [(_JEQ, 0, 1, request), _error(errno.EPERM)]
    code += _if_called(arch.ioctl, typing)
    opening = [(_LD, 0, 0, _ARG0)]
    for family in families:
        opening += [(_JEQ, 0, 1, family), (_RET, 0, 0, _ALLOW)]
    code += _if_called(arch.socket, [*opening, _error(errno.EACCES)])
    return [*code, (_RET, 0, 0, _ALLOW)]


def _refuse_setuid(mode: int) -> list[Instruction]:
    return [(_LD, 0, 0, mode), (_JSET, 0, 1, _RUNS_AS_OWNER), _error(errno.EPERM)]


def _if_called(number: int, body: list[Instruction]) -> list[Instruction]:
    """Run *body* for one system call; then reload its number."""
    body = [*body, (_LD, 0, 0, _NR)]
    return [(_JEQ, 0, len(body), number), *body]


def _error(code: int) -> Instruction:
    return (_RET, 0, 0, _ERRNO | code)
