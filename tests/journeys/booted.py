"""A real systemd as PID 1 of separate namespaces, on a copy of this machine's files.

It needs root, systemd and util-linux. It has no effect outside: it writes only to memory, has an
empty network, and starts nothing but its journal.
"""

import os
import shutil
import signal
import site
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.foundation.sandbox.scene import PATIENCE

ROOT = Path(__file__).parents[2]
SYSTEMD = Path("/lib/systemd/systemd")
# Where the programs are installed in it, as in docs/start/install.md.
PROGRAMS = "/opt/elwood"
COMMAND = f"{PROGRAMS}/bin/elwood"
_SCRIPT = f"""#!/bin/sh
export PYTHONPATH={PROGRAMS}/source:{PROGRAMS}/site LD_LIBRARY_PATH={PROGRAMS}/python/lib
exec {PROGRAMS}/python/bin/python3 -B -m elwood "$@"
"""
# A separate process group, because systemd owns the whole tree that it sees.
_OUTER = """
set -eu
mount --make-rprivate /
mount -t tmpfs -o mode=755 tmpfs "$BASE"
mkdir "$BASE/cgroup" "$BASE/over" "$BASE/work" "$BASE/root"
mount -t cgroup2 cgroup2 "$BASE/cgroup"
GROUP="$BASE/cgroup$(sed -n 's/^0:://p' /proc/self/cgroup)/elwood-test-$$"
mkdir "$GROUP"
(
    read -r pid rest </proc/self/stat
    echo "$pid" >"$GROUP/cgroup.procs"
    exec unshare --mount --cgroup --pid --fork --kill-child /bin/sh -c "$INNER"
) || true
find "$GROUP" -depth -type d -exec rmdir {} +
"""
_INNER = f"""
set -eu
read -r leader rest </proc/self/stat
root="$BASE/root"
mount -t overlay -o "lowerdir=/,upperdir=$BASE/over,workdir=$BASE/work" overlay "$root"
for name in bin source site python; do mkdir -p "$root{PROGRAMS}/$name"; done
mount --bind "$SOURCE" "$root{PROGRAMS}/source"
mount --bind "$SITE" "$root{PROGRAMS}/site"
mount --bind "$PYTHON" "$root{PROGRAMS}/python"
mount -t proc -o nosuid,nodev,noexec proc "$root/proc"
mount -t sysfs -o ro,nosuid,nodev,noexec sysfs "$root/sys"
for name in run tmp dev sys/fs/cgroup; do mount -t tmpfs -o mode=755 tmpfs "$root/$name"; done
chmod 1777 "$root/tmp"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
for name in null zero full random urandom tty; do cp -a "/dev/$name" "$root/dev/$name"; done
mkdir "$root/dev/shm" "$root/dev/pts" "$root/.old"
mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
# Nothing of this machine is started or set, but the journal.
cd "$root"
rm -rf etc/systemd/system/*.wants lib/systemd/system/sysinit.target.wants \
    lib/systemd/system/basic.target.wants lib/systemd/system/local-fs.target.wants
: >etc/fstab
: >etc/machine-id
printf '[Unit]\\nRequires=basic.target\\nAfter=basic.target\\n' >etc/systemd/system/default.target
ip link set lo up
pivot_root . .old
umount -l /.old
mount --make-rshared /
echo "booted $leader"
exec env -i container=elwood PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd \
    systemd.unified_cgroup_hierarchy=1 >/run/boot.log 2>&1
"""


class NotBooted(Exception):
    """Booting is impossible on this machine; the text gives the reason."""


class Machine:
    """The inside of a booted machine; *leader* is the PID of its first process outside."""

    def __init__(self, leader: int) -> None:
        self.leader = leader

    def run(self, *argv: str, check: bool = True) -> str:
        """Run a command as root; return its stdout and stderr."""
        done = subprocess.run(
            ["nsenter", f"-t{self.leader}", *(f"-{kind}" for kind in "muinpCr"), "--", *argv],
            cwd="/",
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "SYSTEMD_PAGER": ""},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE,
        )
        assert not (check and done.returncode), f"{argv}: {done.returncode}\n{done.stdout}"
        return done.stdout

    def write(self, path: str, text: str, mode: int = 0o644) -> None:
        """Write a file in the machine."""
        inside = Path(f"/proc/{self.leader}/root{path}")
        inside.parent.mkdir(parents=True, exist_ok=True)
        inside.write_text(text)
        inside.chmod(mode)

    def read(self, path: str) -> str:
        return Path(f"/proc/{self.leader}/root{path}").read_text()


@contextmanager
def booted(base: Path) -> Iterator[Machine]:
    """Boot a machine in *base*, an empty folder. Raise NotBooted if that is impossible."""
    missing = [name for name in ("unshare", "nsenter", "ip") if shutil.which(name) is None]
    if os.getuid() != 0 or missing or not SYSTEMD.exists():
        raise NotBooted(" ".join(["it needs root and systemd", *missing]))
    places = {"SOURCE": str(ROOT), "SITE": site.getsitepackages()[0], "PYTHON": sys.base_prefix}
    outer = subprocess.Popen(
        ["unshare", "--mount", "--uts", "--ipc", "--net", "/bin/sh", "-c", _OUTER],
        env={"PATH": os.environ["PATH"], "BASE": str(base), "INNER": _INNER, **places},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        assert outer.stdout is not None
        with outer.stdout as said:
            words = b""
            for line in said:
                words += line
                if line.startswith(b"booted "):
                    break
            else:
                raise NotBooted(words.decode(errors="replace").strip())
        machine = Machine(int(line.split()[1]))
        _until_up(machine)
        machine.write(COMMAND, _SCRIPT, 0o755)
        yield machine
        os.kill(machine.leader, signal.SIGRTMIN + 4)  # systemd's signal for power off
        outer.wait(PATIENCE)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(outer.pid, signal.SIGKILL)
        outer.wait()


def _until_up(machine: Machine) -> None:
    until = time.monotonic() + PATIENCE
    while not (state := machine.run("systemctl", "is-system-running", check=False)).startswith(
        ("running", "degraded")
    ):
        if time.monotonic() > until:
            raise NotBooted(f"systemd does not come up: {state}")
        time.sleep(0.05)
