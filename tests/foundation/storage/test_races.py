"""Swapping things while we use them gets nothing out of the root, and nothing into the outside."""

from pathlib import Path

import pytest

from tests.foundation.storage.attackers import ATTACKS, Attack, survive

# Enough for one that checks, then uses, to lose.
TRIES = {"read": 500, "list": 500, "write": 80, "remove": 80}


@pytest.mark.parametrize("attack", ATTACKS, ids=str)
def test_an_attacker_gets_nothing(tmp_path: Path, attack: Attack) -> None:
    done = 0
    for seed in range(40):
        base = tmp_path / str(seed)
        outcome = survive(attack, base, seed=seed, tries=iter(range(TRIES[attack.op])))
        assert not outcome.escapes
        done += outcome.done
        if done and seed:
            return
    pytest.fail("nothing was ever done, so nothing was tried")
