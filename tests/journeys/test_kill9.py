"""kill -9 of real processes, at random: nothing is lost, nothing is repeated silently."""

import os
import random
from collections.abc import Iterator, Mapping
from pathlib import Path

import attrs
import pytest
import trio

from elwood.agent.session.log.entries import Replied
from elwood.agent.session.turn.runner import GIVEN_UP
from tests.fake_model_rules import Json
from tests.fake_models import Say, Step
from tests.journeys.judging import broken, name, uncertain
from tests.journeys.service import FRIENDS, GROUP, MARK, Town, obedient, town

# Seconds from the first poll to the answers of what waited, and those of a plain turn, on a machine
# that has nothing else to do.  A loaded one may take longer for both.
PROMISED, PLAIN = 2.0, 0.1
# Seconds between two looks whether the machine stands still, and of a look that it does not delay.
BEAT, USUAL = 0.05, 0.05
# Rounds, unless --kills says otherwise.
KILLS = 20
# Messages pushed in one life, at most: so many that never twenty wait, or the next is not taken.
MOST = 4
# Lives of each kind, in each ten of them.
LIVES = {"start": 2, "work": 4, "act": 1, "catch up": 3}
MENTION = {"type": "mention", "offset": 0, "length": len("@elwood_bot")}


@attrs.frozen
class CaughtUp:
    """How long it took to answer what waited, and a plain turn then; in seconds.

    In *lost* of them the machine stood still, and it was *slower* than an idle one at the start.
    """

    took: float
    turn: float
    lost: float
    slower: float

    @property
    def is_late(self) -> bool:
        """Tell whether the promise was broken, and not by the machine."""
        return self.took - self.lost > PROMISED * max(self.slower, self.turn / PLAIN)


class Pulse:
    """Counts the seconds in which this machine, or its disk, does nothing for us."""

    def __init__(self, folder: Path) -> None:
        self.lost = 0.0
        self._file = folder / "pulse"

    async def beat(self) -> None:
        """Go on for ever."""
        with self._file.open("wb") as file:
            while True:
                began = trio.current_time()
                await trio.sleep(BEAT)
                file.write(b".")
                file.flush()
                await trio.to_thread.run_sync(os.fsync, file.fileno())
                self.lost += max(0.0, trio.current_time() - began - BEAT - USUAL)


def shuffled(counts: Mapping[str, int], chance: random.Random) -> Iterator[str]:
    """Go on for ever: as many of each kind as *counts* says, in some order, and so again."""
    while True:
        kinds = [kind for kind, count in counts.items() for _ in range(count)]
        chance.shuffle(kinds)
        yield from kinds


class Story:
    """Messages pushed at random, and what is known of them."""

    kinds: Mapping[str, int] = {"tell": 4, "act": 5, "look": 1}

    def __init__(self, here: Town, chance: random.Random) -> None:
        self.here = here
        self.chance = chance
        self.pushed: dict[int, str] = {}
        self.room = MOST
        self.lives = shuffled(LIVES, chance)

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
        caught_up: list[CaughtUp] = []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(story.go_on)
            for _ in range(kills):
                here.telegram.faults.clear()
                story.room = MOST
                if caught := await one_life(story):
                    caught_up.append(caught)
                await here.kill()
            nursery.cancel_scope.cancel()
        here.telegram.faults.clear()
        caught_up.append(await catch_up(story, set(story.pushed.values())))
        await here.stop()

        assert broken(here, story.pushed) == []
        await here.verify()
        assert [caught for caught in caught_up if caught.is_late] == []
        assert len(caught_up) > kills / 10
        assert len(here.effects) > kills / 10
        assert uncertain(here) > kills / 50
    longest = max(caught.took for caught in caught_up)
    print(f"{kills} kills, {len(story.pushed)} messages, answered at most {longest:.2f} s later")
    print(f"{len(caught_up)} times caught up, {uncertain(here)} calls cut off")


async def one_life(story: Story) -> CaughtUp | None:
    """Live for a while: only start, or work, or until something has just been done, or catch up.

    Return the time of the catching up.
    """
    here, chance = story.here, story.chance
    match next(story.lives):
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
        case "act":
            await here.start()
            before = len(here.effects)
            story.push("act", chance.choice(FRIENDS))
            with trio.move_on_after(2.0):
                await here.eventually(lambda: len(here.effects) > before)
            await trio.sleep(chance.uniform(0.0, 0.04))
        case _:
            took = await catch_up(story, story.unanswered())
            await trio.sleep(chance.uniform(0.0, 0.1))
            return took
    return None


async def catch_up(story: Story, owed: set[str]) -> CaughtUp:
    """Measure how long it takes until *owed* are answered, and then how long a plain turn takes."""
    pulse = Pulse(story.here.folder)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(pulse.beat)
        began = await story.here.start()
        pulse.lost = 0.0
        await story.answered(owed)
        answered, lost = trio.current_time(), pulse.lost
        await story.answered({story.push("tell", story.chance.choice(FRIENDS))})
        turn = trio.current_time() - answered
        nursery.cancel_scope.cancel()
    return CaughtUp(answered - began, turn, lost, story.here.slower)
