"""The tools that keep a thread, the log of a subject beside the days; and ``/threads``."""

from collections.abc import Callable
from typing import Annotated

import msgspec
from msgspec import Meta

from elwood.agent.conversation.calls import SaveMemory
from elwood.agent.session.commands.paging import asked_page, page
from elwood.agent.session.extension import CommandAnswer, CommandCall, SlashCommand
from elwood.agent.tools.tool import Tool, ToolContext, ToolFailure, always, reaching
from elwood.features.daily_notes.notes import (
    MAX_ENTRY,
    TOPICS,
    Page,
    read_thread,
    thread_head,
    with_entry,
)
from elwood.features.daily_notes.store import DailyNotes
from elwood.foundation.text.words import KEY

# Threads, and entries of one, on a page.
LISTED, ENTRIES = 10, 15

Name = Annotated[
    str, Meta(pattern=KEY, description="Short name of the thread, in small letters and hyphens")
]


class CreateThread(msgspec.Struct, forbid_unknown_fields=True):
    name: Name
    about: Annotated[str, Meta(max_length=300, description="What it is about, in a sentence")]


class AppendThread(msgspec.Struct, forbid_unknown_fields=True):
    name: Name
    text: Annotated[
        str, Meta(min_length=1, max_length=MAX_ENTRY, description="The entry, without its date")
    ]


class ThreadTools:
    """Keeps threads among the *notes*."""

    def __init__(self, notes: DailyNotes) -> None:
        self._notes = notes

    async def create(self, given: CreateThread, context: ToolContext) -> str:
        def begun(text: str) -> str:
            return text or thread_head(given.name, given.about)

        if not await self._change(given.name, begun, context, begins=True):
            return f"there is a thread {given.name} already; add to it"
        return f"began the thread {given.name}"

    async def append(self, given: AppendThread, context: ToolContext) -> str:
        when = self._notes.local(context.now)
        if not await self._change(given.name, lambda n: with_entry(n, given.text, when), context):
            raise ToolFailure(
                f"nothing was added to {given.name}: it has this entry of today already, or is "
                "full (then begin another thread)"
            )
        return f"added to {given.name}"

    async def _change(
        self, name: str, change: Callable[[str], str], context: ToolContext, *, begins: bool = False
    ) -> bool:
        with reaching(f"{TOPICS}/{name}.md"):
            why, changed = await self._notes.change_thread(
                name, change, untrusted=context.label.untrusted, begins=begins
            )
        if why:
            raise ToolFailure(why)
        return changed

    async def command(self, call: CommandCall) -> CommandAnswer:
        """Carry ``/threads`` out: list them, or show the entries of one, the newest first."""
        name, number = asked_page(call.given)
        threads = await self._notes.threads()
        if not name:
            shown, pages = page(threads, number, LISTED, "/threads")
            text = "Threads; /threads NAME shows one:" if shown else "There are no threads."
            return CommandAnswer(text, "\n".join(map(_line, shown)), pages=pages)
        for one in threads:
            if one.path == f"{TOPICS}/{name}.md":
                entries, pages = page(
                    read_thread(one.text)[1][::-1], number, ENTRIES, f"/threads {name}"[:50]
                )
                return CommandAnswer(
                    "The newest first:", "\n".join([_line(one), *entries]), pages=pages
                )
        return CommandAnswer("There is no thread of this name. /threads lists them.")


def _line(thread: Page) -> str:
    about, entries = read_thread(thread.text)
    count = "1 entry" if len(entries) == 1 else f"{len(entries)} entries"
    marked = ", may hold strangers' words" if thread.untrusted else ""
    name = thread.path.removeprefix(f"{TOPICS}/").removesuffix(".md")
    return f"{name} ({count}{marked}): {about}"


def tools(threads: ThreadTools) -> tuple[Tool, ...]:
    return (
        Tool(
            name="create_thread",
            id="daily_notes.thread.create",
            description=(
                "Begin a thread: a log of one subject over weeks (a project, training, a garden), "
                "to which append_thread adds dated entries. Searching the memory finds them; "
                "all of it is in threads/topics/NAME.md."
            ),
            input=CreateThread,
            run=threads.create,
            effect="keyed",
            timeout=30.0,
            target=lambda given: given.name,
            plan=always(SaveMemory()),
        ),
        Tool(
            name="append_thread",
            id="daily_notes.thread.append",
            description="Add an entry, dated now, at the end of a thread.",
            input=AppendThread,
            run=threads.append,
            effect="keyed",
            timeout=30.0,
            target=lambda given: given.name,
            plan=always(SaveMemory()),
        ),
    )


def command(threads: ThreadTools) -> SlashCommand:
    return SlashCommand(
        name="threads",
        help="what I keep a log of\n/threads NAME shows one.",
        run=threads.command,
        group="What I know and plan",
    )
