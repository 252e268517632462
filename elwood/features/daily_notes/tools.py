"""The tools that write threads, logs of one subject each, and the command ``/threads``."""

from collections.abc import Callable
from functools import partial
from typing import Annotated

import msgspec
from msgspec import Meta

from elwood.agent.conversation.calls import SaveMemory
from elwood.agent.session.extension import CommandAnswer, CommandCall, SlashCommand
from elwood.agent.session.paging import page, parse_page
from elwood.agent.tools.tool import Tool, ToolContext, ToolFailure, always, convert_refusals
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

# Threads, or entries of a thread, per page.
LISTED = 15

Name = Annotated[
    str,
    Meta(pattern=KEY, description="Short name of the thread, in lower-case letters and hyphens"),
]


class CreateThread(msgspec.Struct, forbid_unknown_fields=True):
    name: Name
    about: Annotated[str, Meta(max_length=300, description="Its subject, in one sentence")]


class AppendThread(msgspec.Struct, forbid_unknown_fields=True):
    name: Name
    text: Annotated[
        str,
        Meta(min_length=1, max_length=MAX_ENTRY, description="Text of the entry, without a date"),
    ]


def tools(notes: DailyNotes) -> tuple[Tool, ...]:
    async def change(
        name: str, make: Callable[[str], str], context: ToolContext, *, begins: bool
    ) -> bool:
        with convert_refusals(f"{TOPICS}/{name}.md"):
            why, changed = await notes.change_thread(
                name, make, untrusted=context.label.untrusted, begins=begins
            )
        if why:
            raise ToolFailure(why)
        return changed

    async def create(given: CreateThread, context: ToolContext) -> str:
        head = thread_head(given.name, given.about)
        if not await change(given.name, lambda text: text or head, context, begins=True):
            return f"the thread {given.name} already exists; add to it"
        return f"created the thread {given.name}"

    async def append(given: AppendThread, context: ToolContext) -> str:
        add = partial(with_entry, text=given.text, when=notes.local(context.now))
        if not await change(given.name, add, context, begins=False):
            raise ToolFailure(
                f"nothing was added to {given.name}: it already has this entry from today, or it "
                "is full (then create another thread)"
            )
        return f"added to {given.name}"

    keeping = partial(Tool, effect="keyed", timeout=30.0, target=lambda given: given.name)
    return (
        keeping(
            name="create_thread",
            id="daily_notes.thread.create",
            description=(
                "Start a thread: a log of one subject over weeks (a project, "
                "training, a garden). append_thread adds dated entries. "
                "A search of the memory finds them; the whole thread is in "
                "threads/topics/NAME.md."
            ),
            input=CreateThread,
            run=create,
            plan=always(SaveMemory(), "start a thread of notes"),
        ),
        keeping(
            name="append_thread",
            id="daily_notes.thread.append",
            description="Add an entry with today's date to the end of a thread.",
            input=AppendThread,
            run=append,
            plan=always(SaveMemory(), "add a note to a thread"),
        ),
    )


def command(notes: DailyNotes) -> SlashCommand:
    """Build ``/threads``, which lists threads or shows the entries of one, newest first."""

    async def show(call: CommandCall) -> CommandAnswer:
        (name, number), threads = parse_page(call.given), await notes.threads()
        text = (
            "My threads. To see one, send /threads NAME:"
            if threads
            else "There are no threads yet."
        )
        head, lines = list[str](), [*map(_line, threads)]
        if name:
            one = next((one for one in threads if one.path == f"{TOPICS}/{name}.md"), None)
            if one is None:
                return CommandAnswer(
                    "There is no thread with that name. /threads lists all threads."
                )
            text, head, lines = (
                "The newest entries first:",
                [_line(one)],
                read_thread(one.text)[1][::-1],
            )
        shown, pages = page(lines, number, LISTED, f"/threads {name}".rstrip()[:50])
        return CommandAnswer(text, "\n".join([*head, *shown]), pages=pages)

    return SlashCommand(
        name="threads",
        help="list the subjects that I keep a log of",
        usage="/threads NAME: show one log.",
        run=show,
        group="What I know and plan",
    )


def _line(thread: Page) -> str:
    about, entries = read_thread(thread.text)
    count = "1 entry" if len(entries) == 1 else f"{len(entries)} entries"
    marked = ", may contain text from strangers" if thread.untrusted else ""
    name = thread.path.removeprefix(f"{TOPICS}/").removesuffix(".md")
    return f"{name} ({count}{marked}): {about}"
