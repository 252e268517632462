"""25 escapes and some more, attempted inside every backend."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import elwood

ROOT = Path(elwood.__file__).parent.parent
# Landlock's gaps: all files of the workspace are equal, and it covers neither metadata nor
# System V memory.
LANDLOCK_OPEN = {
    "write .git/hooks",
    "write deeper .git/hooks",
    "replace a protected file",
    "read secrets in the workspace",
    "chmod outside",
    "stat outside",
    "shared memory",
}
# Docker's own system call filter (20.10) allows them.
OLD_DOCKER_OPEN = {"io_uring", "vsock", "setuid file"}
# Only a sandbox stops these on any test machine. They show that the probes work.
CONTROL = {
    "connect to 127.0.0.1", "connect to the LAN", "/dev/tcp", "abstract socket", "socket by path",
    "read ~/.ssh", "read secrets", "read the journal", "read /proc of others", "write outside",
    "write .git/hooks", "write deeper .git/hooks", "socket in the workspace", "setuid file",
    "replace a protected file", "read secrets in the workspace",
    "chmod outside", "stat outside", "shared memory",
}  # fmt: skip


def run_probes(rung: str, engine: str = "") -> set[str]:
    """Return the targets that the probes reached from inside *rung*."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.foundation.sandbox.probing", rung, engine],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    answers: dict[str, bool] = json.loads(done.stdout)
    assert len(answers) == 33
    found = {name for name, is_open in answers.items() if is_open}
    print(f"{rung}: {len(answers) - len(found)} of {len(answers)} held; open: {sorted(found)}")
    return found


def unlimited_probes() -> set[str]:
    """Return the probes that root passes: its processes are not limited, except by namespace."""
    return {"300 processes"} if os.getuid() == 0 else set()


@pytest.mark.skipif(not Path("/usr/bin/python3").exists(), reason="NOT PROBED: no /usr/bin/python3")
class TestProbes:
    def test_without_a_sandbox_the_probes_succeed(self) -> None:
        assert run_probes("direct") >= CONTROL

    def test_bubblewrap_holds(self, has_bubblewrap: None) -> None:
        assert run_probes("bubblewrap") == set()

    def test_landlock_leaves_its_documented_gaps(self, has_landlock: None) -> None:
        assert run_probes("landlock") == LANDLOCK_OPEN | unlimited_probes()

    def test_docker_holds(self, engine: str) -> None:
        assert run_probes("docker", engine) <= OLD_DOCKER_OPEN
