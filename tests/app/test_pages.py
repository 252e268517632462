"""Names on the pages exist: files, other pages, commands, settings, pinned packages."""

import json
import re
import shlex
import tomllib
from argparse import ArgumentParser, _SubParsersAction
from pathlib import Path
from textwrap import dedent

import pytest

from elwood.app.cli import make_parser
from elwood.app.config.load import load
from elwood.app.main import sections
from elwood.foundation.settings import yield_fields

ROOT = Path(__file__).parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
FILES = {
    path.relative_to(ROOT).as_posix()
    for folder in ("elwood", "tests")
    for path in (ROOT / folder).rglob("*.py")
}
ENDS = {"/".join(name.split("/")[start:]) for name in FILES for start in range(name.count("/") + 1)}

PARSER = make_parser()
FILE_ENDS = {"db", "forgotten", "json", "jsonl", "md", "py", "toml", "undo"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_names_on_a_page_exist(page: Path) -> None:
    text = page.read_text()
    sources = re.findall(r"`((?:\w+/)*\w+\.py)\b[^`]*`", text)
    assert [name for name in sources if name not in ENDS] == []
    links = re.findall(r"\]\(([^)#:]+\.md)[^)]*\)", text)
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_commands_and_settings_a_page_names_exist(page: Path) -> None:
    if page.name == "CHANGELOG.md" or page.parent.name == "decisions":
        return  # they describe the past
    text = page.read_text()
    typed = re.findall(r"`(?:\$ )?(?:[\w./]*/)?elwood ((?:[a-z]+(?:-[a-z]+)* ?)+)", text)
    typed += re.findall(
        r"^(?:\.venv/bin/)?elwood ([a-z]+(?:-[a-z]+)*(?: [a-z]+)?)", text, re.MULTILINE
    )
    assert [words for words in typed if not _is_command(PARSER, words.split())] == []
    plain = [kind for kind in sections() if kind.SECTION.tables is None]
    known = {
        f"{kind.SECTION.name}.{field.name}" for kind in plain for field, _ in yield_fields(kind)
    }
    tables = {key.split(".")[0] for key in known}
    named = re.findall(r"`([a-z_]+\.[a-z_]+)(?: = [^`]*)?`", text)
    missing = {key for key in named if key.split(".")[0] in tables and key not in known}
    assert {key for key in missing if key.split(".")[1] not in FILE_ENDS} == set()


def _is_command(parser: ArgumentParser, words: list[str]) -> bool:
    """Return True if *words* begin with a command; its arguments may be anything."""
    below = [action for action in parser._actions if isinstance(action, _SubParsersAction)]
    if not below or not words:
        return True
    found = below[0].choices.get(words[0])
    return found is not None and _is_command(found, words[1:])


def test_the_pinned_packages_are_the_tested_ones() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    tested = re.findall(r"^([\w-]+==\S+)", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    blocks = re.split(r"^(?=\w)", (ROOT / "requirements.txt").read_text(), flags=re.MULTILINE)
    pins = {block.split()[0] for block in blocks if block}
    assert pins <= set(tested)
    assert [block for block in blocks if block and "--hash=sha256:" not in block] == []
    needed = {re.split(r"[><=]", needed)[0] for needed in project["dependencies"]}
    assert needed <= {pin.split("==")[0] for pin in pins}


# --- blocks that a reader copies ------------------------------------------------------------------

GUIDES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("[gs]*/*.md"))]


def read_blocks(kind: str) -> list[tuple[str, str]]:
    """List the blocks of that *kind* in the guides, each with its page."""
    return [
        (page.relative_to(ROOT).as_posix(), dedent(block))
        for page in GUIDES
        for block in re.findall(rf"^ *```{kind}\n(.*?)^ *```$", page.read_text(), re.M | re.S)
    ]


@pytest.mark.parametrize(("page", "block"), read_blocks("toml"))
def test_the_configuration_of_a_guide_is_accepted(page: str, block: str, tmp_path: Path) -> None:
    (tmp_path / "blog").mkdir()
    file = tmp_path / "config.toml"
    file.write_text(re.sub(r"(?m)^#(?! )", "", block).replace("/srv/blog", f"{tmp_path}/blog"))
    load(file, {"HOME": "/home/ada"}, secrets=False)


@pytest.mark.parametrize(("page", "block"), read_blocks("json"))
def test_the_json_of_a_guide_starts_a_command(page: str, block: str) -> None:
    for server in json.loads(block)["mcpServers"].values():
        make_parser().parse_args(server["args"])


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_each_command_of_a_guide_can_be_typed(page: Path) -> None:
    text = page.read_text().replace("\n", " ")
    for typed in re.findall(r"`(?:[\w./]*/)?elwood ([^`…<]*)`", text):
        make_parser().parse_args(shlex.split(re.sub(r"\bN\b", "1", typed.replace("KEY", "key"))))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_each_link_to_a_heading_finds_it(page: Path) -> None:
    for file, heading in re.findall(r"\]\(([^)#:]*\.md)?#([^)]+)\)", page.read_text()):
        target = page.parent / file if file else page
        titles = re.findall(r"^#+ (.+)$", target.read_text(), re.M)
        assert heading in {
            re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles
        }
