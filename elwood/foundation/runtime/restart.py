"""Decides what becomes of a child that has ended: arithmetic, no clock.

The words are OTP's (supervisor(3erl)): permanent, transient, temporary, and an intensity of
crashes within a time.
"""

from typing import Literal

import msgspec


class RestartPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """When to run a child again, and how long to wait first.

    *mode*: permanent, always again; transient, again after a crash and done after a normal end;
    temporary, never again.  The wait doubles from *first_delay* to *max_delay* (seconds).  More
    than *max_crashes* within *within* seconds is too many: *escalate* stops Elwood, *drop*
    leaves this child stopped.  ``max_crashes=None`` never gives up.  A quiet *within* forgets
    old crashes, which also resets the delay.
    """

    mode: Literal["permanent", "transient", "temporary"] = "permanent"
    first_delay: float = 0.5
    max_delay: float = 60.0
    max_crashes: int | None = 5
    within: float = 300.0
    exhausted: Literal["escalate", "drop"] = "escalate"


class Again(msgspec.Struct, frozen=True):
    """Run it again after *delay* seconds; *crashes* are the times that still count."""

    delay: float
    crashes: tuple[float, ...]


class Finished(msgspec.Struct, frozen=True):
    """It is done and stays so."""


class GaveUp(msgspec.Struct, frozen=True):
    """It crashed too often; *escalate* says whether Elwood must stop."""

    escalate: bool


Verdict = Again | Finished | GaveUp


def after_exit(
    policy: RestartPolicy, crashes: tuple[float, ...], now: float, crashed: bool
) -> Verdict:
    """Judge one end of a child at time *now* (seconds of any steady clock).

    A permanent child that ends normally counts like a crash: otherwise one that returns at once
    would spin.

    >>> after_exit(RestartPolicy(), (), 10.0, True)
    Again(delay=0.5, crashes=(10.0,))
    >>> after_exit(RestartPolicy(mode="transient"), (), 10.0, False)
    Finished()
    >>> after_exit(RestartPolicy(max_crashes=1), (9.0,), 10.0, True)
    GaveUp(escalate=True)
    """
    if policy.mode == "temporary" or (policy.mode == "transient" and not crashed):
        return Finished()
    recent = (*(at for at in crashes if now - at < policy.within), now)
    if policy.max_crashes is not None and len(recent) > policy.max_crashes:
        return GaveUp(policy.exhausted == "escalate")
    # 2.0**64 is far beyond any max_delay; the bound keeps the power finite.
    delay = min(policy.max_delay, policy.first_delay * 2.0 ** min(len(recent) - 1, 64))
    # Times older than *within* are forgotten above; beyond that only as many are kept as can
    # still change the delay or be too many.
    return Again(delay, recent[-max(64, policy.max_crashes or 0) :])
