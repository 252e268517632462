"""The parsed plan is what bash would run: random commands, parsed by us and by bash."""

import json
from pathlib import Path
from random import Random

import pytest

from elwood.features.shell.judge import Safe, Unclear, Word, allow_words, judge
from tests.features.shell.shell_trace import Bash, random_command

CORPUS = Path(__file__).parents[2] / "corpora" / "shell_policy.jsonl"
# At least this share of the random commands must be safe, or little is compared.
ENOUGH = 0.2


def started(call: tuple[str, ...]) -> tuple[str, ...] | Unclear:
    """Return what we start for the program *call* that bash started."""
    return allow_words([Word(text) for text in call], True, None)


def differences(plan: Safe, calls: list[tuple[str, ...]]) -> str | None:
    """Follow *plan* with the statuses that bash had; return where its programs differ."""
    status, left = 0, list(calls)
    for step in plan.steps:
        if (step.joined == "&&" and status) or (step.joined == "||" and not status):
            continue
        here, left = left[: len(step.pipeline)], left[len(step.pipeline) :]
        ours = [started(call) for call in here]
        if sorted(map(repr, ours)) != sorted(map(repr, step.pipeline)):
            return f"{step} is {here}"
        last = here[ours.index(step.pipeline[-1])]
        status = (len(last) - 1) % 2
    return f"bash goes on with {left}" if left else None


def test_bash_starts_the_programs_of_the_plan(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    rounds: int = request.config.getoption("--fuzz-commands")
    rows = [json.loads(line) for line in CORPUS.read_text().splitlines()]
    seeds = [row["input"] for row in rows if row["class"] == "benign_allow"]
    bash, chance, ran = Bash(tmp_path), Random(0), 0
    for _ in range(rounds):
        command = random_command(chance, seeds)
        verdict = judge(command)
        if isinstance(verdict, Safe):
            ran += 1
            found = differences(verdict, bash.run(command))
            assert found is None, (command, found)
    assert ran >= ENOUGH * rounds
    print(f"{ran} of {rounds} random commands were safe; bash ran them all as planned")


@pytest.mark.parametrize(
    ("read", "run"),
    [
        ("ls a", "ls b"),
        ("ls 'a b'", "ls a b"),
        ("ls", "ls; date"),
        ("ls x; date", "ls x && date"),
        ("ls x || date", "ls x && date"),
        ("ls | cat", "ls"),
    ],
)
def test_a_difference_would_be_detected(tmp_path: Path, read: str, run: str) -> None:
    verdict = judge(read)
    assert isinstance(verdict, Safe)
    bash = Bash(tmp_path)
    assert differences(verdict, bash.run(read)) is None
    assert differences(verdict, bash.run(run)) is not None
