"""The observer: its prompt and answer, the resulting plan, and observations in notes."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from elwood.agent.conversation.labels import CLEAN, Label
from elwood.agent.conversation.message import (
    Assistant,
    Completion,
    Human,
    Notice,
    Result,
    Results,
    Text,
    ToolCall,
)
from elwood.features.memory.learning import (
    APART,
    MAX_FACTS,
    MAX_PENDING,
    MAX_QUESTIONS,
    MAX_TEXT,
    SHOWN_TOKENS,
    LearningPlan,
    Observation,
    Unreadable,
    batch_code,
    draft_of,
    list_observations,
    observation_of,
    observations_of,
    parse_facts,
    plan_changes,
    request,
)
from elwood.features.memory.messages import Forgotten, Saved, Unsaved
from elwood.features.memory.note import Note, NoteDraft, parse, render
from elwood.features.memory.settings import LearningSettings
from elwood.foundation.text.tokens import estimate
from elwood.foundation.text.words import KEY
from tests.agent.session.scripted import answer
from tests.features.memory.observing import facts, kept, seen
from tests.features.memory.store_alone import holding, opened, pending, save

LearningMode = Literal["auto", "suggest", "off"]
STRANGE = Label(untrusted=True)
AUTO, SUGGEST = LearningSettings(mode="auto"), LearningSettings(mode="suggest")
THREE = [seen(session=one) for one in "abc"]


def filed(draft: NoteDraft) -> Note:
    """Return the note read from a written draft."""
    note = Note(
        draft.key,
        draft.text,
        draft.tags or (),
        draft.source,
        status=draft.status,
        label=draft.label,
        updated="1970-01-01T00:01:00+00:00",
        more=draft.more or (),
    )
    return parse(draft.key, render(note))


def apply(
    plan: LearningPlan, before: Sequence[Observation], known: Sequence[Note]
) -> dict[str, Note]:
    """Apply a plan to a set of notes."""
    notes = {one.name: filed(draft_of(one)) for one in before}
    notes |= {one.key: one for one in known}
    notes |= {one.key: filed(one) for one in plan.drafts}
    for name in plan.dropped:
        del notes[name]
    return notes


def promoted(plan: LearningPlan) -> list[NoteDraft]:
    return [one for one in plan.drafts if one.status == "active"]


# --- plans ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("found", "mode", "is_promoted"),
    [
        (THREE, "auto", True),
        (THREE, "suggest", True),
        (THREE, "off", False),
        (THREE[:2], "auto", False),
        ([seen(), seen(at=1.0), seen(at=2.0)], "auto", False),  # one conversation
        ([seen(), seen(at=APART), seen(at=2 * APART)], "auto", True),  # one chat, on three days
        ([*THREE[:2], seen("Likes coffee.", session="c")], "auto", False),
        ([*THREE[:2], seen("the owner LIKES  tea", session="c")], "auto", True),
        ([*THREE[:2], seen(session="c", label=STRANGE)], "auto", False),
        ([*THREE[:2], seen(session="c", label=Label(private=True))], "auto", True),
        ([*THREE, seen("Hates tea.", session="d", label=STRANGE)], "auto", True),
        ([*THREE[:2], seen(session="c", asked=True)], "suggest", False),
    ],
)
def test_a_fact_from_three_conversations_is_promoted(
    found: Sequence[Observation], mode: LearningMode, is_promoted: bool
) -> None:
    plan = plan_changes(found[:1], found[1:], [], LearningSettings(mode=mode))
    assert bool(plan.questions or promoted(plan)) is is_promoted


@pytest.mark.parametrize("settings", [AUTO, SUGGEST])
def test_a_contradiction_asks_and_saves_nothing(settings: LearningSettings) -> None:
    waiting = [seen("Likes coffee.", session=one) for one in "ab"]
    found = seen("Likes coffee.", session="c")
    plan = plan_changes([found], waiting, [kept()], settings)

    assert "Likes tea." in plan.questions[0].text
    assert "Likes coffee." in plan.questions[0].text
    notes = apply(plan, waiting, [kept()])
    assert notes["tea"] == kept()
    assert plan_changes([], observations_of(notes.values()), [kept()], settings) == LearningPlan()


def test_a_correction_needs_to_be_said_once() -> None:
    old, stale = kept("4 May", "birthday"), seen("4 May!", "birthday")
    new = seen("5 May", "birthday", kind="correction", at=9.0)

    for settings in (AUTO, SUGGEST):
        plan = plan_changes([new], [stale], [old], settings)
        notes = apply(plan, [stale], [old])
        assert [(key, note.text, note.status) for key, note in notes.items()] == [
            ("birthday", "5 May", "active")
        ]
        [told] = plan.questions
        assert told.text == "You said: “5 May”\nI corrected my note. It said: “4 May”"
        assert told.answers == {"Undo": f"/memory undo {batch_code(new.batch)}"}


def test_an_untrusted_fact_does_not_block_the_same_from_the_owner() -> None:
    theirs = kept("Likes tea.", label=STRANGE)
    plan = plan_changes([seen(session="c")], THREE[:2], [theirs], AUTO)
    [note] = apply(plan, THREE[:2], [theirs]).values()
    assert (note.status, note.untrusted) == ("active", False)
    assert plan_changes([seen(session="d", label=STRANGE)], [], [theirs], AUTO) == LearningPlan()


def test_a_fact_that_differs_by_a_symbol_is_a_correction() -> None:
    old, new = kept("The rent is $500.", "rent"), seen("The rent is €500.", "rent")
    correction = replace(new, kind="correction")
    notes = apply(plan_changes([correction], [], [old], AUTO), [], [old])
    assert [note.text for note in notes.values()] == ["The rent is €500."]

    waiting = [seen("It is -5.", session="a"), seen("It is 5.", session="b")]
    assert not promoted(plan_changes([seen("It is 5.", session="c")], waiting, [], AUTO))


@pytest.mark.parametrize(("label", "long"), [(STRANGE, False), (Label(), True)])
def test_neither_strangers_nor_a_short_text_correct_a_long_note(label: Label, long: bool) -> None:
    old = kept("4 May. " * (MAX_TEXT if long else 1), "birthday")
    new = seen("5 May", "birthday", kind="correction", label=label)
    plan = plan_changes([new], [], [old], AUTO)

    assert apply(plan, [], [old])["birthday"] == old
    assert not plan.questions


def test_the_oldest_facts_are_dropped() -> None:
    waiting = [seen(key=f"k{n}", at=float(n)) for n in range(MAX_PENDING)]
    notes = apply(plan_changes([seen("New.", "new", at=1e6)], waiting, [], SUGGEST), waiting, [])

    assert len(notes) == MAX_PENDING
    assert waiting[0].name not in notes


TEXTS = st.sampled_from(["Likes tea.", "likes tea", "Likes coffee", "", "x" * 301, "\ud800", "茶"])
SEENS = st.lists(
    st.builds(
        Observation,
        st.sampled_from(["tea", "home", ""]),
        TEXTS,
        st.sampled_from(["fact", "procedure", "correction"]),
        st.sampled_from(["a", "b", "c"]),
        st.builds(Label, st.booleans(), st.booleans()),
        st.sampled_from([0.0, 1.0, APART, 9e4]),
        st.sampled_from(["a/1", "b/2", "c/3"]),
        st.booleans(),
    ),
    max_size=12,
)
KEPTS = st.lists(
    st.builds(kept, TEXTS, st.sampled_from(["tea", "home"]), label=st.builds(Label, st.booleans())),
    max_size=2,
    unique_by=lambda one: one.key,
)


@given(SEENS, SEENS, KEPTS, st.sampled_from(["auto", "suggest", "off"]))
def test_untrusted_facts_are_never_saved(
    found: list[Observation], before: list[Observation], known: list[Note], mode: LearningMode
) -> None:
    """For any observations: bounded, and untrusted facts are neither saved nor asked about."""
    waiting = list({one.name: one for one in before}.values())
    settings = LearningSettings(mode=mode, threshold=2)
    plan = plan_changes(found, waiting, known, settings)

    trusted = {(s.key, s.text) for s in [*found, *waiting] if not s.label.untrusted}
    for note in promoted(plan):
        assert (note.key, note.text) in trusted
        assert not note.label.untrusted
        assert mode == "auto"
    assert len(plan.questions) <= MAX_QUESTIONS
    assert plan.learned <= MAX_FACTS
    assert mode != "off" or plan == LearningPlan()
    list_observations(waiting)


# --- the observer's prompt and answer -------------------------------------------------------------


def said(*blocks: Text | ToolCall) -> Assistant:
    return Assistant(blocks, "", "m", msgspec.Raw(b"null"))


def fact(key: str, text: str) -> dict[str, str]:
    return {"kind": "fact", "key": key, "text": text}


def test_results_and_notices_are_not_shown_to_the_observer() -> None:
    shown = request(
        [
            Human("Deploy it."),
            said(Text("I do."), ToolCall("c", "run_command", '{"command": "make"}')),
            Results((Result("c", "secret of a page"), Result("d", "no", failed=True))),
            Notice("of Elwood"),
        ],
        [],
        Label(),
    )
    assert "make" in shown
    assert "ok, failed" in shown
    assert "secret of a page" not in shown
    assert "of Elwood" not in shown


def test_quoted_notes_are_not_learned_again() -> None:
    came_back = '<threads day="1970-01-02">\n- 00:00 s/t1: `I moved`\n</threads>\n'
    shown = request([Human(came_back + "[now]\nhello")], [], Label())

    assert "hello" in shown
    assert "moved" not in shown


def test_untrusted_notes_are_hidden_and_untrusted_text_is_marked() -> None:
    known = [kept(), filed(draft_of(seen("Obey X.", "x", label=STRANGE)))]
    shown = request([Human("hi")], known, STRANGE)

    assert "tea: Likes tea." in shown
    assert "Obey" not in shown
    assert '<said by="person" trusted=no>' in shown
    assert "trusted=no" not in request([Human("hi")], known, Label())


@pytest.mark.parametrize("text", ["</said>", "< / SAID >", "<said by='person'>", "</known>"])
def test_no_text_closes_the_tags(text: str) -> None:
    shown = request([Human(f"a {text} b")], [kept(f"x {text}")], Label())

    assert shown.count("</said>") == shown.count("<said") == 1
    assert shown.startswith("<known>\n")
    assert shown.count("</known>") == 1


def test_only_the_newest_part_is_shown() -> None:
    shown = request([Human(f"number {n} " + "words " * 300) for n in range(100)], [], Label())

    assert "number 99" in shown
    assert "number 0 " not in shown
    assert estimate(shown) < SHOWN_TOKENS + 100


def test_facts_are_found_within_other_text() -> None:
    text = facts(fact("Sister's Birthday", " It is\n4 May. "))
    found = parse_facts(answer(f"Here you are:\n```json\n{text}\n```"), str)

    assert not isinstance(found, Unreadable)
    assert [(one.key, one.text) for one in found] == [("sister-s-birthday", "It is 4 May.")]


@pytest.mark.parametrize(
    "completion",
    [
        answer(""),
        answer("no facts"),
        answer("{"),
        answer("}{"),
        answer("[]"),
        answer('{"facts": {}}'),
        answer('{"facts": [{"kind": "order", "key": "a", "text": "b"}]}'),
        answer('{"facts": [{"kind": "fact", "key": "a"}]}'),
        answer('{"facts": [], "more": 1}'),
        answer('{"facts": []}', stop="cut"),
        answer('{"a":' * 5000 + "1" + "}" * 5000),
    ],
)
def test_a_malformed_answer_is_unreadable(completion: Completion) -> None:
    assert isinstance(parse_facts(completion, str), Unreadable)


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("--", "Likes tea."),
        ("tea", ""),
        ("tea", "..."),
        ("tea", "x" * (MAX_TEXT + 1)),
        ("tea", "the key is hunter2"),
        ("hunter2", "a password"),
        ("tea", "the key is ***"),
    ],
)
def test_invalid_facts_are_omitted(key: str, text: str) -> None:
    given = answer(facts(fact(key, text), fact("good", "Stays.")))
    found = parse_facts(given, lambda text: text.replace("hunter2", "***"))

    assert not isinstance(found, Unreadable)
    assert [one.key for one in found] == ["good"]


@given(st.text() | st.text().map(lambda text: facts(fact(text, text))))
def test_any_text_can_be_parsed(text: str) -> None:
    found = parse_facts(answer(text), str)
    if not isinstance(found, Unreadable):
        assert all(re.fullmatch(KEY, one.key) and len(one.text) <= MAX_TEXT for one in found)


MESSAGES = st.lists(
    st.one_of(
        st.builds(Human, st.text()),
        st.builds(Notice, st.text()),
        st.text().map(lambda text: said(Text(text), ToolCall("c", text, text))),
    ),
    max_size=5,
)


# --- in notes -------------------------------------------------------------------------------------

WORD = st.from_regex(r"[a-z0-9][a-z0-9-]{0,20}", fullmatch=True)
OBSERVATIONS = st.builds(
    Observation,
    WORD,
    st.sampled_from(["Likes tea.", "asked: yes", "---", "Mag Käse: sehr", "status: kept", "茶"]),
    st.sampled_from(["fact", "procedure", "correction"]),
    WORD,
    st.builds(Label, st.booleans(), st.just(True)),
    st.integers(0, 4_000_000_000).map(float),
    st.builds("{}/{}".format, WORD, st.integers(0, 10**9)),
    st.booleans(),
)


@given(OBSERVATIONS)
def test_an_observation_survives_a_round_trip(one: Observation) -> None:
    note = filed(draft_of(one))
    assert observation_of(note) == one
    assert (note.key, note.status, note.subject) == (one.name, "pending", one.key)
    assert note.is_observation


def test_an_edited_observation_keeps_its_name() -> None:
    written = draft_of(seen())
    found = observation_of(filed(replace(written, text="Likes green tea.")))
    assert found is not None
    assert (found.text, found.name) == ("Likes green tea.", written.key)


@pytest.mark.parametrize(
    "content",
    ["", "Likes tea.", "---\nstatus: pending\n---\nLikes tea.", "---\nabout: tea\n---\nLikes tea."],
)
def test_other_notes_are_not_observations(content: str) -> None:
    assert observation_of(parse("seen-1", content)) is None


def test_a_damaged_observation_is_untrusted() -> None:
    note = parse("seen-1", "---\nabout: tea\nstatus: pending\nseen: soon\nkind: odd\n---\nTea.")
    found = observation_of(note)
    assert found is not None
    assert (found.kind, found.at, found.label.untrusted, found.asked) == ("fact", 0.0, True, False)
    assert found.name == "seen-1"


# --- in the store ---------------------------------------------------------------------------------


def learned(text: str, key: str) -> NoteDraft:
    return NoteDraft(key, text, CLEAN)


def test_forgotten_facts_are_not_observed_again(tmp_path: Path) -> None:
    with opened(tmp_path) as memory:
        alike, about, other = (
            seen("Likes tea!", "drink"),
            seen("Wants zanzibar tea.", "tea"),
            seen("Has a cat.", "cat"),
        )
        memory.save([draft_of(one) for one in (alike, about, other)], batch="a/1", learned=True)
        save(memory, "tea", "Likes tea.")
        assert memory.forget(["tea"]) == Forgotten(("tea",))
        assert [note.text for note in pending(memory)] == ["Has a cat."]
        assert holding(tmp_path, "zanzibar", "likes tea") == []
        assert not memory.learn([alike], "a/2", AUTO).learned
        assert not memory.learn([seen("Coffee.", "tea")], "a/2", AUTO).learned
        [again] = memory.save([learned("likes the TEA", "drink")], learned=True)
        assert isinstance(again, Unsaved)
        assert again.forgotten
    with opened(tmp_path) as memory:
        [again] = memory.save([learned("Another drink.", "tea")], learned=True)
        assert isinstance(again, Unsaved)
        # A fact that the owner states directly is saved, and can then be learned again.
        assert save(memory, "tea", "Likes tea.") == Saved("tea")
        [answer] = memory.save([learned("Likes tea, and cake.", "tea")], learned=True)
        assert answer == Saved("tea", replaced=True)


def test_refused_or_retracted_facts_can_be_learned_in_other_words(tmp_path: Path) -> None:
    with opened(tmp_path) as memory:
        one, other = seen(), seen("Has a cat.", "cat")
        memory.save([draft_of(one)], batch="a/1", learned=True)
        memory.decide_observation(one.code, is_kept=False)
        memory.save([draft_of(other)], batch="a/2", learned=True)
        assert memory.undo() == "Removed: cat."
        assert pending(memory) == []
        drafts = [
            learned(text, key)
            for key, text in (("tea", "Likes tea"), ("cat", "has a CAT"), ("cat", "Has two."))
        ]
        answers = memory.save(drafts, learned=True)
        assert [isinstance(answer, Saved) for answer in answers] == [False, False, True]
