"""The answers of ``/model`` to a choice."""

import pytest

from elwood.agent.models.settings import ModelSettings, Providers, ProviderSettings
from elwood.agent.session.commands.model_choice import choose
from elwood.foundation.secrets.redaction import Secret
from elwood.foundation.settings import Config

OPENAI = ProviderSettings(api="openai", base_url="https://api.openai.com/v1", key=Secret("k"))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("openai/gpt-6-luna", "⚠ The model openai/gpt-6-luna supports tools only in OpenAI's"),
        ("openai/gpt-5", "⚠ The model openai/gpt-5 shuts down on 2026-12-11"),
        ("openai/gpt-5.4", "goes back to that one."),
    ],
)
def test_choosing_a_model_shows_its_problems(name: str, said: str) -> None:
    config = Config.from_values(ModelSettings(), Providers({"openai": OPENAI}))
    chosen, answer = choose(config, "", name, "2026-11-27")
    assert chosen == name
    assert said in answer.text
    assert ("⚠" in answer.text) is ("⚠" in said)
