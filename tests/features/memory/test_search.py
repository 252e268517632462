"""Which notes come first, which are offered, and whether what was told is found again.

For the last: 200 facts over 100 sessions, among distractors and updates, small and self-made, in
the manner of LongMemEval and LoCoMo.  ``pytest -s`` prints the table.
"""

import random
import sqlite3
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elwood.agent.conversation.labels import Label
from elwood.agent.models.embeddings import hashed, unit
from elwood.features.memory import actor
from elwood.features.memory.extension import offered, relevant
from elwood.features.memory.note import Note, render, stamped
from elwood.features.memory.store import NoteStore, fused
from elwood.foundation.storage.search_index import SearchHit, SearchQuery, fingerprint, ranked
from elwood.foundation.text.tokens import estimate
from elwood.foundation.text.words import asked, expression, words
from tests.features.memory.store_alone import MINE, opened

MODEL = "test/hashing"
FACTS, SESSIONS, UPDATED, DISTRACTORS = 200, 100, 60, 8
NAMES = [
    *("Ada", "Bruno", "Carla", "Dmitri", "Elena", "Farid", "Greta", "Hugo", "Ines", "Jonas"),
    *("Klara", "Lukas", "Mira", "Nadia", "Oskar", "Paula", "Quentin", "Rosa", "Stefan", "Tilda"),
    *("Umut", "Vera", "Wanda", "Xaver", "Yusuf"),
]
# What is told of people, how it is told, and how it is asked about in other words.
KINDS = {
    "birthday": ("{name}'s birthday is {value}", "when are {name}'s birthdays"),
    "phone": ("The phone number of {name} is {value}", "telephone numbers, {name}"),
    "allergy": ("{name} has an allergy against {value}", "allergies {name} has"),
    "street": ("{name} lives in the street called {value}", "streets where {name} is living"),
    "car": ("{name} drives a car, a {value}", "{name} driving cars"),
    "dish": ("The favourite dish of {name} is {value}", "{name} favourites in dishes"),
    "school": ("{name} teaches at the school named {value}", "schools, {name} teaching"),
    "doctor": ("The doctor of {name} is called {value}", "doctors {name}"),
}
CHANGED = {
    "birthday": "Correction: the birthday of {name} is {value}, not what was said before",
    "phone": "{name} has a new phone number: {value}",
    "allergy": "{name} tested again, and the allergy is against {value} instead",
    "street": "{name} moved; the street is {value} now",
    "car": "{name} sold the car and has a {value}",
    "dish": "The favourite dish of {name} has become {value}",
    "school": "{name} changed to another school, {value}",
    "doctor": "{name} has another doctor, called {value}",
}
CHATTER = (
    "{name} called about the {thing} and wants to talk again on {day}",
    "Bring the {thing} along when {name} comes on {day}",
    "{name} liked the {thing}; the {kind} of somebody else came up too",
    "On {day} the {kind} was discussed, with {other}, over {thing}",
    "The {thing} was late again, says {other}",
)
THINGS = [
    *("weather", "garden", "ladder", "soup", "report", "ticket", "cinema", "bicycle", "lamp"),
    *("window", "paper", "boat"),
]
DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
SYLLABLES = [c + v for c in "bdfgklmnprstvz" for v in "aeiou"]


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
    """Tell everything, session by session."""
    folder.mkdir()
    rng = random.Random(11)

    def value() -> str:
        return "".join(rng.choices(SYLLABLES, k=3)).capitalize()

    facts = [Fact(name, kind, []) for name in NAMES for kind in KINDS]
    rng.shuffle(facts)
    assert len(facts) == FACTS
    told: list[tuple[int, str, Fact | None]] = []
    for number, fact in enumerate(facts):
        about = {"name": fact.name, "value": value()}
        session = number * SESSIONS // 2 // FACTS
        told.append((session, KINDS[fact.kind][0].format(**about), fact))
        if number < UPDATED:
            about["value"] = value()
            later = rng.randrange(session + 1, SESSIONS)
            told.append((later, CHANGED[fact.kind].format(**about), fact))
    for session in range(SESSIONS):
        for _ in range(DISTRACTORS):
            name, other = rng.sample(NAMES, 2)
            words = {"thing": rng.choice(THINGS), "day": rng.choice(DAYS)}
            kind = rng.choice(list(KINDS))
            text = rng.choice(CHATTER).format(name=name, other=other, kind=kind, **words)
            told.append((session, text, None))
    told.sort(key=lambda one: one[0])
    for number, (session, text, telling) in enumerate(told):
        key = f"s{session}-n{number}"
        note = Note(key, text, label=MINE, updated=stamped(session * 86_400.0 + number))
        (folder / f"{key}.md").write_text(render(note))
        if telling is not None:
            telling.keys.append(key)
    return facts


def give_vectors(memory: NoteStore) -> None:
    index = memory.indexed.index
    missing = actor.missing(index, MODEL, actor.NEWEST, 10_000)
    notes = {note.key: note for note in memory.read([key for key, _ in missing])}
    rows = [(id_, fingerprint(notes[key].text), hashed(notes[key].text)) for key, id_ in missing]
    actor.put(index, MODEL, rows)


def ask(memory: NoteStore, query: str, *, vectors: bool) -> list[str]:
    wanted = SearchQuery(query=query, now=0.0, vector=hashed(query) if vectors else None)
    close = ranked(actor.near(memory.indexed.index, MODEL, wanted)) if vectors else ()
    return [note.key for note in memory.search(wanted, 5, close)]


def recall(found: list[tuple[Fact, list[str]]]) -> float:
    return sum(fact.keys[-1] in keys for fact, keys in found) / len(found)


def first(found: list[tuple[Fact, list[str]]]) -> float:
    """In how many updates the newest version comes before every older one."""
    updated = [(fact, keys) for fact, keys in found if len(fact.keys) > 1]
    assert len(updated) >= UPDATED // 2
    return sum(
        next((key for key in keys if key in fact.keys), None) == fact.keys[-1]
        for fact, keys in updated
    ) / len(updated)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Fact]]:
    state = tmp_path_factory.mktemp("told")
    facts = plant(state / "memory")
    with opened(state) as memory:
        give_vectors(memory)
    return state, facts


def test_what_was_told_is_among_the_first_five(told: tuple[Path, list[Fact]]) -> None:
    state, facts = told
    ways: dict[str, Callable[[Fact], str]] = {
        "the exact words": lambda fact: f"{fact.name} {fact.kind}",
        "a question": lambda fact: f"What is {fact.name}'s {fact.kind}, do you remember?",
        "other forms of the words": lambda fact: KINDS[fact.kind][1].format(name=fact.name),
    }
    table: dict[tuple[str, bool], tuple[float, float]] = {}
    with opened(state) as memory:
        for way, query in ways.items():
            for vectors in (False, True):
                # Comparing vectors in Python takes its time: every other fact must do.
                some = facts[::2] if vectors else facts
                found = [(fact, ask(memory, query(fact), vectors=vectors)) for fact in some]
                table[way, vectors] = recall(found), first(found)
    print(f"\n{'':28}{'recall@5':>20}{'newest first':>20}")
    print(f"{'':28}{'words':>10}{'+vectors':>10}{'words':>10}{'+vectors':>10}")
    for way in ways:
        (a, b), (c, d) = table[way, False], table[way, True]
        print(f"{way:28}{a:10.2f}{c:10.2f}{b:10.2f}{d:10.2f}")
    for vectors in (False, True):
        assert table["the exact words", vectors][0] >= 0.9
        assert table["the exact words", vectors][1] >= 0.9
        assert table["a question", vectors][0] >= 0.9
    assert table["other forms of the words", True][0] >= table["other forms of the words", False][0]


def test_a_broken_vector_is_nothing() -> None:
    assert unit([float("nan"), 1.0]) == (0.0, 0.0)
    assert unit([float("inf"), 1.0]) == (0.0, 0.0)
