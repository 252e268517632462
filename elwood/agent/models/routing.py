"""Which model answers, and what to do when a provider fails."""

from typing import Literal

import msgspec

# How a provider failed.
FailureKind = Literal[
    "rate_limit",  # 429 that will pass
    "spend_limit",  # 429 or 400/402 that lasts until a person or a month acts
    "overloaded",  # 529
    "server",  # 500, 502, 503, 504, HTML instead of JSON
    "conflict",  # 408, 409
    "offline",  # connect, TLS or DNS failed: nothing was sent
    "cut",  # the connection or the stream ended before the response was whole
    "stalled",  # nothing came for too long
    "nonsense",  # a whole response that contradicts itself (LLM-24, LLM-25), or has no end
    "bad_key",  # 401
    "no_key",  # 401, or known before it is asked
    "forbidden",  # 403
    "no_model",  # 404
    "too_long",  # prompt too long, 413
    "history",  # 400 about the messages
    "rejected",  # any other 400
]


def split_name(name: str) -> tuple[str, str]:
    """Split ``provider/model``; the model's own name may contain slashes.

    Raises ValueError when there is no provider in it: the configuration's fault.

    >>> split_name("openrouter/z-ai/glm-5")
    ('openrouter', 'z-ai/glm-5')
    """
    provider, slash, model = name.partition("/")
    if not (provider and slash and model):
        raise ValueError(f"{name!r} is not of the form provider/model")
    return provider, model


class Fault(msgspec.Struct, frozen=True):
    """A failure of a provider; *retry_after* is what it asked for, in seconds.

    *should_retry* is its explicit word on retrying (``x-should-retry``).  *detail* is safe to show:
    no key, no URL with one.
    """

    kind: FailureKind
    detail: str = ""
    retry_after: float | None = None
    should_retry: bool | None = None


class GivenUp(msgspec.Struct, frozen=True):
    """A model is not tried any more, and *why*; *rest* are those that may be asked instead."""

    why: str
    rest: tuple[str, ...] = ()


# Seconds before the wait for one answer ends in words: a server's fault (LLM-05), and what passes
# by itself (LLM-01, LLM-08).  Whoever asks may have less patience, and says so.
SERVER_PATIENCE = 300.0
QUEUE_PATIENCE = 900.0
# Seconds after which another model is better than waiting, if one is configured (LLM-04).
FALLBACK_AFTER = 120.0
# Retries of what may be this request's own doing.
RETRIES = {"conflict": 2, "nonsense": 1, "rejected": 2, "cut": 5, "stalled": 2}

# What is busy or away is back without a word, so that one of those who wait looks every few
# seconds; who is told to slow down does.
_BACKOFF, _SLOWER = (0.5, 1.0, 2.0, 4.0, 8.0), (30.0, 60.0, 120.0)
_TRANSIENT = {
    "rate_limit", "overloaded", "server", "conflict", "offline", "cut", "stalled", "nonsense",
}  # fmt: skip
_WHOLE_PROVIDER = {"spend_limit", "bad_key", "no_key", "forbidden", "offline"}
_WORDS: dict[FailureKind, str] = {
    "rate_limit": "allows no more requests for now",
    "spend_limit": "has no credit left, or its spend limit is reached: add to it there, and write "
    "to me again",
    "overloaded": "is overloaded",
    "server": "has a fault of its own",
    "conflict": "could not take the request",
    "offline": "cannot be reached",
    "cut": "broke off its response",
    "stalled": "stopped answering in the middle",
    "nonsense": "contradicted itself",
    "bad_key": "does not accept the key: set a new one and restart",
    "no_key": "has no key",
    "forbidden": "does not permit this",
    "no_model": "does not have this model (any more): choose another",
    "too_long": "finds the conversation too long",
    "history": "does not accept the conversation",
    "rejected": "rejects the request",
}
# Seconds in which a provider that only a person can mend is not asked again, but when a person
# writes and nobody else could answer: they may have mended it (LLM-02, 37, 38).
PAUSES: dict[FailureKind, float] = {"bad_key": 300.0, "forbidden": 300.0, "spend_limit": 900.0}


def describe(model: str, fault: Fault) -> str:
    """Say in a sentence what is wrong, for the owner.

    >>> describe("anthropic/claude-sonnet-5-5", Fault("overloaded", "Overloaded"))
    'anthropic (claude-sonnet-5-5) is overloaded: Overloaded'
    """
    provider, name = split_name(model)
    detail = f": {fault.detail}" if fault.detail else ""
    return f"{provider} ({name}) {_WORDS[fault.kind]}{detail}"


def retry_in(fault: Fault, times: int, jitter: float) -> float | None:
    """Return the seconds until the try after the *times*-th failure (from 1) of a model in a row.

    None: it would be of no use.  *jitter* is a random number from 0 to 1.
    """
    wanted = fault.should_retry is True and fault.kind == "rejected"
    if fault.should_retry is False or not (fault.kind in _TRANSIENT or wanted):
        return None  # the header wins (LLM-07)
    if times > RETRIES.get(fault.kind, times):
        return None
    if fault.retry_after is not None:
        # A little later than asked, never earlier: all who wait were told the same.
        return fault.retry_after + jitter * min(5.0, 0.1 + 0.25 * fault.retry_after)
    steps = (*_BACKOFF, *_SLOWER) if fault.kind == "rate_limit" else _BACKOFF
    delay = steps[min(times, len(steps)) - 1]
    # Short waits lose up to a quarter, as the SDK does; long ones get full jitter (LLM-04).
    return delay * (1 - 0.25 * jitter) if delay <= 8.0 else max(8.0, delay * (1 - jitter))


def patience(kind: FailureKind, model: str, rest: tuple[str, ...]) -> float:
    """Return for how long (seconds) to go on with *model* failing like this, *rest* being left."""
    if _useful(kind, model, rest):
        return FALLBACK_AFTER
    return QUEUE_PATIENCE if kind in {"rate_limit", "offline"} else SERVER_PATIENCE


def give_up(fault: Fault, model: str, rest: tuple[str, ...]) -> GivenUp:
    """Say what follows when *model* is not tried any more, *rest* being left.

    >>> give_up(Fault("bad_key"), "a/m", ("a/n", "b/n")).rest
    ('b/n',)
    """
    return GivenUp(describe(model, fault), _useful(fault.kind, model, rest))


def _useful(kind: FailureKind, model: str, rest: tuple[str, ...]) -> tuple[str, ...]:
    if kind not in _WHOLE_PROVIDER:
        return rest
    provider, _ = split_name(model)
    return tuple(name for name in rest if split_name(name)[0] != provider)
