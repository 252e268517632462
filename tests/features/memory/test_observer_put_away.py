"""What is put away before it was quiet is observed as well: once, each by itself."""

from pathlib import Path

import pytest
import trio
import trio.testing

from elwood.agent.models.messages import ModelUnavailable
from elwood.agent.session.settings import LearningSettings
from tests.agent.session.scripted import answer
from tests.features.memory.observing import QUIET, TEA, Scene, facts, hear
from tests.journeys.scene import house


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


async def test_what_was_put_away_at_once_is_looked_at_by_itself(
    scene: Scene, autojump_clock: object
) -> None:
    async with house(scene.world) as h:
        for text in ("I like tea", "/new", "number two", "/new", "number three"):
            await h.say(text)
            await h.quiet()
        await trio.sleep(QUIET + 10)
        assert len(scene.passes) == 3  # one quiet is enough for all
        await trio.sleep(400)

    first, second, third = (repr(one.messages) for one in scene.passes)
    assert "I like tea" in first
    assert "number" not in first
    assert "number two" in second
    assert "number three" in third
    assert "number two" not in third
    assert scene.notebook.remembered == {"tea": "Likes tea."}
    assert scene.observed == 3
    assert not list((scene.world.folder / "sessions/open").iterdir())


async def test_what_was_archived_before_it_was_looked_at_is_looked_at_then(
    scene: Scene, autojump_clock: object
) -> None:
    async with house(scene.world) as h:
        await h.say("I like tea")
        await trio.sleep(60)
    scene.world.archive = 3600.0
    await trio.sleep(4000)
    async with house(scene.world) as h:
        await trio.sleep(60)
        assert not h.states["s"].path
        await trio.sleep(300)

    assert len(scene.passes) == 1
    assert scene.notebook.remembered == {"tea": "Likes tea."}
    [note] = scene.notebook.facts
    assert note.at < 10  # when it was said


async def test_what_was_taken_back_is_not_looked_at(scene: Scene, autojump_clock: object) -> None:
    async with house(scene.world) as h:
        for text in ("I like tea", "/undo", "/new", "one", "/retry", "two", "/undo"):
            await h.say(text)
            await h.quiet()
        await trio.sleep(400)

    [only] = scene.passes
    assert [text in repr(only.messages) for text in ("tea", "one", "two")] == [False, True, False]


async def test_each_stretch_is_looked_at_with_the_label_it_had(
    scene: Scene, autojump_clock: object
) -> None:
    scene.answers = [
        answer(facts({"kind": "fact", "key": "coffee", "text": "Likes coffee."})),
        answer(facts(TEA)),
    ]
    async with house(scene.world) as h:
        await hear(h, "he likes coffee")
        await h.say("/new")
        await h.say("I like tea")
        await h.quiet()
        await trio.sleep(400)

    assert ["trusted=no" in repr(one.messages) for one in scene.passes] == [True, False]
    assert [(one.key, one.label.untrusted) for one in scene.notebook.seen] == [("coffee", True)]
    assert scene.notebook.remembered == {"tea": "Likes tea."}


@pytest.mark.parametrize("at", [60.0, QUIET + 5], ids=["before the pass", "during it"])
async def test_a_restart_neither_repeats_nor_skips_what_was_put_away(
    scene: Scene, autojump_clock: object, at: float
) -> None:
    scene.slow = 20.0
    async with house(scene.world) as h:
        await h.say("I like tea")
        await h.say("/new")
        await trio.sleep(at)
    assert not scene.notebook.notes
    for _ in range(2):  # woken the first time, with nothing to do the second time
        async with house(scene.world):
            await trio.sleep(300)

    assert len(scene.passes) == 1 + (at > QUIET)
    assert scene.notebook.remembered == {"tea": "Likes tea."}
    assert scene.observed == 1
    assert not list((scene.world.folder / "sessions/open").iterdir())


async def test_a_crash_before_the_record_costs_one_pass_and_counts_nothing_twice(
    scene: Scene, autojump_clock: object
) -> None:
    scene.settings = LearningSettings(mode="suggest", threshold=3)
    async with house(scene.world) as h:
        await h.say("I like tea")
        await h.say("/new")
        await trio.sleep(300)
    log = scene.world.folder / "sessions/s.jsonl"
    *lines, last = log.read_bytes().splitlines(keepends=True)
    assert b'"observed"' in last
    # What a kill just before the last write would have left.
    log.write_bytes(b"".join(lines))
    (scene.world.folder / "sessions/open" / "s").touch()
    for _ in range(2):
        async with house(scene.world):
            await trio.sleep(300)

    assert len(scene.passes) == 2
    assert len(scene.notebook.seen) == 1
    assert scene.observed == 1


async def test_a_message_meanwhile_breaks_off_what_is_made_later(
    scene: Scene, autojump_clock: object
) -> None:
    scene.slow = 20.0
    async with house(scene.world) as h:
        await h.say("I like tea")
        await h.say("/new")
        await trio.sleep(QUIET + 5)
        assert len(scene.passes) == 1
        await h.say("two")
        await h.quiet()
        assert scene.world.said[-1] == "re: two"
        assert not scene.notebook.notes
        await trio.sleep(400)

    assert ["I like tea" in repr(one.messages) for one in scene.passes] == [True, True, False]
    assert scene.observed == 2


async def test_what_was_put_away_and_failed_is_made_when_something_new_is_said(
    scene: Scene, autojump_clock: object
) -> None:
    scene.answers = [ModelUnavailable("away"), answer(facts(TEA))]
    async with house(scene.world) as h:
        await h.say("I like tea")
        await h.say("/new")
        await trio.sleep(550)
        assert len(scene.passes) == 1
        await h.say("indeed")
        await trio.sleep(300)

    assert len(scene.passes) == 3
    assert scene.notebook.remembered == {"tea": "Likes tea."}


async def test_a_log_that_cannot_be_read_back_stops_learning_only(
    scene: Scene, autojump_clock: object
) -> None:
    async with house(scene.world) as h:
        await h.say("I like tea")
        await h.say("/new")
        await h.quiet()
        log = scene.world.folder / "sessions/s.jsonl"
        whole = log.read_bytes()
        log.write_bytes(whole.replace(b"I like tea", b"I like ink"))
        await trio.sleep(300)
        log.write_bytes(whole)
        assert not scene.passes
        await h.say("indeed")
        await trio.sleep(300)

    assert scene.world.said[-1] == "re: indeed"
    assert scene.notebook.remembered == {"tea": "Likes tea."}


async def test_off_owes_nothing(scene: Scene, autojump_clock: object) -> None:
    scene.settings = LearningSettings(mode="off")
    async with house(scene.world) as h:
        await h.say("I like tea")
        await h.say("/new")
        await trio.sleep(1000)

    assert len(scene.world.asked) == 1
    assert not scene.observed
    assert not list((scene.world.folder / "sessions/open").iterdir())
