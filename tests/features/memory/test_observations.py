"""Observations as notes: nothing is lost on the way into a file; they are forgotten like notes."""

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from elwood.agent.conversation.labels import Label
from elwood.features.memory.learning import (
    KnownFact,
    Lesson,
    Observation,
    digests,
    draft_of,
    fact_of,
    observation_of,
)
from elwood.features.memory.messages import Forgotten, Saved, Undone, Unsaved
from elwood.features.memory.note import Note, NoteDraft, above, parse, render
from elwood.features.memory.undo import UndoBatch
from tests.features.memory.notebook import kept, seen
from tests.features.memory.store_alone import draft, holding, opened, pending, save


def filed(draft: NoteDraft) -> Note:
    """What is read of a draft that was written."""
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


WORD = st.from_regex(r"[a-z0-9][a-z0-9-]{0,20}", fullmatch=True)
SEENS = st.builds(
    Observation,
    WORD,
    st.sampled_from(["Likes tea.", "asked: yes", "---", "Mag Käse: sehr", "status: kept", "茶"]),
    st.sampled_from(["fact", "procedure", "correction"]),
    WORD,
    st.sampled_from(["", "t1", "t123"]),
    st.builds(Label, st.booleans(), st.just(True)),
    st.integers(0, 4_000_000_000).map(float),
    st.builds("{}/{}".format, WORD, st.integers(0, 10**9)),
    st.booleans(),
)


@given(SEENS)
def test_a_observation_is_read_as_it_was_written(one: Observation) -> None:
    note = filed(draft_of(one))
    assert observation_of(note) == one
    assert (note.key, note.status, note.subject) == (one.name, "pending", one.key)
    assert note.is_observation


def test_a_observation_that_was_put_right_by_hand_keeps_its_name() -> None:
    draft = draft_of(seen())
    edited = filed(rewritten(draft, "Likes green tea."))
    found = observation_of(edited)
    assert found is not None
    assert (found.text, found.name) == ("Likes green tea.", draft.key)


def rewritten(draft: NoteDraft, text: str) -> NoteDraft:
    return NoteDraft(
        draft.key, text, draft.label, draft.source, status=draft.status, more=draft.more
    )


@pytest.mark.parametrize(
    "content",
    ["", "Likes tea.", "---\nstatus: pending\n---\nLikes tea.", "---\nabout: tea\n---\nLikes tea."],
)
def test_what_others_wrote_is_no_observation_of(content: str) -> None:
    assert observation_of(parse("seen-1", content)) is None


def test_a_observation_whose_lines_were_broken_is_taken_for_the_worst() -> None:
    note = parse("seen-1", "---\nabout: tea\nstatus: pending\nseen: soon\nkind: odd\n---\nTea.")
    found = observation_of(note)
    assert found is not None
    assert (found.kind, found.at, found.label.untrusted, found.asked) == ("fact", 0.0, True, False)
    assert found.name == "seen-1"


@pytest.mark.parametrize("kind", ["fact", "procedure"])
def test_a_memory_is_read_as_it_was_written(kind: str) -> None:
    one = msgspec.convert(
        {"key": "tea", "text": "Green.", "kind": kind, "label": {}, "at": 60.0, "source": "tg-1"},
        KnownFact,
    )
    private = msgspec.structs.replace(one, label=Label(private=True))
    assert fact_of(filed(draft_of(one))) == private


def test_what_people_wrote_above_a_observation_stays() -> None:
    old = ("# mine", *(draft_of(seen()).more or ()))
    new = draft_of(seen(asked=True)).more or ()
    assert above(old, new) == ("# mine", *new)


# --- in the store ---------------------------------------------------------------------------------


def test_the_same_may_be_seen_more_than_once_and_is_then_kept_once(tmp_path: Path) -> None:
    with opened(tmp_path) as memory:
        both = [draft_of(seen(session=name)) for name in "ab"]
        assert memory.save(both, batch="a/1", learned=True) == [Saved(one.key) for one in both]
        assert memory.save([draft_of(kept())], batch="b/1", learned=True) == [Saved("tea")]
        dropped = Lesson(dropped=(*(one.key for one in both), "tea", "absent"))
        memory._carry_out(dropped, "", learned=True)
        assert [note.key for note in memory.newest(9)] == ["tea"]
        assert pending(memory) == []
        [twin] = memory.save([draft("drink", "likes TEA")])
        assert twin == Saved("tea", known=True)


def test_what_was_forgotten_is_not_seen_again_either(tmp_path: Path) -> None:
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
        hashes = (*digests("tea", "Wants coffee."), *digests("drink", "likes the tea"))
        assert memory._tombstones.buried(hashes) == {hashes[0], hashes[3]}
        [again] = memory.save([draft_of(kept(key="drink"))], learned=True)
        assert isinstance(again, Unsaved)
        assert again.forgotten


def test_what_was_seen_once_of_a_forgotten_note_is_not_kept_for_undoing(tmp_path: Path) -> None:
    with opened(tmp_path) as memory:
        save(memory, "tea", "Likes tea.")
        other = seen("Prefers zanzibar coffee.", "tea")
        memory.save([draft_of(other)], batch="a/1", learned=True)
        memory.save([draft_of(replace(other, asked=True))], batch="b/1", learned=True)
        memory._carry_out(Lesson(dropped=(other.name,)), "", learned=True)
        memory.forget(["tea"])
        path = tmp_path / "memory.undo"
        batches = msgspec.json.decode(path.read_bytes(), type=list[UndoBatch])
        assert [write.key for batch in batches for write in batch.writes if write.before] == []


def test_what_was_refused_or_taken_back_may_be_learned_in_other_words(tmp_path: Path) -> None:
    with opened(tmp_path) as memory:
        one, other = seen(), seen("Has a cat.", "cat")
        memory.save([draft_of(one)], batch="a/1", learned=True)
        memory.settle(one.code, 0.0, is_kept=False)
        memory.save([draft_of(other)], batch="a/2", learned=True)
        assert memory.undo() == Undone(0.0, ("cat",))
        assert pending(memory) == []
        answers = memory.save(
            [
                draft_of(kept(text, key))
                for key, text in (("tea", "Likes tea"), ("cat", "has a CAT"), ("cat", "Has two."))
            ],
            learned=True,
        )
        assert [isinstance(answer, Saved) for answer in answers] == [False, False, True]
