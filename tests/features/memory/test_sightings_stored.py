"""Sightings in the memory: many alike, kept once, forgotten and taken back with what they say."""

from pathlib import Path

import msgspec
from msgspec.structs import replace

from elwood.features.memory.learning import Lesson, digests, draft_of
from elwood.features.memory.messages import (
    Forgotten,
    Saved,
    Undone,
    Unsaved,
)
from elwood.features.memory.undo import UndoBatch
from tests.features.memory.notebook import kept, seen
from tests.features.memory.remembering import draft, holding, opened, pending, save


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
