"""Both ends against a Bot API that others wrote: ``--telegram-double FOLDER`` installs it there.

It is npm's telegram-test-api, which knows messages and buttons of private chats; no secret of a
webhook, no drafts, and no rule that it would refuse anything by.
"""

import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import msgspec
import pytest
import trio

from elwood.agent.channels.messages import Button, Sent
from elwood.foundation.net.http import Client
from elwood.foundation.text.markdown import to_entities
from tests.fake_telegram import OWNER, TOKEN, FakeTelegram
from tests.features.telegram.neighbours import intake, outbox

PACKAGE = "telegram-test-api@4.2.1"
SCRIPT = """
const Server = require('telegram-test-api');
const net = require('net').createServer();
net.listen(0, '127.0.0.1', () => {
  const port = net.address().port;
  net.close(async () => {
    await new Server({port, host: '127.0.0.1'}).start();
    console.log(port);
  });
});
"""


@pytest.fixture(scope="module")
def installed(pytestconfig: pytest.Config) -> Path:
    """Install it, unless it is there; skip where that cannot be."""
    given = pytestconfig.getoption("--telegram-double")
    if given is None:
        pytest.skip("NOT TESTED AGAINST ANOTHER BOT API: say --telegram-double FOLDER")
    npm, node = shutil.which("npm"), shutil.which("node")
    if npm is None or node is None:
        pytest.skip("NOT TESTED AGAINST ANOTHER BOT API: no node, or no npm")
    folder = Path(given).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "node_modules" / "telegram-test-api").exists():
        install = [npm, "install", "--silent", "--no-audit", PACKAGE]
        if subprocess.run(install, cwd=folder, check=False).returncode:
            pytest.skip("NOT TESTED AGAINST ANOTHER BOT API: its registry is not reached")
    return folder


@attrs.frozen
class Double:
    """The running double, and the actions of a person there."""

    fake: FakeTelegram
    client: Client

    async def post(self, path: str, **given: Any) -> Any:
        body = msgspec.json.encode(given)
        answer = await self.client.post_json(f"{self.fake.url}/{path}", body, read_timeout=9)
        return msgspec.json.decode(answer.body)

    async def act(self, path: str, **more: Any) -> None:
        person = {"id": OWNER, "first_name": "Ann", "is_bot": False}
        chat = {"id": OWNER, "first_name": "Ann", "type": "private"}
        await self.post(path, botToken=TOKEN, date=1, **{"from": person, "chat": chat} | more)

    async def shown(self) -> list[dict[str, Any]]:
        """The bot's messages in the chat."""
        history = (await self.post("getUpdatesHistory", token=TOKEN))["result"]
        return [one["message"] for one in history if "chat_id" in one["message"]]


@asynccontextmanager
async def double(folder: Path) -> AsyncIterator[Double]:
    """Run it."""
    fake, client = FakeTelegram(), Client()
    async with trio.open_nursery() as nursery:
        run = partial(trio.run_process, stdout=subprocess.PIPE, cwd=folder, check=False)
        process = await nursery.start(run, ["node", "-e", SCRIPT])
        with trio.fail_after(30):
            fake.port = int(await process.stdout.receive_some())
        yield Double(fake, client)
        await client.aclose()
        nursery.cancel_scope.cancel()


async def test_messages_and_presses_are_handed_on(installed: Path) -> None:
    async with double(installed) as there, intake(there.fake) as house:
        with trio.fail_after(20):
            await there.act("sendMessage", text="hello 😀")
            await there.act("sendCommand", text="/stop", entities=[{"type": "bot_command"}])
            await house.until(lambda: len(house.inbound) == 2)
            assert house.texts == ["hello 😀", "/stop"]
            shown = {"message_id": 7, "date": 1, "chat": {"id": OWNER, "type": "private"}}
            await there.act("sendCallback", data="p:ABCD2345:y", message=shown)
            await house.until(lambda: house.presses)
        assert house.presses[0].data == "p:ABCD2345:y"


async def test_sent_messages_are_shown(installed: Path) -> None:
    async with double(installed) as there, outbox(there.fake) as out:
        with trio.fail_after(20):
            part = to_entities("**bold** 😀")
            sent = await out.post("", part=part, buttons=(Button("Yes", "p:x:y"),))
            assert isinstance(sent, Sent)
            [message] = await there.shown()
            assert message["text"] == "bold 😀"
            assert message["entities"] == [{"type": "bold", "offset": 0, "length": 4}]
            assert message["reply_markup"]["inline_keyboard"] == [
                [{"text": "Yes", "callback_data": "p:x:y"}]
            ]
            assert isinstance(await out.post("x" * 5000), Sent)
            assert [len(one["text"]) for one in await there.shown()] == [6, 4096, 904]
