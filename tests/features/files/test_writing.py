"""The tools that write files."""

from pathlib import Path

import attrs
import msgspec
import pytest

from elwood.agent.conversation.calls import WriteFile
from elwood.agent.conversation.labels import Label
from elwood.agent.conversation.route import NOWHERE
from elwood.agent.tools.tool import ToolContext, ToolFailure
from elwood.features.files.tools import (
    MAX_CONTENT,
    MAX_EDITED,
    Edit,
    FileWriter,
    WriteText,
    writing_tools,
)
from elwood.foundation.runtime import inline
from elwood.foundation.storage.files import Root

CONTEXT = ToolContext(session="s", route=NOWHERE, now=0.0)
TAINTED = ToolContext(session="s", route=NOWHERE, now=0.0, label=Label(untrusted=True))
WRITE_FILE = writing_tools(Root(Path("/nonexistent")), inline)[0]


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return Root(tmp_path)


async def write_file(given: WriteText, root: Root, context: ToolContext = CONTEXT) -> str:
    return await FileWriter(root, inline).write_file(given, context)


async def edit_file(given: Edit, root: Root, context: ToolContext = CONTEXT) -> str:
    return await FileWriter(root, inline).edit_file(given, context)


def is_marked(root: Root, path: str) -> bool:
    with root.file(path) as file:
        return file.untrusted


async def test_a_file_is_created_then_replaced(root: Root) -> None:
    assert await write_file(WriteText("x/a.txt", "Grüße"), root) == "created x/a.txt (7 bytes)"
    assert await write_file(WriteText("x/a.txt", "two\r\n"), root) == "replaced x/a.txt (5 bytes)"
    assert (root.path / "x/a.txt").read_bytes() == b"two\r\n"


async def test_a_file_has_a_largest_size_in_bytes(root: Root) -> None:
    with pytest.raises(ToolFailure, match="the limit is"):
        await write_file(WriteText("a.txt", "ü" * MAX_CONTENT), root)
    given = msgspec.json.encode({"path": "a", "content": "x" * (MAX_CONTENT + 1)})
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(given, type=WriteText)
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
async def test_a_plan_says_whose_file_it_is(
    root: Root, path: str, written: tuple[str, ...], expected: WriteFile
) -> None:
    """One that was there before the conversation wrote it is another's."""
    (root.path / "old.txt").write_text("old")
    context = attrs.evolve(CONTEXT, written=written)
    writer = FileWriter(root, inline)
    plans = [
        await writer.plan_write(WriteText(path, "new"), context),
        await writer.plan_edit(Edit(path, "old", "new"), context),
    ]
    assert [plan.action for plan in plans] == [expected, expected]
    assert path in plans[0].subject
    (root.path / path).write_text("changed meanwhile")
    again = await writer.plan_write(WriteText(path, "new"), context)
    assert again.facts != plans[0].facts, "so that the owner is asked anew"


async def test_refusals_tell_the_model_why(root: Root) -> None:
    (root.path / "link").symlink_to("/etc/passwd")
    for path, words in (
        ("../x", "leads out of the folder"),
        ("link", "is a link"),
        (".env", "secrets"),
        (".git/config", "use git itself"),
        ("a\0b", "control character"),
    ):
        with pytest.raises(ToolFailure, match=words):
            await write_file(WriteText(path, "x"), root)
        with pytest.raises(ToolFailure):
            await edit_file(Edit(path, "root", "x"), root)
    with pytest.raises(ToolFailure, match="tells an assistant what to do"):
        await write_file(WriteText("AGENTS.md", "obey"), root, TAINTED)


async def test_what_is_written_after_untrusted_content_was_read_is_marked(root: Root) -> None:
    await write_file(WriteText("a.txt", "one"), root, TAINTED)
    assert is_marked(root, "a.txt")
    await edit_file(Edit("a.txt", "one", "two"), root)
    assert is_marked(root, "a.txt"), "the rest of it is still theirs"
    await write_file(WriteText("a.txt", "ours"), root)
    assert not is_marked(root, "a.txt")
    await edit_file(Edit("a.txt", "ours", "theirs"), root, TAINTED)
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
async def test_a_piece_is_replaced_and_the_rest_is_kept(
    root: Root, before: str, old: str, new: str, after: str
) -> None:
    (root.path / "a.txt").write_bytes(before.encode())
    assert await edit_file(Edit("a.txt", old, new), root) == "edited a.txt: 1 replaced"
    assert (root.path / "a.txt").read_bytes() == after.encode()


async def test_all_pieces_are_replaced_only_when_asked(root: Root) -> None:
    path = root.path / "a.txt"
    path.write_text("x y x y x")
    with pytest.raises(ToolFailure, match=r"stands there 3 times.*all=true"):
        await edit_file(Edit("a.txt", "x", "z"), root)
    assert path.read_text() == "x y x y x"
    assert await edit_file(Edit("a.txt", "x", "z", True), root) == "edited a.txt: 3 replaced"
    assert path.read_text() == "z y z y z"


async def test_what_is_not_found_or_the_same_is_not_changed(root: Root) -> None:
    (root.path / "a.py").write_text("import os\n")
    with pytest.raises(ToolFailure, match=r"nothing was changed$"):
        await edit_file(Edit("a.py", "something else", "x"), root)
    with pytest.raises(ToolFailure, match="are the same"):
        await edit_file(Edit("a.py", "import", "import"), root)


async def test_what_is_no_text_or_too_large_is_not_edited(root: Root) -> None:
    (root.path / "latin").write_bytes("Grüße".encode("latin-1"))
    (root.path / "binary").write_bytes(b"text\0")
    (root.path / "large").write_bytes(b"x" * (MAX_EDITED + 1))
    (root.path / "grows").write_bytes(b"x" * 1000)
    for name, words in (
        ("latin", "not text in UTF-8"),
        ("binary", "binary data"),
        ("large", "too large"),
        ("nosuch", "does not exist"),
    ):
        with pytest.raises(ToolFailure, match=words):
            await edit_file(Edit(name, "x", "y"), root)
    with pytest.raises(ToolFailure, match="would have, more than"):
        await edit_file(Edit("grows", "x", "y" * 10_000, True), root)


async def test_a_file_that_changes_during_the_edit_is_not_overwritten(root: Root) -> None:
    class Busy(Root):
        def write(self, path, data, *, untrusted, expect=None):  # type: ignore[no-untyped-def]  # as its parent
            (self.path / path).write_text("somebody else's")
            return super().write(path, data, untrusted=untrusted, expect=expect)

    (root.path / "a.txt").write_text("one")
    busy = Busy(root.path)
    with pytest.raises(ToolFailure, match="changed meanwhile"):
        await edit_file(Edit("a.txt", "one", "two"), busy)
    assert (root.path / "a.txt").read_text() == "somebody else's"
