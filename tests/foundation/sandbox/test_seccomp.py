"""The system call filter in a small interpreter, for every architecture."""

import errno
import os
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elwood.foundation.sandbox.seccomp import ARCHITECTURES, PLAIN_FAMILIES, program

ALLOW, KILL = 0x7FFF0000, 0x80000000
MACHINES = sorted(ARCHITECTURES)
NEW_USER = 0x10000000


def run_filter(code: bytes, audit: int, number: int, *arguments: int) -> int:
    """Run the classic BPF *code* for one system call, like the kernel."""
    words = [*arguments, *[0] * 6][:6]
    data = struct.pack("<IIQ6Q", number, audit, 0, *words)
    at, value = 0, 0
    lines = list(struct.iter_unpack("=HBBI", code))
    while True:
        operation, yes, no, k = lines[at]
        at += 1
        match operation:
            case 0x20:
                (value,) = struct.unpack_from("<I", data, k)
            case 0x15:
                at += yes if value == k else no
            case 0x35:
                at += yes if value >= k else no
            case 0x45:
                at += yes if value & k else no
            case 0x06:
                return int(k)
            case _:
                raise AssertionError(f"instruction {operation:#x}")


def deny_with(code: int) -> int:
    return 0x00050000 | code


@pytest.mark.parametrize("machine", MACHINES)
class TestFilter:
    def test_denied_calls_are_denied(self, machine: str) -> None:
        arch, code = ARCHITECTURES[machine], program(PLAIN_FAMILIES, machine)
        for number in arch.denied.values():
            assert run_filter(code, arch.audit, number) == deny_with(errno.EPERM)

    def test_only_the_given_socket_families_work(self, machine: str) -> None:
        arch = ARCHITECTURES[machine]
        some, none = program(PLAIN_FAMILIES, machine), program((), machine)
        for family in range(50):
            wanted = ALLOW if family in (1, 2, 10) else deny_with(errno.EACCES)
            assert run_filter(some, arch.audit, arch.socket, family) == wanted
            assert run_filter(none, arch.audit, arch.socket, family) == deny_with(errno.EACCES)

    def test_processes_start_without_new_namespaces(self, machine: str) -> None:
        arch, code = ARCHITECTURES[machine], program((), machine)
        assert run_filter(code, arch.audit, arch.clone, 0x11) == ALLOW
        assert run_filter(code, arch.audit, arch.clone, 0x11 | NEW_USER) == deny_with(errno.EPERM)
        assert run_filter(code, arch.audit, arch.clone3) == deny_with(errno.ENOSYS)

    def test_terminal_input_cannot_be_injected(self, machine: str) -> None:
        arch, code = ARCHITECTURES[machine], program((), machine)
        assert run_filter(code, arch.audit, arch.ioctl, 1, 0x5401) == ALLOW  # TCGETS
        for request in (0x5412, 0x541C):
            assert run_filter(code, arch.audit, arch.ioctl, 1, request) == deny_with(errno.EPERM)
            # The kernel checks the low half only.
            assert run_filter(code, arch.audit, arch.ioctl, 1, 1 << 32 | request) != ALLOW

    def test_a_file_cannot_run_as_its_owner(self, machine: str) -> None:
        arch, code = ARCHITECTURES[machine], program((), machine)

        def call(number: int, **given: int) -> int:
            words = [0] * 4
            for name, value in given.items():
                words[(offsets[name] - 16) // 8] = value
            return run_filter(code, arch.audit, number, *words)

        for number, mode in arch.modes.items():
            offsets = {"mode": mode}
            assert call(number, mode=0o1777) == ALLOW
            for bad in (0o4755, 0o2755, 1 << 32 | 0o4000):
                assert call(number, mode=bad) == deny_with(errno.EPERM)
        for number, (flags, mode) in arch.creating.items():
            offsets = {"flags": flags, "mode": mode}
            assert call(number, flags=0o2, mode=0o4755) == ALLOW  # the mode means nothing here
            for creates in (os.O_CREAT, os.O_TMPFILE):
                assert call(number, flags=creates, mode=0o644) == ALLOW
                assert call(number, flags=creates, mode=0o4755) == deny_with(errno.EPERM)
        assert run_filter(code, arch.audit, arch.openat2) == deny_with(errno.ENOSYS)

    def test_another_architecture_is_killed(self, machine: str) -> None:
        arch, code = ARCHITECTURES[machine], program((), machine)
        assert run_filter(code, arch.audit ^ 1, 0) == KILL
        if machine == "x86_64":
            assert run_filter(code, arch.audit, 0x40000000 | arch.socket, 2) == KILL

    @given(number=st.integers(0, 500), arguments=st.lists(st.integers(0, 2**64 - 1), max_size=6))
    def test_other_calls_are_allowed(self, machine: str, number: int, arguments: list[int]) -> None:
        arch, code = ARCHITECTURES[machine], program(PLAIN_FAMILIES, machine)
        known = {*arch.denied.values(), arch.socket, arch.clone, arch.clone3, arch.ioctl}
        known |= {arch.openat2, *arch.modes, *arch.creating}
        if number not in known:
            assert run_filter(code, arch.audit, number, *arguments) == ALLOW
