"""A search that reads every note: right whatever became of the index, and slow."""

import heapq
from collections.abc import Callable, Iterator
from itertools import islice

from elwood.features.memory.note import Note, expires
from elwood.features.memory.note_files import Filing
from elwood.features.memory.ranking import worth
from elwood.foundation.storage.search_index import SearchHit, SearchQuery
from elwood.foundation.storage.sqlite import CancelToken
from elwood.foundation.text.words import asked, saying

# Hits that are ranked, as many as by the index.
MOST_HITS = 200


class Files:
    """A `Lookup` over the files alone."""

    def __init__(self, files: Filing) -> None:
        self._files = files

    def search(self, asked_: SearchQuery, cancel: CancelToken) -> list[SearchHit]:
        """Find by words: notes that have all of them, else all but one, else any."""
        chosen = asked(asked_.query)
        found: dict[int, list[SearchHit]] = {}
        for note in self._notes(lambda: cancel.is_cancelled):
            until = expires(note)
            gone = until is not None and until <= asked_.now
            if note.status != "kept" or gone or (note.untrusted and not asked_.untrusted):
                continue
            different, score = worth(note, chosen)
            if different:
                # A word more is worth more than any place of one.
                whole = different == len(chosen)
                worth_ = different + score / 1000
                hit = SearchHit(note.key, worth_, note.updated, note.importance, whole)
                found.setdefault(different, []).append(hit)
        most = len(chosen)
        rest = [hit for hits in found.values() for hit in hits]
        match asked_.words:
            case "all":
                rest = found.get(most, [])
            case "all, else any":
                rest = found.get(most) or found.get(most - 1) or rest
        return heapq.nlargest(MOST_HITS, rest, key=lambda hit: hit.score)

    def twin(self, said: bytes) -> list[str]:
        """Name the notes that say the same."""
        return [note.key for note in self._notes() if saying(note.text) == said]

    def newest(self, limit: int, *, pending: bool = False) -> list[str]:
        """Name the newest notes, kept or *pending*, the newest first."""
        wanted = "pending" if pending else "kept"
        found = ((note.updated, note.key) for note in self._notes() if note.status == wanted)
        return [key for _, key in heapq.nlargest(limit, found)]

    def expired(self, before: float, limit: int) -> list[str]:
        """Name notes whose time was up at Unix time *before*."""
        found = (n.key for n in self._notes() if (until := expires(n)) and until <= before)
        return list(islice(found, limit))

    def _notes(self, is_over: Callable[[], bool] = lambda: False) -> Iterator[Note]:
        for key, _ in self._files.stamps():
            if is_over():
                return
            filed = self._files.read(key)
            if filed is not None:
                yield filed.note
