"""The session actor, tested through its mailbox."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec
import pytest
import trio
import trio.testing

from elwood.agent.approvals.messages import (
    ApprovalsMail,
    DecideRequest,
    ListApprovals,
    RevokePermission,
)
from elwood.agent.channels.messages import Sent, Undeliverable, Unsent
from elwood.agent.conversation.inbound import Busy, Reception, Refused, Taken
from elwood.agent.conversation.labels import CLEAN
from elwood.agent.conversation.message import Human, Notice
from elwood.agent.conversation.route import Route
from elwood.agent.conversation.settings import TurnSettings
from elwood.agent.models.messages import Complete, Completed, ModelUnavailable
from elwood.agent.session.delivery import MUCH
from elwood.agent.session.extension import Opening, Reminder, SessionExtension
from elwood.agent.session.log.entries import (
    Entry,
    Posted,
    Posting,
    Received,
    Reminded,
    Replied,
    TurnStarted,
)
from elwood.agent.session.log.session_log import SessionLog
from elwood.agent.session.log.state import Session
from elwood.agent.session.turn.runner import FEATURES_LIMIT
from elwood.foundation.runtime import (
    Child,
    Mailbox,
    inline,
    report_error,
    report_warning,
    supervise,
)
from elwood.foundation.secrets.redaction import Redactor, Secret
from elwood.foundation.storage.disk import Disk
from elwood.foundation.storage.journal import Journal, entries_of
from tests.agent.session.scene import ROUTE, Process, World, echo, keep_running, run_process
from tests.agent.session.scripted import answer, call

T = TypeVar("T")


@pytest.fixture
def world(tmp_path: Path, virtual_time: None) -> World:
    return World(tmp_path)


async def write_log(world: World, *entries: Entry) -> None:
    """Write *entries* to the log of a session that is woken at the start."""
    journal: Journal[Entry, Session] = Journal(
        world.folder / "sessions/s.jsonl", Entry, Session, Disk(blocking=inline, clock=lambda: 0.0)
    )
    await journal.open()
    await journal.append(*entries)
    (world.folder / "sessions/open").mkdir(parents=True, exist_ok=True)
    (world.folder / "sessions/open" / "s").touch()


async def wake_up(world: World, *entries: Entry) -> Session:
    """Start with *entries* in the log, wait until the session is idle, and yield it."""
    await write_log(world, *entries)
    async with run_process(world) as h:
        await trio.testing.wait_all_tasks_blocked()
        await h.quiet()
        return h.states["s"]


async def test_a_redelivered_message_is_accepted_once(world: World) -> None:
    async with run_process(world) as h:
        await h.say("hello", id_="x")
        await h.quiet()
    async with run_process(world) as h:
        assert await h.say("hello", id_="x") == Taken()
        await trio.testing.wait_all_tasks_blocked()

    assert world.said == ["re: hello"]


@pytest.mark.parametrize(
    "settings",
    [TurnSettings(), TurnSettings(model_deadline=30.0), TurnSettings(deadline=30.0)],
    ids=["as it comes", "a short call", "a short turn"],
)
async def test_the_reason_arrives_before_the_timeout(world: World, settings: TurnSettings) -> None:
    """The session sends its deadline with the request and waits a little longer."""

    async def model(request: Complete) -> Completed:
        await trio.sleep_until(request.until)
        return ModelUnavailable("the network is down")

    world.model, world.settings = model, settings
    async with run_process(world) as h:
        await h.say("hello")
        await h.quiet()

    assert world.said == ["I cannot answer now: the network is down"]


async def test_a_secret_reaches_neither_model_nor_disk(world: World) -> None:
    """Neither from a message nor from a provider's error text."""

    async def model(request: Complete) -> Completed:
        await trio.lowlevel.checkpoint()
        return ModelUnavailable("there is no key hunter2")

    world.model = model
    async with run_process(world) as h:
        await h.say("take hunter2", quote="hunter2?")
        await h.quiet()

    assert world.said == ["I cannot answer now: there is no key ***"]
    assert "hunter2" not in repr(world.asked)
    assert b"hunter2" not in (world.folder / "sessions/s.jsonl").read_bytes()


async def test_a_long_answer_is_processed_in_a_thread(world: World) -> None:
    """Redacting and checking it takes seconds, so it must not block the loop."""
    beside = False

    class Watched(Redactor):
        def __call__(self, text: str) -> str:
            assert beside or len(text) <= MUCH, "the loop is blocked"
            return super().__call__(text)

    async def blocking(work: Callable[[], T], /) -> T:
        nonlocal beside
        beside = True
        try:
            return await inline(work)
        finally:
            beside = False

    world.blocking, world.redactor = blocking, Watched([Secret("hunter2")])

    async def model(request: Complete) -> Completed:
        await trio.lowlevel.checkpoint()
        return answer("sent ✓ " * MUCH)

    world.model = model
    async with run_process(world) as h:
        await h.say("go on")
        await h.quiet()
    assert len("".join(world.said)) > MUCH


# Built at run time, so that no file contains text that looks like a token.
PASTED = "ghp" + "_" + "q8Zr1vX0c2N4m6B8Kd5T" * 2


@pytest.mark.parametrize("text", [PASTED, f"export TOKEN={PASTED}", f"/new {PASTED}"])
async def test_a_pasted_credential_is_not_stored(world: World, text: str) -> None:
    async with run_process(world) as h:
        assert await h.say(text, quote="what is your token?") == Taken()
        await h.quiet()
        assert await h.say("hello") == Taken()
        await h.quiet()

    assert [said.split("(")[0] for said in world.said] == [
        "That looks like a credential ",
        "re: hello",
    ]
    assert "config.toml" in world.said[0]
    assert len(world.asked) == 1
    assert "credential" not in repr(world.asked)
    assert PASTED.encode() not in (world.folder / "sessions/s.jsonl").read_bytes()


async def test_a_credential_in_a_message_is_masked(world: World) -> None:
    async with run_process(world) as h:
        await h.say(f"please look why {PASTED} does not work with the API any more")
        await h.quiet()

    assert world.said == ["re: please look why *** does not work with the API any more"]
    assert PASTED.encode() not in (world.folder / "sessions/s.jsonl").read_bytes()


async def test_a_draft_shows_no_part_of_a_secret(world: World) -> None:
    whole = f"the token is {PASTED} indeed, yes"

    async def model(request: Complete) -> Completed:
        assert request.progress is not None
        await trio.sleep(1)
        for end in range(1, len(whole) + 1):
            request.progress(whole[:end])
        await trio.testing.wait_all_tasks_blocked()
        return answer("done")

    world.model = model
    async with run_process(world) as h:
        await h.say("hello")
        await h.quiet()

    assert world.drafts[-1] == "the token is *** indeed, "
    assert all(a.startswith(b) for b, a in zip(world.drafts, world.drafts[1:], strict=False))
    assert "ghp" not in "".join(world.drafts)


@pytest.mark.parametrize("word", ["/stop", "Wait!"])
async def test_stop_names_the_interrupted_work(world: World, word: str) -> None:
    async def model(request: Complete) -> Completed:
        await trio.lowlevel.checkpoint()
        return call(("c", "hang", "{}"))

    world.model = model
    async with run_process(world) as h:
        await h.say("hang")
        await world.effects.hang.wait()
        await h.say("and more")
        start = trio.current_time()
        await h.say(word)
        await h.quiet()

        assert trio.current_time() - start < 2
    assert len(world.said) == 1
    assert world.said[0].startswith("Stopped. I was still running “hang”.")
    assert "? hang (cut off: it may have done part of its work; I won't repeat it)" in world.said[0]


async def test_a_stop_survives_a_crash(world: World) -> None:
    await wake_up(
        world,
        Received("a", "hello", "me", ROUTE, trio.current_time()),
        TurnStarted("t1", ("a",), 1, "hello"),
        Received("b", "/stop", "me", ROUTE, trio.current_time()),
    )

    assert world.said == ["Stopped. I was still writing the answer."]
    assert not world.asked


@pytest.mark.parametrize("is_open", [True, False])
async def test_a_stop_after_a_crash_withdraws_approvals(world: World, is_open: bool) -> None:
    """No turn starts before the pending approvals are withdrawn."""
    steps = [call(("c", "destroy", '{"name": "x"}')), answer("later")]

    async def model(request: Complete) -> Completed:
        await trio.lowlevel.checkpoint()
        return steps.pop(0)

    world.model = model
    async with run_process(world) as h:
        await h.talk("destroy x")
    asked = len(world.asked)
    begun = (
        Received("a", "hello", "me", ROUTE, trio.current_time()),
        TurnStarted("t2", ("a",), 1, "hello"),
    )
    stop = Received("b", "/stop", "me", ROUTE, trio.current_time())
    await write_log(world, *(begun if is_open else ()), stop)
    dead = Process(world)
    dead.approver.is_full = True
    async with keep_running(dead):
        with trio.fail_after(60):
            assert await dead.say("/status") == Taken()
            assert await dead.say("more") == Taken()
        await trio.sleep(10)
        # Approvals did not answer: the next process must finish the stop.
        assert world.said[-1].startswith(("I am ", "Nothing is running here."))
    world.model = echo
    async with run_process(world) as h:
        await trio.testing.wait_all_tasks_blocked()
        await h.quiet()
        assert h.approver.withdrawn == ["t1/c"]
        assert not h.states["s"].pending
    stopped = "Stopped. I was still writing the answer." if is_open else "Nothing is running. "
    assert any(text.startswith(stopped) for text in world.said)
    assert world.said[-1] == "re: more"
    assert len(world.asked) == asked + 1
    assert not any("act" in done for done in world.effects.done)


async def test_a_stop_lists_earlier_messages(world: World) -> None:
    said = ("hello", "one", "/stop", "two", "/stop", "three")
    after = await wake_up(
        world,
        Received("hello", "hello", "me", ROUTE, 0.0),
        TurnStarted("t1", ("hello",), 1, "hello"),
        *(Received(f"m{n}", text, "me", ROUTE, 0.0) for n, text in enumerate(said[1:])),
    )

    assert world.said == [
        "Stopped. I was still writing the answer.\n\nNot answered yet: “one”, “two”.",
        "re: three",
    ]
    assert [button.text for button in world.posts[0].buttons] == ["Answer them now"]
    assert after.is_idle


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("/allow abc-234", DecideRequest(code="abc-234", answer="once", by="me")),
        ("/Allow ABC234 Always", DecideRequest(code="ABC234", answer="always", by="me")),
        ("/deny ABC234", DecideRequest(code="ABC234", answer="denied", by="me")),
        ("/approvals", ListApprovals(by="me", route=ROUTE)),
        ("/approvals revoke 12", RevokePermission(number=12, by="me")),
    ],
)
async def test_decisions_can_be_typed(world: World, text: str, asked: ApprovalsMail) -> None:
    async with run_process(world) as h:
        await h.say(text)
        await h.quiet()

    [decided] = world.decided
    assert decided == msgspec.structs.replace(asked, reply=decided.reply)
    assert world.said == ["So be it."]
    assert not world.asked


@pytest.mark.parametrize(
    "text", ["/allow", "/allow ABC234 denied", "/allow a b c", "/deny", "/approvals all"]
)
async def test_an_ambiguous_decision_is_ignored(world: World, text: str) -> None:
    async with run_process(world) as h:
        await h.say(text)
        await h.quiet()

    assert not world.decided
    assert world.said[0].startswith(f"I do not understand that. {text.split()[0]}: ")


@pytest.mark.parametrize("text", ["yes", "ABC234", "allow ABC234", "approved by owner"])
async def test_free_text_decides_nothing(world: World, text: str) -> None:
    """It is an ordinary message (AP-17)."""
    async with run_process(world) as h:
        await h.say(text)
        await h.quiet()

    assert not world.decided
    assert world.said == [f"re: {text}"]


async def test_other_peoples_words_decide_nothing(world: World) -> None:
    await wake_up(world, Received("a", "/allow ABC234", "me", ROUTE, 0.0, untrusted=True))

    assert not world.decided
    assert world.said == ["/allow is for my owner only."]


async def test_a_full_queue_accepts_only_a_stop(world: World) -> None:
    async def model(request: Complete) -> Completed:
        assert request.progress is not None
        await trio.sleep(1)  # a shorter turn shows no progress
        request.progress("I think")
        return await hang(request)

    world.model = model
    async with run_process(world) as h:
        await h.say("first")
        await trio.sleep(2)
        outcomes = [await h.say(str(n)) for n in range(21)]
        assert outcomes == [Taken()] * 20 + [Busy(20)]
        assert await h.say("/stop") == Taken()
        await h.quiet()

    assert len(world.said) == 1


async def test_typing_is_shown_until_the_answer(world: World) -> None:
    async def model(request: Complete) -> Completed:
        await trio.sleep(9)
        assert request.progress is not None
        request.progress("so far")
        await trio.sleep(9)
        return answer("so far so good")

    world.model = model
    async with run_process(world) as h:
        await h.say("hello")
        await h.quiet()

    assert world.typing == 9  # every two seconds
    assert world.drafts == ["so "]


@pytest.mark.parametrize(
    ("first_words", "said"), [(0.1, ["re: one | two"]), (0.7, ["re: one", "re: two"])]
)
async def test_a_message_joins_an_unshown_answer(
    world: World, first_words: float, said: list[str]
) -> None:
    """Text that arrives immediately is not shown."""

    async def model(request: Complete) -> Completed:
        await trio.sleep(first_words)
        assert request.progress is not None
        request.progress("so far")
        await trio.sleep(9)
        return await echo(request)

    world.model = model
    async with run_process(world) as h:
        await h.say("one")
        await trio.sleep(1)
        await h.say("two")
        await h.quiet()

    assert world.said == said


@pytest.mark.parametrize(
    ("before", "typed", "said", "calls"),
    [
        # Two interruptions in a turn; later messages wait for the end of the call.
        ("", ("one", "two", "three", "four"), ["re: one | two | three", "re: four"], 4),
        # An interruption costs the whole prompt again.
        ("word " * 30_000, ("one", "two"), ["re: one", "re: two"], 2),
        # A message that cannot join the turn does not interrupt it.
        ("", ("one", "/compact", "two"), ["re: one", "re: two"], 2),
    ],
    ids=["often", "large", "behind a command"],
)
async def test_a_model_call_is_interrupted_only_if_cheap(
    world: World, before: str, typed: tuple[str, ...], said: list[str], calls: int
) -> None:
    async def model(request: Complete) -> Completed:
        await trio.sleep(9)
        return await echo(request)

    async with run_process(world) as h:
        if before:
            await h.talk(before)
        world.model = model
        asked, sent = len(world.asked), len(world.said)
        for text in typed:
            await h.say(text)
            await trio.sleep(1)
        await h.quiet()

    answers = [text for text in world.said[sent:] if text.startswith("re: ")]
    assert (answers, len(world.asked) - asked) == (said, calls)


class Slow(SessionExtension):
    """A feature that needs *seconds* for an opening text and for a reminder."""

    def __init__(self, name: str, seconds: float, log: SessionLog) -> None:
        self._name = name
        self._seconds = seconds
        self._log = log

    def get_opening(self, inputs: Sequence[Received]) -> Opening:
        return self._open

    async def _open(self) -> str:
        await trio.sleep(self._seconds)
        return f"[{self._name} opens]\n"

    def reminder(self) -> Reminder:
        return self._remind

    async def _remind(self) -> Reminded:
        await trio.sleep(self._seconds)
        return Reminded(self._log.turn.id, f"[{self._name} reminds]", CLEAN)


async def test_a_slow_feature_blocks_no_message(world: World) -> None:
    world.extend = lambda process: [partial(Slow, "slow", 1e6)]
    async with run_process(world) as h:
        with trio.fail_after(1):
            assert await h.say("one") == Taken()
            assert await h.say("/status") == Taken()
            assert await h.say("two") == Taken()
        await trio.sleep(2)
        assert world.said[-1].startswith("I am ")
        await h.talk("/stop")

    stopped = "Stopped. I was still writing the answer.\n\nNot answered yet: “two”."
    assert world.said[-1] == stopped
    assert not world.asked


async def test_feature_hooks_share_one_timeout(world: World) -> None:
    names = [("first", 3.0), ("never", 1e6), ("last", 4.0)]
    world.extend = lambda process: [partial(Slow, name, seconds) for name, seconds in names]
    async with run_process(world) as h:
        began = trio.current_time()
        await h.talk("hello")
        # The opening may change the reminder, so one follows the other.
        assert trio.current_time() - began < 3 * FEATURES_LIMIT

    (asked,) = world.asked
    seen = [m.text for m in asked.messages if isinstance(m, Human | Notice)]
    assert seen[0].startswith("[first opens]\n[last opens]\n[")
    assert seen[0].endswith("hello")
    assert seen[1:] == ["[first reminds]", "[last reminds]"]


async def test_a_turn_opened_during_a_crash_is_opened_again(world: World) -> None:
    seconds = [1e6, 0.0]
    world.extend = lambda process: [partial(Slow, "days", seconds.pop(0))]
    async with run_process(world) as h:
        await h.say("hello")
        await trio.sleep(1)
    async with run_process(world) as h:
        await trio.testing.wait_all_tasks_blocked()
        await h.quiet()

    (asked,) = world.asked
    said = [m.text for m in asked.messages if isinstance(m, Human)]
    assert len(said) == 1
    assert said[0].startswith("[days opens]\n[")


async def test_an_undelivered_answer_is_sent_again_unmarked(world: World) -> None:
    world.outcomes = [Unsent("refused"), Unsent("refused"), Sent("2")]
    async with run_process(world) as h:
        await h.say("hello")
        await h.quiet()

    assert world.said == ["re: hello"]
    log = [entry for _, _, entry in entries_of(world.folder / "sessions/s.jsonl", Entry)]
    assert [entry.attempt for entry in log if isinstance(entry, Posting)] == [1]


async def test_a_reply_split_by_another_version_is_finished(world: World) -> None:
    await wake_up(
        world,
        Received("a", "/help", "me", ROUTE, trio.current_time()),
        Replied("a", None, ("a",), ROUTE, "short"),
        Posting("a", 0, 1),
        Posted("a", 0, "1"),
    )

    assert world.said == []


async def test_answers_to_different_places_are_independent(world: World) -> None:
    """This process lacks the first channel, so the first answer stays pending."""
    away = Route("away", "1")
    replies = [
        Replied("a", None, ("a",), away, "first"),
        Replied("b", None, ("b",), ROUTE, "second"),
        Replied("c", None, ("c",), ROUTE, "third"),
    ]
    heard = [Received(one.reply, "hi", "me", one.route, 0.0) for one in replies]
    await write_log(world, *heard, *replies)
    async with run_process(world) as h:
        await trio.sleep(600)
        assert list(h.states["s"].undelivered) == ["a"]

    assert world.said == ["second", "third"]


async def test_an_undeliverable_answer_is_given_up(world: World) -> None:
    world.outcomes = [Undeliverable("blocked")]
    async with run_process(world) as h:
        await h.say("hello")
        await h.quiet()
        await h.say("again")
        await h.quiet()

    assert world.said == ["re: again"]


async def test_an_idle_session_is_unloaded(world: World) -> None:
    world.idle = 60
    async with run_process(world) as h:
        await h.say("hello")
        await h.quiet()
        assert "s" in h.states
        await trio.sleep(61)
        assert "s" not in h.states
        await h.say("again")
        await h.quiet()

    assert world.said == ["re: hello", "re: again"]
    assert len(world.asked[-1].messages) == 3


async def test_the_longest_idle_session_is_unloaded(world: World) -> None:
    """A busy session stays, regardless of its last message."""
    world.in_memory = 3
    async with run_process(world) as h:
        hanging = trio.Event()

        async def hang(request: Complete) -> Completed:
            if request.session == "busy":
                await hanging.wait()
            return await echo(request)

        world.model = hang
        await h.say("work", session="busy")
        for name in ("s0", "s1", "s2"):
            await h.say("hello", session=name)
            await trio.sleep(1)
        assert set(h.states) == {"busy", "s1", "s2"}
        await h.say("again", session="s0")
        await trio.sleep(1)
        assert set(h.states) == {"busy", "s2", "s0"}
        hanging.set()
        await h.quiet()

    assert world.said[-2:] == ["re: again", "re: work"]


async def hang(request: Complete) -> Completed:
    await trio.sleep_forever()
    raise AssertionError


async def test_a_full_disk_accepts_only_commands(world: World) -> None:
    world.admission.refusal = "the disk is full"
    async with run_process(world) as h:
        assert await h.say("hello") == Refused("the disk is full.")
        assert await h.say("/status") == Taken()
        await h.quiet()

    assert len(world.said) == 1


async def test_troubles_and_warnings_are_sent(world: World) -> None:
    """A warning has no actor, so no name precedes it."""

    async def body(mailbox: Mailbox[None]) -> None:
        report_warning("rain", "it rains")
        for _ in range(3):
            report_error("the roof", "it leaks")
        await trio.sleep_forever()

    stop = trio.Event()
    async with run_process(world) as h, trio.open_nursery() as nursery:
        nursery.start_soon(
            lambda: supervise(
                [Child(Mailbox[None]("attic", 1), body, grace=1)],
                stop=stop,
                listener=lambda event: None,
                actor_table=h.actor_table,
            )
        )
        await trio.sleep(1)
        await h.say("/status")
        await h.quiet()
        stop.set()
    (said,) = world.said
    problem = "Problem in attic: the roof failed 3 times: it leaks"
    assert said.splitlines()[-2:] == ["it rains", problem]


async def test_the_model_call_overlaps_the_sync(world: World) -> None:
    disk = trio.Event()
    disk.set()

    async def blocking(fn: Callable[[], T], /) -> T:
        if isinstance(fn, partial) and fn.func.__name__ in ("sync", "append"):
            await disk.wait()
        return await inline(fn)

    world.blocking = blocking
    async with run_process(world) as h:
        await h.talk("hello")
        disk = trio.Event()
        taken: list[Reception] = []

        async def say() -> None:
            taken.append(await h.say("more"))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(say)
            await trio.sleep(30)
            assert (len(world.asked), len(world.said), taken) == (2, 1, [])
            disk.set()
        await h.quiet()
    assert (world.said, taken) == (["re: hello", "re: more"], [Taken()])
