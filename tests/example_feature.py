"""A feature that exists only in the tests: parcels that are tracked.

It has one of each possible part of a feature; docs/extending.md explains the same parts.
"""

from argparse import Namespace
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import ClassVar

import attrs
import msgspec
import trio

from elwood.agent.conversation.calls import Other
from elwood.agent.conversation.inbound import CommandResult
from elwood.agent.conversation.labels import PRIVATE
from elwood.agent.feature import Feature
from elwood.agent.parts import Actor, Chore, ControlCommand, Gathered, Parts, Report
from elwood.agent.session.core import Core
from elwood.agent.session.extension import (
    CommandAnswer,
    CommandCall,
    Reminder,
    SessionExtension,
    SlashCommand,
)
from elwood.agent.session.log.entries import Reminded
from elwood.agent.session.log.session_log import SessionLog
from elwood.agent.session.rights import Right
from elwood.agent.tools.tool import SearchResult, Tool, ToolContext, ToolFailure, always
from elwood.foundation.checks import CheckContext, Finding
from elwood.foundation.command_line import OK, CliCommand, CliFailure
from elwood.foundation.runtime import ActorUnavailable, Address, Mailbox, Request
from elwood.foundation.secrets.redaction import Secret
from elwood.foundation.settings import Config, Paths, Section, secret, setting
from elwood.foundation.storage.journal import Journal, entries_of

# Maximum number of tracked parcels.
MOST = 20
HOUR = 3_600.0
FILE = "parcels.jsonl"


# --- settings.py ----------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class ParcelSettings:
    """The carrier's settings."""

    SECTION: ClassVar = Section("parcels", "The carrier of the parcels.")

    key: Secret | None = secret("parcels-key", "PARCELS_KEY")
    every: float = setting(6.0, help="hours between two checks")


# --- messages.py ----------------------------------------------------------------------------------


class Track(Request[str], frozen=True, kw_only=True):
    """Track the parcel *number*; the answer confirms it."""

    number: str


class ListParcels(Request[tuple[str, ...]], frozen=True, kw_only=True):
    """Return the parcels."""


ParcelMail = Track | ListParcels


# --- state.py -------------------------------------------------------------------------------------


class ParcelAdded(msgspec.Struct, frozen=True, tag="added"):
    """The parcel *number* is now tracked."""

    number: str


class ParcelArrived(msgspec.Struct, frozen=True, tag="arrived"):
    """The parcel *number* is no longer tracked."""

    number: str


ParcelEntry = ParcelAdded | ParcelArrived


class ParcelBook(msgspec.Struct):
    """The folded entries."""

    numbers: list[str] = []

    def apply(self, seq: int, at: float, entry: ParcelEntry) -> None:
        """Apply the next *entry*."""
        match entry:
            case ParcelAdded(number):
                self.numbers.append(number)
            case ParcelArrived(number):
                self.numbers.remove(number)


# --- actor.py -------------------------------------------------------------------------------------


class Parcels:
    """Track parcels, and ask the carrier with *key*; write *journal*."""

    def __init__(self, journal: Journal[ParcelEntry, ParcelBook], key: Secret | None) -> None:
        self._journal = journal
        self._key = key

    async def run(self, mailbox: Mailbox[ParcelMail]) -> None:
        """Answer until the mailbox is closed."""
        await self._journal.open()
        async for message in mailbox:
            match message:
                case Track(number=number) if len(self._journal.state.numbers) < MOST:
                    await self._journal.append(ParcelAdded(number))
                    # Careless on purpose: a text with the key must be redacted.
                    key = self._key.reveal() if self._key else "no key"
                    message.reply.set(f"watching {number}, asked with {key}")
                case Track():
                    message.reply.set(f"{MOST} parcels are watched already")
                case ListParcels():
                    message.reply.set(tuple(self._journal.state.numbers))


# --- tools.py -------------------------------------------------------------------------------------


class TrackParcel(msgspec.Struct, forbid_unknown_fields=True):
    number: str


def tools(parcels: Address[ParcelMail]) -> list[Tool]:
    """Build the tools."""

    async def track(given: TrackParcel, context: ToolContext) -> str:
        try:
            return await parcels.ask(Track(number=given.number))
        except ActorUnavailable as error:
            raise ToolFailure(str(error)) from error

    return [
        Tool(
            name="track_parcel",
            description="Watch a parcel until it has arrived.",
            input=TrackParcel,
            run=track,
            id="parcels.parcel.track",
            risk="write",
            effect="once",
            target=lambda given: given.number,
            plan=always(Other("write"), "watch this parcel"),
        )
    ]


# --- extension.py ---------------------------------------------------------------------------------


class ParcelReminder(SessionExtension):
    """Remind the model at the beginning of a turn of parcels in transit."""

    def __init__(self, log: SessionLog, parcels: Address[ParcelMail]) -> None:
        self._log = log
        self._parcels = parcels

    def reminder(self) -> Reminder:
        return self._remind

    async def _remind(self) -> Reminded | None:
        """Return the parcels as text, if any."""
        turn = self._log.state.turn
        try:
            numbers = await self._parcels.ask(ListParcels())
        except ActorUnavailable:
            return None
        if turn is None or not numbers:
            return None
        text = f"[on their way: {', '.join(numbers)}]"
        return Reminded(turn.id, text, PRIVATE, "your parcels")


class ParcelPrompt:
    """The feature's part of the system prompt."""

    async def text(self, budget: int) -> str:
        """Describe parcels to a model."""
        await trio.lowlevel.checkpoint()
        return "Parcels have numbers that begin with P."


class ParcelSearch:
    """An additional source of `search_memory`."""

    name = "parcels"

    def __init__(self, parcels: Address[ParcelMail]) -> None:
        self._parcels = parcels

    async def search(self, query: str, limit: int) -> Sequence[SearchResult]:
        """Return the parcels named in the question."""
        numbers = await self._parcels.ask(ListParcels())
        return [
            SearchResult(text=f"The parcel {one} is on its way.", origin="parcels", label=PRIVATE)
            for one in numbers
            if one in query
        ][:limit]

    async def forget(self, key: str, text: str, tool: str) -> Sequence[str]:
        """Store no text."""
        await trio.lowlevel.checkpoint()
        return ()


# --- cli.py ---------------------------------------------------------------------------------------


def show(config: Config, given: Namespace) -> int:
    """Print the tracked parcels; return the exit code."""
    path = config.get(Paths).state / FILE
    if not path.exists():
        raise CliFailure("no parcel was ever tracked")
    for _, _, entry in entries_of(path, ParcelEntry):
        print(entry)
    return OK


COMMAND = CliCommand("parcels", "List the entries about parcels.", show)


# --- check.py -------------------------------------------------------------------------------------


async def check(context: CheckContext) -> list[Finding]:
    """Check that a key is set."""
    await trio.lowlevel.checkpoint()
    if context.config.get(ParcelSettings).key is None:
        return [Finding("warning", "parcels", "there is no key", "set parcels.key")]
    return [Finding("ok", "parcels", "the carrier can be reached")]


# --- feature.py -----------------------------------------------------------------------------------


async def build(core: Core, others: Gathered) -> Parts:
    """Build the actor and its clients."""
    settings = core.config.get(ParcelSettings)
    mailbox: Mailbox[ParcelMail] = Mailbox("parcels", 16)
    parcels = mailbox.address
    journal: Journal[ParcelEntry, ParcelBook] = Journal(
        core.paths.state / FILE, ParcelEntry, ParcelBook, core.disk
    )

    async def command(call: CommandCall) -> CommandAnswer:
        numbers = await parcels.ask(ListParcels())
        return CommandAnswer(f"On their way: {', '.join(numbers) or 'nothing'}.")

    async def describe_status() -> str:
        numbers = await parcels.ask(ListParcels())
        return f"Parcels on their way: {len(numbers)}."

    async def control(words: Sequence[str]) -> CommandResult:
        return CommandResult(await parcels.ask(Track(number=" ".join(words))), ok=True)

    async def look(last: float) -> Report:
        numbers = await parcels.ask(ListParcels())
        since = datetime.fromtimestamp(last, UTC).strftime("%Y") if last else "never"
        return Report(f"looked after {len(numbers)} parcels, before that: {since}")

    return Parts(
        actors=[Actor(step=3, mailbox=mailbox, body=Parcels(journal, settings.key).run)],
        tools=tools(parcels),
        commands=[
            SlashCommand(
                name="parcels",
                help="list the parcels",
                run=command,
                usage="/post does the same.",
                aliases=("post",),
                group="What I know and plan",
                right=Right("member", None),
                menu="everybody",
            )
        ],
        sessions=[lambda log: ParcelReminder(log, parcels)],
        prompt=[ParcelPrompt()],
        status=[describe_status],
        chores=[
            Chore(id="parcels", title="look after parcels", every=settings.every * HOUR, do=look)
        ],
        searches=[ParcelSearch(parcels)],
        control=[ControlCommand(name="track", run=control)],
    )


FEATURE = Feature(
    name="parcels",
    build=build,
    settings=("tests.example_feature:ParcelSettings",),
    cli=(COMMAND,),
    checks=(check,),
    tools={"track_parcel": "parcels.parcel.track"},
    chores=("parcels",),
)
