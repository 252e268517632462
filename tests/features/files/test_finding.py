"""The tools that search the workspace."""

from pathlib import Path

import msgspec
import pytest

from elwood.agent.tools.tool import Hands, Output, ToolFailure
from elwood.features.files.search_tools import (
    FIND,
    GREP,
    MAX_MATCHES,
    MAX_NAMES,
    MAX_SECONDS,
    Find,
    Grep,
    find,
    grep,
    matches,
)
from elwood.foundation.runtime import inline
from tests.foundation.storage.confined import SENTINEL, build


@pytest.fixture
def hands(tmp_path: Path) -> Hands:
    return Hands(tmp_path, inline)


def put(hands: Hands, name: str, content: bytes | str) -> None:
    path = hands.workspace / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


async def lines(given: Grep | Find, hands: Hands) -> list[str]:
    text = await (grep(given, hands) if isinstance(given, Grep) else find(given, hands))
    assert isinstance(text, str), "nothing untrusted is here"
    return text.splitlines()


async def test_lines_are_found_with_their_places(hands: Hands) -> None:
    put(hands, "b.py", "import os\r\n\r\ndef run(x):\r\n    return x")
    put(hands, "sub/a.py", "def Run(y): pass\n")
    put(hands, "notes.md", "run and run\n")
    assert await lines(Grep(r"def \w+\("), hands) == [
        "b.py:3: def run(x):",
        "sub/a.py:1: def Run(y): pass",
    ]
    assert await lines(Grep("^run|x$", ignore_case=True), hands) == [
        "b.py:4:     return x",
        "notes.md:1: run and run",
    ]
    assert await lines(Grep("run", glob="*.md"), hands) == ["notes.md:1: run and run"]
    assert await lines(Grep("run", "b.py"), hands) == ["b.py:3: def run(x):"]
    assert await lines(Grep("Run", "sub"), hands) == ["sub/a.py:1: def Run(y): pass"]
    assert await lines(Grep("nowhere"), hands) == ["nothing found in 3 text files"]


async def test_long_lines_are_shown_around_what_was_found(hands: Hands) -> None:
    put(hands, "a.txt", "x" * 5000 + "needle" + "y" * 5000)
    (line,) = await lines(Grep("needle"), hands)
    assert "xneedley" in line
    assert line.startswith("a.txt:1: … x")
    assert line.endswith("y …")
    assert len(line) < 350


async def test_what_is_no_text_is_passed_over(hands: Hands) -> None:
    put(hands, "picture", b"\x89PNG needle")
    put(hands, "zero", b"needle\0")
    put(hands, "latin", b"needle \xfc")
    assert await lines(Grep("needle"), hands) == ["latin:1: needle \ufffd"]


async def test_too_many_matches_are_cut_and_said(hands: Hands) -> None:
    put(hands, "a.txt", "match\n" * (MAX_MATCHES + 5))
    found = await lines(Grep("match"), hands)
    assert len(found) == MAX_MATCHES + 1
    assert found[-1].startswith("[the first 200 matches are shown; there are more")
    put(hands, "b.txt", ("match" + "x" * 500 + "\n") * MAX_MATCHES)
    text = await grep(Grep("x{20}", "b.txt"), hands)
    assert isinstance(text, str)
    assert len(text) < GREP.limit


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        (r"(a)\1", r"\\1; there are no back-references"),
        ("(?=a)", "there is no look-around"),
        ("(?<!a)b", "there is no look-around"),
        ("(a", r"missing \)"),
        ("*a", "no argument for repetition"),
        ("a{1001}", "invalid repetition size"),
        ("((a{100}){100}){100}", "invalid repetition size"),
        (r"(\pL{1,100}a){9}c", "too large"),
    ],
)
async def test_what_cannot_be_searched_for_says_why(hands: Hands, pattern: str, why: str) -> None:
    with pytest.raises(ToolFailure, match=f"pattern cannot be used: .*{why}"):
        await grep(Grep(pattern), hands)


async def test_no_expression_makes_it_slow(hands: Hands) -> None:
    """Python's own would need years for some of these."""
    put(hands, "a.txt", "a" * 100_000)
    for pattern in ("(a+)+$b", "(a|aa)+c?b", "(.*)*=(.*)*", r"(\w+\s?)*!", "(.?){30}b{30}"):
        assert await lines(Grep(pattern), hands) == ["nothing found in 1 text files"]


async def test_other_alphabets_are_searched(hands: Hands) -> None:
    put(hands, "a.txt", "GRÖẞE\nюля\n")
    assert await lines(Grep("größe|ЮЛЯ", ignore_case=True), hands) == [
        "a.txt:1: GRÖẞE",
        "a.txt:2: юля",
    ]
    assert await lines(Grep("."), hands) == await lines(Grep("^..."), hands)


def test_a_search_that_takes_too_long_ends_with_what_it_has(hands: Hands) -> None:
    put(hands, "a.txt", "ab\n")
    put(hands, "b.txt", "ab\n" * 1000)
    clock = iter([0.0, 1.0, 2.0, MAX_SECONDS + 1])
    found = matches(hands.root, Grep("ab"), lambda: next(clock))
    assert found.lines == ["a.txt:1: ab", "b.txt:1: ab"]
    assert found.why_cut == "stopped: the search took too long"


async def test_names_are_found(hands: Hands) -> None:
    for name in ("b.md", "sub/a.md", "sub/notes.md/c.txt", ".env.md/x"):
        put(hands, name, "")
    put(hands, "sub/key.pem", "")
    assert await lines(Find("*.md"), hands) == [
        "b.md",
        "sub/a.md",
        "sub/notes.md/",
    ]
    assert await lines(Find("*.md", kind="folder"), hands) == ["sub/notes.md/"]
    assert await lines(Find("[ab].*", "sub"), hands) == ["sub/a.md"]
    assert await lines(Find("*.pem"), hands) == ["nothing found"]
    with pytest.raises(ToolFailure, match="does not exist"):
        await find(Find("*", "nosuch"), hands)
    for given in (b'{"name": "a/b"}', b'{"name": ""}', b'{"name": "a", "kind": "link"}'):
        with pytest.raises(msgspec.ValidationError):
            msgspec.json.decode(given, type=Find)


async def test_many_names_are_cut_and_said(hands: Hands) -> None:
    for number in range(MAX_NAMES + 5):
        put(hands, f"{number}.txt", "")
    found = await lines(Find("*.txt"), hands)
    assert len(found) == MAX_NAMES + 1
    assert found[-1] == "[500 of 505 are shown]"
    assert FIND.target(Find("*\n", "x")) == "*\\n in x"


async def test_no_search_gets_out_or_shows_a_secret(tmp_path: Path) -> None:
    hands = Hands(build(tmp_path), inline)
    assert SENTINEL not in "".join(await lines(Grep("."), hands))
    assert await lines(Find("secret.txt"), hands) == ["nothing found"]
    for path in ("..", "link_out", "link_dir_out", ".env", "hard_out", "pipe", "/etc"):
        with pytest.raises(ToolFailure):
            await grep(Grep(".", path), hands)


async def test_what_is_found_in_a_marked_file_is_untrusted(hands: Hands) -> None:
    put(hands, "a.txt", "needle")
    hands.root.write("page.txt", b"needle\nthread", untrusted=True)
    assert await grep(Grep("thread"), hands) == Output(
        "page.txt:2: thread", untrusted=True, origin="page.txt"
    )
    assert isinstance(await grep(Grep("needle"), hands), Output)
    assert await lines(Grep("needle", glob="a*"), hands) == ["a.txt:1: needle"]
    assert await find(Find("*"), hands) == Output(
        "a.txt\npage.txt", untrusted=True, origin="page.txt"
    )
    assert await lines(Find("a*"), hands) == ["a.txt"]
