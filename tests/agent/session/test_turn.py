"""What a turn does about everything a model may say."""

import itertools
from collections.abc import Sequence
from pathlib import Path

import pytest
import trio

from elwood.agent.conversation.message import Assistant, Completion, Human, Notice, Prompt, Results
from elwood.agent.conversation.route import Route
from elwood.agent.conversation.settings import TurnSettings
from elwood.agent.models.messages import (
    BadHistory,
    BudgetSpent,
    Complete,
    Completed,
    ContextTooLong,
    ModelUnavailable,
)
from elwood.agent.session.log.entries import (
    CallEnded,
    CallStarted,
    Entry,
    Noticed,
    Prompted,
    Received,
    Replied,
    Rewound,
    Said,
    TurnStarted,
)
from elwood.agent.session.log.state import Session
from elwood.agent.session.reading.receipts import activity
from elwood.agent.session.turn.inputs import OwnerClock
from elwood.agent.session.turn.turn import TurnResult, TurnRun
from elwood.foundation.runtime import ActorCrashed, Signal
from elwood.foundation.secrets.redaction import Redactor, Secret
from elwood.foundation.storage.disk import DiskFull
from tests.agent.session.gates import BareLog, BareModel, Shown, gate_for
from tests.agent.session.scripted import Effects, ScriptedModel, answer, call

ROUTE = Route("console")
PROMPT = Prompt("be good")


class Scene:
    """One session with an open turn, its log in memory, and a scripted model."""

    def __init__(self, *steps: Completed, private: bool = False, dry_run: bool = False) -> None:
        self.session = Session()
        self.entries: list[Entry] = []
        self.model = ScriptedModel(*steps)
        self.effects = Effects()
        self.shown: list[str] = []
        self.private = private
        self.hint = ""
        self.arrivals = Signal()
        self.full: type[Entry] | None = None
        self._seq = itertools.count(1)
        self.gate = gate_for(
            lambda: self.session,
            self.effects.tools(),
            self.record,
            redactor=Redactor([Secret("hunter2")]),
            dry_run=dry_run,
        )
        self.apply(Received("a", "hello", "me", ROUTE, 0.0))
        self.apply(TurnStarted("t1", ("a",), 1, "hello"))

    def apply(self, *entries: Entry) -> None:
        for entry in entries:
            self.entries.append(entry)
            self.session.apply(next(self._seq), 0.0, entry)

    async def record(self, *entries: Entry, last_words: bool = False) -> None:
        await trio.lowlevel.checkpoint()
        if self.full is not None and isinstance(entries[0], self.full) and not last_words:
            raise DiskFull(Path("s.jsonl"))
        self.apply(*entries)

    def say(self, id_: str, text: str) -> None:
        self.apply(Received(id_, text, "me", ROUTE, 0.0))
        self.arrivals.give()

    def show(self, text: str) -> bool:
        self.shown.append(text)
        return self.private

    async def run(self, **settings: int) -> TurnResult:
        run = TurnRun(
            log=BareLog("s", lambda: self.session, self.record),
            gate=self.gate,
            model=BareModel(self.model),
            prompt=PROMPT,
            hint=self.hint,
            max_tokens=1000,
            settings=TurnSettings(**settings),
            clock=OwnerClock(lambda: 0.0),
            arrivals=self.arrivals,
            showing=Shown(self.show),
        )
        return await run.run()

    async def finish(self, **settings: int) -> TurnResult:
        """Run, and close the turn as the session does."""
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


async def test_a_plain_answer() -> None:
    scene = Scene(answer("hi there"))

    end = await scene.finish()

    assert end.text == "hi there"
    assert not end.failed
    assert [type(m) for m in scene.session.messages] == [Human, Assistant]
    assert scene.model.asked[0].messages == (Human("hello"),)


async def test_the_prompt_is_recorded_once_and_sent_as_recorded(autojump_clock: object) -> None:
    scene = Scene(call(("c", "look", '{"name": "x"}')), answer("done"))

    await scene.finish()

    assert [e for e in scene.entries if isinstance(e, Prompted)] == [Prompted(PROMPT)]
    assert {request.prompt for request in scene.model.asked} == {PROMPT}


async def test_a_hint_is_told_once_behind_the_message_also_after_a_crash() -> None:
    scene = Scene(answer("done"))
    scene.hint = "Skills that may fit: pdf."
    scene.apply(Noticed("t1", scene.hint))  # the process died when this was written

    await scene.finish()

    assert scene.model.asked[0].messages == (Human("hello"), Notice(scene.hint))
    assert scene.model.asked[0].prompt == PROMPT
    scene = Scene(answer("done"))
    scene.hint = "Skills that may fit: pdf."
    await scene.finish()
    assert scene.model.asked[0].messages == (Human("hello"), Notice(scene.hint))


async def test_a_call_is_recorded_before_it_runs_and_its_result_goes_back(
    autojump_clock: object,
) -> None:
    scene = Scene(call(("c", "act", '{"name": "x"}')), answer("done"))

    await scene.finish()

    names = [type(entry).__name__ for entry in scene.entries]
    assert names[3:7] == ["Said", "CallStarted", "CallEnded", "Said"]
    assert scene.effects.done == ["act x"]
    assert scene.results == ["acted on x"]


async def test_reading_calls_run_side_by_side_and_others_in_order(autojump_clock: object) -> None:
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
        ("fail", "{}", "there is nothing to do it with"),
        ("crash", "{}", "crash broke (ZeroDivisionError)"),
    ],
)
async def test_what_goes_wrong_with_a_call_is_a_result_for_the_model(
    name: str, arguments: str, expected: str, autojump_clock: object
) -> None:
    scene = Scene(call(("c", name, arguments)), answer("I see"))

    end = await scene.finish()

    assert end.text == "I see"
    assert expected in scene.results[0]
    assert scene.effects.done == []


async def test_a_slow_tool_of_unknown_effect_is_ended_and_said_to_be_unknown(
    autojump_clock: object,
) -> None:
    scene = Scene(call(("c", "hang", "{}")), answer("hm"))

    await scene.finish()

    turn_receipts = [e for e in scene.entries if type(e).__name__ == "CallEnded"]
    assert [e.outcome for e in turn_receipts] == ["unknown"]  # type: ignore[union-attr]
    assert "may or may not have happened" in scene.results[0]


async def test_secrets_do_not_come_out_of_a_tool(autojump_clock: object) -> None:
    scene = Scene(call(("c", "look", '{"name": "hunter2"}')), answer("ok"))

    await scene.finish()

    assert scene.results == ["saw ***"]
    started = [e for e in scene.entries if isinstance(e, CallStarted)]
    assert started[0].target == "***"


async def test_a_dry_run_changes_nothing_and_is_recorded_so(autojump_clock: object) -> None:
    reading, acting = ("c1", "look", '{"name": "x"}'), ("c2", "act", '{"name": "y"}')
    destroying = ("c3", "destroy", '{"name": "z"}')
    scene = Scene(call(reading, acting, destroying), answer("ok"), dry_run=True)

    await scene.finish()

    assert scene.effects.done == ["look x"]
    assert scene.results == ["saw x", *["dry run: nothing was done"] * 2]
    ended = [entry for entry in scene.entries if isinstance(entry, CallEnded)]
    assert [entry.outcome for entry in ended] == ["ok", "dry run", "dry run"]


# --- what the model's stop reasons lead to --------------------------------------------------------


async def test_llm_15_a_cut_call_is_never_run_and_repeated_with_a_higher_limit_once() -> None:
    cut = call(("c", "act", '{"name": "x"}'), stop="cut")
    scene = Scene(cut, cut)

    end = await scene.finish()

    assert end.failed
    assert "nothing was run" in end.text
    assert [request.max_tokens for request in scene.model.asked] == [None, 2000]
    assert scene.effects.done == []


async def test_llm_16_a_cut_answer_is_continued_twice_and_then_marked() -> None:
    scene = Scene(*(answer(text, "cut") for text in ("one ", "two ", "three")))

    end = await scene.finish()

    assert end.text == "one two three\n\n[cut off: the answer was too long]"
    assert isinstance(scene.model.asked[1].messages[-1], Notice)


async def test_llm_17_a_full_window_leaves_older_history_out() -> None:
    scene = Scene(answer("old answer"))
    await scene.finish()
    scene.apply(Received("b", "more", "me", ROUTE, 0.0), TurnStarted("t2", ("b",), 1, "more"))
    scene.model.steps = [answer("", "window"), answer("no summary"), answer("done")]

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


async def test_llm_19_a_paused_loop_is_resumed_five_times() -> None:
    scene = Scene(*(answer(f"p{n}", "paused") for n in range(6)))

    end = await scene.finish()

    assert end.failed
    assert len(scene.model.asked) == 6


@pytest.mark.parametrize("stop", ["end", "unknown"])
async def test_llm_21_calls_in_a_response_that_did_not_stop_for_tools_are_not_run(
    stop: str,
) -> None:
    scene = Scene(call(("c", "act", '{"name": "x"}'), stop=stop, text="hm"))  # type: ignore[arg-type]

    end = await scene.finish()

    assert end.text == "hm"
    assert scene.effects.done == []
    assert all(not m.calls for m in scene.session.messages if isinstance(m, Assistant))


async def test_llm_22_an_empty_end_after_tools_is_asked_about_once(autojump_clock: object) -> None:
    scene = Scene(call(("c", "act", '{"name": "x"}')), answer(""), answer(""))

    end = await scene.finish()

    assert end.text == "The model gave no text."
    assert isinstance(scene.model.asked[2].messages[-1], Notice)


async def test_llm_22_an_empty_end_without_tools_is_never_an_empty_message() -> None:
    assert (await Scene(answer("")).finish()).text


async def test_llm_43_a_loop_of_rounds_is_stopped(autojump_clock: object) -> None:
    rounds = [call((f"c{n}", "look", f'{{"name": "{n}"}}')) for n in range(3)]
    scene = Scene(*rounds)

    end = await scene.finish(max_rounds=3)

    assert end.failed
    assert "3 rounds" in end.text
    receipts = [e for e in scene.entries if type(e).__name__ == "CallEnded"]
    assert activity(receipts) == "— from the records —\n✓ look 0\n✓ look 1\n✓ look 2"  # type: ignore[arg-type]


async def test_the_same_call_over_and_over_is_noticed(autojump_clock: object) -> None:
    scene = Scene(*(call((f"c{n}", "look", '{"name": "x"}')) for n in range(3)), answer("sorry"))

    await scene.finish()

    last = scene.model.asked[-1].messages[-1]
    assert isinstance(last, Notice)
    assert "same call of look" in last.text


# --- failures of the model ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (BudgetSpent("the day's limit of 5 USD is reached"), "the day's limit of 5 USD is reached"),
        (ModelUnavailable("the key was refused", True), "the key was refused"),
    ],
)
async def test_no_answer_of_the_model_is_said(outcome: Completed, expected: str) -> None:
    end = await Scene(outcome).finish()

    assert end.failed
    assert expected in end.text


async def test_llm_30_a_too_long_conversation_that_cannot_be_cut_is_said() -> None:
    end = await Scene(ContextTooLong("200 tokens over")).finish()

    assert end.failed
    assert "too long" in end.text


@pytest.mark.parametrize("problem", ["pairing", "thinking", "image", "other"])
async def test_llm_28_to_36_a_rejected_history_is_mended_and_never_bricks_the_session(
    problem: str,
) -> None:
    scene = Scene(answer("first"))
    await scene.finish()
    scene.apply(Received("b", "next", "me", ROUTE, 0.0), TurnStarted("t2", ("b",), 1, "next"))
    bad = BadHistory(problem, "messages.1 is bad")  # type: ignore[arg-type]
    scene.model.steps = [bad, bad, answer("better")]

    end = await scene.run()

    assert end.text == "better"
    once, twice = scene.model.asked[-2:]
    assert [m.codec for m in once.messages if isinstance(m, Assistant)] == [""]
    assert Human("hello") not in twice.messages


async def test_mending_ends() -> None:
    bad = BadHistory("other", "no")
    scene = Scene(bad, bad, bad)

    end = await scene.finish()

    assert end.failed
    assert len(scene.model.asked) == 3


async def test_a_crash_of_the_models_actor_is_tried_once_more() -> None:
    async def crash(request: Complete) -> Completed:
        await trio.lowlevel.checkpoint()
        raise ActorCrashed("models")

    scene = Scene()
    scene.model.steps = [crash, answer("ok")]
    assert (await scene.run()).text == "ok"

    scene.model.steps = [crash, crash]
    assert (await scene.run()).failed


async def test_a_model_that_hangs_is_left(autojump_clock: object) -> None:
    async def hang(request: Complete) -> Completed:
        await trio.sleep_forever()
        raise AssertionError

    scene = Scene()
    scene.model.steps = [hang]

    end = await scene.run(model_deadline=30)

    assert end.failed
    assert "30 s" in end.text


# --- steering -------------------------------------------------------------------------------------


def streaming(scene: Scene, said: str, *more: tuple[str, str]) -> list[object]:
    async def first(request: Complete) -> Completed:
        assert request.progress is not None
        if said:
            request.progress.send_nowait(said)
        await trio.testing.wait_all_tasks_blocked()
        for id_, text in more:
            scene.say(id_, text)
        await trio.testing.wait_all_tasks_blocked()
        return answer("first answer")

    return [first]


async def test_a_split_paste_is_one_answer() -> None:
    """A message that comes before anything was shown restarts the call with both."""
    scene = Scene(private=True)
    scene.model.steps = [*streaming(scene, "", ("b", "second half")), answer("both")]  # type: ignore[list-item]

    end = await scene.run()

    assert end.text == "both"
    assert scene.model.asked[1].messages == (
        Human("hello"),
        Human("[Thursday 1970-01-01 00:00 UTC]\nsecond half"),
    )
    assert scene.session.waiting == {}


async def test_a_message_after_something_was_shown_waits_for_the_next_turn() -> None:
    scene = Scene(private=True)
    scene.model.steps = streaming(scene, "first", ("b", "late"))  # type: ignore[assignment]

    end = await scene.run()

    assert end.text == "first answer"
    assert list(scene.session.waiting) == ["b"]


async def test_a_message_while_tools_run_joins_at_their_end(autojump_clock: object) -> None:
    scene = Scene(call(("c", "hang", "{}")), answer("both"))

    async with trio.open_nursery() as nursery:

        async def interrupt() -> None:
            await scene.effects.hang.wait()
            scene.say("b", "and this")

        nursery.start_soon(interrupt)
        await scene.run()

    last: Sequence[object] = scene.model.asked[-1].messages
    assert isinstance(last[-2], Results)
    assert last[-1] == Human("[Thursday 1970-01-01 00:00 UTC]\nand this")


# --- after a crash --------------------------------------------------------------------------------


def crashed(*entries: Entry, steps: Sequence[Completion] = ()) -> Scene:
    scene = Scene(*steps)
    scene.apply(*entries, TurnStarted("t1", (), 2, ""))
    return scene


async def test_cp_10_proposed_calls_run_after_a_restart(autojump_clock: object) -> None:
    proposed = call(("c", "act", '{"name": "x"}'))
    scene = crashed(Said("t1", proposed.message, proposed.usage), steps=[answer("ok")])

    await scene.run()

    assert scene.effects.done == ["act x"]


async def test_cp_14_to_16_a_started_call_of_unknown_effect_is_not_repeated_and_told() -> None:
    proposed = call(("c", "act", '{"name": "x"}'))
    scene = crashed(
        Said("t1", proposed.message, proposed.usage),
        CallStarted("t1", "c", "act", "once", "x"),
        steps=[answer("ok")],
    )

    await scene.run()

    assert scene.effects.done == []
    assert "may or may not have happened" in scene.results[0]
    assert scene.session.turn is not None
    assert activity(scene.session.turn.receipts).startswith("— from the records —\n? act x")


async def test_cp_14_a_started_pure_call_runs_again(autojump_clock: object) -> None:
    proposed = call(("c", "look", '{"name": "x"}'))
    scene = crashed(
        Said("t1", proposed.message, proposed.usage),
        CallStarted("t1", "c", "look", "pure", "x"),
        steps=[answer("ok")],
    )

    await scene.run()

    assert scene.results == ["saw x"]


async def test_cp_31_a_full_disk_before_a_call_means_that_it_does_not_run() -> None:
    scene = Scene(call(("c", "act", '{"name": "x"}')), answer("ok"))
    scene.full = CallStarted

    await scene.run()

    assert scene.effects.done == []
    assert "the disk is full" in scene.results[0]
