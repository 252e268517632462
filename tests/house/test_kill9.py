"""kill -9 of real processes, at random: nothing is lost, nothing is repeated silently."""

import random
from collections.abc import Mapping
from pathlib import Path

import attrs
import pytest
import trio

from elwood.agent.means import GIVEN_UP
from elwood.core.session import Replied
from tests.fake_model_rules import Json
from tests.fake_models import Say, Step
from tests.house.judging import broken, name, uncertain
from tests.house.service import FRIENDS, GROUP, MARK, Town, obedient, town

# Seconds from the restart to the answers of what waited, and those of a plain turn, on a machine
# that has nothing else to do.  A loaded one may take longer for both.
PROMISED, PLAIN = 2.0, 0.1
# Rounds, unless --kills says otherwise.
KILLS = 30
# Messages pushed in one life, at most: so many that never twenty wait, or the next is not taken.
MOST = 4
MENTION = {"type": "mention", "offset": 0, "length": len("@elwood_bot")}


class Story:
    """Messages pushed at random, and what is known of them."""

    kinds: Mapping[str, int] = {"tell": 4, "act": 5, "look": 1}

    def __init__(self, here: Town, chance: random.Random) -> None:
        self.here = here
        self.chance = chance
        self.pushed: dict[int, str] = {}
        self.room = MOST

    def push(self, kind: str, chat: int) -> str:
        """Let somebody say something in *chat*; return the mark of it."""
        mark = f"m{len(self.pushed):04}"
        text, more = f"{kind} {mark}", {}
        if chat == GROUP:
            text, more = f"@elwood_bot {text}", {"entities": [MENTION]}
        user = chat if chat != GROUP else self.chance.choice(FRIENDS)
        self.pushed[self.here.telegram.say(text, chat=chat, user=user, **more)] = mark
        return mark

    async def go_on(self) -> None:
        """Push for ever, anything to anybody, as long as there is room."""
        while True:
            await trio.sleep(self.chance.expovariate(4.0))
            if self.room:
                self.room -= 1
                [kind] = self.chance.choices([*self.kinds], [*self.kinds.values()])
                self.push(kind, self.chance.choice([*FRIENDS, GROUP]))

    def unanswered(self) -> set[str]:
        """Return the marks that were seen in no message."""
        texts = self.here.said()
        return set(self.pushed.values()) - {mark for text in texts for mark in MARK.findall(text)}

    async def answered(self, marks: set[str]) -> None:
        """Wait until each of *marks* was seen, or given up in so many words."""
        given_up = set[str]()

        def done() -> bool:
            nonlocal given_up
            left = marks & self.unanswered()
            if left - given_up and any(GIVEN_UP in text for text in self.here.said()):
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
    kills = request.config.getoption("--kills") or KILLS
    seed = request.config.getoption("--kill-seed")
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
        caught_up: list[tuple[float, float]] = []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(story.go_on)
            for _ in range(kills):
                here.telegram.faults.clear()
                story.room = MOST
                if times := await one_life(story):
                    caught_up.append(times)
                await here.kill()
            nursery.cancel_scope.cancel()
        here.telegram.faults.clear()
        caught_up.append(await catch_up(story, set(story.pushed.values())))
        await here.stop()

        assert broken(here, story.pushed) == []
        await here.verify()
        late = [(took, turn) for took, turn in caught_up if took > PROMISED * max(1, turn / PLAIN)]
        assert late == []
        assert len(caught_up) > kills / 10
        assert len(here.effects) > kills / 10
        assert uncertain(here) > kills / 50
    longest = max(took for took, _ in caught_up)
    print(f"{kills} kills, {len(story.pushed)} messages, answered at most {longest:.2f} s later")
    print(f"{len(caught_up)} times caught up, {uncertain(here)} calls cut off")


async def one_life(story: Story) -> tuple[float, float] | None:
    """Live for a while: only start, or work, or catch up; return the time of the catching up."""
    here, chance = story.here, story.chance
    match chance.choices(["start", "work", "catch up"], [2, 5, 3])[0]:
        case "start":
            await here.spawn()
            await trio.sleep(chance.uniform(0.0, 0.5))
        case "work":
            if chance.random() < 0.3:
                here.telegram.fault(
                    "sendMessage", chance.choice(["swallow", "hang", "lose", "drop"])
                )
            await here.start()
            await trio.sleep(chance.uniform(0.0, 0.3))
        case _:
            took = await catch_up(story, story.unanswered())
            await trio.sleep(chance.uniform(0.0, 0.1))
            return took
    return None


async def catch_up(story: Story, owed: set[str]) -> tuple[float, float]:
    """Measure how long it takes until *owed* are answered, and then how long a plain turn takes.

    In seconds; the first from the first poll on.
    """
    began = await story.here.start()
    await story.answered(owed)
    caught_up = trio.current_time()
    await story.answered({story.push("tell", story.chance.choice(FRIENDS))})
    return caught_up - began, trio.current_time() - caught_up
