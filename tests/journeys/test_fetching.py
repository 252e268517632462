"""Files and recordings are accepted immediately, and fetched at the beginning of their turn."""

import pytest
import trio

from elwood.agent.conversation.message import Completion
from elwood.agent.media.settings import MediaSettings
from elwood.agent.models.client import ModelRequest
from elwood.agent.session.log.entries import Fetched, Received, Replied
from tests.fake_http import Reply, Request, json_reply
from tests.fake_telegram import OWNER
from tests.journeys.home import OTHER, OTHERS, Home, Life, follow_message

# Seconds that the service needs for a recording.
LONG = 100.0
FETCHING = "listening to the voice message, 0:12"


class Ears:
    """A transcription service with a set delay; it fails if there are no words."""

    def __init__(self, h: Home, seconds: float = LONG) -> None:
        self.seconds = seconds
        self.heard: list[str] = []
        h.settings["media"] = MediaSettings(transcription_url=h.network.serve(self._answer))

    async def _answer(self, asked: Request) -> Reply:
        [(_, data)] = asked.form()[1].values()
        words = data.removeprefix(b"OggS").decode()
        self.heard.append(words)
        await trio.sleep(self.seconds)
        return json_reply({"text": words}, 200 if words else 500)


def speak(h: Home, words: bytes = b"buy milk", **more: object) -> None:
    h.fake.say(None, voice=h.fake.voice(words), **more)


async def until_running(h: Home, life: Life) -> None:
    """Wait until the open turn fetches a voice message."""
    await life.until(lambda: (turn := h.fold().turn) and FETCHING in turn.running)


def transcript(h: Home, request: int = -1) -> str:
    """Return the recordings' text in the request, without the time and the stored files."""
    texts = [str(getattr(message, "text", "")) for message in h.asked[request].messages]
    shown = next(text for text in reversed(texts) if "[machine transcript" in text)
    return shown.partition("]\n[")[2].partition("]\n")[2]


async def test_messages_do_not_wait_for_a_slow_recording(h: Home) -> None:
    Ears(h)
    async with h.life() as life:
        began = trio.current_time()
        speak(h)
        h.fake.say("and bread")
        h.fake.say("/status")
        await life.until(lambda: h.texts())
        assert not h.fake.unconfirmed
        assert trio.current_time() - began < 5
        assert h.texts()[0].startswith(f"I am {FETCHING}.")
        assert not h.asked
        await trio.sleep(10)
        assert h.fake.actions.count(OWNER) > 1, "it is shown as typing"
        assert any(FETCHING in text for text in h.texts()), "and that it fetches, as time passes"
        await life.wait_until_idle()
        assert trio.current_time() - began < LONG + 20
        assert len(h.asked) == 1
        shown = [getattr(message, "text", "") for message in h.asked[0].messages]
        assert shown[-2].endswith("[machine transcript of a voice message, 0:12]\nbuy milk")
        assert shown[-1].endswith("\nand bread"), "in the order in which they were sent"
    assert h.broken_promises() == []


async def test_a_slow_download_does_not_block_the_chat(h: Home) -> None:
    async with h.life() as life:
        document = h.fake.file(b"words", file_name="a.txt")
        h.fake.slow[document["file_id"]] = 25.0
        h.fake.say("read this", document=document)
        h.fake.say("/status")
        await life.until(lambda: h.texts())
        assert h.texts()[0].startswith("I am fetching the document.")
        await life.wait_until_idle()
        assert h.texts()[-1].endswith("\nread this")
    assert h.broken_promises() == []


async def test_a_spoken_stop_stops_earlier_work_only(h: Home) -> None:
    ears = Ears(h, 1.0)

    async def think(request: ModelRequest) -> Completion:
        await trio.sleep(20)
        return follow_message(request)

    h.think = think
    async with h.life() as life:
        speak(h, b"Stop!")
        await life.wait_until_idle()
        assert len(h.texts()) == 1
        assert h.texts()[0].endswith("Stop!")
        h.fake.say("write a poem")
        await life.until(lambda: len(h.asked) == 2)
        speak(h, b"Stop!")
        await life.until(lambda: len(h.texts()) > 1)
        await life.wait_until_idle()
        assert h.texts()[1] == "Stopped. I was still writing the answer."
        assert (len(h.asked), len(ears.heard)) == (2, 2)
    assert h.broken_promises() == []


@pytest.mark.parametrize("words", ["/stop", "stop!"])
async def test_a_stop_ends_the_fetch_and_a_retry_fetches_again(h: Home, words: str) -> None:
    ears = Ears(h)
    async with h.life() as life:
        await life.say("hello")
        speak(h)
        await until_running(h, life)
        began = trio.current_time()
        await life.say(words)
        assert trio.current_time() - began < 10
        assert h.texts()[-1] == f"Stopped. I was still {FETCHING}."
        assert len(h.asked) == 1
        assert "[a voice message that was not fetched]" in str(h.fold().messages)
        ears.seconds = 1.0
        await life.say("/retry")
        assert transcript(h) == "[machine transcript of a voice message, 0:12]\nbuy milk"
        await life.say("/undo", "what did I say?")
        assert "buy milk" not in str(h.asked[-1].messages)
        assert "hello" in str(h.asked[-1].messages)
    assert h.broken_promises() == []


async def test_a_recording_after_a_stopped_turn_can_still_be_answered(h: Home) -> None:
    Ears(h, 1.0)
    async with h.life() as life:
        h.effects.hang = trio.Event()
        h.fake.say("call hang")
        await h.effects.hang.wait()
        speak(h)
        await life.say("/stop")
        assert "Not answered yet: “(voice message)”." in h.texts()[-1]
        found = h.fake.button("Answer it now")
        assert found is not None
        h.fake.press(found[0], message=found[1])
        await life.wait_until_idle()
        assert transcript(h).endswith("\nbuy milk")
    assert h.broken_promises() == []


async def test_slow_recordings_do_not_delay_other_chats(h: Home) -> None:
    ears = Ears(h)
    async with h.life() as life:
        for topic in range(7, 13):
            speak(h, message_thread_id=topic, is_topic_message=True)
        await life.until(lambda: len(ears.heard) == 4)
        began = trio.current_time()
        document = h.fake.file(b"words", file_name="a.txt")
        await life.until(lambda: not h.fake.unconfirmed)
        h.fake.say("read this", chat=OTHER, user=OTHER, document=document)
        await life.until(lambda: h.texts(OTHER))
        assert trio.current_time() - began < 5
        assert len(ears.heard) == 4, "so many at the same time"
        await life.wait_until_idle(1000)
        assert len(ears.heard) == 6
        assert "words" in str(h.fold(OTHERS).messages)
    assert h.broken_promises() == []


@pytest.mark.parametrize(
    ("place", "heard"),
    [
        ("after sync received", 1),
        ("before write fetched", 2),
        ("torn write fetched", 2),
        ("after sync fetched", 1),
        ("before write replied", 1),
        ("after sync replied", 1),
    ],
)
async def test_a_transcript_is_not_paid_for_twice_after_a_kill(
    h: Home, place: str, heard: int
) -> None:
    ears = Ears(h, 2.0)
    h.kill(place)
    async with h.life() as life:
        speak(h)
        await life.wait_for_kill()
    async with h.life() as life:
        await life.wait_until_idle()
    assert len(ears.heard) == heard
    assert transcript(h) == "[machine transcript of a voice message, 0:12]\nbuy milk"
    assert len({text.removeprefix("(again) ") for text in h.texts()}) == 1
    assert sum(isinstance(entry, Replied) for entry in h.entries()) == 1
    assert len([*(h.folder / "workspace" / "received").rglob("*.ogg")]) == 1
    assert h.broken_promises() == []


@pytest.mark.parametrize(
    "place", ["", "after sync fetched", "before write joined", "after sync joined"]
)
async def test_a_failed_fetch_is_reported_once_with_the_answer(h: Home, place: str) -> None:
    Ears(h, 1.0)
    if place:
        h.kill(place)
    async with h.life() as life:
        speak(h, b"", caption="what is this?")
        await (life.wait_for_kill() if place else life.wait_until_idle())
    async with h.life() as life:
        await life.wait_until_idle()
    assert len(h.asked) == 1
    [trouble, answer] = [text.removeprefix("(again) ") for text in h.texts()]
    assert trouble.startswith("I could not transcribe the voice message: the transcription service")
    assert answer.endswith(f"[{trouble}]\nwhat is this?")
    assert h.broken_promises() == []


async def test_an_unfetchable_file_without_text_costs_no_model_call(h: Home) -> None:
    async with h.life() as life:
        speak(h)
        await life.wait_until_idle()
        assert not h.asked
        [told] = h.texts()
        assert "I cannot understand voice messages yet" in told
        await life.say("what did I send?")
        assert told in str(h.asked[0].messages), "the model knows of it afterwards"
    assert h.broken_promises() == []


async def test_a_transcript_is_never_a_command(h: Home) -> None:
    """Commands are typed: a transcription error must not stop or begin anything."""
    Ears(h, 1.0)
    async with h.life() as life:
        h.effects.hang = trio.Event()
        h.fake.say("call hang")
        await h.effects.hang.wait()
        speak(h, b"stop")
        await trio.sleep(5)
        assert h.fold().turn is not None
        await life.say("/stop")
        for words in (b"/new", b"stop"):
            speak(h, words)
            await life.wait_until_idle()
            assert transcript(h).endswith(f"\n{words.decode()}")
        speak(h, b"the password=hunter2 is what I use there")
        await life.wait_until_idle()
        assert "password=***" in transcript(h)
        assert "hunter2" not in h.journal().read_text()
    assert h.broken_promises() == []


async def test_the_owners_recording_is_trusted_and_files_are_not(h: Home) -> None:
    Ears(h, 1.0)
    async with h.life() as life:
        speak(h, b"look at https://mine.example")
        await life.wait_until_idle()
        assert not h.fold().taint.sources
        assert "mine.example" in str(h.fold().named)
        document = h.fake.file(b"words", file_name="a.txt")
        h.fake.say("and at https://theirs.example", document=document)
        await life.wait_until_idle()
        [source] = h.fold().taint.sources
        assert source.endswith("a.txt")
        assert "theirs.example" not in str(h.fold().named), "as it came with a stranger's file"
    assert h.broken_promises() == []


async def test_a_new_conversation_ends_the_fetch(h: Home) -> None:
    Ears(h)
    async with h.life() as life:
        speak(h)
        await until_running(h, life)
        await life.say("/new")
        assert h.texts()[0] == f"Stopped. I was still {FETCHING}."
        assert h.texts()[1].startswith("This is a new conversation.")
        assert h.fold().path == []
    assert h.broken_promises() == []


async def test_a_message_is_on_disk_before_it_is_confirmed(h: Home) -> None:
    Ears(h)
    async with h.life() as life:
        speak(h)
        await life.until(lambda: not h.fake.unconfirmed)
        [received] = [one for one in h.entries() if isinstance(one, Received)]
        assert [(file.kind, file.is_speech) for file in received.pending] == [
            ("voice message", True)
        ]
        life.kill()
    h.fake.forget()
    async with h.life() as life:
        await life.wait_until_idle()
    assert sum(isinstance(one, Fetched) for one in h.entries()) == 1
    assert h.broken_promises() == []


async def test_hostile_names_do_no_harm(h: Home) -> None:
    async with h.life() as life:
        for name in ("half \ud83d.txt", "../../x\0y\n.txt", "\u202e" * 4000 + ".txt"):
            document = h.fake.file(b"words", file_name=name)
            h.fake.say("read this", document=document)
            await life.wait_until_idle()
            assert h.texts()[-1].endswith("\nread this")
    assert len([*(h.folder / "workspace" / "received").rglob("*.txt")]) == 3
    assert h.broken_promises() == []
