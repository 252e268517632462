"""Intake: what reaches the house, when it is confirmed, and what the sender is told."""

from collections.abc import Iterator

from trio.testing import MockClock, wait_all_tasks_blocked

from elwood.messages import Busy, Known, Refused, Settled, Stranger, Taken, Unsent
from tests.actors.telegram_neighbours import intake
from tests.fake_telegram import BOT, OWNER, fake_telegram

# Virtual seconds in a real one, where a test waits for time-outs of ours over a real socket.
FAST = 100.0
GROUP = -100123
STRANGER = 666


async def test_a_message_is_handed_on_and_only_then_confirmed() -> None:
    async with fake_telegram() as fake, intake(fake) as house:
        number = fake.say("hello")
        await house.until(lambda: house.inbound)
        (got,) = house.inbound
        assert (got.session, got.id, got.text) == (f"tg-{OWNER}", f"tg:4242:{number}", "hello")
        assert got.principal.id == f"tg:{OWNER}"
        assert got.principal.owner
        assert got.message == f"{OWNER}:1"
        assert got.edits is None
        assert got.route.private
        await fake.until(lambda: not fake.unconfirmed)


async def test_after_news_the_next_poll_follows_at_once(mock_clock: MockClock) -> None:
    """While the clock stands still, so that no pause ever ends."""
    async with fake_telegram() as fake, intake(fake) as house:
        for text in ("one", "two"):
            fake.say(text)
            await wait_all_tasks_blocked(0.1)
            assert house.texts[-1:] == [text]
            assert not fake.unconfirmed


async def test_nothing_is_confirmed_that_nobody_has_taken(mock_clock: MockClock) -> None:
    mock_clock.rate = 20.0
    async with fake_telegram() as fake:
        async with intake(fake) as house:
            house.take = lambda _: None
            number = fake.say("hello")
            await house.until(lambda: house.inbound)
            await fake.until(lambda: fake.counts["getUpdates ok"] >= 2)
            assert fake.unconfirmed == [number]
        async with intake(fake) as house:  # as after a crash: it comes again
            await house.until(lambda: house.inbound)
            assert house.inbound[0].id == f"tg:4242:{number}"


async def test_a_chat_that_hangs_holds_up_no_other(mock_clock: MockClock) -> None:
    mock_clock.rate = 20.0
    async with fake_telegram() as fake, intake(fake, owners=(OWNER, 5)) as house:
        house.take = lambda m: None if m.route.chat == 5 else Taken()
        stuck = fake.say("stuck", chat=5, user=5)
        for n in range(3):
            fake.say(f"free {n}")
            await house.until_text(f"free {n}")
        await fake.until(lambda: fake.counts["getUpdates ok"] >= 5)
        assert stuck in fake.unconfirmed


async def test_one_chat_keeps_its_order() -> None:
    async with fake_telegram() as fake:
        for n in range(30):
            fake.say(str(n), chat=5 if n % 3 else OWNER, user=OWNER)
        async with intake(fake) as house:
            await house.until(lambda: len(house.inbound) == 30)
            for chat in (5, OWNER):
                order = [int(m.text) for m in house.inbound if m.route.chat == chat]
                assert order == sorted(order)


async def test_a_stranger_gets_a_code_and_is_not_heard() -> None:
    async with fake_telegram() as fake, intake(fake) as house:
        codes: Iterator[Known | Stranger] = iter([Stranger("ABCD2345"), Stranger(None), Known()])
        house.meet = lambda _: next(codes)
        for text in ("first", "second", "third"):
            fake.say(text, chat=STRANGER, user=STRANGER)
        await house.until(lambda: house.inbound)
        assert house.texts == ["third"]
        assert not house.inbound[0].principal.owner
        assert len(house.posts) == 1
        assert "ABCD2345" in house.notices[0]
        assert house.met[0].principal == f"tg:{STRANGER}"


async def test_in_a_group_only_what_is_addressed_to_us_is_heard() -> None:
    def mention(text: str, kind: str = "mention") -> list[dict[str, object]]:
        return [{"type": kind, "offset": text.index("@"), "length": len("@elwood_bot")}]

    async with fake_telegram() as fake, intake(fake, groups=(GROUP,)) as house:
        fake.say("idle talk", chat=GROUP)
        fake.say("mail a@elwood_bot.example", chat=GROUP)
        fake.say("/status", chat=GROUP)
        fake.say("@elwood_bot hi", chat=-7, entities=mention("@elwood_bot hi"))
        fake.say("ask @elwood_bot now", chat=GROUP, entities=mention("ask @elwood_bot now"))
        command = {"type": "bot_command", "offset": 0, "length": len("/stop@Elwood_bot")}
        fake.say("/stop@Elwood_bot", chat=GROUP, entities=[command])
        ours = fake.message("mine", chat=GROUP) | {"from": BOT}
        fake.say("and this?", chat=GROUP, reply_to_message=ours)
        opening = fake.message(None, chat=GROUP, forum_topic_created={"name": "x"}) | {"from": BOT}
        topic = {"message_thread_id": 9, "is_topic_message": True}
        fake.say("in a topic", chat=GROUP, reply_to_message=opening, **topic)
        asked = "@elwood_bot topic"
        fake.say(asked, chat=GROUP, entities=mention(asked), reply_to_message=opening, **topic)
        await house.until(lambda: len(house.inbound) == 4)
        assert house.texts == ["ask now", "/stop", "and this?", "topic"]
        assert [m.session for m in house.inbound] == [f"tg-{GROUP}"] * 3 + [f"tg-{GROUP}-9"]
        assert house.inbound[2].quote == "mine"
        assert house.inbound[0].route.reply_to is not None


async def test_a_quote_a_forward_and_a_caption_are_told_apart() -> None:
    async with fake_telegram() as fake, intake(fake) as house:
        whole = fake.message("the whole long message")
        fake.say("this part?", reply_to_message=whole, quote={"text": "long", "position": 10})
        fake.say("buy now", forward_origin={"type": "hidden_user", "sender_user_name": "Eve\n!"})
        fake.say(None, photo=[{"file_id": "a", "file_size": 5}], caption="what is this?")
        await house.until(lambda: len(house.inbound) == 3)
        assert house.inbound[0].quote == "long"
        assert house.texts[1] == "[forwarded from Eve !]\nbuy now"
        assert "picture" in house.texts[2]
        assert house.texts[2].endswith("\nwhat is this?")


async def test_an_album_is_complained_about_once() -> None:
    async with fake_telegram() as fake, intake(fake) as house:
        for caption in ({}, {}, {"caption": "look"}, {}):
            fake.say(None, photo=[{"file_size": 5}], media_group_id="m", **caption)
        fake.say(None, sticker={"file_id": "s"})
        await house.until(lambda: len(house.posts) == 2)
        assert len(house.inbound) == 1
        assert "sticker" in house.notices[1]


async def test_a_refused_message_is_not_silently_lost(mock_clock: MockClock) -> None:
    mock_clock.rate = FAST
    async with fake_telegram() as fake, intake(fake) as house:
        answers: Iterator[Refused | Busy | Taken] = iter(
            [Refused("the disk is full"), Busy(20), Busy(20), Taken()]
        )
        house.take = lambda _: next(answers)
        for text in "abcd":
            fake.say(text)
        await house.until(lambda: len(house.inbound) == 4)
        await fake.until(lambda: not fake.unconfirmed)
        assert len(house.posts) == 2  # of the two Busy ones the first says it for both
        assert "the disk is full" in house.notices[0]
        assert "20" in house.notices[1]


async def test_what_cannot_be_taken_is_kept_until_the_sender_is_told(mock_clock: MockClock) -> None:
    mock_clock.rate = FAST
    async with fake_telegram() as fake, intake(fake) as house:
        house.take = lambda _: None
        house.post = lambda _: Unsent("away")
        number = fake.say("a")
        await house.until(lambda: len(house.posts) == 3)
        assert fake.unconfirmed == [number]
        house.take = lambda _: Taken()  # the session is back: it gets the message after all
        await fake.until(lambda: not fake.unconfirmed)
        assert {m.id for m in house.inbound} == {f"tg:4242:{number}"}


async def test_a_press_is_decided_answered_and_its_buttons_go() -> None:
    async with fake_telegram() as fake, intake(fake) as house:
        buttons = {"inline_keyboard": [[{"text": "Yes", "callback_data": "p:ABCD2345:y"}]]}
        message = fake.show("Allow?", reply_markup=buttons)
        house.press = lambda p: Settled("Ann may talk to me now.", ok=p.data == "p:ABCD2345:y")
        query = fake.press("p:ABCD2345:y", message=message)
        await fake.until(lambda: message.edits)
        assert fake.answered[query] == "Ann may talk to me now."
        assert not message.buttons


async def test_the_stop_button_of_a_draft_is_a_hint_to_its_session() -> None:
    async with fake_telegram() as fake, intake(fake) as house:
        fake.push({"stopped_message_generation": {"chat": {"id": OWNER}, "draft_id": 3}})
        await house.until(lambda: house.interrupts)
        assert house.interrupts[0].session == f"tg-{OWNER}"


async def test_the_menu_is_set_at_the_start() -> None:
    async with fake_telegram() as fake, intake(fake):
        await fake.until(lambda: fake.commands)
        assert [c["command"] for c in fake.commands] == ["new", "stop", "status", "help"]
