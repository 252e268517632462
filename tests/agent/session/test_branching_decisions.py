"""Random messages, undos, branches and resumes, compared with a plain model of the tree.

The model has a list of turns for each branch. `Branching` writes the log.
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path

import attrs
import msgspec
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from elwood.agent.conversation.calls import Outcome
from elwood.agent.conversation.labels import Label, addresses
from elwood.agent.conversation.message import (
    Assistant,
    Human,
    Notice,
    Prompt,
    Text,
    ToolCall,
    Usage,
    extract_words,
)
from elwood.agent.conversation.route import Route
from elwood.agent.models.messages import ModelsMail
from elwood.agent.session.commands.branching import Branching
from elwood.agent.session.extension import AnsweredByTurn, CommandAnswer, CommandCall
from elwood.agent.session.log.branch import Branch
from elwood.agent.session.log.entries import (
    Archived,
    CallDecided,
    CallEnded,
    CallPending,
    CallStarted,
    Compacted,
    Endorsed,
    Entry,
    Prompted,
    Received,
    Replied,
    Said,
    TurnStarted,
)
from elwood.agent.session.log.session_log import SessionLog
from elwood.agent.session.log.state import Session, may_close, state_at
from elwood.agent.session.log.turns import call_key
from elwood.agent.session.reading.records import get_new_head, is_on, spans
from elwood.foundation.runtime import Mailbox, inline
from elwood.foundation.storage.disk import Calls, Disk
from elwood.foundation.storage.journal import Journal, entries_of
from tests.agent.session.known import MOVING

ROUTE = Route("console")
FORWARDED = "a message sent by me"


class NoSync(Calls):
    """A disk without syncs, for tests without power failures."""

    def sync(self, fd: int) -> None:
        pass


@attrs.frozen
class Turn:
    """One turn, as people see it."""

    words: str
    origin: str = ""
    private: bool = False
    effect: str = ""


class Talk:
    """A session with the same entries as `turn/turn.py` writes."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "s.jsonl"
        self.clock = 0.0
        self.numbers = 0
        self.log = SessionLog("s", self._journal(), lambda id_, state: None, MOVING)
        models: Mailbox[ModelsMail] = Mailbox("models", 1)
        self.branching = Branching(self.log, self._withdraw, (), models.address.ask)

    def _journal(self) -> Journal[Entry, Session]:
        disk = Disk(blocking=inline, clock=self._now, calls=NoSync())
        return Journal(self.path, Entry, Session, disk, segment=4000, may_close=may_close)

    def _now(self) -> float:
        self.clock += 1.0
        return self.clock

    @property
    def state(self) -> Session:
        return self.log.state

    async def _withdraw(self, *, anew: bool = False, turns: frozenset[str] | None = None) -> int:
        pending = [kept.pending for kept in self.state.pending.values()]
        gone = [one for one in pending if turns is None or one.turn in turns]
        for one in gone:
            await self.log.keep(CallDecided(one.turn, one.call, one.plan, "withdrawn"))
        return len(gone)

    def received(self, text: str, *, untrusted: bool = False) -> Received:
        self.numbers += 1
        return Received(f"m{self.numbers}", text, "me", ROUTE, self.clock, untrusted=untrusted)

    async def say(self, turn: Turn, *, untrusted: bool = False, waits: bool = False) -> None:
        await self.log.keep(self.received(turn.words, untrusted=untrusted))
        await self.answer(turn, waits=waits)

    async def answer(self, turn: Turn, *, waits: bool = False) -> None:
        """Run a turn for the waiting messages."""
        (asked,) = self.state.waiting.values()
        id_ = f"t{self.state.turns + 1}"
        await self.log.keep(TurnStarted(id_, (asked.id,), 1, f"[now]\n{asked.text}"))
        if self.state.prompt is None:
            await self.log.keep(Prompted(Prompt("be good")))
        if turn.origin or turn.private or turn.effect or waits:
            await self.log.keep(Said(id_, make_answer(ToolCall("c", "tool", "{}")), Usage()))
            if waits:
                await self.log.keep(CallPending(id_, "c", "tool", "plan"))
            elif turn.effect:
                await self.log.keep(CallStarted(id_, "c", "tool", "once", turn.effect))
            label = Label(bool(turn.origin), turn.private)
            outcome: Outcome = "waiting" if waits else "ok"
            await self.log.keep(
                CallEnded(id_, "c", "tool", outcome, "result", turn.effect, label, turn.origin)
            )
        words = make_answer(Text(f"re: {turn.words}"))
        await self.log.keep(Said(id_, words, Usage()), Replied(id_, id_, (asked.id,), ROUTE, ""))

    async def command(self, text: str) -> str:
        """Run a command; return its reply, or "" if a turn answers."""
        received = self.received(text)
        await self.log.keep(received)
        name, _, given = text[1:].partition(" ")
        run = getattr(self.branching, {"archive": "new"}.get(name, name))
        answer: CommandAnswer | AnsweredByTurn = await run(
            CommandCall(session="s", given=given, received=received)
        )
        reply = Replied(received.id, None, (received.id,), ROUTE, "")
        if isinstance(answer, AnsweredByTurn):
            await self.log.keep(*answer.entries)
            return ""
        await self.log.keep(*answer.entries, reply)
        return answer.text

    def words(self, line: Branch | None = None) -> list[str]:
        path = (line or self.state).path
        return [extract_words(n.message.text) for n in path if isinstance(n.message, Human)]

    def notices(self) -> str:
        return "\n".join(n.message.text for n in self.state.path if isinstance(n.message, Notice))

    async def reopened(self) -> Session:
        journal = self._journal()
        await journal.open()
        return journal.state


def make_answer(*blocks: Text | ToolCall) -> Assistant:
    native = msgspec.Raw(msgspec.json.encode([msgspec.to_builtins(block) for block in blocks]))
    return Assistant(blocks, "fake", "m", native)


@pytest.fixture
async def talk(tmp_path: Path) -> Talk:
    made = Talk(tmp_path)
    await made.log.open()
    return made


# --- labels --------------------------------------------------------------------------------------

PAGE = Turn("read the page", origin="evil.example", private=True)


async def test_a_branch_keeps_its_summary(talk: Talk) -> None:
    await talk.say(PAGE)
    await talk.say(Turn("two"))
    await talk.log.keep(Compacted("a page said: obey", talk.state.path[-2].seq))
    before, prompt_tokens = talk.state.messages, talk.state.prompt_tokens
    await talk.command("/new")
    await talk.log.keep(Prompted(Prompt("be much better than that, please")))
    await talk.say(Turn("other"))
    await talk.command("/resume")

    assert talk.state.messages == before
    assert talk.words() == ["two"]
    assert talk.notices() == "a page said: obey"
    assert talk.state.taint.label == Label(untrusted=True, private=True)
    assert talk.state.prompt_tokens == prompt_tokens
    assert await talk.reopened() == talk.state


async def test_an_endorsement_belongs_to_its_branch(talk: Talk) -> None:
    await talk.say(PAGE)
    await talk.command("/branch before")
    await talk.log.keep(Endorsed(("evil.example",), "me"))
    assert not talk.state.taint.label.untrusted
    await talk.command("/resume before")

    assert talk.state.taint.label.untrusted


async def test_waiting_messages_carry_their_labels_to_a_branch(talk: Talk) -> None:
    await talk.say(Turn("hello"))
    await talk.log.keep(talk.received("their words", untrusted=True))
    await talk.command("/undo")

    assert talk.state.taint.label.untrusted


async def test_retry_keeps_the_labels_of_a_tainted_turn(talk: Talk) -> None:
    """The model had read the page, so the page may have chosen the target."""
    await talk.say(Turn("do it", origin="evil.example", effect="obey the page"))
    await talk.command("/retry")
    await talk.answer(Turn("do it"))

    assert "obey the page" in talk.notices()
    assert list(talk.state.taint.sources) == ["evil.example"]
    await talk.command("/undo")
    assert "obey the page" not in talk.notices()
    assert not talk.state.taint.label.untrusted


async def test_undo_withdraws_pending_calls(talk: Talk) -> None:
    await talk.say(Turn("first"), waits=True)
    await talk.say(Turn("second"), waits=True)
    assert len(talk.state.pending) == 2
    await talk.command("/undo")

    assert list(talk.state.pending) == [call_key("t1", "c")]
    await talk.command("/new")
    assert not talk.state.pending


# --- any order -----------------------------------------------------------------------------------

Op = tuple[str, int]
SAYING = ("say", "say", "say", "say", "page", "private", "act", "forward")
MOVES = ("undo", "undo", "retry", "branch", "new", "archive", "resume", "resume")
OPS: st.SearchStrategy[list[Op]] = st.lists(
    st.tuples(st.sampled_from((*SAYING, *MOVES, "compact", "reopen")), st.integers(0, 9)),
    max_size=25,
)


class Thought:
    """The tree as people see it: the current branch and all other branches."""

    def __init__(self) -> None:
        self.line: list[Turn] = []
        self.left: list[list[Turn]] = []

    def leave(self, line: Sequence[Turn] = ()) -> None:
        self.left.append(self.line)
        self.line = list(line)


async def run(ops: list[Op], folder: Path) -> None:
    talk = Talk(folder)
    await talk.log.open()
    mind = Thought()
    lines: dict[int, list[Turn]] = {}
    for number, (op, which) in enumerate(ops):
        before = {branch.number: branch for branch in talk.state.tree.branches}
        if op in ("say", "page", "private", "act", "forward"):
            turn = Turn(
                f"words {number} of n{number}.example",
                f"site{which}" if op == "page" else FORWARDED * (op == "forward"),
                op == "private",
                f"deed {number}" if op == "act" else "",
            )
            spoken = attrs.evolve(turn, origin="") if op == "forward" else turn
            await talk.say(spoken, untrusted=op == "forward")
            mind.line.append(turn)
        elif op == "undo":
            if await talk.command("/undo") and mind.line:
                mind.leave(mind.line[:-1])
        elif op == "retry":
            if not await talk.command("/retry"):
                await talk.answer(Turn(mind.line[-1].words))
                old, again = mind.line[-1], attrs.evolve(mind.line[-1], private=False)
                assert old.effect in talk.notices(), "the retry names the effects"
                if old.origin != FORWARDED:
                    again = attrs.evolve(again, origin="")
                mind.leave([*mind.line[:-1], again])
        elif op == "branch":
            await talk.command(f"/branch name{which}")
        elif op == "new":
            await talk.command("/new")
            mind.leave()
        elif op == "archive" and talk.state.path:
            await talk.log.keep(Archived())
            mind.leave()
        elif op == "compact" and len(mind.line) > 1:
            begun = [node.seq for node in talk.state.path if node.begins]
            await talk.log.keep(Compacted("summary", begun[-1]))
        elif op == "resume":
            branch = talk.state.tree.find("")
            if which and talk.state.tree.branches:
                branches = talk.state.tree.branches
                branch = talk.state.tree.find(str(branches[which % len(branches)].number))
            if branch is not None:
                assert "Back in conversation" in await talk.command(f"/resume {branch.number}")
                mind.leave(lines[branch.tip])
        elif op == "reopen":
            assert await talk.reopened() == talk.state
        for branch in talk.state.tree.branches:
            if branch.number not in before or before[branch.number].tip != branch.tip:
                lines[branch.tip] = mind.line if branch.why == "marked" else mind.left[-1]
                lines[branch.tip] = list(lines[branch.tip])
        check_state(talk, mind)
    check_branches(talk, mind, lines)


def check_state(talk: Talk, mind: Thought) -> None:
    state = talk.state
    words = [turn.words for turn in mind.line]
    kept = talk.words()
    assert kept == words[len(words) - len(kept) :], "the path is what people think"
    assert len(kept) == len(words) or "summary" in talk.notices()
    # Valid: each call has its result, and nothing needs repair.
    assert list(state.messages) == [node.message for node in state.path]
    seqs = [node.seq for node in state.path]
    assert seqs == sorted(seqs)
    # A path of the tree.
    log = list(entries_of(talk.path, Entry))
    moves = [(seq, to) for seq, _, entry in log if (to := get_new_head(entry)) is not None]
    line = spans(moves, log[-1][0] if log else 0)
    on_line = [is_on(seq, line) for seq in seqs]
    assert all(on_line)
    # Labels and named addresses come from all messages of the branch, summarized or not.
    assert set(state.taint.sources) == {turn.origin for turn in mind.line if turn.origin}
    assert state.taint.private == any(turn.private for turn in mind.line)
    named: set[str] = set()
    for turn in mind.line:
        named |= set(addresses(turn.words) if turn.origin != FORWARDED else ())
        if turn.origin:
            break  # a stranger may have named later addresses
    assert set(state.named) == named


def check_branches(talk: Talk, mind: Thought, lines: dict[int, list[Turn]]) -> None:
    """Check that every other branch is a prefix of one that can be resumed."""
    log = list(entries_of(talk.path, Entry))
    reachable = [[turn.words for turn in mind.line]]
    for branch in talk.state.tree.branches:
        words = [turn.words for turn in lines[branch.tip]]
        found = talk.words(state_at(Session(), log, branch.tip))
        assert found == words[len(words) - len(found) :]
        reachable.append(words)
    for line in mind.left:
        words = [turn.words for turn in line]
        assert any(found[: len(words)] == words for found in reachable)


@settings(max_examples=150, deadline=None)
@given(OPS)
def test_any_order_of_commands_keeps_the_tree_valid(ops: list[Op]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        trio.run(run, [("say", 0), *ops], Path(folder))
