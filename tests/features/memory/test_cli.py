"""`elwood memory`: show and forget notes from a shell, with and without a running Elwood."""

import json
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
import trio.testing

from elwood.features.control.actor import Control
from elwood.features.memory.parts import control_command
from elwood.foundation.net.control import NAME
from elwood.foundation.runtime import Mailbox, in_thread
from elwood.foundation.storage.disk import lock_state as lock
from tests.app.test_cli import elwood, write_config
from tests.features.memory.store_alone import draft, holding, opened, remembering, save


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with three notes, in a state folder without a running Elwood."""
    state = tmp_path / "state"
    write_config(tmp_path, f'[paths]\nstate = "{state}"\n')
    now = 0.0
    with opened(state, clock=lambda: now) as memory:
        save(memory, "tea", "Green tea, from Zanzibar")
        now = 86_400.0
        save(memory, "strange", "Green words", untrusted=True)
        memory.save([draft("maybe", "Green eyes", status="pending")])
    return tmp_path


def test_notes_are_listed_searched_and_shown(home: Path) -> None:
    head, *lines = elwood(home, "memory", "list").stdout.splitlines()
    assert head.split() == ["changed", "key", "note"]
    assert [re.sub(r"^[0-9]+ d ago +", "", line) for line in lines] == [
        "maybe    [pending] Green eyes",
        "strange  [untrusted] Green words",
        "tea      Green tea, from Zanzibar",
    ]
    (home / "state/memory/old.md").write_text("---\nstatus: archived\nkind: episode\n---\nGone")
    for only, key in (
        ("--status=archived", "old"),
        ("--kind=episode", "old"),
        ("--status=pending", "maybe"),
    ):
        [note] = json.loads(elwood(home, "memory", "list", only, "--json").stdout)
        assert note["key"] == key
    found = json.loads(elwood(home, "memory", "search", "green", "TEA", "--json").stdout)
    assert [(note["key"], note["text"]) for note in found] == [("tea", "Green tea, from Zanzibar")]
    shown = elwood(home, "memory", "show", "tea")
    assert shown.stdout == (home / "state" / "memory" / "tea.md").read_text()
    assert elwood(home, "memory", "search", "absent").returncode == 1
    assert elwood(home, "memory", "show", "absent").returncode == 1
    wrong = elwood(home, "memory", "show", "../tea")
    assert (wrong.returncode, "lowercase letters" in wrong.stderr) == (2, True)
    assert elwood(home, "memory").stdout == elwood(home, "memory", "list").stdout != ""


def test_reading_works_beside_a_running_elwood(home: Path) -> None:
    state = home / "state"
    before = sorted(path.name for path in state.iterdir() if ".db" not in path.name)
    with lock(state):
        assert "tea" in elwood(home, "memory", "search", "tea").stdout
        assert "tea" in elwood(home, "memory", "list").stdout
    after = sorted(path.name for path in state.iterdir() if ".db" not in path.name)
    assert after == sorted([*before, "lock"])


def test_without_a_running_elwood_nothing_is_forgotten(home: Path) -> None:
    done = elwood(home, "memory", "forget", "tea")
    assert (done.returncode, done.stdout) == (1, "")
    assert "Start it with: elwood run" in done.stderr
    assert holding(home / "state", "zanzibar")


@pytest.fixture
def runtime() -> Iterator[Path]:
    """A folder with a short name: a socket's path has at most 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="elwood-") as name:
        yield Path(name)


async def test_a_running_elwood_forgets(home: Path, runtime: Path) -> None:
    state = home / "state"
    config = home / ".config" / "elwood" / "config.toml"
    config.write_text(config.read_text() + f'runtime = "{runtime}"\n')
    with lock(state):
        async with remembering(state, blocking=in_thread) as memory:
            control = Control(runtime, [control_command(memory)], redact=str, blocking=in_thread)
            mailbox: Mailbox[None] = Mailbox("control", 1)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(control.run, mailbox)
                with trio.fail_after(60):
                    while not (runtime / NAME).exists():  # noqa: ASYNC110 - a thread creates it
                        await trio.sleep(0.01)
                await trio.testing.wait_all_tasks_blocked(0.1)  # and it listens
                done = await in_thread(lambda: elwood(home, "memory", "forget", "tea"))
                again = await in_thread(lambda: elwood(home, "memory", "forget", "tea"))
                mailbox.close()
        assert holding(state, "zanzibar") == []
    assert "Forgot tea" in done.stdout
    assert "no note called tea" in again.stderr
