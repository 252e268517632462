"""kill -9 of real processes, at random: nothing is lost, nothing is repeated silently."""

import random
from pathlib import Path

import attrs
import pytest
import trio

from elwood.agent.runner import GIVEN_UP
from elwood.core.session import Replied
from tests.fake_model_rules import Json
from tests.fake_models import Say, Step
from tests.house.judging import broken, name
from tests.house.service import FRIENDS, GROUP, MARK, Town, obedient, town

# Seconds from the restart to the answers of what waited, on a machine that has nothing else to do.
PROMISED = 2.0
MENTION = {"type": "mention", "offset": 0, "length": len("@elwood_bot")}


class Story:
    """Messages pushed at random, and what is known of them."""

    def __init__(self, here: Town, chance: random.Random) -> None:
        self.here = here
        self.chance = chance
        self.pushed: dict[int, str] = {}

    def push(self) -> None:
        """Let somebody say something."""
        mark = f"m{len(self.pushed):04}"
        kind = self.chance.choices(["tell", "act", "look"], [5, 4, 1])[0]
        chat = self.chance.choice([*FRIENDS, GROUP])
        text, more = f"{kind} {mark}", {}
        if chat == GROUP:
            text, more = f"@elwood_bot {text}", {"entities": [MENTION]}
        user = chat if chat != GROUP else self.chance.choice(FRIENDS)
        self.pushed[self.here.telegram.say(text, chat=chat, user=user, **more)] = mark

    async def go_on(self) -> None:
        """Push for ever."""
        while True:
            await trio.sleep(self.chance.expovariate(4.0))
            self.push()

    def unanswered(self) -> set[str]:
        """Return the marks that were seen in no message."""
        texts = self.here.telegram.texts()
        return set(self.pushed.values()) - {mark for text in texts for mark in MARK.findall(text)}

    async def answered(self, marks: set[str]) -> None:
        """Wait until each of *marks* was seen, or given up in so many words."""
        telegram, given_up = self.here.telegram, set[str]()

        def done() -> bool:
            nonlocal given_up
            left = marks & self.unanswered()
            if left - given_up and any(GIVEN_UP in text for text in telegram.texts()):
                given_up = self._given_up()
            return not left - given_up

        await self.here.until(done)

    def _given_up(self) -> set[str]:
        journals = self.here.journals().values()
        replies = [e for journal in journals for e in journal if isinstance(e, Replied)]
        failed = {id_ for reply in replies if reply.failed for id_ in reply.inputs}
        return {mark for update, mark in self.pushed.items() if name(update) in failed}


async def test_kills_at_random_instants_break_no_promise(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    kills, seed = request.config.getoption("--kills"), request.config.getoption("--kill-seed")
    seed = random.randrange(10**6) if seed is None else seed
    print(f"to repeat this: --kills {kills} --kill-seed {seed}")
    chance = random.Random(seed)

    def thoughtful(body: Json) -> Step:
        step = obedient(body)
        assert isinstance(step, Say)
        return attrs.evolve(step, delay=chance.uniform(0.0, 0.06))

    async with town(tmp_path / "town", effectful=True) as here:
        here.models.otherwise = thoughtful
        story = Story(here, chance)
        took: list[float] = []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(story.go_on)
            for _ in range(kills):
                here.telegram.faults.clear()
                await _one_life(story, took)
            nursery.cancel_scope.cancel()
        here.telegram.faults.clear()
        up = await here.start()
        await story.answered(set(story.pushed.values()))
        took.append(trio.current_time() - up)
        plain = await _plain_turn(here)
        await here.stop()

        assert broken(here, story.pushed) == []
        await here.verify()
        # A plain turn takes 0.05 s where nobody else wants the machine.
        assert max(took) <= max(PROMISED, PROMISED * plain / 0.1), (took, plain)
        assert len(took) > kills / 10
        assert len(here.effects) > kills / 10
    print(f"{kills} kills, {len(story.pushed)} messages, answered at most {max(took):.2f} s later")


async def _one_life(story: Story, took: list[float]) -> None:
    """Start a process and kill it while it starts, while it works, or soon after it has caught up.

    Adds the time of the catching up to *took*.
    """
    here, chance = story.here, story.chance
    match chance.choices(["starting", "working", "caught up"], [2, 5, 3])[0]:
        case "starting":
            await here.spawn()
            await trio.sleep(chance.uniform(0.0, 0.5))
        case "working":
            if chance.random() < 0.3:
                kind = chance.choice(["swallow", "hang", "lose", "drop"])
                here.telegram.fault("sendMessage", kind)
            await here.start()
            await trio.sleep(chance.uniform(0.0, 0.3))
        case _:
            owed = story.unanswered()
            up = await here.start()
            await story.answered(owed)
            took.append(trio.current_time() - up)
            await trio.sleep(chance.uniform(0.0, 0.1))
    await here.kill()


async def _plain_turn(here: Town) -> float:
    """Measure a turn in which nothing happens."""
    began, count = trio.current_time(), len(here.telegram.sent)
    here.telegram.say("tell m9999")
    await here.says(count + 1)
    return trio.current_time() - began
