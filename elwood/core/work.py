"""What a session has left to do."""

import attrs

from elwood.core.replay import Session
from elwood.core.session import MAX_ATTEMPTS, Received


@attrs.frozen
class Start:
    """Begin a turn on *inputs*, or on *calls* that waited for the owner and may run now."""

    inputs: tuple[Received, ...]
    calls: tuple[str, ...] = ()


@attrs.frozen
class Resume:
    """Go on with the open turn, as its *attempt*-th start in a row without progress."""

    attempt: int


@attrs.frozen
class GiveUp:
    """The open turn has been started too often without progress: say so and move on."""


@attrs.frozen
class Nothing:
    """No turn is to be run."""


Work = Start | Resume | GiveUp | Nothing


def is_command(received: Received) -> bool:
    """Tell whether a message is a slash command, which needs no model.

    >>> from elwood.core.session import Route
    >>> route = Route("console")
    >>> is_command(Received("1", "/new", "me", route, 0.0))
    True
    >>> is_command(Received("1", "/etc/hosts says what?", "me", route, 0.0))
    False
    """
    words = received.text.split(maxsplit=1)
    return bool(words) and words[0].startswith("/") and words[0][1:].isalnum()


def commands(session: Session) -> tuple[Received, ...]:
    """List the slash commands that wait, the oldest first."""
    return tuple(received for received in session.waiting.values() if is_command(received))


def next_work(session: Session) -> Work:
    """Decide what the session must do next about turns (deliveries go on beside)."""
    if session.turn is not None:
        attempt = session.turn.attempts + 1
        return GiveUp() if attempt >= MAX_ATTEMPTS else Resume(attempt)
    calls = tuple(key for key, kept in session.pending.items() if kept.decided is not None)
    if calls:
        return Start((), calls)
    inputs = tuple(r for r in session.waiting.values() if not is_command(r))
    return Start(inputs) if inputs else Nothing()
