"""What other people are shown: nothing of the owner's without the owner's yes."""

import re
from functools import partial

import pytest
import trio

from elwood.agent.approvals.settings import ApprovalSettings
from elwood.agent.conversation.message import Completion
from elwood.agent.models.client import ModelRequest
from elwood.agent.policy.settings import PolicySettings
from elwood.features.tasks.messages import PlanTask
from elwood.features.tasks.settings import HeartbeatSettings
from elwood.features.tasks.task import Task
from elwood.features.tasks.when import Every
from elwood.features.telegram.pacing import Pacing
from tests import example_feature
from tests.agent.session.known import NAMES
from tests.agent.session.scripted import answer, call
from tests.fake_telegram import OWNER
from tests.journeys.home import EPOCH, MINE, OTHER, OTHERS, Home, Life, newest_message
from tests.journeys.test_approval_journeys import GUEST, press, wait_for_question
from tests.journeys.test_memory import equip, typed

ID, TITLE = "zq-party", "A surprise zqparty"
KEY, NOTE = "zq-shoe", "Shoe size zqfortytwo"
WORDS, CALL = "zqwords of the owner", "zqcall"
DAMAGE = "not a line of a journal\n"
# The owner's data: tasks, notes, messages, calls, paths, other conversations.
PRIVATE = (ID, "zqparty", KEY, "zqfortytwo", "zqwords", CALL, f"tg-{OWNER}", OTHERS, ".jsonl")
# Costs and counts of the owner's data.
COSTS = ("$", "Today (", "1 note", "This conversation:")
# Arguments for commands; "CODE" is the code of an open question.
GIVEN = {
    "export": ("md", "html"),
    "receipts": ("1",),
    "memory": ("search zqfortytwo", f"show {KEY}", "pending", "undo"),
    "search": ("zqwords", "zqcall"),
    "tasks": ("all", f"run {ID}", f"pause {ID}", f"stop {ID}", f"cancel {ID}"),
    "approvals": ("revoke 1",),
    "allow": ("CODE", "CODE always"),
    "deny": ("CODE",),
    "resume": ("1", "zq"),
    "branch": ("zq",),
}


def prepare(h: Home) -> None:
    """Let notes be saved without asking and tasks run at night, and damage another person's log."""
    h.more_tools = ("save_memory",)
    h.settings["policy"] = PolicySettings(allow=("save_memory",))
    h.settings["heartbeat"] = HeartbeatSettings(hours="00:00-23:59")
    h.journal(OTHERS).parent.mkdir(parents=True)
    h.journal(OTHERS).write_text(2 * DAMAGE)


async def plant_data(h: Home, life: Life) -> str:
    """Create data of every kind for the owner; return the code of an open question."""

    def think(request: ModelRequest) -> Completion:
        said = newest_message(request)
        if said == "remember":
            return call(("c1", "save_memory", f'{{"key": "{KEY}", "content": "{NOTE}"}}'))
        return call(("c1", "act", f'{{"name": "{CALL}"}}')) if said == "act" else answer("Well.")

    h.think = think
    task = Task(ID, TITLE, Every(3600.0, EPOCH), prompt="Plan it.")
    await life.address("timetable").ask(PlanTask(task=task))
    await life.say(WORDS, "remember", "act")
    h.fake.say("hello", chat=OTHER, user=OTHER)
    question = await wait_for_question(h, life)
    await life.until(lambda: any(OTHERS in one for one in life.stuck_actors()))
    h.fake.press(question.button("?"), message=question)
    await life.until(lambda: "/allow " in question.text)
    return question.text.partition("/allow ")[2].split()[0]


async def admit(h: Home, life: Life) -> None:
    h.fake.say("I am Bo", chat=GUEST, user=GUEST)
    await life.until(lambda: [m for m in h.fake.sent if m.buttons and "talk to me" in m.text])
    asking = next(m for m in h.fake.sent if m.buttons and "talk to me" in m.text)
    h.fake.press(asking.buttons[0])
    await life.until(lambda: len(h.fake.texts(GUEST)) == 2)
    h.fake.say("I am a guest", chat=GUEST, user=GUEST)
    await life.until(lambda: len(h.fake.texts(GUEST)) == 3)


async def type_and_read(h: Home, life: Life, chat: int, typed: str) -> str:
    """Type something; return everything sent to that chat, files included."""
    before = len(h.fake.sent)
    h.fake.say(typed, chat=chat, user=chat)
    await life.until(lambda: any(m.chat == chat for m in h.fake.sent[before:]))
    await trio.sleep(1)
    here = [message for message in h.fake.sent[before:] if message.chat == chat]
    files = [h.fake.files.get(message.message_id, ("", b"")) for message in here]
    return "\n".join(
        f"{message.text}\n{message.params}\n{name}\n{data.decode()}"
        for message, (name, data) in zip(here, files, strict=True)
    )


async def test_no_command_shows_a_guest_the_owners_data(h: Home) -> None:
    prepare(h)
    h.settings["approvals"] = ApprovalSettings(wait=5.0)
    async with h.life() as life:
        code = await plant_data(h, life)
        await admit(h, life)
        said = {
            f"/{name} {given}".strip().replace("CODE", code)
            for name in (*NAMES, "start", ID)
            for given in ("", *GIVEN.get(name, ()))
        }
        answers = {}
        # Commands that change the conversation come last, so that it exists before.
        for typed in sorted(said, key=lambda typed: (typed.startswith("/new"), typed)):
            text = answers[typed] = await type_and_read(h, life, GUEST, typed)
            assert not [one for one in (*PRIVATE, *COSTS) if one in text], (typed, text)
        assert "I am a guest" in answers["/export md"]
        assert "Elwood" in answers["/status"]
        assert "for my owner only" in answers["/receipts 1"]
        assert h.effects.done == []
        # The owner sees all of it: the planted data can be found.
        own = "\n".join(
            [
                await type_and_read(h, life, OWNER, typed)
                for typed in ("/status", "/tasks", "/memory", "/approvals", "/receipts")
            ]
        )
    assert [one for one in (ID, "zqparty", KEY, "zqfortytwo", CALL, *COSTS) if one not in own] == []
    assert OTHERS in own
    assert ".jsonl" in own


GROUP = -500


def write_in_group(h: Home, text: str, user: int = OWNER) -> None:
    """Let *user* write to the bot in a group; a command has its name."""
    if text.startswith("/"):
        name, _, given = text.partition(" ")
        text = f"{name}@elwood_bot {given}".rstrip()
        mark = {"type": "bot_command", "offset": 0, "length": len(f"{name}@elwood_bot")}
    else:
        text, mark = f"@elwood_bot {text}", {"type": "mention", "offset": 0, "length": 11}
    h.fake.say(text, chat=GROUP, user=user, entities=[mark])


async def test_a_group_sees_private_data_only_after_the_owners_yes(h: Home) -> None:
    equip(h)
    h.groups = (GROUP,)
    asking = typed("search_memory", query="shoe")
    async with h.life() as life:
        await life.say(typed("save_memory", key=KEY, content=NOTE))
        write_in_group(h, asking)
        question = await wait_for_question(h, life)
        assert question.chat == OWNER
        assert "everyone in the group reads my answer" in question.text
        assert h.texts(GROUP) == []
        await press(h, life, question, "d")
        await life.wait_until_idle()
        assert "zqfortytwo" not in "".join(h.texts(GROUP))
        write_in_group(h, asking)
        await press(h, life, await wait_for_question(h, life, 2), "o")
        await life.wait_until_idle()
        assert "zqfortytwo" in h.texts(GROUP)[-1]
    assert not h.broken_promises()


async def test_no_command_shows_a_group_other_conversations(h: Home) -> None:
    prepare(h)
    h.groups = (GROUP,)
    async with h.life() as life:
        code = await plant_data(h, life)
        for name in (*NAMES, "memory", "tasks"):
            for given in ("", *GIVEN.get(name, ())):
                before = len(h.fake.sent)
                write_in_group(h, f"/{name} {given}".strip().replace("CODE", code))
                await life.until(lambda: any(m.chat == GROUP for m in h.fake.sent[before:]))  # noqa: B023
                text = "".join(m.text for m in h.fake.sent[before:] if m.chat == GROUP)
                shown = [one for one in (*PRIVATE, *COSTS) if one in text]
                assert not shown, (name, given, text)


async def test_a_features_command_is_listed_and_refused_like_a_built_in_one(h: Home) -> None:
    """In /help, in the menus, by its alias, and for the people that its record names."""
    equip(h)
    h.groups, h.more_channels = (GROUP,), (example_feature.FEATURE,)
    async with h.life() as life:
        await admit(h, life)
        listed = "/parcels: list the parcels"
        shown = await type_and_read(h, life, OWNER, "/help")
        planned = shown.partition("What I know and plan")[2].partition("What I did")[0]
        assert listed in planned
        assert f"{listed}\n/post does the same." in await type_and_read(
            h, life, OWNER, "/help post"
        )
        for menu in ("all_private_chats", "all_group_chats", f"chat {OWNER}"):
            assert h.fake.menus[menu]["parcels"] == "list the parcels"
            assert "answer" not in h.fake.menus[menu]
        assert "On their way: nothing." in await type_and_read(h, life, OWNER, "/post")
        # A member may use it in a private chat; no one may use it where others read.
        assert "On their way: nothing." in await type_and_read(h, life, GUEST, "/post")
        write_in_group(h, "/post")
        await life.until(lambda: "/parcels is private" in "".join(h.texts(GROUP)))
        write_in_group(h, "/post", user=9)
        await life.until(lambda: "Guests cannot use /parcels here" in "".join(h.texts(GROUP)))
    assert not h.broken_promises()


def has_text(h: Home, text: str) -> bool:
    return text in h.texts()


async def test_a_crowd_of_strangers_does_not_delay_the_owner(h: Home) -> None:
    """Within Telegram's limits: answers are immediate, notices are few."""
    h.pacing = Pacing()
    crowd = range(5_000, 5_060)
    answered: list[float] = []
    async with h.life() as life:
        await life.say("warm up")
        for at in range(10):
            for user in crowd if at == 0 else (6_000 + at,):
                h.fake.say("hi", chat=user, user=user)
            began = trio.current_time()
            h.fake.say(f"hello {at}")
            await life.until(partial(has_text, h, f"re: hello {at}"))
            answered.append(trio.current_time() - began)
            await trio.sleep(60)
        assert max(answered) < 2, answered
        notices = [text for text in h.texts() if "to talk to me" in text]
        assert len(notices) == 3, notices
        assert notices[0].startswith("Someone wants to talk to me: Ann (tg:5")
        newest = h.fake.texts(6_009)[0]
        [code] = re.findall(r"code: (\w{8})\n", newest)
        h.fake.say(f"/allow {code}")
        await life.until(lambda: len(h.fake.texts(6_009)) == 2)
        assert "may talk to me now" in h.texts()[-1]
        assert all(h.fake.texts(user) for user in crowd)
    assert h.broken_promises() == []


async def test_without_pairing_strangers_get_no_answer(
    h: Home, caplog: pytest.LogCaptureFixture
) -> None:
    h.pairing, group, user = "off", -100_777, 777
    async with h.life() as life:
        await life.say("hello")
        before, answers = len(h.fake.calls), len(h.fake.sent)
        for text in ("hi", "/start", "/help", "/stop"):
            h.fake.say(text, chat=user, user=user)
        h.fake.say(None, chat=user, user=user, document={"file_id": "x", "file_size": 10})
        h.fake.press("c:/status", user=user, message=h.fake.show("Well.", chat=user))
        h.fake.member(group, user=user)
        h.fake.say("/status@elwood_bot", chat=group, user=user)
        await life.wait_until_idle()
        await trio.sleep(60)
        assert {how for how, _ in h.fake.calls[before:]} == {"getUpdates"}
        assert len(h.fake.sent) == answers + 1  # the request that was shown
        assert all("hello" in str(one.messages) for one in h.asked)
        assert h.sessions == [MINE]
        assert caplog.text.count("message of a stranger that is not allowed") == 1
        assert caplog.text.count("message of a group that is not allowed") == 1
        await trio.sleep(3600)
        h.fake.say("hi", chat=user, user=user)
        await life.wait_until_idle()
        [_, again] = [one for one in caplog.records if "a stranger that" in one.message]
        assert again.__dict__["dropped_since_the_last_entry"] == 4
        h.fake.say("/status@elwood_bot", chat=group)  # the owner's yes for a group counts
        await life.until(lambda: any("group" in text for text in h.texts()))
    assert h.broken_promises() == []
