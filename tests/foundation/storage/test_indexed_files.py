"""An index beside its files: missing entries are detected."""

from collections.abc import Iterator
from pathlib import Path

from elwood.foundation.storage.indexed_files import IndexedFiles
from elwood.foundation.storage.search_index import DatabaseUnusable, Document, SearchQuery


class Texts(dict[str, str]):
    """Files in a mapping."""

    def stamps(self) -> Iterator[tuple[str, str]]:
        yield from list(self.items())

    def document(self, key: str, /) -> Document | None:
        return Document(key=key, stamp=self[key], text=self[key], untrusted=False)


def test_an_interrupted_change_stays_incomplete(tmp_path: Path) -> None:
    indexed = IndexedFiles(Texts(a="one", b="two"), tmp_path / "index.db", step=1)
    assert list(indexed.catch_up()) == [1, 1]
    assert indexed.is_ready

    steps = indexed.catch_up()
    next(steps)
    indexed.distrust(DatabaseUnusable("the disk is full"))
    assert list(steps) == [0]
    assert not indexed.is_ready

    list(indexed.catch_up())
    assert indexed.is_ready
    indexed.close()


def test_a_missing_index_is_created(tmp_path: Path) -> None:
    path, files = tmp_path / "index.db", Texts()
    indexed, query = IndexedFiles(files, path), SearchQuery(query="one", now=0.0)
    assert list(indexed.catch_up()) == []
    assert (indexed.is_ready, indexed.is_empty, path.exists()) == (True, True, False)
    assert (indexed.index.search(query), indexed.index.count()) == ([], 0)

    files["a"] = "one"
    indexed.put("a")
    assert path.exists()
    list(indexed.catch_up())
    assert [hit.key for hit in indexed.index.search(query)] == ["a"]

    path.unlink()
    assert not indexed.is_ready
    indexed.close()
