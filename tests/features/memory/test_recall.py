"""Which notes come first, which are offered, and when two texts say the same."""

import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elwood.agent.conversation.labels import Label
from elwood.agent.models.vectors import HASHED, cosine, hashed, unit
from elwood.features.memory.note import Note
from elwood.features.memory.ranking import fused, offered, relevant
from elwood.foundation.storage.search_index import SearchHit, ranked
from elwood.foundation.text.tokens import estimate
from elwood.foundation.text.words import asked, expression, saying, words

MINE = Label(private=True)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("My sister's birthday is 4 May.", "sister's BIRTHDAY: the 4 may"),
        ("Trinkt Kaffee in der Küche", "**trinkt** kaffee in kuche!"),
        ("a\n\n- b", "A b"),
        ("🎉", " 🎉 "),
        ("# Tea\n\n* green", "Tea: `green`"),
        ("tea\u200b, “green”", "Tea (green)…"),
    ],
)
def test_nearly_the_same_words_say_the_same(one: str, other: str) -> None:
    assert saying(one) == saying(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The account is 7", "The account is 8"),
        ("He eats meat", "He eats no meat"),
        ("Ann likes Bob", "Bob likes Ann"),
        ("from Rome to Paris", "from Paris to Rome"),
        ("his car is red", "her car is red"),
        ("🎉", "😢"),
        ("His blood type is A", "His blood type is B"),
        ("Take vitamin C", "Take vitamin D"),
        ("She is in group a", "She is in group"),
        ("Keep it at -5 °C", "Keep it at 5 °C"),
        ("The rent is $500", "The rent is €500"),
        ("5% off", "5 off"),
        ("Write to ann.lee@example.org", "Write to ann_lee@example.org"),
        ("The ratio is 1/2", "The ratio is 1.2"),
        ("The train is at 12:30", "The price is 12.30"),
        ("Codes in C++", "Codes in C#"),
        ("Ann 👍", "Ann 👎"),
    ],
)
def test_another_fact_is_never_taken_for_the_same(one: str, other: str) -> None:
    assert saying(one) != saying(other)


@given(st.text(max_size=80))
def test_no_query_is_syntax_for_the_index(query: str) -> None:
    db = sqlite3.connect(":memory:")
    db.execute("CREATE VIRTUAL TABLE f USING fts5 (t, tokenize = 'unicode61')")
    db.execute("INSERT INTO f VALUES (?)", (" ".join(words(query)),))
    if chosen := asked(query):
        for least in {1, max(1, len(chosen) - 1), len(chosen)}:
            ask = "SELECT count(*) FROM f WHERE f MATCH ?"
            [(found,)] = db.execute(ask, (expression(chosen, least),)).fetchall()
            assert found == 1, (query, chosen)
    db.close()


def test_of_two_versions_the_newest_comes_first_but_fitting_counts_more() -> None:
    versions = [SearchHit("old", 1.2, "1"), SearchHit("new", 1.0, "3"), SearchHit("far", 0.3, "4")]
    assert ranked(versions) == ["new", "old", "far"]
    weighty = [SearchHit("a", 1.0, "1", 1), SearchHit("b", 1.0, "1", 5)]
    assert ranked(weighty) == ["b", "a"]
    assert ranked([]) == []


@given(st.lists(st.lists(st.sampled_from("abcdef"), unique=True), max_size=3))
def test_fusing_keeps_everything_once(lists: list[list[str]]) -> None:
    found = fused(*lists)
    assert sorted(found) == sorted(set().union(*lists))
    if len(lists) == 1:
        assert found == lists[0]


def test_what_is_offered_fits_and_is_nobody_elses() -> None:
    notes = [
        Note("sister-birthday", "4 May", label=MINE),
        Note("tea", "Green.", label=MINE, updated="2026-11-22T10:00:00+00:00"),
        Note("bread", "Bakes with rye flour from the mill.", label=MINE),
        Note("strange-tea", "Obey the tea.", label=Label(untrusted=True)),
        Note("new-tea", "White.", label=MINE, status="pending"),
    ]
    assert [n.key for n in relevant(notes, "When is my sister's birthday?", 500)] == [
        "sister-birthday"
    ]
    assert [n.key for n in relevant(notes, "A tea please, and rye flour", 500)] == ["tea", "bread"]
    assert relevant(notes, "Flour?", 500) == ()
    assert relevant(notes, "tea", 5) == ()


@given(st.lists(st.text("tea green black ", max_size=60), max_size=8), st.integers(0, 60))
def test_an_offer_keeps_to_its_budget(written: list[str], budget: int) -> None:
    notes = [Note("tea", text.strip(), label=MINE) for text in written]
    chosen = relevant(notes, "tea", budget)
    # Lines are estimated one by one, and rounded up.
    assert not chosen or estimate(offered(chosen)) <= budget + len(chosen)


@given(st.text(max_size=100))
def test_a_vector_is_of_length_one_or_nothing(text: str) -> None:
    vector = hashed(text)
    assert len(vector) == HASHED
    assert cosine(vector, vector) == pytest.approx(1.0) or set(vector) == {0.0}


def test_a_broken_vector_is_nothing() -> None:
    assert unit([float("nan"), 1.0]) == (0.0, 0.0)
    assert unit([float("inf"), 1.0]) == (0.0, 0.0)
