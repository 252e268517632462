"""The system prompt."""

from elwood.agent.session.turn.context import NAMES, PRECEDENCE, Documents, assemble
from elwood.foundation.text.tokens import estimate

LINE = "some words that say very little about anything\n"


def test_documents_stand_in_their_order_and_notes_behind_them() -> None:
    texts = {name: f"text of {name}" for name in reversed(NAMES)}
    prompt = assemble(Documents(texts, ("USER.md could not be read.",)), "Tools.", 10_000)
    places = [prompt.index(f"text of {name}") for name in NAMES]
    assert places == sorted(places)
    assert places[-1] < prompt.index("Tools.") < prompt.index("Note: USER.md could not be read.")


def test_missing_and_empty_documents_leave_no_trace() -> None:
    assert assemble(Documents({"USER": " \n"}), "", 1000) == ""
    assert "IDENTITY" not in assemble(Documents({"SOUL": "x"}), "", 1000)


def test_the_same_documents_make_the_same_bytes() -> None:
    one = Documents({"SOUL": "a", "USER": "b"})
    two = Documents({"USER": "b", "SOUL": "a"})
    assert one == two
    assert assemble(one, "t", 100) == assemble(two, "t", 100)


def test_what_does_not_fit_is_cut_by_precedence_and_said() -> None:
    texts = {name: LINE * 50 for name in NAMES}
    each = estimate(LINE * 50)
    prompt = assemble(Documents(texts), "The tools.", int(each * 2.5))
    kept = {name: prompt.count(f'<document name="{name}.md">') for name in NAMES}
    assert kept == {"SOUL": 1, "AGENTS": 1, "USER": 1, "IDENTITY": 0, "TOOLS": 0}
    assert "The tools." in prompt
    for name in PRECEDENCE[2:]:
        assert f"{name}.md is too long for this prompt" in prompt
    assert "SOUL.md is too long" not in prompt
    assert estimate(prompt) < each * 2.5 + 150
    assert LINE.strip() in prompt[prompt.index("USER.md") :].splitlines()


def test_both_lists_name_the_same_documents() -> None:
    assert sorted(NAMES) == sorted(PRECEDENCE)
