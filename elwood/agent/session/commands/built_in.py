"""The built-in slash commands, in the order of /help."""

from collections.abc import Awaitable, Callable

from elwood.agent.session.commands.actor_commands import BuiltInCall, Commands
from elwood.agent.session.commands.branching import Branching
from elwood.agent.session.extension import AnsweredByTurn, CommandAnswer, CommandCall, SlashCommand
from elwood.agent.session.rights import ANYBODY, CONVERSATION

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


BUILT_IN = (
    SlashCommand(
        name="new",
        help="begin a new conversation",
        run=_move(Branching.new),
        aliases=("archive", "reset"),
        group="Talking with me",
        right=CONVERSATION,
        menu="everybody",
        handling="move",
    ),
    SlashCommand(
        name="stop",
        help="stop what is being done",
        run=_here(Commands.stop),
        group="Talking with me",
        right=CONVERSATION,
        menu="everybody",
    ),
    SlashCommand(
        name="btw",
        help="ask something beside what runs",
        usage="/btw QUESTION; it stays out of the conversation.",
        run=_here(Commands.ask_beside),
        group="Talking with me",
        right=ANYBODY,
        menu="everybody",
        handling="long",
    ),
    SlashCommand(
        name="status",
        help="what is going on",
        run=_here(Commands.status),
        group="Talking with me",
        right=ANYBODY,
        menu="everybody",
    ),
    SlashCommand(
        name="help",
        help="what I understand",
        usage="/help NAME says more of one.",
        run=_here(Commands.help),
        aliases=("start",),  # Telegram sends it when a chat is opened
        group="Talking with me",
        right=ANYBODY,
        menu="everybody",
    ),
    # The button below a stopped answer types it.
    SlashCommand(
        name="answer",
        help="answer what a stop has left",
        run=_here(Commands.answer),
        right=ANYBODY,
        menu="nobody",
    ),
    SlashCommand(
        name="undo",
        help="take back your last message and what followed",
        usage="/undo 2: the last two; /undo all: the whole conversation.",
        run=_move(Branching.undo),
        group="Going back",
        right=CONVERSATION,
        menu="everybody",
        handling="move",
    ),
    SlashCommand(
        name="retry",
        help="answer your last message once more",
        run=_move(Branching.retry),
        group="Going back",
        right=CONVERSATION,
        menu="everybody",
        handling="move",
    ),
    SlashCommand(
        name="branch",
        help="keep the conversation as it is here, and go on",
        usage="/branch NAME gives it a name to come back to by /resume NAME; /branch 2 goes on "
        "from before your last two messages.",
        run=_move(Branching.branch),
        group="Going back",
        right=CONVERSATION,
        handling="move",
    ),
    SlashCommand(
        name="sessions",
        help="the conversations of this chat",
        usage="/resume NUMBER goes back to one.",
        run=_here(Commands.sessions),
        group="Going back",
        right=CONVERSATION,
        menu="everybody",
    ),
    SlashCommand(
        name="resume",
        help="go back to another conversation",
        usage="/resume NUMBER or NAME, as /sessions lists them; alone: to the one before.",
        run=_move(Branching.resume),
        group="Going back",
        right=CONVERSATION,
        menu="everybody",
        handling="move",
    ),
    SlashCommand(
        name="compact",
        help="sum up the older part of a long conversation",
        run=_move(Branching.compact),
        group="Going back",
        right=CONVERSATION,
        handling="rest",
    ),
    SlashCommand(
        name="receipts",
        help="what was really done here",
        usage="/receipts 12: all about the call with that number.",
        run=_here(Commands.receipts),
        group="What I did, and what it cost",
        right=CONVERSATION,
    ),
    SlashCommand(
        name="budget",
        help="what was spent, on what, and the limits",
        run=_here(Commands.budget),
        group="What I did, and what it cost",
    ),
    SlashCommand(
        name="export",
        help="the conversation as a file",
        usage="/export md or /export html.",
        run=_here(Commands.export),
        group="What I did, and what it cost",
        right=CONVERSATION,
    ),
    SlashCommand(
        name="approvals",
        help="what waits for your yes, asked again, and what is permitted",
        usage="/approvals show CODE: the details of a question. /approvals revoke NUMBER takes a "
        "permission back.",
        run=_here(Commands.approve),
        group="What I may do",
    ),
    SlashCommand(
        name="allow",
        help="let a call run that waits, or a person in",
        usage="/allow CODE once, conversation, always or source; the code stands in the details "
        "of the question, and in /approvals. For a person who is to talk, but not to be trusted: "
        "/allow CODE guest.",
        run=_here(Commands.approve),
        group="What I may do",
    ),
    SlashCommand(
        name="deny",
        help="refuse a call that waits",
        usage="/deny CODE, as with /allow.",
        run=_here(Commands.approve),
        group="What I may do",
    ),
    SlashCommand(
        name="people",
        help="who may talk to me",
        usage="/people tg:NUMBER: one of them, to be removed, or made a member or guest.",
        run=_here(Commands.people),
        group="What I may do",
    ),
    SlashCommand(
        name="tools",
        help="what I can use, how often I did, and what failed",
        usage="/tools NAME says more of one.",
        run=_here(Commands.tools),
        aliases=("tool",),
        group="What I may do",
    ),
    SlashCommand(
        name="model",
        help="which model thinks",
        usage="/model NAME: another one, for this conversation; /model default: the usual one.",
        run=_here(Commands.model),
    ),
)
