"""Swapping things while we use them gets nothing out of the root, and nothing into the outside."""

from pathlib import Path

import pytest

from tests.foundation.storage.attackers import ATTACKS, Attack, Naive, Ours, survive

# Enough for the naive one to lose.
TRIES = {"read": 500, "list": 500, "write": 80, "remove": 80}


@pytest.mark.parametrize("attack", ATTACKS, ids=str)
def test_an_attacker_gets_nothing(tmp_path: Path, attack: Attack) -> None:
    done = 0
    for seed in range(40):
        base = tmp_path / str(seed)
        outcome = survive(attack, base, Ours, seed=seed, tries=iter(range(TRIES[attack.op])))
        assert not outcome.escapes
        done += outcome.done
        if done and seed:
            return
    pytest.fail("nothing was ever done, so nothing was tried")


@pytest.mark.parametrize(
    "attack",
    [
        Attack("folder", "read", "dir/b.txt"),
        Attack("name", "read", "a.txt"),
        Attack("folder", "list", "dir"),
        Attack("folder", "write", "dir/new{}.txt"),
        Attack("name", "write", "a.txt"),
        Attack("git", "write", "dir/new{}.txt"),
        Attack("folder", "remove", "dir/b.txt"),
    ],
    ids=str,
)
def test_the_attackers_win_against_a_check_by_name(tmp_path: Path, attack: Attack) -> None:
    """Proof that the test above can fail: resolve, check, then use is not safe."""
    for seed in range(40):
        outcome = survive(attack, tmp_path / str(seed), Naive, seed=seed, tries=iter(range(2500)))
        if outcome.escapes:
            return
    pytest.fail("the attacker never won against a naive one")
