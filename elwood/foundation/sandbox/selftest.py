"""Does the sandbox hold?  A probe runs in it before it is trusted.

bubblewrap can hang instead of failing where a system call is denied to it: hence the time-out.
"""

import os
import socket
from pathlib import Path

import trio

from elwood.foundation.sandbox.command import Command, Executor, SandboxFailed

# Seconds for the whole test.
LIMIT = 5.0
# Says what it reached that it should not; and at its end that it was there at all.  bash knows
# /dev/tcp, sh does not; python3 may not be there.
_PROBE = r"""
ls . >/dev/null || exit 1
ls "$1" >/dev/null 2>&1 && echo "reached the state folder"
ls "$2" >/dev/null 2>&1 && echo "reached the home folder"
for pid in 1 "$3"; do tr '\0' '\n' <"/proc/$pid/environ" 2>/dev/null | sed 's/^/variable /'; done
if command -v bash >/dev/null; then bash -c ": <>/dev/tcp/127.0.0.1/$4" 2>/dev/null
elif command -v python3 >/dev/null; then
    python3 -c "import socket; socket.create_connection(('127.0.0.1', $4), 2)" 2>/dev/null
else echo "unprobed"; fi
echo done
"""


async def self_test(executor: Executor, state: Path, *, limit: float = LIMIT) -> str | None:
    """Say why *executor* is not to be trusted; None if it held."""
    with trio.move_on_after(limit), socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        port = listener.getsockname()[1]
        words = (str(state), _home(), str(os.getpid()), str(port))
        argv = ("/bin/sh", "-c", _PROBE, "sh", *words)
        try:
            outcome = await executor.run(Command(argv=argv, timeout=limit))
        except SandboxFailed as error:
            return error.why
        if outcome.timed_out:
            return f"the self-test took longer than {limit:g} s"
        if _was_reached(listener):
            return "the self-test reached the loopback of this machine"
        return _fault(outcome.output.decode(errors="replace").splitlines())
    return f"the self-test took longer than {limit:g} s"


def _home() -> str:
    home = os.path.expanduser("~")
    return home if home != "/" else "/root"


def _was_reached(listener: socket.socket) -> bool:
    try:
        listener.accept()[0].close()
    except BlockingIOError:
        return False
    return True


def _fault(lines: list[str]) -> str | None:
    if not lines or lines[-1] != "done":
        return f"the self-test did not run: {' '.join(lines)[:500]}"
    ours = {f"variable {name}={value}" for name, value in os.environ.items()}
    common = {f"variable {name}=" for name in ("PATH", "HOME", "LANG", "TERM", "HOSTNAME")}
    for line in lines:
        if line.startswith("reached "):
            return f"the self-test {line}"
        if line in ours and not line.startswith(tuple(common)):
            return "the self-test read Elwood's environment"
    return None
