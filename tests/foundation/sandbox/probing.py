"""Prepare targets outside, and let `probes.py` attack them from inside a sandbox backend.

``python -m tests.foundation.sandbox.probing BACKEND [CONTAINERS]`` prints the answer of the probes.
As root it switches to another user first, except for backends that need root: root's rights are not
those of Elwood.
"""

import ctypes
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import trio

from elwood.foundation.sandbox.command import Command, Executor
from elwood.foundation.sandbox.picking import pick
from elwood.foundation.sandbox.settings import SandboxSettings
from tests.foundation.sandbox import scene

USER = 1000
PROBES = Path(__file__).with_name("probes.py")
MARK = "ELWOOD_PROBE=reached"
LIBC = ctypes.CDLL(None)
CREATE_EXCLUSIVE, REMOVE = 0o3600, 0


@contextmanager
def make_world(base: Path) -> Iterator[dict[str, object]]:
    """Create the protected targets in *base* and on this machine."""
    files = {
        "ssh": base / "home/.ssh/id_rsa",
        "secrets": base / "state/secrets.toml",
        "journal": base / "state/sessions/a.jsonl",
        "outside": base / "outside",
    }
    for path in files.values():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("reached")
    workspace = base / "state/workspace"
    (workspace / ".git/hooks").mkdir(parents=True)
    (workspace / "a/b/.git/hooks").mkdir(parents=True)
    for name in (".git/config", "AGENTS.md", ".env"):
        (workspace / name).write_text("reached")
    shutil.copy(PROBES, workspace)
    with ExitStack() as stack:
        port = stack.enter_context(socket.create_server(("0.0.0.0", 0))).getsockname()[1]
        port6 = _port6(stack)
        for name in (f"\0{base.name}", str(base / "socket"), str(workspace / "a/socket")):
            listener = stack.enter_context(socket.socket(socket.AF_UNIX))
            listener.bind(name)
            listener.listen(9)
        other = subprocess.Popen(["sleep", "60"], env={MARK.split("=")[0]: MARK.split("=")[1]})
        stack.callback(other.wait)
        stack.callback(other.kill)
        key = os.getpid()
        shm = LIBC.shmget(key, 4096, CREATE_EXCLUSIVE)
        stack.callback(LIBC.shmctl, shm, REMOVE, None)
        yield {name: str(path) for name, path in files.items()} | {
            "port": port,
            "port6": port6,
            "lan": _lan(),
            "abstract": base.name,
            "socket": str(base / "socket"),
            "pid": other.pid,
            "mark": MARK,
            "shm": key,
        }


def _port6(stack: ExitStack) -> int:
    try:
        server = socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError:
        return 1  # this machine has no IPv6
    port: int = stack.enter_context(server).getsockname()[1]
    return port


def _lan() -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            sock.connect(("192.0.2.1", 9))
        except OSError:
            return "127.0.0.2"  # no network: at least the address differs
        address: str = sock.getsockname()[0]
        return address


async def make_executor(rung: str, base: Path, engine: str) -> Executor:
    workspace, state = base / "state/workspace", base / "state"
    if rung == "docker":
        return scene.make_docker(engine, workspace, state)
    kind = SandboxSettings(kind=rung).kind  # type: ignore[arg-type]  # the test knows the rungs
    return (await pick(SandboxSettings(kind=kind), workspace, state)).executor


async def probe(rung: str, base: Path, aim: dict[str, object], engine: str) -> bytes:
    hands = await make_executor(rung, base, engine)
    inside = rung in ("bubblewrap", "docker")
    aim["workspace"] = "/workspace" if inside else str(base / "state/workspace")
    (base / "state/workspace/config.json").write_text(json.dumps(aim))
    argv = ("python3", "-IS", "probes.py", "config.json")
    outcome = await hands.run(Command(argv=argv, timeout=50, merge=False))
    assert outcome.code == 0, outcome
    return outcome.output


async def warm_up(base: Path) -> None:
    """Run the lazy imports now: another user may not be able to read the files."""
    await trio.run_process(["true"])
    await trio.Path(base).mkdir()
    picked = await pick(SandboxSettings(kind="bubblewrap"), base, base.with_name("warm-state"))
    await picked.executor.run(Command(argv=("true",), timeout=9))


def main(rung: str, engine: str = "") -> None:
    base = Path(tempfile.mkdtemp(prefix="probed-"))
    try:
        if os.getuid() == 0 and rung == "bubblewrap":
            trio.run(warm_up, base / "warm")
            for made in ("warm", "warm-state"):
                shutil.rmtree(base / made)
            os.chown(base, USER, USER)
            os.setgroups([])
            os.setgid(USER)
            os.setuid(USER)
        os.environ["HOME"] = str(base / "home")
        with make_world(base) as aim:
            if rung == "docker":
                base.chmod(0o755)
                scene.give_away(base / "state/workspace")
            print(trio.run(probe, rung, base, aim, engine).decode())
    finally:
        shutil.rmtree(base, ignore_errors=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
