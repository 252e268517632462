"""The assistant's own settings: proposed, shown, allowed, applied, undone; and mistakes in them."""

import json

import trio

from elwood.agent.conversation.message import Completion
from elwood.agent.models.client import ModelRequest
from tests.agent.session.scripted import answer, call
from tests.journeys.home import Home, newest_message

SHORT = '[personality]\ntext = "Answer in one line."'
CURT = '[personality]\ntext = "Answer in one word."'


def setting(h: Home) -> None:
    """Let the model write the text after "be"."""

    def think(request: ModelRequest) -> Completion:
        said = newest_message(request)
        if said.startswith("be "):
            return call(("c1", "change_settings", json.dumps({"text": said[3:]})))
        return answer("re: " + said)

    h.think = think
    h.more_tools = ("change_settings",)


async def test_a_change_is_shown_before_it_applies_and_can_be_undone(h: Home) -> None:
    setting(h)
    async with h.life() as life:
        for text in (SHORT, CURT):
            h.fake.say(f"be {text}")
            await life.until(lambda: bool(h.fake.sent and "May I" in h.fake.sent[-1].text))
            question = h.fake.sent[-1]
            assert "Change my own settings (agent.toml)" in question.text
            assert text.splitlines()[1] in question.text
            assert text not in h.asked[-1].prompt.system
            h.fake.press(question.buttons[0], message=question)
            await life.wait_until_idle()
        assert '-text = "Answer in one line."' in question.text
        assert (h.state / "agent.toml").read_text() == CURT
        await life.say("hello")
        assert "Answer in one word." in h.asked[-1].prompt.system
        await life.say("/settings undo")
        assert '-text = "Answer in one word."\n+text = "Answer in one line."' in h.texts()[-1]
    async with h.life() as life:
        await life.say("hello again")
        assert "Answer in one line." in h.asked[-1].prompt.system
        for _ in range(2):
            await life.say("/settings undo")
        assert h.texts()[-1] == "There is no change to take back."
        assert (h.state / "agent.toml").read_text() == ""
    assert not h.broken_promises()


BROKEN = """\
[policy]
allow = ["run_command"]
[[tasks]]
title = "News"
when = "often"
prompt = "Look."
[[tasks]]
title = "Gossip"
when = "daily"
message = "Hi"
deliver = "telegram:7"
[heartbeat]
checklist = "## Mail\\nCadence: never\\nPrompt: Look."
"""


async def test_a_manual_mistake_is_reported_and_the_last_valid_file_applies(h: Home) -> None:
    path = h.state / "agent.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    tea = '[[tasks]]\ntitle = "Tea"\nwhen = "0 17 * * *"\nmessage = "Tea time."\n'
    path.write_text(f'{SHORT}\n{tea}[heartbeat]\nchecklist = "- Is the oven off?"\n')
    async with h.life() as life:
        await life.pass_time(100.0)
        await life.say("/tasks")
        assert "Tea" in h.texts()[-1]
        assert "Heartbeat" in h.texts()[-1]
        path.write_text(BROKEN)
        await life.until(lambda: "agent.toml has an error" in h.texts()[-1])
        told = h.texts()[-1]
        for part in (
            "\nagent.toml: policy: is allowed only in config.toml, which only your owner writes",
            "tasks[0].when: 'often' is not a valid time",
            "tasks[1].deliver: is allowed only in config.toml",
            "heartbeat.checklist: line 1",
        ):
            assert part in told
    async with h.life() as life:
        await life.say("hello")
        assert "Answer in one line." in h.asked[-1].prompt.system
        await life.say("/tasks")
        assert "Tea" in h.texts()[-1]
        await life.say("/settings")
        assert "has an error" in h.texts()[-1]
        await life.say("/settings undo")
        assert path.read_text().startswith(SHORT)
    assert not h.broken_promises()


async def test_an_unreadable_file_at_the_start_is_reported(h: Home) -> None:
    h.state.mkdir(parents=True, exist_ok=True)
    (h.state / "agent.toml").write_text("#" * 20_001)
    async with h.life() as life:
        await life.say("/settings")
        assert "it is larger than 20,000 bytes" in h.texts()[-1]
        await life.say("/settings undo")
        assert "There is no change to take back." in h.texts()[-1]
    assert not h.broken_promises()


async def test_an_unavailable_earlier_version_is_reported(h: Home) -> None:
    kept = h.state / "agent-toml.json"
    path = h.state / "agent.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(SHORT)
    async with h.life() as life:
        await life.until(kept.exists)
        kept.unlink()
        kept.mkdir()
        assert "Answer in one line." in await life.say("/settings")
        said = await life.say("/settings undo")
        assert said.startswith("I could not take it back: ")
        assert path.read_text() == SHORT
        assert not [one for one in life.inspect().actors if one.restarts]
    assert not h.broken_promises()


async def test_a_disabled_task_is_ignored(h: Home) -> None:
    path, tea = h.state / "agent.toml", '[[tasks]]\nwhen = "hourly"\nmessage = "Tea time."\n'
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(tea)
    async with h.life() as life:

        async def served() -> int:
            await trio.sleep(100)  # until the file is checked again, and then the tasks
            await life.pass_time(3601.0)
            await life.wait_until_idle()
            return sum("Tea time." in text for text in h.texts())

        assert await served() == 1
        path.write_text(f"{tea}enabled = false\n")
        assert await served() == 1
        assert "Tea time" not in await life.say("/tasks")
        path.write_text(f"{tea}enabled = true\n")
        assert await served() == 2
    assert not h.broken_promises()


async def test_people_in_the_configuration_need_no_code(h: Home) -> None:
    h.allowed_chats = (77,)
    async with h.life() as life:
        h.fake.say("hello", chat=77, user=77)
        await life.until(lambda: h.texts(77))
        assert h.texts(77) == ["re: hello"]
        h.fake.say("/budget", chat=77, user=77)
        await life.until(lambda: len(h.texts(77)) == 2)
        assert h.texts(77)[1] == "/budget is for my owner only."
        assert "somebody (tg:77): member, allowed by telegram.allowed_chats" in await life.say(
            "/people"
        )
        assert await life.say("/people remove tg:77") == (
            "Their access comes from telegram.allowed_chats in config.toml. "
            "Change it there and restart Elwood."
        )
