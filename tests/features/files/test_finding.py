"""The tools that search the workspace."""

from pathlib import Path

import pytest

from elwood.agent.tools.tool import Output, ReachedPath, ToolFailure, WorkspaceFiles
from elwood.features.files.search_tools import (
    MAX_MATCHES,
    MAX_NAMES,
    MAX_SECONDS,
    FileSearch,
    Find,
    Grep,
    matches,
    search_tools,
)
from elwood.foundation.runtime import inline
from elwood.foundation.storage.files import Root
from tests.features.files.test_files import CONTEXT, put
from tests.foundation.storage.confined import SENTINEL, build_tree

FIND, GREP = search_tools(WorkspaceFiles(Root(Path("/nonexistent"))), inline)


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return Root(tmp_path)


async def searched(given: Grep | Find, root: Root) -> str | Output:
    search = FileSearch(WorkspaceFiles(root), inline)
    if isinstance(given, Grep):
        return await search.grep(given, CONTEXT)
    return await search.find(given, CONTEXT)


async def lines(given: Grep | Find, root: Root) -> list[str]:
    text = await searched(given, root)
    assert isinstance(text, str), "nothing untrusted is here"
    return text.splitlines()


async def test_matching_lines_have_file_and_number(root: Root) -> None:
    put(root, "b.py", "import os\r\n\r\ndef run(x):\r\n    return x")
    put(root, "sub/a.py", "def Run(y): pass\n")
    put(root, "notes.md", "run and run\n")
    assert await lines(Grep(r"def \w+\("), root) == [
        "b.py:3: def run(x):",
        "sub/a.py:1: def Run(y): pass",
    ]
    assert await lines(Grep("^run|x$", ignore_case=True), root) == [
        "b.py:4:     return x",
        "notes.md:1: run and run",
    ]
    assert await lines(Grep("run", glob="*.md"), root) == ["notes.md:1: run and run"]
    assert await lines(Grep("run", "b.py"), root) == ["b.py:3: def run(x):"]
    assert await lines(Grep("Run", "sub"), root) == ["sub/a.py:1: def Run(y): pass"]
    assert await lines(Grep("nowhere"), root) == ["no match in 3 text files"]


async def test_long_lines_are_cut_around_the_match(root: Root) -> None:
    put(root, "a.txt", "x" * 5000 + "needle" + "y" * 5000)
    (line,) = await lines(Grep("needle"), root)
    assert "xneedley" in line
    assert line.startswith("a.txt:1: … x")
    assert line.endswith("y …")
    assert len(line) < 350


async def test_binary_files_are_skipped(root: Root) -> None:
    put(root, "picture", b"\x89PNG needle")
    put(root, "zero", b"needle\0")
    put(root, "latin", b"needle \xfc")
    assert await lines(Grep("needle"), root) == ["latin:1: needle \ufffd"]


async def test_too_many_matches_are_cut_with_a_note(root: Root) -> None:
    put(root, "a.txt", "match\n" * (MAX_MATCHES + 5))
    found = await lines(Grep("match"), root)
    assert len(found) == MAX_MATCHES + 1
    assert found[-1].startswith("[the first 200 matches are shown; there are more")
    put(root, "b.txt", ("match" + "x" * 500 + "\n") * MAX_MATCHES)
    text = await searched(Grep("x{20}", "b.txt"), root)
    assert isinstance(text, str)
    assert len(text) < GREP.limit


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        (r"(a)\1", "invalid escape sequence"),
        ("(?=a)", "invalid perl operator"),
        ("(a", r"missing \)"),
        ("*a", "no argument for repetition"),
        ("a{1001}", "invalid repetition size"),
        ("((a{100}){100}){100}", "invalid repetition size"),
        (r"(\pL{1,100}a){9}c", "too large"),
    ],
)
async def test_an_invalid_expression_is_refused_with_a_reason(
    root: Root, pattern: str, why: str
) -> None:
    with pytest.raises(ToolFailure, match=f"pattern cannot be used: .*{why}"):
        await searched(Grep(pattern), root)


async def test_no_expression_makes_it_slow(root: Root) -> None:
    """Python's `re` would need years for some of these."""
    put(root, "a.txt", "a" * 100_000)
    for pattern in ("(a+)+$b", "(a|aa)+c?b", "(.*)*=(.*)*", r"(\w+\s?)*!", "(.?){30}b{30}"):
        assert await lines(Grep(pattern), root) == ["no match in 1 text files"]


def test_a_slow_search_ends_with_partial_results(root: Root) -> None:
    put(root, "a.txt", "ab\n")
    put(root, "b.txt", "ab\n" * 1000)
    clock = iter([0.0, 1.0, 2.0, MAX_SECONDS + 1])
    found = matches(ReachedPath(root, "."), Grep("ab"), lambda: next(clock))
    assert found.lines == ["a.txt:1: ab", "b.txt:1: ab"]
    assert found.why_cut == "stopped: the search took too long"


async def test_names_are_found(root: Root) -> None:
    for name in ("b.md", "sub/a.md", "sub/notes.md/c.txt", ".env.md/x"):
        put(root, name, "")
    put(root, "sub/key.pem", "")
    assert await lines(Find("*.md"), root) == ["b.md", "sub/a.md", "sub/notes.md/"]
    assert await lines(Find("[ab].*", "sub"), root) == ["sub/a.md"]
    assert await lines(Find("*.pem"), root) == ["no match"]
    with pytest.raises(ToolFailure, match="does not exist"):
        await searched(Find("*", "nosuch"), root)


async def test_many_names_are_cut_with_a_note(root: Root) -> None:
    for number in range(MAX_NAMES + 5):
        put(root, f"{number}.txt", "")
    found = await lines(Find("*.txt"), root)
    assert len(found) == MAX_NAMES + 1
    assert found[-1] == "[500 of 505 are shown]"
    assert FIND.target(Find("*\n", "x")) == "*\\n in x"


async def test_no_search_gets_out_or_shows_a_secret(tmp_path: Path) -> None:
    root = Root(build_tree(tmp_path))
    assert SENTINEL not in "".join(await lines(Grep("."), root))
    assert await lines(Find("secret.txt"), root) == ["no match"]
    for path in ("..", "link_out", "link_dir_out", ".env", "hard_out", "pipe", "/etc"):
        with pytest.raises(ToolFailure):
            await searched(Grep(".", path), root)


async def test_a_match_in_a_marked_file_is_untrusted(root: Root) -> None:
    put(root, "a.txt", "needle")
    root.write("page.txt", b"needle\nthread", untrusted=True)
    assert await searched(Grep("thread"), root) == Output(
        "page.txt:2: thread", untrusted=True, origin="page.txt"
    )
    assert isinstance(await searched(Grep("needle"), root), Output)
    assert await lines(Grep("needle", glob="a*"), root) == ["a.txt:1: needle"]
    assert await searched(Find("*"), root) == Output(
        "a.txt\npage.txt", untrusted=True, origin="page.txt"
    )
    assert await lines(Find("a*"), root) == ["a.txt"]
