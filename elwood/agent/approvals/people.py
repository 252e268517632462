"""Who was let in: a fold over requests for access, their answers, and chats that moved.

A pairing code is shown to a stranger; whoever owns Elwood lets them in by it.  What may be done
stands in the same journal (`state.py`).
"""

from typing import Literal

import msgspec

from elwood.agent.conversation.route import Route
from elwood.foundation.text.characters import normal_code

# Seconds for which a code is valid; also the least time between two codes for one person (TG-30).
CODE_LASTS = 3600.0
# Codes open at a time: what strangers can make us write and show is bounded.
MAX_OPEN = 20
# Seconds for which somebody turned away gets no further code.
DENIED_FOR = 30 * 86400.0
# People turned away that are remembered; the oldest are forgotten first.
MAX_DENIED = 1000
# Seconds by which the clock may step back without making codes expire (CP-35).
STEP_BACK = 60.0
CODE_LENGTH = 8


class AccessRequested(msgspec.Struct, frozen=True, tag="asked"):
    """A stranger, *principal*, calling themselves *name*, was given *code*."""

    code: str
    principal: str
    name: str
    route: Route


class AccessDecided(msgspec.Struct, frozen=True, tag="answered"):
    """*by* decided about *code*: the one decision that counts."""

    code: str
    approved: bool
    by: str


class ChatMoved(msgspec.Struct, frozen=True, tag="moved"):
    """The group *old* is now *new*."""

    old: int
    new: int


PeopleEntry = AccessRequested | AccessDecided | ChatMoved


class AccessRequest(msgspec.Struct, frozen=True):
    """A request for access made *at* a Unix time, with nothing decided yet."""

    at: float
    asked: AccessRequested


class People(msgspec.Struct):
    """What the log of approvals adds up to."""

    known: dict[str, str] = msgspec.field(default_factory=dict)
    requests: dict[str, AccessRequest] = msgspec.field(default_factory=dict)
    denied: dict[str, float] = msgspec.field(default_factory=dict)
    moved: dict[int, int] = msgspec.field(default_factory=dict)

    def apply(self, at: float, entry: PeopleEntry) -> None:
        """Fold in one entry, written *at* a Unix time."""
        match entry:
            case AccessRequested():
                for code in [c for c, r in self.requests.items() if not is_fresh(r.at, at)]:
                    del self.requests[code]
                self.requests[entry.code] = AccessRequest(at, entry)
            case AccessDecided():
                request = self.requests.pop(entry.code, None)
                if request is None:
                    return
                if entry.approved:
                    self.known[request.asked.principal] = request.asked.name
                    self.denied.pop(request.asked.principal, None)
                else:
                    self.denied[request.asked.principal] = at
                    while len(self.denied) > MAX_DENIED:
                        del self.denied[next(iter(self.denied))]
            case ChatMoved():
                self.moved[entry.new] = self.moved.get(entry.old, entry.old)

    def open(self, now: float) -> list[AccessRequested]:
        """List the requests that can still be answered at *now*, oldest first."""
        return [r.asked for r in self.requests.values() if is_fresh(r.at, now)]

    def find(self, code: str, now: float) -> AccessRequested | None:
        """Return the open request with *code*, however people type it, if there is one."""
        request = self.requests.get(normal_code(code))
        return request.asked if request is not None and is_fresh(request.at, now) else None

    def may_ask(self, principal: str, now: float) -> bool:
        """Tell whether a stranger should be given a code now."""
        denied = self.denied.get(principal)
        if denied is not None and 0 <= now - denied < DENIED_FOR:
            return False
        waiting = self.open(now)
        return len(waiting) < MAX_OPEN and all(a.principal != principal for a in waiting)


def is_fresh(at: float, now: float) -> bool:
    """Tell whether a code made *at* is still valid; a clock set back far ends it too.

    >>> is_fresh(1000.0, 1001.0), is_fresh(1000.0, 4600.0), is_fresh(90000.0, 1000.0)
    (True, False, False)
    """
    return -STEP_BACK <= now - at < CODE_LASTS


def access_button(code: str, verdict: Literal["y", "n"]) -> str:
    """Write what a button under a request carries: at most 64 bytes (TG-29).

    >>> access_button("ABCD2345", "y")
    'p:ABCD2345:y'
    """
    return f"p:{code}:{verdict}"


def access_pressed(data: str) -> tuple[str, bool] | None:
    """Read what a button carries: the code and whether it says yes; None if it is not ours.

    >>> access_pressed("p:ABCD2345:n"), access_pressed("p:ABCD2345"), access_pressed("x")
    (('ABCD2345', False), None, None)
    """
    match data.split(":"):
        case ["p", code, ("y" | "n") as verdict] if len(code) == CODE_LENGTH:
            return code, verdict == "y"
    return None
