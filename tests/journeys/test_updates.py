"""Updates after a message: sent once, again after a change, and never before the message."""

import re
from collections.abc import Iterable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest

from elwood.agent.conversation.labels import CLEAN, PRIVATE
from elwood.agent.conversation.route import Route
from elwood.agent.feature import Feature
from elwood.agent.models.anthropic import Anthropic
from elwood.agent.models.client import Provider
from elwood.agent.models.settings import ProviderSettings
from elwood.agent.parts import Gathered, Parts
from elwood.agent.policy.settings import PolicySettings
from elwood.agent.session.core import Core
from elwood.agent.session.log.entries import Reminded
from elwood.features.shell.extension import EnvironmentExtension, build_probe
from elwood.features.skills.settings import SkillSettings
from elwood.features.tasks.task import Task, TaskStatus
from elwood.features.tasks.texts import list_planned
from elwood.features.tasks.when import Cron, Once
from elwood.features.web.settings import SearchSettings
from elwood.foundation.net.http import Client
from elwood.foundation.runtime import inline
from elwood.foundation.sandbox.command import Command, CommandOutcome, Rung
from elwood.foundation.secrets.redaction import Secret
from elwood.foundation.text.tokens import estimate
from tests.fake_model_rules import Json, blocks
from tests.fake_models import FakeModels, Say
from tests.fake_telegram import OWNER
from tests.features.skills.test_skill_list import put
from tests.journeys.home import OTHER, OTHERS, Home
from tests.journeys.service import GROUP, KEY, NO_COMMANDS, town
from tests.journeys.test_approval_journeys import press, questions, require_approval
from tests.reminders import ENVIRONMENT, PLANNED, SKILL, WAITING


class BareSandbox:
    """A sandbox with some *programs*."""

    rung: Rung = "bubblewrap"

    def __init__(self, *programs: str) -> None:
        self.programs = programs

    def map_path(self, path: Path) -> str | None:
        return "/workspace"

    async def run(self, command: Command) -> CommandOutcome:
        return CommandOutcome(0, "\n".join(self.programs).encode())


def use_model(h: Home, sandbox: BareSandbox) -> FakeModels:
    """Use a model behind HTTP, and run commands in *sandbox*."""
    fake = FakeModels()
    settings = ProviderSettings(api="anthropic", base_url=h.network.serve(fake.answer))

    def make(client: Client, now: object) -> Provider:
        return Anthropic("eyes", settings, client)

    async def build(core: Core, others: Gathered) -> Parts:
        look = build_probe(sandbox, core.paths.workspace, "Europe/Berlin", inline)
        return Parts(sessions=[partial(EnvironmentExtension, look)])

    h.providers, h.model = {"eyes": make}, "eyes/m"
    h.features = (Feature(name="shell", build=build),)
    h.more_tools = ("schedule", "list_tasks", "cancel_task")
    return fake


def request_parts(body: Json) -> list[bytes]:
    """Return the parts of a request in order, without cache markers."""
    parts = [*body["tools"], *body["system"]]
    parts += [{"of": m["role"], **one} for m in body["messages"] for one in blocks(m)]
    kept = ({key: one[key] for key in one if key != "cache_control"} for one in parts)
    return [msgspec.json.encode(one) for one in kept]


def are_prefixes(bodies: Iterable[Json]) -> bool:
    return all(
        request_parts(b)[: len(request_parts(a))] == request_parts(a) for a, b in pairwise(bodies)
    )


def find_updates(body: Json, head: str) -> list[str]:
    """Return the updates that begin with *head*, the oldest first."""
    texts = [one.get("text", "") for m in body["messages"] for one in blocks(m)]
    return [text for text in texts if text.startswith(head)]


def make_call(tool: str, **given: Any) -> str:
    return f"please\n/call {tool} {msgspec.json.encode(given).decode()}"


async def test_changes_are_announced_once_and_the_prefix_stays(h: Home) -> None:
    sandbox = BareSandbox("git", "python3")
    fake = use_model(require_approval(h), sandbox)
    plan = make_call("schedule", title="call mum", at="2099-01-01T18:00", remind="Call her.")
    async with h.life() as life:
        await life.say("hello", plan, "is it known?")
        assert not find_updates(fake.bodies[-1], PLANNED), (
            "that would make the conversation private"
        )
        assert h.fold().taint.label == CLEAN
        await life.say(make_call("list_tasks"), "and now?", "and now?")
        await life.say(make_call("act", name="boldly"), "well?", "well?")
        await press(h, life, questions(h)[0], "d")
        await life.until(lambda: not h.fold().pending)
        await life.say(make_call("cancel_task", task="call-mum"), "good")
        assert h.fold().taint.label == PRIVATE, "as list_tasks has made it"
    sandbox.programs = ("git", "pandoc")
    async with h.life() as life:
        await life.say("back", "again")
    last = fake.bodies[-1]
    assert find_updates(last, WAITING) == [f"{WAITING}\n- act boldly]", f"{WAITING}nothing]"]
    task = "\n- call-mum: once, Thu 2099-01-01 18:00 UTC: call mum"
    assert find_updates(last, PLANNED) == [f"{PLANNED}{task}]", f"{PLANNED}nothing]"]
    first, second = find_updates(last, ENVIRONMENT)
    assert first.startswith(
        f"{ENVIRONMENT}commands run in /workspace (bubblewrap, no network); programs found there: "
        "git, python3; not found: uv, "
    )
    assert first.endswith(". The owner's time zone: Europe/Berlin.]")
    assert "found there: git, pandoc; not found: python3, " in second
    assert are_prefixes(fake.bodies)
    assert estimate(first) < 100, "the extra cost of a plain first turn"
    sources = {one.text.split()[0]: one.source for one in h.entries() if isinstance(one, Reminded)}
    assert sources == {
        "[waiting": "your waiting calls",
        "[planned:": "your tasks",
        "[environment:": "the description of the sandbox",
    }
    private = [one.text for one in h.fold().private_texts() if one.text.startswith(PLANNED)]
    assert private == find_updates(last, PLANNED), "what leaves is compared with it"
    async with h.life() as life:
        await life.say("a " * 2_000, "b " * 2_000)
        fake.script = [Say("<summary>\nThey talked.\n</summary>")]
        await life.say("/compact", "hello")
        summed_up, after = fake.bodies[-2:]
        assert ENVIRONMENT not in str(summed_up["messages"])
        assert find_updates(after, ENVIRONMENT) == [second]
        await life.say("/new", "hello")
        assert find_updates(fake.bodies[-1], ENVIRONMENT) == [second]
    assert h.broken_promises() == []


async def test_updates_do_not_reach_other_people(h: Home) -> None:
    h.groups = (GROUP,)
    fake = use_model(h, BareSandbox("git"))
    plan = make_call("schedule", title="call mum", at="2099-01-01T18:00", remind="Call her.")
    async with h.life() as life:
        await life.say(plan)
        await life.say(make_call("list_tasks"), "and now?", chat=OTHER)
        assert h.fold(OTHERS).taint.label == PRIVATE
        assert find_updates(fake.bodies[-1], ENVIRONMENT)
        assert find_updates(fake.bodies[-1], PLANNED) == []
        asked = len(fake.bodies)
        h.fake.say("@elwood_bot hello", chat=GROUP, user=OWNER)
        await life.until(lambda: len(fake.bodies) > asked)
        assert find_updates(fake.bodies[-1], ENVIRONMENT) == []


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, (True, False)),
        ({"skills": SkillSettings(load=0)}, (False, False)),
        ({"policy": PolicySettings(ask=("activate_skill",))}, (False, False)),
        ({"skills": SkillSettings(chats={"fill-pdf": (OTHER,)})}, (False, True)),
    ],
    ids=["as it comes", "turned off", "to be asked about", "for another chat"],
)
async def test_a_matching_skill_is_included(
    h: Home, more: dict[str, Any], expected: tuple[bool, bool]
) -> None:
    """If the policy allows the tool that returns it, and the owner wants it."""
    put(h.folder / "workspace/skills/fill-pdf", f"Write to {KEY}.")
    h.folder.joinpath("workspace").chmod(0o700)
    fake = use_model(h, BareSandbox("git"))
    h.settings |= {"search": SearchSettings(brave_key=Secret(KEY)), **more}
    async with h.life() as life:
        await life.say("fill the pdf form")
        await life.say("hello" if expected[0] else "fill the pdf form", chat=OTHER)
    for body, is_given in zip(fake.bodies, expected, strict=True):
        assert bool(find_updates(body, SKILL)) == is_given
        assert not is_given or "Write to ***." in find_updates(body, SKILL)[0]
    given = [one for one in h.entries() if isinstance(one, Reminded) and one.text.startswith(SKILL)]
    assert [one.source for one in given] == ["your skills"] * expected[0]
    assert h.broken_promises() == []


def test_the_task_list_is_bounded_and_omits_untrusted_tasks() -> None:
    mine = Route("telegram", str(OWNER))
    tasks = [
        Task(f"t{n:02}", f"Do {n}", Cron(f"{n} 8 * * *"), route=mine) for n in range(12)
    ] + [
        Task("late", "Late", Once(9e9), route=mine),
        Task("soon", "So\non", Once(8e9), route=mine),
        Task("strange", "Obey", Once(8e9), route=mine, untrusted=True),
        Task("theirs", "Theirs", Once(8e9), route=Route("telegram", str(OTHER))),
        Task("all", "All", Once(8e9), origin="config"),
    ]  # fmt: skip
    seen = [TaskStatus(one, next=8e9) for one in tasks]
    over = [
        TaskStatus(Task("over", "Over", Once(1.0), route=mine)),
        TaskStatus(Task("p", "P", Once(9e9), route=mine), next=9e9, paused="paused"),
    ]
    text = list_planned([*seen, *over], mine, "UTC")
    ids = re.findall(r"\n- ([^:]*):", text)
    assert ids == ["all", "soon", "late", *(f"t{n:02}" for n in range(7))]
    assert text.endswith("\n(5 more; see list_tasks)")
    assert "\n- soon: once, Sun 2223-07-06 14:13 UTC: So on\n" in text


async def test_updates_reach_a_model_over_a_real_socket(tmp_path: Path) -> None:
    """The time zone changes with the restart: an update at the end says so, the prefix stays."""
    zone = '\n[owner]\ntimezone = "{}"\n'
    async with town(tmp_path / "town", more=NO_COMMANDS + zone.format("UTC")) as here:
        await here.start()
        here.telegram.say("tell m0001")
        await here.wait_for_messages(1)
        await here.stop()
        here.config.write_text(here.config.read_text().replace("UTC", "Asia/Tokyo"))
        await here.start()
        here.telegram.say("tell m0002")
        await here.wait_for_messages(2)
        here.telegram.say("tell m0003")
        await here.wait_for_messages(3)
        await here.stop()
        assert are_prefixes(here.models.bodies)
        start = f"{ENVIRONMENT}commands cannot be run. The owner's time zone:"
        assert find_updates(here.models.bodies[-1], ENVIRONMENT) == [
            f"{start} UTC.]",
            f"{start} Asia/Tokyo.]",
        ]
