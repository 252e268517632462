"""An idle session is observed once, in the background, and within bounds."""

from pathlib import Path

import pytest
import trio
import trio.testing

from elwood.agent.models.messages import BudgetSpent, Complete, Completed, ModelUnavailable
from elwood.features.memory.settings import LearningSettings
from tests.agent.session.scene import run_process
from tests.agent.session.scripted import answer
from tests.features.memory.observing import QUIET, TEA, Scene, facts


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


async def test_a_quiet_conversation_is_observed_once(scene: Scene, autojump_clock: object) -> None:
    async with run_process(scene.world) as h:
        await h.say("I like tea")
        await trio.sleep(QUIET - 5)
        assert not scene.passes
        await trio.sleep(400)

    assert len(scene.passes) == 1
    assert scene.passes[0].session == "s"
    assert not scene.passes[0].prompt.tools
    assert "I like tea" in repr(scene.passes[0].messages)
    assert scene.notebook.remembered == {"tea": "Likes tea."}
    assert scene.observed == 1


async def test_only_new_messages_are_observed(scene: Scene, autojump_clock: object) -> None:
    async with run_process(scene.world) as h:
        for text in ("number one", "number two"):
            await h.say(text)
            await trio.sleep(300)

    assert len(scene.passes) == 2
    assert "number one" not in repr(scene.passes[1].messages)
    assert "tea: Likes tea." in repr(scene.passes[1].messages)


async def test_a_message_during_a_pass_is_answered_immediately(
    scene: Scene, autojump_clock: object
) -> None:
    scene.slow = 20.0
    async with run_process(scene.world) as h:
        await h.say("one")
        await trio.sleep(QUIET + 5)
        assert len(scene.passes) == 1
        before = trio.current_time()
        await h.say("two")
        await h.quiet()
        assert trio.current_time() - before < 1
        assert scene.world.said == ["re: one", "re: two"]
        await trio.sleep(300)

    assert len(scene.passes) == 2
    assert "two" in repr(scene.passes[1].messages)
    assert scene.observed == 2


async def test_messages_retracted_during_a_pass_are_not_learned(
    scene: Scene, autojump_clock: object
) -> None:
    scene.slow = 20.0
    async with run_process(scene.world) as h:
        await h.say("I like tea")
        await trio.sleep(QUIET + 5)
        await h.say("/undo")
        await trio.sleep(300)

    assert len(scene.passes) == 1
    assert not scene.notebook.notes


@pytest.mark.parametrize("at", [60.0, QUIET + 5], ids=["before the pass", "during it"])
async def test_a_restart_neither_repeats_nor_skips(
    scene: Scene, autojump_clock: object, at: float
) -> None:
    scene.slow = 20.0
    async with run_process(scene.world) as h:
        await h.say("I like tea")
        await trio.sleep(at)
    assert not scene.notebook.notes
    for _ in range(2):  # the first wake-up has work, the second none
        async with run_process(scene.world):
            await trio.sleep(300)

    assert len(scene.passes) == 1 + (at > QUIET)
    assert scene.notebook.remembered == {"tea": "Likes tea."}
    assert scene.observed == 1
    assert not list((scene.world.folder / "sessions/open").iterdir())


async def test_a_crash_before_the_record_repeats_one_pass(
    scene: Scene, autojump_clock: object
) -> None:
    """A fact learned twice counts once."""
    scene.settings = LearningSettings(mode="suggest", threshold=3)
    async with run_process(scene.world) as h:
        await h.say("I like tea")
        await trio.sleep(60)
    scene.notebook.full = "no room"
    async with run_process(scene.world):
        await trio.sleep(1000)
    assert len(scene.passes) == 1
    scene.notebook.full = ""
    for _ in range(2):
        async with run_process(scene.world):
            await trio.sleep(1000)

    assert len(scene.passes) == 2
    assert len(scene.notebook.seen) == 1


async def test_nonsense_contains_no_facts(scene: Scene, autojump_clock: object) -> None:
    scene.answers = [answer("I think you like tea.")]
    async with run_process(scene.world) as h:
        await h.say("I like tea")
        await trio.sleep(2000)

    assert len(scene.passes) == 1
    assert scene.observed == 1
    assert not scene.notebook.notes


@pytest.mark.parametrize("failure", [ModelUnavailable("away"), BudgetSpent("spent")])
async def test_a_failed_pass_is_repeated_after_a_new_message(
    scene: Scene, autojump_clock: object, failure: Completed
) -> None:
    scene.answers = [failure, answer(facts(TEA))]
    async with run_process(scene.world) as h:
        await h.say("I like tea")
        await trio.sleep(550)
        assert len(scene.passes) == 1
        await h.say("indeed")
        await trio.sleep(300)

    assert "I like tea" in repr(scene.passes[1].messages)
    assert scene.notebook.remembered == {"tea": "Likes tea."}


async def test_learning_can_be_turned_off(scene: Scene, autojump_clock: object) -> None:
    scene.settings = LearningSettings(mode="off")
    async with run_process(scene.world) as h:
        await h.say("I like tea")
        await trio.sleep(550)

    assert len(scene.world.asked) == 1
    assert not scene.observed
    assert not list((scene.world.folder / "sessions/open").iterdir())


async def test_passes_per_day_are_limited(scene: Scene, autojump_clock: object) -> None:
    scene.settings = LearningSettings(mode="auto", calls_per_day=2)
    async with run_process(scene.world) as h:
        for n in range(4):
            await h.say(f"number {n}")
            await trio.sleep(300)
        assert len(scene.passes) == 2
        await trio.sleep(86_400)
        await h.say("number 4")
        await trio.sleep(300)

    assert len(scene.passes) == 3
    assert all(f"number {n}" in repr(scene.passes[2].messages) for n in (2, 3, 4))


async def test_secrets_are_neither_shown_nor_learned(scene: Scene, autojump_clock: object) -> None:
    async def says(request: Complete) -> Completed:
        await trio.lowlevel.checkpoint()
        return answer("noted: hunter2")

    scene.talk = says
    scene.answers = [answer(facts({"kind": "fact", "key": "key", "text": "The key is hunter2."}))]
    async with run_process(scene.world) as h:
        await h.say("the key is hunter2")
        await trio.sleep(300)

    assert "hunter2" not in repr(scene.passes)
    assert not scene.notebook.notes
