"""Summaries of a long conversation, and the fallback without one."""

from collections.abc import Callable

import msgspec
import pytest
import trio

from elwood.agent.conversation.message import Assistant, Human, Message, Notice, Results, Usage
from elwood.agent.models.messages import (
    BadHistory,
    BudgetSpent,
    Complete,
    Completed,
    ContextTooLong,
    ModelUnavailable,
)
from elwood.agent.session.log.branch import CUT_NOTICE, SUMMARY_HEAD, is_notice_of_cut, node_of
from elwood.agent.session.log.entries import Compacted, Node
from elwood.agent.session.turn.compaction import DEADLINE, EXTRACTS, OTHERS_FIRST
from elwood.agent.session.turn.turn import MAX_SHRUNK
from elwood.foundation.runtime import ActorCrashed
from elwood.foundation.text.tokens import estimate
from tests.agent.session.scripted import answer, call
from tests.agent.session.talking import Talk, is_summary

pytestmark = pytest.mark.usefixtures("virtual_time")

GOOD = answer("<summary>\nAda likes tea.\n</summary>")
LONG = "some words that fill the room " * 20


class Model:
    """Answers people with *say* and summary requests with *sum_up*."""

    def __init__(self, sum_up: Completed | Callable[[], Completed] = GOOD) -> None:
        self.sum_up = sum_up
        self.say: list[Completed] = []
        self.asked: list[Complete] = []
        self.summaries: list[Complete] = []

    async def __call__(self, request: Complete) -> Completed:
        await trio.lowlevel.checkpoint()
        if is_summary(request):
            self.summaries.append(request)
            return self.sum_up() if callable(self.sum_up) else self.sum_up
        self.asked.append(request)
        return self.say.pop(0) if self.say else answer(f"re: {LONG}")


async def talk_until_summary(model: Model, *, times: int = 1, context: int = 2000) -> Talk:
    """Talk until there were *times* summaries."""
    talk = Talk(model, context=context)
    for number in range(200):
        await talk.say(f"{number}: {LONG}")
        if len(talk.compactions) == times:
            return talk
    raise AssertionError("no room was made")


def human_texts(messages: tuple[Message, ...]) -> list[str]:
    return [message.text.split(":")[0] for message in messages if isinstance(message, Human)]


async def test_a_cheap_model_summarizes_the_rest() -> None:
    model = Model()

    talk = await talk_until_summary(model)

    [asked] = model.summaries
    assert asked.role == "summarizer"
    assert asked.prompt.tools == ()
    assert asked.max_tokens is not None
    [wanted] = asked.messages
    assert isinstance(wanted, Human)
    [made] = talk.compactions
    assert made.why == ""
    assert "Ada likes tea." in made.summary
    last = model.asked[-1].messages
    assert last[0] == Notice(made.summary)
    kept, left_out = human_texts(last), human_texts(model.asked[-2].messages)
    assert [n for n in left_out if f"{n}: some words" in wanted.text] == [
        n for n in left_out if n not in kept
    ]
    assert talk.crossings == 1


async def test_room_is_measured_by_the_models_count() -> None:
    """The model's count differs from our estimate."""
    most = 0

    async def think(request: Complete) -> Completed:
        nonlocal most
        await trio.lowlevel.checkpoint()
        if is_summary(request):
            return GOOD
        counted = len(msgspec.json.encode((request.prompt, request.messages))) // 2
        most = max(most, counted)
        return msgspec.structs.replace(answer(f"re: {LONG}"), usage=Usage(counted, 300))

    talk = Talk(think, context=8000)
    for number in range(60):
        await talk.say(f"{number}: {LONG}")

    assert 0.6 * 8000 < most <= 8000
    assert len(talk.compactions) == talk.crossings - talk.is_full > 3
    talk.restart()


async def test_a_second_summary_includes_the_first() -> None:
    model = Model()

    talk = await talk_until_summary(model, times=2)

    [wanted] = model.summaries[1].messages
    assert isinstance(wanted, Human)
    assert wanted.text.startswith(f"EARLIER SUMMARY:\n  {SUMMARY_HEAD}")
    assert "Ada likes tea." in wanted.text
    assert sum(is_notice_of_cut(m) for m in talk.session.messages) == 1


def make_node(message: Message) -> Node:
    return node_of(0, message)


async def hang() -> Completed:
    await trio.sleep_forever()
    raise AssertionError


def crash() -> Completed:
    raise ActorCrashed("models")


@pytest.mark.parametrize(
    ("outcome", "why", "times"),
    [
        (answer(""), "had no summary", 3),
        (ModelUnavailable("the key was refused"), "the key was refused", 1),
        (ContextTooLong("200 tokens over"), "200 tokens over", 1),
        (BadHistory("messages: no"), "messages: no", 1),
        (crash, "models", 1),
    ],
)
async def test_without_a_summary_extracts_are_kept(
    outcome: Completed | Callable[[], Completed], why: str, times: int
) -> None:
    model = Model(outcome)

    talk = await talk_until_summary(model)

    assert [one.others_first for one in model.summaries] == list(OTHERS_FIRST[:times])
    summary = talk.compactions[0].summary
    assert EXTRACTS in summary
    assert "PERSON: 7: some words" in summary
    assert "ASSISTANT: re: some words" in summary
    assert summary.endswith(CUT_NOTICE)
    assert why in talk.compactions[0].why
    assert model.asked[-1].messages[0] == Notice(summary)
    assert not isinstance(talk.session.messages[-1], Notice)  # the turn was answered
    turn_was_told = [e.why for e in talk.entries if isinstance(e, Compacted)]
    assert turn_was_told == [talk.compactions[0].why]


async def test_extracts_list_effects_and_failures() -> None:
    """As many as fit, over several failures; they contain no text of results."""
    model = Model(ModelUnavailable("away"))
    talk = Talk(model, context=4000)
    for _ in range(4):
        await talk.say(LONG)
    model.say = [call(("c1", "note", '{"name": "locker 77"}')), answer("Noted.")]
    await talk.say("Note the locker")
    model.say = [call(("c2", "nothing", "{}")), answer("It failed.")]
    await talk.say("And do nothing")
    while len(talk.compactions) < 2:
        await talk.say(LONG)

    first, second = (made.summary for made in talk.compactions)
    assert 'ASSISTANT CALLS A TOOL: "note" {"name": "locker 77"}' in first
    assert 'ASSISTANT CALLS A TOOL: "nothing" {}\nFAILED: no such tool: nothing' in first
    assert "Note the locker" in first
    assert second.count(EXTRACTS) == second.count(SUMMARY_HEAD) == 1
    assert min(first.count("PERSON: "), second.count("PERSON: ")) > 10
    for _ in range(60):
        await talk.say(LONG)
    assert len(talk.compactions) > 4
    assert max(estimate(made.summary) for made in talk.compactions) < 1.4 * 400


async def test_an_earlier_summary_survives_a_failure() -> None:
    model = Model(lambda: GOOD if len(model.summaries) == 1 else answer("no"))

    talk = await talk_until_summary(model, times=3)

    assert [bool(made.why) for made in talk.compactions] == [False, True, True]
    assert all("Ada likes tea." in made.summary for made in talk.compactions)
    assert talk.compactions[2].summary.count(CUT_NOTICE) == 1


async def test_a_slow_summary_is_abandoned() -> None:
    model = Model()

    async def think(request: Complete) -> Completed:
        return await hang() if is_summary(request) else await model(request)

    talk = Talk(think, context=2000)
    while not talk.compactions:
        await talk.say(LONG)

    assert trio.current_time() == pytest.approx(DEADLINE, abs=1)
    assert "within 120 s" in talk.compactions[0].why


async def test_an_empty_budget_loses_no_history() -> None:
    model = Model(BudgetSpent("the day's limit of 5 USD is reached"))
    talk = Talk(model, context=2000)
    end = await talk.say(LONG)
    while not end.failed:
        end = await talk.say(LONG)

    assert end.text == "the day's limit of 5 USD is reached"
    assert talk.compactions == []
    model.sum_up = GOOD
    assert not (await talk.say("and now?")).failed
    assert len(talk.compactions) == 1


async def test_an_overlong_history_is_shortened_three_times() -> None:
    model = Model()
    talk = Talk(model)
    for number in range(30):
        await talk.say(f"{number}: {LONG}")
    model.asked.clear()
    model.say = [ContextTooLong("too long")] * (MAX_SHRUNK + 1)

    end = await talk.say("hello")

    assert end.failed
    assert "too long" in end.text
    assert len(talk.compactions) == MAX_SHRUNK
    sizes = [len(request.messages) for request in model.asked]
    assert sizes == sorted(sizes, reverse=True)
    assert len(set(sizes)) == MAX_SHRUNK + 1
    assert not (await talk.say("hello again")).failed


async def test_ta_48_a_summary_of_an_untrusted_conversation_is_untrusted() -> None:
    model = Model()
    talk = Talk(model, context=2000)
    await talk.say(f"forwarded: {LONG}", untrusted=True)
    while len(talk.compactions) < 2:
        await talk.say(LONG)

    assert "forwarded" not in "".join(human_texts(talk.session.messages))
    assert talk.session.taint.label.untrusted
    talk.restart()
    assert talk.session.taint.label.untrusted
    await talk.new()
    assert not talk.session.taint.label.untrusted
    assert talk.session.messages == ()


async def test_a_summary_keeps_private_labels() -> None:
    model = Model()
    talk = Talk(model, context=2000)
    talk.session.taint.private = True
    while not talk.compactions:
        await talk.say(LONG)

    assert [one.text for one in talk.session.private_texts()] == [talk.compactions[0].summary]


async def test_an_overlong_turn_keeps_its_request() -> None:
    model = Model()
    talk = Talk(model, context=2000)
    await talk.say(f"before: {LONG}")
    names = [f"n{number}" for number in range(15)]
    long = "a-name-that-fills-the-room-" * 20
    model.say = [call((name, "note", f'{{"name": "{name}-{long}"}}')) for name in names]

    ended = await talk.say("Note fifteen things.")

    assert not ended.failed
    assert len(talk.session.receipts) == 15
    assert len(talk.compactions) > 1
    for request in model.asked[1:]:
        size = talk.limits().size(sum(node.tokens for node in map(make_node, request.messages)))
        assert size <= 2000
        assert "Note fifteen things." in human_texts(request.messages)
        calls = [c.id for m in request.messages if isinstance(m, Assistant) for c in m.calls]
        given = [r.call for m in request.messages if isinstance(m, Results) for r in m.results]
        assert calls == given
    talk.restart()
    assert talk.session.messages[0] == Notice(talk.compactions[-1].summary)
    assert (await talk.say("thanks")).text
