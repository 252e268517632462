"""Valid and invalid skills, the catalogue for the model, and the review of an offered skill."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elwood.features.skills.skill import (
    EACH,
    MAX_DESCRIPTION,
    MAX_FILE,
    SHOW_ONE,
    Candidate,
    Skill,
    SkillFile,
    Unusable,
    build_candidate,
    digest,
    find_matching,
    format_catalogue,
    format_resident,
    parse,
    review,
)
from elwood.foundation.text.tokens import estimate


def manual(
    more: str = "", name: str = "pdf", description: str = "Fill forms.", body: str = "Do it."
) -> bytes:
    return f"---\nname: {name}\ndescription: {description}\n{more}\n---\n\n{body}\n".encode()


def taken(content: bytes, folder: str = "pdf") -> Skill:
    found = parse(content, folder)
    assert isinstance(found, Skill), found
    return found


@pytest.mark.parametrize(
    ("content", "folder", "why"),
    [
        (b"no front matter", "pdf", "begin"),
        (b"---\nname: pdf\n---\n", "pdf", "description"),
        (b"---\nname: pdf\ndescription: ''\n---\n", "pdf", "description"),
        (b"---\nname: pdf\ndescription: [a]\n---\n", "pdf", "description"),
        (manual() + b"\xff", "pdf", "UTF-8"),
        (manual() + b"\0", "pdf", "zero byte"),
        (manual() + b"x" * MAX_FILE, "pdf", "bytes"),
        (manual(), "..", "lower-case"),
        (manual(), "a b", "lower-case"),
    ],
)
def test_an_invalid_skill_has_a_reason(content: bytes, folder: str, why: str) -> None:
    found = parse(content, folder)
    assert isinstance(found, Unusable)
    assert why in found.why


@pytest.mark.parametrize(
    ("content", "description"),
    [
        (manual(name="web"), "Fill forms."),
        (manual(name="../../etc"), "Fill forms."),
        (manual(description="y" * 2000), "y" * MAX_DESCRIPTION),
        (manual(description="Use when: always"), "Use when: always"),
        (manual("hooks:\n  - type: command\nuser-invocable: true\nmodel: opus"), "Fill forms."),
    ],
)
def test_lenient_front_matter_is_loaded(content: bytes, description: str) -> None:
    skill = taken(content)
    assert skill.name == "pdf", "the folder is the identity: none can pass for another"
    assert skill.description == description


@pytest.mark.parametrize(
    "metadata",
    [
        'metadata: {"openclaw": {"requires": {"bins": ["uv"], "env": ["K"]}}}',
        "metadata:\n  openclaw:\n    requires: {bins: [uv], env: [K]}",
        'metadata:\n  requires: "bins: uv; env: K"',
    ],
)
def test_needs_are_read_in_three_spellings(metadata: str) -> None:
    skill = taken(manual(metadata))
    assert (skill.programs, skill.variables) == (("uv",), ("K",))


@pytest.mark.parametrize("before", ["", "metadata:\n  ", "metadata:\n  openclaw:\n    "])
def test_addons_are_read_in_both_places(before: str) -> None:
    skill = taken(manual(f"{before}addons: {{packages: [jq, 'x;y'], env: [TOKEN]}}"))
    assert (skill.packages, skill.variables) == (("jq",), ("TOKEN",))


@given(st.binary(max_size=300), st.text(max_size=20))
def test_any_content_is_a_skill_or_has_a_reason(content: bytes, folder: str) -> None:
    assert isinstance(parse(content, folder), Skill | Unusable)
    assert isinstance(parse(b"---\ndescription: " + content, folder), Skill | Unusable)


def many(count: int) -> list[Skill]:
    words = "what it does and when it should be used " * 10
    return [Skill(name=f"skill-{n}", description=words, body="b") for n in range(count)]


@pytest.mark.parametrize("count", [0, 1, 5, 500])
def test_the_catalogue_keeps_to_its_budget(count: int) -> None:
    text = format_catalogue(many(count), 1000)
    assert estimate(text) <= 1000 + 20
    assert all(estimate(line) <= EACH + 5 for line in text.splitlines())
    assert ("more skills are not listed" in text) == (count == 500)
    assert (text == "") == (count == 0)


def test_only_fitting_skills_are_in_the_prompt_as_a_whole() -> None:
    short = Skill(name="style", description="d", body="Be brief.")
    long = Skill(name="long", description="d", body="word " * 1000)
    text, left_out = format_resident([long, short], 200)
    assert left_out == ["long"]
    assert "Be brief." in text
    assert short.mark in text
    assert Skill(name="style", description="d", body="Be long.").mark != short.mark


def test_the_start_of_a_long_message_is_matched() -> None:
    skills = [Skill(name=f"pdf-forms-{n}", description="Fill.", body="") for n in range(300)]
    noise = " ".join(f"w{n}x" for n in range(100_000))
    assert len(find_matching(skills, f"pdf forms {noise}", limit=2)) == 2
    assert find_matching(skills, f"{noise} pdf forms") == ()


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("summarise this article", "summarize"),
        ("a summary of the text please", "summarize"),
        ("the sum of 3 and 4", None),
        ("REVIEWING THE CODE", "code-review"),
        ("remember the code of the door", None),
        ("skill skill skill", None),
    ],
)
def test_words_match_in_their_forms(message: str, expected: str | None) -> None:
    skills = [
        Skill(name="summarize", description="Summarize a text or an article: summary.", body=""),
        Skill(name="code-review", description="Review source code.", body=""),
    ]
    assert [skill.name for skill in find_matching(skills, message)] == (
        [expected] if expected else []
    )


# --- offered skills -------------------------------------------------------------------------------

MANUAL = SkillFile("SKILL.md", manual())


def instructing(body: str) -> SkillFile:
    return SkillFile("SKILL.md", manual(body=body))


def offer(*files: SkillFile) -> Candidate:
    found = build_candidate(files, "https://e.example/x.git")
    assert isinstance(found, Candidate), found
    return found


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ([], "no SKILL.md"),
        ([SkillFile("sub/SKILL.md", MANUAL.content)], "no SKILL.md"),
        ([MANUAL, SkillFile("a\nb", b"")], "control"),
        ([MANUAL, SkillFile("a\u202eb", b"")], "invisible"),
        ([MANUAL, SkillFile("a/b/c/d/e/f/g", b"")], "deep"),
        ([SkillFile("SKILL.md", manual(name="../../x"))], "lower-case"),
        ([SkillFile("SKILL.md", manual(name="x" * 65))], "lower-case"),
        ([SkillFile("SKILL.md", manual(name="''"))], "lower-case"),
        ([SkillFile("SKILL.md", b"\xff\xfe")], "lower-case|UTF-8"),
        ([SkillFile("SKILL.md", b"x" * 10_000_000)], "bytes"),
    ],
)
def test_a_forbidden_skill_is_refused(files: list[SkillFile], why: str) -> None:
    found = build_candidate(files)
    assert isinstance(found, Unusable)
    assert any(part in found.why for part in why.split("|")), found.why


def test_the_digest_covers_names_content_and_modes_in_any_order() -> None:
    one, two = SkillFile("a", b"1"), SkillFile("b", b"2")
    assert digest([one, two]) == digest([two, one])
    others = [
        [one],
        [one, SkillFile("b", b"3")],
        [one, SkillFile("c", b"2")],
        [one, SkillFile("b", b"2", executable=True)],
    ]
    assert len({digest(files) for files in [[one, two], *others]}) == 5


def test_everything_that_can_act_is_shown() -> None:
    files = (
        instructing("Run:\n```sh\nrm -rf build\n```\n"),
        SkillFile("scripts/go", b"echo go"),
        SkillFile("tool.py", b"print('py')"),
        SkillFile("notes.md", b"#!/bin/sh\necho shebang"),
        SkillFile("data", b"echo mode", executable=True),
        SkillFile("prog.bin", b"\x7fELF\0\0"),
        SkillFile("long.sh", b"# " + b"x" * SHOW_ONE),
        SkillFile("references/a.md", b"harmless words"),
    )  # fmt: skip
    text = review(offer(*files))
    for part in (
        "https://e.example/x.git",
        "rm -rf build",
        "echo go",
        "print('py')",
        "echo shebang",
        "echo mode",
        files[5].digest,
        files[6].digest,
        "references/a.md (14 bytes)",
    ):
        assert part in text
    assert "harmless words" not in text
