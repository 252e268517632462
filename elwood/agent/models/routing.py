"""Choice of a model, and retries after failures of a provider."""

from typing import Literal

import msgspec

# Kinds of failures of a provider.
FailureKind = Literal[
    "rate_limit",  # 429 that will pass
    "spend_limit",  # 429 or 400/402 that lasts until a person acts or a month ends
    "overloaded",  # 529
    "server",  # 500, 502, 503, 504, HTML instead of JSON
    "conflict",  # 408, 409
    "offline",  # connect, TLS or DNS failed: nothing was sent
    "cut",  # the connection or the stream ended before the response was complete
    "stalled",  # no data for too long
    "nonsense",  # a complete response that contradicts itself (LLM-24, LLM-25), or has no end
    "bad_key",  # 401
    "no_key",  # 401, or known before the request
    "forbidden",  # 403
    "no_model",  # 404
    "too_long",  # prompt too long, 413
    "history",  # 400 about the messages
    "rejected",  # any other 400
]


def split_name(name: str) -> tuple[str, str]:
    """Split ``provider/model``; the model's own name may contain slashes.

    Raises ValueError if there is no provider in it, which is an error of the configuration.
    >>> split_name("openrouter/z-ai/glm-5")
    ('openrouter', 'z-ai/glm-5')
    """
    provider, slash, model = name.partition("/")
    if not (provider and slash and model):
        raise ValueError(f"{name!r} does not have the form provider/model")
    return provider, model


class Fault(msgspec.Struct, frozen=True):
    """A failure of a provider; *retry_after* is its requested delay, in seconds.

    *should_retry* is its explicit answer about retrying (``x-should-retry``).  *detail* is safe to
    show: it contains no key, and no URL with one.
    """

    kind: FailureKind
    detail: str = ""
    retry_after: float | None = None
    should_retry: bool | None = None


class GivenUp(msgspec.Struct, frozen=True):
    """A model is not retried because of *why*; *rest* are the fallbacks."""

    why: str
    rest: tuple[str, ...] = ()


# Seconds after which the retries for one answer end: for a server's fault (LLM-05), and for faults
# that pass (LLM-01, LLM-08).  The requester may set a shorter time.
SERVER_PATIENCE = 300.0
QUEUE_PATIENCE = 900.0
# Seconds after which a fallback is better than waiting, if one is configured (LLM-04).
FALLBACK_AFTER = 120.0
# Retries of failures that may be caused by this request.
RETRIES = {"conflict": 2, "nonsense": 1, "rejected": 2, "cut": 5, "stalled": 2}

# A busy or unreachable service recovers without a signal, so one of the waiting calls tries every
# few seconds; one with a rate limit sends a signal.
_BACKOFF, _SLOWER = (0.5, 1.0, 2.0, 4.0, 8.0), (30.0, 60.0, 120.0)
_TRANSIENT = {
    "rate_limit", "overloaded", "server", "conflict", "offline", "cut", "stalled", "nonsense",
}  # fmt: skip
_WHOLE_PROVIDER = {"spend_limit", "bad_key", "no_key", "forbidden", "offline"}
_WORDS: dict[FailureKind, str] = {
    "rate_limit": "accepts no further requests at the moment",
    "spend_limit": "is out of credit or has reached its spend limit",
    "overloaded": "is overloaded",
    "server": "has an internal error",
    "conflict": "could not process the request",
    "offline": "cannot be reached",
    "cut": "broke off its response",
    "stalled": "stopped in the middle of its response",
    "nonsense": "sent an invalid response",
    "bad_key": "does not accept the API key",
    "no_key": "has no API key",
    "forbidden": "does not permit this",
    "no_model": "does not have this model",
    "too_long": "rejects the conversation as too long",
    "history": "rejects the conversation",
    "rejected": "rejects the request",
}
_COMPANIES = {"anthropic": "Anthropic", "openai": "OpenAI", "openrouter": "OpenRouter"}
_REMEDIES: dict[FailureKind, str] = {
    "spend_limit": "add credit there, then send /retry",
    "bad_key": "set a new key and restart Elwood",
    "no_model": "choose another model",
}
# Seconds without requests to a provider that only a person can fix, unless a person writes and no
# other model could answer: they may have fixed it (LLM-02, 37, 38).
PAUSES: dict[FailureKind, float] = {"bad_key": 300.0, "forbidden": 300.0, "spend_limit": 900.0}


def describe(model: str, fault: Fault) -> str:
    """Describe a fault in a sentence, for the owner.

    >>> describe("anthropic/claude-sonnet-5-5", Fault("overloaded", "Overloaded"))
    'anthropic (claude-sonnet-5-5) is overloaded: Overloaded'
    """
    provider, name = split_name(model)
    remedy = f": {_REMEDIES[fault.kind]}" if fault.kind in _REMEDIES else ""
    detail = f": {fault.detail}" if fault.detail else ""
    if remedy and detail:
        detail = f" ({provider} says{detail})"
    return f"{provider} ({name}) {_WORDS[fault.kind]}{remedy}{detail}"


def retry_in(fault: Fault, times: int, jitter: float) -> float | None:
    """Return the delay in seconds after the *times*-th (from 1) consecutive failure of a model.

    None: a retry is useless.  *jitter* is a random number from 0 to 1.
    """
    wanted = fault.should_retry is True and fault.kind == "rejected"
    if fault.should_retry is False or not (fault.kind in _TRANSIENT or wanted):
        return None  # the header has precedence (LLM-07)
    if times > RETRIES.get(fault.kind, times):
        return None
    if fault.retry_after is not None:
        # A little later than requested, never earlier: all waiting calls got the same delay.
        return fault.retry_after + jitter * min(5.0, 0.1 + 0.25 * fault.retry_after)
    steps = (*_BACKOFF, *_SLOWER) if fault.kind == "rate_limit" else _BACKOFF
    delay = steps[min(times, len(steps)) - 1]
    # Short waits lose up to a quarter, as the SDK does; long ones get full jitter (LLM-04).
    return delay * (1 - 0.25 * jitter) if delay <= 8.0 else max(8.0, delay * (1 - jitter))


def patience(kind: FailureKind, model: str, rest: tuple[str, ...]) -> float:
    """Return for how many seconds to retry *model* after such a failure, with fallbacks *rest*."""
    if _usable_fallbacks(kind, model, rest):
        return FALLBACK_AFTER
    return QUEUE_PATIENCE if kind in {"rate_limit", "offline"} else SERVER_PATIENCE


def give_up(fault: Fault, model: str, rest: tuple[str, ...]) -> GivenUp:
    """Return why *model* is not retried, for a reader who knows no models, and the fallbacks.

    >>> give_up(Fault("spend_limit", "credit balance"), "anthropic/m", ("anthropic/n", "b/n"))
    GivenUp(why='the account at Anthropic has no credit left, or has reached its spending limit. \
Add credit there; then send /retry', rest=('b/n',))
    """
    why = describe(model, fault)
    if fault.kind == "spend_limit":
        provider, _ = split_name(model)
        why = f"the account at {_COMPANIES.get(provider, provider)} has no credit left, or has \
reached its spending limit. Add credit there; then send /retry"
    return GivenUp(why, _usable_fallbacks(fault.kind, model, rest))


def _usable_fallbacks(kind: FailureKind, model: str, rest: tuple[str, ...]) -> tuple[str, ...]:
    if kind not in _WHOLE_PROVIDER:
        return rest
    provider, _ = split_name(model)
    return tuple(name for name in rest if split_name(name)[0] != provider)
