"""Undo, retry and branches, as the person sees them."""

from pathlib import Path

import pytest
import trio
import trio.testing

from elwood.agent.conversation.inbound import Taken
from elwood.agent.conversation.message import Assistant, Human, Notice, Results
from elwood.agent.conversation.settings import TurnSettings
from elwood.agent.models.messages import Complete, Completed
from elwood.agent.session.log.entries import Archived, Compacted, Entry, Received, Replied
from elwood.agent.session.log.state import Session
from elwood.foundation.runtime import inline
from elwood.foundation.storage.disk import Disk
from elwood.foundation.storage.journal import Journal, entries_of
from tests.agent.session.scene import Process, World, echo, run_process
from tests.agent.session.scripted import answer, call


@pytest.fixture
def world(tmp_path: Path, virtual_time: None) -> World:
    return World(tmp_path)


async def say(h: Process, *texts: str) -> None:
    for text in texts:
        assert await h.say(text) == Taken()
        await h.quiet()


def read_messages(world: World) -> list[str]:
    """Return the messages of people in the model's last request."""
    return [m.text.split("\n", 1)[1] for m in world.asked[-1].messages if isinstance(m, Human)]


def read_notices(world: World) -> list[str]:
    return [m.text for m in world.asked[-1].messages if isinstance(m, Notice)]


def read_entries(world: World) -> list[Entry]:
    return [entry for _, _, entry in entries_of(world.folder / "sessions/s.jsonl", Entry)]


def count_answers(world: World) -> dict[str, int]:
    """Return the number of answers of each message."""
    log = read_entries(world)
    replies = [entry for entry in log if isinstance(entry, Replied)]
    ids = [entry.id for entry in log if isinstance(entry, Received)]
    return {id_: sum(id_ in reply.inputs for reply in replies) for id_ in ids}


async def test_undo_reads_only_its_part_of_the_log(world: World) -> None:
    """In a log of a year, the first months are not read; here they are unreadable."""
    async with run_process(world) as h:
        await say(h, *(f"{number} {'long ' * 20_000}" for number in range(9)), "/new")
        await say(h, "one", "/new", "two", "three")
        old = [*(world.folder / "sessions").glob("s.*.jsonl.gz")]
        assert len(old) > 3
        for path in old:
            path.write_bytes(b"")
        await say(h, "/retry", "/undo 2", "/resume 2", "four")

    assert read_messages(world) == ["one", "four"]
    assert "your last 2 messages" in world.said[-3]


@pytest.mark.parametrize(
    ("given", "left", "told"),
    [
        ("1", ["one", "two", "four"], "I took back your last message and everything after it"),
        ("2", ["one", "four"], "I took back your last 2 messages and everything after it"),
        ("9", ["four"], "I took back your last 3 messages and everything after it"),
        ("ALL", ["four"], "I took back this whole conversation"),
        ("0", ["one", "two", "three", "four"], "Tell me how many of your messages"),
        ("two", ["one", "two", "three", "four"], "Tell me how many of your messages"),
        ("-1", ["one", "two", "three", "four"], "Tell me how many of your messages"),
    ],
)
async def test_undo_takes_a_count(world: World, given: str, left: list[str], told: str) -> None:
    async with run_process(world) as h:
        await say(h, "one", "two", "three", f"/undo {given}", "four")
        assert read_messages(world) == left
        assert world.said[3].startswith(told)
        await say(h, "/resume", "five")

    if len(left) < 4:
        assert read_messages(world) == ["one", "two", "three", "five"]


async def test_undo_takes_back_a_summary(world: World) -> None:
    world.settings = TurnSettings(context_tokens=8000)
    async with run_process(world) as h:
        await say(h, *(f"{number} {'long ' * 2000}" for number in range(9)))
        assert any(isinstance(entry, Compacted) for entry in read_entries(world))
        await say(h, "/undo all", "and now")

    assert read_messages(world) == ["and now"]
    assert len(world.asked[-1].messages) == 1


async def test_undo_stops_at_the_first_message(world: World) -> None:
    async with run_process(world) as h:
        await say(h, "/undo", "/retry", "/branch x", "/resume", "/export", "one", "/undo", "/undo")

    assert [said.split(" ", 2)[0:2] for said in world.said[:3]] == [
        ["There", "is"],
        ["There", "is"],
        ["This", "conversation"],
    ]
    assert world.said[3].startswith("There is no other conversation")
    assert world.said[-1].startswith("There is nothing to take back")


async def test_undo_lists_the_effects(world: World) -> None:
    world.model = act_once
    async with run_process(world) as h:
        await say(h, "act", "/undo")

    assert "My actions from that part are not undone" in world.said[-1]
    assert "✓ act rent" in world.said[-1]
    assert world.effects.done == ["act rent"]


async def act_once(request: Complete) -> Completed:
    """Call `act` for the first "act", and `look` for "look"."""
    last = request.messages[-1]
    if isinstance(last, Human) and last.text.endswith("act") and not notices_in(request):
        return call(("c", "act", '{"name": "rent"}'))
    if isinstance(last, Human) and last.text.endswith("look"):
        return call(("c", "look", '{"name": "sky"}'))
    return await echo(request)


def notices_in(request: Complete) -> list[str]:
    return [m.text for m in request.messages if isinstance(m, Notice)]


async def test_retry_answers_the_same_words_again(world: World) -> None:
    answers = ["first", "good", "better"]

    async def model(request: Complete) -> Completed:
        await trio.lowlevel.checkpoint()
        return answer(answers.pop(0))

    world.model = model
    async with run_process(world) as h:
        await say(h, "zero", "what?", "/retry")

    assert world.said == ["first", "good", "better"]
    assert read_messages(world) == ["zero", "what?"]
    assert not read_notices(world)
    assert set(count_answers(world).values()) == {1}


async def test_each_retry_tells_the_model_the_effects(world: World) -> None:
    world.model = act_once
    async with run_process(world) as h:
        await say(h, "act", "/retry")
        assert "✓ act rent" in read_notices(world)[0]
        await say(h, "/retry")

    assert world.effects.done == ["act rent"]
    assert len(read_notices(world)) == 1
    assert "✓ act rent" in read_notices(world)[0]
    assert read_messages(world) == ["act"]


async def test_retry_takes_back_joined_messages(world: World) -> None:
    first = trio.Event()

    async def model(request: Complete) -> Completed:
        if not first.is_set():
            assert request.progress is not None
            await trio.sleep(1)
            request.progress("I think")
            first.set()
            await trio.sleep(60)
            return call(("c", "look", '{"name": "sky"}'))
        return await echo(request)

    world.model = model
    async with run_process(world) as h:
        await h.say("one")
        await first.wait()
        await h.say("two")
        await h.quiet()
        await say(h, "/retry")

    assert world.asked[-1].messages[-1].text.split("\n", 1)[1] == "one\ntwo"  # type: ignore[union-attr]
    assert len(world.asked[-1].messages) == 1


async def test_branches_can_be_left_and_resumed(world: World) -> None:
    async with run_process(world) as h:
        await say(
            h, "one", "/branch Trip", "two", "/resume trip", "three", "/sessions", "/resume 1"
        )
        tree = world.said[-2]
        await say(h, "four")

    assert read_messages(world) == ["one", "two", "four"]
    assert "2 Trip: saved" in tree
    assert "1: left" in tree
    assert "→ 3: here, 2 turns" in tree
    assert "“one” … “three”" in tree


async def test_unknown_numbers_are_refused(world: World) -> None:
    async with run_process(world) as h:
        await say(h, "one", "/branch 7", "/resume 7", "/resume nowhere")

    assert "does not have that many messages" in world.said[1]
    assert "/sessions" in world.said[2]
    assert "“nowhere”" in world.said[3]


@pytest.mark.parametrize("command", ["/undo", "/new", "/resume", "/retry", "/branch b"])
async def test_a_running_turn_is_stopped_first(world: World, command: str) -> None:
    hung = trio.Event()

    async def model(request: Complete) -> Completed:
        last = request.messages[-1]
        if isinstance(last, Human) and last.text.endswith("hang") and not hung.is_set():
            hung.set()
            await trio.sleep_forever()
        return await echo(request)

    world.model = model
    async with run_process(world) as h:
        await say(h, "old", "/new", "one")
        await h.say("hang")
        await hung.wait()
        start = trio.current_time()
        await h.say(command)
        await h.quiet()
        assert trio.current_time() - start < 2
        await say(h, "next")

    assert any(said.startswith("Stopped.") for said in world.said)
    expected = {
        "/undo": ["one", "next"],
        "/new": ["next"],
        "/resume": ["old", "next"],
        "/retry": ["one", "hang", "next"],
        "/branch b": ["one", "hang", "next"],
    }
    assert read_messages(world) == expected[command]
    assert set(count_answers(world).values()) == {1}


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["/new", "two", "/undo", "three"], ["three"]),
        (["two", "/undo", "three"], ["one", "three"]),
        (["two", "/new", "three", "four"], ["three", "four"]),
        (["/retry", "/undo", "three"], ["three"]),
        (["/retry", "/retry", "three"], ["one", "three"]),
        (["/new", "/resume", "three"], ["one", "three"]),
        (["/undo", "/resume 1", "three"], ["one", "three"]),
    ],
)
async def test_commands_run_in_order(world: World, texts: list[str], expected: list[str]) -> None:
    """A message after a command belongs to the branch that the command opens."""
    async with run_process(world) as h:
        await say(h, "one")
        for text in texts:
            assert await h.say(text) == Taken()
        await h.quiet()
        await say(h, "last")

    assert set(count_answers(world).values()) == {1}
    assert "\n".join(read_messages(world)).split("\n") == [*expected, "last"]


# --- archives ------------------------------------------------------------------------------------


async def test_a_busy_conversation_is_not_unloaded(world: World) -> None:
    world.archive, world.idle = 3600.0, 10_000.0
    async with run_process(world) as h:
        for text in ("one", "two", "three"):
            await say(h, text)
            await trio.sleep(3000)

    assert read_messages(world) == ["one", "two", "three"]
    assert not any(isinstance(entry, Archived) for entry in read_entries(world))


# --- crashes -------------------------------------------------------------------------------------

STORY = (
    *("one", "act", "/branch Trip", "two", "/retry", "/undo", "/resume trip", "/retry"),
    *("three", "/new", "four", "/resume 1", "five"),
)


async def test_a_crash_after_any_line_changes_nothing(tmp_path: Path) -> None:
    """A restart continues from the log; every message has one outcome."""
    whole = World(tmp_path / "whole")
    whole.folder.mkdir()
    whole.model = act_once
    async with run_process(whole) as h:
        for number, text in enumerate(STORY):
            await h.say(text, id_=f"x{number}")
            await h.quiet()
    lines = (whole.folder / "sessions/s.jsonl").read_bytes().splitlines(keepends=True)
    expected = read_messages(whole)
    assert expected == ["one", "act", "two", "five"]

    for cut in range(1, len(lines), 2):
        world = World(tmp_path / str(cut))
        (world.folder / "sessions/open").mkdir(parents=True)
        (world.folder / "sessions/open" / "s").touch()
        (world.folder / "sessions/s.jsonl").write_bytes(b"".join(lines[:cut]))
        world.model = act_once
        async with run_process(world) as h:
            await trio.testing.wait_all_tasks_blocked()
            await h.quiet()
            for number, text in enumerate(STORY):
                await h.say(text, id_=f"x{number}")
                await h.quiet()
        assert set(count_answers(world).values()) == {1}, f"after line {cut}"
        assert not world.asked or read_messages(world) == expected, f"after line {cut}"
        assert world.effects.done in ([], ["act rent"]), f"after line {cut}"
        await check_replay(world)


async def check_replay(world: World) -> None:
    """Check that the log can be read and the model's history is valid."""
    disk = Disk(blocking=inline, clock=trio.current_time)
    journal: Journal[Entry, Session] = Journal(
        world.folder / "sessions/s.jsonl", Entry, Session, disk
    )
    await journal.open()
    state = journal.state
    assert state.is_idle
    assert list(state.messages) == [node.message for node in state.path]
    for before, after in zip(state.messages, state.messages[1:], strict=False):
        if isinstance(before, Assistant) and before.calls:
            assert isinstance(after, Results)
