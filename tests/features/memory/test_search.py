"""Which notes come first, which are offered, and whether what was told is found again.

For the last: facts among distractors and updates, small and self-made, in the manner of LongMemEval
and LoCoMo.
"""

import random
import sqlite3
from collections.abc import Callable
from pathlib import Path

import attrs
from hypothesis import given
from hypothesis import strategies as st

from elwood.agent.conversation.labels import Label
from elwood.agent.models.embeddings import unit
from elwood.features.memory import actor
from elwood.features.memory.extension import offered, relevant
from elwood.features.memory.note import Note, render, stamped
from elwood.features.memory.store import NoteStore, fused
from elwood.foundation.storage.search_index import SearchHit, SearchQuery, fingerprint, ranked
from elwood.foundation.text.tokens import estimate
from elwood.foundation.text.words import asked, expression, words
from tests.features.memory.store_alone import MINE, opened
from tests.hashed_vectors import hashed

MODEL = "test/hashing"
UPDATED, CHATTER = 30, 200
NAMES = [
    *("Ada", "Bruno", "Carla", "Dmitri", "Elena", "Farid", "Greta", "Hugo", "Ines", "Jonas"),
    *("Klara", "Lukas", "Mira", "Nadia", "Oskar", "Paula", "Quentin", "Rosa", "Stefan", "Tilda"),
]
# How it is told of people, how it is told that it has changed, how it is asked in other words.
KINDS = {
    "birthday": (
        "{name}'s birthday is {value}",
        "Correction: the birthday of {name} is {value}, not what was said before",
        "when are {name}'s birthdays",
    ),
    "phone": (
        "The phone number of {name} is {value}",
        "{name} has a new phone number: {value}",
        "telephone numbers, {name}",
    ),
    "allergy": (
        "{name} has an allergy against {value}",
        "{name} tested again, and the allergy is against {value} instead",
        "allergies {name} has",
    ),
    "car": (
        "{name} drives a car, a {value}",
        "{name} sold the car and has a {value}",
        "{name} driving cars",
    ),
    "dish": (
        "The favourite dish of {name} is {value}",
        "The favourite dish of {name} has become {value}",
        "{name} favourites in dishes",
    ),
}
TALK = (
    "{name} called about the {value} and wants to talk again",
    "{name} liked the {value}; the {kind} of somebody else came up too",
    "The {kind} was discussed, with {name}, over {value}",
)


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


@attrs.define
class Fact:
    """One fact, under the keys of its versions, the newest last."""

    name: str
    kind: str
    keys: list[str]


def plant(folder: Path) -> list[Fact]:
    """Tell everything, one after the other: facts, later what changed, and chatter all along."""
    folder.mkdir()
    rng = random.Random(11)
    facts = [Fact(name, kind, []) for name in NAMES for kind in KINDS]
    told = [(rng.random(), KINDS[fact.kind][0], fact) for fact in facts]
    told += [(1 + rng.random(), KINDS[fact.kind][1], fact) for fact in rng.sample(facts, UPDATED)]
    for _ in range(CHATTER):
        other = Fact(rng.choice(NAMES), rng.choice(list(KINDS)), [])
        told.append((2 * rng.random(), rng.choice(TALK), other))
    told.sort(key=lambda one: one[0])
    for number, (_, text, fact) in enumerate(told):
        value = "".join(rng.choices("bdfgklmnprstvzaeiou", k=6)).capitalize()
        text = text.format(name=fact.name, kind=fact.kind, value=value)
        note = Note(f"n{number}", text, label=MINE, updated=stamped(number * 3600.0))
        (folder / f"n{number}.md").write_text(render(note))
        fact.keys.append(f"n{number}")
    return facts


def give_vectors(memory: NoteStore) -> None:
    index = memory.indexed.index
    missing = actor.missing(index, MODEL, actor.NEWEST, 10_000)
    notes = {note.key: note for note in memory.read([key for key, _ in missing])}
    rows = [(id_, fingerprint(notes[key].text), hashed(notes[key].text)) for key, id_ in missing]
    actor.put(index, MODEL, rows)


def ask(memory: NoteStore, query: str, *, vectors: bool) -> list[str]:
    wanted = SearchQuery(query=query, now=0.0)
    index, close = memory.indexed.index, list[str]()
    if vectors:
        close = ranked(actor.near(index, MODEL, hashed(query), wanted))
    return [note.key for note in memory.search(wanted, 5, close)]


def test_what_was_told_is_among_the_first_five(tmp_path: Path) -> None:
    facts = plant(tmp_path / "memory")
    ways: list[Callable[[Fact], str]] = [
        lambda fact: f"{fact.name} {fact.kind}",
        lambda fact: f"What is {fact.name}'s {fact.kind}, do you remember?",
        lambda fact: KINDS[fact.kind][2].format(name=fact.name),
    ]
    recalled: list[list[float]] = []
    with opened(tmp_path) as memory:
        give_vectors(memory)
        for vectors in (False, True):
            found = [[ask(memory, way(fact), vectors=vectors) for fact in facts] for way in ways]
            recalled.append(
                [
                    sum(fact.keys[-1] in keys for fact, keys in zip(facts, by_way, strict=True))
                    for by_way in found
                ]
            )
            newest = [
                next((key for key in keys if key in fact.keys), None) == fact.keys[-1]
                for fact, keys in zip(facts, found[0], strict=True)
                if len(fact.keys) > 1
            ]
            # A correction in many words, of a birthday, comes behind what it corrects.
            assert sum(newest) >= 0.75 * UPDATED
    for exact, question, _ in recalled:
        assert min(exact, question) >= 0.9 * len(facts)
    assert recalled[1][2] >= recalled[0][2], "vectors find other forms of the words"


def test_a_broken_vector_is_nothing() -> None:
    assert unit([float("nan"), 1.0]) == (0.0, 0.0)
    assert unit([float("inf"), 1.0]) == (0.0, 0.0)
