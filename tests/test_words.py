"""Count odd turns of phrase in each folder, which may only decrease.

CONTRIBUTING.md explains how to write. Each pattern has correct uses, so a folder may have some.
"""

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
# Maximum odd turns of phrase per 10,000 words in any folder.
ENOUGH = 25
ODD = re.compile(
    r"""(?ix)\b(?:
    (?:what|who|whoever|whatever)\ (?:is|was|are|were|has|had|can|may|must|came|comes|stands?|waits?
        |runs?|asked|asks|said|says|holds?|wrote|writes|counts?|belongs?|else|nobody|somebody)
    |nobody|nowhere|anew|thereof|whereof|therein|lest|for\ want\ of|of\ its\ own\ accord|let\ be
    |(?:stands?|stood)\ (?:in|at|on|behind|before|below|above|there|beside|for|between|as)
    |(?:is|are|was|were|be|been)\ (?:told|said|known|given|meant|let|lent|held|heard|kept|taken)
    |(?:came|comes|come|becomes?)\ of
    |the\ one\ (?:that|which|who)
    |(?:as|to|by|for|of|from)\ (?:whom?|what)
    )\b"""
)
# Folders above that, with their present limits, which only decrease until they reach ENOUGH.
LEVELS: dict[str, int] = {
    "tests": 28,
    "tests/features/backup": 60,
    "tests/features/daily_notes": 30,
    "tests/features/telegram": 29,
}


def read_texts(path: Path) -> Iterator[str]:
    """Yield the comments, docstrings and other texts of a module, or the text of a page."""
    source = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        yield re.sub(r"```.*?```|`[^`]*`", " x ", source, flags=re.DOTALL)
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.value
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.string


def folders() -> dict[str, list[Path]]:
    """Return the files of each folder of the program, of the tests, and of the documentation."""
    found: dict[str, list[Path]] = {}
    files = [*(ROOT / "elwood").rglob("*.py"), *(ROOT / "tests").rglob("*.py")]
    files += [*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")]
    for path in files:
        parts = path.relative_to(ROOT).parts[:-1]
        found.setdefault("/".join(parts[:3]) or "top", []).append(path)
    return found


def rate(files: list[Path]) -> int:
    """Return the number of odd turns of phrase per 10,000 words in *files*."""
    counts = Counter[str]()
    for text in (text for path in files for text in read_texts(path)):
        counts["words"] += len(text.split())
        counts["odd"] += sum(1 for _ in ODD.finditer(text))
    return round(10_000 * counts["odd"] / max(counts["words"], 1_000))


@pytest.mark.parametrize(("folder", "files"), folders().items(), ids=folders())
def test_no_folder_exceeds_its_level(folder: str, files: list[Path]) -> None:
    level = LEVELS.get(folder, ENOUGH)
    assert rate(files) <= level, f"{folder}: write plain English (CONTRIBUTING.md)"


def test_levels_exist_only_for_folders_above_the_limit() -> None:
    assert LEVELS.keys() <= folders().keys()
    assert all(level > ENOUGH for level in LEVELS.values())


def test_an_odd_turn_of_phrase_is_counted(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("What stands there is told to nobody. `what is` in code does not count.")
    assert rate([page]) == 30
