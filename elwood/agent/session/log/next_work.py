"""What a session has left to do."""

from itertools import takewhile

import attrs

from elwood.agent.conversation.task_run import job_of
from elwood.agent.session.log.entries import MAX_ATTEMPTS, Received
from elwood.agent.session.log.state import Session


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


# Commands that move the conversation: what is said behind them is for the place they move it to.
MOVING = frozenset({"/new", "/undo", "/retry", "/branch", "/resume"})
Work = Start | Resume | GiveUp | Nothing


def is_command(received: Received) -> bool:
    """Tell whether a message is a slash command, which needs no model.

    >>> from elwood.agent.conversation.route import Route
    >>> route = Route("console")
    >>> is_command(Received("1", "/new", "me", route, 0.0))
    True
    >>> is_command(Received("1", "/etc/hosts says what?", "me", route, 0.0))
    False
    """
    words = received.text.split(maxsplit=1) if received.errand is None else []
    return bool(words) and words[0].startswith("/") and words[0][1:].isalnum()


def commands(session: Session) -> tuple[Received, ...]:
    """List the slash commands that wait, the oldest first."""
    return tuple(received for received in session.waiting.values() if is_command(received))


def moves(received: Received) -> bool:
    """Tell whether a message is a command that moves the conversation."""
    return is_command(received) and received.text.split(maxsplit=1)[0].lower() in MOVING


def inputs(session: Session) -> tuple[Received, ...]:
    """List what a turn may take of what waits: nothing behind a command that moves it away.

    The run of a task is a turn of its own: nothing joins it, and it joins nothing.

    >>> from elwood.agent.conversation.route import Route
    >>> said = [Received(text, text, "me", Route("console"), 0.0) for text in ("a", "/new", "b")]
    >>> [received.id for received in inputs(Session(waiting={one.id: one for one in said}))]
    ['a']
    """
    before = takewhile(lambda received: not moves(received), session.waiting.values())
    said = [received for received in before if not is_command(received)]
    if session.turn is None and said and said[0].errand is not None:
        return (said[0],)
    if session.turn is not None and session.turn.errand is not None:
        return ()
    return tuple(received for received in said if received.errand is None)


def allowed(session: Session) -> tuple[str, ...]:
    """List the calls that the owner has allowed meanwhile, of one job: its turn has its bounds."""
    kept = {key: one for key, one in session.pending.items() if one.decided is not None}
    jobs = {key: job_of(one.errand) for key, one in kept.items()}
    return tuple(key for key, job in jobs.items() if job == next(iter(jobs.values())))


def next_work(session: Session) -> Work:
    """Decide what the session must do next about turns (deliveries go on beside)."""
    if session.turn is not None:
        attempt = session.turn.attempts + 1
        return GiveUp() if attempt >= MAX_ATTEMPTS else Resume(attempt)
    if (calls := allowed(session)) and not any(map(moves, session.waiting.values())):
        return Start((), calls)
    taken = inputs(session)
    return Start(taken) if taken else Nothing()
