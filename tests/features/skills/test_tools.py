"""Skills are followed and taken in through the gate, and never from an untrusted conversation."""

import json
import os
from pathlib import Path

import msgspec
import pytest
import trio

from elwood.agent.approvals.messages import Verdict
from elwood.agent.conversation.labels import PRIVATE
from elwood.agent.conversation.message import Assistant, ToolCall, Usage
from elwood.agent.conversation.route import Route
from elwood.agent.session.log.entries import CallEnded, Received, Said, TurnStarted
from elwood.features.skills.git_client import Git
from elwood.features.skills.store import SkillInstaller, SkillStore
from elwood.features.skills.tools import MAX_OFFERED, SkillTools, tools
from elwood.foundation.net.settings import EgressRules
from elwood.foundation.runtime import inline
from elwood.foundation.secrets.redaction import Redactor, Secret
from elwood.foundation.storage.files import Root
from tests.agent.session.gates import Approver, MemoryLog, gate_for
from tests.features.skills.test_skill_list import put

YES, NO = Verdict("once", "me"), Verdict("denied", "me")
SCRIPT = "#!/bin/sh\necho do something daring\n"


class Scene(MemoryLog):
    """One session, whose calls pass the real gate; the owner answers *verdict*."""

    def __init__(self, tmp_path: Path, verdict: Verdict = YES, *, who: str = "me") -> None:
        self.workspace = tmp_path / "work"
        self.workspace.mkdir(exist_ok=True)
        super().__init__()
        self.rounds = 0
        self.approver = Approver()
        self.approver.verdicts["install_skill"] = verdict
        self.approver.verdicts["fetch_skill"] = verdict
        root = Root(self.workspace)
        self.places = SkillInstaller(self.workspace)
        shelf = SkillStore(root, inline, [tmp_path / "team"])
        git = Git(EgressRules(blocked=("blocked.example",)))
        self.skills = SkillTools(shelf, self.places, git, root, inline, lambda path: None)
        self.tools = tools(self.skills)
        self.apply(Received("a", "hello", who, Route("console"), 0.0, untrusted=who != "me"))
        self.apply(TurnStarted("t1", ("a",), 1, "hello"))

    async def call(self, tool: str, **given: str) -> CallEnded:
        """Make one call, and return how it ended."""
        secrets = Redactor([Secret("hunter2")])
        gate = gate_for(self, self.tools, approver=self.approver, redactor=secrets)
        self.rounds += 1
        asked = ToolCall(f"c{self.rounds}", tool, json.dumps(given))
        self.apply(Said("t1", Assistant((asked,), "s", "m", msgspec.Raw(b"[]")), Usage()))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.approver.run, self.approver.mailbox)
            await gate.perform()
            nursery.cancel_scope.cancel()
        assert self.session.turn is not None
        return self.session.turn.receipts[-1]

    async def fetched(self, source: str) -> str:
        """Fetch a skill, and return its id."""
        ended = await self.call("fetch_skill", source=source)
        assert ended.outcome == "ok", ended.text
        return ended.text.split("Its id is ")[1].split()[0]


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


# --- following ------------------------------------------------------------------------------------


async def test_the_instructions_come_with_the_place_and_the_files(scene: Scene) -> None:
    folder = put(scene.workspace / "skills/pdf", "Do it well.")
    ended = await scene.call("activate_skill", name="pdf")
    assert ended.outcome == "ok"
    assert ended.text.startswith('<skill name="pdf" version="')
    assert f'directory="{folder}"' in ended.text
    assert "\nDo it well.\n</skill>" in ended.text
    assert ended.label == PRIVATE
    assert scene.approver.asked == []


async def test_a_second_activation_is_told_and_a_changed_skill_given_again(scene: Scene) -> None:
    folder = put(scene.workspace / "skills/pdf", "Do it well.")
    await scene.call("activate_skill", name="pdf")
    assert "active already" in (await scene.call("activate_skill", name="pdf")).text
    text = (folder / "SKILL.md").read_text().replace("well", "better")
    (folder / "SKILL.md").write_text(text)
    assert "Do it better." in (await scene.call("activate_skill", name="pdf")).text
    scene.session.path.clear()
    assert "Do it better." in (await scene.call("activate_skill", name="pdf")).text


async def test_an_unknown_skill_names_the_others_and_one_that_lacks_says_so(scene: Scene) -> None:
    put(scene.workspace / "skills/pdf")
    put(scene.workspace / "skills/web", more='metadata: {requires: "bins: no-such-program"}')
    ended = await scene.call("activate_skill", name="../pdf")
    assert (ended.outcome, "there are: pdf, web" in ended.text) == ("failed", True)
    ended = await scene.call("activate_skill", name="web")
    assert (ended.outcome, "no-such-program" in ended.text) == ("failed", True)


async def test_commands_cannot_reach_a_skill_of_a_package(scene: Scene, tmp_path: Path) -> None:
    put(tmp_path / "team/style")
    ended = await scene.call("activate_skill", name="style")
    assert f'directory="{tmp_path}/team/style"' in ended.text
    assert "its scripts can be read, not run" in ended.text


# --- taking in ------------------------------------------------------------------------------------


def offer(scene: Scene) -> Path:
    folder = put(scene.workspace / "offered/pdf", "Run:\n```sh\nscripts/go.sh --force\n```")
    (folder / "scripts").mkdir()
    (folder / "scripts/go.sh").write_text(SCRIPT)
    return folder


async def test_the_owner_sees_first_what_can_act(scene: Scene, tmp_path: Path) -> None:
    put(tmp_path / "team/pdf", "The team's way.")
    offer(scene)
    id_ = await scene.fetched("offered/pdf")
    assert not (scene.workspace / "skills").exists()
    ended = await scene.call("install_skill", id=id_)
    assert ended.outcome == "ok", ended.text
    question = scene.approver.asked[0].question
    hidden = f"takes the place of the skill of this name in {tmp_path}/team/pdf."
    for part in ("do something daring", "scripts/go.sh --force", id_, "Fills PDF forms.", hidden):
        assert part in question.subject
    assert question.offered == (), "nothing but this once can be answered"
    assert (scene.workspace / "skills/pdf/scripts/go.sh").read_text() == SCRIPT
    record = scene.places.record("pdf")
    assert record is not None
    assert (record.digest, record.by) == (id_, "approval")
    assert "Run:" in (await scene.call("activate_skill", name="pdf")).text


async def test_a_no_installs_nothing(tmp_path: Path) -> None:
    scene = Scene(tmp_path, NO)
    offer(scene)
    ended = await scene.call("install_skill", id=await scene.fetched("offered/pdf"))
    assert ended.outcome == "denied"
    assert not (scene.workspace / "skills").exists()


async def test_what_was_not_fetched_or_long_ago_is_fetched_again(scene: Scene) -> None:
    offer(scene)
    first = await scene.fetched("offered/pdf")
    for number in range(MAX_OFFERED):
        put(scene.workspace / f"offered/s{number}")
        await scene.fetched(f"offered/s{number}")
    for id_ in (first, "0" * 64):
        ended = await scene.call("install_skill", id=id_)
        assert (ended.outcome, "fetch it again" in ended.text) == ("failed", True)


async def test_what_is_placed_is_what_was_shown(scene: Scene) -> None:
    folder = offer(scene)
    id_ = await scene.fetched("offered/pdf")
    (folder / "scripts/go.sh").write_text("rm -rf ~\n")
    assert (await scene.call("install_skill", id=id_)).outcome == "ok"
    assert (scene.workspace / "skills/pdf/scripts/go.sh").read_text() == SCRIPT


async def test_an_untrusted_conversation_takes_nothing_in(tmp_path: Path) -> None:
    trusted = Scene(tmp_path)
    offer(trusted)
    id_ = await trusted.fetched("offered/pdf")
    scene = Scene(tmp_path, who="guest")
    scene.tools = trusted.tools
    for tool, given in (
        ("fetch_skill", {"source": "offered/pdf"}),
        ("fetch_skill", {"source": "https://e.example/x"}),
        ("install_skill", {"id": id_}),
    ):
        ended = await scene.call(tool, **given)
        assert (ended.outcome, "strangers" in ended.text) == ("failed", True)
    assert scene.approver.asked == []
    assert not (scene.workspace / "skills").exists()


async def test_what_strangers_may_have_written_is_not_taken(scene: Scene) -> None:
    folder = offer(scene)
    os.setxattr(folder / "scripts/go.sh", "user.elwood.untrusted", b"1")
    ended = await scene.call("fetch_skill", source="offered/pdf")
    assert (ended.outcome, "strangers" in ended.text) == ("failed", True)


@pytest.mark.parametrize(
    ("source", "outcome", "why"),
    [
        ("https://blocked.example/x", "denied", "block"),
        ("https://127.0.0.1/x", "failed", "public address"),
        ("https://e.example/hunter2", "denied", "secret"),
        ("../elsewhere", "failed", "leads out"),
        ("missing", "failed", "does not exist"),
        ("plain", "failed", "no SKILL.md"),
    ],
)
async def test_sources_are_judged(scene: Scene, source: str, outcome: str, why: str) -> None:
    (scene.workspace / "plain").mkdir()
    ended = await scene.call("fetch_skill", source=source)
    assert (ended.outcome, why in ended.text) == (outcome, True), ended.text
