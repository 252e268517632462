"""What a session's log adds up to."""

import msgspec
import pytest

from elwood.agent.conversation.labels import CLEAN, Label
from elwood.agent.conversation.message import (
    Assistant,
    Human,
    Notice,
    Prompt,
    Result,
    Results,
    Text,
    ToolCall,
    Usage,
)
from elwood.agent.conversation.route import Route
from elwood.agent.conversation.task_run import TaskRun
from elwood.agent.session.log.entries import (
    MAX_SEEN,
    CallDecided,
    CallEnded,
    CallPending,
    CallStarted,
    Compacted,
    Delivered,
    Entry,
    Joined,
    Posted,
    Posting,
    Prompted,
    Received,
    Replied,
    Resumed,
    Rewound,
    Said,
    TurnStarted,
)
from elwood.agent.session.log.state import (
    GiveUpTurn,
    Nothing,
    Resume,
    Session,
    Start,
    commands,
    next_work,
)

ROUTE = Route("console")
U = Label(untrusted=True)


def received(id_: str, text: str = "hello", **named: str | None) -> Received:
    return Received(id_, text, "me", ROUTE, 0.0, named.get("message"), named.get("edits"))


def said(*calls: str, text: str = "") -> Said:
    blocks = tuple(ToolCall(call, "read_file", "{}") for call in calls)
    words = (Text(text),) if text else ()
    message = Assistant((*words, *blocks), "fake", "m", msgspec.Raw(b'["native"]'))
    return Said("t1", message, Usage())


def replied(*inputs: str, turn: str | None = "t1") -> Replied:
    return Replied(turn or inputs[0], turn, inputs, ROUTE, "answer")


def fold(*entries: Entry) -> Session:
    session = Session()
    for seq, entry in enumerate(entries, start=1):
        session.apply(seq, 0.0, entry)
    return session


STARTED = (received("a"), TurnStarted("t1", ("a",), 1, "hello"))


def test_a_new_session_has_nothing_to_do() -> None:
    assert next_work(Session()) == Nothing()
    assert Session().is_idle


def test_all_that_waits_is_one_turn() -> None:
    session = fold(received("a"), received("b"))

    assert next_work(session) == Start((received("a"), received("b")))


def test_commands_are_no_inputs_of_a_turn() -> None:
    session = fold(received("a", "/status"))

    assert next_work(session) == Nothing()
    assert [r.id for r in commands(session)] == ["a"]
    assert not session.is_idle


@pytest.mark.parametrize(
    ("starts", "expected"), [(1, Resume(2)), (2, GiveUpTurn()), (3, GiveUpTurn())]
)
def test_poison_is_given_up_at_the_third_start(starts: int, expected: object) -> None:
    again = [TurnStarted("t1", (), attempt, "") for attempt in range(2, starts + 1)]

    assert next_work(fold(*STARTED, *again)) == expected


def test_progress_forgives_earlier_starts() -> None:
    session = fold(*STARTED, TurnStarted("t1", (), 2, ""), said("c"))

    assert next_work(session) == Resume(1)


def test_a_finished_turn_leaves_a_delivery() -> None:
    session = fold(*STARTED, said(text="hi"), replied("a"))

    assert session.turn is None
    assert list(session.undelivered) == ["t1"]
    assert not session.is_idle


def test_delivery_ends_with_the_last_part() -> None:
    session = fold(
        *STARTED, replied("a"), Posting("t1", 0, 1), Posted("t1", 0, "9"), Delivered("t1")
    )

    assert session.is_idle


def test_an_attempt_without_an_end_is_known_after_a_restart() -> None:
    session = fold(*STARTED, replied("a"), Posting("t1", 0, 1))

    assert session.undelivered["t1"].attempts == {0: 1}
    assert session.undelivered["t1"].posted == {}


def test_results_stand_behind_their_calls_in_order() -> None:
    session = fold(
        *STARTED,
        said("c1", "c2"),
        CallEnded("t1", "c2", "read_file", "failed", "no"),
        CallEnded("t1", "c1", "read_file", "ok", "yes"),
    )

    assert session.messages[-1] == Results((Result("c1", "yes"), Result("c2", "no", failed=True)))


def test_the_model_knows_of_a_turn_that_ended_without_its_answer() -> None:
    session = fold(*STARTED, replied("a"))

    assert isinstance(session.messages[-1], Notice)
    assert "answer" in session.messages[-1].text
    assert not isinstance(fold(*STARTED, said(text="hi"), replied("a")).messages[-1], Notice)
    assert fold(*STARTED, Rewound(1), replied("a")).messages == ()


def test_a_turn_that_ends_early_leaves_no_orphan_call() -> None:
    session = fold(
        *STARTED, said("c1", "c2"), CallStarted("t1", "c1", "shell", "once"), replied("a")
    )

    results = session.messages[-2]
    assert isinstance(results, Results)
    assert [result.failed for result in results.results] == [True, True]
    assert "may or may not" in results.results[0].text
    assert "not run" in results.results[1].text


def test_a_call_under_way_is_mended_for_the_model_before_it_is_settled() -> None:
    session = fold(*STARTED, said("c1"))

    assert isinstance(session.messages[-1], Results)


def test_an_edit_of_a_waiting_message_replaces_it_and_both_have_one_outcome() -> None:
    session = fold(received("a", "wrong", message="1:7"), received("b", "right", edits="1:7"))

    work = next_work(session)
    assert isinstance(work, Start)
    assert [(r.id, r.text) for r in work.inputs] == [("a", ""), ("b", "right")]


def test_an_edit_of_an_edit_replaces_the_newest_text() -> None:
    session = fold(
        received("a", "one", message="1:7"),
        received("b", "two", edits="1:7"),
        received("c", "three", edits="1:7"),
    )

    assert [r.text for r in session.waiting.values()] == ["", "", "three"]


def test_what_joins_a_running_turn_is_answered_with_it() -> None:
    session = fold(*STARTED, received("b", "and this"), Joined("t1", ("b",), "and this"))

    assert session.waiting == {}
    assert session.turn is not None
    assert [r.id for r in session.turn.inputs] == ["a", "b"]
    assert session.messages == (Human("hello"), Human("and this"))


def test_a_new_epoch_keeps_words_and_drops_provider_content() -> None:
    session = fold(*STARTED, said(text="hi"), Prompted(Prompt("new")), said(text="ho"))

    assistants = [m for m in session.messages if isinstance(m, Assistant)]
    assert [(m.text, m.codec) for m in assistants] == [("hi", ""), ("ho", "fake")]


def test_new_conversation_is_a_branch_from_the_root() -> None:
    session = fold(*STARTED, said(text="hi"), replied("a"), Rewound(0))

    assert session.messages == ()


def test_a_summary_stands_for_what_was_before_it_and_can_be_rewound_to() -> None:
    session = fold(
        *STARTED,  # 1, 2
        said(text="hi"),  # 3
        replied("a"),  # 4
        received("b"),  # 5
        TurnStarted("t2", ("b",), 1, "again"),  # 6
        Compacted("the first turn", 6),  # 7
        Rewound(6),  # 8
    )

    assert session.messages == (Notice("the first turn"), Human("again"))


def test_a_redelivered_id_is_remembered_but_not_for_ever() -> None:
    session = Session()
    for number in range(MAX_SEEN + 5):
        session.apply(number + 1, 0.0, received(str(number)))
        session.apply(number + 1, 0.0, replied(str(number), turn=None))
        session.apply(number + 1, 0.0, Delivered(str(number)))

    assert len(session.seen) == MAX_SEEN
    assert "0" not in session.seen
    assert str(MAX_SEEN + 4) in session.seen


def test_the_state_survives_a_snapshot() -> None:
    session = fold(*STARTED, said("c1", "c2"), CallEnded("t1", "c1", "read_file", "ok", "yes"))

    copy = msgspec.json.decode(msgspec.json.encode(session), type=Session)

    assert copy == session


# --- what is told while a turn is open ------------------------------------------------------------


def kept_call() -> tuple[Entry, ...]:
    """A turn that has gone on without its call, which waits for the owner."""
    return (
        *STARTED,
        said("c"),
        CallPending("t1", "c", "read_file", "plan"),
        CallEnded("t1", "c", "read_file", "waiting", "waiting for approval"),
        said(text="later"),
        replied("a"),
        received("b"),
        TurnStarted("t2", ("b",), 1, "and now"),
    )


DENIED = CallDecided("t1", "c", "plan", "denied")


def test_what_a_task_was_allowed_is_done_in_a_turn_of_its_own() -> None:
    """It has the task's tools, and is stopped with the task."""
    run = Received("b", "look", "task:tea", ROUTE, 0.0, errand=TaskRun("tea", tools=()))
    session = fold(
        *kept_call()[:-2],
        run,
        TurnStarted("t2", ("b",), 1, "look"),
        Said("t2", said("d").message, Usage()),
        CallPending("t2", "d", "read_file", "its plan"),
        CallEnded("t2", "d", "read_file", "waiting", "waiting for approval"),
        replied("b", turn="t2"),
        CallDecided("t2", "d", "its plan", "once"),
        CallDecided("t1", "c", "plan", "once"),
    )
    begun = []
    while isinstance(work := next_work(session), Start):
        turn = f"t{session.turns + 1}"
        session.apply(99, 0.0, TurnStarted(turn, (), 1, "", work.calls))
        assert session.turn is not None
        begun.append((session.turn.errand, work.calls))
        session.apply(99, 0.0, replied(turn=turn))
    assert begun == [(None, ("t1/c",)), (run.errand, ("t2/d",))]


def test_a_decision_while_the_model_thinks_is_told_behind_what_it_says() -> None:
    """It was not sent: before the response it would break the prefix of its thinking."""
    spoken = Said("t2", said(text="answer").message, Usage())
    session = fold(*kept_call(), DENIED, spoken, replied("b", turn="t2"))

    assert [type(m) for m in session.messages[-3:]] == [Human, Assistant, Notice]
    assert fold(*kept_call(), DENIED).messages[-1] == Human("and now")


def test_a_decision_while_a_call_runs_does_not_part_it_from_its_result() -> None:
    asking = Said("t2", said("d").message, Usage())
    ended = CallEnded("t2", "d", "read_file", "ok", "what was there")
    session = fold(*kept_call(), asking, DENIED, ended)

    assert [type(m) for m in session.messages[-3:]] == [Assistant, Results, Notice]
    assert session.messages[-2] == Results((Result("d", "what was there"),))


def test_a_decision_between_turns_is_told_at_once() -> None:
    session = fold(*kept_call()[:-1], DENIED)

    assert isinstance(session.messages[-1], Notice)
    assert session.untold == []


def test_a_decision_in_a_turn_that_is_declined_is_told_after_it() -> None:
    session = fold(*kept_call(), DENIED, Rewound(8), replied("b", turn="t2"))

    assert isinstance(session.messages[-1], Notice)
    assert "denied" in session.messages[-1].text
    assert Human("and now") not in session.messages


def test_a_decision_about_what_is_gone_is_not_told() -> None:
    """Words of a stranger may be in it, and the label has gone with what brought them."""
    asked = CallPending("t1", "c", "read_file", "plan", "what the page says")
    waits = CallEnded("t1", "c", "read_file", "waiting", "…", "", U, "evil.example")
    first = (*STARTED, said("c"), asked, waits)
    session = fold(*first, DENIED, Rewound(1), replied("a"))

    assert session.messages == ()
    assert session.untold == []
    assert session.taint.label == CLEAN


# --- tokens ---------------------------------------------------------------------------------------


def test_what_the_model_counts_corrects_the_estimate() -> None:
    prompt = Prompt("word " * 1000)
    counted = Said("t1", said(text="hi").message, Usage(input=500, cache_read=1000))
    session = fold(*STARTED, Prompted(prompt), counted)

    assert session.prompt_tokens == 1000
    assert session.calibration.ratio == pytest.approx(1.5, abs=0.01)


def test_what_was_counted_holds_on_every_line_and_the_prompt_is_that_of_one() -> None:
    counted = Said("t1", said(text="hi").message, Usage(input=500, cache_read=1000))
    before = (*STARTED, Prompted(Prompt("word " * 1000)), counted, replied("a"))
    anew = fold(*before, Rewound(0))
    other = fold(*before, Resumed(0, prompt=Prompt("be good")))

    assert anew.prompt_tokens == 1000
    assert other.prompt_tokens < 10
    assert anew.calibration.ratio == other.calibration.ratio == pytest.approx(1.5, abs=0.01)


@pytest.mark.parametrize(
    "usage", [Usage(), Usage(input=9000, estimated=True)], ids=["none", "a guess of ours"]
)
def test_what_is_no_count_corrects_nothing(usage: Usage) -> None:
    spoken = Said("t1", said(text="hi").message, usage)
    session = fold(*STARTED, Prompted(Prompt("word " * 1000)), spoken)

    assert session.calibration.ratio == 1.0


def test_thinking_counts_as_long_as_it_is_sent_back() -> None:
    native = msgspec.Raw(msgspec.json.encode([{"type": "thinking", "signature": "s" * 3000}]))
    thought = Assistant((Text("hi"),), "fake", "m", native)
    spoken = Said("t1", thought, Usage(output=800))

    assert fold(*STARTED, spoken).path[-1].tokens == 800
    assert fold(*STARTED, spoken, Prompted(Prompt("x"))).path[-1].tokens == 1
    hidden = Said("t1", said(text="hi").message, Usage(output=800))
    assert fold(*STARTED, hidden).path[-1].tokens < 10


def test_why_there_is_no_summary_is_known_until_the_answer() -> None:
    session = fold(*STARTED, Compacted("left out", 2, "the model declined"))

    assert session.turn is not None
    assert session.turn.cut == "the model declined"


def told(id_: str, text: str, *, untrusted: bool = False, private: bool = False) -> list[Entry]:
    """Have the person told *text* by a run elsewhere."""
    errand = TaskRun("news", says="note", private=private)
    note = Received(id_, text, "task:news", ROUTE, 0.0, untrusted=untrusted, errand=errand)
    return [note, Replied(id_, None, (id_,), ROUTE, text, quiet=True)]


@pytest.mark.parametrize("moved", [Rewound(0), Resumed(0, same_prompt=True)])
def test_what_a_run_told_keeps_its_label_into_another_conversation(moved: Entry) -> None:
    """The model learns of it before its next turn: by then `/new` has dropped other labels."""
    session = Session()
    log: list[Entry] = [*told("n", "Buy at evil.example!", untrusted=True, private=True), moved]
    for seq, entry in enumerate(log, 1):
        session.apply(seq, 0.0, entry)
    assert session.taint.label == CLEAN
    session.apply(4, 0.0, received("m"))
    session.apply(5, 0.0, TurnStarted("t1", ("m",), 1, "hello"))
    assert "evil.example" in str(session.messages)
    assert session.taint.label == Label(untrusted=True, private=True)


def test_what_a_run_told_is_not_named_by_the_owner() -> None:
    session = Session()
    for seq, entry in enumerate(told("n", "See https://example.org/?q=1"), 1):
        session.apply(seq, 0.0, entry)
    assert not session.named
