"""Which files may be a skill, and that the owner sees all in them that can act."""

import pytest

from elwood.agent.approvals.prompt_text import MAX_SHOWN
from elwood.features.skills.skill import (
    MAX_BYTES,
    MAX_FILES,
    MAX_SCRIPTS,
    SHOW_ALL,
    SHOW_MANUAL,
    Candidate,
    SkillFile,
    Unusable,
    candidate,
    digest,
    review,
)
from elwood.foundation.text.characters import escape_invisible


def manual(body: str = "Do it.", name: str = "pdf") -> SkillFile:
    text = f"---\nname: {name}\ndescription: Fill forms.\n---\n{body}"
    return SkillFile("SKILL.md", text.encode())


def taken(*files: SkillFile) -> Candidate:
    found = candidate(files, "https://e.example/x.git")
    assert isinstance(found, Candidate), found
    return found


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ([], "no SKILL.md"),
        ([SkillFile("sub/SKILL.md", manual().content)], "no SKILL.md"),
        ([manual(), SkillFile("../x", b"")], "leads out"),
        ([manual(), SkillFile("a/../../x", b"")], "leads out"),
        ([manual(), SkillFile("/etc/x", b"")], "leads out"),
        ([manual(), SkillFile("a\nb", b"")], "control"),
        ([manual(), SkillFile("a\u202eb", b"")], "invisible"),
        ([manual(), SkillFile(".env", b"")], "secrets"),
        ([manual(), SkillFile("a/b/c/d/e/f/g", b"")], "deep"),
        ([manual(), SkillFile("A.md", b""), SkillFile("a.md", b"")], "one name"),
        ([manual(), SkillFile("big", b"x" * MAX_BYTES)], "bytes"),
        ([manual(), *(SkillFile(f"f{n}", b"") for n in range(MAX_FILES))], "files"),
        ([manual(), *(SkillFile(f"{n}.sh", b"") for n in range(MAX_SCRIPTS + 1))], "can be run"),
        ([manual("```sh\n" + "x\n" * SHOW_MANUAL + "```")], "can be run"),
        ([manual(name="../../x")], "lower-case"),
        ([manual(name="x" * 65)], "lower-case"),
        ([manual(name="''")], "lower-case"),
        ([SkillFile("SKILL.md", b"\xff\xfe")], "lower-case|UTF-8"),
        ([SkillFile("SKILL.md", b"x" * 10_000_000)], "bytes"),
    ],
)
def test_what_may_not_be_placed_is_refused(files: list[SkillFile], why: str) -> None:
    found = candidate(files)
    assert isinstance(found, Unusable)
    assert any(part in found.why for part in why.split("|")), found.why


def test_the_digest_is_of_names_content_and_modes_whatever_the_order() -> None:
    one, two = SkillFile("a", b"1"), SkillFile("b", b"2")
    assert digest([one, two]) == digest([two, one])
    others = [
        [one],
        [one, SkillFile("b", b"3")],
        [one, SkillFile("c", b"2")],
        [one, SkillFile("b", b"2", executable=True)],
    ]
    assert len({digest(files) for files in [[one, two], *others]}) == 5


def test_all_that_can_act_is_shown() -> None:
    files = (
        manual("Run:\n```sh\nrm -rf build\n```\n"),
        SkillFile("scripts/go", b"echo go"),
        SkillFile("tool.py", b"print('py')"),
        SkillFile("notes.md", b"#!/bin/sh\necho shebang"),
        SkillFile("data", b"echo mode", executable=True),
        SkillFile("prog.bin", b"\x7fELF\0\0"),
        SkillFile("long.sh", b"# " + b"x" * SHOW_ALL),
        SkillFile("references/a.md", b"harmless words"),
    )  # fmt: skip
    text = review(taken(*files))
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


def test_the_largest_review_can_be_asked_about() -> None:
    scripts = [SkillFile(f"scripts/{'n' * 60}{n}.sh", b"y" * 3000) for n in range(MAX_SCRIPTS)]
    others = [SkillFile(f"{'m' * 60}{n}.md", b"") for n in range(MAX_FILES - MAX_SCRIPTS - 1)]
    text = review(taken(manual("z" * SHOW_MANUAL), *scripts, *others))
    assert len(escape_invisible(text)) <= MAX_SHOWN


@pytest.mark.parametrize(
    "code",
    [
        "```\ncurl x | sh\n```",
        "1. first\n\n     ```bash\n     curl x | sh\n     ```",
        "> ~~~\n> curl x | sh\n> ~~~",
        "- ```\n  curl x | sh",
        "    curl x | sh",
        "\tcurl x | sh",
        ">     curl x | sh",
        "Then run `curl x | sh`.",
        "<pre>curl x | sh</pre>",
        "words\r    curl x | sh",
    ],
)
def test_code_in_long_instructions_is_shown_wherever_it_stands(code: str) -> None:
    body = f"{'word ' * SHOW_MANUAL}\n\n{code}\n\nmore words\n"
    text = review(taken(manual(body)))
    assert "curl x | sh" in text
    assert "word word" not in text or "`" in code
