"""What ``elwood inspect`` sees of the running Elwood, and how it draws it.

Times are ages in seconds, since its clock means nothing outside of it.
"""

import textwrap
from collections.abc import Iterator

import msgspec

from elwood.agent.session.inspection import ActorSeen, Inspection, SessionSeen, Vitals, shorten
from elwood.foundation.text.lines import clip, duration
from elwood.foundation.text.lines import width as columns

# Characters of an inspection as JSON; as a string of JSON, which it is sent in, it is longer.
MAX_JSON = 400_000
# Lines of one text in the tree.
LINES = 5


def fitted(inspection: Inspection) -> str:
    """Write *inspection* as JSON of one line; one that is too long loses its last actors."""
    keep = max(len(inspection.actors), len(inspection.process.sessions))
    text = msgspec.json.encode(inspection).decode()
    while len(text) > MAX_JSON and keep:
        keep //= 2
        text = msgspec.json.encode(shorten(inspection, keep)).decode()
    return text


def render(inspection: Inspection, *, now: float, width: int) -> str:
    """Draw Elwood as a tree, at most *width* columns wide; *now* is Unix seconds.

    >>> from elwood.agent.session.inspection import ProcessSeen
    >>> process = ProcessSeen("0.1.0", started=100.0, pid=7)
    >>> actors = (ActorSeen("outbox", "running", 60.0, depth=1, capacity=64),)
    >>> print(render(Inspection(process, actors), now=160.0, width=70))
    Elwood 0.1.0 · pid 7 · up 60 s
    └─ outbox  running            60 s     1/64
    """
    lines = [_headline(inspection, now), *_vitals(inspection.vitals, now)]
    for seen in inspection.stuck:
        told = f"{seen.actor}: {seen.what}" if seen.actor else seen.what
        lines += [f"! {line}" for line in _fold(told, width - 2)]
    rows = list(_rows(inspection))
    names = max((columns(row.label) for row in rows), default=0)
    names = min(names, max(12, width * 2 // 5))
    stuck = {seen.actor for seen in inspection.stuck}
    for row in rows:
        mark = "" if not stuck else "! " if row.name in stuck else "  "
        label = clip(row.label, names)
        lines.append(f"{mark}{label}{' ' * (names - columns(label))}  {row.text}")
        room = width - columns(row.under) - 2
        lines += [
            f"{mark}{row.under}{line}" for detail in row.details for line in _fold(detail, room)
        ]
    if inspection.left_out:
        lines.append(f"… and {inspection.left_out} more")
    return "\n".join(clip(line, width).rstrip() for line in lines)


def summary(inspection: Inspection, *, now: float) -> str:
    """Say in a few lines how Elwood does; *now* is Unix seconds."""
    lines = [f"! {one.actor}: {one.what}".replace("! : ", "! ") for one in inspection.stuck]
    lines += [
        f"! {actor.name}: {one.what}: {one.error}"
        for actor in inspection.actors
        for one in actor.troubles
    ]
    return "\n".join([_headline(inspection, now), *(lines or ["Nothing is stuck or failing."])])


def _fold(text: str, width: int) -> list[str]:
    """Break a long *text* between words: the remedy of an error stands at its end."""
    return textwrap.wrap(text, max(20, width), subsequent_indent="  ", max_lines=LINES) or [""]


class _Row(msgspec.Struct):
    name: str
    label: str
    under: str
    text: str
    details: list[str]


def _headline(inspection: Inspection, now: float) -> str:
    process = inspection.process
    turns = sum(session.turn_age is not None for session in process.sessions)
    undelivered = sum(session.undelivered for session in process.sessions)
    parts = [f"Elwood {process.version}"]
    if process.python:
        parts.append(f"Python {process.python}")
    if process.pid:
        parts.append(f"pid {process.pid}")
    parts.append(f"up {duration(now - process.started)}")
    if turns:
        parts.append(f"{turns} open turn{'s' * (turns > 1)}")
    if undelivered:
        parts.append(f"{undelivered} undelivered")
    return " · ".join(parts)


def _vitals(vitals: Vitals, now: float) -> Iterator[str]:
    parts = [f"sandbox {vitals.sandbox}"] if vitals.sandbox else []
    parts += [f"{what} {size / 1e6:.1f} MB" for what, size in vitals.sizes.items()]
    if vitals.budget:
        parts.append(f"today {vitals.budget['tokens']:,.0f} tokens, ${vitals.budget['usd']:.2f}")
    if parts:
        yield " · ".join(parts)
    if vitals.last_error:
        yield f"last error {duration(now - vitals.last_error_at)} ago: {vitals.last_error}"


def _rows(inspection: Inspection) -> Iterator[_Row]:
    """Yield the actors as a tree: ``sessions/a`` hangs below ``sessions``."""
    sessions = {f"sessions/{session.session}": session for session in inspection.process.sessions}
    actors = {actor.name: actor for actor in inspection.actors}
    for name in sessions:  # it owes something although nobody is at home
        actors.setdefault(name, ActorSeen(name, "asleep", 0.0))
    below: dict[str, list[ActorSeen]] = {}
    for actor in actors.values():
        below.setdefault(_parent(actor.name, actors), []).append(actor)

    def draw(parent: str, before: str) -> Iterator[_Row]:
        children = below.get(parent, [])
        for number, actor in enumerate(children):
            last = number == len(children) - 1
            further = before + ("   " if last else "│  ")
            under = further + ("│    " if actor.name in below else "     ")
            label = before + ("└─ " if last else "├─ ") + actor.name[len(parent) :].lstrip("/")
            session = sessions.get(actor.name)
            yield _Row(actor.name, label, under, _summary(actor, session), list(_details(actor)))
            yield from draw(actor.name, further)

    yield from draw("", "")


def _parent(name: str, actors: dict[str, ActorSeen]) -> str:
    while "/" in name:
        name = name.rpartition("/")[0]
        if name in actors:
            return name
    return ""


def _summary(actor: ActorSeen, session: SessionSeen | None) -> str:
    since = "" if actor.state == "asleep" else duration(actor.age)
    queue = f"{actor.depth}/{actor.capacity}" if actor.capacity else ""
    notes = []
    if actor.restarts:
        notes.append(f"{actor.restarts} restart{'s' * (actor.restarts > 1)}")
    if session is not None and session.turn_age is not None:
        notes.append(f"turn open for {duration(session.turn_age)}")
    if session is not None and session.waiting:
        notes.append(f"{session.waiting} waiting")
    if session is not None and session.undelivered:
        notes.append(f"{session.undelivered} undelivered")
    return f"{actor.state:10}  {since:>11}  {queue:>7}  {' · '.join(notes)}".rstrip()


def _details(actor: ActorSeen) -> Iterator[str]:
    for wait in actor.waits:
        limit = "" if wait.limit is None else f" (limit {duration(wait.limit)})"
        yield f"waits for {wait.what}, {duration(wait.age)}{limit}"
    for trouble in actor.troubles:
        if not trouble.count:
            yield f"{trouble.what}, for {duration(trouble.age)}: {trouble.error}"
            continue
        times = f"{trouble.count} time{'s' * (trouble.count > 1)} in {duration(trouble.age)}"
        yield f"{trouble.what} failed {times}: {trouble.error}"
    for done in actor.done:
        yield f"{done.what}: {done.outcome}, {duration(done.age)} ago"
    if actor.last_crash is not None:
        ago = "" if actor.last_crash_age is None else f" {duration(actor.last_crash_age)} ago"
        yield f"last crash{ago}: {actor.last_crash}"
