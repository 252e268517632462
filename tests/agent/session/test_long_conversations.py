"""Months of talk: the context stays below its limit, the prefix stays as it was, facts survive."""

import random
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import trio

from elwood.agent.conversation.message import (
    Assistant,
    Completion,
    Human,
    Notice,
    Prompt,
    Stop,
    Text,
    ToolCall,
    Usage,
)
from elwood.agent.models.anthropic import Anthropic
from elwood.agent.models.client import ModelFailure, ModelRequest
from elwood.agent.models.messages import BadHistory, Complete, Completed
from elwood.agent.models.providers import encode
from elwood.agent.models.settings import ProviderSettings
from elwood.agent.session.log.entries import CallDecided, Compacted, Entry, Prompted
from elwood.foundation.net.http import Client
from elwood.foundation.secrets.redaction import Secret
from tests.agent.session.gates import Approver
from tests.agent.session.scripted import answer
from tests.agent.session.talking import NOTE, PAY, Talk, is_summary
from tests.fake_http import serving
from tests.fake_model_rules import Json, blocks
from tests.fake_models import FakeModels, Say, Step

TURNS = 5_000
CONTEXT = 4_000
FACTS = [f"FACT {n}: the number of locker {n} is {n * 7919 % 10_000:04}" for n in range(10)]
FORMS = {"anthropic": ProviderSettings(api="anthropic"), "openai": ProviderSettings(api="openai")}


def wire(request: Complete) -> ModelRequest:
    return ModelRequest(
        model="m", prompt=request.prompt, messages=request.messages, max_tokens=1000
    )


def parts(body: bytes) -> tuple[bytes, bytes]:
    """Split a body into what stands before the messages for the model, and the messages."""
    whole = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    first = bytes(whole.get("tools", b"")) + bytes(whole.get("system", b""))
    return first, bytes(whole["messages"])[:-1]  # without the closing bracket


class Months:
    """A model that talks, notes and thinks; it counts tokens as no estimate of ours does.

    The summariser keeps what it is told to keep: the facts in what it is shown.
    """

    def __init__(self) -> None:
        self.random = random.Random(4)
        self.talk: CountedTalk | None = None
        self.most = 0
        self.requests = 0
        self.compared = 0
        self.last: Complete | None = None
        self._before: dict[str, tuple[bytes, bytes]] = {}
        self._epochs = 0

    async def __call__(self, request: Complete) -> Completed:
        await trio.lowlevel.checkpoint()
        if is_summary(request):
            [shown] = request.messages
            assert isinstance(shown, Human)
            facts = dict.fromkeys(re.findall(r"FACT \d+: .*", shown.text))
            return answer("<summary>\n" + "\n".join(facts) + "\n</summary>")
        self.requests += 1
        self.last = request
        bodies = {name: encode(form, wire(request)) for name, form in FORMS.items()}
        counted = self._count(bodies["anthropic"])
        self.most = max(self.most, counted)
        self._compare(bodies)
        return self._respond(request, counted)

    def _count(self, body: bytes) -> int:
        """A tokenizer of another kind: three bytes each, and a little more or less."""
        return int(len(body) / 3 * self.random.uniform(0.97, 1.03))

    def _compare(self, bodies: dict[str, bytes]) -> None:
        assert self.talk is not None
        epochs = self.talk.epochs
        after = {name: parts(body) for name, body in bodies.items()}
        if self._before and epochs == self._epochs:
            self.compared += 1
            for name, before in self._before.items():
                pairs = zip(before, after[name], strict=True)
                assert all(new.startswith(old) for old, new in pairs), "the prefix stays"
        self._before, self._epochs = after, epochs

    def _respond(self, request: Complete, counted: int) -> Completion:
        said = list[ToolCall | Text]()
        native: list[Json] = [{"type": "thinking", "thinking": "hm " * 9, "signature": "s" * 60}]
        if isinstance(request.messages[-1], Human) and self.random.random() < 0.2:
            id_ = f"toolu_{self.requests}"
            said.append(ToolCall(id_, "note", '{"name": "x"}'))
            native.append({"type": "tool_use", "id": id_, "name": "note", "input": {"name": "x"}})
        else:
            words = "It is as you say. " * self.random.randint(1, 5)
            said.append(Text(words))
            native.append({"type": "text", "text": words})
        raw = msgspec.Raw(msgspec.json.encode(native))
        cached = counted // 2
        usage = Usage(input=counted - cached, cache_read=cached, output=len(bytes(raw)) // 3)
        stop: Stop = "tools" if isinstance(said[0], ToolCall) else "end"
        return Completion(Assistant(tuple(said), "anthropic", "a/m", raw), stop, usage)


class CountedTalk(Talk):
    """Counts new prefixes: prompts and compactions."""

    epochs = 0

    def apply(self, *entries: Entry) -> None:
        self.epochs += sum(isinstance(entry, Compacted | Prompted) for entry in entries)
        super().apply(*entries)


async def test_five_thousand_turns() -> None:
    model = Months()
    talk = model.talk = CountedTalk(model, context=CONTEXT)
    chance = random.Random(5)
    for number in range(TURNS):
        words = "and then something else happened " * chance.randint(1, 4)
        fact = FACTS[number] if number < len(FACTS) else ""
        end = await talk.say(f"{number}: {words}\n{fact}".strip())
        assert not end.failed
        if number in (100, 500, 1500):
            talk.restart()

    last = model.last
    assert last is not None
    known = "".join(m.text for m in last.messages if isinstance(m, Notice | Human))
    cuts = talk.compactions
    assert model.most <= CONTEXT
    assert model.most > 0.6 * CONTEXT  # and the room is used
    # Room is made before the next request, so the last answer may have crossed the mark.
    assert len(cuts) == talk.crossings - talk.is_full > 50
    assert not any(made.why for made in cuts)
    assert [fact for fact in FACTS if fact not in known] == []
    assert not any(isinstance(m, Human) and "FACT" in m.text for m in last.messages)
    assert model.compared == model.requests - 1 - len(cuts)
    assert max(len(request) for request in talk.log) < 100_000


# --- preserved thinking ---------------------------------------------------------------------------


class Month:
    """What people, models and the owner do in a month, by chance; the API enforces its rules."""

    def __init__(self) -> None:
        self.random = random.Random(6)
        self.fake = FakeModels(otherwise=self._step, keep=1)
        self.provider: Anthropic | None = None
        self.talk: Talk | None = None
        self.rejections: list[str] = []
        self.late_notices = 0

    def _step(self, body: Json) -> Step:
        if "tools" not in body:
            return Say("<summary>\nAll went well.\n</summary>")
        chance = self.random.random()
        thinking = f"thought {self.fake.count}" if chance < 0.9 else ""
        is_result = any(block["type"] == "tool_result" for block in blocks(body["messages"][-1]))
        if chance < (0.3 if is_result else 0.4):
            calls = tuple(
                ("pay" if self.random.random() < 0.1 else "note", f'{{"name": "{n}"}}')
                for n in range(self.random.randint(1, 3))
            )
            return Say("", calls, thinking=thinking)
        if chance < 0.45:
            return Say("this goes on ", stop="max_tokens", thinking=thinking)
        if chance < 0.47:
            return Say("", stop="refusal")
        if chance < 0.49:
            return Say("", stop="end_turn", thinking=thinking)
        return Say("That is how it is. " * self.random.randint(1, 10), thinking=thinking)

    async def __call__(self, request: Complete) -> Completed:
        assert self.provider is not None
        assert self.talk is not None
        wanted = msgspec.structs.replace(wire(request), max_tokens=request.max_tokens or 1000)
        pending = list(self.talk.session.pending.values())
        if pending and self.random.random() < 0.3:
            # The owner decides while the model is thinking.
            one = pending[0].pending
            await self.talk.record(CallDecided(one.turn, one.call, one.plan, "denied", "me"))
            self.late_notices += 1
        try:
            return await self.provider.complete(wanted, lambda text: None)
        except ModelFailure as error:
            self.rejections.append(str(error))
            return BadHistory(error.problem, str(error))

    @asynccontextmanager
    async def lived(self, context: int) -> AsyncIterator[Talk]:
        client, approver = Client(), Approver()
        async with serving(self.fake.answer) as url, trio.open_nursery() as nursery:
            nursery.start_soon(approver.run, approver.mailbox)
            api = ProviderSettings(api="anthropic", base_url=url, key=Secret("k"))
            self.provider = Anthropic("anthropic", api, client, lambda: 0.0)
            self.talk = Talk(self, context=context, approver=approver)
            yield self.talk
            nursery.cancel_scope.cancel()
            await client.aclose()


async def test_a_month_of_thinking_is_never_rejected() -> None:
    month = Month()
    chance = random.Random(7)
    async with month.lived(context=2_000) as talk:
        for day in range(30):
            if day % 3 == 1:  # somebody wrote into the documents
                talk.prompt = Prompt(f"Be kind. Today is day {day}.", (NOTE.spec, PAY.spec))
            for _ in range(9):
                await talk.say("so it went on " * chance.randint(1, 10))
                if chance.random() < 0.1:
                    talk.restart()
            if day % 11 == 10:
                await talk.new()
    bindings = month.fake.bindings
    assert month.rejections == []
    assert bindings.rejected == 0
    assert bindings.seen > 1000
    assert len(talk.compactions) > 10
    assert not any(made.why for made in talk.compactions)
    assert month.late_notices > 3
