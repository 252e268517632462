"""What is put away before it was looked at stays to be looked at: each word once."""

from collections import Counter

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from elwood.agent.conversation.labels import Label
from elwood.agent.conversation.message import Assistant, Human, Message, Text, Usage
from elwood.agent.conversation.route import Route
from elwood.agent.session.log.branch import MAX_OWED, Unobserved, UnobservedRange, fresh, resumed
from elwood.agent.session.log.entries import (
    Archived,
    Branched,
    Entry,
    Node,
    Observed,
    Received,
    Replied,
    Rewound,
    Said,
    TurnStarted,
)
from elwood.agent.session.log.state import Session, state_at

ROUTE = Route("console")
YES = Assistant((Text("yes"),), "fake", "m", msgspec.Raw(b"null"))
STEPS = ("say", "say", "new", "archive", "undo", "branch", "resume", "1", "2", "quiet")


class Talk:
    """A conversation: what was said in it, taken back, and looked at, a letter for each message."""

    def __init__(self) -> None:
        self.log: list[tuple[int, float, Entry]] = []
        self.state = Session()
        self.back: set[str] = set()
        self.seen: list[tuple[str, Label]] = []

    @property
    def heard(self) -> list[str]:
        return [said for said, _ in self.seen]

    def add(self, *entries: Entry) -> "Talk":
        for entry in entries:
            self.log.append((len(self.log) + 1, 0.0, entry))
            self.state.apply(*self.log[-1])
        return self

    def say(self, word: str, *, untrusted: bool = False) -> "Talk":
        turn = f"t{self.state.turns + 1}"
        return self.add(
            Received(word, word, "me", ROUTE, 0.0, untrusted=untrusted),
            TurnStarted(turn, (word,), 1, word),
            Said(turn, YES, Usage()),
            Replied(turn, turn, (word,), ROUTE, "yes"),
        )

    def new(self) -> "Talk":
        return self.add(Rewound(0))

    def undo(self) -> "Talk":
        begun = [node for node in self.state.path if node.begins]
        if begun:
            word = texts(begun[-1:])
            before = state_at(self.log, begun[-1].seq - 1, without=set(word))
            self.back |= set(word)
            self.add(resumed(self.state, before, begun[-1].seq - 1))
        return self

    def resume(self, given: str = "") -> "Talk":
        branch = self.state.tree.find(given)
        if branch is not None:
            line = state_at(self.log, branch.tip)
            self.add(resumed(self.state, line, branch.tip, branch.number))
        return self

    def quiet(self) -> "Talk":
        """Look at everything, as the observer does."""
        while True:
            line, after = self.state, self.state.unobserved.after
            for owed in self.state.unobserved.owed[:1]:
                line, after = state_at(self.log, owed.tip), owed.after
            nodes = fresh(line.path, after)
            if not nodes:
                return self
            self.seen += [(word, line.taint.label) for word in texts(nodes)]
            self.add(Observed(nodes[-1].seq, 0))


def texts(nodes: tuple[Node, ...] | list[Node]) -> list[str]:
    return [node.message.text for node in nodes if isinstance(node.message, Human)]


def test_what_is_fresh_came_after() -> None:
    talk: list[Message] = [Human("a"), YES, Human("c")]
    path = [Node(n, message, 1) for n, message in enumerate(talk, 1)]

    assert [node.seq for node in fresh(path, 0)] == [1, 2, 3]
    assert [node.seq for node in fresh(path, 2)] == [3]
    assert fresh(path[:2], 1) == ()  # nobody but the model has said anything


def test_what_was_looked_at_stays_so() -> None:
    assert Talk().add(Observed(7, 0), Observed(3, 0)).state.unobserved == Unobserved(7)


def test_what_is_put_away_is_owed_by_new_the_archive_and_another_line() -> None:
    talk = Talk().say("a").new().say("b").add(Archived()).say("c").resume("1")

    assert talk.state.unobserved.owed == [
        UnobservedRange(5, 8, 9),
        UnobservedRange(10, 13, 14),
    ]  # a is here again
    assert talk.quiet().heard == ["b", "c", "a"]
    assert talk.state.unobserved.owed == []


def test_nothing_is_owed_when_nothing_new_was_said() -> None:
    talk = Talk().new().say("a").quiet().new().resume().new()

    assert talk.state.unobserved.owed == []
    assert talk.quiet().heard == ["a"]


def test_what_was_taken_back_is_not_owed() -> None:
    assert Talk().say("a").say("b").undo().new().quiet().heard == ["a"]
    assert Talk().say("a").undo().new().quiet().heard == []


def test_what_is_taken_back_after_it_was_put_away_is_not_owed_either() -> None:
    assert Talk().say("a").say("b").new().say("c").resume().undo().quiet().heard == ["c", "a"]


def test_a_line_that_comes_back_before_it_is_quiet_is_looked_at_as_a_whole() -> None:
    talk = Talk().say("a").new().resume().say("b")

    assert talk.state.unobserved.owed == []
    assert talk.quiet().heard == ["a", "b"]


def test_what_two_lines_share_is_looked_at_once() -> None:
    talk = Talk().say("a").add(Branched("mark")).say("b").resume("mark").say("c")

    assert talk.quiet().heard == ["a", "b", "c"]


def test_each_stretch_has_the_label_of_its_line_then() -> None:
    talk = Talk().say("a", untrusted=True).new().say("b").new()

    assert talk.quiet().seen == [("a", Label(untrusted=True)), ("b", Label())]


def test_of_many_the_newest_are_owed() -> None:
    talk = Talk()
    words = [str(n) for n in range(MAX_OWED + 2)]
    for word in words:
        talk.say(word).new()

    assert talk.quiet().heard == words[2:]


def test_a_pass_that_ends_behind_a_move_counts_for_where_its_words_are() -> None:
    """The record of what was looked at may come just after the owner has moved on, or back."""
    talk = Talk().say("a")
    upto = talk.state.path[-1].seq
    assert talk.new().add(Observed(upto, 0)).quiet().heard == []
    talk = Talk().say("a").new().resume().add(Observed(upto, 0))
    assert talk.say("b").quiet().heard == ["b"]


@given(st.lists(st.sampled_from(STEPS), max_size=25))
def test_each_word_that_stands_is_looked_at_once(steps: list[str]) -> None:
    """Whatever way the conversation goes; and a log read anew comes to the same."""
    talk = Talk()
    said: list[str] = []
    for step in steps:
        match step:
            case "say":
                said.append(f"w{len(said)}")
                talk.say(said[-1])
            case "new":
                talk.new()
            case "archive":
                talk.add(Archived())
            case "undo":
                talk.undo()
            case "branch":
                talk.add(Branched(""))
            case "quiet":
                talk.quiet()
            case _:
                talk.resume(step.removeprefix("resume"))
        if len(talk.state.unobserved.owed) == MAX_OWED:
            talk.quiet()
    talk.quiet()
    counted = Counter(talk.heard)
    assert max(counted.values(), default=1) == 1
    assert set(said) - talk.back <= set(counted)
    assert state_at(talk.log, len(talk.log)).unobserved == talk.state.unobserved
