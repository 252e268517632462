"""The smallest bot with Trio and httpx2: the baseline for Elwood's measurements.

A long poll, one streaming request to the model with the chat's history, one message back; if the
model calls ``list_files``, the bot runs the call and sends the result to the model.  It
guarantees nothing: no journal, no actors, no retries, no budgets, no progress.

``python tests/bench/floor.py TELEGRAM_URL TOKEN MODELS_URL FOLDER``
"""

import json
import os
import sys
from typing import Any

import httpx2
import trio

Json = dict[str, Any]
# Maximum length of a message in characters; the rest of an answer is dropped.
LONGEST = 4096
SYSTEM = "You are a helpful assistant."
TOOL = {
    "name": "list_files",
    "description": "List the files of a folder.",
    "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}},
}


async def main(telegram: str, token: str, models: str, folder: str) -> None:
    histories: dict[int, list[Json]] = {}
    # The fakes speak plain HTTP, for which Elwood loads no certificates either.
    async with (
        httpx2.AsyncClient(base_url=f"{telegram}/bot{token}/", verify=False, timeout=65) as bot,
        httpx2.AsyncClient(base_url=models, verify=False, timeout=65) as model,
        trio.open_nursery() as nursery,
    ):
        offset = 0
        while True:
            asked = await bot.post("getUpdates", json={"timeout": 50, "offset": offset})
            for update in asked.json()["result"]:
                offset = update["update_id"] + 1
                nursery.start_soon(turn, bot, model, update["message"], histories, folder)


async def turn(
    bot: httpx2.AsyncClient,
    model: httpx2.AsyncClient,
    message: Json,
    histories: dict[int, list[Json]],
    folder: str,
) -> None:
    chat = message["chat"]["id"]
    history = histories.setdefault(chat, [])
    history.append({"role": "user", "content": message["text"]})
    text = await answer(model, history, folder)
    (
        await bot.post("sendMessage", json={"chat_id": chat, "text": text[:LONGEST]})
    ).raise_for_status()


async def answer(model: httpx2.AsyncClient, history: list[Json], folder: str) -> str:
    """Add the model's answers and the calls' results to *history*; return the text."""
    blocks = await complete(model, history)
    while calls := [block for block in blocks if block["type"] == "tool_use"]:
        listed = "\n".join(sorted(os.listdir(folder)))
        results = [
            {"type": "tool_result", "tool_use_id": call["id"], "content": listed} for call in calls
        ]
        history.append({"role": "user", "content": results})
        blocks = await complete(model, history)
    return "".join(block["text"] for block in blocks if block["type"] == "text")


async def complete(model: httpx2.AsyncClient, history: list[Json]) -> list[Json]:
    """Add the model's answer to *history*, and return its blocks."""
    ask = {"model": "claude-sonnet-5-5", "max_tokens": 16000, "stream": True, "tools": [TOOL]}
    headers = {"anthropic-version": "2026-10-21", "x-api-key": "none"}
    blocks: list[Json] = []
    pieces: list[str] = []
    async with model.stream(
        "POST", "/v1/messages", json=ask | {"system": SYSTEM, "messages": history}, headers=headers
    ) as answer:
        async for line in answer.aiter_lines():
            if not line.startswith("data:"):
                continue
            event = json.loads(line[5:])
            match event["type"]:
                case "content_block_start":
                    blocks.append(event["content_block"])
                    pieces = []
                case "content_block_delta":
                    delta = event["delta"]
                    pieces.append(delta.get("text") or delta.get("partial_json") or "")
                case "content_block_stop" if blocks[-1]["type"] == "text":
                    blocks[-1]["text"] = "".join(pieces)
                case "content_block_stop" if blocks[-1]["type"] == "tool_use":
                    blocks[-1]["input"] = json.loads("".join(pieces) or "{}")
    history.append({"role": "assistant", "content": blocks})
    return blocks


if __name__ == "__main__":
    _, at, secret, thinker, shelf = sys.argv
    trio.run(main, at, secret, thinker, shelf)
