"""Draw the inspection of the running Elwood for ``elwood inspect``.

Times are ages in seconds, because its clock has no meaning outside the process.
"""

from collections.abc import Collection, Iterator

import msgspec

from elwood.agent.conversation.run import is_child
from elwood.agent.session.inspection import (
    ActorSeen,
    Inspection,
    SessionSeen,
    StuckSeen,
    Vitals,
    shorten,
)
from elwood.foundation.text.lines import ago, clip, duration, size_text, wrap
from elwood.foundation.text.tables import Line, Row, Style, Styled, bar, table

# Characters of an inspection as JSON, before it is escaped as a JSON string for sending.
MAX_JSON = 400_000
# The most lines of one text above the tree.
LINES = 5


def encode_fitting(inspection: Inspection) -> str:
    """Encode *inspection* as one line of JSON; drop the last actors if it is too long."""
    keep = max(len(inspection.actors), len(inspection.process.sessions))
    text = msgspec.json.encode(inspection).decode()
    while len(text) > MAX_JSON and keep:
        keep //= 2
        text = msgspec.json.encode(shorten(inspection, keep)).decode()
    return text


def render(inspection: Inspection, *, now: float, width: int) -> list[Line]:
    """Draw Elwood as a tree, at most *width* columns wide; *now* is Unix time.

    >>> from elwood.agent.session.inspection import ProcessSeen
    >>> process = ProcessSeen("0.1.0", started=100.0, pid=7)
    >>> actors = (ActorSeen("outbox", "running", 60.0, depth=1, capacity=64),)
    >>> for line in render(Inspection(process, actors), now=160.0, width=70):
    ...     print("".join(part.text for part in line).rstrip())
    Elwood 0.1.0 · pid 7 · up 60 s
    actor      state    for   queue
    └─ outbox  running  60 s  1/64
    """
    head = [Styled(_headline(inspection, now), "bold"), *_vitals(inspection.vitals, now)]
    head += [Styled(f"! {_describe_stuck(seen)}", "bad") for seen in inspection.stuck]
    rows = [*_rows(inspection, {seen.actor for seen in inspection.stuck})]
    lines: list[Line] = [
        [Styled(clip(line, width), style)]
        for text, style in head
        for line in wrap(text, width)[:LINES]
    ]
    lines += table(("actor", "state", "for", "queue", ""), rows, width, ("queue",)) if rows else []
    if inspection.left_out:
        lines.append([Styled(f"… and {inspection.left_out} more")])
    return lines


def summary(inspection: Inspection, *, now: float) -> list[Line]:
    """Summarize the state of Elwood in a few lines; *now* is Unix time."""
    lines = [f"! {_describe_stuck(one)}" for one in inspection.stuck]
    lines += [
        f"! {actor.name}: {one.what}: {one.error}"
        for actor in inspection.actors
        for one in actor.troubles
    ]
    styled = [Styled(line, "bad") for line in lines]
    styled = styled or [Styled("Nothing is stuck or failing.", "good")]
    return [[line] for line in (Styled(_headline(inspection, now), "bold"), *styled)]


def _describe_stuck(seen: StuckSeen) -> str:
    return f"{seen.actor}: {seen.what}" if seen.actor else seen.what


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
    if process.memory:
        parts.append(size_text(process.memory))
    if turns:
        parts.append(f"{turns} open turn{'s' * (turns > 1)}")
    if undelivered:
        parts.append(f"{undelivered} undelivered")
    return " · ".join(parts)


def _vitals(vitals: Vitals, now: float) -> Iterator[Styled]:
    parts = [f"sandbox {vitals.sandbox}"] if vitals.sandbox else []
    parts += [f"{what} {size / 1e6:.1f} MB" for what, size in vitals.sizes.items()]
    if vitals.budget:
        parts.append(f"today {vitals.budget['tokens']:,.0f} tokens, ${vitals.budget['usd']:.2f}")
    if parts:
        yield Styled(" · ".join(parts))
    for unit, name in (("tokens", "tokens"), ("usd", "dollars")):
        if most := vitals.budget.get(f"limit_{unit}"):
            share = (vitals.budget[unit] or 0) / most
            drawn = bar(share)
            yield Styled(f"{drawn.text} {share:.0%} of the day's limit of {name}", drawn.style)
    if vitals.last_error:
        age = ago(now - vitals.last_error_at)
        yield Styled(f"last error {age}: {vitals.last_error}", "warning")


def _rows(inspection: Inspection, stuck: Collection[str]) -> Iterator[Row]:
    """Yield the actors as a tree: ``sessions/a`` hangs below ``sessions``."""
    sessions = {
        f"{'child runs' if is_child(one.session) else 'sessions'}/{one.session}": one
        for one in inspection.process.sessions
    }
    actors = {actor.name: actor for actor in inspection.actors}
    for name in sessions:  # a session with open work may have no running actor
        actors.setdefault(name, ActorSeen(name, "asleep", 0.0))
    below: dict[str, list[ActorSeen]] = {}
    for actor in actors.values():
        below.setdefault(_parent(actor.name, actors), []).append(actor)

    def draw(parent: str, before: str) -> Iterator[Row]:
        children = below.get(parent, [])
        for number, actor in enumerate(children):
            last = number == len(children) - 1
            label = before + ("└─ " if last else "├─ ") + actor.name[len(parent) :].lstrip("/")
            style: Style = "bad" if actor.name in stuck else ""
            since = "" if actor.state == "asleep" else duration(actor.age)
            queue = f"{actor.depth}/{actor.capacity}" if actor.capacity else ""
            notes = "\n".join([_summary(actor, sessions.get(actor.name)), *_details(actor), ""])
            yield Styled(label, style), Styled(actor.state, style), since, queue, notes
            yield from draw(actor.name, before + ("   " if last else "│  "))

    yield from draw("", "")


def _parent(name: str, actors: dict[str, ActorSeen]) -> str:
    while "/" in name:
        name = name.rpartition("/")[0]
        if name in actors:
            return name
    return ""


def _summary(actor: ActorSeen, session: SessionSeen | None) -> str:
    notes = []
    if actor.restarts:
        notes.append(f"{actor.restarts} restart{'s' * (actor.restarts > 1)}")
    if session is not None and session.turn_age is not None:
        notes.append(f"turn open for {duration(session.turn_age)}")
    if session is not None and session.waiting:
        notes.append(f"{session.waiting} waiting")
    if session is not None and session.undelivered:
        notes.append(f"{session.undelivered} undelivered")
    return " · ".join(notes)


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
