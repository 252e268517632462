"""The state folder belongs to one process (CP-36)."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from elwood.foundation.storage.disk import AlreadyRunning, holding

OTHER = """
import sys, time
from pathlib import Path
from elwood.foundation.storage.disk import holding
with holding(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_process_is_told_who_has_the_folder(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", OTHER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        with (
            pytest.raises(AlreadyRunning, match=f"process {other.pid} ") as caught,
            holding(tmp_path),
        ):
            pass
        assert caught.value.pid == other.pid
        other.kill()
        other.wait()
        # However the other one ended, the folder is free.
        with holding(tmp_path):
            assert (tmp_path / "lock").read_text() == f"{os.getpid()}\n"
