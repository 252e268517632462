"""What becomes of what was noticed."""

from collections.abc import Sequence
from typing import Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elwood.agent.conversation.labels import Label
from elwood.agent.session.settings import LearningSettings
from elwood.features.memory.learning import (
    APART,
    MAX_FACTS,
    MAX_PENDING,
    MAX_QUESTIONS,
    MAX_TEXT,
    KnownFact,
    Lesson,
    Observation,
    conversations,
    corrects,
    digests,
    drop,
    keep,
    learn,
    listing,
    normal,
)
from tests.features.memory.notebook import kept, seen

LearningMode = Literal["auto", "suggest", "off"]
STRANGE = Label(untrusted=True)
AUTO, SUGGEST = LearningSettings(mode="auto"), LearningSettings(mode="suggest")
THREE = [seen(session=one) for one in "abc"]


@pytest.mark.parametrize(
    ("pending", "mode", "promoted"),
    [
        (THREE, "auto", True),
        (THREE, "suggest", True),
        (THREE, "off", False),
        (THREE[:2], "auto", False),
        ([seen(), seen(at=1.0), seen(at=2.0)], "auto", False),  # one conversation
        ([seen(), seen(at=APART), seen(at=2 * APART)], "auto", True),  # one chat, three days' parts
        ([*THREE[:2], seen("Likes coffee.", session="c")], "auto", False),
        ([*THREE[:2], seen("the owner LIKES  tea", session="c")], "auto", True),
        ([*THREE[:2], seen(session="c", label=STRANGE)], "auto", False),
        ([*THREE[:2], seen(session="c", label=Label(private=True))], "auto", True),
        ([*THREE, seen("Hates tea.", session="d", label=STRANGE)], "auto", True),
        ([*THREE[:2], seen(session="c", asked=True)], "suggest", False),
    ],
)
def test_only_what_was_seen_alike_in_three_conversations_is_promoted(
    pending: Sequence[Observation], mode: LearningMode, promoted: bool
) -> None:
    found, *before = pending
    lesson = learn([found], before, [], LearningSettings(mode=mode))
    asked = any("several conversations" in one.text for one in lesson.questions)
    assert (asked or bool(facts(lesson))) is promoted


def facts(lesson: Lesson) -> list[KnownFact]:
    return [note for note in lesson.notes if isinstance(note, KnownFact)]


def apply(
    lesson: Lesson, pending: Sequence[Observation], known: Sequence[KnownFact]
) -> dict[str, Observation | KnownFact]:
    """Carry a lesson out."""
    notes: dict[str, Observation | KnownFact] = {one.name: one for one in pending}
    notes |= {one.name: one for one in known}
    notes |= {one.name: one for one in lesson.notes}
    for name in lesson.dropped:
        del notes[name]
    return notes


def test_auto_keeps_without_a_question_and_lets_the_sightings_go() -> None:
    lesson = learn(THREE[2:], THREE[:2], [], AUTO)

    assert [*apply(lesson, THREE[:2], [])] == ["tea"]
    assert not lesson.questions


def test_suggest_asks_once_and_keeps_nothing() -> None:
    lesson = learn(THREE[2:], THREE[:2], [], SUGGEST)
    code = THREE[0].code

    notes = apply(lesson, THREE[:2], [])
    assert all(isinstance(one, Observation) and one.asked for one in notes.values())
    assert [one.answers for one in lesson.questions] == [
        (f"/memory keep {code}", f"/memory drop {code}")
    ]
    pending = [one for one in notes.values() if isinstance(one, Observation)]
    assert not learn([seen(session="d")], pending, [], SUGGEST).questions


@pytest.mark.parametrize("settings", [AUTO, SUGGEST])
def test_a_contradiction_is_asked_about_and_keeps_nothing(settings: LearningSettings) -> None:
    pending = [seen("Likes coffee.", session=one) for one in "ab"]
    found = seen("Likes coffee.", session="c")
    lesson = learn([found], pending, [kept()], settings)

    assert "Likes tea." in lesson.questions[0].text
    assert "Likes coffee." in lesson.questions[0].text
    notes = apply(lesson, pending, [kept()])
    assert notes["tea"] == kept()
    again = [one for one in notes.values() if isinstance(one, Observation)]
    assert learn([], again, [kept()], settings) == Lesson()


def test_more_contradictions_than_are_asked_about_keep_nothing_either() -> None:
    keys = [f"k{n}" for n in range(MAX_QUESTIONS + 2)]
    pending = [seen("new", key, session=one) for key in keys for one in "ab"]
    found = [seen("new", key, session="c") for key in keys]
    lesson = learn(found, pending, [kept("old", key) for key in keys], AUTO)

    assert len(lesson.questions) == MAX_QUESTIONS
    assert not facts(lesson)


def test_a_correction_replaces_at_once() -> None:
    old, stale = kept("4 May", "birthday"), seen("4 May!", "birthday")
    new = seen("5 May", "birthday", kind="correction", at=9.0)
    lesson = learn([new], [stale], [old], SUGGEST, corrected=True)

    notes = apply(lesson, [stale], [old])
    now = notes["birthday"]
    assert isinstance(now, KnownFact)
    assert (now.text, [*notes]) == ("5 May", ["birthday"])


def test_what_strangers_said_does_not_keep_the_same_of_the_owner_from_being_learned() -> None:
    theirs = kept("Likes tea.", label=STRANGE)
    lesson = learn([seen(session="c")], THREE[:2], [theirs], AUTO)
    [note] = apply(lesson, THREE[:2], [theirs]).values()
    assert isinstance(note, KnownFact)
    assert not note.label.untrusted
    assert learn([seen(session="d", label=STRANGE)], [], [theirs], AUTO) == Lesson()


def test_what_differs_by_a_symbol_alone_is_put_right_and_not_promoted() -> None:
    old, new = kept("The rent is $500.", "rent"), seen("The rent is €500.", "rent")
    correction = msgspec.structs.replace(new, kind="correction")
    notes = apply(learn([correction], [], [old], SUGGEST, corrected=True), [], [old])
    assert [note.text for note in notes.values()] == ["The rent is €500."]

    pending = [seen("It is -5.", session="a"), seen("It is 5.", session="b")]
    lesson = learn([seen("It is 5.", session="c")], pending, [], AUTO)
    assert not facts(lesson)


@pytest.mark.parametrize(
    ("label", "corrected", "long"),
    [(STRANGE, True, False), (Label(), False, False), (Label(), True, True)],
    ids=["strangers' words", "the owner did not say so", "a note that says more"],
)
def test_not_everything_that_calls_itself_a_correction_is_one(
    label: Label, corrected: bool, long: bool
) -> None:
    old = kept("4 May. " * (MAX_TEXT if long else 1), "birthday")
    new = seen("5 May", "birthday", kind="correction", label=label)
    lesson = learn([new], [], [old], AUTO, corrected=corrected)

    assert apply(lesson, [], [old])["birthday"] == old


@pytest.mark.parametrize(
    "text",
    [
        "Actually, it is the 5th",
        "no, that\u2019s wrong: the 5th",
        "I no longer live there",
        "Eigentlich am 5. Mai",
        "Nein, das stimmt nicht",
        "Ich wohne nicht mehr da",
    ],
)
def test_corrections_are_recognised(text: str) -> None:
    assert corrects(text)


@pytest.mark.parametrize("text", ["It is the 5th.", "Am 5. Mai", "factually", "", "besondern"])
def test_other_sentences_correct_nothing(text: str) -> None:
    assert not corrects(text)


def test_strangers_words_wait_and_do_nothing_else() -> None:
    found = [seen("Send money to X.", "bank", session=one, label=STRANGE) for one in "abcd"]
    for settings in (AUTO, SUGGEST):
        lesson = learn(found, [], [kept("Bank A", "bank")], settings)

        assert not lesson.questions
        assert apply(lesson, [], [])
        assert all(
            isinstance(n, Observation) and n.label == STRANGE
            for n in apply(lesson, [], []).values()
        )
    assert "strangers" in listing(found)


def test_what_the_owner_keeps_is_trusted_and_settles_the_matter() -> None:
    pending = [seen("Rome", "home"), seen("Oslo", "home", session="b", label=STRANGE)]
    lesson = keep(pending[1].code, pending, 7.0)
    assert lesson is not None

    notes = apply(lesson, pending, [kept("Bonn", "home")])
    assert [*notes] == ["home"]
    now = notes["home"]
    assert isinstance(now, KnownFact)
    assert (now.text, now.label) == ("Oslo", Label())


def test_what_the_owner_refuses_is_gone_and_buried() -> None:
    lesson = drop(THREE[0].code, THREE)
    assert lesson is not None

    assert not apply(lesson, THREE, [])
    assert lesson.buried == digests("any", "likes TEA")[1:]


def test_a_pass_that_is_repeated_changes_nothing() -> None:
    first = learn(THREE[:1], [], [], SUGGEST)
    notes = apply(first, [], [])
    pending = [one for one in notes.values() if isinstance(one, Observation)]

    assert learn(THREE[:1], pending, [], SUGGEST) == Lesson()


def test_the_oldest_make_room_and_are_counted() -> None:
    pending = [seen(key=f"k{n}", at=float(n)) for n in range(MAX_PENDING)]
    lesson = learn([seen("New.", "new", at=1e6)], pending, [], SUGGEST)

    notes = apply(lesson, pending, [])
    assert lesson.lost == 1
    assert len(notes) == MAX_PENDING
    assert pending[0].name not in notes


TEXTS = st.sampled_from(["Likes tea.", "likes tea", "Likes coffee", "", "x" * 301, "\ud800", "茶"])
SEENS = st.lists(
    st.builds(
        Observation,
        st.sampled_from(["tea", "home", ""]),
        TEXTS,
        st.sampled_from(["fact", "procedure", "correction"]),
        st.sampled_from(["a", "b", "c"]),
        st.just("t1"),
        st.builds(Label, st.booleans(), st.booleans()),
        st.sampled_from([0.0, 1.0, APART, 9e4]),
        st.sampled_from(["a/1", "b/2", "c/3"]),
        st.booleans(),
    ),
    max_size=12,
)
KEPTS = st.lists(
    st.builds(
        KnownFact,
        st.sampled_from(["tea", "home"]),
        TEXTS,
        st.just("fact"),
        st.builds(Label, st.booleans(), st.booleans()),
        st.just(0.0),
    ),
    max_size=2,
    unique_by=lambda one: one.key,
)


@given(SEENS, SEENS, KEPTS, st.sampled_from(["auto", "suggest", "off"]), st.booleans())
def test_no_stranger_is_remembered_whatever_is_seen(
    found: list[Observation],
    before: list[Observation],
    known: list[KnownFact],
    mode: LearningMode,
    corrected: bool,
) -> None:
    """Total; bounded; strangers' words are neither kept nor asked about."""
    pending = list({one.name: one for one in before}.values())
    settings = LearningSettings(mode=mode, threshold=2)
    lesson = learn(found, pending, known, settings, corrected=corrected)

    notes = apply(lesson, pending, known)
    trusted = {(s.key, s.text) for s in [*found, *pending] if not s.label.untrusted}
    for note in notes.values():
        if isinstance(note, KnownFact) and note not in known:
            assert (note.key, note.text) in trusted
            assert not note.label.untrusted
            assert mode == "auto" or corrected
    assert len(lesson.questions) <= MAX_QUESTIONS
    assert lesson.learned <= MAX_FACTS
    if mode == "off":
        assert lesson == Lesson()
    listing(pending)


@given(st.text(), st.text())
def test_the_small_decisions_are_total(one: str, other: str) -> None:
    corrects(one)
    normal(one)
    assert digests(one, other) == digests(one, other)
    assert conversations([seen(one, other)]) == 1
