"""Outbox: the progress display, its timing and budgets."""

from itertools import pairwise

import pytest
import trio
from trio.testing import MockClock

from elwood.agent.channels.messages import Draft, Sent
from elwood.agent.conversation.route import Route
from elwood.features.telegram.pacing import Pacing
from tests.fake_telegram import OWNER, FakeTelegram, fake_telegram
from tests.features.telegram.neighbours import outbox

GROUP = Route("telegram", "-100123", private=False)
LINE = "⏳ run_command make test · {} s"


def texts(fake: FakeTelegram) -> list[tuple[int, str]]:
    return [(draft, text) for _, draft, text in fake.drafts]


async def test_a_draft_grows_and_skips_frames_without_budget(jumping_clock: MockClock) -> None:
    async with fake_telegram() as fake, outbox(fake, pacing=Pacing()) as out:
        out.draft("a")
        await fake.until(lambda: fake.drafts)
        for text in ("ab", "abc", "a"):  # within a second; the last one is a retry
            out.draft(text)
        await trio.sleep(1.5)
        out.draft("abc")
        out.typing()  # a draft is shown already
        await fake.until(lambda: len(fake.drafts) == 2)
        await trio.sleep(1.5)
        out.draft("another answer")
        await fake.until(lambda: len(fake.drafts) == 3)
        assert isinstance(await out.post("done"), Sent)
        assert texts(fake) == [(1, "a"), (1, "abc"), (2, "another answer")]
        assert not fake.actions


async def test_a_chat_shows_progress_while_a_tool_runs(jumping_clock: MockClock) -> None:
    """Text, and then 45 s of a tool: the draft stays, and a line shows the tool."""
    async with fake_telegram(clock=trio.current_time) as fake:
        fake.flood_limit = 5
        async with outbox(fake, pacing=Pacing()) as out:
            out.draft("Let me")
            await fake.until(lambda: fake.drafts)
            out.draft("Let me run the tests.")  # within a second, and nothing more comes
            seen, silent = trio.current_time(), 0.0
            for second in range(0, 46, 2):
                before = len(fake.calls)
                out.typing()
                if second >= 6:
                    out.runs(LINE.format(second))
                await trio.sleep(2)
                if len(fake.calls) > before:
                    silent, seen = max(silent, trio.current_time() - seen), trio.current_time()
            [line] = fake.sent
            assert line.params["disable_notification"]
            assert line.text in {LINE.format(second) for second in (38, 40, 42, 44)}
            assert silent < 10
            assert texts(fake)[:2] == [(1, "Let me"), (1, "Let me run the tests.")]
            assert set(texts(fake)[2:]) == {(1, "Let me run the tests.")}
            assert 3 <= len(fake.drafts) <= 6
            assert line.edits <= 8
            assert not fake.actions
            assert isinstance(await out.post("All pass."), Sent)
            await fake.until(lambda: fake.gone)
        assert fake.gone == {line.message_id}
        assert "disable_notification" not in fake.sent[1].params


async def test_typing_is_shown_while_there_is_no_draft(jumping_clock: MockClock) -> None:
    async with fake_telegram() as fake, outbox(fake, pacing=Pacing()) as out:
        for _ in range(20):
            out.typing()
            await trio.sleep(2)
        assert 9 <= len(fake.actions) <= 10


async def test_a_long_answer_continues_in_the_next_draft(jumping_clock: MockClock) -> None:
    lines = [f"Paragraph {number}: " + "word " * 100 for number in range(30)]
    async with fake_telegram() as fake, outbox(fake, pacing=Pacing()) as out:
        for count in range(1, 31):
            out.draft("\n\n".join(lines[:count]))
            await trio.sleep(2)
        shown: dict[int, list[str]] = {}
        for number, text in texts(fake):
            shown.setdefault(number, []).append(text)
        assert len(shown) == 5
        for frames in shown.values():
            assert all(b.startswith(a) for a, b in pairwise(frames))
            assert frames[0].startswith("Paragraph")
        assert fake.drafts[-1][2].endswith(lines[-1].strip())


async def test_in_a_group_the_line_is_below_the_text(jumping_clock: MockClock) -> None:
    async with fake_telegram() as fake, outbox(fake, pacing=Pacing()) as out:
        out.draft("I look.", route=GROUP)
        await fake.until(lambda: fake.sent)
        await trio.sleep(6)
        out.runs(LINE.format(6), route=GROUP)
        await fake.until(lambda: fake.sent[0].edits)
        assert fake.texts() == ["I look. …\n\n" + LINE.format(6)]
        await out.post("Done.", route=GROUP)
        await fake.until(lambda: fake.gone)
        assert fake.texts()[1:] == ["Done."]


async def test_two_topics_of_a_chat_have_separate_drafts(jumping_clock: MockClock) -> None:
    other = Route("telegram", str(OWNER), thread="7")
    async with fake_telegram() as fake, outbox(fake, pacing=Pacing()) as out:
        out.runs("⏳ one")
        out.runs("⏳ two", route=other)
        await fake.until(lambda: len(fake.sent) == 2)
        await out.post("done", route=other)
        await fake.until(lambda: fake.gone)
        assert fake.gone == {2}


async def test_nothing_is_shown_or_deleted_in_a_flood_wait(jumping_clock: MockClock) -> None:
    async with fake_telegram() as fake, outbox(fake, pacing=Pacing()) as out:
        out.runs("⏳ one")
        await fake.until(lambda: fake.sent)
        wait = {"retry_after": 30}
        fake.fault("deleteMessage", code=429, description="Too Many", parameters=wait)
        await out.post("done")
        await fake.until(lambda: fake.counts["deleteMessage error"])
        calls, began = len(fake.calls), trio.current_time()
        out.draft("more", draft=2000)
        out.typing()
        await fake.until(lambda: fake.gone)
        assert trio.current_time() - began >= 30
        assert len(fake.calls) == calls + 1


@pytest.mark.parametrize("is_on_its_way", [False, True])
async def test_an_orderly_stop_deletes_the_line(
    jumping_clock: MockClock, is_on_its_way: bool
) -> None:
    async with fake_telegram() as fake:
        async with outbox(fake) as out:
            out.runs(LINE.format(6))
            await fake.until(lambda: fake.sent)
            if not is_on_its_way:
                await trio.sleep(1)
        assert fake.gone == {1}


async def test_a_stop_during_the_answer_deletes_the_line_once(jumping_clock: MockClock) -> None:
    async with fake_telegram() as fake, trio.open_nursery() as nursery:
        async with outbox(fake) as out:
            out.runs(LINE.format(6))
            await fake.until(lambda: fake.sent)
            wait = {"retry_after": 1}
            fake.fault("sendMessage", code=429, description="Too Many", parameters=wait)
            nursery.start_soon(out.post, "done")
            await fake.until(lambda: fake.counts["sendMessage error"])
        assert fake.texts()[-1] == "done"
        assert fake.gone == {1}
        assert sum(n for what, n in fake.counts.items() if what.startswith("deleteMessage")) == 1


async def test_a_growing_text_is_redacted_once_a_second(jumping_clock: MockClock) -> None:
    """Also when the redacted text does not change."""
    looks = 0

    def redact(text: str) -> str:
        nonlocal looks
        looks += 1
        return text[:10]

    private = Route("telegram", str(OWNER))
    async with fake_telegram() as fake, outbox(fake, pacing=Pacing()) as out:
        for length in range(1, 300):
            for route in (private, GROUP):
                mail = Draft(route=route, draft=1, unredacted="a" * length, redact=redact)
                out.mailbox.address.offer(mail)
            await trio.sleep(0.01)
        assert looks <= 2 * 4
        assert [text for _, text in texts(fake)] == ["a", "a" * 10]
