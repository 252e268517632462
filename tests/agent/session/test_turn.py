"""Reactions of a turn to everything that a model may answer."""

from collections.abc import Sequence

import pytest
import trio

from elwood.agent.conversation.message import (
    Assistant,
    Completion,
    Human,
    Notice,
    Prompt,
    Results,
    ToolCall,
)
from elwood.agent.conversation.route import Route
from elwood.agent.conversation.settings import OwnerClock, TurnSettings
from elwood.agent.models.messages import (
    BadHistory,
    BudgetSpent,
    Complete,
    Completed,
    ContextTooLong,
    ModelUnavailable,
)
from elwood.agent.session.log.entries import (
    CallDecided,
    CallEnded,
    CallPending,
    CallStarted,
    Received,
    Replied,
    Rewound,
    TurnStarted,
)
from elwood.agent.session.log.turns import OpenCall
from elwood.agent.session.reading.receipts import activity
from elwood.agent.session.turn.turn import MAX_CALLS, TurnResult, TurnRun
from elwood.foundation.secrets.redaction import Redactor, Secret
from tests.agent.session.gates import MemoryLog, make_gate
from tests.agent.session.scripted import Effects, ScriptedModel, answer, call

pytestmark = pytest.mark.usefixtures("virtual_time")

ROUTE = Route("console")
PROMPT = Prompt("be good")


class Scene(MemoryLog):
    """One session with an open turn, a log in memory, and a scripted model."""

    def __init__(self, *steps: Completed, dry_run: bool = False) -> None:
        super().__init__()
        self.model = ScriptedModel(*steps)
        self.effects = Effects()
        self.turn_run: TurnRun | None = None
        self.gate = make_gate(
            self, self.effects.tools(), redactor=Redactor([Secret("hunter2")]), dry_run=dry_run
        )
        self.apply(Received("a", "hello", "me", ROUTE, 0.0))
        self.apply(TurnStarted("t1", ("a",), 1, "hello"))

    def say(self, id_: str, text: str) -> None:
        self.apply(Received(id_, text, "me", ROUTE, 0.0))
        if self.turn_run is not None:
            self.turn_run.notify_arrival()

    async def run(self, **settings: int) -> TurnResult:
        run = self.turn_run = TurnRun(
            log=self,
            gate=self.gate,
            ask=self.model,
            prompt=PROMPT,
            max_tokens=1000,
            settings=TurnSettings(**settings),
            clock=OwnerClock(lambda: 0.0),
        )
        with trio.fail_after(36_000):  # of an autojump clock
            return await run.run()

    async def finish(self, **settings: int) -> TurnResult:
        """Run the turn and close it like the session."""
        end = await self.run(**settings)
        self.apply(*end.entries, Replied("t1", "t1", ("a",), ROUTE, end.text))
        return end

    @property
    def results(self) -> list[str]:
        return [
            result.text
            for message in self.session.messages
            if isinstance(message, Results)
            for result in message.results
        ]


async def test_reads_run_in_parallel_and_writes_in_order() -> None:
    calls = [(f"c{n}", "look", f'{{"name": "{n}"}}') for n in range(3)]
    acts = [(f"a{n}", "act", f'{{"name": "{n}"}}') for n in range(2)]
    scene = Scene(call(*calls, *acts), answer("done"))

    await scene.finish()

    assert scene.effects.most_together == 3
    assert scene.effects.done[3:] == ["act 0", "act 1"]
    assert scene.results == ["saw 0", "saw 1", "saw 2", "acted on 0", "acted on 1"]


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        (
            "nosuch",
            "{}",
            "no such tool: nosuch; available: act, crash, destroy, fail, hang, look",
        ),  # LLM-26
        ("look", '{"name": 5}', "Expected `str`, got `int` - at `$.name`"),  # LLM-27
        ("look", "{}", "missing required field `name`"),
        ("look", '{"name": "x", "more": 1}', "unknown field `more`"),
        ("look", '{"name": "x"', "bad arguments for look"),  # LLM-14
        ("look", '{"name": "\\ud800"}', "bad arguments for look"),
        ("look", '{"name": "x", "name": "y"}', "the key 'name' occurs 2 times; give it once"),
        ("look", '{"name": "x", "n\\u0061me": "y"}', "the key 'name' occurs 2 times"),
        ("fail", "{}", "there is nothing to do it with"),
        ("crash", "{}", "crash crashed (ZeroDivisionError)"),
    ],
)
async def test_a_failed_call_is_a_result(name: str, arguments: str, expected: str) -> None:
    scene = Scene(call(("c", name, arguments)), answer("I see"))

    end = await scene.finish()

    assert end.text == "I see"
    assert expected in scene.results[0]
    assert scene.effects.done == []


async def test_a_slow_tool_has_an_unknown_outcome() -> None:
    scene = Scene(call(("c", "hang", "{}")), answer("hm"))

    await scene.finish()

    turn_receipts = [e for e in scene.entries if type(e).__name__ == "CallEnded"]
    assert [e.outcome for e in turn_receipts] == ["unknown"]  # type: ignore[union-attr]
    assert "may or may not have happened" in scene.results[0]


async def test_tool_results_are_redacted() -> None:
    scene = Scene(call(("c", "look", '{"name": "hunter2"}')), answer("ok"))

    await scene.finish()

    assert scene.results == ["saw ***"]
    started = [e for e in scene.entries if isinstance(e, CallStarted)]
    assert started[0].target == "***"


async def test_a_dry_run_changes_nothing() -> None:
    """It needs no approval either."""
    reading, acting = ("c1", "look", '{"name": "x"}'), ("c3", "act", '{"name": "y"}')
    destroying = ("c2", "destroy", '{"name": "z"}')
    scene = Scene(call(reading, destroying, acting), answer("ok"), dry_run=True)

    await scene.finish()

    assert scene.effects.done == ["look x"]
    assert scene.results == ["saw x", *["dry run: nothing was done"] * 2]
    ended = [entry for entry in scene.entries if isinstance(entry, CallEnded)]
    assert [entry.outcome for entry in ended] == ["ok", "dry run", "dry run"]
    assert not any(isinstance(entry, CallPending) for entry in scene.entries)


# --- stop reasons of the model --------------------------------------------------------------------


ACT = ("c", "act", '{"name": "x"}')
CUT, BAD = call(ACT, stop="cut"), BadHistory("no")


@pytest.mark.parametrize(
    ("steps", "text", "failed"),
    [
        pytest.param([CUT, CUT], "so I did not run it.", True, id="llm-15: twice the limit, once"),
        pytest.param(
            [answer(text, "cut") for text in ("one ", "two ", "three")],
            "one two three\n\n[cut off: the answer was too long]",
            False,
            id="llm-16: continued twice",
        ),
        pytest.param(
            [answer(f"p{n}", "paused") for n in range(6)],
            "did not finish.",
            True,
            id="llm-19: resumed five times",
        ),
        pytest.param([call(ACT, stop="end", text="hm")], "hm", False, id="llm-21"),
        pytest.param([call(ACT, stop="unknown", text="hm")], "hm", False, id="llm-21: unknown"),
        pytest.param([answer("")], "The model returned no text.", True, id="llm-22"),
        pytest.param(
            [call(("c", "look", '{"name": "x"}')), answer(""), answer("")],
            "The model returned no text.",
            True,
            id="llm-22: asked about once",
        ),
        pytest.param([BudgetSpent("5 USD are spent")], "5 USD are spent", True, id="money"),
        pytest.param([ModelUnavailable("no key")], "now: no key", True, id="no model"),
        pytest.param([ContextTooLong("by 9")], "too long for the model: by 9", True, id="llm-30"),
        pytest.param([BAD] * 2, "/new starts another one.", True, id="mending ends"),
    ],
)
async def test_how_a_turn_ends(steps: list[Completed], text: str, failed: bool) -> None:
    """Each step takes one request; calls run only if the model stopped for them."""
    scene = Scene(*steps)

    end = await scene.finish()

    assert end.text.endswith(text)
    assert end.failed is failed
    assert len(scene.model.asked) == len(steps)
    assert scene.effects.done in ([], ["look x"])
    assert scene.model.asked[-1].max_tokens == (2000 if CUT in steps else None)


async def test_llm_17_a_full_window_drops_old_history() -> None:
    scene = Scene(answer("old answer"))
    await scene.finish()
    scene.apply(Received("b", "more", "me", ROUTE, 0.0), TurnStarted("t2", ("b",), 1, "more"))
    no_summary = answer("no summary")
    scene.model.steps = [answer("", "window"), *(no_summary,) * 3, answer("done")]

    end = await scene.run()

    assert end.text == "done"
    assert Human("hello") not in scene.model.asked[-1].messages
    assert scene.model.asked[-1].messages[-1] == Human("more")


async def test_llm_18_a_refused_turn_leaves_the_history() -> None:
    scene = Scene(answer("first"))
    await scene.finish()
    scene.apply(Received("b", "bad", "me", ROUTE, 0.0), TurnStarted("t2", ("b",), 1, "bad"))
    scene.model.steps = [answer("partial", "refused", "cyber")]

    end = await scene.run()
    scene.apply(*end.entries, Replied("t2", "t2", ("b",), ROUTE, end.text))

    assert end.text == "The model declined to answer this (cyber)."
    assert [e for e in end.entries if isinstance(e, Rewound)]
    assert [type(m) for m in scene.session.messages] == [Human, Assistant]


async def test_llm_43_a_loop_of_rounds_is_stopped() -> None:
    rounds = [call((f"c{n}", "look", f'{{"name": "{n}"}}')) for n in range(3)]
    scene = Scene(*rounds)

    end = await scene.finish(max_rounds=3)

    assert end.failed
    assert "3 rounds" in end.text
    receipts = [e for e in scene.entries if type(e).__name__ == "CallEnded"]
    assert activity(receipts) == "— What I actually did —\n✓ looked at 3 things"  # type: ignore[arg-type]


async def test_the_model_is_reminded_of_the_receipts() -> None:
    rounds = [call((f"c{n}", "act", f'{{"name": "{n}"}}')) for n in range(3)]
    scene = Scene(*rounds, answer("done"))

    await scene.finish()

    notices = [[m.text for m in r.messages if isinstance(m, Notice)] for r in scene.model.asked]
    assert [len(told) for told in notices] == [0, 1, 2, 3]
    for n, told in enumerate(notices[-1]):  # each tells what is new, so the others stay cached
        assert told == f"The reader will see these records below your answer:\n✓ act {n}"


def call_look(number: int, begin: int = 0) -> Completion:
    numbers = range(begin, begin + number)
    return call(*((f"c{n}", "look", f'{{"name": "{n}"}}') for n in numbers), text="I look.")


async def test_excess_calls_in_a_response_are_refused() -> None:
    """Model and person learn of the other calls; the person also after a crash."""
    scene = Scene(call_look(MAX_CALLS + 30), answer("enough"))

    await scene.finish()

    assert set(scene.effects.done) == {f"look {n}" for n in range(MAX_CALLS)}
    assert len(scene.results) == MAX_CALLS
    told = scene.model.asked[-1].messages[-1]
    assert isinstance(told, Notice)
    assert f"Only the first {MAX_CALLS} of" in told.text
    said = scene.model.asked[-1].messages[1]
    assert isinstance(said, Assistant)
    assert said.text == "I look."
    assert len(said.calls) == MAX_CALLS
    turn = Scene(call_look(MAX_CALLS + 30), call_look(1, 100), answer("enough"))
    await turn.run()
    assert turn.session.turn is not None
    assert turn.session.turn.left_out == 30


async def test_a_turn_limits_its_calls() -> None:
    """The limit applies within the last response and after a restart."""
    scene = Scene(call_look(5), call_look(5, 5), answer("not asked for"))

    end = await scene.run(max_calls=7)

    assert set(scene.effects.done) == {f"look {n}" for n in range(7)}
    assert end.failed
    assert "7 tool calls" in end.text
    assert len(scene.model.asked) == 2
    again = await scene.run(max_calls=7)
    assert again.failed
    assert len(scene.model.asked) == 2


# --- failures of the model ------------------------------------------------------------------------


async def test_llm_28_to_36_a_rejected_history_is_repaired_once() -> None:
    scene = Scene(answer("first"))
    await scene.finish()
    scene.apply(Received("b", "next", "me", ROUTE, 0.0), TurnStarted("t2", ("b",), 1, "next"))
    bad = BadHistory("messages.1 is bad")
    scene.model.steps = [bad, answer("better")]

    end = await scene.run()

    assert end.text == "better"
    again = scene.model.asked[-1]
    assert [m.codec for m in again.messages if isinstance(m, Assistant)] == [""]
    assert Human("hello") in again.messages


async def test_a_hanging_model_times_out() -> None:
    async def hang(request: Complete) -> Completed:
        await trio.sleep_forever()
        raise AssertionError

    scene = Scene()
    scene.model.steps = [hang]

    end = await scene.run(model_deadline=30)

    assert end.failed
    assert "30 s" in end.text


# --- steering -------------------------------------------------------------------------------------


async def test_a_message_joins_after_the_tools() -> None:
    scene = Scene(call(("c", "hang", "{}")), answer("both"))

    async with trio.open_nursery() as nursery:

        async def interrupt() -> None:
            await scene.effects.hang.wait()
            scene.say("b", "and this")

        nursery.start_soon(interrupt)
        await scene.run()

    last: Sequence[object] = scene.model.asked[-1].messages
    assert isinstance(last[-3], Results)
    assert isinstance(last[-2], Notice)
    assert last[-1] == Human("[Thursday 1970-01-01 00:00 UTC]\nand this")


@pytest.mark.parametrize(("by", "ruling"), [("tg:1", "denied tg:1"), ("", "")])
def test_an_expired_approval_is_no_denial(by: str, ruling: str) -> None:
    """The same if there was no space for a question."""
    call = OpenCall("c", ToolCall("c", "act", "{}"))
    call.decided = CallDecided("t", "c", "plan", "denied", by)
    assert call.ruling == ruling
