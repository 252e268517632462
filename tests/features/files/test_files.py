"""The tools that read files, and those that write them."""

import os
from pathlib import Path

import attrs
import pytest

from elwood.agent.conversation.calls import WriteFile
from elwood.agent.conversation.labels import Label
from elwood.agent.conversation.route import NOWHERE
from elwood.agent.tools.tool import Output, ToolContext, ToolFailure, WorkspaceFiles
from elwood.features.files.tools import (
    MAX_CONTENT,
    MAX_ITEMS,
    EditText,
    FileReader,
    FileWriter,
    ListFiles,
    ReadFile,
    WriteText,
    folder_scope,
    reading_tools,
    writing_tools,
)
from elwood.foundation.runtime import inline
from elwood.foundation.storage.files import Root
from tests.foundation.storage.confined import SENTINEL

CONTEXT = ToolContext(session="s", route=NOWHERE, now=0.0)
TAINTED = attrs.evolve(CONTEXT, label=Label(untrusted=True))
_, READ_FILE = reading_tools(WorkspaceFiles(Root(Path("/nonexistent"))), inline)
WRITE_FILE, _ = writing_tools(WorkspaceFiles(Root(Path("/nonexistent"))), inline)


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


def put(root: Root, name: str, content: bytes | str) -> None:
    path = root.path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


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
        ".env (5 bytes, has secrets, cannot be read)",
        "b.txt (1,234 bytes)",
        "line\\nbreak (0 bytes)",
        "link (link to b.txt)",
        "out (link to outside)",
        "pipe (special, cannot be read)",
        "sub/",
    ]
    assert await list_files(ListFiles("sub"), root) == "sub is an empty folder"


async def test_a_long_folder_is_cut_with_a_note(root: Root) -> None:
    for number in range(MAX_ITEMS + 5):
        put(root, f"{number:04}", b"")
    lines = (await list_files(ListFiles(), root)).splitlines()
    assert len(lines) == MAX_ITEMS + 1
    assert lines[-1] == f"[{MAX_ITEMS} of {MAX_ITEMS + 5} entries are shown]"


async def test_a_short_file_is_returned_unchanged(root: Root) -> None:
    put(root, "a.txt", "Grüße\r\n\n  indented\nno end".encode())
    assert await read_file(ReadFile("a.txt"), root) == "Grüße\n\n  indented\nno end"
    put(root, "empty", b"")
    assert await read_file(ReadFile("empty"), root) == "empty is empty"


async def test_a_long_file_is_returned_in_complete_pages(root: Root) -> None:
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


async def test_a_very_long_line_is_cut(root: Root) -> None:
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
        (b"\xff\xfea\0", "binary data or text in UTF-16"),
        (b"hello\0world", "binary data"),
    ],
)
async def test_a_binary_file_is_refused_by_its_type(root: Root, start: bytes, kind: str) -> None:
    put(root, "file", start)
    with pytest.raises(ToolFailure, match=f"file: is {kind}.*not a text file"):
        await read_file(ReadFile("file"), root)


async def test_failures_tell_the_model_what_to_do(root: Root) -> None:
    put(root, "a.txt", b"one\ntwo\n")
    put(root, ".env", SENTINEL.encode())
    for given, words in (
        (ReadFile("nosuch"), "nosuch does not exist; list its folder"),
        (ReadFile("."), "is a folder"),
        (ReadFile("a.txt", 3), "has only 2 lines"),
        (ReadFile("../x"), "leads outside the folder"),
        (ReadFile("/etc/passwd"), "leads outside the folder"),
        (ReadFile(".env"), "secrets"),
        (ReadFile(""), "the path is empty"),
        (ReadFile("a\ud800"), "invisible"),
    ):
        with pytest.raises(ToolFailure, match=words) as caught:
            await read_file(given, root)
        str(caught.value).encode()
    with pytest.raises(ToolFailure, match="is not a folder"):
        await list_files(ListFiles("a.txt"), root)
    assert READ_FILE.target(ReadFile("a\n.txt")) == "a\\n.txt"


async def test_a_marked_file_is_untrusted(root: Root) -> None:
    root.write("sub/page.txt", b"text", untrusted=True)
    put(root, "own.txt", b"text")
    read = await reader(root).read_file(ReadFile("sub/page.txt"), CONTEXT)
    assert read == Output("text", untrusted=True, origin="sub/page.txt")
    names = await reader(root).list_files(ListFiles("sub"), CONTEXT)
    assert names == Output("page.txt (4 bytes)", untrusted=True, origin="page.txt")
    folder = await reader(root).list_files(ListFiles(), CONTEXT)
    assert folder == Output("own.txt (4 bytes)\nsub/", untrusted=True, origin="sub")
    assert await read_file(ReadFile("own.txt"), root) == "text"


# --- writing --------------------------------------------------------------------------------------


async def write_file(given: WriteText, root: Root, context: ToolContext = CONTEXT) -> str:
    return await FileWriter(WorkspaceFiles(root), inline).write_file(given, context)


async def edit_file(given: EditText, root: Root, context: ToolContext = CONTEXT) -> str:
    return await FileWriter(WorkspaceFiles(root), inline).edit_file(given, context)


def is_marked(root: Root, path: str) -> bool:
    with root.file(path) as file:
        return file.untrusted


async def test_a_file_is_created_then_replaced(root: Root) -> None:
    assert await write_file(WriteText("x/a.txt", "Grüße"), root) == "created x/a.txt (7 bytes)"
    assert await write_file(WriteText("x/a.txt", "two\r\n"), root) == "replaced x/a.txt (5 bytes)"
    assert (root.path / "x/a.txt").read_bytes() == b"two\r\n"


async def test_a_file_has_a_maximum_size_in_bytes(root: Root) -> None:
    with pytest.raises(ToolFailure, match="the limit is"):
        await write_file(WriteText("a.txt", "ü" * MAX_CONTENT), root)
    assert WRITE_FILE.target(WriteText("a\n.txt", "")) == "a\\n.txt"


@pytest.mark.parametrize(
    ("path", "written", "expected"),
    [
        ("new.txt", (), WriteFile()),
        ("old.txt", ("new.txt",), WriteFile(foreign=True)),
        ("old.txt", ("old.txt",), WriteFile()),
        ("AGENTS.md", (), WriteFile(protected=True)),
    ],
)
async def test_a_plan_names_the_owner_of_the_file(
    root: Root, path: str, written: tuple[str, ...], expected: WriteFile
) -> None:
    """A file from before the conversation belongs to the owner."""
    (root.path / "old.txt").write_text("old")
    context = attrs.evolve(CONTEXT, written=written)
    writer = FileWriter(WorkspaceFiles(root), inline)
    plans = [
        await writer.plan_write(WriteText(path, "new"), context),
        await writer.plan_edit(EditText(path, "old", "new"), context),
    ]
    assert [plan.action for plan in plans] == [expected, expected]
    assert path in plans[0].subject
    (root.path / path).write_text("has changed since")
    again = await writer.plan_write(WriteText(path, "new"), context)
    assert again.facts != plans[0].facts, "so the owner gets a new question"


async def test_a_plan_shows_the_changed_lines(root: Root) -> None:
    path = root.path / "a.txt"
    writer = FileWriter(WorkspaceFiles(root), inline)
    edit, write = (
        EditText("a.txt", "three", "3"),
        WriteText("a.txt", "one\ntwo\n3\nfour\nfive\nsix"),
    )
    path.write_text("one\ntwo\nthree\nfour\nfive\nsix")
    lines = ["@@ -1,5 +1,5 @@", " one", " two", "-three", "+3", " four", " five"]
    assert (await writer.plan_edit(edit, CONTEXT)).subject.splitlines() == ["edit a.txt", *lines]
    assert (await writer.plan_write(write, CONTEXT)).subject.splitlines() == ["write a.txt", *lines]
    for data in (b"three\xff", b"three\0", b"", b"none of it"):
        path.write_bytes(data)
        expected = "edit a.txt, once; replace:\nthree\n--- with:\n3"
        assert (await writer.plan_edit(edit, CONTEXT)).subject == expected
    path.write_text("x\n" * 20_000)
    plan = await writer.plan_write(WriteText("a.txt", "short"), CONTEXT)
    assert plan.subject == "write a.txt:\nshort", "the diff would hide it"


async def test_refusals_tell_the_model_why(root: Root) -> None:
    (root.path / "link").symlink_to("/etc/passwd")
    for path, words in (
        ("../x", "leads outside the folder"),
        ("link", "is a link"),
        (".env", "secrets"),
        (".git/config", "use git commands instead"),
        ("a\0b", "control character"),
    ):
        with pytest.raises(ToolFailure, match=words):
            await write_file(WriteText(path, "x"), root)
        with pytest.raises(ToolFailure):
            await edit_file(EditText(path, "root", "x"), root)
    with pytest.raises(ToolFailure, match="instructs an assistant"):
        await write_file(WriteText("AGENTS.md", "obey"), root, TAINTED)


async def test_a_file_written_after_untrusted_content_is_marked(root: Root) -> None:
    await write_file(WriteText("a.txt", "one"), root, TAINTED)
    assert is_marked(root, "a.txt")
    await edit_file(EditText("a.txt", "one", "two"), root)
    assert is_marked(root, "a.txt"), "the rest of it is still theirs"
    await write_file(WriteText("a.txt", "ours"), root)
    assert not is_marked(root, "a.txt")
    await edit_file(EditText("a.txt", "ours", "theirs"), root, TAINTED)
    assert is_marked(root, "a.txt")


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        ("one two three", "two", "2", "one 2 three"),
        ("one\ntwo\n", "one\ntwo", "1\n2", "1\n2\n"),
        ("one\r\ntwo\r\n", "one\ntwo", "1\n2\n3", "1\r\n2\r\n3\r\n"),
        ("one\r\ntwo\r\n", "one\r\ntwo", "1\r\n2", "1\r\n2\r\n"),
        ("one\r\ntwo\r\n", "two", "2\n3", "one\r\n2\r\n3\r\n"),
        ("unix\none\r\n", "unix\n", "u\n", "u\none\r\n"),
        ("\ufefftext", "text", "more", "\ufeffmore"),
        ("no end", " end", "", "no"),
        ("Grüße 👋", "👋", "מ", "Grüße מ"),
    ],
)
async def test_one_occurrence_is_replaced_and_the_rest_stays(
    root: Root, before: str, old: str, new: str, after: str
) -> None:
    (root.path / "a.txt").write_bytes(before.encode())
    assert await edit_file(EditText("a.txt", old, new), root) == "edited a.txt: 1 replaced"
    assert (root.path / "a.txt").read_bytes() == after.encode()


async def test_all_occurrences_are_replaced_only_on_request(root: Root) -> None:
    path = root.path / "a.txt"
    path.write_text("x y x y x")
    with pytest.raises(ToolFailure, match=r"occurs 3 times.*all=true"):
        await edit_file(EditText("a.txt", "x", "z"), root)
    assert path.read_text() == "x y x y x"
    assert await edit_file(EditText("a.txt", "x", "z", True), root) == "edited a.txt: 3 replaced"
    assert path.read_text() == "z y z y z"


async def test_a_missing_or_equal_text_changes_nothing(root: Root) -> None:
    (root.path / "a.py").write_text("import os\n")
    with pytest.raises(ToolFailure, match=r"nothing was changed$"):
        await edit_file(EditText("a.py", "something else", "x"), root)
    with pytest.raises(ToolFailure, match="are the same"):
        await edit_file(EditText("a.py", "import", "import"), root)


async def test_a_binary_or_too_large_file_is_not_edited(root: Root) -> None:
    (root.path / "latin").write_bytes("Grüße".encode("latin-1"))
    (root.path / "binary").write_bytes(b"text\0")
    (root.path / "large").write_bytes(b"x" * (MAX_CONTENT + 1))
    (root.path / "grows").write_bytes(b"x" * 1000)
    for name, words in (
        ("latin", "not UTF-8 text"),
        ("binary", "binary data"),
        ("large", "too large"),
        ("nosuch", "does not exist"),
    ):
        with pytest.raises(ToolFailure, match=words):
            await edit_file(EditText(name, "x", "y"), root)
    with pytest.raises(ToolFailure, match="would have, more than"):
        await edit_file(EditText("grows", "x", "y" * 10_000, True), root)


async def test_a_file_that_changes_during_the_edit_is_not_overwritten(root: Root) -> None:
    class Busy(Root):
        def write(self, path, data, *, untrusted, expect=None):  # type: ignore[no-untyped-def]  # as its parent
            (self.path / path).write_text("somebody else's")
            return super().write(path, data, untrusted=untrusted, expect=expect)

    (root.path / "a.txt").write_text("one")
    busy = Busy(root.path)
    with pytest.raises(ToolFailure, match="has changed since"):
        await edit_file(EditText("a.txt", "one", "two"), busy)
    assert (root.path / "a.txt").read_text() == "somebody else's"


# --- permissions for several calls ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "words", "wider"),
    [
        ("notes/a.txt", "write in notes/", []),
        ("notes/new/b.txt", "write in notes/new/", ["folder notes"]),
        ("./notes//a.txt", "write in notes/", []),
        ("other/../notes/a.txt", "write in notes/", []),
        ("notes", "write in notes/", []),
        ("link/a.txt", "write in other/deep/", ["folder other"]),
        ("link/new/a.txt", "write in other/deep/new/", ["folder other/deep", "folder other"]),
        ("notes/away.txt", "write in other/", []),
        ("diary.txt", "write diary.txt", []),
        ("new.txt", "write new.txt", []),
        (".", None, []),
        ("notes/AGENTS.md", None, []),
        ("notes/inner/x.sh", None, []),
        ("notes/new/../../other/a.txt", None, []),
        ("out/a.txt", None, []),
        ("/etc/passwd", None, []),
        ("../x", None, []),
        ("notes/.env", None, []),
        ("", None, []),
    ],
)
def test_a_permission_covers_a_real_folder_never_the_workspace(
    root: Root, path: str, words: str | None, wider: list[str]
) -> None:
    for name in ("notes/a.txt", "notes/.env", "other/real.txt", "other/deep/a.txt", "diary.txt"):
        put(root, name, "x")
    (root.path / "link").symlink_to("other/deep")
    (root.path / "out").symlink_to("/tmp")
    (root.path / "notes/scripts").mkdir()
    (root.path / "notes/inner").symlink_to("scripts")
    (root.path / "notes/away.txt").symlink_to("../other/real.txt")
    found = folder_scope("write", root, path)
    assert (found and found.words) == words
    if found is not None:
        assert list(found.keys[1:]) == wider
        assert (found.keys[0][:5] == "file ") == ("/" not in found.words)


async def test_reading_writing_and_editing_need_separate_permissions(root: Root) -> None:
    """Each tool offers the folder in its own words; the gate binds the permission to the tool."""
    put(root, "notes/a.txt", "x")
    tools = (
        *reading_tools(WorkspaceFiles(root), inline),
        *writing_tools(WorkspaceFiles(root), inline),
    )
    given = (
        ListFiles("notes"),
        ReadFile("notes/a.txt", offset=7),
        WriteText("notes/a.txt", "y"),
        EditText("notes/a.txt", "x", "y"),
    )
    words = []
    for tool, one in zip(tools, given, strict=True):
        assert tool.plan is not None
        scope = (await tool.plan(one, CONTEXT)).scope
        if tool.scope is not None:  # checked when the owner must approve
            scope = await tool.scope(one, CONTEXT)
        assert scope is not None
        words.append(scope.words)
    assert words == ["list in notes/", "read in notes/", "write in notes/", "edit in notes/"]
