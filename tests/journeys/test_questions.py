"""The life of a question in the chat: one message, from the question to the outcome."""

import attrs
import pytest
import trio

from elwood.agent.approvals.settings import ApprovalSettings
from elwood.agent.session.log.entries import MAX_ATTEMPTS, Received
from elwood.agent.tools.talk import MAX_OPTION
from tests.agent.session.scripted import answer, call
from tests.fake_telegram import OWNER, SentMessage
from tests.journeys.home import Home, Life, newest_message
from tests.journeys.test_approval_journeys import (
    SOON,
    WAIT,
    other_messages,
    press,
    questions,
    require_approval,
    wait_for_question,
)

ASKED = "May I use act?\n\nname: boldly"
CALLS = ("editMessageText", "editMessageReplyMarkup", "sendMessage")


def ends(question: SentMessage) -> str:
    """Return the last line of a question without buttons."""
    assert not question.buttons
    assert question.text.startswith(ASKED)
    return question.text.rpartition("\n\n")[2].rpartition(", ")[0]


async def closed(life: Life, question: SentMessage) -> str:
    await life.until(lambda: not question.buttons)
    return ends(question)


async def test_a_restart_repeats_no_question_and_updates_the_old_message(h: Home) -> None:
    async with require_approval(h).life() as life:
        await life.say("call act boldly")
        [question] = questions(h)
    for _ in range(2):
        async with h.life() as life:
            await trio.sleep(SOON)
            assert questions(h) == [question]
            assert question.edits == 0
    async with h.life() as life:
        await press(h, life, question, "o")
        await life.wait_until_idle()
        assert await closed(life, question) == "✓ Allowed once by you"
        assert h.effects.done == ["act boldly"]


@pytest.mark.parametrize(
    ("typed", "outcome"),
    [
        ("/stop", "⛔ Not done: I took the question back"),
        ("/new", "⛔ Not done: I took the question back"),
        ("/deny", "⛔ Denied by you"),
        ("/allow", "✓ Allowed once by you"),
        ("", "⛔ Not done: no one answered in time"),
    ],
)
async def test_the_outcome_replaces_the_question(h: Home, typed: str, outcome: str) -> None:
    require_approval(h).settings["approvals"] = ApprovalSettings(wait=WAIT, expires=100.0)
    async with h.life() as life:
        await life.say("call act boldly")
        [question] = questions(h)
        if typed in ("/deny", "/allow"):
            await press(h, life, question, "?", empty=True)
            await life.until(lambda: "/allow" in question.text)
            typed = f"{typed} {question.text.partition('/allow ')[2].split()[0]}"
        if typed:
            h.fake.say(typed)
        assert await closed(life, question) == outcome
        assert len(questions(h)) == 1


async def test_a_turn_that_is_given_up_says_the_same_as_its_question(h: Home) -> None:
    require_approval(h).settings["approvals"] = ApprovalSettings(wait=600.0)
    async with h.life() as life:
        h.fake.say("call act boldly")
        question = await wait_for_question(h, life)
        life.kill()
        await life.wait_for_kill()
    for _ in range(MAX_ATTEMPTS - 1):
        async with h.life() as life:
            await trio.sleep(SOON)
            life.kill()
            await life.wait_for_kill()
    async with h.life() as life:
        assert await closed(life, question) == "⛔ Not done: I took the question back"
        await life.wait_until_idle()
        assert "so I gave up" in other_messages(h)[-1]
        assert "⛔ act boldly (not allowed) · I took the question back" in other_messages(h)[-1]
        assert h.effects.done == []
        assert h.broken_promises() == []


async def test_a_message_ends_the_wait_but_not_the_question(h: Home) -> None:
    require_approval(h).settings["approvals"] = ApprovalSettings(wait=60.0)
    async with h.life() as life:
        h.fake.say("call act boldly")
        question = await wait_for_question(h, life)
        before = trio.current_time()
        await life.say("what does that do?")
        assert trio.current_time() - before < SOON
        assert "what does that do?" in other_messages(h)[-1]
        assert question.buttons
        assert h.effects.done == []
        await press(h, life, question, "o")
        await life.until(lambda: h.effects.done)
        await life.wait_until_idle()
        assert h.broken_promises() == []


async def test_details_replace_the_question_and_disappear_again(h: Home) -> None:
    async with require_approval(h).life() as life:
        h.fake.say("call act boldly")
        question = await wait_for_question(h, life)
        whole = question.text
        await press(h, life, question, "?", empty=True)
        await life.until(lambda: question.edits == 1)
        assert '{"name": "boldly"}' in question.text
        assert "/allow " in question.text
        assert [data[-2:] for data in question.buttons] == [":<"]  # these decide nothing
        await press(h, life, question, "<", empty=True)
        await life.until(lambda: question.edits == 2)
        assert question.text == whole
        assert question.button("o")


async def test_slash_approvals_repeats_the_question_and_removes_old_buttons(h: Home) -> None:
    async with require_approval(h).life() as life:
        await life.say("call act boldly")
        old = attrs.evolve(questions(h)[0])
        await life.say("/approvals")
        [first, again] = [m for m in h.fake.sent if "May I" in m.text or "below" in m.text]
        assert (first.text, first.buttons) == ("I asked this again below.", [])
        assert again.text == old.text
        await press(h, life, old, "o")  # on a phone that was offline
        await life.until(lambda: h.effects.done)
        assert await closed(life, again) == "✓ Allowed once by you"
        assert h.effects.done == ["act boldly"]


async def test_a_question_is_updated_after_a_flood_wait_and_a_restart(h: Home) -> None:
    async with require_approval(h).life() as life:
        await life.say("call act boldly")
        [question] = questions(h)
        wait = {"retry_after": 30}
        h.fake.fault("editMessageText", code=429, description="Too Many Requests", parameters=wait)
        await press(h, life, question, "d")
        await life.until(lambda: h.fake.counts["editMessageText error"])
        count = len([method for method, _ in h.fake.calls if method in CALLS])
        await trio.sleep(25)
        assert len([method for method, _ in h.fake.calls if method in CALLS]) == count
        assert question.buttons
        life.kill()
        await life.wait_for_kill()
    async with h.life() as life:
        assert await closed(life, question) == "⛔ Denied by you"
        await life.wait_until_idle()
    async with h.life() as life:  # it is recorded as done
        await trio.sleep(SOON)
        assert question.edits == 1


async def test_a_question_repeated_after_a_kill_is_marked(h: Home) -> None:
    require_approval(h).kill("before write shown")
    async with h.life() as life:
        h.fake.say("call act boldly")
        await life.wait_for_kill()
    async with h.life() as life:
        [first, second] = [await wait_for_question(h, life, 1), await wait_for_question(h, life, 2)]
        assert (first.text, second.text) == (second.text.removeprefix("(again) "), second.text)
        assert second.text.startswith("(again) ")
        await press(h, life, first, "d")
        await life.until(lambda: not (first.buttons or second.buttons))
        await life.wait_until_idle()
        assert h.effects.done == []
        assert h.broken_promises() == []


async def test_an_access_request_is_one_message(h: Home) -> None:
    async with h.life() as life:
        h.fake.say("hi", chat=77, user=77)
        await life.until(lambda: [m for m in h.fake.sent if m.buttons])
        [question] = [m for m in h.fake.sent if m.buttons]
    async with h.life() as life:
        await trio.sleep(SOON)
        assert len([text for text in h.texts() if "talk to me" in text]) == 1
        h.fake.press(question.button("y"), message=question)
        await life.until(lambda: not question.buttons)
        assert question.text.startswith("Ann (tg:77) may talk to me now, decided by you, ")


async def test_the_answer_is_shown_below_the_models_question(h: Home) -> None:
    given = f'{{"question": "**Tea** or coffee?", "options": ["tea", "{"c" * MAX_OPTION}"]}}'

    h.think = lambda request: (
        call(("c1", "ask_user", given)) if newest_message(request) == "ask" else answer("Well.")
    )
    async with h.life() as life:
        await life.say("ask")
        [question] = [m for m in h.fake.sent if "q:0" in m.buttons]
        h.fake.press("q:0", message=question)
        await life.until(lambda: not question.buttons)
        assert question.text == "Tea or coffee?\n\n✓ tea"
        assert question.chat == OWNER
        await life.say("ask")
        [question] = [m for m in h.fake.sent if "q:0" in m.buttons]
        await life.say("/status")  # is no answer
        assert question.buttons
        h.fake.say("water", chat=OWNER)
        await life.until(lambda: not question.buttons)
        assert question.text == "Tea or coffee?"
        assert "water" in {one.text for one in h.entries() if isinstance(one, Received)}
        await life.wait_until_idle()
