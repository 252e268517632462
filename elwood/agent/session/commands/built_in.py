"""The built-in slash commands, in the order of /help."""

from collections.abc import Awaitable, Callable
from functools import partial

from elwood.agent.session.commands.actor_commands import BuiltInCall, Commands
from elwood.agent.session.commands.branching import Branching
from elwood.agent.session.extension import AnsweredByTurn, CommandAnswer, CommandCall, SlashCommand
from elwood.agent.session.rights import ANYBODY, CONVERSATION, OWNER

Answer = CommandAnswer | AnsweredByTurn
Run = Callable[[CommandCall], Awaitable[Answer]]


def _here(run: Callable[[Commands, CommandCall], Awaitable[Answer]]) -> Run:
    """Run *run* on the conversation that the command was typed in."""

    async def run_here(call: CommandCall) -> Answer:
        assert isinstance(call, BuiltInCall)
        return await run(call.here, call)

    return run_here


def _move(run: Callable[[Branching, CommandCall], Awaitable[Answer]]) -> Run:
    return _here(lambda here, call: run(here.branching, call))


_talking = partial(SlashCommand, group="Talking with me", right=ANYBODY, menu="everybody")
_back = partial(SlashCommand, group="Going back", right=CONVERSATION, handling="move")
_done = partial(SlashCommand, group="What I did, and what it cost", right=CONVERSATION)
_may = partial(SlashCommand, group="What I may do")

BUILT_IN = (
    _talking(
        name="new", help="begin a new conversation", aliases=("archive", "reset"),
        run=_move(Branching.new), right=CONVERSATION, handling="move",
    ),
    _talking(
        name="stop", help="stop what is being done", run=_here(Commands.stop), right=CONVERSATION
    ),
    _talking(
        name="btw", help="ask something beside what runs",
        usage="/btw QUESTION; it stays out of the conversation.",
        run=_here(Commands.ask_beside), handling="long",
    ),
    _talking(name="status", help="what is going on", run=_here(Commands.status)),
    # Telegram sends "start" when a chat is opened.
    _talking(
        name="help", help="what I understand", usage="/help NAME says more of one.",
        run=_here(Commands.help), aliases=("start",),
    ),
    # The button below a stopped answer types it.
    _talking(name="answer", help="answer what was left", run=_here(Commands.answer), menu="nobody"),
    _back(
        name="undo", help="take back your last message and what followed",
        usage="/undo 2: the last two; /undo all: the whole conversation.",
        run=_move(Branching.undo), menu="everybody",
    ),
    _back(
        name="retry", help="answer your last message once more",
        run=_move(Branching.retry), menu="everybody",
    ),
    _back(
        name="branch", help="keep the conversation as it is here, and go on",
        usage="/branch NAME gives it a name to come back to by /resume NAME; /branch 2 goes on "
        "from before your last two messages.",
        run=_move(Branching.branch),
    ),
    _back(
        name="sessions", help="the conversations of this chat",
        usage="/resume NUMBER goes back to one.",
        run=_here(Commands.sessions), handling="short", menu="everybody",
    ),
    _back(
        name="resume", help="go back to another conversation",
        usage="/resume NUMBER or NAME, as /sessions lists them; alone: to the one before.",
        run=_move(Branching.resume), menu="everybody",
    ),
    _back(
        name="compact", help="sum up the older part of a long conversation",
        run=_move(Branching.compact), handling="rest",
    ),
    _done(
        name="receipts", help="what was really done here",
        usage="/receipts 12: all about the call with that number.",
        run=_here(Commands.receipts),
    ),
    _done(
        name="budget", help="what was spent, on what, and the limits",
        run=_here(Commands.budget), right=OWNER,
    ),
    _done(
        name="export", help="the conversation as a file", usage="/export md or /export html.",
        run=_here(Commands.export),
    ),
    _may(
        name="approvals", help="what waits for your yes, asked again, and what is permitted",
        usage="/approvals show CODE: the details of a question. /approvals revoke NUMBER takes a "
        "permission back.",
        run=_here(Commands.approve),
    ),
    _may(
        name="allow", help="let a call run that waits, or a person in",
        usage="/allow CODE once, conversation, always or source; the code stands in the details "
        "of the question, and in /approvals. For a person who is to talk, but not to be trusted: "
        "/allow CODE guest.",
        run=_here(Commands.approve),
    ),
    _may(
        name="deny", help="refuse a call that waits", usage="/deny CODE, as with /allow.",
        run=_here(Commands.approve),
    ),
    _may(
        name="people", help="who may talk to me",
        usage="/people tg:NUMBER: one of them, to be removed, or made a member or guest.",
        run=_here(Commands.people),
    ),
    _may(
        name="tools", help="what I can use, how often I did, and what failed",
        usage="/tools NAME says more of one.", run=_here(Commands.tools), aliases=("tool",),
    ),
    SlashCommand(
        name="model", help="which model thinks",
        usage="/model NAME: another one, for this conversation; /model default: the usual one.",
        run=_here(Commands.model),
    ),
)  # fmt: skip
