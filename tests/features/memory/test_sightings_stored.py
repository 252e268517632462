"""Sightings in the memory: many alike, kept once, forgotten and taken back with what they say."""

from pathlib import Path

import msgspec
from msgspec.structs import replace

from elwood.features.memory.learning import digests
from elwood.features.memory.observations import remembered, sighted
from elwood.features.memory.results import (
    Forgotten,
    Saved,
    Undone,
    Unsaved,
)
from elwood.features.memory.undo import Batch
from tests.features.memory.notebook import kept, seen
from tests.features.memory.remembering import draft, holding, opened, save


def test_the_same_may_be_seen_more_than_once_and_is_then_kept_once(tmp_path: Path) -> None:
    with opened(tmp_path) as memory:
        both = [sighted(seen(session=name)) for name in "ab"]
        assert memory.save(both, batch="a/1", learned=True) == [Saved(one.key) for one in both]
        assert memory.save([remembered(kept())], batch="b/1", learned=True) == [Saved("tea")]
        assert memory.discard([*(one.key for one in both), "tea", "absent"], ()) == ""
        assert [note.key for note in memory.newest(9)] == ["tea"]
        assert memory.newest(9, pending=True) == []
        [twin] = memory.save([draft("drink", "likes TEA")])
        assert twin == Saved("tea", known=True)


def test_what_was_forgotten_is_not_seen_again_either(tmp_path: Path) -> None:
    with opened(tmp_path) as memory:
        alike, about, other = (
            seen("Likes tea!", "drink"),
            seen("Wants zanzibar tea.", "tea"),
            seen("Has a cat.", "cat"),
        )
        memory.save([sighted(one) for one in (alike, about, other)], batch="a/1", learned=True)
        save(memory, "tea", "Likes tea.")
        assert memory.forget(["tea"]) == Forgotten(("tea",))
        assert [note.text for note in memory.newest(9, pending=True)] == ["Has a cat."]
        assert holding(tmp_path, "zanzibar", "likes tea") == []
        hashes = (*digests("tea", "Wants coffee."), *digests("drink", "likes the tea"))
        assert memory.buried(hashes) == {hashes[0], hashes[3]}
        [again] = memory.save([remembered(kept(key="drink"))], learned=True)
        assert isinstance(again, Unsaved)
        assert again.forgotten


def test_what_was_seen_once_of_a_forgotten_note_is_not_kept_for_undoing(tmp_path: Path) -> None:
    with opened(tmp_path) as memory:
        save(memory, "tea", "Likes tea.")
        other = seen("Prefers zanzibar coffee.", "tea")
        memory.save([sighted(other)], batch="a/1", learned=True)
        memory.save([sighted(replace(other, asked=True))], batch="b/1", learned=True)
        memory.discard([other.name], ())
        memory.forget(["tea"])
        path = tmp_path / "memory.undo"
        batches = msgspec.json.decode(path.read_bytes(), type=list[Batch])
        assert [write.key for batch in batches for write in batch.writes if write.before] == []


def test_what_was_refused_or_taken_back_may_be_learned_in_other_words(tmp_path: Path) -> None:
    with opened(tmp_path) as memory:
        one, other = seen(), seen("Has a cat.", "cat")
        memory.save([sighted(one)], batch="a/1", learned=True)
        memory.discard([one.name], digests(one.key, one.text)[1:])
        memory.save([sighted(other)], batch="a/2", learned=True)
        assert memory.undo() == Undone(0.0, ("cat",))
        assert memory.newest(9, pending=True) == []
        answers = memory.save(
            [
                remembered(kept(text, key))
                for key, text in (("tea", "Likes tea"), ("cat", "has a CAT"), ("cat", "Has two."))
            ],
            learned=True,
        )
        assert [isinstance(answer, Saved) for answer in answers] == [False, False, True]
