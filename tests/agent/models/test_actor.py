"""The models actor: waits, fallbacks, budgets and the shared breaker, in virtual time."""

import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import msgspec
import pytest
import trio
from trio.testing import MockClock

from elwood.agent.channels.client import TellOwner
from elwood.agent.channels.messages import OutboxMail, Post, Sent, Unsent
from elwood.agent.conversation.message import Assistant, Completion, Human, Prompt, Text, Usage
from elwood.agent.conversation.route import Route
from elwood.agent.conversation.run import Budget
from elwood.agent.models.actor import Models, UsageBook
from elwood.agent.models.client import ModelFailure, ModelRequest, Provider, Shown
from elwood.agent.models.ledger import Charged, Ledger
from elwood.agent.models.messages import (
    BadHistory,
    BudgetSpent,
    Complete,
    Completed,
    ContextTooLong,
    Delayed,
    ModelsMail,
    ModelUnavailable,
    Spending,
)
from elwood.agent.models.routing import FailureKind, Fault
from elwood.agent.models.settings import Limits, ModelSettings, PriceSettings, RoleSettings
from elwood.foundation.runtime import ActorTable, Address, Child, Mailbox, inline, supervise
from elwood.foundation.storage.disk import Disk
from elwood.foundation.storage.journal import Journal
from tests.journeys.disk import BadDisk
from tests.model_roles import asking

NOON = 1_795_262_400.0  # 2026-11-21 12:00 UTC
PROMPT = Prompt("Be kind.")
OWNER = Route("telegram", chat="1")
ONE = asking("a/m", "a/s", max_tokens=20)
TWO = asking("a/m", "a/s", fallbacks=("b/n",), max_tokens=20)


@pytest.fixture
def clock() -> MockClock:
    """Return a clock that jumps when every task waits."""
    return MockClock(autojump_threshold=0.0)


@attrs.frozen
class Fail:
    """A failure of a scripted provider; if *begun*, after some text."""

    kind: FailureKind
    retry_after: float | None = None
    should_retry: bool | None = None
    begun: bool = False


@attrs.define
class Scripted:
    """A provider without a network, for virtual time. It fails as scripted, then answers.

    Each response takes *took* seconds; a *greedy* one uses the whole limit.
    """

    script: list[Fail] = attrs.field(factory=list)
    otherwise: Fail | None = None
    took: float = 1.0
    greedy: bool = False
    asked: list[tuple[float, str]] = attrs.field(factory=list)
    requests: list[ModelRequest] = attrs.field(factory=list)
    running: int = 0
    most: int = 0
    codec: str = "scripted"

    async def complete(self, request: ModelRequest, show: Callable[[Shown], None]) -> Completion:
        self.asked.append((trio.current_time(), request.model))
        self.requests.append(request)
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            return await self._complete(request, show)
        finally:
            self.running -= 1

    async def _complete(self, request: ModelRequest, show: Callable[[Shown], None]) -> Completion:
        step = self.script.pop(0) if self.script else self.otherwise
        if step is not None and not step.begun:
            await trio.sleep(0.1)
            raise make_failure(step)
        show("")
        await trio.sleep(self.took)
        show("hello")
        if step is not None:
            raise make_failure(step)
        message = Assistant((Text("hello"),), self.codec, request.model, msgspec.Raw(b"[]"))
        usage = Usage(3, request.max_tokens) if self.greedy else Usage(100, 10)
        return Completion(message, "end", usage)


def make_failure(step: Fail) -> ModelFailure:
    return ModelFailure("a", Fault(step.kind, "scripted", step.retry_after, step.should_retry))


@attrs.frozen
class RunningModels:
    """The supervised actor, and values for assertions."""

    models: Address[ModelsMail]
    actor_table: ActorTable
    book: UsageBook
    disk: BadDisk
    told: list[str]
    back: trio.Event

    async def ask(self, session: str = "s", role: str = "default") -> Completed:
        return await self.models.ask(make_request(session, role))

    async def ask_for(self, job: str, budget: Budget, session: str = "s") -> Completed:
        request = msgspec.structs.replace(make_request(session), job=job, budget=budget)
        return await self.models.ask(request)

    def troubles(self) -> dict[str, str]:
        status = self.actor_table.statuses["models"]
        return {trouble.what: trouble.error for trouble in status.troubles.values()}


def make_request(
    session: str = "s", role: str = "default", *, within: float = math.inf
) -> Complete:
    until = trio.current_time() + within
    return Complete(session=session, role=role, prompt=PROMPT, messages=(Human("hi"),), until=until)


@asynccontextmanager
async def run_models(
    folder: Path,
    *,
    settings: ModelSettings = ONE,
    limits: Limits | None = None,
    jitter: float = 0.0,
    in_flight: int = 64,
    is_away: bool = False,
    patience: float = math.inf,
    **providers: Provider,
) -> AsyncIterator[RunningModels]:
    start = trio.current_time()

    def now() -> float:
        return NOON + trio.current_time() - start

    calls = BadDisk()
    disk = Disk(blocking=inline, clock=now, calls=calls)
    journal = Journal[Charged, Ledger](folder / "usage.jsonl", Charged, Ledger, disk)
    book = UsageBook(journal, limits or Limits(), "UTC", now, settings.prices)
    outbox = Mailbox[OutboxMail]("outbox", 32)
    told: list[str] = []
    back = trio.Event()
    if not is_away:
        back.set()

    async def serve_outbox(mailbox: Mailbox[OutboxMail]) -> None:
        async for mail in mailbox:
            assert isinstance(mail, Post)
            assert mail.route == OWNER
            if not back.is_set():
                mail.reply.set(Unsent("no network"))
                continue
            told.append(mail.part.text)
            mail.reply.set(Sent("1"))

    models = Models(
        book=book,
        providers=providers,
        settings=settings,
        in_flight=dict.fromkeys(providers, in_flight),
        jitter=lambda: jitter,
        tell=TellOwner({"telegram": outbox.address}, lambda: [OWNER], str),
        patience=patience,
    )
    mailbox = Mailbox[ModelsMail]("models", 32)
    actor_table, stop = ActorTable(trio.current_time), trio.Event()
    async with trio.open_nursery() as nursery:

        async def run() -> None:
            children = [Child(outbox, serve_outbox), Child(mailbox, models.run)]
            await supervise(
                children, stop=stop, listener=lambda event: None, actor_table=actor_table
            )

        nursery.start_soon(run)
        yield RunningModels(mailbox.address, actor_table, book, calls, told, back)
        stop.set()


def attempt_times(provider: Scripted) -> list[float]:
    """Return the times of the attempts, relative to the first."""
    return [round(when - provider.asked[0][0], 2) for when, _ in provider.asked]


async def test_a_rate_limit_waits_for_retry_after(tmp_path: Path, clock: MockClock) -> None:
    """LLM-01."""
    a = Scripted([Fail("rate_limit", retry_after=7.0), Fail("rate_limit", retry_after=0.5)])
    async with run_models(tmp_path, a=a) as it:
        assert isinstance(await it.ask(), Completion)
        assert attempt_times(a) == [0.0, 7.1, 7.7]
        assert it.troubles() == {}


@pytest.mark.parametrize("kind", ["spend_limit", "bad_key", "forbidden"])
async def test_an_error_for_people_is_not_retried(
    tmp_path: Path, clock: MockClock, kind: FailureKind
) -> None:
    """LLM-02, LLM-03, LLM-37, LLM-38: one request, even if many calls wait."""
    a = Scripted(otherwise=Fail(kind))
    async with run_models(tmp_path, a=a) as it:
        answers = []

        async def ask() -> None:
            answers.append(await it.ask_for("news", Budget()))

        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(ask)
        asked = len(a.asked)
        for _ in range(20):
            await ask()
        assert len(a.asked) == asked <= 5
        assert len(answers) == 25
        for answer in answers:
            assert isinstance(answer, ModelUnavailable)
            told = "send /retry" if kind == "spend_limit" else "scripted; tried at 12:00"
            assert told in answer.why
        assert list(it.troubles()) == ["reaching a"]
        # A person repaired it: one probe after the pause finds out.
        a.otherwise = None
        await trio.sleep(1000)
        assert isinstance(await it.ask(), Completion)
        assert it.troubles() == {}


async def test_a_message_retries_an_error_for_people(tmp_path: Path, clock: MockClock) -> None:
    """All waiting turns share the result of one attempt."""
    a = Scripted(otherwise=Fail("spend_limit"))
    async with run_models(tmp_path, a=a) as it:
        for number in range(1, 4):
            answer = await it.ask()
            assert isinstance(answer, ModelUnavailable)
            assert answer.why == (
                "the account at a has no credit left, or has reached its spending limit. "
                "Add credit there; then send /retry"
            )
            assert len(a.asked) == number
            await trio.sleep(60)
        asked = len(a.asked)
        async with trio.open_nursery() as nursery:
            for number in range(10):
                nursery.start_soon(it.ask, f"s{number}")
        assert len(a.asked) == asked + 1
        await it.ask(role="observer")
        assert len(a.asked) == asked + 1
        await trio.sleep(1)
        await it.ask(role="a/m")  # the model of their choice
        asked += 1
        assert len(a.asked) == asked + 1
        await trio.sleep(1)
        a.otherwise = None
        assert isinstance(await it.ask(), Completion)
        assert isinstance(await it.ask_for("news", Budget()), Completion)


async def test_a_fallback_answer_does_not_wait_for_credit(tmp_path: Path, clock: MockClock) -> None:
    a, b = Scripted(otherwise=Fail("spend_limit")), Scripted()
    async with run_models(tmp_path, settings=TWO, a=a, b=b) as it:
        for _ in range(3):
            assert isinstance(await it.ask(), Completion)
            await trio.sleep(60)
    assert len(a.asked) == 1


async def test_interrupted_responses_are_retried_a_few_times(
    tmp_path: Path, clock: MockClock
) -> None:
    """LLM-12: an overload error may arrive within the stream."""
    a = Scripted(otherwise=Fail("overloaded", begun=True))
    async with run_models(tmp_path, a=a) as it:
        await it.models.ask(make_request(within=60.0))
    assert len(a.asked) < 15


async def test_overload_backs_off_then_falls_back(tmp_path: Path, clock: MockClock) -> None:
    """LLM-04."""
    a, b = Scripted(otherwise=Fail("overloaded")), Scripted()
    async with run_models(tmp_path, settings=TWO, a=a, b=b) as it:
        answer = await it.ask()
        assert isinstance(answer, Completion)
        assert answer.message.model == "n"
    assert attempt_times(a) == pytest.approx(
        [0.0, 0.6, 1.7, 3.8, 7.9, *(16.0 + 8.1 * n for n in range(13))]
    )
    assert attempt_times(a)[-1] <= 120
    assert attempt_times(b) == [0.0]


@pytest.mark.parametrize(
    "fail",
    [
        Fail("offline"),
        Fail("overloaded"),
        Fail("rate_limit", retry_after=100.0),
        Fail("rate_limit", retry_after=7.0),
        Fail("bad_key"),
        Fail("cut", begun=True),
    ],
)
@pytest.mark.parametrize("settings", [ONE, TWO])
async def test_the_reason_arrives_before_the_timeout(
    tmp_path: Path, clock: MockClock, fail: Fail, settings: ModelSettings
) -> None:
    a = Scripted(otherwise=fail, took=10.0)
    b = Scripted(otherwise=fail, took=10.0)
    async with run_models(tmp_path, settings=settings, a=a, b=b) as it:
        with trio.fail_after(60.5):
            answer = await it.models.ask(make_request(within=60.0))
    assert isinstance(answer, ModelUnavailable)
    assert "scripted" in answer.why


async def test_a_slow_response_is_cancelled_reported_and_charged(
    tmp_path: Path, clock: MockClock
) -> None:
    async with run_models(tmp_path, a=Scripted(took=1000.0)) as it:
        with trio.fail_after(60.5):
            answer = await it.models.ask(make_request(within=60.0))
        assert isinstance(answer, ModelUnavailable)
        assert "it did not finish in time" in answer.why
        assert it.book.spent("s").session.tokens > 0


async def test_without_a_network_the_turn_waits(tmp_path: Path, clock: MockClock) -> None:
    """LLM-08."""
    a = Scripted(otherwise=Fail("offline"))
    async with run_models(tmp_path, a=a) as it:
        answers = []

        async def ask() -> None:
            answers.append(await it.ask())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await trio.sleep(30)
            assert [stuck.actor for stuck in it.actor_table.stuck()] == ["models"]
            await trio.sleep(370)
            assert answers == []
            assert it.troubles() == {"reaching a": "a (m) cannot be reached: scripted"}
            assert [stuck.actor for stuck in it.actor_table.stuck()] == ["models"]
            a.otherwise = None
        assert isinstance(answers[0], Completion)


@pytest.mark.parametrize(
    ("fail", "expected"),
    [
        (Fail("too_long"), ContextTooLong("a: scripted")),  # LLM-30
        (Fail("history"), BadHistory("a: scripted")),  # LLM-28, 29, 31, 36
    ],
)
async def test_errors_in_the_request_go_to_the_turn(
    tmp_path: Path, clock: MockClock, fail: Fail, expected: Completed
) -> None:
    a, b = Scripted(otherwise=fail), Scripted()
    async with run_models(tmp_path, settings=TWO, a=a, b=b) as it:
        assert await it.ask() == expected
    assert (len(a.asked), len(b.asked)) == (1, 0)


async def test_a_retired_model_falls_back(tmp_path: Path, clock: MockClock) -> None:
    """LLM-39."""
    a, b = Scripted(otherwise=Fail("no_model")), Scripted()
    async with run_models(tmp_path, settings=TWO, a=a, b=b) as it:
        assert isinstance(await it.ask(), Completion)
        b.otherwise = Fail("bad_key")
        answer = await it.ask()
        assert isinstance(answer, ModelUnavailable)
        assert "a (m) does not have this model" in answer.why
        assert "b (n) does not accept the API key" in answer.why


async def test_an_empty_budget_prevents_the_call(tmp_path: Path, clock: MockClock) -> None:
    """LLM-42; a restart changes nothing."""
    a, limits = Scripted(), Limits(session_tokens=200, day_tokens=400)
    async with run_models(tmp_path, limits=limits, a=a) as it:
        for session in ("s", "s", "t", "t"):
            assert isinstance(await it.ask(session), Completion)
    async with run_models(tmp_path, limits=limits, a=a) as it:
        asked = len(a.asked)
        mine = await it.ask("s")
        assert isinstance(mine, BudgetSpent)
        assert "200 tokens for this conversation" in mine.why
        new = await it.ask("new")
        assert isinstance(new, BudgetSpent)
        assert "It resets at 2026-11-22 00:00 UTC" in new.why
        assert len(a.asked) == asked
        spent = await it.models.ask(Spending(session="s"))
        assert (spent.session.tokens, spent.day.tokens) == (220, 440)
        await trio.sleep(12 * 3600)
        assert isinstance(await it.ask("new"), Completion)


async def test_the_budget_is_checked_before_each_attempt(tmp_path: Path, clock: MockClock) -> None:
    a = Scripted(otherwise=Fail("cut", begun=True))
    async with run_models(tmp_path, limits=Limits(session_tokens=25), a=a) as it:
        assert isinstance(await it.ask(), BudgetSpent)
    assert len(a.asked) == 1  # a broken response is charged by our estimate


@pytest.mark.parametrize("limits", [Limits(day_tokens=500), Limits(day_usd=0.5)])
async def test_concurrent_turns_share_the_limit(
    tmp_path: Path, clock: MockClock, limits: Limits
) -> None:
    a, prices = Scripted(greedy=True), {"a/*": PriceSettings(input=10, output=1000)}
    settings = attrs.evolve(ONE, prices=prices)
    answers: list[Completed] = []
    async with run_models(tmp_path, settings=settings, limits=limits, a=a) as it:

        async def ask(number: int) -> None:
            answers.append(await it.ask(f"s{number}"))

        async with trio.open_nursery() as turns:
            for number in range(50):
                turns.start_soon(ask, number)
        await trio.testing.wait_all_tasks_blocked()  # until all costs are written
        day = (await it.models.ask(Spending(session="s"))).day
    done = [one for one in answers if isinstance(one, Completion)]
    refused = [one.why for one in answers if isinstance(one, BudgetSpent)]
    assert len(done) + len(refused) == 50
    assert a.most > 10  # they ran concurrently
    assert day.tokens <= (limits.day_tokens or math.inf)
    assert 0.4 < day.usd <= (limits.day_usd or 0.5)
    assert all("has too little left for an answer. It resets at" in why for why in refused)


async def test_a_small_remainder_buys_a_shorter_answer(tmp_path: Path, clock: MockClock) -> None:
    a, settings = Scripted(greedy=True), asking("a/m", "a/s", max_tokens=16_000)
    async with run_models(tmp_path, settings=settings, limits=Limits(day_tokens=4_000), a=a) as it:
        short = await it.ask()
        assert isinstance(short, Completion)
        assert short.usage.output == 4_000 - 3
        assert isinstance(await it.ask(), BudgetSpent)


async def test_a_dollar_limit_needs_a_price(tmp_path: Path, clock: MockClock) -> None:
    a = Scripted()
    async with run_models(tmp_path, limits=Limits(day_usd=1.0), a=a) as it:
        refused = await it.ask()
        assert isinstance(refused, BudgetSpent)
        assert "do not know the price of a/m" in refused.why
        assert "models.prices" in refused.why
        assert isinstance(await it.ask_for("news", Budget(usd=1.0), "one"), BudgetSpent)
    async with run_models(tmp_path, a=a) as it:  # the token limit applies too
        assert isinstance(await it.ask_for("news", Budget(1000, 1.0), "one"), Completion)
    assert len(a.asked) == 1


@pytest.mark.parametrize(("retries", "asked"), [(0, 1), (2, 3)])
async def test_attempts_and_time_are_bounded(
    tmp_path: Path, clock: MockClock, retries: int, asked: int
) -> None:
    a = Scripted(otherwise=Fail("server"))
    settings = attrs.evolve(ONE, retries=retries)
    async with run_models(tmp_path, settings=settings, a=a) as it:
        assert isinstance(await it.ask(), ModelUnavailable)
    assert len(a.asked) == asked


async def test_the_third_failure_is_reported(tmp_path: Path, clock: MockClock) -> None:
    a = Scripted(script=[Fail("conflict"), Fail("cut"), Fail("server")])
    async with run_models(tmp_path, a=a) as it:
        send, receive = trio.open_memory_channel[str | Delayed](4)
        answer = await it.models.ask(
            msgspec.structs.replace(make_request(), progress=send.send_nowait)
        )
        assert isinstance(answer, Completion)
        told = receive.receive_nowait()
        assert isinstance(told, Delayed)
        assert told.why == "a (m) has an internal error: scripted; trying again"
        assert receive.receive_nowait() == "hello"


async def test_a_job_budget_covers_all_its_conversations(tmp_path: Path, clock: MockClock) -> None:
    """Each call has 110 tokens; the summary of a job's turn counts for the job."""
    a, budget = Scripted(), Budget(tokens=200)
    async with run_models(tmp_path, a=a) as it:
        assert isinstance(await it.ask_for("news", budget, "one"), Completion)
        summary = msgspec.structs.replace(
            make_request("two", "summarizer"), job="news", budget=budget
        )
        summed_up = await it.models.ask(summary)
        assert isinstance(summed_up, Completion)
        assert isinstance(await it.ask_for("mail", budget), Completion)
    async with run_models(tmp_path, a=a) as it:  # a restart refills no budget
        asked = len(a.asked)
        stopped = await it.ask_for("news", budget, "three")
        assert isinstance(stopped, BudgetSpent)
        assert "daily limit of 200 tokens for the job news is used up" in stopped.why
        assert len(a.asked) == asked
        assert isinstance(await it.ask("one"), Completion)
        await trio.testing.wait_all_tasks_blocked()  # until its cost is noted
        spent = await it.models.ask(Spending(session="s"))
        assert [(name, job.tokens) for name, job in spent.jobs] == [("news", 220), ("mail", 110)]
        assert spent.day.tokens == 440
        await trio.sleep(12 * 3600)
        assert isinstance(await it.ask_for("news", budget), Completion)


async def test_an_unreachable_owner_does_not_delay_the_stop(
    tmp_path: Path, clock: MockClock
) -> None:
    async with run_models(
        tmp_path, limits=Limits(day_tokens=120), is_away=True, a=Scripted()
    ) as it:
        await it.ask()
        await trio.testing.wait_all_tasks_blocked()
        assert it.told == []
        stopping = trio.current_time()
    assert trio.current_time() - stopping < 4


async def test_ten_overloaded_sessions_share_one_probe(tmp_path: Path, clock: MockClock) -> None:
    """LLM-44."""
    a = Scripted(otherwise=Fail("overloaded"))
    async with run_models(tmp_path, a=a) as it:
        answers: list[Completed] = []

        async def ask(number: int) -> None:
            answers.append(await it.ask(f"s{number}"))

        async with trio.open_nursery() as nursery:
            for number in range(10):
                nursery.start_soon(ask, number)
            await trio.sleep(0.3)
            assert len(a.asked) == 10
            a.most = 0
            await trio.sleep(60)
            assert a.most == 1
            assert len(a.asked) <= 20
            a.otherwise = None
        assert len(answers) == 10
        assert all(isinstance(answer, Completion) for answer in answers)
        # When one is answered, the others continue together.
        assert a.most == 10
        assert it.troubles() == {}


async def test_calls_in_flight_are_limited(tmp_path: Path, clock: MockClock) -> None:
    a = Scripted()
    async with run_models(tmp_path, in_flight=3, a=a) as it, trio.open_nursery() as nursery:
        for number in range(10):
            nursery.start_soon(it.ask, f"s{number}")
    assert a.most == 3
    assert attempt_times(a)[-1] == 3.0


async def test_an_abandoned_request_is_charged_and_freed(tmp_path: Path, clock: MockClock) -> None:
    a = Scripted(took=1000.0)
    async with run_models(tmp_path, a=a) as it:
        with trio.move_on_after(5):
            await it.ask()
        await trio.sleep(0.1)
        assert a.running == 0
        spent = await it.models.ask(Spending(session="s"))
        assert spent.session.estimated
        assert spent.session.tokens > 0


async def test_an_abandoned_probe_starts_the_next(tmp_path: Path, clock: MockClock) -> None:
    a = Scripted([Fail("rate_limit", retry_after=60.0)])
    async with run_models(tmp_path, a=a) as it:
        with trio.move_on_after(30):
            await it.ask()
        assert isinstance(await it.ask(), Completion)
        assert attempt_times(a) == [0.0, 60.1]


@pytest.mark.parametrize("kind", ["offline", "rate_limit", "server"])
async def test_waiting_callers_get_an_early_reason(
    tmp_path: Path, clock: MockClock, kind: FailureKind
) -> None:
    a = Scripted(otherwise=Fail(kind))
    async with run_models(tmp_path, a=a, patience=120.0) as it, trio.open_nursery() as nursery:
        start = trio.current_time()
        send, receive = trio.open_memory_channel[str | Delayed](math.inf)
        ended: list[float] = []

        async def ask() -> None:
            question = msgspec.structs.replace(make_request(), progress=send.send_nowait)
            answer = await it.models.ask(question)
            assert isinstance(answer, ModelUnavailable)
            ended.append(trio.current_time() - start)

        nursery.start_soon(ask)
        told = await receive.receive()
        assert isinstance(told, Delayed)
        assert told.why.startswith("a (m) ")
        assert told.why.endswith(": scripted; trying again")
        assert trio.current_time() - start <= 3.0
        assert not ended
    assert 60 < ended[0] <= 120
    assert len(a.asked) > 5


async def test_progress_is_reported(tmp_path: Path, clock: MockClock) -> None:
    async with run_models(tmp_path, a=Scripted()) as it:
        shown: list[object] = []
        await it.models.ask(msgspec.structs.replace(make_request(), progress=shown.append))
        assert shown == ["hello"]


async def test_an_unwritten_cost_blocks_further_calls(tmp_path: Path, clock: MockClock) -> None:
    a = Scripted()
    async with run_models(tmp_path, a=a) as it:
        assert isinstance(await it.ask(), Completion)
        await trio.testing.wait_all_tasks_blocked()  # until its cost is noted
        it.disk.full = True
        assert isinstance(await it.ask(), Completion)
        answer = await it.ask()
        assert isinstance(answer, ModelUnavailable)
        assert "disk is full" in answer.why
        assert "usage journal" in it.troubles()
        it.disk.full = False
        assert isinstance(await it.ask(), Completion)
        await trio.testing.wait_all_tasks_blocked()
        assert it.troubles() == {}
        assert (await it.models.ask(Spending(session="s"))).session.tokens == 330
    assert len(a.asked) == 3


async def test_a_role_uses_its_own_settings(tmp_path: Path, clock: MockClock) -> None:
    """A summary uses its role's model, or the answers' models; only a summary thinks less."""
    summarizer = RoleSettings(model="b/n", thinking="low", max_tokens=7)
    settings = ModelSettings(roles={**ONE.roles, "summarizer": summarizer})
    a, b = Scripted(greedy=True), Scripted(greedy=True)
    async with run_models(tmp_path, settings=settings, a=a, b=b) as it:
        for role in ("summarizer", "heartbeat", "default"):
            assert isinstance(await it.ask(role=role), Completion)
        for role in ("summarizer", "heartbeat"):
            await it.models.ask(msgspec.structs.replace(make_request(role=role), others_first=True))
    assert [model for _, model in b.asked] == ["n"]
    assert [model for _, model in a.asked] == ["s", "m", "m", "s"]
    assert b.requests[0].max_tokens == 7
    assert [one.thinking for one in (*b.requests, *a.requests)] == ["low", None, None, "low", None]


async def test_a_model_without_a_provider_fails(tmp_path: Path, clock: MockClock) -> None:
    async with run_models(tmp_path, settings=TWO, b=Scripted()) as it:
        assert isinstance(await it.ask(), Completion)
        answer = await it.ask(role="summarizer")
        assert isinstance(answer, Completion)
    async with run_models(tmp_path, b=Scripted()) as it:
        assert await it.ask() == ModelUnavailable("the configuration has no provider 'a'")
