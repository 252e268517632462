"""Swapping files during an operation lets nothing out of the root and writes nothing outside.

Whoever swaps has a shape and a seed, which decides how long it waits between two swaps, so that
many seeds meet us at many moments.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs
import pytest

from elwood.foundation.storage.confined import PathRefused
from elwood.foundation.storage.files import Root, is_temporary
from tests.foundation.storage.confined import SENTINEL, build_tree, snapshot

ATTACKER = """
import ctypes, os, random, sys
shape, base, seed = sys.argv[1:]
chance = random.Random(seed)
os.chdir(base)
libc = ctypes.CDLL(None)
def exchange(a, b):
    libc.renameat2(-100, a.encode(), -100, b.encode(), 2)
def replace_temporary_files():
    for name in os.listdir("ws"):
        if name.endswith(".tmp"):
            os.symlink("../outside/secret.txt", "evil")
            os.rename("evil", "ws/" + name)
if shape == "folder":
    os.symlink("../outside", "ws/evil"); pair = "ws/dir", "ws/evil"
elif shape == "name":
    os.symlink("../outside/secret.txt", "ws/evil"); pair = "ws/a.txt", "ws/evil"
elif shape == "pipe":
    pair = "ws/a.txt", "ws/pipe"
elif shape == "hard":
    pair = "ws/a.txt", "ws/hard_out"
elif shape == "moved":
    os.mkdir("evil"); pair = "ws/dir", "evil"
elif shape == "secret":
    os.symlink(".env", "ws/evil"); pair = "ws/a.txt", "ws/evil"
elif shape == "git":
    os.symlink(".git/hooks", "ws/evil"); pair = "ws/dir", "ws/evil"
elif shape == "root":
    os.symlink("outside", "evil"); pair = "ws", "evil"
print("go", flush=True)
while True:
    if shape == "temporary":
        replace_temporary_files()
    else:
        exchange(*pair)
    for _ in range(chance.choice((0, 0, 10, 100, 1000, 50_000))):
        pass
"""


@attrs.frozen
class Attack:
    """Swap by *shape* during *op* on *path*; ``{}`` in it is the number of the attempt."""

    shape: str
    op: str
    path: str

    def __str__(self) -> str:
        return f"{self.shape}-{self.op}-{self.path.replace('/', '_')}"


ATTACKS = [
    *(Attack(shape, "read", "a.txt") for shape in ("name", "pipe", "hard", "secret", "root")),
    *(Attack(shape, "read", "dir/b.txt") for shape in ("folder", "moved")),
    Attack("folder", "read", "dir/sub/../b.txt"),
    Attack("folder", "list", "dir"),
    *(Attack(shape, "write", "a.txt") for shape in ("name", "pipe", "hard", "secret", "root")),
    Attack("temporary", "write", "new{}.txt"),
    *(Attack(shape, "write", "dir/b.txt") for shape in ("folder", "git")),
    *(Attack(shape, "write", "dir/new{}.txt") for shape in ("folder", "moved", "git", "root")),
    Attack("folder", "write", "dir/x{}/y/new.txt"),
    *(Attack(shape, "remove", "dir/b.txt") for shape in ("folder", "moved")),
]


@contextmanager
def run_attacker(shape: str, base: Path, seed: int) -> Iterator[None]:
    """Let an attacker of *shape* swap files in the tree below *base*."""
    command = [sys.executable, "-c", ATTACKER, shape, str(base), str(seed)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as attacker:
        assert attacker.stdout is not None
        assert attacker.stdout.readline() == b"go\n"
        try:
            yield
        finally:
            attacker.kill()


def survive(attack: Attack, base: Path, *, seed: int) -> int:
    """Repeat *attack*; check that nothing escapes or remains.  Return the successes."""
    root = build_tree(base)
    for name in ("a.txt", "b.txt"):
        (base / "outside" / name).write_text(SENTINEL)
    files = Root(root)
    files.items(".")  # it was used before the attack started
    before = snapshot(base)
    done = 0
    refused: set[str] = set()
    folder = os.open(root / "dir", os.O_RDONLY | os.O_DIRECTORY)
    with run_attacker(attack.shape, base, seed):
        for number in range(TRIES[attack.op]):
            path = attack.path.format(number)
            try:
                perform(files, attack.op, path, f"ours {number}\n".encode() * 50)
                done += 1
            except PathRefused:
                refused.add(Path(path).name)
            if attack.op == "remove":
                # A file to remove in the open folder, wherever that is now.
                flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW
                os.close(os.open(Path(path).name, flags, dir_fd=folder))
    os.close(folder)
    if attack.shape == "root" and not (base / "evil").is_symlink():
        os.rename(base / "ws", base / "link")
        os.rename(base / "evil", base / "ws")
    assert snapshot(base) == before
    assert list((base / "ws/.git/hooks").iterdir()) == []
    # The attacker replaces our file with a link.
    left = [path for path in base.rglob("*") if not path.is_symlink()]
    assert not [path for path in left if is_temporary(path.name)]
    if attack.op == "write" and "/new{}" in f"/{attack.path}":
        assert not [path for path in left if path.name in refused]
    elif attack.op == "write":
        found = [path.read_bytes() for path in left if path.is_file() and path.suffix == ".txt"]
        assert not [b for b in found if b.startswith(b"ours") and len(set(b.splitlines())) > 1]
    return done


def perform(files: Root, op: str, path: str, content: bytes) -> None:
    match op:
        case "read":
            assert SENTINEL.encode() not in files.read(path, 1000)
        case "list":
            assert "secret.txt" not in [item.name for item in files.items(path)[0]]
        case "write":
            files.write(path, content, untrusted=False)
        case _:
            files.remove(path, untrusted=False)


# Enough attempts to defeat code that checks first and then uses.
TRIES = {"read": 500, "list": 500, "write": 80, "remove": 80}


@pytest.mark.parametrize("attack", ATTACKS, ids=str)
def test_an_attacker_gains_nothing(tmp_path: Path, attack: Attack) -> None:
    done = 0
    for seed in range(40):
        done += survive(attack, tmp_path / str(seed), seed=seed)
        if done and seed:
            return
    pytest.fail("nothing was ever done, so nothing was tried")
