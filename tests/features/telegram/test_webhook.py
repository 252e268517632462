"""Updates by webhook: authentication, confirmation and bad requests."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import attrs
import msgspec
import pytest
import trio
from trio.testing import MockClock

from elwood.agent.conversation.inbound import Taken
from elwood.features.telegram.poll import CONNECTIONS, MAX_UPDATE, SECRET_HEADER, YES_WITHIN
from elwood.foundation.net.http import Client, Interrupted
from elwood.foundation.net.http_server import HEAD_PATIENCE
from tests.fake_telegram import OWNER, FakeTelegram, fake_telegram
from tests.features.telegram.neighbours import Neighbours, intake

URL = "https://elwood.example/hook"


def place_of(folder: Path) -> str:
    """Return an address that no other test uses: all of 127.0.0.0/8 is local."""
    return f"127.{'.'.join(map(str, sha256(bytes(folder)).digest()[:3]))}:8090"


@attrs.frozen
class Bringer:
    """Telegram's side: it sends updates to Elwood."""

    fake: FakeTelegram
    house: Neighbours
    client: Client
    place: str

    async def bring(self, update: dict[str, Any], **headers: str) -> int:
        """Send one update and return the status."""
        return await self.post(msgspec.json.encode(update), **headers)

    async def post(self, body: bytes, *, path: str = "", **headers: str) -> int:
        await self.fake.until(lambda: self.fake.webhook)
        path = path or self.fake.webhook.removeprefix("https://elwood.example")
        headers = headers or {SECRET_HEADER: self.fake.webhook_secret}
        url = f"http://{self.place}{path}"
        return (await self.client.post_json(url, body, headers=headers, read_timeout=99)).status

    def update(self, text: str, number: int = 1) -> dict[str, Any]:
        return {"update_id": number, "message": self.fake.message(text)}


@asynccontextmanager
async def webhook(tmp_path: Path, **more: Any) -> AsyncIterator[Bringer]:
    """Run an Intake that has a webhook."""
    place, client = place_of(tmp_path), Client()
    async with (
        fake_telegram() as fake,
        intake(fake, webhook_url=URL, webhook_listen=place, **more) as house,
    ):
        await fake.until(lambda: fake.webhook)
        yield Bringer(fake, house, client, place)
        await client.aclose()


async def test_an_update_is_confirmed_only_after_it_is_handed_on(tmp_path: Path) -> None:
    async with webhook(tmp_path) as telegram:
        house, fake = telegram.house, telegram.fake
        taken = trio.Event()

        def take(_: object) -> Taken:
            taken.set()
            return Taken()

        house.take = take
        assert await telegram.bring(telegram.update("hello", 7)) == 200
        assert taken.is_set()
        assert [(got.text, got.id) for got in house.inbound] == [("hello", "tg:4242:7")]
        assert not fake.counts["getUpdates ok"]
        assert fake.webhook.startswith(URL + "/")
        assert fake.token.partition(":")[2] not in fake.webhook + fake.webhook_secret


async def test_an_unaccepted_update_is_not_confirmed_and_handed_on_once(
    tmp_path: Path, jumping_clock: MockClock
) -> None:
    async with webhook(tmp_path) as telegram:
        house = telegram.house
        house.take = lambda got: None if got.text == "stuck" else Taken()
        stuck, began = telegram.update("stuck", 1), trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(telegram.bring, stuck)
            assert await telegram.bring(stuck) == 503
            assert trio.current_time() - began == pytest.approx(YES_WITHIN, abs=0.1)
        other = telegram.update("free", 2)
        other["message"]["chat"]["id"] = other["message"]["from"]["id"] = OWNER
        assert {got.id for got in house.inbound} == {"tg:4242:1"}
        house.take = lambda _: Taken()
        assert await telegram.bring(stuck) == 200
        assert await telegram.bring(other) == 200
        asked = len(house.inbound)
        assert await telegram.bring(stuck) == 200  # the session drops the repeat
        assert len(house.inbound) == asked + 1


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/hook/other", None, 404),
        ("/", None, 404),
        ("", {SECRET_HEADER: "x"}, 403),
        ("", {"x-other": "x"}, 403),
        ("", {SECRET_HEADER: "é"}, 403),
    ],
)
async def test_a_request_without_the_secret_is_refused(
    tmp_path: Path, path: str, headers: dict[str, str] | None, status: int
) -> None:
    async with webhook(tmp_path) as telegram:
        body = msgspec.json.encode(telegram.update("evil"))
        assert await telegram.post(body, path=path, **(headers or {})) == status
        assert await telegram.bring(telegram.update("mine")) == 200
        assert telegram.house.texts == ["mine"]


async def test_other_methods_and_large_or_invalid_bodies_are_refused(tmp_path: Path) -> None:
    async with webhook(tmp_path) as telegram:
        path = telegram.fake.webhook.removeprefix("https://elwood.example")
        got = await telegram.client.get(f"http://{telegram.place}{path}", read_timeout=9)
        assert got.status == 405
        with suppress(Interrupted):  # it may still send when we have had enough
            assert await telegram.post(b" " * (MAX_UPDATE + 1)) == 413
        # Requests with the secret are Telegram's: invalid ones must not be delivered again.
        for body in (b"", b"[]", b"{", b"1", b'"x"', b'{"update_id": "a"}', b"\xff"):
            assert await telegram.post(body) == 200
        assert await telegram.post(b'{"update_id": 3, "message": 5}') == 200


async def test_a_silent_or_invalid_client_does_not_block_others(
    tmp_path: Path, jumping_clock: MockClock
) -> None:
    async with webhook(tmp_path) as telegram, trio.open_nursery() as nursery:

        async def say(data: bytes) -> bytes:
            stream = await trio.open_tcp_stream(telegram.place[:-5], 8090)
            async with stream:
                await stream.send_all(data)
                return b"".join([part async for part in stream])

        assert (await say(b"\x16\x03\x01 garbage\r\n\r\n")).startswith(b"HTTP/1.1 400")
        assert (await say(b"GET / HTTP/1.1\r\nx: " + b"a" * 20_000)).startswith(b"HTTP/1.1 431")
        for _ in range(CONNECTIONS - 1):
            nursery.start_soon(say, b"POST / HTTP/1.1\r\n")
        assert await telegram.bring(telegram.update("still here")) == 200
        nursery.start_soon(say, b"")
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert await say(b"") == b""  # one too many
        await trio.sleep(HEAD_PATIENCE)
        assert await telegram.bring(telegram.update("places are free again", 2)) == 200
    assert telegram.house.texts == ["still here", "places are free again"]


async def test_our_webhook_is_removed_when_polling_replaces_it(
    tmp_path: Path, jumping_clock: MockClock
) -> None:
    async with webhook(tmp_path) as telegram:
        fake = telegram.fake
        url = fake.webhook
    async with fake_telegram() as fake, intake(fake) as house:
        fake.webhook = url
        fake.say("by poll")
        await house.until(lambda: house.inbound)
        assert not fake.webhook


async def test_failed_deliveries_are_reported_and_a_lost_webhook_is_set_again(
    tmp_path: Path, jumping_clock: MockClock
) -> None:
    async with webhook(tmp_path) as telegram:
        fake, house, url = telegram.fake, telegram.house, telegram.fake.webhook
        fake.webhook_error = "Wrong response from the webhook: 502 Bad Gateway"
        fake.say("waits")
        await trio.sleep(200)
        assert any("502 Bad Gateway" in error for error in house.troubles())
        fake.webhook_error = ""
        fake.webhook = "https://other.example/x"
        await trio.sleep(61)
        assert fake.webhook == url
        assert not house.troubles()


async def test_a_refused_address_needs_a_person(tmp_path: Path, jumping_clock: MockClock) -> None:
    async with (
        fake_telegram() as fake,
        intake(
            fake, webhook_url="http://plain.example", webhook_listen=place_of(tmp_path)
        ) as house,
    ):
        await trio.sleep(100)
        assert any("HTTPS URL must be provided" in wait for wait in house.waits())
        assert len(fake.calls) < 5
        fake.violations.clear()


async def test_an_address_in_use_is_reported_and_retried(
    tmp_path: Path, jumping_clock: MockClock
) -> None:
    [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    place = f"127.0.0.1:{listener.socket.getsockname()[1]}"
    client = Client()
    async with (
        fake_telegram() as fake,
        intake(fake, webhook_url=URL, webhook_listen=place) as house,
    ):
        await trio.sleep(6)
        assert any(f"cannot listen on {place}" in error for error in house.troubles())
        await listener.aclose()
        await trio.sleep(6)
        assert not house.troubles()
        path = fake.webhook.removeprefix("https://elwood.example")
        bring = partial(client.post_json, f"http://{place}{path}", read_timeout=9)
        answer = await bring(b"{}", headers={SECRET_HEADER: fake.webhook_secret})
        assert answer.status == 200
        await client.aclose()
