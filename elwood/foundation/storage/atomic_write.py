"""Writing and removing files beneath one folder, so that a crash leaves the old or the new.

The folder that a file is in is opened beneath the root and held; everything else happens by single
names in it, which are never followed (security.md §2, reliability.md §2).
"""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

from elwood.foundation.storage import taint_marks as marks
from elwood.foundation.storage import temporary_files as temporary
from elwood.foundation.storage.confined import Confined, PathMissing, PathRefused
from elwood.foundation.storage.syscalls import Calls
from elwood.foundation.storage.write_target import (
    Place,
    not_written,
    placed,
    umask,
)

# Between the last look at a file and the rename nobody else in this process may replace it.
_replacing = threading.Lock()


class Writer:
    """Changes files beneath *confined*, by *calls*."""

    def __init__(self, confined: Confined, calls: Calls) -> None:
        self._confined = confined
        self._calls = calls
        # Folders in which nothing is left from before, by device and inode.
        self._swept: set[tuple[int, int]] = set()

    def write(
        self, path: str, data: bytes, *, untrusted: bool, expect: os.stat_result | None
    ) -> Literal["created", "replaced"]:
        """See `Root.write`."""
        with placed(self._confined, self._calls, path, untrusted=untrusted, make=True) as place:
            self._sweep(place.folder)
            old = place.found(expect)
            try:
                with self._temporary(place, untrusted=untrusted) as (temp, fd):
                    while data:
                        data = data[self._calls.write(fd, data) :]
                    os.fchmod(fd, 0o666 & ~umask() if old is None else old.st_mode & 0o777)
                    self._calls.sync(fd)
                    with _replacing:
                        old = place.found(expect)
                        place.need_there(self._confined)
                        place.need_same(temp.name, fd)
                        self._calls.rename(temp, place.named(place.name))
                        self._check(place, fd, created=old is None)
                self._settle(place)
            except OSError as error:
                raise not_written(path, error) from error
        return "created" if old is None else "replaced"

    def remove(self, path: str, *, untrusted: bool) -> None:
        """See `Root.remove`."""
        with placed(self._confined, self._calls, path, untrusted=untrusted, make=False) as place:
            if place.found() is None:
                raise PathMissing(path, "does not exist")
            place.need_there(self._confined)
            try:
                self._calls.unlink(place.named(place.name))
                self._calls.sync(place.folder)
            except OSError as error:
                raise not_written(path, error) from error

    @contextmanager
    def _temporary(self, place: Place, *, untrusted: bool) -> Iterator[tuple[Path, int]]:
        """Make the file that is to be renamed; if the block fails, it vanishes."""
        name, fd = temporary.make(self._calls, place.folder)
        try:
            if untrusted:
                marks.mark(fd)
            yield place.named(name), fd
        except BaseException:  # whatever it was, and it goes on: only the temporary file must go
            with suppress(OSError):
                self._calls.unlink(place.named(name))
            raise
        finally:
            self._calls.close(fd)

    def _check(self, place: Place, fd: int, *, created: bool) -> None:
        """Refuse if somebody came between; a new file is taken back, what was replaced is gone."""
        try:
            place.need_there(self._confined)
            place.need_same(place.name, fd)
        except PathRefused:
            if created:
                with suppress(PathRefused, OSError):
                    place.need_same(place.name, fd)
                    self._calls.unlink(place.named(place.name))
            raise

    def _settle(self, place: Place) -> None:
        """Make the new name survive a power cut."""
        try:
            self._calls.sync(place.folder)
        except OSError as error:
            why = f"was written, but may be lost in a power cut ({error.strerror})"
            raise PathRefused(place.path, why) from error

    def _sweep(self, folder: int) -> None:
        found = os.fstat(folder)
        place = (found.st_dev, found.st_ino)
        if place not in self._swept:
            temporary.sweep(self._calls, folder)
            self._swept.add(place)
