"""The unit of docs/start/install.md under a real systemd: what works despite its restrictions."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.journeys.booted import COMMAND, ROOT, Machine, NotBooted, booted

pytestmark = pytest.mark.system

MANUAL = (ROOT / "docs" / "start" / "install.md").read_text()
CONFIG, UNIT = (
    MANUAL.split("## Another Linux with systemd")[1].split(f"```{kind}\n")[1].split("```")[0]
    for kind in ("toml", "ini")
)
# No server listens there; commands come from the scripted model.
MORE = """
base_url = "http://127.0.0.1:9"
[models.roles]
default.model = "offline/rules"
cheap.model = "offline/rules"
"""
# Additions of a stricter unit: no namespaces, and no writable executable memory.
STRICT = """
[Service]
RestrictNamespaces=yes
RestrictSUIDSGID=yes
ProtectHostname=yes
ProtectKernelTunables=yes
ProtectKernelLogs=yes
ProcSubset=pid
MemoryDenyWriteExecute=yes
SystemCallFilter=~@mount capset
"""


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A machine with Elwood, installed as the manual says."""
    try:
        with booted(tmp_path_factory.mktemp("machine")) as machine:
            machine.run("useradd", "--system", "--home-dir", "/var/lib/elwood", "elwood")
            machine.write("/etc/elwood/config.toml", CONFIG + MORE)
            for name, secret in (("telegram-token", "4242:fake"), ("anthropic-key", "fake")):
                machine.write(f"/etc/elwood/secrets/{name}", secret, 0o600)
            machine.write("/etc/systemd/system/elwood.service", UNIT)
            _is_fit(machine)
            yield machine
    except NotBooted as error:
        pytest.skip(f"UNIT NOT TESTED: {error}")


def _is_fit(machine: Machine) -> None:
    """Check that the unit's requirements work without it. Raise NotBooted if not."""
    alone = ("systemd-run", "--wait", "--pipe", "-q", "-p", "User=elwood", "-p", "ProtectHome=yes")
    inner = ("bwrap", "--unshare-all", "--ro-bind", "/", "/", "true")
    for argv in ((COMMAND, "--version"), inner):
        try:
            machine.run(*alone, *argv)
        except AssertionError as error:
            raise NotBooted(str(error)) from error


@pytest.fixture
def unit(machine: Machine) -> Iterator[Machine]:
    """The machine with a service that has never run; it is stopped afterwards."""
    machine.run("systemctl", "daemon-reload")
    yield machine
    machine.run("systemctl", "stop", "elwood")
    machine.run("rm", "-rf", "/var/lib/elwood", "/etc/systemd/system/elwood.service.d")


def start(machine: Machine) -> None:
    """Start the service, which is started when it reports ready."""
    machine.run("systemctl", "start", "elwood", check=False)
    state = machine.run("systemctl", "is-active", "elwood", check=False)
    assert state == "active\n", machine.run("journalctl", "-u", "elwood", "-o", "cat")


def doctor(machine: Machine) -> str:
    """Return the doctor's sandbox report, as the user of the manual."""
    found = machine.run("runuser", "-u", "elwood", "--", COMMAND, "doctor", check=False)
    lines = [line for line in found.splitlines() if re.search(r"^\w+ +sandbox ", line)]
    assert len(lines) == 1, found
    return " ".join(lines[0].split())


def test_the_documented_unit_runs_commands_in_bubblewrap(unit: Machine) -> None:
    start(unit)
    assert doctor(unit).startswith("ok sandbox Commands run in bubblewrap;")
    assert "weaker" not in unit.run(COMMAND, "inspect")


def test_a_stricter_unit_falls_back_to_landlock(unit: Machine) -> None:
    unit.write("/etc/systemd/system/elwood.service.d/strict.conf", STRICT)
    unit.run("systemctl", "daemon-reload")
    start(unit)
    weaker = "Commands run in landlock, a weaker sandbox (/sandbox)"
    assert doctor(unit).startswith(f"warning sandbox {weaker}; bubblewrap: ")
    assert f"! {weaker}: bubblewrap: " in unit.run(COMMAND, "inspect")
    health = json.loads(unit.read("/var/lib/elwood/health.json"))
    assert weaker in json.dumps(health["inspection"]["stuck"])
    assert f'"{weaker}' in unit.run("journalctl", "-u", "elwood", "-o", "cat", "-p", "warning")


def test_without_a_service_the_doctor_reports_its_own_test(unit: Machine) -> None:
    start(unit)
    unit.run("systemctl", "stop", "elwood")
    assert "tested from this shell; a service may have fewer rights" in doctor(unit)


def test_systemd_accepts_every_line_of_the_unit(machine: Machine) -> None:
    file = Path("/etc/systemd/system/elwood.service")
    assert machine.run("systemd-analyze", "verify", str(file)) == ""
