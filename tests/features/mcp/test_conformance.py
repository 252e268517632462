"""The official conformance suite against Elwood's client: ``--mcp-real FOLDER`` installs it there.

What it may fail in stands in `conformance_expected.yml`, with the reasons.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.features.mcp.house import HERE

pytest.importorskip("mcp", reason="MCP NOT TESTED: the extra elwood[mcp] is not installed")

SUITE = ("@modelcontextprotocol/conformance@0.2.0-alpha.12", "node@22")
# Seconds for all scenarios, which run beside one another.
PATIENCE = 900


@pytest.fixture(scope="module")
def suite(pytestconfig: pytest.Config) -> Path:
    given = pytestconfig.getoption("--mcp-real")
    if given is None:
        pytest.skip("MCP CONFORMANCE NOT TESTED: say --mcp-real FOLDER")
    folder = Path(given).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "node_modules" / ".bin" / "conformance").exists():
        npm = shutil.which("npm")
        install = [str(npm), "install", "--silent", "--no-audit", *SUITE]
        if npm is None or subprocess.run(install, cwd=folder, check=False).returncode:
            pytest.skip("MCP CONFORMANCE NOT TESTED: no npm, or its registry is not reached")
    return folder


@pytest.mark.parametrize("version", ["", "2026-07-28"], ids=["all", "2026-07-28"])
def test_the_suite_fails_in_nothing_but_what_is_expected(
    suite: Path, version: str, tmp_path: Path
) -> None:
    command = f"{sys.executable} -m tests.features.mcp.conformance_client"
    argv = [
        str(suite / "node_modules" / "node" / "bin" / "node"),
        str(suite / "node_modules" / ".bin" / "conformance"),
        *("client", "--command", command, "--suite", "all", "--timeout", "120000"),
        *("--expected-failures", str(HERE / "conformance_expected.yml")),
        *(("--spec-version", version) if version else ()),
    ]
    root = HERE.parents[2]
    done = subprocess.run(
        argv,
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    summary = done.stdout[-8000:]
    assert done.returncode == 0, summary
