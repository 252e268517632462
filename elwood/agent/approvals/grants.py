"""Who was let in: a fold over requests for access, their answers, and chats that moved.

A pairing code is shown to a stranger; whoever owns the house lets them in by it.  What may be done
stands in the same log, and is `core/permissions.py`'s.
"""

from typing import Literal

import msgspec

from elwood.agent.conversation.route import Route

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
# Digits and capitals without those taken for one another: 0 O 1 I L, and U for V.
CODE_ALPHABET = "23456789ABCDEFGHJKMNPQRSTVWXYZ"


class Asked(msgspec.Struct, frozen=True, tag="asked"):
    """A stranger, *principal*, calling themselves *name*, was given *code*."""

    code: str
    principal: str
    name: str
    route: Route


class Answered(msgspec.Struct, frozen=True, tag="answered"):
    """*by* decided about *code*: the one decision that counts."""

    code: str
    approved: bool
    by: str


class Moved(msgspec.Struct, frozen=True, tag="moved"):
    """The group *old* is now *new*."""

    old: int
    new: int


GrantEntry = Asked | Answered | Moved


class Request(msgspec.Struct, frozen=True):
    """A request for access made *at* a Unix time, with nothing decided yet."""

    at: float
    asked: Asked


class Grants(msgspec.Struct):
    """What the log of approvals adds up to."""

    known: dict[str, str] = msgspec.field(default_factory=dict)
    requests: dict[str, Request] = msgspec.field(default_factory=dict)
    denied: dict[str, float] = msgspec.field(default_factory=dict)
    moved: dict[int, int] = msgspec.field(default_factory=dict)

    def apply(self, seq: int, at: float, entry: GrantEntry) -> None:
        """Fold in one entry, written *at* a Unix time."""
        match entry:
            case Asked():
                for code in [c for c, r in self.requests.items() if not is_fresh(r.at, at)]:
                    del self.requests[code]
                self.requests[entry.code] = Request(at, entry)
            case Answered():
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
            case Moved():
                self.moved[entry.new] = self.moved.get(entry.old, entry.old)

    def open(self, now: float) -> list[Asked]:
        """List the requests that can still be answered at *now*, oldest first."""
        return [r.asked for r in self.requests.values() if is_fresh(r.at, now)]

    def find(self, code: str, now: float) -> Asked | None:
        """Return the open request with *code*, however people type it, if there is one."""
        request = self.requests.get(normal(code))
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


def normal(code: str) -> str:
    """Undo what people do to a code when they type it.

    >>> normal(" abcd-2345 ")
    'ABCD2345'
    """
    return "".join(c for c in code.upper() if c in CODE_ALPHABET)[: CODE_LENGTH + 1]


def button(code: str, verdict: Literal["y", "n"]) -> str:
    """Write what a button under a request carries: at most 64 bytes (TG-29).

    >>> button("ABCD2345", "y")
    'p:ABCD2345:y'
    """
    return f"p:{code}:{verdict}"


def pressed(data: str) -> tuple[str, bool] | None:
    """Read what a button carries: the code and whether it says yes; None if it is not ours.

    >>> pressed("p:ABCD2345:n"), pressed("p:ABCD2345"), pressed("x")
    (('ABCD2345', False), None, None)
    """
    match data.split(":"):
        case ["p", code, ("y" | "n") as verdict] if len(code) == CODE_LENGTH:
            return code, verdict == "y"
    return None
