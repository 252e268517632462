"""The smallest bot that loses no message over kill -9: the floor with a log.

Each update is written and synced before the offset moves, the answer before it is sent, and the
delivery is noted.  A start reads the log: it answers the updates without an answer, and sends
again, with a mark, the answers whose delivery was not noted.

``python -m tests.bench.durable_floor TELEGRAM_URL TOKEN MODELS_URL FOLDER LOG``
"""

import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path

import httpx2
import trio

from tests.bench.floor import LONGEST, Json, answer

REPEAT = "(again)"


class Log:
    """A file of JSON lines; *number* of an update is its id."""

    def __init__(self, path: Path) -> None:
        self.offset = 0
        self.histories: dict[int, list[Json]] = {}
        self.updates: dict[int, Json] = {}  # without a recorded delivery
        self.answers: dict[int, str] = {}  # their ids
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        whole, _, torn = path.read_bytes().rpartition(b"\n")
        os.ftruncate(self._fd, os.fstat(self._fd).st_size - len(torn))
        for line in whole.splitlines():
            self._fold(json.loads(line))
        for number, text in self.answers.items():
            self.answers[number] = f"{REPEAT} {text}"

    def _fold(self, record: Json) -> None:
        number = record["number"]
        match record["type"]:
            case "update":
                self.offset = number + 1
                self.updates[number] = record["message"]
            case "answer":
                chat = self.updates[number]["chat"]["id"]
                self.histories.setdefault(chat, []).extend(record["history"])
                self.answers[number] = record["text"]
            case "delivered":
                del self.updates[number], self.answers[number]

    async def write(self, records: Iterable[Json]) -> None:
        """Append *records* and sync them."""
        lines = self._lines(records)
        await trio.to_thread.run_sync(self._append, lines)

    def note(self, record: Json) -> None:
        """Append *record*; the next line syncs it.  Without it an answer is sent again."""
        os.write(self._fd, self._lines([record]))

    def _append(self, lines: bytes) -> None:
        os.write(self._fd, lines)
        os.fdatasync(self._fd)

    def _lines(self, records: Iterable[Json]) -> bytes:
        lines = []
        for record in records:
            self._fold(record)
            lines.append(json.dumps(record, separators=(",", ":")) + "\n")
        return "".join(lines).encode()


async def main(telegram: str, token: str, models: str, folder: str, path: str) -> None:
    log = Log(Path(path))
    async with (
        httpx2.AsyncClient(base_url=f"{telegram}/bot{token}/", verify=False, timeout=65) as bot,
        httpx2.AsyncClient(base_url=models, verify=False, timeout=65) as model,
        trio.open_nursery() as nursery,
    ):
        for number in log.updates:
            nursery.start_soon(turn, bot, model, log, number, folder)
        while True:
            asked = await bot.post("getUpdates", json={"timeout": 50, "offset": log.offset})
            updates = {one["update_id"]: one["message"] for one in asked.json()["result"]}
            if not updates:
                continue
            await log.write(
                {"type": "update", "number": number, "message": message}
                for number, message in updates.items()
            )
            for number in updates:
                nursery.start_soon(turn, bot, model, log, number, folder)


async def turn(
    bot: httpx2.AsyncClient, model: httpx2.AsyncClient, log: Log, number: int, folder: str
) -> None:
    message = log.updates[number]
    chat = message["chat"]["id"]
    if number not in log.answers:
        before = log.histories.get(chat, [])
        history = [*before, {"role": "user", "content": message["text"]}]
        text = await answer(model, history, folder)
        record = {"type": "answer", "number": number, "text": text}
        await log.write([record | {"history": history[len(before) :]}])
    reply = {"chat_id": chat, "text": log.answers[number][:LONGEST]}
    (await bot.post("sendMessage", json=reply)).raise_for_status()
    log.note({"type": "delivered", "number": number})


if __name__ == "__main__":
    _, at, secret, thinker, shelf, book = sys.argv
    trio.run(main, at, secret, thinker, shelf, book)
