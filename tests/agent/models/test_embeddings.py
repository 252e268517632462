"""The clients of embedding services against fakes on sockets."""

import json
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from elwood.agent.models.client import EmbeddingFailed
from elwood.agent.models.embeddings import DEADLINE, HttpEmbedder
from elwood.agent.models.settings import ProviderSettings
from elwood.foundation.net.http import Client
from elwood.foundation.secrets.redaction import Secret
from tests.fake_http import Reply, Request, serving

KEY = "k" * 30


@asynccontextmanager
async def run_service(
    model: str, given: Reply, seen: list[Request] | None = None
) -> AsyncIterator[HttpEmbedder]:
    async def answer(request: Request) -> Reply:
        await trio.lowlevel.checkpoint()
        if seen is not None:
            seen.append(request)
        return given

    async with serving(answer) as base, aclosing(Client()) as client:
        settings = ProviderSettings(api="openai", base_url=f"{base}/v1", key=Secret(KEY))
        yield HttpEmbedder(model, settings, client)


def reply(value: Any, status: int = 200) -> Reply:
    return Reply(status=status, pieces=(json.dumps(value).encode(),))


def vectors(*each: Any) -> Reply:
    return reply({"data": [{"index": n, "embedding": one} for n, one in enumerate(each)]})


async def test_requests_follow_the_openai_format() -> None:
    seen: list[Request] = []
    data = [{"index": 1, "embedding": [0, 1]}, {"index": 0, "embedding": [1, 0]}]
    async with run_service("local/bge", reply({"data": data, "usage": {}}), seen) as embedder:
        found = await embedder.embed(["one\udc80", ""])
        assert (found.vectors, found.tokens) == ([[1.0, 0.0], [0.0, 1.0]], None)
    [request] = seen
    assert (request.method, request.path) == ("POST", "/v1/embeddings")
    assert request.headers["authorization"] == f"Bearer {KEY}"
    asked = {"model": "bge", "input": ["one?", " "], "encoding_format": "float"}
    assert json.loads(request.body) == asked


@pytest.mark.parametrize(
    ("model", "given", "why"),
    [
        ("ollama/m", reply({"error": "model not found"}, 404), "pull it first"),
        ("openai/m", vectors([1.0]), "other texts"),
        ("openai/m", vectors([1.0], [1.0, 2.0]), "different lengths"),
        ("openai/m", vectors([], []), "different lengths"),
        ("openai/m", vectors("x", "y"), "unreadable"),
        ("openai/m", Reply(pieces=(b"<html>",)), "unreadable"),
        ("openai/m", reply({}, 401), "key"),
        ("openai/m", reply({}, 503), "later"),
        ("openai/m", Reply(end="reset", end_at=-1), "did not answer"),
    ],
)
async def test_errors_are_explained(model: str, given: Reply, why: str) -> None:
    async with run_service(model, given) as embedder:
        with pytest.raises(EmbeddingFailed, match=why) as error:
            await embedder.embed(["one", "two"])
    assert KEY not in str(error.value)


async def test_a_silent_service_times_out(mock_clock: MockClock) -> None:
    mock_clock.autojump_threshold = 0.001
    async with run_service("ollama/m", Reply(end="stall", end_at=-1)) as embedder:
        began = trio.current_time()
        with pytest.raises(EmbeddingFailed):
            await embedder.embed(["one"])
        assert trio.current_time() - began <= DEADLINE
