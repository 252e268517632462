"""Commands that move a conversation in its tree: they choose the entries to record.

The session is at rest during that. All effects of a command are one line of the log, with its
answer; so an interrupted command is run again, and an answered one is not.
"""

import re
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import attrs
import msgspec

from elwood.agent.conversation.message import extract_words
from elwood.agent.models.messages import BudgetSpent, Complete, Completed
from elwood.agent.session.extension import (
    AnsweredByTurn,
    CommandAnswer,
    CommandCall,
    SessionExtension,
    TakenBack,
)
from elwood.agent.session.log.branch import (
    MAX_NAME,
    MAX_WORDS,
    is_notice_of_cut,
    resume_entry,
    summarize_line,
)
from elwood.agent.session.log.entries import (
    Branched,
    Compacted,
    Received,
    Resumed,
    Retried,
    Rewound,
    Titled,
)
from elwood.agent.session.log.session_log import SessionLog
from elwood.agent.session.log.state import Session, state_at
from elwood.agent.session.reading.receipts import HEAD, activity
from elwood.agent.session.reading.records import History, parts_since
from elwood.agent.session.turn.compaction import make_room
from elwood.agent.session.turn.prompt import format_words
from elwood.foundation.text.lines import literal, one_line
from elwood.foundation.text.tokens import estimate

# Characters of a message's words that identify it.
WORDS = 60
# A message in /tree, and the number of a `Resumed` that goes to one.
TURN, ANY_PLACE = re.compile(r"t([0-9]{1,9})", re.IGNORECASE), -1
# Minimum tokens of a conversation to compact.
WORTHWHILE = 2_000


class _Undo(msgspec.Struct, frozen=True):
    """The *entry* that undoes the person's last messages.

    Features remove their data about *gone* before the entry is recorded; after a crash in between,
    they do it again.
    """

    entry: Resumed
    inputs: tuple[Received, ...]
    notices: tuple[str, ...]  # texts for the model that preceded the messages
    done: str  # effects that remain
    gone: TakenBack


@attrs.define(eq=False)
class Branching:
    """Moves one session.

    *withdraw* cancels calls that wait for the owner; *ask* requests summaries.
    """

    _log: SessionLog
    _withdraw: Callable[..., Awaitable[int]]
    _extensions: Sequence[SessionExtension]
    _ask: Callable[[Complete], Awaitable[Completed]]

    async def new(self, call: CommandCall) -> CommandAnswer:
        await self._withdraw(anew=True)
        text = "This is a new conversation. The old one is saved: see /sessions."
        return CommandAnswer(text, entries=(Rewound(0),))

    async def undo(self, call: CommandCall) -> CommandAnswer:
        given = call.given
        begun = sum(node.begins for node in self._log.state.path)
        if given and given.lower() != "all" and not (given.isdecimal() and given.strip("0")):
            return CommandAnswer(
                "Tell me how many of your messages to take back: /undo 2, or /undo all."
            )
        count = min(int(given[:9]) if given.isdecimal() else 1, begun)
        is_all = given.lower() == "all"
        back = await self._find_undo(count, is_all=is_all)
        if back is None:
            return CommandAnswer("There is nothing to take back in this conversation.")
        await self._notify_undone(back.gone)
        what = f"your last {count} messages" if count > 1 else "your last message"
        what = "this whole conversation" if is_all else f"{what} and everything after it"
        text = f"I took back {what}. It is saved: see /sessions."
        if back.done:
            text += " My actions from that part are not undone."
        words = one_line(" ".join(extract_words(one.text) for one in back.inputs), WORDS)
        footer = f"“{words}”\n\n{back.done}".strip()
        return CommandAnswer(text, footer, entries=(back.entry,))

    async def retry(self, call: CommandCall) -> CommandAnswer | AnsweredByTurn:
        back = await self._find_undo()
        if back is None:
            return CommandAnswer("There is no message to answer again in this conversation.")
        text = "\n".join(format_words(one) for one in back.inputs if one.text.strip())
        files = tuple(file for one in back.inputs for file in one.files)
        pending = tuple(file for one in back.inputs for file in one.pending)
        if not (text or files or pending):
            return CommandAnswer("Your last message is empty, so I cannot answer it again.")
        await self._notify_undone(back.gone)
        told, taint = list(back.notices), self._log.state.taint
        if back.done:
            told.append(f"{DONE}\n{back.done.removeprefix(HEAD).strip()}")
        notice = "\n\n".join(told)
        # The notice contains names chosen by a model that had read everything that is undone.
        untrusted = any(one.untrusted for one in back.inputs)
        origins = tuple(taint.sources) if notice else ()
        private = taint.private and bool(notice)
        asked = Retried(call.received.id, text, untrusted, notice, origins, private, files, pending)
        return AnsweredByTurn((back.entry, asked))

    async def _find_undo(self, count: int = 1, *, is_all: bool = False) -> _Undo | None:
        """Return the way to before the last *count* messages; None if there are too few."""
        path = self._log.state.path
        begun = [node for node in path if node.begins]
        if not begun[-count:] or not count:
            return None
        start = begun[-count].seq
        if is_all:
            # A compacted line does not show where it began, so the whole log is read.
            start = 0 if any(is_notice_of_cut(node.message) for node in path) else begun[0].seq
        history = await self._log.look_since(start, lambda _, log: History("", log))
        gone = [turn for turn in history.turns if history.is_since(start, turn.seq)]
        heard = [one for turn in gone for one in turn.heard if history.is_since(start, one.seq)]
        done = [call for call in history.calls if history.is_since(start, call.seq)]
        ended = {turn.id: turn.answered_at for turn in gone if turn.answer is not None}
        ids = frozenset(one.received.id for one in heard)
        to, before = 0, Session()
        if not is_all:
            to = start - 1
            before = await self._log.look_since(start, partial(state_at, to=to, without=ids))
        await self._withdraw(turns=frozenset(turn.id for turn in gone))
        return _Undo(
            resume_entry(self._log.state, before, to),
            tuple(one.received for one in heard),
            tuple(one.notice for one in heard if one.notice),
            activity([call for call in done if call.has_acted]),
            TakenBack(ended, parts_since(start, history.line)),
        )

    async def _notify_undone(self, gone: TakenBack) -> None:
        for extension in self._extensions:
            await extension.remove_turns(gone)

    async def branch(self, call: CommandCall) -> CommandAnswer:
        """Save the conversation here, or continue from before the newest messages."""
        given = call.given
        name = one_line(given, MAX_NAME)
        if name.isdecimal():
            count, begun = int(name[:9]), sum(node.begins for node in self._log.state.path)
            back = await self._find_undo(count) if count <= begun else None
            if back is None:
                return CommandAnswer("This conversation does not have that many messages.")
            what = f"your last {count} messages" if count > 1 else "your last message"
            text = f"We continue from before {what}. The rest is saved: see /sessions."
            return CommandAnswer(text, back.done, entries=(back.entry,))
        if not self._log.state.path:
            return CommandAnswer("This conversation has no messages to save yet.")
        number = self._log.state.tree.newest + 1
        saved = f"“{name}” (conversation {number})" if name else f"conversation {number}"
        text = f"Saved as {saved}. We continue here; /resume {name or number} goes back to it."
        return CommandAnswer(text, entries=(Branched(name),))

    async def resume(self, call: CommandCall) -> CommandAnswer:
        given = call.given
        branch = self._log.state.tree.find(given)
        if branch is None and (name := TURN.fullmatch(given)):
            return await self._resume_turn(int(name[1]))
        if branch is None:
            what = f"conversation “{one_line(given, MAX_NAME)}”" if given else "other conversation"
            return CommandAnswer(f"There is no {what}. /sessions lists the conversations.")
        return await self._go(branch.tip, branch.number, f"Back in conversation {branch.number}.")

    async def _resume_turn(self, number: int) -> CommandAnswer:
        """Continue after the answer of a turn, on any line."""
        history = await self._log.look_since(0, lambda _, log: History("", log))
        turn = history.turn(number)
        if turn is None or turn.answer is None:
            return CommandAnswer(f"There is no answered message t{number}. /tree lists them.")
        text = f"We continue after message t{number}. The other messages are saved: see /tree."
        return await self._go(turn.answered, ANY_PLACE, text)

    async def _go(self, tip: int, number: int, text: str) -> CommandAnswer:
        """Move to the entry *tip*; *number* is as in `Resumed`."""
        found = await self._log.look_since(tip + 1, partial(state_at, to=tip))
        await self._withdraw(anew=True)
        entry = resume_entry(self._log.state, found, tip, number)
        return CommandAnswer(text, summarize_line(found), entries=(entry,))

    async def title(self, call: CommandCall) -> CommandAnswer:
        title = one_line(call.given, MAX_WORDS)
        if title:
            text = f"This conversation is now called “{literal(title)}”."
            return CommandAnswer(text, entries=(Titled(title),))
        title = self._log.state.title
        if not title:
            return CommandAnswer("This conversation has no title yet. /title WORDS sets one.")
        text = f"This conversation is called “{literal(title)}”. /title WORDS sets another title."
        return CommandAnswer(text)

    async def compact(self, call: CommandCall) -> CommandAnswer:
        state, log_ = self._log.state, self._log
        if (before := state.tokens) < WORTHWHILE:
            text = f"This conversation is still short (about {before:,} tokens)."
            return CommandAnswer(f"{text} There is no need to shorten it.")
        match await make_room(log_.account, state, self._ask, None):
            case BudgetSpent(why):
                return CommandAnswer(why)
            case Compacted(summary, upto, why="") as made:
                kept = sum(node.tokens for node in state.path if node.seq >= upto)
                text = "I summarized the older part of our conversation. It now takes about "
                text += f"{kept + estimate(summary):,} tokens instead of {before:,}."
                return CommandAnswer(text, entries=(made,))
            case Compacted(why=why):
                text = "I could not summarize our conversation, so it stays as it is"
                return CommandAnswer(f"{text}: {why}")
        return CommandAnswer("This conversation cannot be made shorter.")


DONE = (
    "The person wants another answer to the following message. The last answer was taken back, but "
    "its actions were not undone. Do not repeat them unless the person wants that:"
)
