"""The history, completion, and pasted blocks."""

from pathlib import Path

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from elwood.features.console.editing import (
    MAX_ENTRIES,
    LineCompleter,
    PastedBlocks,
    PersistentHistory,
)


def test_the_history_is_bounded_private_and_survives_a_crash(tmp_path: Path) -> None:
    path = tmp_path / "history"
    history = PersistentHistory(path)
    for number in range(2 * MAX_ENTRIES):
        history.store_string(f"a\n{number}")
    history.store_string("x" * 100_000)  # too long to store
    with path.open("a") as file:
        file.write('"cut\n\udcff'.encode("utf-8", "surrogateescape").decode("latin-1"))
    kept = list(PersistentHistory(path).load_history_strings())
    assert kept[0] == f"a\n{2 * MAX_ENTRIES - 1}"
    assert MAX_ENTRIES - 2 <= len(kept) <= MAX_ENTRIES
    assert len(path.read_bytes().splitlines()) == MAX_ENTRIES
    assert path.stat().st_mode & 0o777 == 0o600


def test_an_unwritable_history_is_empty(tmp_path: Path) -> None:
    history = PersistentHistory(tmp_path / "missing" / "history")
    history.append_string("a")
    assert list(history.load_history_strings()) == []
    assert history.get_strings() == ["a"]


def completed(text: str) -> list[str]:
    export = "as a file\n/export md or /export html."
    served = [("docs:review", "arguments: file"), ("@docs:file:///Plan.md", "the plan")]
    words = LineCompleter(
        [("stop", "stop the answer"), ("status", "how I am"), ("export", export), *served]
    )
    found = words.get_completions(Document(text), CompleteEvent())
    return [one.text for one in found]


def test_commands_and_file_names_are_completed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("notes.txt", "no\x1b[2Jtes", "no tes"):
        (tmp_path / name).touch()
    assert completed("/st") == ["/stop", "/status"]
    assert completed("see /st") == []
    assert completed("/exp") == ["/export"]
    assert completed("/export ") == ["/export md", "/export html"]
    assert completed("/export h") == ["/export html"]
    (tmp_path / "letters" / ".old").mkdir(parents=True)
    for name in ("letters/Snow.md", "letters/two snow.md", "letters/.old/snow.md"):
        (tmp_path / name).touch()
    assert completed("see @no") == ["tes.txt", "letters/Snow.md"]
    assert completed("a@no") == []
    assert completed("/doc") == ["/docs:review"]
    assert completed("see @docs:") == completed("@plan") == ["docs:file:///Plan.md"]
    assert completed("/@docs") == []


def test_a_pasted_block_is_folded_and_unfolded() -> None:
    pasted = PastedBlocks()
    assert pasted.fold("a\r\nb") == "a\nb"
    first, second = pasted.fold("a\n" * 37), pasted.fold("b\n" * 37)
    assert (first, second) == ("[37 lines pasted]", "[37 lines pasted, 2]")
    assert pasted.unfold(f"{first} and {second}") == "a\n" * 37 + " and " + "b\n" * 37
    assert pasted.mark_at_end(f"x {second}") == second
    assert pasted.fold("x" * 1001) == "[1,001 characters pasted]"
