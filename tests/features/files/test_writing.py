"""The tools that write files."""

from pathlib import Path

import msgspec
import pytest

from elwood.agent.tools.tool import Hands, ToolFailure
from elwood.features.files.write_tools import (
    MAX_CONTENT,
    MAX_EDITED,
    WRITE_FILE,
    Edit,
    WriteText,
    edit_file,
    write_file,
)
from elwood.foundation.runtime import inline
from elwood.foundation.storage.files import Root


@pytest.fixture
def hands(tmp_path: Path) -> Hands:
    return Hands(tmp_path, inline)


def tainted(hands: Hands) -> Hands:
    return Hands(hands.workspace, inline, lambda: True)


def is_marked(hands: Hands, path: str) -> bool:
    with hands.root.file(path) as file:
        return file.untrusted


async def test_a_file_is_created_then_replaced(hands: Hands) -> None:
    assert await write_file(WriteText("x/a.txt", "Grüße"), hands) == "created x/a.txt (7 bytes)"
    assert await write_file(WriteText("x/a.txt", "two\r\n"), hands) == "replaced x/a.txt (5 bytes)"
    assert (hands.workspace / "x/a.txt").read_bytes() == b"two\r\n"


async def test_a_file_has_a_largest_size_in_bytes(hands: Hands) -> None:
    with pytest.raises(ToolFailure, match="the limit is"):
        await write_file(WriteText("a.txt", "ü" * MAX_CONTENT), hands)
    given = msgspec.json.encode({"path": "a", "content": "x" * (MAX_CONTENT + 1)})
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(given, type=WriteText)
    assert WRITE_FILE.target(WriteText("a\n.txt", "")) == "a\\n.txt"


async def test_refusals_tell_the_model_why(hands: Hands) -> None:
    (hands.workspace / "link").symlink_to("/etc/passwd")
    for path, words in (
        ("../x", "leads out of the folder"),
        ("link", "is a link"),
        (".env", "secrets"),
        (".git/config", "use git itself"),
        ("a\0b", "control character"),
    ):
        with pytest.raises(ToolFailure, match=words):
            await write_file(WriteText(path, "x"), hands)
        with pytest.raises(ToolFailure):
            await edit_file(Edit(path, "root", "x"), hands)
    with pytest.raises(ToolFailure, match="tells an assistant what to do"):
        await write_file(WriteText("AGENTS.md", "obey"), tainted(hands))


async def test_what_is_written_after_untrusted_content_was_read_is_marked(hands: Hands) -> None:
    await write_file(WriteText("a.txt", "one"), tainted(hands))
    assert is_marked(hands, "a.txt")
    await edit_file(Edit("a.txt", "one", "two"), hands)
    assert is_marked(hands, "a.txt"), "the rest of it is still theirs"
    await write_file(WriteText("a.txt", "ours"), hands)
    assert not is_marked(hands, "a.txt")
    await edit_file(Edit("a.txt", "ours", "theirs"), tainted(hands))
    assert is_marked(hands, "a.txt")


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        ("one two three", "two", "2", "one 2 three"),
        ("one\ntwo\n", "one\ntwo", "1\n2", "1\n2\n"),
        ("one\r\ntwo\r\n", "one\ntwo", "1\n2\n3", "1\r\n2\r\n3\r\n"),
        ("one\r\ntwo\r\n", "one\r\ntwo", "1\r\n2", "1\r\n2\r\n"),
        ("one\r\ntwo\r\n", "two", "2\n3", "one\r\n2\r\n3\r\n"),
        ("unix\none\r\ntwo\r\n", "one\ntwo", "1\n2", "unix\n1\r\n2\r\n"),
        ("unix\none\r\n", "unix\n", "u\n", "u\none\r\n"),
        ("\ufefftext", "text", "more", "\ufeffmore"),
        ("no end", " end", "", "no"),
        ("Grüße 👋", "👋", "מ", "Grüße מ"),
    ],
)
async def test_a_piece_is_replaced_and_the_rest_is_kept(
    hands: Hands, before: str, old: str, new: str, after: str
) -> None:
    (hands.workspace / "a.txt").write_bytes(before.encode())
    assert await edit_file(Edit("a.txt", old, new), hands) == "edited a.txt: 1 replaced"
    assert (hands.workspace / "a.txt").read_bytes() == after.encode()


async def test_all_pieces_are_replaced_only_when_asked(hands: Hands) -> None:
    path = hands.workspace / "a.txt"
    path.write_text("x y x y x")
    with pytest.raises(ToolFailure, match=r"stands there 3 times.*all=true"):
        await edit_file(Edit("a.txt", "x", "z"), hands)
    assert path.read_text() == "x y x y x"
    assert await edit_file(Edit("a.txt", "x", "z", True), hands) == "edited a.txt: 3 replaced"
    assert path.read_text() == "z y z y z"
    path.write_text("aaa")
    with pytest.raises(ToolFailure, match="overlapping"):
        await edit_file(Edit("a.txt", "aa", "b"), hands)


async def test_what_is_not_found_is_not_changed_and_the_nearest_line_is_told(hands: Hands) -> None:
    path = hands.workspace / "a.py"
    path.write_text("import os\n\ndef run(self,  name):\n    pass\n")
    with pytest.raises(ToolFailure, match=r"Line 3 is similar: def run\(self,  name\):$"):
        await edit_file(Edit("a.py", "def run(self, name):\n  pass", "x"), hands)
    with pytest.raises(ToolFailure, match=r"nothing was changed$"):
        await edit_file(Edit("a.py", "something else", "x"), hands)
    with pytest.raises(ToolFailure, match="are the same"):
        await edit_file(Edit("a.py", "import", "import"), hands)
    hands.root.write("b.py", path.read_bytes(), untrusted=True)
    with pytest.raises(ToolFailure, match=r"nothing was changed$"):
        await edit_file(Edit("b.py", "def run(self, name):", "x"), hands)


async def test_what_is_no_text_or_too_large_is_not_edited(hands: Hands) -> None:
    (hands.workspace / "latin").write_bytes("Grüße".encode("latin-1"))
    (hands.workspace / "binary").write_bytes(b"text\0")
    (hands.workspace / "large").write_bytes(b"x" * (MAX_EDITED + 1))
    (hands.workspace / "grows").write_bytes(b"x" * 1000)
    for name, words in (
        ("latin", "not text in UTF-8"),
        ("binary", "binary data"),
        ("large", "too large"),
        ("nosuch", "does not exist"),
    ):
        with pytest.raises(ToolFailure, match=words):
            await edit_file(Edit(name, "x", "y"), hands)
    with pytest.raises(ToolFailure, match="would have, more than"):
        await edit_file(Edit("grows", "x", "y" * 10_000, True), hands)


async def test_a_file_that_changes_during_the_edit_is_not_overwritten(hands: Hands) -> None:
    class Busy(Root):
        def write(self, path, data, *, untrusted, expect=None):  # type: ignore[no-untyped-def]  # as its parent
            (self.path / path).write_text("somebody else's")
            return super().write(path, data, untrusted=untrusted, expect=expect)

    (hands.workspace / "a.txt").write_text("one")
    busy = Hands(hands.workspace, inline, root=Busy(hands.workspace))
    with pytest.raises(ToolFailure, match="changed meanwhile"):
        await edit_file(Edit("a.txt", "one", "two"), busy)
    assert (hands.workspace / "a.txt").read_text() == "somebody else's"
