"""The official conformance suite against Elwood's client: ``--mcp-real FOLDER`` installs it there.

The allowed failures are in `conformance_expected.yml`, with the reasons.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.features.mcp.house import HERE

ROOT = HERE.parents[2]

pytest.importorskip("mcp", reason="MCP NOT TESTED: the extra elwood[mcp] is not installed")

SUITE = ("@modelcontextprotocol/conformance@0.2.0-alpha.12", "node@22")
# Seconds for one scenario: one after another, as each client imports the SDK.
PATIENCE = 120


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
def test_only_expected_scenarios_fail(suite: Path, version: str) -> None:
    modules, of = suite / "node_modules", ("--spec-version", version) if version else ()
    program = [str(modules / "node" / "bin" / "node"), str(modules / ".bin" / "conformance")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}

    def run(*words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [*program, *words, *of],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE + 30,
            check=False,
        )

    scenarios = re.findall(r"^  - (\S+)", run("list", "--client").stdout, re.MULTILINE)
    assert len(scenarios) > 20
    command = f"{sys.executable} -m tests.features.mcp.conformance_client"
    limit = ("--timeout", str(PATIENCE * 1000))
    failed = {
        name
        for name in scenarios
        if run("client", "--command", command, "--scenario", name, *limit).returncode
    }
    expected = set(yaml.safe_load((HERE / "conformance_expected.yml").read_text())["client"])
    assert failed <= expected
    assert expected & set(scenarios) == failed, "what passes now is expected to fail no more"
