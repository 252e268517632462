"""This version opens a state folder of an earlier Elwood, cut off by kill -9, and continues it.

tests/fixtures/README.md describes its content and how it was made.
"""

import json
import re
import tarfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from elwood.agent.approvals.state import ApprovalBook, ApprovalEntry
from elwood.agent.conversation.route import Route
from elwood.agent.models.ledger import Charged, Ledger
from elwood.agent.session.log.entries import CallStarted, Entry, Received, Replied
from elwood.agent.session.log.state import Session
from elwood.features.tasks.state import Timetable, TimetableEntry
from elwood.foundation.storage.journal import replay, verify
from tests.fake_model_rules import Bindings, Json
from tests.fake_models import obey
from tests.fake_telegram import OWNER, SentMessage
from tests.journeys import dated
from tests.journeys.service import QUESTION, ROOT, Town, town

# By schema version (`foundation/storage/version.py`).
ARCHIVES = {1: ROOT / "tests" / "fixtures" / "state-47105e8.tar.gz"}
CLOSED = ROOT / "tests" / "fixtures" / "closed-9126c8d.tar.gz"
KINDS: dict[str, tuple[Any, type[Any]]] = {
    "approvals.jsonl": (ApprovalEntry, ApprovalBook),
    "usage.jsonl": (Charged, Ledger),
    "schedule.jsonl": (TimetableEntry, Timetable),
}
# Unix time: forty seconds after the kill. Permissions, questions and tasks end or begin later.
AT = 1_795_372_800.0
# Update and message ids not used yet by the bot's server.
NEXT_UPDATE, NEXT_MESSAGE = 2000, 500
GUEST, GROUP = 2002, -100500
SESSIONS = {"tg-1001": 31, "tg-2002": 3, "tg--100500": 1, "task-harbour-news": 1}
OWNER_OF_IT = """
[owner]
name = "Ann"
timezone = "Europe/Berlin"
[learning]
mode = "off"
"""
# Prefix of the notice about a HEARTBEAT.md entry whose time format is no longer supported.
NOT_READ = "I ignore these parts of HEARTBEAT.md:\nHEARTBEAT.md, line 3"
INVITATION = "Come aboard on Friday."
NEW_CENTURY = re.compile("next Thu.*2099.* 18:00 CET")
PERMITTED = 'Greet them\n/call send_message {"to": "tg:2002", "text": "Ahoy from Ann!"}'


class Elsewhere(Bindings):
    """Accepts the signatures made before the test began."""

    def problem(self, body: Json) -> None:
        """Return no problem."""


@contextmanager
def open_archive(path: Path) -> Iterator[tarfile.TarFile]:
    """Open a fixture archive, whose members are extracted unchanged."""
    with tarfile.open(path) as archive:
        # Not an argument of extractall, which has no such argument before Python 3.11.4.
        archive.extraction_filter = lambda member, folder: member
        yield archive


@asynccontextmanager
async def make_old_town(folder: Path, *, empty: bool = False) -> AsyncIterator[Town]:
    """Create a town with the old state, or empty, at the time of that state."""
    async with town(folder, free=(), more=OWNER_OF_IT, ahead=AT - time.time()) as here:
        here.models.otherwise = obey
        here.models.bindings = Elsewhere()
        here.telegram.go_on(NEXT_UPDATE, NEXT_MESSAGE)
        if not empty:
            with open_archive(ARCHIVES[1]) as archive:
                archive.extractall(folder)
        yield here


def other_messages(here: Town, chat: int | None = None) -> list[str]:
    """Return messages sent (in *chat*), without the notices of each start."""
    return [text for text in here.sent_texts(chat) if not text.startswith(NOT_READ)]


async def say(here: Town, text: str, chat: int = OWNER) -> str:
    """Send a message, and wait for the next answer in that chat."""
    before = len(other_messages(here, chat))
    here.telegram.say(text, chat=chat, user=chat)
    await here.until(lambda: len(other_messages(here, chat)) > before)
    return other_messages(here, chat)[-1]


def questions(here: Town) -> list[SentMessage]:
    """List the questions about calls with open buttons."""
    return [sent for sent in here.open_questions() if QUESTION in sent.text]


async def wait_for_question(here: Town) -> SentMessage:
    """Wait for the only question."""
    await here.until(lambda: questions(here))
    [found] = questions(here)
    return found


async def catch_up(here: Town) -> None:
    """Start, and wait until the interrupted work has ended."""
    await here.start()
    await here.until(lambda: other_messages(here, OWNER) and other_messages(here, GUEST))
    await wait_for_question(here)


async def run_command(here: Town, *arguments: str) -> str:
    """Run a successful command; return its output."""
    done = await here.command(*arguments)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def request_text(body: Json) -> str:
    """Return all messages of a request as text."""
    return json.dumps(body["messages"])


def outcomes(here: Town) -> tuple[Counter[str], Counter[str]]:
    """Count, by message, how often it was accepted and how often answered."""
    entries = [entry for journal in here.journals().values() for entry in journal]
    received = Counter(e.id for e in entries if isinstance(e, Received))
    return received, Counter(id_ for e in entries if isinstance(e, Replied) for id_ in e.inputs)


async def test_interrupted_work_is_finished_once(tmp_path: Path) -> None:
    async with make_old_town(tmp_path / "old") as here:
        await catch_up(here)
        asked = await wait_for_question(here)
        assert INVITATION in asked.text
        here.telegram.press(asked.button("o"), message=asked)
        # The policy has changed since then, so that yes does not count (AP-26).
        await here.until(lambda: questions(here) and questions(here) != [asked])
        again = questions(here)[-1]
        assert INVITATION in again.text
        assert INVITATION not in other_messages(here, GUEST)
        here.telegram.press(again.button("o"), message=again)
        await here.until(lambda: INVITATION in other_messages(here, GUEST))
        await here.until(
            lambda: any("allowed once by you" in text for text in other_messages(here, OWNER))
        )
        await here.stop()
        before = other_messages(here)
        await here.start()
        await say(here, "Is there anything left?")
        await here.stop()

        assert [text for text in other_messages(here, OWNER) if "Halibut ready" in text] == [
            "You said: Is the Halibut ready?"
        ]
        assert other_messages(here, GUEST) == ["(again) You said: Good night, Elwood", INVITATION]
        assert other_messages(here) == [*before, "You said: Is there anything left?"]
        started = [e for e in here.journals()["tg-1001"] if isinstance(e, CallStarted)]
        assert len({(e.turn, e.call) for e in started}) == len(started)
        received, answered = outcomes(here)
        assert received == answered
        assert set(received.values()) == {1}
        await here.verify_receipts()


async def test_the_conversation_continues_with_its_history(tmp_path: Path) -> None:
    async with make_old_town(tmp_path / "old") as here:
        await catch_up(here)
        assert await say(here, "Where do I live?") == "You said: Where do I live?"
        first = here.models.bodies[-1]
        assert await say(here, "And with whom?") == "You said: And with whom?"
        second = here.models.bodies[-1]

        for words in ("I have moved to Oslo", "sail to Stavanger", "Is the Halibut ready?"):
            assert words in request_text(first)
        # An archived conversation, and a retracted turn.
        for words in ("parcel 150", "sail to Bergen"):
            assert words not in request_text(first)
        calls = [
            block["name"]
            for message in first["messages"]
            if message["role"] == "assistant"
            for block in message["content"]
            if block["type"] == "tool_use"
        ]
        assert {"list_files", "write_file", "edit_file", "forget_memory", "schedule"} <= {*calls}
        soul = (here.folder / "workspace" / "SOUL.md").read_text().strip()
        assert soul in "\n".join(block["text"] for block in first["system"])
        assert (second["system"], second["tools"]) == (first["system"], first["tools"])
        assert request_text(second).startswith(
            request_text({"messages": first["messages"][:-1]}).removesuffix("]")
        )

        # The permanent permission is stored, but the tool has changed, so it needs a new one.
        assert "always: send_message To Ann (tg:2002)" in await say(here, "/approvals")
        here.telegram.say(PERMITTED)
        await here.until(lambda: questions(here) and "Ahoy from Ann!" in questions(here)[-1].text)
        asked = questions(here)[-1]
        here.telegram.press(asked.button("o"), message=asked)
        await here.until(
            lambda: "✓ send_message tg:2002 · allowed once" in other_messages(here, OWNER)[-1]
        )
        assert other_messages(here, GUEST)[-1] == "Ahoy from Ann!"

        assert "blue" in await say(here, 'Look\n/call search_memory {"query": "Halibut"}')
        memory = await say(here, "/memory")
        assert "boat: Ann's boat is called Halibut" in memory
        assert "Herring" not in memory

        tasks = await say(here, "/tasks")
        assert re.search("next tomorrow.* 07:30 CET; last today.* 19:38 CET: done", tasks)
        assert NEW_CENTURY.search(tasks)
        assert "paused by the owner" in tasks
        await here.until(lambda: any(text.startswith(NOT_READ) for text in here.sent_texts(OWNER)))
        assert "useless" not in tasks
        assert "kettle" not in tasks

        assert "3 before the trip" in await say(here, "/sessions")
        await say(here, "/resume before the trip")
        await say(here, "Where are we?")
        assert "plants" in request_text(here.models.bodies[-1])
        assert "Stavanger" not in request_text(here.models.bodies[-1])
        await say(here, "/resume 1")
        await say(here, "What do I like?")
        assert "parcel 7 is at the harbour" in request_text(here.models.bodies[-1])

        # Admitted guests stay admitted, and refused people stay refused.
        assert await say(here, "Hello again", GUEST) == "You said: Hello again"
        here.telegram.say("And me?", chat=3003, user=3003)
        await here.until(lambda: not here.telegram.unconfirmed)
        assert other_messages(here, 3003) == []
        await here.stop()
        await here.verify_receipts()
        assert undocumented_files(here.state) <= {"heard.json", "learning.day", "skills"}  # unread


def undocumented_files(state: Path) -> set[str]:
    """List files in *state* that the operator's table of it does not name."""
    [table] = re.findall(r"## Files\n(.+?)\n\n", (ROOT / "docs/guides/files.md").read_text(), re.S)
    known = re.findall(r"`([^`]+)`", "".join(re.findall(r"^\| [^|]*", table, re.M)))
    names = {path.name for path in state.iterdir()}
    return {name for name in names if not any(fnmatch(name, it.strip("/")) for it in known)}


async def test_the_cli_reads_the_old_records(tmp_path: Path) -> None:
    async with make_old_town(tmp_path / "old") as here:
        await here.verify_receipts()
        receipts = json.loads(await run_command(here, "receipts", "--json"))
        assert Counter(one["outcome"] for one in receipts) == {
            "ok": 21,
            "denied": 1,
            "unknown": 1,
            "waiting": 1,
        }
        assert {one["ruling"].partition(" ")[0] for one in receipts} == {
            "",
            "once",
            "always",
            "standing",
            "denied",
        }
        listed = json.loads(await run_command(here, "session", "list", "--json"))
        assert {
            one["conversation"]: one["turns"] for one in listed if one["conversation"] in SESSIONS
        } == SESSIONS
        assert "Halibut" in await run_command(here, "memory", "search", "blue boat")
        shown = await run_command(here, "session", "show", "tg-2002")
        assert "Good night, Elwood" in shown
        [backup] = (await run_command(here, "backup", "list")).splitlines()[1:]
        assert " kB " in backup  # a backup is verified when it is restored: see below


def test_an_old_closed_log_begins_with_the_same_state(tmp_path: Path) -> None:
    """The states at the heads of closed logs are a format, like the entries."""
    with open_archive(CLOSED) as archive:
        archive.extractall(tmp_path)
    closed = sorted(tmp_path.rglob("*.jsonl"))
    assert len(closed) == 9
    for path in closed:
        entries, kind = KINDS.get(path.name, (Entry, Session))
        state, _ = replay(path, entries, kind)
        then = json.loads(path.read_bytes())["state"]
        assert contains(json.loads(msgspec.json.encode(state)), then)
        assert verify(path).gone


def contains(now: Json, then: Json) -> bool:
    """Return True if *now* contains all of *then*; it may have more fields."""
    if isinstance(then, dict) and {"channel", "chat"} <= then.keys():
        then = msgspec.to_builtins(msgspec.convert(then, Route))  # its ids were integers
    if isinstance(now, dict) and isinstance(then, dict):
        then.pop("has_acted", None)  # removed: the receipts tell it
        return all(key in now and contains(now[key], value) for key, value in then.items())
    if isinstance(now, list) and isinstance(then, list):
        return len(now) == len(then) and all(map(contains, now, then))
    return bool(now == then)


async def test_an_old_backup_is_restored_elsewhere(tmp_path: Path) -> None:
    with open_archive(ARCHIVES[1]) as archive:
        [member] = [one for one in archive.getmembers() if "/backups/" in one.name]
        archive.extract(member, tmp_path)
    async with make_old_town(tmp_path / "new", empty=True) as here:
        await run_command(here, "backup", "restore", str(tmp_path / member.name), "--yes")
        await here.verify_receipts()
        await here.start()
        # Messages up to the second of the restore may have been answered by the replaced state.
        here.telegram.clock = dated.clock_ahead(AT - time.time() + 3600)
        here.telegram.say("Are you well?", chat=OWNER, user=OWNER)
        await here.until(lambda: "You said: Are you well?" in other_messages(here, OWNER))
        assert "sail to Stavanger" in request_text(here.models.bodies[-1])
        assert "No question is waiting for you" in await say(here, "/approvals")
        assert NEW_CENTURY.search(await say(here, "/tasks"))
        for asked in questions(here):  # closed, even if its buttons are still shown
            query = here.telegram.press(asked.button("o"), message=asked)
            await here.until(partial(here.telegram.answered.get, query))
        await here.stop()
        await here.verify_receipts()
        assert INVITATION not in other_messages(here, GUEST)
