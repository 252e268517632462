"""Skills are found in all their folders, and hostile folders do no harm."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from elwood.agent.session.turn.prompt import default_documents
from elwood.features.skills.settings import SkillSettings
from elwood.features.skills.skill import MAX_FILE, Candidate, SkillFile, build_candidate
from elwood.features.skills.store import (
    MAX_DEPTH,
    MAX_FOLDERS,
    FoundSkills,
    Installed,
    SkillRefused,
    SkillStore,
    install,
    read_installed,
    read_tree,
    uninstall,
)
from elwood.foundation.runtime import inline
from elwood.foundation.storage.files import Item, Root
from elwood.foundation.storage.stamps import SETTLED
from tests.features.skills.test_skill import manual
from tests.features.skills.test_skill_list import put


def look(workspace: Path, *packages: Path, off: tuple[str, ...] = ()) -> FoundSkills:
    return SkillStore(
        Root(workspace), inline, SkillSettings(folders=packages, off=off)
    ).read_changes()


def names(found: FoundSkills) -> list[str]:
    return [one.skill.name for one in found.skills]


def mark(path: Path) -> None:
    os.setxattr(path, "user.elwood.untrusted", b"1")


def test_skills_are_found_in_all_places(tmp_path: Path) -> None:
    work, team = tmp_path / "work", tmp_path / "team"
    put(work / "skills/one")
    put(work / "skills/group/two")
    put(work / ".agents/skills/three")
    put(team / "four")
    put(work / "elsewhere/five")
    found = look(work, team, tmp_path / "missing")
    assert names(found) == ["four", "one", "three", "two"]
    assert found.problems == (f"skills.folders: there is no folder {tmp_path}/missing",)
    assert [one.is_inside for one in found.skills] == [False, True, True, True]
    assert names(look(work, team, off=("one",))) == ["four", "three", "two"]


def test_unknown_names_in_the_configuration_are_reported(tmp_path: Path) -> None:
    put(tmp_path / "skills/github")
    (tmp_path / "skills/broken").mkdir()
    (tmp_path / "skills/broken/SKILL.md").write_text("no head")
    settings = SkillSettings(
        always=("style",), off=("github", "broken", "gihub"), chats={"githup": (1,)}
    )
    store = SkillStore(Root(tmp_path), inline, settings)
    assert list(store.read_changes().problems)[1:] == [
        "skills.always: there is no skill style",
        "skills.off: there is no skill gihub; did you mean github?",
        "skills.chats: there is no skill githup; did you mean github?",
    ]


def test_the_first_of_two_equal_names_is_used(tmp_path: Path) -> None:
    work, team = tmp_path / "work", tmp_path / "team"
    put(work / "skills/one", description="mine")
    put(work / ".agents/skills/one", description="shared")
    put(team / "one", description="team")
    found = look(work, team)
    assert [one.skill.description for one in found.skills] == ["mine"]
    assert len([p for p in found.problems if f"hidden by {work}/skills/one" in p]) == 2


def test_nested_deep_or_outside_folders_are_not_read(tmp_path: Path) -> None:
    put(put(tmp_path / "skills/one") / "inner")
    put(tmp_path / "skills/node_modules/two")
    put(tmp_path / "skills/.git/three")
    put(tmp_path / "skills" / "/".join("abcdefg"[:MAX_DEPTH]) / "four")
    put(tmp_path / "skills" / "/".join("hijklmn"[: MAX_DEPTH - 1]) / "five")
    assert names(look(tmp_path)) == ["five", "one"]


def test_hostile_folders_are_refused_with_a_reason(tmp_path: Path) -> None:
    work, outside = tmp_path / "work", put(tmp_path / "outside/evil")
    put(work / "skills/good")
    (work / "skills/linked").symlink_to(outside)
    (work / "skills/link-in").mkdir()
    (work / "skills/link-in/SKILL.md").symlink_to(outside / "SKILL.md")
    (work / "skills/hard").mkdir()
    os.link(outside / "SKILL.md", work / "skills/hard/SKILL.md")
    (work / "skills/huge").mkdir()
    (work / "skills/huge/SKILL.md").write_bytes(b"x" * 10_000_000)
    (work / "skills/bytes").mkdir()
    (work / "skills/bytes/SKILL.md").write_bytes(b"---\nname: bytes\ndescription: \xff\n---\n")
    (work / "skills/pipe").mkdir()
    os.mkfifo(work / "skills/pipe/SKILL.md")
    (work / "skills/folder/SKILL.md").mkdir(parents=True)
    put(work / "skills/a b")
    put(work / "skills/mismatch", name="good")
    found = look(work)
    assert names(found) == ["good", "mismatch"]
    told = "\n".join(found.problems)
    for part in ("link-in", "hard", "huge", "bytes", "pipe", "a b"):
        assert part in told


def test_an_untrusted_file_is_no_skill(tmp_path: Path) -> None:
    mark(put(tmp_path / "skills/file") / "SKILL.md")
    mark(put(tmp_path / "skills/folder"))
    put(tmp_path / "skills/good")
    found = look(tmp_path)
    assert names(found) == ["good"]
    assert len(found.problems) == 2


async def test_a_later_mark_counts(tmp_path: Path) -> None:
    shelf = SkillStore(Root(tmp_path), inline, SkillSettings())
    path = put(tmp_path / "skills/one") / "SKILL.md"
    assert names(await shelf.list_skills()) == ["one"]
    mark(path)
    assert names(await shelf.list_skills()) == []


async def test_an_edit_counts_and_nothing_else_changes(tmp_path: Path) -> None:
    shelf = SkillStore(Root(tmp_path), inline, SkillSettings())
    assert await shelf.list_skills() == FoundSkills()
    put(tmp_path / "skills/one")
    first = await shelf.list_skills()
    assert names(first) == ["one"]
    assert await shelf.list_skills() is first
    os.utime(tmp_path / "skills/one/SKILL.md")
    assert await shelf.list_skills() is first
    put(tmp_path / "skills/one", description="Does more.")
    assert (await shelf.list_skills()).skills[0].skill.description == "Does more."
    (tmp_path / "skills/one/SKILL.md").unlink()
    assert names(await shelf.list_skills()) == []


@pytest.mark.parametrize("spread", [1, 50])
def test_too_many_folders_are_left_out_and_reported(tmp_path: Path, spread: int) -> None:
    for number in range(MAX_FOLDERS + 100):
        (tmp_path / f"skills/{number % spread}/{number}").mkdir(parents=True)
    put(tmp_path / "skills/one")
    problems = look(tmp_path).problems
    assert any("the rest is ignored" in problem for problem in problems)


def test_the_skills_that_we_ship_are_sound() -> None:
    found = look(default_documents())
    assert found.problems == ()
    assert names(found) == ["code-review", "github", "skill-creator", "summarize", "web-research"]
    for one in found.skills:
        assert len(one.skill.body.splitlines()) < 500
        assert len(one.skill.body.encode()) < MAX_FILE / 10


# --- taking in and removing -----------------------------------------------------------------------

SOURCE = ("https://e.example/x.git", "c0ffee")


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


def offered(name: str = "pdf", *more: SkillFile) -> Candidate:
    found = build_candidate([SkillFile("SKILL.md", manual(name=name)), *more], *SOURCE)
    assert isinstance(found, Candidate)
    return found


def test_an_installed_skill_is_private_to_its_owner(work: Path) -> None:
    made = offered("pdf", SkillFile("scripts/a.sh", b"#!/bin/sh\n", executable=True))
    (work / "skills/.elwood-skill-2").mkdir(parents=True)
    install(work, made)
    folder = work / "skills/pdf"
    assert (folder / "scripts/a.sh").stat().st_mode & 0o777 == 0o700
    assert (folder / "SKILL.md").stat().st_mode & 0o777 == 0o600
    assert read_installed(folder) == Installed(SOURCE[0], made.digest, SOURCE[1])
    assert names(look(work)) == ["pdf"]
    assert os.listdir(work / "skills") == ["pdf"], "leftovers of a crash are deleted"
    assert build_candidate(read_tree(Root(work), "skills/pdf"), *SOURCE) == made


def test_nothing_is_overwritten_or_left(work: Path) -> None:
    (work / "skills/pdf").mkdir(parents=True)
    with pytest.raises(SkillRefused, match="already"):
        install(work, offered())
    assert os.listdir(work / "skills") == ["pdf"]
    assert os.listdir(work / "skills/pdf") == []


def test_a_link_as_the_folder_is_refused(tmp_path: Path, work: Path) -> None:
    (tmp_path / "other").mkdir()
    (work / "skills").symlink_to(tmp_path / "other")
    with pytest.raises(SkillRefused, match="is a link"):
        install(work, offered())
    assert os.listdir(tmp_path / "other") == []


def test_a_skill_is_removed_as_a_whole(tmp_path: Path, work: Path) -> None:
    install(work, offered())
    precious = tmp_path / "precious"
    precious.write_text("keep")
    (work / "skills/pdf/link").symlink_to(precious)
    (work / "skills/other").symlink_to(tmp_path)
    uninstall(work, "pdf")
    assert os.listdir(work / "skills") == ["other"]
    assert precious.read_text() == "keep"
    for name in ("pdf", "other", "../skills", ".", ""):
        with pytest.raises(SkillRefused):
            uninstall(work, name)


def test_a_folder_is_read_without_git_and_secrets(tmp_path: Path) -> None:
    root = Root(tmp_path)
    folder = tmp_path / "src"
    (folder / ".git/hooks").mkdir(parents=True)
    (folder / ".git/hooks/x").write_text("#!/bin/sh")
    (folder / "a/b").mkdir(parents=True)
    (folder / "a/b/c.sh").write_text("echo")
    (folder / "a/b/c.sh").chmod(0o755)
    (folder / ".env").write_text("secret")
    assert read_tree(root, "src") == [SkillFile("a/b/c.sh", b"echo", executable=True)]
    assert read_tree(Root(folder), ".") == read_tree(root, "./src/")


@pytest.mark.parametrize("kind", ["link", "out", "pipe", "marked", "many", "big"])
def test_hostile_trees_are_refused(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "src"
    folder.mkdir()
    match kind:
        case "link":
            (folder / "SKILL.md").symlink_to("other.md")
        case "out":
            (folder / "etc").symlink_to("/etc")
        case "pipe":
            os.mkfifo(folder / "pipe")
        case "marked":
            (folder / "a.md").write_text("x")
            os.setxattr(folder / "a.md", "user.elwood.untrusted", b"1")
        case "many":
            for number in range(400):
                (folder / f"f{number}").touch()
        case "big":
            (folder / "big").write_bytes(b"x" * (5 << 20))
    with pytest.raises(SkillRefused):
        read_tree(Root(tmp_path), "src")


class CountingRoot(Root):
    looks = 0

    def items(self, path: str, limit: int = 2000) -> tuple[list[Item], bool]:
        self.looks += 1
        return super().items(path, limit)


async def test_nothing_is_read_again_until_something_changes(tmp_path: Path) -> None:
    """Every change counts: in a SKILL.md, a mark, a folder, a link instead of it."""
    root = CountingRoot(tmp_path)
    later = 0
    shelf = SkillStore(root, inline, SkillSettings(), now=lambda: time.time_ns() + later)
    one, two = put(tmp_path / "skills/one"), put(tmp_path / "skills/deep/two")
    assert names(await shelf.list_skills()) == ["one", "two"]
    before = root.looks
    await shelf.list_skills()
    assert root.looks > before  # a change this soon may have the same time as the next one
    later = 2 * SETTLED
    await shelf.list_skills()
    before = root.looks
    assert names(await shelf.list_skills()) == ["one", "two"]
    assert root.looks == before

    async def found_after(change: Callable[[], object]) -> list[str]:
        change()
        return names(await shelf.list_skills())

    put(tmp_path / "skills/one", description="Does more.")
    assert (await shelf.list_skills()).skills[0].skill.description == "Does more."
    put(tmp_path / "elsewhere")
    assert await found_after(lambda: put(tmp_path / ".agents/skills/three")) == [
        "one",
        "three",
        "two",
    ]
    assert await found_after(lambda: mark(two)) == ["one", "three"]
    assert await found_after(lambda: os.removexattr(two, "user.elwood.untrusted")) == [
        "one",
        "three",
        "two",
    ]
    assert await found_after(lambda: mark(one / "SKILL.md")) == ["three", "two"]
    assert await found_after(lambda: two.parent.rename(tmp_path / "gone")) == ["three"]
    (tmp_path / "skills").rename(tmp_path / "away")
    (tmp_path / "skills").symlink_to("away")
    assert await found_after(lambda: None) == ["three"]
