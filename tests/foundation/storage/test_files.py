"""No path gets anything out of the root."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from elwood.foundation.storage.confined import PathMissing, PathRefused
from elwood.foundation.storage.files import Item, Root
from tests.foundation.storage.confined import SENTINEL, build, snapshot

PROJECT = Path(__file__).parents[3]
CORPUS = Path(__file__).parents[2] / "corpora" / "path_traversal.jsonl"
ROWS: list[dict[str, Any]] = [json.loads(row) for row in CORPUS.read_text().splitlines()]
# The rows about races have a test of their own.
STILL = [row for row in ROWS if row["class"] != "race"]


def take(root: Root, op: str, path: str) -> str:
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
    root = build(tmp_path)
    before = snapshot(tmp_path)
    path = row["input"].replace("{ROOT}", str(root)).replace("{BASE}", str(tmp_path))
    try:
        shown = take(Root(root), row["op"], path)
        got = "allow"
    except PathRefused as error:
        shown, got = str(error), "block"
    assert got in row.get("accept", [row["expected"]]), row["why"]
    assert SENTINEL not in shown
    assert "root:" not in shown
    if row["op"] == "list":
        assert "secret.txt" not in shown
    assert snapshot(tmp_path) == before


def test_a_link_to_a_secret_is_refused_by_what_it_leads_to(tmp_path: Path) -> None:
    root = Root(build(tmp_path))
    with pytest.raises(PathRefused, match="secrets"):
        root.read("link_env", 100)


def test_what_is_missing_is_told_apart_from_what_is_refused(tmp_path: Path) -> None:
    root = Root(build(tmp_path))
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
def test_a_kernel_without_openat2_is_refused_in_plain_words(tmp_path: Path, code: int) -> None:
    """What old kernels, and the filters of old containers, answer."""
    command = [sys.executable, "-c", FILTERED, str(tmp_path), str(code)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=PROJECT)
    assert "Linux 5.6" in done.stdout
