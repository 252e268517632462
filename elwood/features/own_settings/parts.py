"""The parts of the assistant's own settings: their keeper, a tool, and ``/settings``."""

from collections.abc import Sequence
from difflib import unified_diff
from functools import partial
from itertools import islice
from typing import Annotated

import msgspec
import trio
from msgspec import Meta

from elwood.agent.conversation.calls import Plan, ReadFiles, WriteFile
from elwood.agent.parts import Actor, Gathered, Parts
from elwood.agent.session.core import Core
from elwood.agent.session.extension import CommandAnswer, CommandCall, SlashCommand
from elwood.agent.session.own_config import OwnConfig
from elwood.agent.session.settings import AGENT_FILE
from elwood.agent.tools.tool import Output, Tool, ToolContext, ToolFailure
from elwood.features.own_settings.settings import Personality
from elwood.features.own_settings.store import FAILURES, LARGEST, STILL, OwnSettings, hash_text
from elwood.foundation.command_line import CliFailure
from elwood.foundation.runtime import Mailbox
from elwood.foundation.settings import Settings, yield_fields
from elwood.foundation.text.lines import fence

AGAIN = "It may be taken back already: I was interrupted. /settings tells."
USAGE = (
    "/settings: show the settings that I made for myself.\n/settings undo: undo the last change."
)


async def build(core: Core, others: Gathered) -> Parts:
    """Create the keeper and its users; the last settings are in force from the start."""
    keeper = OwnSettings(core.own, core.paths.state, core.disk, core.tell_owner)
    await keeper.begin()
    return Parts(
        actors=[Actor(step=2, mailbox=Mailbox("own settings", 16), body=keeper.run)],
        prompt=[PersonalityPart(core.own)],
        tools=[tool(core.own, keeper)],
        commands=[
            SlashCommand(
                name="settings",
                help="show the settings that I made for myself",
                usage=USAGE,
                run=partial(run_settings, keeper),
            )
        ],
    )


class PersonalityPart:
    """Prompt part with the personality that the model has set."""

    def __init__(self, own: OwnConfig) -> None:
        self._own = own

    async def text(self, budget: int) -> str:
        """Return the text that is in force now."""
        await trio.lowlevel.checkpoint()
        text = self._own.now.get(Personality).text.strip()
        return f"Your personality, from {AGENT_FILE}:\n{text}" if text else ""


class ChangeSettings(msgspec.Struct, forbid_unknown_fields=True):
    text: Annotated[
        Annotated[str, Meta(max_length=LARGEST // 4)] | None,
        Meta(description="The whole new file, as TOML; leave it out to read the present file"),
    ] = None


def tool(own: OwnConfig, keeper: OwnSettings) -> Tool:
    """Create the tool that reads and changes the file; the owner sees each change first."""

    async def plan(given: ChangeSettings, context: ToolContext) -> Plan:
        if given.text is None:
            return Plan(ReadFiles(), f"Read {AGENT_FILE}", asks="read my own settings")
        await keeper.refresh()
        old = keeper.text
        try:
            own.read(given.text)
        except CliFailure as error:
            raise ToolFailure(f"nothing was changed: {error}") from error
        if old == given.text:
            raise ToolFailure(f"{AGENT_FILE} already has this content")
        subject = f"Change my own settings ({AGENT_FILE}):\n{diff(old, given.text)}"
        # It instructs us in all conversations, like the documents of the workspace.
        action, facts = WriteFile(protected=True), {"old": hash_text(old)}
        return Plan(action, subject, facts, given.text, asks="change my own settings")

    async def run(given: ChangeSettings, context: ToolContext) -> Output:
        if given.text is None:
            await keeper.refresh()
            problem = f"{STILL} {keeper.problem}\n\n" if keeper.problem else ""
            may = f"# Keys that it may contain:\n{list_keys(own.sections)}"
            return Output(f"{problem}{keeper.text}\n\n{may}")
        try:
            await keeper.write(given.text, context.facts["old"])
        except FAILURES as error:
            raise ToolFailure(f"nothing was changed: {error}") from error
        return Output("The change is in effect; /settings undo takes it back.")

    return Tool(
        name="change_settings",
        description=(
            f"Read or change {AGENT_FILE}, your own half of the configuration: your personality, "
            "permanent tasks, a checklist, how you learn. Use it when the owner wants you to "
            "behave differently from now on. Read it first; the owner sees the diff. For a "
            "single task or reminder use schedule."
        ),
        input=ChangeSettings,
        run=run,
        id="own_settings.file.change",
        effect="keyed",
        target=lambda given: f"{'read' if given.text is None else 'change'} {AGENT_FILE}",
        plan=plan,
        deeds=("write",),
    )


async def run_settings(keeper: OwnSettings, call: CommandCall) -> CommandAnswer:
    undo, show = call.given.strip().lower() == "undo", ("/settings",)
    if undo and call.again:
        return CommandAnswer(AGAIN, buttons=show)
    if call.given.strip() and not undo:
        return CommandAnswer(USAGE)
    await keeper.refresh()
    if undo:
        before = keeper.text
        try:
            if not await keeper.take_back():
                return CommandAnswer("There is no change to take back.", buttons=show)
        except FAILURES as error:
            return CommandAnswer(f"I could not take it back: {error}", buttons=show)
        changed = fence(diff(before, keeper.text))
        return CommandAnswer(f"I have taken back my last change:\n\n{changed}", buttons=show)
    if not (keeper.text or keeper.versions or keeper.problem):
        return CommandAnswer("I have no settings of my own. Tell me how I should behave.")
    lines = [f"{STILL}\n{keeper.problem}"] if keeper.problem else []
    lines.append(fence(keeper.text) if keeper.text else "I have no settings of my own now.")
    buttons = ("/settings undo",) if keeper.versions else ()
    return CommandAnswer("\n\n".join(lines), buttons=buttons)


def diff(old: str, new: str) -> str:
    r"""Format the lines that differ, each with one line of context.

    >>> diff("a\nb\n", "a\nc\n")
    ' a\n-b\n+c'
    """
    lines = unified_diff(old.splitlines(), new.splitlines(), lineterm="", n=1)
    return "\n".join(line for line in islice(lines, 2, None) if not line.startswith("@@"))


def list_keys(sections: Sequence[type[Settings]]) -> str:
    """List the keys that the file may contain."""
    lines = []
    for kind in sections:
        section = kind.SECTION
        lines.append(f"[[{section.name}]]" if section.tables else f"[{section.name}]")
        item = section.tables.item if section.tables else kind
        lines += [
            section.about,
            *(f"- {field.name}: {key.help}" for field, key in yield_fields(item)),
        ]
    return "\n".join(lines)
