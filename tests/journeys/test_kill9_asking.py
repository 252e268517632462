"""kill -9 of real processes while an owner decides: nothing runs unasked, twice, or on its own."""

import random
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs
import msgspec
import pytest
import trio

from elwood.agent.approvals.prompt_text import button_pressed
from elwood.agent.approvals.state import (
    ApprovalBook,
    ApprovalDecided,
    ApprovalEntry,
    ApprovalRequested,
)
from elwood.agent.session.log.entries import CallEnded, CallStarted, Entry
from elwood.agent.session.log.state import Nothing, Session, next_work
from elwood.foundation.storage.journal import decoder, is_sound
from tests.fake_model_rules import Json, blocks
from tests.fake_models import Say, Step
from tests.fake_telegram import OWNER, SentMessage
from tests.journeys.approved import misjudged, unasked
from tests.journeys.judging import broken
from tests.journeys.service import MARK, Town, town, words
from tests.journeys.test_kill9 import Story, catch_up, one_life

# Rounds, unless --kills says otherwise.
KILLS = 4
# Rounds in which everything must have happened at least once.
MANY = 20
# Questions come one by one, turns wait for less than an owner often takes, and what nobody answers
# ends within the test.
SETTINGS = """
[approvals]
wait = 0.3
expires = 60
group_after = 100000
"""
SAID = re.compile(r"\b(tell|act|look|run) (m\d{4})$", re.MULTILINE)
OF_APPROVALS = decoder(ApprovalEntry)


class Asking(Story):
    """A story in which commands are run, too."""

    kinds: Mapping[str, int] = {"tell": 2, "act": 4, "run": 4}


class Owner:
    """Presses buttons after a while: mostly yes, sometimes no, sometimes none."""

    def __init__(self, here: Town, chance: random.Random) -> None:
        self._here = here
        self._chance = chance
        self.choices: dict[str, str] = {}
        self._read = 0

    async def watch(self) -> None:
        """Go on for ever."""
        async with trio.open_nursery() as nursery:
            while True:
                await self._here.telegram.until(lambda: len(self._here.telegram.sent) > self._read)
                for sent in self._here.telegram.sent[self._read :]:
                    self._read += 1
                    found = button_pressed(sent.buttons[0]) if sent.buttons else None
                    if found is not None and found[1] not in self.choices:
                        [choice] = self._chance.choices("od-", [14, 3, 3])
                        self.choices[found[1]] = choice
                        if choice != "-":
                            data = f"{sent.buttons[0][:-1]}{choice}"
                            nursery.start_soon(self._press, sent, data)

    async def _press(self, sent: SentMessage, data: str) -> None:
        await trio.sleep(self._chance.expovariate(4.0))
        self._here.telegram.press(data, user=sent.chat, message=sent)


def careful(body: Json, mark: str) -> Step:
    """Do what people ask for, and say what was heard of them; never repeat it for a notice.

    A command leaves a line in *ran*, and children that would go on for long; *mark* stands in the
    words of each of its processes.
    """
    span: list[str] = []
    called = False
    for message in reversed(body["messages"]):
        if message["role"] == "assistant":
            if not any(block["type"] == "tool_use" for block in blocks(message)):
                break
            called = True
        else:
            span.insert(0, words(message))
    asked = SAID.findall("\n".join(span))
    wanted = []
    for kind, name in asked:
        if kind == "act":
            wanted.append(("act", f'{{"name": "{name}"}}'))
        elif kind == "run":
            child = f'(setsid bash -c "sleep 60; : {mark}" &)'
            text = f"echo {name} >> ran; {child}; sleep 0.2; : {mark}"
            wanted.append(("run_command", msgspec.json.encode({"command": text}).decode()))
    if wanted and not called:
        return Say(calls=tuple(wanted))
    return Say(f"Heard {' '.join(dict.fromkeys(name for _, name in asked))}." if asked else "So.")


def alive(mark: str) -> set[str]:
    """Name the processes of this machine with *mark* among their words."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if mark.encode() in line:
            found.add(f"{path.parent.name}: {line.replace(bytes(1), b' ').decode()[:300]}")
    return found


def rulings(here: Town) -> list[tuple[float, ApprovalEntry]]:
    path = here.state / "approvals.jsonl"
    lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    sound = (OF_APPROVALS.decode(line) for line in lines if is_sound(line))
    return [(line.at, entry) for line in sound for entry in line.entries]


def of(session: str, entries: Sequence[tuple[float, ApprovalEntry]]) -> list[ApprovalEntry]:
    """Pick what is about the calls of one session."""
    ids = {
        e.id
        for _, e in entries
        if isinstance(e, ApprovalRequested) and e.question.session == session
    }
    return [
        e for _, e in entries if isinstance(e, ApprovalRequested | ApprovalDecided) and e.id in ids
    ]


def is_settled(here: Town) -> bool:
    """Tell whether nobody owes anything, and all logs agree about what waits for the owner."""
    book = ApprovalBook()
    for seq, (at, entry) in enumerate(rulings(here), 1):
        book.apply(seq, at, entry)
    asked = {(case.question.session, case.question.call) for case in book.calls.open()}
    waiting = set()
    for name, entries in here.journals().items():
        state = Session()
        for seq, one in enumerate(entries, 1):
            state.apply(seq, 0.0, one)
        if not state.is_idle or not isinstance(next_work(state), Nothing):
            return False
        waiting |= {(name, key) for key, kept in state.pending.items() if kept.decided is None}
    return waiting == asked and not here.telegram.unconfirmed


def commands(here: Town, entries: Sequence[Entry]) -> list[str]:
    """List what is wrong with the commands that were run (P2 to P4)."""
    ran = here.folder / "workspace" / "ran"
    done = Counter(ran.read_text().split() if ran.exists() else [])
    found = [f"P2: {name} was run {times} times" for name, times in done.items() if times > 1]
    told = "\n".join(here.said())
    started = set[str]()
    for entry in entries:
        if isinstance(entry, CallStarted | CallEnded) and entry.tool == "run_command":
            [name] = set(MARK.findall(entry.target))
            if isinstance(entry, CallStarted):
                started.add(name)
            elif entry.outcome == "unknown" and f"? run_command echo {name}" not in told:
                found.append(f"P3: it was not told that {name} is uncertain")
            elif entry.outcome == "ok" and not done[name]:
                found.append(f"P4: {name} was claimed but not run")
    return [*found, *(f"{name} was run without a record" for name in done if name not in started)]


async def test_kills_while_the_owner_decides_break_no_promise(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    kills = request.config.getoption("--kills") or KILLS
    seed = request.config.getoption("--kill-seed")
    seed = random.randrange(10**6) if seed is None else seed
    print(f"to repeat this: --kills {kills} --kill-seed {seed}")
    chance = random.Random(seed)
    mark = f"elwood-test-{random.randrange(10**12)}"

    def thoughtful(body: Json) -> Step:
        step = careful(body, mark)
        assert isinstance(step, Say)
        return attrs.evolve(step, delay=chance.uniform(0.0, 0.06))

    async with town(tmp_path / "town", effectful=True, free=(), more=SETTINGS) as here:
        here.models.otherwise = thoughtful
        story, owner = Asking(here, chance), Owner(here, chance)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(owner.watch)
            async with trio.open_nursery() as talking:
                talking.start_soon(story.go_on)
                left, polls = set[str](), here.telegram.polls
                for _ in range(kills):
                    here.telegram.faults.clear()
                    story.room = 4
                    await one_life(story)
                    await trio.sleep(chance.uniform(0.0, 0.5))
                    if here.telegram.polls > polls:  # it was up, and so had ended what was left
                        assert not left & alive(mark)
                    await here.kill()
                    left, polls = alive(mark), here.telegram.polls
                talking.cancel_scope.cancel()
            here.telegram.faults.clear()
            story.push("run", OWNER)
            await catch_up(story, set(story.pushed.values()))
            await here.eventually(lambda: is_settled(here))
            nursery.cancel_scope.cancel()
        await here.stop()

        entries = [entry for journal in here.journals().values() for entry in journal]
        found = [*broken(here, story.pushed), *commands(here, entries)]
        asked = rulings(here)
        for name, journal in here.journals().items():
            found += misjudged(journal, of(name, asked))
            found += unasked(journal, of(name, asked))
        assert found == [], "\n".join(found)
        assert alive(mark) == set()
        assert here.running() == []
        await here.verify()
    ends = Counter(entry.outcome for entry in entries if isinstance(entry, CallEnded))
    ruled = Counter(entry.ruling for _, entry in asked if isinstance(entry, ApprovalDecided))
    print(f"{kills} kills, {len(story.pushed)} messages, {len(owner.choices)} questions")
    print(f"decided {dict(ruled)}; calls ended {dict(ends)}")
    assert owner.choices
    assert kills < MANY or (ruled["once"] > kills / 4 and ends["ok"] and ends["unknown"])
