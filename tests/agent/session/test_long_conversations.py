"""A month of conversation: the model's thinking keeps its prefix."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import trio

from elwood.agent.conversation.message import Prompt
from elwood.agent.models.anthropic import Anthropic
from elwood.agent.models.client import ModelFailure, ModelRequest
from elwood.agent.models.messages import BadHistory, Complete, Completed
from elwood.agent.models.settings import ProviderSettings
from elwood.agent.session.log.entries import CallDecided
from elwood.foundation.net.http import Client
from elwood.foundation.secrets.redaction import Secret
from tests.agent.session.gates import Approver
from tests.agent.session.talking import NOTE, PAY, Talk
from tests.fake_http import serving
from tests.fake_model_rules import Json, blocks
from tests.fake_models import FakeModels, Say, Step


def make_request(request: Complete) -> ModelRequest:
    return ModelRequest(
        model="m", prompt=request.prompt, messages=request.messages, max_tokens=1000
    )


class Month:
    """Random acts of people, models and the owner in a month; the fake API enforces its rules."""

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
        wanted = msgspec.structs.replace(
            make_request(request), max_tokens=request.max_tokens or 1000
        )
        pending = list(self.talk.session.pending.values())
        if pending and self.random.random() < 0.3:
            # The owner decides during a model call.
            one = pending[0].pending
            await self.talk.record(CallDecided(one.turn, one.call, one.plan, "denied", "me"))
            self.late_notices += 1
        try:
            return await self.provider.complete(wanted, lambda text: None)
        except ModelFailure as error:
            self.rejections.append(str(error))
            return BadHistory(str(error))

    @asynccontextmanager
    async def lived(self, context: int) -> AsyncIterator[Talk]:
        client, approver = Client(), Approver()
        async with serving(self.fake.answer) as url, trio.open_nursery() as nursery:
            nursery.start_soon(approver.run, approver.mailbox)
            api = ProviderSettings(api="anthropic", base_url=url, key=Secret("k"))
            self.provider = Anthropic("anthropic", api, client)
            self.talk = Talk(self, context=context, approver=approver)
            yield self.talk
            nursery.cancel_scope.cancel()
            await client.aclose()


async def test_a_month_of_thinking_is_never_rejected() -> None:
    month = Month()
    chance = random.Random(7)
    async with month.lived(context=2_000) as talk:
        for day in range(30):
            if day % 3 == 1:  # a document was edited
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
