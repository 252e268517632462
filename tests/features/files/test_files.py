"""The tools that look at files."""

import os
from pathlib import Path

import msgspec
import pytest

from elwood.agent.conversation.route import NOWHERE
from elwood.agent.tools.tool import Output, ToolContext, ToolFailure, WorkspaceFiles
from elwood.features.files.tools import MAX_ITEMS, FileReader, ListFiles, ReadFile, reading_tools
from elwood.foundation.runtime import inline
from elwood.foundation.storage.files import Root
from tests.every_tool import every_tool
from tests.foundation.storage.confined import SENTINEL

CONTEXT = ToolContext(session="s", route=NOWHERE, now=0.0)
_, READ_FILE = reading_tools(WorkspaceFiles(Root(Path("/nonexistent"))), inline)


@pytest.fixture
def root(tmp_path: Path) -> Root:
    (tmp_path / "ws").mkdir()
    return Root(tmp_path / "ws")


def reader(root: Root) -> FileReader:
    return FileReader(WorkspaceFiles(root), inline)


async def list_files(given: ListFiles, root: Root) -> str:
    text = await reader(root).list_files(given, CONTEXT)
    assert isinstance(text, str), "nothing untrusted is here"
    return text


async def read_file(given: ReadFile, root: Root) -> str:
    text = await reader(root).read_file(given, CONTEXT)
    assert isinstance(text, str), "nothing untrusted is here"
    return text


def put(root: Root, name: str, content: bytes) -> None:
    (root.path / name).write_bytes(content)


async def test_a_folder_is_listed_line_by_line(root: Root) -> None:
    assert await list_files(ListFiles(), root) == ". is an empty folder"
    put(root, "b.txt", b"x" * 1234)
    put(root, ".env", b"KEY=1")
    put(root, "line\nbreak", b"")
    (root.path / "sub").mkdir()
    (root.path / "link").symlink_to("b.txt")
    (root.path / "out").symlink_to("/etc/passwd")
    os.mkfifo(root.path / "pipe")
    assert (await list_files(ListFiles(), root)).splitlines() == [
        ".env (5 bytes, holds secrets, cannot be read)",
        "b.txt (1,234 bytes)",
        "line\\nbreak (0 bytes)",
        "link (link to b.txt)",
        "out (link to outside)",
        "pipe (special, cannot be read)",
        "sub/",
    ]
    assert await list_files(ListFiles("sub"), root) == "sub is an empty folder"


async def test_a_long_folder_is_cut_and_says_so(root: Root) -> None:
    for number in range(MAX_ITEMS + 5):
        put(root, f"{number:04}", b"")
    lines = (await list_files(ListFiles(), root)).splitlines()
    assert len(lines) == MAX_ITEMS + 1
    assert lines[-1] == f"[{MAX_ITEMS} of {MAX_ITEMS + 5} entries are shown]"


async def test_a_short_file_is_given_as_it_is(root: Root) -> None:
    put(root, "a.txt", "Grüße\r\n\n  indented\nno end".encode())
    assert await read_file(ReadFile("a.txt"), root) == "Grüße\n\n  indented\nno end"
    put(root, "empty", b"")
    assert await read_file(ReadFile("empty"), root) == "empty is empty"


async def test_a_long_file_is_given_in_pages_that_lose_nothing(root: Root) -> None:
    lines = [f"line {number} " + "word " * (number % 50) for number in range(1, 5001)]
    put(root, "a.txt", "\n".join(lines).encode() + b"\n")
    got: list[str] = []
    offset = 1
    while True:
        text = await read_file(ReadFile("a.txt", offset), root)
        assert len(text) < READ_FILE.limit
        *page, note = text.split("\n")
        got += page
        assert note.startswith(f"[lines {offset} to {len(got)} of 5000")
        if "read on" not in note:
            break
        offset = len(got) + 1
        assert note.endswith(f"read on with offset={offset}]")
    assert got == lines
    one = await read_file(ReadFile("a.txt", 7, 1), root)
    assert one == f"{lines[6]}\n[lines 7 to 7 of 5000; read on with offset=8]"


async def test_a_line_without_end_is_cut(root: Root) -> None:
    put(root, "a.txt", b"x" * 100_000 + b"\nnext\n")
    first, second = (await read_file(ReadFile("a.txt"), root)).split("\n")
    assert first.endswith("[… line cut, it has 100,000 characters]")
    assert len(first) < 2100
    assert second == "next"


@pytest.mark.parametrize(
    ("start", "kind"),
    [
        (b"\x89PNG\r\n", "a PNG picture"),
        (b"%PDF-1.7", "a PDF document"),
        (b"SQLite format 3\0", "an SQLite database"),
        (b"\xff\xfea\0", "text in UTF-16"),
        (b"hello\0world", "binary data"),
    ],
)
async def test_what_is_no_text_is_refused_by_its_kind(root: Root, start: bytes, kind: str) -> None:
    put(root, "file", start)
    with pytest.raises(ToolFailure, match=f"file: is {kind}.*not a text file"):
        await read_file(ReadFile("file"), root)


async def test_failures_tell_the_model_what_to_do(root: Root) -> None:
    put(root, "a.txt", b"one\ntwo\n")
    put(root, ".env", SENTINEL.encode())
    for given, words in (
        (ReadFile("nosuch"), "nosuch does not exist; list_files shows"),
        (ReadFile("."), "is a folder"),
        (ReadFile("a.txt", 3), "has only 2 lines"),
        (ReadFile("../x"), "leads out of the folder"),
        (ReadFile("/etc/passwd"), "leads out of the folder"),
        (ReadFile(".env"), "secrets"),
        (ReadFile(""), "the path is empty"),
        (ReadFile("a\ud800"), "invisible"),
    ):
        with pytest.raises(ToolFailure, match=words) as caught:
            await read_file(given, root)
        str(caught.value).encode()
    with pytest.raises(ToolFailure, match="is not a folder"):
        await list_files(ListFiles("a.txt"), root)


async def test_what_is_marked_says_so(root: Root) -> None:
    root.write("sub/page.txt", b"text", untrusted=True)
    put(root, "own.txt", b"text")
    read = await reader(root).read_file(ReadFile("sub/page.txt"), CONTEXT)
    assert read == Output("text", untrusted=True, origin="sub/page.txt")
    names = await reader(root).list_files(ListFiles("sub"), CONTEXT)
    assert names == Output("page.txt (4 bytes)", untrusted=True, origin="page.txt")
    folder = await reader(root).list_files(ListFiles(), CONTEXT)
    assert folder == Output("own.txt (4 bytes)\nsub/", untrusted=True, origin="sub")
    assert await read_file(ReadFile("own.txt"), root) == "text"


def test_each_tool_says_what_it_may_do_and_what_a_repeat_would_do() -> None:
    assert [(tool.name, tool.risk, tool.effect) for tool in every_tool()] == [
        ("activate_skill", "read", "pure"),
        ("fetch_skill", "read", "pure"),
        ("install_skill", "write", "once"),
        ("list_files", "read", "pure"),
        ("read_file", "read", "pure"),
        ("write_file", "write", "keyed"),
        ("edit_file", "write", "once"),
        ("find", "read", "pure"),
        ("grep", "read", "pure"),
        ("run_command", "write", "once"),
        ("web_search", "read", "pure"),
        ("web_fetch", "read", "pure"),
        ("web_request", "write", "once"),
        ("save_memory", "write", "keyed"),
        ("search_memory", "read", "pure"),
        ("forget_memory", "destructive", "keyed"),
        ("schedule", "write", "once"),
        ("list_tasks", "read", "pure"),
        ("pause_task", "write", "keyed"),
        ("resume_task", "write", "keyed"),
        ("cancel_task", "write", "once"),
        ("send_message", "write", "once"),
        ("ask_user", "write", "once"),
    ]
    assert READ_FILE.target(ReadFile("a.txt")) == "a.txt"


def test_what_is_out_of_bounds_is_refused() -> None:
    for given in (b'{"path": "x", "offset": 0}', b'{"path": "x", "limit": 9999}', b"{}"):
        with pytest.raises(msgspec.ValidationError):
            msgspec.json.decode(given, type=ReadFile)
