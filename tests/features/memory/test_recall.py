"""Recall by words alone (tests/corpora/recall.jsonl), and the notes offered with a message."""

import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elwood.agent.conversation.labels import Label
from elwood.agent.conversation.route import Route
from elwood.agent.tools.tool import Output, ToolContext
from elwood.features.memory.extension import format_offer, relevant
from elwood.features.memory.note import Note
from elwood.features.memory.tools import NoteQuery
from elwood.foundation.storage.search_index import Document, SearchIndex, SearchQuery
from elwood.foundation.text.tokens import estimate
from elwood.foundation.text.words import parse_query, parts, widen_query, words
from tests.features.memory.store_alone import MINE, keys, note_tools, opened, save

ROWS = [
    json.loads(line)
    for line in (Path(__file__).parents[2] / "corpora" / "recall.jsonl").read_text().splitlines()
]
CASES = [row for row in ROWS if "question" in row]
HERE = ToolContext(session="s", route=Route("c"), now=0.0)


@pytest.mark.parametrize(
    ("how", "first", "least"),
    [
        # The original question; the missing ones use words that only people relate.
        ("question", 5, 53),
        ("words", 1, 57),
        ("words", 5, 60),
        # The question and synonyms, in one call.
        ("both", 1, 57),
        ("both", 3, 60),
    ],
)
async def test_questions_find_notes_without_embeddings(
    tmp_path: Path, how: str, first: int, least: int
) -> None:
    assert len(CASES) == 60
    with opened(tmp_path / "state") as memory:
        for row in ROWS:
            save(memory, row["key"], row["note"])
    missed = []
    async with note_tools(tmp_path) as tools:
        for row in CASES:
            query, also = row["question"], row["words"]
            if how != "both":
                query, also = (query if how == "question" else also[0]), []
            found = await tools.search(NoteQuery(query, first, tuple(also)), HERE)
            text = found.text if isinstance(found, Output) else found
            if row["key"] not in re.findall(r"^## ([a-z0-9-]+)", text, re.MULTILINE):
                missed.append(row["key"])
    assert len(CASES) - len(missed) >= least, missed


def test_a_part_finds_its_compound_and_a_compound_its_parts(tmp_path: Path) -> None:
    with opened(tmp_path / "state") as memory:
        save(memory, "one", "Zahnarzttermin am 14. März")
        save(memory, "two", "Der Termin beim Zahnarzt ist verschoben")
        save(memory, "three", "Der Zahn ist gezogen")
        assert set(keys(memory, "Termin")) == {"one", "two"}
        assert set(keys(memory, "Zahnarzttermine")) == {"one", "two"}
        assert set(keys(memory, "Arzt")) == {"one", "two"}


def test_a_long_correction_comes_before_the_short_note_that_it_corrects(tmp_path: Path) -> None:
    said = "We spoke of it for a while, and there was more to say than fits into one line. "
    now = 0.0
    with opened(tmp_path / "state", clock=lambda: now) as memory:
        for row in ROWS:
            save(memory, row["key"], row["note"])
        save(memory, "boat-berth", "The boat lies at berth 12 in the old harbour.")
        now = 86_400.0
        text = "The boat moved in the harbour: it lies at berth 40, not at 12 any more."
        save(memory, "harbour-move", f"{said * 6}{text} {said * 6}")
        for query in ("Where in the harbour is the boat?", "boat berth", "boat"):
            assert keys(memory, query)[:2] == ["harbour-move", "boat-berth"]


def test_a_search_reads_only_matching_notes(tmp_path: Path) -> None:
    """SQLite's work stays the same, regardless of the number of other notes."""
    steps: list[None] = []

    class Counting(SearchIndex):
        @contextmanager
        def open_reader(self) -> Iterator[sqlite3.Connection]:
            with super().open_reader() as db:
                db.set_progress_handler(partial(steps.append, None), 1)
                yield db

    index, costs = Counting(tmp_path / "notes.db"), list[int]()
    index.open()
    index.put([Document(key="tea", stamp="", text="Green tea", untrusted=False)])
    for group in range(4):
        names = [f"n{group}-{number}" for number in range(1000)]
        index.put([Document(key=n, stamp="", text="Else", untrusted=False) for n in names])
        steps.clear()
        assert [hit.key for hit in index.search(SearchQuery(query="tea", now=0.0))] == ["tea"]
        costs.append(len(steps))
    index.close()
    assert costs[-1] < 1.1 * costs[0]


@given(st.text(max_size=80))
def test_no_query_is_parsed_as_syntax(query: str) -> None:
    db = sqlite3.connect(":memory:")
    db.execute("CREATE VIRTUAL TABLE f USING fts5 (key, tags, text, parts)")
    text = words(query)
    db.execute("INSERT INTO f (text, parts) VALUES (?, ?)", (" ".join(text), " ".join(parts(text))))
    if chosen := parse_query(query):
        for least in {1, max(1, len(chosen) - 1), len(chosen)}:
            ask = "SELECT count(*) FROM f WHERE f MATCH ?"
            [(found,)] = db.execute(ask, (widen_query(chosen, least),)).fetchall()
            assert found == 1, (query, chosen)
    db.close()


# --- notes offered with a message -----------------------------------------------------------------


def test_offered_notes_match_and_are_the_owners() -> None:
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
    # Each line is estimated separately, and rounded up.
    assert not chosen or estimate(format_offer(chosen)) <= budget + len(chosen)
