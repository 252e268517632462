"""What ``elwood session show`` does: tells a conversation from its journal alone.

Works while a house runs, and when none can: nothing is opened for writing.
"""

import sys
from collections.abc import Iterator
from datetime import tzinfo
from pathlib import Path

import attrs

from elwood.agent.models.provider import ModelRequest
from elwood.agent.models.providers import encoder
from elwood.agent.session.log.entries import Entry
from elwood.agent.session.reading.transcript import (
    Log,
    Sent,
    sent,
    table,
    transcript,
    turns,
)
from elwood.app.config.settings import Config
from elwood.foundation.storage.chain import Unsound, entries_of


def show(
    config: Config, session: str, zone: tzinfo, *, turn: int | None = None, prompt: bool = False
) -> int:
    """Print the turns of *session*, or one of them whole; return the exit code.

    With *prompt* it is what the model was sent in that turn, or in the newest one: each request on
    a line, byte for byte.
    """
    folder = config.paths.state / "sessions"
    known = {path.stem: path for path in sorted(folder.glob("*.jsonl"))}
    if session not in known:
        names = ", ".join(known) or "none"
        print(f"there is no conversation called {session}; there are: {names}", file=sys.stderr)
        return 1
    journal = _Journal(known[session])
    try:
        if turn is None and not prompt:
            found = _print(table(turns(journal.log()), zone))
        else:
            number = (
                turn
                if turn is not None
                else max((r.number for r in turns(journal.log())), default=0)
            )
            if prompt:
                found = _print_sent(config, sent(journal.log(), f"t{number}"))
            else:
                found = _print(transcript(journal.log(), f"t{number}", zone))
            if not found and not journal.damage:
                what = "no answer of a model in" if prompt else "no"
                print(f"there is {what} turn {number} of {session}", file=sys.stderr)
    except BrokenPipeError:
        raise  # whoever read our output has gone; `cli` knows what that means
    except OSError as error:
        print(f"{known[session]}: cannot be read: {error.strerror}", file=sys.stderr)
        return 1
    if journal.damage:
        print(journal.damage, file=sys.stderr)
    return 0 if found and not journal.damage else 1


@attrs.define
class _Journal:
    """A log that is read; *damage* says what was wrong with it."""

    path: Path
    damage: str = ""

    def log(self) -> Log:
        """Yield its entries, up to where it is damaged."""
        try:
            yield from entries_of(self.path, Entry)
        except Unsound as error:
            self.damage = f"{self.path}: DAMAGED: {error}; what stands behind it is not shown"


def _print(lines: Iterator[str]) -> bool:
    found = False
    for line in lines:
        print(line)
        found = True
    return found


def _print_sent(config: Config, requests: Iterator[Sent]) -> bool:
    """Print bodies: they are what is hashed and cached, so not a byte is changed for a reader."""
    found = False
    for one in requests:
        body, note = body_of(config, one)
        if note:
            print(note, file=sys.stderr)
        sys.stdout.flush()
        sys.stdout.buffer.write(body + b"\n")
        sys.stdout.buffer.flush()
        found = True
    return found


def body_of(config: Config, one: Sent) -> tuple[bytes, str]:
    """Make the body of a request anew; say what of it is not in the log, if anything is not.

    The form of its provider is taken from the configuration of today.
    """
    name, _, model = one.said.message.model.partition("/")
    notes = []
    if not model or name not in config.providers:
        name, _, model = config.models.default.partition("/")
        model = one.said.message.model or model
        notes.append(f"who answers for {model!r} is not known; shown as {name} is asked")
    if not one.said.max_tokens:
        notes.append("max_tokens is not in the log; shown as configured")
    request = ModelRequest(
        model=model,
        prompt=one.prompt,
        messages=one.messages,
        max_tokens=one.said.max_tokens or config.models.max_tokens,
    )
    return encoder(config.providers[name])(request), "; ".join(notes)
