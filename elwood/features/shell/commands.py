"""The command /workspace: review instruction files that commands changed."""

from collections.abc import Callable
from functools import partial
from itertools import takewhile
from pathlib import Path

from elwood.agent.session.extension import CommandAnswer, CommandCall
from elwood.foundation.runtime import Blocking
from elwood.foundation.sandbox.instructions import (
    SetAside,
    accept,
    discard,
    list_set_aside,
    read_set_aside,
)
from elwood.foundation.storage.confined import PathMissing, PathRefused, Unconfined
from elwood.foundation.storage.files import Root
from elwood.foundation.text.characters import escape_invisible
from elwood.foundation.text.lines import escape_name, fence, shorten

USAGE = (
    "/workspace review: show the changes.\n"
    "/workspace accept ID: keep a change.\n"
    "/workspace discard ID: delete a change."
)
NOTHING = "No command has changed an instruction file. There is nothing to review."
# Bytes of a file whose change is shown.
MAX_SHOWN = 64 << 10
# Lines shown of a change, and characters of each.
MAX_LINES, MAX_LINE = 80, 300
# Changes shown in one answer; the others follow when these are decided.
MAX_CHANGES = 5


class WorkspaceReview:
    """Answers /workspace for the folder *workspace*; the pending files are in *state*.

    *decided* is called with each file that the owner decided about.
    """

    def __init__(
        self, workspace: Root, state: Path, blocking: Blocking, decided: Callable[[SetAside], None]
    ) -> None:
        self._workspace = workspace
        self._state = state
        self._blocking = blocking
        self._decided = decided

    async def answer(self, call: CommandCall) -> CommandAnswer:
        verb, _, id_ = call.given.strip().partition(" ")
        waiting = await self._blocking(partial(list_set_aside, self._state))
        if verb in ("", "review") and not id_:
            return await self._blocking(lambda: self._review(waiting))
        one = next((each for each in waiting if each.id == id_.strip()), None)
        if verb not in ("accept", "discard"):
            return CommandAnswer(USAGE)
        if one is None:
            prefix = "You have already decided about it. " if call.again else ""
            return CommandAnswer(f"{prefix}There is no change with that ID.\n{USAGE}")
        answer = await self._blocking(lambda: self._decide(verb, one))
        if one not in await self._blocking(partial(list_set_aside, self._state)):
            self._decided(one)
        return answer

    def _decide(self, verb: str, one: SetAside) -> CommandAnswer:
        name = escape_name(one.path)
        if verb == "discard":
            discard(self._state, one)
            return CommandAnswer(f"I deleted the version of {name} that a command wrote.")
        if one.what != "file":
            return CommandAnswer(f"{name} became a {one.what}. I never read instructions from one.")
        try:
            accept(self._workspace, self._state, one)
        except (PathRefused, Unconfined) as error:
            return CommandAnswer(f"I could not accept it: {error}")
        return CommandAnswer(
            f"I accepted the command's version of {name}, and follow it from now on."
        )

    def _review(self, waiting: list[SetAside]) -> CommandAnswer:
        if not waiting:
            return CommandAnswer(NOTHING)
        parts = [self._describe_file(one) for one in waiting[:MAX_CHANGES]]
        more = len(waiting) - len(parts)
        end = "I ignore these changes until you accept them."
        text = "\n\n".join([*parts, *([f"{more} more to review."] if more else []), end])
        ids = [one.id for one in waiting[:MAX_CHANGES]]
        buttons = [f"/workspace {verb} {id_}" for id_ in ids for verb in ("accept", "discard")]
        return CommandAnswer(text, buttons=tuple(buttons))

    def _describe_file(self, one: SetAside) -> str:
        head = f"{one.id}: a command wrote {escape_name(one.path)}"
        if one.what != "file":
            return f"{head}, as a {one.what}."
        try:
            old = self._workspace.read(one.path, MAX_SHOWN)
        except PathMissing:
            old = b""
        new = read_set_aside(self._state, one)
        shown = describe_change(
            old.decode("utf-8", "replace"), new[:MAX_SHOWN].decode("utf-8", "replace")
        )
        rest = f"\n[{len(new) - MAX_SHOWN:,} more bytes]" if len(new) > MAX_SHOWN else ""
        return f"{head}:\n{fence(shown + rest)}"


def describe_change(old: str, new: str) -> str:
    r"""Return the lines from the first to the last difference; in time linear in both.

    >>> print(describe_change("a\nb\nc\n", "a\nx\nc\n"))
     a
    -b
    +x
     c
    """
    before, after = old.splitlines(), new.splitlines()
    start = _count_same(before, after)
    end = _count_same(before[start:][::-1], after[start:][::-1])
    lines = [
        *(f" {line}" for line in before[max(0, start - 1) : start]),
        *(f"-{line}" for line in before[start : len(before) - end]),
        *(f"+{line}" for line in after[start : len(after) - end]),
        *(f" {line}" for line in after[len(after) - end :][:1]),
    ]
    shown = [escape_invisible(shorten(line, MAX_LINE)) for line in lines[:MAX_LINES]]
    more = len(lines) - len(shown)
    return "\n".join([*shown, *([f"[{more} more lines]"] if more else [])])


def _count_same(one: list[str], other: list[str]) -> int:
    pairs = zip(one, other, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
