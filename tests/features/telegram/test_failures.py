"""The 37 rows of telegram_failures.jsonl, each in a test with its id.

For rows that concern a session (dedupe, edits, a full queue) these tests check that Intake passes
the necessary data on.
"""

import logging
import re
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
import trio.testing
from trio.testing import MockClock

from elwood.agent.channels.messages import Button, Sent, Undeliverable, Unsent, Unsure
from elwood.agent.channels.pacing import Bucket
from elwood.agent.conversation.inbound import Busy, CommandResult, Taken
from elwood.agent.conversation.route import Route
from elwood.agent.people.messages import Known, Stranger
from elwood.features.telegram.channel import route_to
from elwood.features.telegram.client import FAILURES, Bot, TelegramError, explain
from elwood.features.telegram.outbox import JITTER
from elwood.features.telegram.pacing import Pacing
from elwood.features.telegram.settings import TelegramSettings
from elwood.foundation.net.http import Client, Unreachable
from elwood.foundation.secrets.redaction import Secret
from elwood.foundation.text.markdown import Entity, Rich
from tests.fake_http import Reply, Request, json_reply, serving, whole
from tests.fake_telegram import OWNER, TOKEN, fake_telegram
from tests.features.telegram.neighbours import HOME, intake, outbox, settings
from tests.telegram_rules import Rates

CORPUS = Path(__file__).parents[2] / "corpora" / "telegram_failures.jsonl"
GROUP = -100123


class Row(msgspec.Struct):
    id: str


def test_every_row_has_its_test() -> None:
    rows = {msgspec.json.decode(line, type=Row).id for line in CORPUS.read_bytes().splitlines()}
    named = re.findall(r"^(?:async )?def test_tg_((?:\d\d_)+)", Path(__file__).read_text(), re.M)
    assert {f"TG-{number}" for one in named for number in one.split("_")[:-1]} == rows
    assert len(rows) == 37


async def test_tg_01_a_second_poller_is_left_alone_after_three_tries(
    jumping_clock: MockClock,
) -> None:
    async with fake_telegram() as fake:
        conflict = "Conflict: terminated by other getUpdates request"
        fake.fault("getUpdates", times=4, code=409, description=conflict)
        async with intake(fake) as house:
            await fake.until(lambda: fake.counts["getUpdates error"] == 4)
            polls, began = len(fake.calls), trio.current_time()
            fake.say("after")
            await trio.testing.wait_all_tasks_blocked()
            assert any("another program polls" in wait for wait in house.waits())
            assert len(fake.calls) == polls  # no busy loop
            await house.until(lambda: house.inbound)  # and it looks again, slowly
            assert trio.current_time() - began >= 200


async def test_tg_01_one_conflict_after_an_outage_is_not_a_second_poller(
    jumping_clock: MockClock,
) -> None:
    """The server still holds our own earlier poll."""
    async with fake_telegram() as fake:
        conflict = "Conflict: terminated by other getUpdates request"
        fake.fault("getUpdates", times=4, code=502, description="Bad Gateway")
        fake.fault("getUpdates", times=1, code=409, description=conflict)
        fake.say("after")
        async with intake(fake) as house:
            began = trio.current_time()
            await house.until(lambda: house.inbound)
            assert trio.current_time() - began < 60


async def test_tg_02_a_foreign_webhook_stops_the_channel(jumping_clock: MockClock) -> None:
    async with fake_telegram() as fake:
        fake.webhook = "https://evil.example/secret-path"
        async with intake(fake) as house:
            await fake.until(lambda: fake.counts["getWebhookInfo ok"])
            await trio.testing.wait_all_tasks_blocked()
            (wait,) = [w for w in house.waits() if "webhook" in w]
            assert "evil.example" in wait
            assert "secret-path" not in wait
            assert fake.webhook
        fake.say("waiting")
        async with intake(fake, delete_webhook=True) as house:
            await house.until(lambda: house.inbound)
            assert house.texts == ["waiting"]


async def test_tg_03_a_429_pauses_that_chat_until_the_wait_is_over(
    jumping_clock: MockClock,
) -> None:
    async with fake_telegram(clock=trio.current_time) as fake:
        fake.flood_limit, fake.flood_wait = 2, 7
        async with outbox(fake) as out, trio.open_nursery() as nursery:
            for n in range(6):
                nursery.start_soon(out.post, str(n))
            await fake.until(lambda: len(fake.sent) == 2)
            out.draft("a frame")
            out.typing()
            assert isinstance(await out.post("other", route=Route("telegram", "5")), Sent)
            await fake.until(lambda: len(fake.sent) == 7)
        refused = [key for key in fake.counts if "429" in key]
        # Two floods for six messages at two a flood; no call was made during a wait, nor right at
        # its end: the wait is extended at random, here by half of the maximum.
        times = [message.at for message in fake.sent if message.text != "other"]
        pauses = [later - sooner for sooner, later in pairwise(times) if later - sooner > 1]
        assert [pause % 1 for pause in pauses] == [JITTER / 2, JITTER / 2]
        assert sum(fake.counts[key] for key in refused) == 2
        assert not fake.drafts
        assert not fake.actions


async def test_tg_04_unparsable_formatting_is_sent_as_plain_text() -> None:
    async with fake_telegram() as fake, outbox(fake) as out:
        wrong = Rich("short", (Entity("bold", 0, 500),))
        assert isinstance(await out.post("", part=wrong), Sent)
        assert fake.texts() == ["short"]
        assert "entities" not in fake.sent[0].params
        assert len(fake.violations) == 1
        fake.violations.clear()
        fake.fault("sendMessage", code=400, description="Bad Request: something new")
        assert isinstance(await out.post("", part=Rich("b", (Entity("bold", 0, 1),))), Sent)
        fake.fault("sendMessage", times=2, code=400, description="Bad Request: something new")
        assert isinstance(await out.post("c"), Undeliverable)


async def test_tg_05_a_long_text_is_split() -> None:
    async with fake_telegram() as fake, outbox(fake) as out:
        text = "\n\n".join("😀" * 700 for _ in range(5))
        assert isinstance(await out.post(text, buttons=(Button("Yes", "a"),)), Sent)
        assert "".join(fake.texts()).replace("\n", "") == text.replace("\n", "")
        assert len(fake.sent) > 1
        assert [m.buttons for m in fake.sent] == [[]] * (len(fake.sent) - 1) + [["a"]]
        fake.fault("sendMessage", code=400, description="Bad Request: message is too long")
        assert isinstance(await out.post("one two"), Sent)
        assert fake.texts()[-2:] == ["one", "two"]


async def test_tg_06_07_29_edits_and_buttons_follow_the_rules() -> None:
    """An equal text is a success, a lost message is an error, and a button has 64 bytes."""
    async with fake_telegram() as fake:
        client = Client()
        bot = Bot(settings(fake), client)
        number = await bot.send_message(OWNER, "same")
        await bot.edit_message_text(OWNER, number, "same")
        assert fake.counts["editMessageText ok"] == 0
        await bot.edit_message_text(OWNER, number, "other")
        assert fake.texts() == ["other"]
        with pytest.raises(TelegramError) as raised:
            await bot.edit_message_text(OWNER, 99, "x")
        assert raised.value.mentions("message to edit not found")
        await bot.send_message(OWNER, "x", buttons=[("Yes", "a" * 64)])
        for data in ("", "é" * 33):
            with pytest.raises(ValueError, match="64 bytes"):
                await bot.send_message(OWNER, "x", buttons=[("Yes", data)])
        await client.aclose()


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (400, "Bad Request: chat not found"),
        (403, "Forbidden: bot was blocked by the user"),
        (403, "Forbidden: user is deactivated"),
        (403, "Forbidden: bot was kicked from the supergroup chat"),
    ],
)
async def test_tg_08_12_13_an_unreachable_recipient_is_not_retried(code: int, why: str) -> None:
    async with fake_telegram() as fake, outbox(fake) as out:
        fake.fault("sendMessage", times=-1, chat=5, code=code, description=why)
        outcome = await out.post("x", route=Route("telegram", "5"), is_reply=True)
        shown = f"Telegram: {why[11:]}" if code == 403 else f"sendMessage: {code} {why}"
        assert outcome == Undeliverable(shown, first=code == 403, away=code == 403)
        assert fake.counts["sendMessage error"] == 1
        if code == 403:  # nothing more is tried there
            again = await out.post("x", route=Route("telegram", "5"), is_reply=True)
            assert again == Undeliverable(outcome.why, away=True)
            out.typing(route=Route("telegram", "5"))
            assert [params["chat_id"] for _, params in fake.calls] == [5]
        assert isinstance(await out.post("y"), Sent)


async def test_tg_09_an_upgraded_group_keeps_its_session_and_gets_its_answer() -> None:
    async with fake_telegram() as fake, outbox(fake) as out:
        fake.moved[-5] = GROUP
        group = Route("telegram", "-5", private=False)
        assert await out.post("x", route=group) == Sent(f"{GROUP}:1")
        assert await out.post("y", route=group) == Sent(f"{GROUP}:2")
        refused = [key for key in fake.counts if "upgraded" in key]
        assert sum(fake.counts[key] for key in refused) == 1  # the new id is remembered
    async with fake_telegram() as fake, intake(fake, groups=(-5,)) as house:
        fake.push({"message": fake.message(None, chat=-5, migrate_to_chat_id=GROUP)})
        await house.until(lambda: house.moved)
        asked = {"type": "mention", "offset": 0, "length": 11}
        fake.say("@elwood_bot hi", chat=GROUP, entities=[asked])
        await house.until(lambda: house.inbound)
        assert house.inbound[0].session == "tg--5"
        assert house.inbound[0].route.chat == str(GROUP)
        fake.push({"message": fake.message(None, chat=-6, migrate_to_chat_id=-7)})
        fake.say("next")
        await house.until(lambda: len(house.inbound) == 2)
        assert house.moved == {f"tg:{GROUP}": "tg:-5"}  # other people's groups are not our business


async def test_tg_10_11_an_answer_arrives_without_its_topic_or_question() -> None:
    async with fake_telegram() as fake, outbox(fake) as out:
        fake.dead_topics.add(9)
        for topic in (9, 1):
            route = Route("telegram", str(GROUP), thread=str(topic), private=False)
            assert isinstance(await out.post("x", route=route), Sent)
            assert "message_thread_id" not in fake.sent[-1].params
        fake.fault(
            "sendMessage", code=400, description="Bad Request: message to be replied not found"
        )
        assert isinstance(await out.post("y", route=route_to(OWNER, reply_to=77)), Sent)


async def test_tg_14_a_revoked_token_stops_the_channel_and_is_never_shown(
    jumping_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    token = "4242:a-revoked-token"
    async with fake_telegram() as fake:
        async with intake(fake) as house:
            await fake.until(lambda: fake.polling)
            fake.token = token  # our token is revoked
            fake.push({"message": fake.message("x")})
            await house.until(lambda: house.inbound)
            await _until(lambda: any("@BotFather" in wait for wait in house.waits()))
            fake.token = TOKEN  # the operator has put it right
            fake.say("again")
            await house.until(lambda: "again" in house.texts)
        client = Client()
        given = TelegramSettings(token=Secret(token), base_url=fake.url)
        bot = Bot(given, client)
        with pytest.raises(TelegramError) as refused:
            await bot.get_me()
        fake.fault("*", "drop")
        fake.token = token
        with pytest.raises(FAILURES) as dropped:
            await bot.get_me()
        dead = Bot(TelegramSettings(token=Secret(token), base_url="http://127.0.0.1:9"), client)
        with pytest.raises(Unreachable) as away:
            await dead.get_me()
        await client.aclose()
    shown = [repr(bot), repr(given), caplog.text]
    for raised in (refused, dropped, away):
        shown += [repr(raised.value), *traceback.format_exception(raised.value)]
    assert token not in "".join(shown)
    assert TOKEN not in "".join(shown)


async def _until(true: Callable[[], object]) -> None:
    """Wait for a condition that no neighbour signals, half a second at a time."""
    for _ in range(2000):
        if true():
            return
        await trio.sleep(0.5)
    raise AssertionError("it never came true")


async def test_tg_15_a_malformed_token_is_reported_at_the_start(jumping_clock: MockClock) -> None:
    async with fake_telegram() as fake:
        fake.token = "4242:other"
        fake.fault("*", code=404, description="Not Found", times=1)
        async with intake(fake) as house:
            await _until(house.troubles)
            assert "check telegram.token" in house.troubles()[0]
            assert not house.inbound


async def test_tg_16_a_failing_server_costs_only_time(jumping_clock: MockClock) -> None:
    async with fake_telegram() as fake:
        fake.say("kept")
        fake.fault("getUpdates", times=2, code=500)
        fake.fault("getUpdates", "html", times=2, code=502)
        fake.fault("getUpdates", "drop", times=2)
        async with intake(fake) as house:
            await house.until(lambda: house.inbound)
            assert house.texts == ["kept"]
            polls = [params for method, params in fake.calls if method == "getUpdates"]
            assert all("offset" not in params for params in polls[:6])
            await fake.until(lambda: not fake.unconfirmed)
            assert not house.troubles()


async def test_tg_17_a_send_without_a_response_is_unsure_and_repeated_with_a_mark(
    jumping_clock: MockClock,
) -> None:
    async with fake_telegram() as fake, outbox(fake) as out:
        for kind in ("swallow", "lose", "hang", "drop"):
            fake.fault("sendMessage", kind)
            assert isinstance(await out.post(kind), Unsure)
        fake.fault("sendMessage", code=500)
        assert isinstance(await out.post("500"), Unsure)
        assert fake.texts() == ["swallow", "lose"]  # the sender cannot know which
        assert isinstance(await out.post("lose", repeat=True), Sent)
        assert fake.texts()[-1] == "(again) lose"
        bold = Rich("lose", (Entity("bold", 0, 4),))
        await out.post("", part=bold, repeat=True)
        assert fake.sent[-1].params["entities"] == [{"type": "bold", "offset": 8, "length": 4}]
    async with fake_telegram() as fake, outbox(fake) as out:
        fake.fault("sendMessage", "swallow", chat=OWNER)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(out.post, "hangs")
            await fake.until(lambda: fake.sent)
            began = trio.current_time()
            assert isinstance(await out.post("x", route=Route("telegram", "5")), Sent)
            assert trio.current_time() - began < 25  # not the 30 s of the other


async def test_tg_17_a_send_without_a_server_is_unsent() -> None:
    async with fake_telegram() as fake:
        fake.port = 9
        async with outbox(fake) as out:
            assert isinstance(await out.post("x"), Unsent)
            assert out.troubles()


async def test_tg_18_19_20_updates_are_identified_by_id_in_any_order() -> None:
    """Gaps are normal, a sequence may restart lower, and an update may come twice."""
    async with fake_telegram() as fake, intake(fake) as house:
        for number in (10, 15, 900_000, 17, 17):
            fake.push({"update_id": number, "message": fake.message(str(number))})
            await fake.until(lambda: not fake.unconfirmed)
        assert house.texts == ["10", "15", "900000", "17", "17"]
        assert house.inbound[3].id == house.inbound[4].id  # the session drops the second


async def test_tg_21_22_25_an_edit_names_its_original_and_all_have_a_time() -> None:
    async with fake_telegram() as fake, intake(fake) as house:
        original = fake.message("wrong", date=1_000_000)
        fake.push({"message": original})
        fake.push({"edited_message": original | {"text": "right", "edit_date": 1_000_005}})
        fake.push({"edited_message": original | {"edit_date": 9, "message_id": 3}})  # unseen before
        await house.until(lambda: len(house.inbound) == 3)
        first, second, late = house.inbound
        assert (second.edits, late.edits) == (first.message, f"{OWNER}:3")
        assert len({first.id, second.id, late.id}) == 3
        assert (first.sent_at, second.sent_at) == (1_000_000.0, 1_000_005.0)


async def test_tg_24_a_flood_affects_only_its_sender(jumping_clock: MockClock) -> None:
    async with fake_telegram() as fake:
        for n in range(250):
            fake.say(f"spam {n}", chat=666, user=666)
        for n in range(250):
            fake.say(str(n), chat=5, user=5)
        fake.say("mine")
        async with intake(fake, owners=(OWNER, 5)) as house:
            taken = 0

            def take(message: object) -> Taken | Busy:
                nonlocal taken
                if getattr(message, "session", "") == f"tg-{OWNER}":
                    return Taken()
                taken += 1
                return Taken() if taken <= 20 else Busy(20)

            house.take = take
            await fake.until(lambda: not fake.unconfirmed)
            assert "mine" in house.texts
            assert not any(text.startswith("spam") for text in house.texts)
            assert [post.route.chat for post in house.posts] == ["5"]  # one notice


async def test_tg_26_27_28_a_press_belongs_to_its_user_and_is_answered() -> None:
    async with fake_telegram() as fake, intake(fake) as house:
        buttons = {"inline_keyboard": [[{"text": "Yes", "callback_data": "p:ABCD2345:y"}]]}
        message = fake.show("Allow?", reply_markup=buttons)
        query = fake.press("p:ABCD2345:y", message=message)
        del fake.answered[query]  # too old for Telegram; it counts nevertheless
        await house.until(lambda: house.presses)
        [press] = house.presses
        assert (press.data, press.message) == ("p:ABCD2345:y", f"{OWNER}:{message.message_id}")

        house.press = lambda _: CommandResult("Only my owner can decide this.", ok=False)
        query = fake.press("p:ABCD2345:y", user=666, message=message)
        await fake.until(lambda: fake.answered[query])
        assert house.presses[1].principal == "tg:666"  # though it was in the owner's chat
        assert "Only my owner" in fake.answered[query]
        assert (message.edits, house.edits) == (0, [])  # approvals edit it through the outbox

        house.press = lambda _: CommandResult("This has expired.", ok=False)
        query = fake.press("p:ZZZZZZZZ:y")  # the message is inaccessible
        await fake.until(lambda: fake.answered[query])
        assert fake.answered[query] == "This has expired."
        assert [press.route for press in house.presses] == [HOME, HOME, None]


async def test_tg_30_a_stranger_gets_a_code_and_no_access() -> None:
    async with fake_telegram() as fake, intake(fake) as house:
        answers: Iterator[Known | Stranger] = iter([Stranger("ABCD2345"), Stranger(None), Known()])
        house.meet = lambda _: next(answers)
        fake.say("let me in", chat=666, user=666)
        fake.say(None, chat=666, user=666, document={"file_id": "x", "file_size": 10})
        fake.say("third", chat=666, user=666)
        await fake.until(lambda: not fake.unconfirmed)
        assert house.texts == ["third"]
        assert not house.inbound[0].principal.owner
        assert len(house.posts) == 1
        assert "ABCD2345" in house.notices[0]
        assert house.met[0].principal == "tg:666"
        assert not fake.counts["getFile ok"]


async def test_tg_31_messages_without_a_person_are_ignored() -> None:
    async with fake_telegram() as fake, intake(fake, groups=(GROUP,)) as house:
        house.meet = lambda _: Known()
        mention = [{"type": "mention", "offset": 0, "length": 11}]
        text = "@elwood_bot hi"
        fake.say(text, chat=GROUP, entities=mention, sender_chat={"id": GROUP, "type": "group"})
        other = {"id": 8, "is_bot": True, "first_name": "Other"}
        fake.say(text, chat=GROUP, entities=mention, via_bot=other)
        fake.push({"message": fake.message(text, chat=GROUP, entities=mention) | {"from": other}})
        fake.push({"channel_post": fake.message(text, chat=GROUP)})
        fake.push({"business_message": fake.message(text)})
        channel = {"chat": {"id": -9, "type": "channel"}}
        fake.push({"message": fake.message(text, entities=mention) | channel})
        await fake.until(lambda: not fake.unconfirmed)
        assert not house.inbound
        assert not house.met


@pytest.mark.parametrize(
    ("kind", "word"),
    [
        ({"document": {"file_id": "x", "file_size": 21 << 20}}, "document"),
        ({"voice": {"file_id": "v", "duration": 3}}, "voice message"),
        ({"photo": "new form"}, "picture (I do not know this kind of file)"),
    ],
)
async def test_tg_23_32_unavailable_files_are_declined(
    kind: dict[str, object], word: str, jumping_clock: MockClock
) -> None:
    async with fake_telegram() as fake, intake(fake) as house:
        fake.push({"message": fake.message(None) | kind | {"unknown_key": [None]}})
        await fake.until(lambda: not fake.unconfirmed)
        [received] = await house.fetched()
        [trouble] = received.troubles
        assert word in trouble


async def test_tg_33_unknown_kinds_are_declined() -> None:
    async with fake_telegram() as fake, intake(fake) as house:
        hologram = {"hologram": {"sides": 7}, "unknown_key": [None]}
        fake.push({"message": fake.message(None) | hologram})
        fake.push({"deleted_business_messages": {"chat": {"id": 1}, "message_ids": [1]}})
        await fake.until(lambda: not fake.unconfirmed)
        [notice] = house.notices
        assert "this kind of message" in notice
        assert not house.inbound


async def test_tg_33_a_bad_update_does_not_affect_others() -> None:
    async with fake_telegram() as fake:
        fake.say("before")
        fake.push({"message": "not even an object"})
        fake.push({"message": fake.message("kept") | {"photo": "new form", "entities": 3}})
        fake.push({"callback_query": {"id": 5}})
        fake.say("after")
        async with intake(fake) as house:
            await fake.until(lambda: not fake.unconfirmed)
        assert house.texts == ["before", "kept", "after"]


@pytest.mark.parametrize("text", ["half \ud83d of", "\u202eevil", "\u200b" * 4096, "a\0b"])
async def test_tg_34_hostile_text_is_repaired_and_handed_on(text: str) -> None:
    async with fake_telegram() as fake, intake(fake) as house:
        fake.say(text, **{"reply_to_message": fake.message(text)})
        fake.say("after")
        await house.until(lambda: len(house.inbound) == 2)
        assert house.texts[0] == text.replace("\ud83d", "\ufffd")
        house.texts[0].encode()


async def test_tg_35_empty_polls_do_not_spin_and_are_reported(jumping_clock: MockClock) -> None:
    async with fake_telegram(clock=trio.current_time) as fake:
        fake.instant = True
        async with intake(fake) as house:
            began = trio.current_time()
            await fake.until(lambda: fake.counts["getUpdates ok"] >= 100)
            assert trio.current_time() - began >= 0.5 * 98
            assert any("immediately and empty" in error for error in house.troubles())


async def test_tg_36_a_dead_poll_is_abandoned_and_replaced(jumping_clock: MockClock) -> None:
    async with fake_telegram() as fake:
        fake.fault("getUpdates", "hang")
        async with intake(fake) as house:
            await fake.until(lambda: fake.counts["getUpdates hang"])
            fake.say("x")
            began = trio.current_time()
            await house.until(lambda: house.inbound)
            assert trio.current_time() - began < 90


def test_tg_37_a_wrong_clock_is_named() -> None:
    for words in ("certificate is not yet valid", "certificate has expired"):
        assert "check the clock" in explain(Unreachable(f"TLS failed: {words}"))
    assert "clock" not in explain(Unreachable("TLS failed: self-signed certificate"))


async def test_the_budgets_respect_the_real_limits(jumping_clock: MockClock) -> None:
    """Within the vendor's limits there is no flood control."""
    async with fake_telegram(clock=trio.current_time) as fake:
        fake.flood_limit = 5
        async with outbox(fake, pacing=Pacing()) as out, trio.open_nursery() as nursery:
            for n in range(12):
                nursery.start_soon(out.post, str(n))
            await fake.until(lambda: len(fake.sent) == 12)
        assert not [key for key in fake.counts if "429" in key]
        assert fake.sent[-1].at - fake.sent[0].at >= 8.0


async def test_sixty_answers_wait_only_for_the_vendors_limits(jumping_clock: MockClock) -> None:
    async with fake_telegram(clock=trio.current_time) as fake:
        fake.rates = Rates()
        async with outbox(fake, pacing=Pacing()) as out, trio.open_nursery() as nursery:
            for chat in range(100, 160):
                out.typing(route=Route("telegram", str(chat)))
                nursery.start_soon(partial(out.post, "hi", route=Route("telegram", str(chat))))
            await fake.until(lambda: len(fake.sent) == 60)
        times = sorted(message.at for message in fake.sent)
        assert times[4] - times[0] < 0.1
        assert times[59] - times[0] < 2.5
        assert not [key for key in fake.counts if "429" in key]


async def test_refusals_in_two_chats_pause_all_chats_and_one_pauses_its_own(
    jumping_clock: MockClock,
) -> None:
    async with fake_telegram(clock=trio.current_time) as fake:
        async with outbox(fake, pacing=Pacing()) as out, trio.open_nursery() as nursery:

            def post(*chats: int) -> None:
                for chat in chats:
                    nursery.start_soon(partial(out.post, "hi", route=Route("telegram", str(chat))))

            for chat, wait in ((1, 40), (2, 30)):
                refusal: dict[str, Any] = {"code": 429, "parameters": {"retry_after": wait}}
                fake.fault("sendMessage", chat=chat, description="Too Many Requests", **refusal)
            post(1)
            await fake.until(lambda: fake.counts["sendMessage error"] == 1)
            began = trio.current_time()
            post(3)
            await fake.until(lambda: fake.sent)
            assert trio.current_time() - began < 5
            post(2)
            await fake.until(lambda: fake.counts["sendMessage error"] == 2)
            post(4, 5)
            await fake.until(lambda: len(fake.sent) == 5)
        at = {message.chat: message.at - began for message in fake.sent}
        assert at[3] < 5
        assert all(30 <= at[chat] < 35 for chat in (2, 4, 5))
        assert at[1] >= 40


async def test_a_retry_after_header_is_respected(jumping_clock: MockClock) -> None:
    asked: list[float] = []

    async def proxy(request: Request) -> Reply:
        asked.append(trio.current_time())
        if len(asked) == 1:
            page = b"<html>Too Many Requests</html>"
            return whole(429, page, "text/html", {"retry-after-ms": "30500"})
        return json_reply({"ok": True, "result": {"message_id": 1}})

    async with fake_telegram() as fake, serving(proxy) as url, outbox(fake, base_url=url) as out:
        assert isinstance(await out.post("hi"), Sent)
    assert 30.5 <= asked[1] - asked[0] < 35


async def test_in_a_group_one_message_is_edited_and_deleted_after_the_answer(
    jumping_clock: MockClock,
) -> None:
    group = Route("telegram", str(GROUP), private=False)
    async with fake_telegram() as fake, outbox(fake, pacing=Pacing()) as out:
        out.draft("I think", route=group)
        await fake.until(lambda: fake.sent)
        out.draft("I think that", route=group)  # within three seconds
        await trio.sleep(3.5)
        out.draft("I think that it", route=group)
        await fake.until(lambda: fake.sent[0].edits == 1)
        assert fake.sent[0].text == "I think that it …"  # the mark that it is not the answer
        assert isinstance(await out.post("It is.", route=group), Sent)
        await fake.until(lambda: fake.gone)
        assert [message.text for message in fake.sent] == ["I think that it …", "It is."]
        assert fake.gone == {fake.sent[0].message_id}
        assert not fake.drafts


async def test_edits_in_a_group_reserve_budget_for_final_messages(jumping_clock: MockClock) -> None:
    group = Route("telegram", str(GROUP), private=False)
    pacing = Pacing(group=Bucket(0.001, 4))
    async with fake_telegram() as fake, outbox(fake, pacing=pacing) as out:
        for number in range(5):
            out.draft("frame" + "!" * number, route=group)
            await trio.sleep(5)
        assert fake.sent[0].edits == 1  # with the message itself, half of the budget
        with trio.fail_after(10):
            for _ in range(2):
                assert isinstance(await out.post("final", route=group), Sent)


async def test_only_the_first_piece_is_a_reply() -> None:
    async with fake_telegram() as fake, outbox(fake) as out:
        fake.say("question")
        route = Route("telegram", str(OWNER), reply_to="1")
        assert isinstance(await out.post("x" * 5000, route=route), Sent)
        assert ["reply_parameters" in message.params for message in fake.sent] == [True, False]


async def test_a_chat_has_a_bounded_queue(jumping_clock: MockClock) -> None:
    slow = Pacing(chat=Bucket(0.001, 1))
    async with fake_telegram() as fake, outbox(fake, pacing=slow) as out:
        outcomes: list[object] = []

        async def post(text: str) -> None:
            outcomes.append(await out.post(text))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(post, "first")
            await fake.until(lambda: fake.sent)
            for n in range(70):
                nursery.start_soon(post, str(n))
            await trio.testing.wait_all_tasks_blocked()
            assert sum(isinstance(o, Unsent) for o in outcomes) >= 4
            assert isinstance(await out.post("x", route=Route("telegram", "5")), Sent)
            nursery.cancel_scope.cancel()


async def test_a_post_without_a_waiting_sender_is_not_sent(jumping_clock: MockClock) -> None:
    slow = Pacing(chat=Bucket(0.2, 1))
    async with fake_telegram() as fake, outbox(fake, pacing=slow) as out:
        await out.post("first")
        with trio.move_on_after(1):
            await out.post("abandoned")
        assert isinstance(await out.post("third"), Sent)
        assert fake.texts() == ["first", "third"]


async def test_during_an_outage_one_probe_serves_all_chats(jumping_clock: MockClock) -> None:
    """Messages with `calm` are not sent in the first moments after the outage."""
    async with fake_telegram() as fake, outbox(fake) as out:
        down, up = "http://127.0.0.1:9", fake.url

        def turn(to: str) -> None:
            out.bot._prefix = f"{to}/bot{TOKEN}/"

        turn(down)
        assert isinstance(await out.post("x"), Unsent)
        await trio.sleep(1)
        for chat in range(1, 50):
            assert isinstance(await out.post("x", route=Route("telegram", str(chat))), Unsent)
        assert out.troubles()
        turn(up)
        assert isinstance(await out.post("x"), Unsent)
        await trio.sleep(5)
        assert fake.counts == {"getMe ok": 1}
        assert not out.troubles()
        assert isinstance(await out.post("alarm", calm=15.0), Unsent)
        assert isinstance(await out.post("answer"), Sent)
        await trio.sleep(15)
        assert isinstance(await out.post("alarm", calm=15.0), Sent)
        assert fake.texts() == ["answer", "alarm"]
