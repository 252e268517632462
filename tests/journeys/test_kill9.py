"""kill -9 of real processes at random moments: people talk, the owner decides, tasks are due.

The time of a real process cannot be accelerated, and no task may run more often than each minute.
So tasks are planned between two processes, by the real timetable, for the next moments.
"""

import random
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import attrs
import pytest
import trio

from elwood.agent.approvals.prompt_text import button_pressed
from elwood.agent.approvals.state import ApprovalDecided
from elwood.agent.conversation.route import Route
from elwood.agent.session.log.entries import CallEnded, CallStarted, Entry
from elwood.agent.session.log.state import next_work
from elwood.features.tasks import rules
from elwood.features.tasks.messages import PlanTask
from elwood.features.tasks.state import RunFinished, Timetable, TimetableEntry
from elwood.features.tasks.task import Task, TaskStatus
from elwood.features.tasks.when import Once
from tests.agent.session.known import MOVING
from tests.fake_model_rules import Json
from tests.fake_models import Say, Step
from tests.fake_telegram import OWNER, FakeTelegram, SentMessage
from tests.features.tasks.timetables import keeping
from tests.journeys.judging import approvals, fold, read, undecided_calls, wrong_decisions
from tests.journeys.outcomes import wrong_outcomes
from tests.journeys.service import FRIENDS, GROUP, MARK, Town, follow_requests, town

# Default number of rounds (--kills), and how many must have reached each stage.
KILLS, MANY = 8, 100
# Maximum messages and tasks for one process: few enough that never twenty wait, as the next one is
# refused then.
MESSAGES, TASKS = 4, 2
# Processes of each kind in ten; and messages and tasks: `act` runs without asking, commands need
# the owner's approval, and "" is a plain reminder.
LIVES = {"start": 2, "work": 4, "act": 3, "catch up": 1}
SAID = {"tell": 4, "act": 5, "look": 1, "run": 4}
PLANNED = {"": 2, "tell": 2, "act": 4, "run": 1}
MENTION = {"type": "mention", "offset": 0, "length": len("@elwood_bot")}
# Turns wait for less than an owner often needs, and unanswered questions end within the test.
MORE = """
[approvals]
wait = 0.3
expires = 60
[backup]
every = 0
[[tasks]]
title = "tea"
when = "every minute"
message = "Time for tea."
[[tasks]]
title = "news"
when = "every minute"
prompt = "tell m9001"
[[tasks]]
title = "mail"
when = "every minute"
prompt = "tell m9002"
silent = true
"""


class World:
    """People who write and plan at random, an owner who decides, and a record of it."""

    def __init__(self, here: Town, chance: random.Random) -> None:
        self.here = here
        self.chance = chance
        self.pushed: dict[int, str] = {}
        self.planned: list[str] = []
        self.choices: dict[str, str] = {}
        self.room = MESSAGES
        self.lives = self._shuffled(LIVES)

    def push(self, kind: str, chat: int) -> str:
        """Let someone write in *chat*; return the mark of the message."""
        mark = f"m{len(self.pushed):04}"
        text, more = f"{kind} {mark}", {}
        if chat == GROUP:
            text, more = f"@elwood_bot {text}", {"entities": [MENTION]}
        user = chat if chat != GROUP else self.chance.choice(FRIENDS)
        self.pushed[self.here.telegram.say(text, chat=chat, user=user, **more)] = mark
        return mark

    async def talk(self) -> None:
        """Push messages forever, in any chat, while there is room."""
        while True:
            await trio.sleep(self.chance.expovariate(4.0))
            if self.room:
                self.room -= 1
                self.push(self._any(SAID), self.chance.choice([*FRIENDS, GROUP]))

    async def decide(self) -> None:
        """Press buttons forever, after a delay: mostly yes, sometimes no, sometimes none."""
        telegram, seen = self.here.telegram, 0
        async with trio.open_nursery() as nursery:
            while True:
                await telegram.until(partial(_has_more, telegram, seen))
                for sent in telegram.sent[seen:]:
                    seen += 1
                    found = button_pressed(sent.buttons[0]) if sent.buttons else None
                    if found is not None and found[0] not in self.choices:
                        choice = self._any({"o": 14, "d": 3, "-": 3})
                        self.choices[found[0]] = choice
                        if choice != "-":
                            nursery.start_soon(self._press, sent, f"{sent.buttons[0][:-1]}{choice}")

    async def _press(self, sent: SentMessage, data: str) -> None:
        await trio.sleep(self.chance.expovariate(4.0))
        self.here.telegram.press(data, user=sent.chat, message=sent)

    async def plan(self) -> None:
        """Plan tasks for the next moments, while no process runs."""
        async with keeping(self.here.state, time.time) as timetable:
            for _ in range(self.chance.randint(1, TASKS)):
                mark = f"m{8000 + len(self.planned)}"
                kind = self._any(PLANNED)
                when = Once(time.time() + self.chance.uniform(0.2, 0.9))
                route = Route("telegram", str(self.chance.choice(FRIENDS)))
                task = Task("", mark, when, prompt=f"{kind} {mark}", route=route)
                if not kind:
                    task = Task("", mark, when, message=f"Remember {mark}.", route=route)
                seen = await timetable.ask(PlanTask(task=task))
                assert isinstance(seen, TaskStatus), seen
                self.planned.append(mark)

    async def live(self) -> None:
        """Run Elwood: only start, or work, or until the first effect, or to the end."""
        here, chance = self.here, self.chance
        here.telegram.faults.clear()
        self.room = MESSAGES
        kind = next(self.lives)
        if kind == "work" and chance.random() < 0.3:
            fault = chance.choice(["swallow", "hang", "lose", "drop"])
            here.telegram.fault("sendMessage", fault)
        if kind == "start":
            await here.spawn()
        else:
            await here.start()
        if kind == "act":
            before = len(here.effects)
            self.push("act", chance.choice(FRIENDS))
            with trio.move_on_after(2.0):
                await here.eventually(lambda: len(here.effects) > before)
            await trio.sleep(chance.uniform(0.0, 0.04))
        elif kind == "catch up":
            self.room = 0
            await here.eventually(self.is_settled)
        else:
            await trio.sleep(chance.uniform(0.0, 0.5))

    def is_settled(self) -> bool:
        """Return True if no work is left, except later retries of tasks."""
        here = self.here
        states = {name: fold(here.state, name) for name in here.journals()}
        idle = all(s.is_idle and next_work(s, MOVING) is None for s in states.values())
        asked, waiting = undecided_calls(approvals(here.state)[1], states)
        table = self.table()
        agenda = rules.agenda(table, time.time())
        late = [one for one in table.tasks.values() if one.task.origin == "talk" and not one.retry]
        owed = late or agenda.runs or agenda.tell or here.telegram.unconfirmed
        return idle and asked == waiting and not owed

    def table(self) -> Timetable:
        """Return the folded log of tasks."""
        table = Timetable()
        for seq, at, entry in read(self.here.state / "schedule.jsonl", TimetableEntry):
            table.apply(seq, at, entry)
        return table

    def broken_promises(self, until: float) -> list[str]:
        """List the broken promises; tasks are judged *until* then."""
        here = self.here
        logs, said = here.journals(), "\n".join(here.sent_texts())
        log = read(here.state / "schedule.jsonl", TimetableEntry)
        later = {one.task.title for one in self.table().tasks.values() if one.retry}
        return [
            *here.broken_promises(self.pushed),
            *wrong_decisions(logs, approvals(here.state)[0], ("act",)),
            # Each of the owners can be the latest writer, and gets the reports.
            *wrong_outcomes(
                log, until, [text for one in FRIENDS for text in here.sent_texts(one)], logs
            ),
            *(f"never heard of: {one}" for one in self.planned if one not in said + str(later)),
            *self._commands([entry for journal in logs.values() for entry in journal], said),
        ]

    def _commands(self, entries: list[Entry], said: str) -> Iterator[str]:
        """List errors in the commands that ran (P2 to P4)."""
        ran = self.here.folder / "workspace" / "ran"
        done = Counter(ran.read_text().split() if ran.exists() else [])
        yield from (
            f"P2: {name} was run {times} times" for name, times in done.items() if times > 1
        )
        started = set[str]()
        for entry in entries:
            if isinstance(entry, CallStarted | CallEnded) and entry.tool == "run_command":
                [name] = set(MARK.findall(entry.target))
                if isinstance(entry, CallStarted):
                    started.add(name)
                elif entry.outcome == "unknown" and f"? run_command echo {name}" not in said:
                    yield f"P3: it was not told that {name} is uncertain"
                elif entry.outcome == "ok" and not done[name]:
                    yield f"P4: {name} was claimed but not run"
        yield from (f"{name} was run without a record" for name in done if name not in started)

    def _any(self, weights: Mapping[str, int]) -> str:
        [one] = self.chance.choices([*weights], [*weights.values()])
        return one

    def _shuffled(self, counts: Mapping[str, int]) -> Iterator[str]:
        """Repeat forever: as many of each kind as *counts* says, in random order."""
        while True:
            kinds = [kind for kind, count in counts.items() for _ in range(count)]
            self.chance.shuffle(kinds)
            yield from kinds


def _has_more(telegram: FakeTelegram, seen: int) -> bool:
    return len(telegram.sent) > seen


def alive(mark: str) -> set[str]:
    """Return the processes of this machine with *mark* in their command line."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if mark.encode() in line:
            found.add(f"{path.parent.name}: {line.replace(bytes(1), b' ').decode()[:300]}")
    return found


async def test_kills_at_random_instants_break_no_promise(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    kills = request.config.getoption("--kills") or KILLS
    seed = request.config.getoption("--kill-seed")
    seed = random.randrange(10**6) if seed is None else seed
    print(f"to repeat this: --kills {kills} --kill-seed {seed}")
    chance = random.Random(seed)
    mark = f"elwood-test-{random.randrange(10**12)}"

    def thoughtful(body: Json) -> Step:
        step = follow_requests(body, mark)
        assert isinstance(step, Say)
        return attrs.evolve(step, delay=chance.uniform(0.0, 0.06))

    async with town(tmp_path / "town", effectful=True, more=MORE) as here:
        here.models.otherwise = thoughtful
        here.state.mkdir()
        world = World(here, chance)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(world.decide)
            async with trio.open_nursery() as talking:
                talking.start_soon(world.talk)
                left, polls = set[str](), here.telegram.polls
                for _ in range(kills):
                    await world.plan()
                    await world.live()
                    if here.telegram.polls > polls:  # it was up, so it had ended old commands
                        assert not left & alive(mark)
                    await here.kill()
                    left, polls = alive(mark), here.telegram.polls
                talking.cancel_scope.cancel()
            here.telegram.faults.clear()
            world.push("run", OWNER)
            await here.start()
            await here.eventually(world.is_settled)
            until = time.time() - 1.0
            nursery.cancel_scope.cancel()
        await here.stop()

        found = world.broken_promises(until)
        assert found == [], "\n".join(found)
        assert alive(mark) == set()
        assert here.command_processes() == set()
        await here.verify_receipts()
    entries = [entry for journal in here.journals().values() for entry in journal]
    calls = Counter(entry.outcome for entry in entries if isinstance(entry, CallEnded))
    rulings = approvals(here.state)[0]
    ruled = Counter(entry.ruling for entry in rulings if isinstance(entry, ApprovalDecided))
    log = read(here.state / "schedule.jsonl", TimetableEntry)
    ended = Counter(e.result for _, _, e in log if isinstance(e, RunFinished))
    print(f"{kills} kills, {len(world.pushed)} messages, {len(world.planned)} tasks planned")
    print(f"calls ended {dict(calls)}, decided {dict(ruled)}; runs ended {dict(ended)}")
    assert kills < MANY or (calls["ok"] and calls["unknown"] and ruled["once"] and ended["done"])
