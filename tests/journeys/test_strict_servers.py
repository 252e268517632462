"""Turns with Chat Completions servers that are strict about the order of roles."""

from typing import Any

import pytest

from elwood.agent.models.client import Provider
from elwood.agent.models.openai import BRIDGE, OpenAI
from elwood.agent.models.settings import ProviderSettings
from elwood.foundation.net.http import Client
from tests.fake_models import Error, FakeModels, Say
from tests.journeys.home import Home

pytestmark = pytest.mark.usefixtures("virtual_time")
REFUSAL = Error(400, "invalid_request_error", "Unexpected role 'user' after role 'tool'")


def use_strict_server(h: Home) -> FakeModels:
    """Use a model behind Chat Completions; the fake refuses requests that strict servers refuse."""
    fake = FakeModels()
    settings = ProviderSettings(api="openai", base_url=h.network.serve(fake.answer))

    def make(client: Client, now: object) -> Provider:
        return OpenAI("mistral", settings, client, lambda: "id")

    h.providers, h.model = {"mistral": make}, "mistral/m"
    return fake


def look(name: str) -> Say:
    return Say(calls=(("look", f'{{"name": "{name}"}}'),))


def roles(body: Any) -> list[str]:
    return [message["role"] for message in body["messages"]]


async def test_two_rounds_a_notice_and_a_steering_message_are_accepted(h: Home) -> None:
    fake = use_strict_server(h)
    async with h.life() as life:
        fake.script = [look("1"), look("2"), Say("Both are fine.")]
        h.fake.say("look twice")
        await life.until(lambda: fake.count == 2 and h.effects.together)
        h.fake.say("and be quick")
        await life.wait_until_idle()
        assert h.texts()[-1].startswith("Both are fine.")
        [*_, result, bridge, words] = fake.bodies[-1]["messages"]
        head = "saw 2\n\n<elwood-notice>\nThe reader will see these records below your answer"
        assert result["content"].startswith(head)
        assert bridge == {"role": "assistant", "content": BRIDGE}
        assert words["content"].endswith("\nand be quick")
        # A turn that is stopped between its rounds, and one more after a restart.
        fake.script = [look("3"), look("4")]
        h.fake.say("look again")
        await life.until(lambda: fake.count == 5 and h.effects.together)
        h.fake.say("/stop")
        await life.wait_until_idle()
        life.kill()
    async with h.life() as life:
        fake.script = [Say("Here I am.")]
        assert (await life.say("still there?")).startswith("Here I am.")
    assert roles(fake.bodies[-1])[-3:] == ["tool", "assistant", "user"]
    assert fake.count == 6
    tags = h.names()
    assert "compacted" not in tags
    assert tags.count("prompted") == 1
    assert not h.broken_promises()


async def test_a_refusal_for_another_reason_shortens_nothing(h: Home) -> None:
    fake = use_strict_server(h)
    async with h.life() as life:
        await life.say("my name is Ada")
        fake.script = [REFUSAL] * 2
        told = await life.say("and now?")
        assert told.startswith("The model rejected our conversation: mistral: Unexpected")
        assert "/undo" in told
        assert await life.say("who am I?") == "You said: who am I?"
    assert any("my name is Ada" in str(message) for message in fake.bodies[-1]["messages"])
    assert "compacted" not in h.names()
    assert not h.broken_promises()
