"""The state after a session's log."""

import msgspec
import pytest

from elwood.agent.conversation.labels import CLEAN, Label
from elwood.agent.conversation.message import (
    Assistant,
    FetchedFile,
    Human,
    Notice,
    PendingFile,
    Prompt,
    ReceivedFile,
    Result,
    Results,
    Text,
    ToolCall,
    Usage,
)
from elwood.agent.conversation.route import Route
from elwood.agent.conversation.run import RunBounds
from elwood.agent.session.log.entries import (
    MAX_SEEN,
    CallDecided,
    CallEnded,
    CallPending,
    CallStarted,
    Compacted,
    Delivered,
    Entry,
    Fetched,
    Joined,
    Prompted,
    Received,
    Replied,
    Resumed,
    Rewound,
    Said,
    TurnStarted,
)
from elwood.agent.session.log.state import GiveUpTurn, Resume, Session, Start, next_work
from elwood.agent.session.reading.records import History
from tests.agent.session.known import MOVING

ROUTE = Route("console")
U = Label(untrusted=True)


def make_received(id_: str, text: str = "hello") -> Received:
    return Received(id_, text, "me", ROUTE, 0.0)


def make_said(*calls: str, text: str = "") -> Said:
    blocks = tuple(ToolCall(call, "read_file", "{}") for call in calls)
    words = (Text(text),) if text else ()
    message = Assistant((*words, *blocks), "fake", "m", msgspec.Raw(b'["native"]'))
    return Said("t1", message, Usage())


def make_replied(*inputs: str, turn: str | None = "t1") -> Replied:
    return Replied(turn or inputs[0], turn, inputs, ROUTE, "answer")


def fold(*entries: Entry) -> Session:
    session = Session()
    for seq, entry in enumerate(entries, start=1):
        session.apply(seq, 0.0, entry)
    return session


STARTED = (make_received("a"), TurnStarted("t1", ("a",), 1, "hello"))


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        ((), None),
        ((make_received("a"), make_received("b")), Start((make_received("a"), make_received("b")))),
        (
            (make_received("a"), make_received("b", "/New"), make_received("c")),
            Start((make_received("a"),)),
        ),
        ((make_received("a", "/status"),), None),
        ((make_received("a", "/etc/hosts?"),), Start((make_received("a", "/etc/hosts?"),))),
        (STARTED, Resume(2)),
        ((*STARTED, TurnStarted("t1", (), 2, "")), GiveUpTurn()),
        ((*STARTED, TurnStarted("t1", (), 2, ""), make_said("c")), Resume(1)),
        (
            (
                *STARTED,
                make_received("b"),
                Joined("t1", ("b",), "and this"),
                make_replied("a", "b"),
            ),
            None,
        ),
    ],
    ids=[
        *("nothing", "all waiting messages", "not beyond /new", "a command", "no command"),
        *("cut off", "poison", "progress forgives earlier starts", "what joined is answered"),
    ],
)
def test_next_step_of_the_state(log: tuple[Entry, ...], expected: object) -> None:
    assert next_work(fold(*log), MOVING) == expected


def test_the_model_learns_of_an_unanswered_turn() -> None:
    session = fold(*STARTED, make_replied("a"))

    assert isinstance(session.messages[-1], Notice)
    assert "answer" in session.messages[-1].text
    assert not isinstance(
        fold(*STARTED, make_said(text="hi"), make_replied("a")).messages[-1], Notice
    )
    assert fold(*STARTED, Rewound(1), make_replied("a")).messages == ()


def test_results_follow_their_calls() -> None:
    session = fold(
        *STARTED,
        make_said("c1", "c2", "c3"),
        CallEnded("t1", "c2", "read_file", "failed", "no"),
        CallStarted("t1", "c1", "shell", "once"),
        make_replied("a"),
    )

    results = session.messages[-2]
    assert isinstance(results, Results)
    assert [(result.call, result.failed) for result in results.results] == [
        ("c1", True), ("c2", True), ("c3", True),
    ]  # fmt: skip
    words = ("may or may not", "no", "not run")
    assert all(word in one.text for word, one in zip(words, results.results, strict=True))


def test_a_message_is_placed_at_the_start_of_its_turn() -> None:
    pending = PendingFile(id="f", name="cat.jpg", kind="picture")
    picture = msgspec.structs.replace(make_received("a", ""), pending=(pending,))
    started = TurnStarted("t1", ("a",), 1, "")
    begun: tuple[Entry, ...] = (picture, started, TurnStarted("t1", (), 2, ""))
    session = fold(*begun)
    assert session.turn is not None
    assert (session.messages, session.turn.running) == ((), "fetching the picture")
    assert next_work(session, MOVING) == GiveUpTurn()

    file = ReceivedFile(path="cat.jpg", size=3, sha256="0", about="picture", tokens=9)
    fetched = (*begun, Fetched("t1", "a", FetchedFile(file=file)))
    assert next_work(fold(*fetched), MOVING) == Resume(1)
    log = (*fetched, make_received("b"), Joined("t1", ("b",), ""), Joined("t1", (), "a cat; hello"))
    session = fold(*log)
    [node] = session.path
    assert (node.seq, node.begins) == (2, True)
    assert node.message == Human("a cat; hello", (file,))
    assert [*session.taint.sources] == ["cat.jpg"]
    [turn] = History("s", [(seq, 0.0, entry) for seq, entry in enumerate(log, 1)]).turns
    assert [one.received.files for one in turn.heard] == [(file,), ()]


def test_an_edit_replaces_a_waiting_message() -> None:
    """TG-21."""
    session = fold(
        Received("a", "one", "me", ROUTE, 0.0, message="1:7"),
        Received("b", "two", "me", ROUTE, 0.0, edits="1:7"),
        Received("c", "three", "me", ROUTE, 0.0, edits="1:7"),
    )

    assert [(r.id, r.text) for r in session.waiting.values()] == [
        ("a", ""), ("b", ""), ("c", "three"),
    ]  # fmt: skip


def test_a_summary_replaces_the_history_before_it() -> None:
    session = fold(
        *STARTED,  # 1, 2
        make_said(text="hi"),  # 3
        make_replied("a"),  # 4
        make_received("b"),  # 5
        TurnStarted("t2", ("b",), 1, "again"),  # 6
        Compacted("the first turn", 6),  # 7
        Rewound(6),  # 8
    )

    assert session.messages == (Notice("the first turn"), Human("again"))


def test_redelivered_ids_are_remembered_for_a_while() -> None:
    session = Session()
    for number in range(MAX_SEEN + 5):
        session.apply(number + 1, 0.0, make_received(str(number)))
        session.apply(number + 1, 0.0, make_replied(str(number), turn=None))
        session.apply(number + 1, 0.0, Delivered(str(number)))

    assert len(session.seen) == MAX_SEEN
    assert "0" not in session.seen
    assert str(MAX_SEEN + 4) in session.seen


# --- decisions during a turn ----------------------------------------------------------------------


def make_pending_call() -> tuple[Entry, ...]:
    """Return a turn that continued without its call, which waits for the owner."""
    return (
        *STARTED,
        make_said("c"),
        CallPending("t1", "c", "read_file", "plan"),
        CallEnded("t1", "c", "read_file", "waiting", "waiting for approval"),
        make_said(text="later"),
        make_replied("a"),
        make_received("b"),
        TurnStarted("t2", ("b",), 1, "and now"),
    )


DENIED = CallDecided("t1", "c", "plan", "denied")


def test_an_approved_task_call_runs_in_its_own_turn() -> None:
    """The turn has the task's tools, and stopping the task stops it."""
    run = Received("b", "look", "task:tea", ROUTE, 0.0, bounds=RunBounds("tea", tools=()))
    session = fold(
        *make_pending_call()[:-2],
        run,
        TurnStarted("t2", ("b",), 1, "look"),
        Said("t2", make_said("d").message, Usage()),
        CallPending("t2", "d", "read_file", "its plan"),
        CallEnded("t2", "d", "read_file", "waiting", "waiting for approval"),
        make_replied("b", turn="t2"),
        CallDecided("t2", "d", "its plan", "once"),
        CallDecided("t1", "c", "plan", "once"),
    )
    begun = []
    while isinstance(work := next_work(session, MOVING), Start):
        turn = f"t{session.turns + 1}"
        session.apply(99, 0.0, TurnStarted(turn, (), 1, "", work.calls))
        assert session.turn is not None
        begun.append((session.turn.bounds, work.calls))
        session.apply(99, 0.0, make_replied(turn=turn))
    assert begun == [(None, ("t1/c",)), (run.bounds, ("t2/d",))]


def test_a_decision_during_a_model_call_follows_the_answer() -> None:
    """It was not sent: before the response it would change the prefix of the thinking."""
    spoken = Said("t2", make_said(text="answer").message, Usage())
    session = fold(*make_pending_call(), DENIED, spoken, make_replied("b", turn="t2"))

    assert [type(m) for m in session.messages[-3:]] == [Human, Assistant, Notice]
    assert fold(*make_pending_call(), DENIED).messages[-1] == Human("and now")


def test_a_decision_during_a_call_follows_the_result() -> None:
    asking = Said("t2", make_said("d").message, Usage())
    ended = CallEnded("t2", "d", "read_file", "ok", "what was there")
    session = fold(*make_pending_call(), asking, DENIED, ended)

    assert [type(m) for m in session.messages[-3:]] == [Assistant, Results, Notice]
    assert session.messages[-2] == Results((Result("d", "what was there"),))


def test_a_decision_in_a_refused_turn_follows_it() -> None:
    session = fold(*make_pending_call(), DENIED, Rewound(8), make_replied("b", turn="t2"))

    assert isinstance(session.messages[-1], Notice)
    assert "denied" in session.messages[-1].text
    assert Human("and now") not in session.messages


def test_a_decision_about_a_removed_call_is_not_shown() -> None:
    """It may contain a stranger's words, and their label was removed with their message."""
    asked = CallPending("t1", "c", "read_file", "plan", "what the page says")
    waits = CallEnded("t1", "c", "read_file", "waiting", "…", "", U, "evil.example")
    first = (*STARTED, make_said("c"), asked, waits)
    session = fold(*first, DENIED, Rewound(1), make_replied("a"))

    assert session.messages == ()
    assert session.untold == []
    assert session.taint.label == CLEAN


# --- tokens ---------------------------------------------------------------------------------------


def test_token_counts_apply_to_every_branch() -> None:
    counted = Said("t1", make_said(text="hi").message, Usage(input=500, cache_read=1000))
    before = (*STARTED, Prompted(Prompt("word " * 1000)), counted, make_replied("a"))
    anew = fold(*before, Rewound(0))
    other = fold(*before, Resumed(0, prompt=Prompt("be good")))

    assert anew.prompt_tokens == 1000
    assert other.prompt_tokens < 10
    assert anew.calibration.ratio == other.calibration.ratio == pytest.approx(1.5, abs=0.01)


@pytest.mark.parametrize(
    "usage", [Usage(), Usage(input=9000, estimated=True)], ids=["none", "a guess of ours"]
)
def test_invalid_counts_are_ignored(usage: Usage) -> None:
    spoken = Said("t1", make_said(text="hi").message, usage)
    session = fold(*STARTED, Prompted(Prompt("word " * 1000)), spoken)

    assert session.calibration.ratio == 1.0


def test_thinking_counts_while_it_is_sent() -> None:
    native = msgspec.Raw(msgspec.json.encode([{"type": "thinking", "signature": "s" * 3000}]))
    thought = Assistant((Text("hi"),), "fake", "m", native)
    spoken = Said("t1", thought, Usage(output=800))

    assert fold(*STARTED, spoken).path[-1].tokens == 800
    assert fold(*STARTED, spoken, Prompted(Prompt("x"))).path[-1].tokens == 1
    hidden = Said("t1", make_said(text="hi").message, Usage(output=800))
    assert fold(*STARTED, hidden).path[-1].tokens < 10


def make_news(
    id_: str, text: str, *, untrusted: bool = False, private: bool = False
) -> list[Entry]:
    """Return entries for *text*, which a run posted from another conversation."""
    bounds = RunBounds("news", says="note", private=private)
    note = Received(id_, text, "task:news", ROUTE, 0.0, untrusted=untrusted, bounds=bounds)
    return [note, Replied(id_, None, (id_,), ROUTE, text, quiet=True)]


@pytest.mark.parametrize("moved", [Rewound(0), Resumed(0, same_prompt=True)])
def test_the_news_of_a_run_keep_their_label(moved: Entry) -> None:
    """The model reads it before its next turn, when `/new` has removed the other labels."""
    session = Session()
    log: list[Entry] = [
        *make_news("n", "Buy at evil.example!", untrusted=True, private=True),
        moved,
    ]
    for seq, entry in enumerate(log, 1):
        session.apply(seq, 0.0, entry)
    assert session.taint.label == CLEAN
    session.apply(4, 0.0, make_received("m"))
    session.apply(5, 0.0, TurnStarted("t1", ("m",), 1, "hello"))
    assert "evil.example" in str(session.messages)
    assert session.taint.label == Label(untrusted=True, private=True)


def test_the_news_of_a_run_name_no_addresses() -> None:
    session = Session()
    for seq, entry in enumerate(make_news("n", "See https://example.org/?q=1"), 1):
        session.apply(seq, 0.0, entry)
    assert not session.named
