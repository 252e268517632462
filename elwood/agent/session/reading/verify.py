"""Verifies the journals with their own lines, and with records of them elsewhere."""

import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from elwood.foundation.command_line import USAGE, CliFailure, show_json
from elwood.foundation.settings import Config, Paths
from elwood.foundation.storage import anchors
from elwood.foundation.storage.anchors import (
    AnchorReleased,
    Anchors,
    CarriedHead,
    JournalAnchor,
    day,
)
from elwood.foundation.storage.disk import AlreadyRunning, lock_state
from elwood.foundation.storage.journal import JournalDamaged, Verified
from elwood.foundation.storage.journal import verify as verify_journal


class Witness(Protocol):
    """A source of anchors outside the state folder: a feature (`agent.feature.Feature`)."""

    @property
    def carried_heads(self) -> Callable[[Config], Iterable[CarriedHead]]: ...
    @property
    def extract_anchors(self) -> Callable[[Path, Path], None]: ...


def verify(config: Config, given: Namespace) -> int:
    """Verify the given journals, or all, with their files and anchors."""
    ours = None if given.paths else config.get(Paths)
    if ours is None and (given.against is not None or given.accept):
        raise CliFailure("--against and --accept check all journals: leave out the paths", USAGE)
    roots = given.paths or [config.get(Paths).state]
    paths = list(journals_in(roots))
    wanted, known = _read_anchors(paths)
    problems: list[str] = []
    if ours is not None and (ours.state in known or not (ours.state / anchors.NAME).exists()):
        problems += _compare_heads(config, given.features, *known.get(ours.state, (Anchors(), ())))
    if ours is not None and given.against is not None:
        problems += _compare_backup(given.against, given.features, ours.state, wanted)
    bad: list[Path] = []
    damages: list[str] = []
    sound: dict[str, str] = {}
    gone = [path for path in wanted if any(path.is_relative_to(root) for root in roots)]
    for path in dict.fromkeys((*paths, *gone)):
        expected, result = wanted.get(path, []), None
        try:
            if path.exists() or not expected:
                result = verify_journal(path, [one.head.seq for one in expected])
        except OSError as error:
            damages.append(f"{path}: cannot be read: {error.strerror}")
        except JournalDamaged as error:
            damages.append(f"{error.path}: DAMAGED: line {error.line} {error.why}")
        else:
            if problem := next(filter(None, (one.problem(result) for one in expected)), ""):
                bad.append(path)
                problems.append(f"{path}: {problem}")
            elif result is not None:
                sound[str(path)] = describe_verification(result)
                if not given.json:
                    print(f"{path}: {sound[str(path)]}")
    if given.json:
        show_json({"verified": sound, "problems": damages + problems})
    elif not paths:
        print("there are no journals", file=sys.stderr)
    for problem in damages + problems:
        print(problem, file=sys.stderr)
    if ours is not None and given.accept and problems:
        _accept(ours.state, bad)
        problems = []
    return 1 if damages or problems else 0


# Anchors by journal; and by state folder, with the digests of their lines.
Wanted = dict[Path, list[JournalAnchor]]
Known = dict[Path, tuple[Anchors, Collection[str]]]


def _read_anchors(paths: Iterable[Path]) -> tuple[Wanted, Known]:
    wanted: Wanted = {}
    known: Known = {}
    for folder in dict.fromkeys(one for path in paths for one in (path.parent, path.parent.parent)):
        with suppress(JournalDamaged, OSError):  # reported with the other journals
            known[folder] = anchors.history(folder)
            wanted |= {folder / name: [one] for name, one in known[folder][0].journals.items()}
    return wanted, known


def _compare_heads(
    config: Config, features: Iterable[Witness], known: Anchors, digests: Collection[str]
) -> Iterator[str]:
    """Compare the anchors with copies of their heads in files of *features*."""
    for one in (carried for feature in features for carried in feature.carried_heads(config)):
        if one.head not in digests and not known.is_void(one.begin, one.end):
            yield (
                f"{one.path}: has a head of the anchors that is not in {anchors.NAME}: lines of "
                "that file were removed or rewritten"
            )


def _compare_backup(
    backup: Path, features: Iterable[Witness], state: Path, wanted: Wanted
) -> list[str]:
    """Add the anchors in *backup* to *wanted*; return the errors of reading them."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            for feature in features:
                feature.extract_anchors(backup, Path(folder))
            known, _ = anchors.history(Path(folder))
        except (ValueError, JournalDamaged, FileNotFoundError) as error:
            return [f"{backup}: has no readable anchors: {error}"]
    try:
        own, _ = anchors.history(state)
    except (JournalDamaged, OSError):
        own = Anchors()
    for name, one in known.journals.items():
        if not own.is_void(one.at, one.at):
            ours = wanted.setdefault(state / name, [])
            one.first = max([one.first, *(other.first for other in ours)])
            ours.append(one)
    return []


def _accept(state: Path, bad: Iterable[Path]) -> None:
    """Stop reporting the missing parts: the journals continue from their present ends."""
    names = tuple(path.relative_to(state).as_posix() for path in bad if path.is_relative_to(state))
    try:
        with lock_state(state):
            why = "accepted on the command line"
            anchors.append_anchors(
                state, time.time(), AnchorReleased(names, why), AnchorReleased((), why)
            )
    except (AlreadyRunning, JournalDamaged) as error:
        raise CliFailure(f"{error}. Nothing was accepted.") from error
    print("Accepted. Elwood will no longer report what is missing.")


def journals_in(paths: Iterable[Path]) -> Iterator[Path]:
    """Yield the journals in *paths*; folders are searched recursively."""
    for path in paths:
        if path.is_dir():
            yield from sorted(path.rglob("*.jsonl"))
        else:
            yield path


def describe_verification(result: Verified) -> str:
    """Describe the result of a verification in one line."""
    text = f"{result.entries} entries in {result.lines} lines"
    if result.first is not None and result.last is not None:
        text += f" from {day(result.first)} to {day(result.last)}"
    if result.gone:
        text += f"; the {result.gone} entries before them were deleted"
    if result.torn:
        text += f", and {result.torn} bytes at the end that were never acknowledged"
    return f"{text}; head {result.head}"
