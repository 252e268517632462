"""What the pages name exists: files of the source, tests, and other pages."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
FILES = {
    path.relative_to(ROOT).as_posix()
    for folder in ("elwood", "tests")
    for path in (ROOT / folder).rglob("*.py")
}
ENDS = {"/".join(name.split("/")[start:]) for name in FILES for start in range(name.count("/") + 1)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_what_a_page_names_exists(page: Path) -> None:
    text = page.read_text()
    sources = re.findall(r"`((?:\w+/)*\w+\.py)\b[^`]*`", text)
    assert [name for name in sources if name not in ENDS] == []
    links = re.findall(r"\]\(([^)#:]+\.md)[^)]*\)", text)
    assert [link for link in links if not (page.parent / link).exists()] == []
