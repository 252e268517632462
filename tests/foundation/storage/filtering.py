"""Makes system calls of this process fail, like an old kernel or another file system."""

import ctypes
from collections.abc import Sequence


class _Filter(ctypes.Structure):
    _fields_ = (
        ("code", ctypes.c_uint16),
        ("yes", ctypes.c_uint8),
        ("no", ctypes.c_uint8),
        ("k", ctypes.c_uint32),
    )


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_uint16), ("filters", ctypes.POINTER(_Filter)))


def fail(calls: Sequence[int], code: int) -> None:
    """Make the system calls with these numbers fail with *code* from now on (seccomp)."""
    steps = [_Filter(0x20, 0, 0, 0)]  # load the number
    for number in calls:
        steps += [_Filter(0x15, 0, 1, number), _Filter(0x06, 0, 0, 0x50000 | code)]
    steps.append(_Filter(0x06, 0, 0, 0x7FFF0000))  # allow
    filters = (_Filter * len(steps))(*steps)
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(38, 1, 0, 0, 0) == 0
    program = _Program(len(steps), filters)
    assert libc.prctl(22, 2, ctypes.byref(program)) == 0
