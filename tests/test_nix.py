"""The Nix files and the documented unit: they parse, and are as restricted as tested."""

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import elwood
from elwood.app.config.load import load
from elwood.app.main import sections
from elwood.foundation.settings import yield_fields

ROOT = Path(elwood.__file__).parent.parent
NIX = sorted([*ROOT.glob("nix/*.nix"), *ROOT.glob("flake.nix")])
MODULE = ROOT / "nix" / "module.nix"

# Profile A: each directive tested with systemd 252 and 257, bubblewrap and node.
PROFILE = """
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
PrivateDevices=yes
ProtectKernelModules=yes
ProtectControlGroups=yes
ProtectClock=yes
ProtectProc=invisible
RestrictNamespaces=user pid net ipc uts mnt
RestrictRealtime=yes
LockPersonality=yes
RemoveIPC=yes
KeyringMode=private
CapabilityBoundingSet=
AmbientCapabilities=
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
SystemCallArchitectures=native
SystemCallFilter=@system-service @pkey landlock_create_ruleset landlock_add_rule \
landlock_restrict_self seccomp
SystemCallFilter=~@privileged @resources @keyring userfaultfd
SystemCallFilter=@mount capset sched_setaffinity setpriority
SystemCallErrorNumber=EPERM
UMask=0077
StateDirectoryMode=0700
LimitCORE=0
LimitNOFILE=8192
TasksMax=512
MemoryMax=2G
OOMPolicy=continue
InaccessiblePaths=-/run/docker.sock -/run/podman -/var/lib/docker
"""
# Each of these breaks bubblewrap or node.
FORBIDDEN = {
    "MemoryDenyWriteExecute", "ProcSubset", "ProtectHostname", "ProtectKernelLogs",
    "ProtectKernelTunables", "RestrictSUIDSGID",
}  # fmt: skip
# Machine-specific values.
OWN = {"ExecStart", "Group", "LoadCredential", "ReadWritePaths", "User"}
LIFE = """
Type=notify
WatchdogSec=60
Restart=always
RestartSec=10
RestartPreventExitStatus=78
TimeoutStopSec=45
StateDirectory=elwood
RuntimeDirectory=elwood
"""
WANTED = [line for line in (PROFILE + LIFE).splitlines() if line]


def without_comments(path: Path) -> str:
    return "\n".join(
        line for line in path.read_text().splitlines() if not line.lstrip().startswith("#")
    )


def directives() -> list[str]:
    """Read serviceConfig as unit lines; lists become one line for each member."""
    body = without_comments(MODULE).split("serviceConfig = {")[1]
    lines = []
    for key, value in re.findall(r"^ +([A-Z]\w+) = (\[.*?\]|.*?);$", body, re.M | re.S):
        members = re.findall(r'"([^"]*)"', value) if value.startswith("[") else [value.strip('"')]
        lines += [f"{key}={'yes' if member == 'true' else member}" for member in members]
    return lines


@pytest.mark.parametrize("path", NIX, ids=lambda path: path.name)
def test_nix_can_parse_the_file(path: Path, tmp_path: Path) -> None:
    program = shutil.which("nix-instantiate")
    if program is None:
        pytest.skip("NIX FILES NOT PARSED: there is no nix-instantiate (Debian: nix-bin)")
    places = {f"NIX_{name}_DIR": str(tmp_path / name) for name in ("STORE", "STATE", "LOG", "CONF")}
    done = subprocess.run(
        [program, "--parse", str(path)],
        env={"HOME": str(tmp_path), **places},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr


def shown() -> list[str]:
    """Read the unit of the documentation."""
    manual = (ROOT / "docs" / "start" / "install.md").read_text()
    service = manual.split("```ini\n")[1].split("[Service]\n")[1].split("\n\n")[0]
    return [line for line in service.splitlines() if not line.startswith("#")]


def test_the_unit_of_the_module_equals_the_documented_one() -> None:
    module, manual = (
        [line for line in lines if line.split("=")[0] not in OWN]
        for lines in (directives(), shown())
    )
    assert sorted(module) == sorted(manual)
    assert set(WANTED) <= set(module)
    assert not FORBIDDEN & {line.split("=")[0] for line in module}


@pytest.mark.parametrize("unit", [directives, shown])
def test_the_system_call_filters_keep_their_order(unit: Callable[[], list[str]]) -> None:
    """A later line restricts or extends the earlier ones."""
    wanted = [line for line in PROFILE.splitlines() if line.startswith("SystemCallFilter=")]
    assert [line for line in unit() if line.startswith("SystemCallFilter=")] == wanted


def test_the_folders_are_in_the_configuration_file() -> None:
    """systemd passes them only to the service; `elwood inspect` reads the configuration."""
    module, manual = MODULE.read_text(), (ROOT / "docs" / "start" / "install.md").read_text()
    for line in ('state = "/var/lib/elwood"', 'runtime = "/run/elwood"'):
        assert f"{line};" in module
        assert f"\n{line}\n" in manual


def test_the_unit_finds_bubblewrap() -> None:
    path = without_comments(MODULE).split("path = [", 1)[1].split("]")[0]
    assert {"pkgs.bubblewrap", "pkgs.git"} <= set(path.split())


def test_the_module_knows_every_secret_setting() -> None:
    """In the settings they would be in the store, which all users can read."""
    listed = without_comments(MODULE).split("secretNames = [")[1].split("]")[0]
    kinds = [kind.SECTION.tables.item if kind.SECTION.tables else kind for kind in sections()]
    secret = {field.name for kind in kinds for field, key in yield_fields(kind) if key.credential}
    assert {name.strip('"') for name in listed.split()} == secret


def test_the_settings_of_the_example_exist(tmp_path: Path) -> None:
    """The compared values are valid TOML too: strings, and lists of one."""
    example = without_comments(ROOT / "nix" / "example.nix")
    settings = example.split("settings = {")[1].split("};")[0]
    used = re.findall(r"^ +([\w.]+ = .*);$", settings, re.M)
    assert used
    file = tmp_path / "config.toml"
    file.write_text("\n".join(used))
    assert not load(file, {}, secrets=False).warnings
