"""Searches lines for a regular expression, in one pass and without ever going back.

The expression is made a program of small steps (Thompson 1968); which steps a line may have
reached is a state, and states are remembered with what follows them (a lazily built automaton).
"""

from typing import assert_never

import attrs

from elwood.features.files.regex import (
    Assertion,
    BadExpression,
    Characters,
    Choice,
    Node,
    Repeat,
    Sequence,
    is_kind,
    read,
)

# Steps of a program: what {m,n} and nesting may multiply to.
MAX_STEPS = 2000
# What is remembered of states; beyond it everything is forgotten and found anew.
MAX_REMEMBERED = 20_000
# What finding a step of a program anew costs, in characters of text passed by known states.
_STEP_COST = 10


@attrs.frozen
class _Take:
    characters: Characters
    then: int


@attrs.frozen
class _Fork:
    one: int
    other: int


@attrs.frozen
class _Need:
    kind: str
    then: int


@attrs.frozen
class _Found:
    pass


class OutOfBudget(Exception):
    """The search cost more than it was given; the caller may search less text."""


_Step = _Take | _Fork | _Need | _Found
# What the character before was: None stands for the start of the line.
_Before = bool | None


class _State(dict[str, "_State | None"]):
    """The *steps* that may come next; by each character the state after it, None: found before."""

    def __init__(self, search: "Search", steps: frozenset[int], before: _Before) -> None:
        super().__init__()
        self.search = search
        self.steps = steps
        self.before = before

    def __missing__(self, character: str) -> "_State | None":
        after = self.search.after(self, character)
        self[character] = after
        return after


class Search:
    r"""A search for *expression*.  Raises BadExpression.

    All lines together may cost *budget*, counted in characters that are passed by known states.

    >>> Search(r"def \w+\(").find("    def run(self):")
    12
    >>> Search("colou?r$", ignore_case=True).find("COLOR"), Search("^b").find("ab")
    (5, None)
    """

    def __init__(
        self, expression: str, *, ignore_case: bool = False, budget: int | None = None
    ) -> None:
        found = read(expression)
        self._ignore_case = ignore_case or found.ignore_case
        self._program: list[_Step] = [_Found()]
        self._emitted = 0
        self._begin = self._emit(found.node, 0)
        # Must be in every line that is found.
        self._literal = "" if self._ignore_case else _literal(found.node)
        self._states: dict[tuple[frozenset[int], _Before], _State] = {}
        self._remembered = 0
        self.spent = 0
        self._budget = budget

    def find(self, line: str) -> int | None:
        """Say where the first match to end in *line* ends; None if there is none.

        *line* has no line break in it.  Raises OutOfBudget.
        """
        if self._literal not in line:
            return None
        self._spend(len(line))
        state = self._state(frozenset((self._begin,)), None)
        for at, character in enumerate(line):
            following = state[character]
            if following is None:
                return at
            state = following
        return len(line) if self._reached(state, None)[1] else None

    def after(self, state: _State, character: str) -> _State | None:
        """Find the state that follows *state*; None if the match ends before *character*."""
        reached, found = self._reached(state, character)
        if found:
            return None
        forms = {character}
        if self._ignore_case:
            forms |= {character.lower(), character.upper()}
        steps = {step.then for step in reached if step.characters.has(*forms)}
        # A match may begin at every character.
        steps.add(self._begin)
        self._remembered += 1
        if self._remembered > MAX_REMEMBERED:
            for known in self._states.values():
                known.clear()
            self._states.clear()
            self._remembered = 0
        return self._state(frozenset(steps), is_kind("w", character))

    def _state(self, steps: frozenset[int], before: _Before) -> _State:
        known = self._states.get((steps, before))
        if known is None:
            known = self._states[steps, before] = _State(self, steps, before)
        return known

    def _reached(self, state: _State, character: str | None) -> tuple[list[_Take], bool]:
        """Follow all steps that take no character; the flag tells that the match is complete."""
        todo, seen = list(state.steps), set(state.steps)
        takes: list[_Take] = []
        found = False
        while todo:
            step = self._program[todo.pop()]
            match step:
                case _Take():
                    takes.append(step)
                    following: tuple[int, ...] = ()
                case _Fork(one, other):
                    following = (one, other)
                case _Need(kind, then):
                    following = (then,) if _holds(kind, state.before, character) else ()
                case _Found():
                    found = True
                    following = ()
                case _:
                    assert_never(step)
            for number in following:
                if number not in seen:
                    seen.add(number)
                    todo.append(number)
        self._spend(_STEP_COST * len(seen))
        return takes, found

    def _spend(self, cost: int) -> None:
        self.spent += cost
        if self._budget is not None and self.spent > self._budget:
            raise OutOfBudget

    def _emit(self, node: Node, then: int) -> int:
        """Add the steps of *node*, which go on with the step *then*; return the first."""
        self._emitted += 1
        if self._emitted > MAX_STEPS:
            raise BadExpression("the expression is too large; repeat less")
        match node:
            case Characters():
                return self._add(_Take(node, then))
            case Assertion(kind):
                return self._add(_Need(kind, then))
            case Sequence(parts):
                for part in reversed(parts):
                    then = self._emit(part, then)
                return then
            case Choice(parts):
                first = self._emit(parts[-1], then)
                for part in reversed(parts[:-1]):
                    first = self._add(_Fork(self._emit(part, then), first))
                return first
            case Repeat(part, low, high):
                if high is None:
                    loop = self._add(_Found())
                    self._program[loop] = _Fork(self._emit(part, loop), then)
                    first = loop
                else:
                    first = then
                    for _ in range(high - low):
                        first = self._add(_Fork(self._emit(part, first), then))
                for _ in range(low):
                    first = self._emit(part, first)
                return first
            case _:
                assert_never(node)

    def _add(self, step: _Step) -> int:
        self._program.append(step)
        return len(self._program) - 1


def _holds(kind: str, before: _Before, character: str | None) -> bool:
    match kind:
        case "^":
            return before is None
        case "$":
            return character is None
        case _:
            after = character is not None and is_kind("w", character)
            return (bool(before) != after) is (kind == "b")


def _literal(node: Node) -> str:
    """Find the longest text that every match has in it."""
    parts = node.parts if isinstance(node, Sequence) else (node,)
    best = text = ""
    for part in parts:
        single = isinstance(part, Characters) and not part.kinds and not part.negated
        if single and isinstance(part, Characters) and len(part.ranges) == 1:
            low, high = part.ranges[0]
            text = f"{text}{low}" if low == high else ""
        else:
            text = ""
        best = max(best, text, key=len)
    return best
