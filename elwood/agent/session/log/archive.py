"""When a conversation is put away because nobody goes on with it."""

from elwood.agent.session.log.state import Session

# At the head of the first answer after it, once.
NOTE = "(I have put our last conversation away, as it was quiet; /resume brings it back.)\n\n"


def is_due(session: Session, last: float, now: float, after: float) -> bool:
    """Tell whether a session whose newest entry is of *last* has been quiet for *after* seconds.

    Nothing is due while anything is left to do, or waits for the owner.

    >>> is_due(Session(), 0.0, 1e9, 60.0)  # nothing was said that could be put away
    False
    """
    quiet = session.is_idle and not session.pending
    return quiet and bool(session.path) and now - last >= after
