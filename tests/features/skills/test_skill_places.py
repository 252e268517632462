"""Offered skills are kept as they were seen, and placed wholly or not at all."""

import os
from pathlib import Path

import pytest

from elwood.features.skills.installer import Offer, SkillInstaller, SkillRefused, read_tree
from elwood.features.skills.offered import Candidate, SkillFile, candidate
from elwood.features.skills.store import SkillStore
from elwood.foundation.runtime import inline
from elwood.foundation.storage.files import Root

OFFER = Offer("https://e.example/x.git", "c0ffee")


@pytest.fixture
def places(tmp_path: Path) -> SkillInstaller:
    (tmp_path / "work").mkdir()
    return SkillInstaller(tmp_path / "state/skills", tmp_path / "work", now=lambda: 1e9)


def offered(name: str = "pdf", *more: SkillFile) -> Candidate:
    text = f"---\nname: {name}\ndescription: Fill forms.\n---\nDo it.".encode()
    found = candidate([SkillFile("SKILL.md", text), *more])
    assert isinstance(found, Candidate)
    return found


def test_what_was_kept_is_what_is_placed(tmp_path: Path, places: SkillInstaller) -> None:
    made = offered("pdf", SkillFile("scripts/a.sh", b"#!/bin/sh\n", executable=True))
    places.keep(made, OFFER)
    assert places.offered(made.digest) == (made, OFFER)
    places.place(*places.offered(made.digest), by="approval")
    folder = tmp_path / "work/skills/pdf"
    assert (folder / "scripts/a.sh").stat().st_mode & 0o777 == 0o700
    assert (folder / "SKILL.md").stat().st_mode & 0o777 == 0o600
    record = places.record("pdf")
    assert record is not None
    assert (record.source, record.commit, record.digest) == (*_of(OFFER), made.digest)
    assert (record.at, record.by) == (1e9, "approval")
    found = SkillStore(Root(tmp_path / "work"), inline).look()[1]
    assert [one.skill.name for one in found.skills] == ["pdf"]
    assert candidate(read_tree(Root(tmp_path / "work"), "skills/pdf")) == made


def _of(offer: Offer) -> tuple[str, str]:
    return offer.source, offer.commit


def test_what_was_changed_meanwhile_is_refused(places: SkillInstaller) -> None:
    made = offered()
    places.keep(made, OFFER)
    (places.kept / made.digest / "files/extra.sh").write_text("rm -rf ~")
    with pytest.raises(SkillRefused, match="was changed"):
        places.offered(made.digest)
    for digest in ("0" * 64, "../../x", "", "/" * 64):
        with pytest.raises(SkillRefused, match="fetch it again"):
            places.offered(digest)


def test_nothing_is_overwritten_and_nothing_is_left_of_a_failure(
    tmp_path: Path, places: SkillInstaller
) -> None:
    (tmp_path / "work/skills/pdf").mkdir(parents=True)
    with pytest.raises(SkillRefused, match="already"):
        places.place(offered(), OFFER, by="test")
    assert os.listdir(tmp_path / "work/skills") == ["pdf"]
    assert os.listdir(tmp_path / "work/skills/pdf") == []


def test_a_link_in_the_place_of_the_folder_is_refused(
    tmp_path: Path, places: SkillInstaller
) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "work/skills").symlink_to(tmp_path / "other")
    with pytest.raises(SkillRefused, match="cannot be opened"):
        places.place(offered(), OFFER, by="test")
    assert os.listdir(tmp_path / "other") == []


def test_a_skill_is_removed_as_a_whole(tmp_path: Path, places: SkillInstaller) -> None:
    places.place(offered(), OFFER, by="test")
    precious = tmp_path / "precious"
    precious.write_text("keep")
    (tmp_path / "work/skills/pdf/link").symlink_to(precious)
    (tmp_path / "work/skills/other").symlink_to(tmp_path)
    places.remove("pdf")
    assert os.listdir(tmp_path / "work/skills") == ["other"]
    assert precious.read_text() == "keep"
    for name in ("pdf", "other", "../skills", ".", ""):
        with pytest.raises(SkillRefused):
            places.remove(name)


def test_what_is_old_or_half_done_is_swept(tmp_path: Path) -> None:
    places = SkillInstaller(tmp_path / "kept", tmp_path / "work")
    (tmp_path / "work/skills").mkdir(parents=True)
    old, new = offered("old"), offered("new")
    places.keep(old, OFFER)
    places.keep(new, OFFER)
    half = [places.kept / ".elwood-skill-1", tmp_path / "work/skills/.elwood-skill-2"]
    for path in half:
        path.mkdir()
    for path in (places.kept / old.digest, *half):
        os.utime(path, (1, 1))
    places.sweep()
    assert os.listdir(places.kept) == [new.digest]
    assert os.listdir(tmp_path / "work/skills") == []
    SkillInstaller(tmp_path / "none", tmp_path / "nowhere").sweep()


def test_a_folder_is_read_without_its_git_and_nothing_else_is_passed_over(tmp_path: Path) -> None:
    root = Root(tmp_path)
    folder = tmp_path / "src"
    (folder / ".git/hooks").mkdir(parents=True)
    (folder / ".git/hooks/x").write_text("#!/bin/sh")
    (folder / "a/b").mkdir(parents=True)
    (folder / "a/b/c.sh").write_text("echo")
    (folder / "a/b/c.sh").chmod(0o755)
    assert read_tree(root, "src") == [SkillFile("a/b/c.sh", b"echo", executable=True)]
    assert read_tree(root, str(folder)) == read_tree(root, "src")


@pytest.mark.parametrize("kind", ["link", "out", "pipe", "secret", "marked", "deep", "many", "big"])
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
        case "secret":
            (folder / ".env").write_text("x")
        case "marked":
            (folder / "a.md").write_text("x")
            os.setxattr(folder / "a.md", "user.elwood.untrusted", b"1")
        case "deep":
            (folder / "a/b/c/d/e/f/g/h").mkdir(parents=True)
        case "many":
            for number in range(400):
                (folder / f"f{number}").touch()
        case "big":
            (folder / "big").write_bytes(b"x" * (5 << 20))
    with pytest.raises(SkillRefused):
        read_tree(Root(tmp_path), "src")
