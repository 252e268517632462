"""The built-in slash commands, in the order of /help."""

from collections.abc import Awaitable, Callable
from functools import partial

from elwood.agent.session.commands.actor_commands import BuiltInCall, Commands
from elwood.agent.session.commands.branching import Branching
from elwood.agent.session.extension import AnsweredByTurn, CommandAnswer, CommandCall, SlashCommand
from elwood.agent.session.rights import ANYBODY, CONVERSATION, OWNER

Answer = CommandAnswer | AnsweredByTurn
Run = Callable[[CommandCall], Awaitable[Answer]]


def _local(run: Callable[[Commands, CommandCall], Awaitable[Answer]]) -> Run:
    """Run *run* on the conversation that the command was typed in."""

    async def run_here(call: CommandCall) -> Answer:
        assert isinstance(call, BuiltInCall)
        return await run(call.here, call)

    return run_here


def _move(run: Callable[[Branching, CommandCall], Awaitable[Answer]]) -> Run:
    return _local(lambda here, call: run(here.branching, call))


_talking = partial(SlashCommand, group="Talking with me", right=ANYBODY, menu="everybody")
_back = partial(SlashCommand, group="Going back", right=CONVERSATION, handling="move")
_done = partial(SlashCommand, group="What I did, and what it cost", right=CONVERSATION)
_may = partial(SlashCommand, group="What I may do")

BUILT_IN = (
    _talking(
        name="new", help="start a new conversation", aliases=("archive", "reset"),
        run=_move(Branching.new), right=CONVERSATION, handling="move",
    ),
    _talking(
        name="stop", help="stop what I am doing", run=_local(Commands.stop), right=CONVERSATION
    ),
    _talking(
        name="btw", help="ask a quick question while I am busy",
        usage="/btw QUESTION: the question and its answer stay out of the conversation.",
        run=_local(Commands.ask_beside), handling="long",
    ),
    _talking(name="status", help="show what I am doing", run=_local(Commands.status)),
    # Telegram sends "start" when a chat is opened.
    _talking(
        name="help", help="list my commands", usage="/help NAME explains one command.",
        run=_local(Commands.help), aliases=("start",),
    ),
    # The button below a stopped answer types it.
    _talking(
        name="answer", help="answer messages that a stop left", run=_local(Commands.answer),
        menu="nobody",
    ),
    _back(
        name="undo", help="take back your last message and everything after it",
        usage="/undo 2 takes back the last two, /undo all the whole conversation.",
        run=_move(Branching.undo), menu="everybody",
    ),
    _back(
        name="retry", help="answer your last message again",
        run=_move(Branching.retry), menu="everybody",
    ),
    _back(
        name="branch", help="save the conversation as it is now, and continue",
        usage="/branch NAME saves it with a name; /resume NAME goes back to it. /branch 2 "
        "continues from before your last two messages.",
        run=_move(Branching.branch),
    ),
    _back(
        name="sessions", help="list the conversations of this chat",
        usage="/resume NUMBER goes back to one.",
        run=_local(Commands.sessions), handling="short", menu="everybody",
    ),
    _back(
        name="title", help="show or set the title of this conversation",
        usage="/title WORDS sets it. Without that, it is the beginning of your first message.",
        run=_move(Branching.title), handling="short",
    ),
    _back(
        name="tree", help="show the messages of this conversation with its branches",
        usage="/tree 3 shows the message t3 and its answer. /resume t3 continues after it.",
        run=_local(Commands.tree), handling="short",
    ),
    _back(
        name="resume", help="go back to another conversation, or to a message",
        usage="/resume NUMBER, NAME or TITLE goes back to one of /sessions; without a name, to the "
        "previous one. /resume t3 continues after the message t3 of /tree.",
        run=_move(Branching.resume), menu="everybody",
    ),
    _back(
        name="compact", help="summarize the older part of a long conversation",
        run=_move(Branching.compact), handling="rest",
    ),
    _done(
        name="receipts", help="show my actions in this conversation",
        usage="/receipts 12 shows the details of call 12.",
        run=_local(Commands.receipts),
    ),
    _done(
        name="budget", help="show the costs and the limits",
        run=_local(Commands.budget), right=OWNER,
    ),
    _done(
        name="export", help="send the conversation as a file", usage="/export md or /export html.",
        run=_local(Commands.export),
    ),
    _may(
        name="approvals", help="repeat my open questions, and list your permissions",
        usage="/approvals show CODE shows the details of a question. /approvals revoke NUMBER "
        "takes back a permission.",
        run=_local(Commands.approve),
    ),
    _may(
        name="allow", help="approve something I am waiting for, or let a person in",
        usage="/allow CODE once, conversation, always or source. The code is in the details of the "
        "question and in /approvals. /allow CODE guest lets a person talk to me without trusting "
        "them.",
        run=_local(Commands.approve),
    ),
    _may(
        name="deny", help="refuse something I am waiting for",
        usage="/deny CODE, with a code as for /allow.",
        run=_local(Commands.approve),
    ),
    _may(
        name="people", help="show the people who may talk to me",
        usage="/people tg:NUMBER shows one person, to remove them or to change their role.",
        run=_local(Commands.people),
    ),
    _may(
        name="tools", help="list my tools, with their uses and failures",
        usage="/tools NAME explains one tool and lists its last calls.",
        run=_local(Commands.tools), aliases=("tool",),
    ),
    SlashCommand(
        name="model", help="choose the AI model",
        usage="/model NAME chooses one for this conversation; /model default goes back to the "
        "usual one.",
        run=_local(Commands.model),
    ),
)  # fmt: skip
