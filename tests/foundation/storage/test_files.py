"""No path leads out of the root; a write leaves the old file or the new one."""

import errno
import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from elwood.foundation.storage.confined import PathMissing, PathRefused
from elwood.foundation.storage.disk import Calls
from elwood.foundation.storage.files import MAX_DEPTH, Item, Root, is_temporary
from tests.foundation.storage.confined import SENTINEL, build_tree, snapshot
from tests.foundation.storage.crashes import (
    Acknowledged,
    Recorder,
    Tree,
    count_acknowledged,
    create_tree,
    power_cuts,
)
from tests.foundation.storage.test_disk import Failing

MARK = "user.elwood.untrusted"
PROJECT = Path(__file__).parents[3]
CORPUS = Path(__file__).parents[2] / "corpora" / "path_traversal.jsonl"
ROWS: list[dict[str, Any]] = [json.loads(row) for row in CORPUS.read_text().splitlines()]
# test_races.py has the rows about races.
STILL = [row for row in ROWS if row["class"] != "race"]


def read_path(root: Root, op: str, path: str) -> str:
    match op:
        case "read":
            return root.read(path, 1 << 20).decode()
        case "list":
            return repr(root.items(path))
        case "write":
            return root.write(path, b"ours", untrusted=True)
        case _:
            root.remove(path, untrusted=True)
            return "removed"


@pytest.mark.parametrize("row", STILL, ids=lambda row: row["id"])
def test_row_of_the_path_corpus(tmp_path: Path, row: dict[str, Any]) -> None:
    root = build_tree(tmp_path)
    before = snapshot(tmp_path)
    path = row["input"].replace("{ROOT}", str(root)).replace("{BASE}", str(tmp_path))
    try:
        shown = read_path(Root(root), row["op"], path)
        got = "allow"
    except PathRefused as error:
        shown, got = str(error), "block"
    assert got in row.get("accept", [row["expected"]]), row["why"]
    assert SENTINEL not in shown
    assert "root:" not in shown
    if row["op"] == "list":
        assert "secret.txt" not in shown
    assert snapshot(tmp_path) == before


def test_a_link_to_a_secret_is_refused_by_its_target(tmp_path: Path) -> None:
    root = Root(build_tree(tmp_path))
    with pytest.raises(PathRefused, match="secrets"):
        root.read("link_env", 100)


def test_missing_differs_from_refused(tmp_path: Path) -> None:
    root = Root(build_tree(tmp_path))
    for path in ("nosuch", "nosuch/x", "a.txt/x"):
        with pytest.raises(PathMissing, match="does not exist"):
            root.read(path, 100)
    with pytest.raises(PathMissing, match="cannot be opened"):
        Root(tmp_path / "nosuch").items(".")


def test_a_folder_is_listed_with_kinds_and_sizes(tmp_path: Path) -> None:
    path = tmp_path / "ws"
    (path / "sub").mkdir(parents=True)
    (path / "a.txt").write_text("12345")
    (path / "link").symlink_to("sub")
    (path / "out").symlink_to("../elsewhere")
    os.mkfifo(path / "pipe")
    items, more = Root(path).items(".")
    assert items == [
        Item("a.txt", "file", 5),
        Item("link", "link", None, "sub"),
        Item("out", "link"),
        Item("pipe", "special"),
        Item("sub", "folder"),
    ]
    assert not more
    few, more = Root(path).items(".", limit=2)
    assert len(few) == 2
    assert more


def run_program(program: str, *given: object) -> str:
    """Run *program* in its own process and return its output."""
    command = [sys.executable, "-c", program, *map(str, given)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=PROJECT)
    return done.stdout


FILTERED = """
import sys
from pathlib import Path
from elwood.foundation.storage.confined import Unconfined
from elwood.foundation.storage.files import Root
from tests.foundation.storage.filtering import (fail)

fail([437], int(sys.argv[2]))  # openat2
try:
    Root(Path(sys.argv[1])).items(".")
except Unconfined as error:
    print(error)
"""


@pytest.mark.parametrize("code", [errno.ENOSYS, errno.EPERM])
def test_a_kernel_without_openat2_is_refused(tmp_path: Path, code: int) -> None:
    """Old kernels and the filters of old containers answer so."""
    assert "Linux 5.6" in run_program(FILTERED, tmp_path, code)


def temporaries(base: Path) -> list[Path]:
    return [path for path in base.rglob("*") if is_temporary(path.name)]


# --- writing --------------------------------------------------------------------------------------


def test_a_file_is_created_with_its_folders(tmp_path: Path) -> None:
    root = Root(tmp_path)
    assert root.write("x/y/a.txt", b"one", untrusted=False) == "created"
    assert root.write("x/y/a.txt", b"two", untrusted=False) == "replaced"
    assert root.write(f"{tmp_path}/x/./y//b.txt", b"", untrusted=False) == "created"
    assert (tmp_path / "x/y/a.txt").read_bytes() == b"two"
    assert {path.name for path in (tmp_path / "x/y").iterdir()} == {"a.txt", "b.txt"}


@pytest.mark.parametrize(
    "name", ["Grüße 👋🏽.txt", "מסמך.txt", "u\u0308.txt", "ü.txt", "…", "-rf", "a\\b", "é" * 127]
)
def test_names_keep_their_spelling(tmp_path: Path, name: str) -> None:
    root = Root(tmp_path)
    root.write(f"{name[:20]}-/{name}", b"text", untrusted=True)
    assert os.listdir(tmp_path / f"{name[:20]}-") == [name]
    assert root.read(f"{name[:20]}-/{name}", 10) == b"text"


def test_a_replaced_file_keeps_its_mode_except_setuid(tmp_path: Path) -> None:
    path = tmp_path / "run.sh"
    path.write_bytes(b"old")
    path.chmod(0o4751)
    Root(tmp_path).write("run.sh", b"new", untrusted=False)
    assert stat.S_IMODE(path.stat().st_mode) == 0o751


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("link_in", "is a link"),
        ("link_out", "is a link"),
        ("link_dir_in", "is a link"),
        ("hard_out", "second name"),
        ("pipe", "not a regular file"),
        ("sock", "not a regular file"),
        ("dir", "is a folder"),
        (".", "path of a folder"),
        ("new/", "path of a folder"),
        ("dir/..", "path of a folder"),
        ("a.txt/.", "path of a folder"),
        ("a.txt/x", "not a folder"),
        ("nosuch/../x", "does not exist"),
        ("link_dangling_out/x", "leads out"),
        ("link_loop/x", "without a target"),
        ("/etc/x", "leads out"),
        ("../x", "leads out"),
        (".env", "secrets"),
        ("new/.ssh/config", "secrets"),
        (".git/config", "git"),
        ("sub/.GIT/hooks/x", "git"),
        ("link_git/hooks/new/x", "git"),
        ("readonly", "read-only"),
        (f".elwood-{'a' * 16}.tmp", "temporary files"),
    ],
)
def test_protected_files_are_never_written(tmp_path: Path, path: str, why: str) -> None:
    base = build_tree(tmp_path)
    (base / "link_git").symlink_to(".git")
    (base / "readonly").write_bytes(b"")
    (base / "readonly").chmod(0o444)
    before = sorted(tmp_path.rglob("*"))
    for untrusted in (True, False):
        with pytest.raises(PathRefused, match=why):
            Root(base).write(path, b"ours", untrusted=untrusted)
    assert sorted(tmp_path.rglob("*")) == before


def test_only_a_trusted_session_writes_instructions(tmp_path: Path) -> None:
    (tmp_path / "skills").mkdir()
    (tmp_path / "harmless").symlink_to("skills")
    root = Root(tmp_path)
    for path in ("AGENTS.md", "x/Soul.MD", "skills/a.txt", "harmless/a.txt", ".bashrc"):
        with pytest.raises(PathRefused, match="has read content from strangers"):
            root.write(path, b"obey", untrusted=True)
        assert root.write(path, b"obey", untrusted=False) == (
            "replaced" if path.startswith("harmless") else "created"
        )


def test_a_file_changed_after_reading_is_not_replaced(tmp_path: Path) -> None:
    root = Root(tmp_path)
    root.write("a.txt", b"one", untrusted=False)
    with root.file("a.txt") as file:
        seen = file.stat
    root.write("a.txt", b"two", untrusted=False, expect=seen)
    with pytest.raises(PathRefused, match="has changed since"):
        root.write("a.txt", b"three", untrusted=False, expect=seen)
    (tmp_path / "a.txt").unlink()
    with pytest.raises(PathRefused, match="has changed since"):
        root.write("a.txt", b"three", untrusted=False, expect=seen)
    assert os.listdir(tmp_path) == []


def test_files_are_removed_and_folders_are_not(tmp_path: Path) -> None:
    root = Root(build_tree(tmp_path))
    root.remove("dir/sub/c.txt", untrusted=True)
    with pytest.raises(PathMissing):
        root.remove("dir/sub/c.txt", untrusted=True)
    with pytest.raises(PathMissing, match="in a folder"):
        root.remove("nosuch/c.txt", untrusted=True)
    assert not (tmp_path / "ws/nosuch").exists()
    with pytest.raises(PathRefused, match="folder"):
        root.remove("dir/sub", untrusted=False)


# --- marks ----------------------------------------------------------------------------------------


def test_a_trusted_write_removes_the_mark(tmp_path: Path) -> None:
    def marks() -> dict[str, bool]:
        items, _ = root.walk(".")
        return {item.name: item.untrusted for item in items}

    root = Root(tmp_path)
    root.write("sub/a.txt", b"theirs", untrusted=True)
    assert os.getxattr(tmp_path / "sub/a.txt", MARK) == b"1"
    with root.file("sub/a.txt") as file:
        assert file.untrusted
    assert marks() == {"sub": True, "sub/a.txt": True}
    os.rename(tmp_path / "sub/a.txt", tmp_path / "moved.txt")
    root.write("b.txt", b"ours", untrusted=False)
    assert marks() == {"sub": True, "moved.txt": True, "b.txt": False}
    root.write("moved.txt", b"ours", untrusted=False)
    with root.file("moved.txt") as file:
        assert not file.untrusted


UNMARKED = """
import ctypes, errno, os, sys
from pathlib import Path
from elwood.foundation.storage.confined import PathRefused
from elwood.foundation.storage.files import Root
from tests.foundation.storage.filtering import (fail)

# lgetxattr, fgetxattr, fsetxattr
numbers = {"x86_64": (192, 193, 190), "aarch64": (9, 10, 7)}[os.uname().machine]
fail(numbers, errno.EOPNOTSUPP)
root = Root(Path(sys.argv[1]))
root.write("trusted.txt", b"ours", untrusted=False)
with root.file("trusted.txt") as file:
    assert not file.untrusted
assert [item.untrusted for item in root.items(".")[0]] == [False]
try:
    root.write("new/theirs.txt", b"theirs", untrusted=True)
except PathRefused as error:
    print(error)
"""


@pytest.mark.skipif(
    os.uname().machine not in ("x86_64", "aarch64"), reason="numbers of system calls differ"
)
def test_without_marks_only_trusted_content_is_written(tmp_path: Path) -> None:
    assert "cannot keep that mark" in run_program(UNMARKED, tmp_path)
    assert os.listdir(tmp_path) == ["trusted.txt"]


# --- failures -------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", ["open", "rest of it", "sync", "rename"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS])
def test_a_failure_leaves_only_the_old_file(tmp_path: Path, call: str, code: int) -> None:
    (tmp_path / "a.txt").write_bytes(b"old")
    root = Root(tmp_path, Failing({call: code}))
    words = "the disk is full" if code in (errno.ENOSPC, errno.EDQUOT) else os.strerror(code)
    for path in ("a.txt", "b.txt"):
        with pytest.raises(PathRefused, match=words):
            root.write(path, b"new content", untrusted=True)
    assert os.listdir(tmp_path) == ["a.txt"]
    assert (tmp_path / "a.txt").read_bytes() == b"old"


def test_an_unconfirmed_write_is_not_reported(tmp_path: Path) -> None:
    with pytest.raises(PathRefused, match="a power cut may lose it"):
        Root(tmp_path, Failing({"sync folder": errno.EIO})).write("a", b"new", untrusted=False)


class Moving(Calls):
    """Moves a folder out during a write in it."""

    def __init__(self, move: Callable[[], None]) -> None:
        self._move = move

    def sync(self, fd: int) -> None:
        super().sync(fd)
        if stat.S_ISREG(os.fstat(fd).st_mode):
            self._move()


@pytest.mark.parametrize("what", ["ws/dir", "ws"])
def test_a_moved_folder_gets_no_new_file(tmp_path: Path, what: str) -> None:
    base = build_tree(tmp_path)
    there = tmp_path / "outside" / "stolen"
    root = Root(base, Moving(lambda: os.rename(tmp_path / what, there)))
    with pytest.raises(PathRefused):
        root.write("dir/new.txt", b"ours", untrusted=False)
    assert not list(tmp_path.rglob("new.txt"))
    assert not temporaries(tmp_path)


# --- crashes --------------------------------------------------------------------------------------


class FolderRecorder(Recorder):
    """Resolves files by open folders, like the writer."""

    def _name(self, path: Path) -> str:
        return os.path.relpath(os.path.realpath(path), self.base)

    def sync(self, fd: int) -> None:
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            self._fds[fd] = self._name(Path(f"/proc/self/fd/{fd}"))
        super().sync(fd)


@pytest.mark.parametrize("path", ["a.txt", "new.txt", "x/y/new.txt"])
def test_a_crash_leaves_the_old_or_the_new_file(tmp_path: Path, path: str) -> None:
    before: Tree = {"a.txt": b"the old content"}
    base = tmp_path / "before"
    base.mkdir()
    create_tree(before, base)
    calls = FolderRecorder(base)
    calls.adopt(before)
    start = len(calls.log)
    Root(base, calls).write(path, b"what is new", untrusted=False)
    calls.log.append(Acknowledged(1))
    seen: set[frozenset[tuple[str, bytes | None]]] = set()
    for upto in range(start, len(calls.log) + 1):
        told = count_acknowledged(calls.log[:upto])
        for tree in power_cuts(calls.log[:upto]):
            if told:
                assert tree[path] == b"what is new"
            assert tree.get(path) in (before.get(path), b"what is new")
            assert tree["a.txt"] in (b"the old content", b"what is new")
            seen.add(frozenset(tree.items()))
    left = 0
    for number, state in enumerate(sorted(seen, key=repr)):
        after = tmp_path / str(number)
        after.mkdir()
        create_tree(dict(state), after)
        left += len(temporaries(after))
        root = Root(after)
        root.write(path, b"again", untrusted=False)
        assert not temporaries(after)
        assert root.read(path, 100) == b"again"
    assert left > 5


# --- walking --------------------------------------------------------------------------------------


def test_a_walk_skips_secrets_git_and_links(tmp_path: Path) -> None:
    root = Root(build_tree(tmp_path))
    items, more = root.walk("dir")
    assert items == [
        Item("dir/b.txt", "file", 7),
        Item("dir/link_parent", "link"),
        Item("dir/sub", "folder"),
        Item("dir/sub/c.txt", "file", 7),
    ]
    assert not more
    names = {item.name for item in root.walk(".")[0]}
    assert "dir/sub/c.txt" in names
    assert not {name for name in names if name.startswith((".env", ".git", "link_dir_in/"))}
    assert root.walk("a.txt") == ([Item("a.txt", "file", 7)], False)
    for path in ("link_dir_out", "nosuch", "link_env", "pipe"):
        with pytest.raises(PathRefused):
            root.walk(path)


def test_a_walk_is_bounded_and_reports_it(tmp_path: Path) -> None:
    for number in range(30):
        (tmp_path / f"{number % 3}/{number}").mkdir(parents=True)
    root = Root(tmp_path)
    assert len(root.walk(".")[0]) == 33
    items, more = root.walk(".", limit=10)
    assert len(items) == 10
    assert more
    deep = tmp_path / "deep" / "/".join("d" * (MAX_DEPTH + 5))
    deep.mkdir(parents=True)
    items, more = root.walk("deep")
    assert len(items) == MAX_DEPTH + 1
    assert more
