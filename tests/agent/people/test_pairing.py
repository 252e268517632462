"""Pairing: an owner grants access once, and it survives restarts."""

from functools import partial
from pathlib import Path

import pytest
import trio
import trio.testing

from elwood.agent.approvals.messages import Pending, Verdict
from elwood.agent.channels.messages import Unsent
from elwood.agent.conversation.inbound import Principal
from elwood.agent.conversation.route import Route
from elwood.agent.people.messages import (
    ChangeAccess,
    Known,
    Meet,
    MovedGroups,
    MoveGroup,
    RemovedPeople,
    Stranger,
)
from elwood.agent.people.state import CODE_LASTS
from tests.agent.approvals.approving import (
    CODES,
    OWNER,
    OWNER_ROUTE,
    World,
    question,
    run_approvals,
)
from tests.journeys.disk import BadDisk


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "approvals.jsonl")


async def test_the_owners_press_admits_a_stranger(world: World) -> None:
    async with run_approvals(world, OWNER_ROUTE) as ask:
        assert await ask.meet(7) == Stranger(CODES[0])
        await trio.testing.wait_all_tasks_blocked()
        (prompt,) = world.posts
        assert prompt.route == OWNER_ROUTE
        assert CODES[0] in prompt.part.text
        yes, no = (button.data for button in prompt.buttons)
        assert await ask.meet(7) == Stranger(None)
        settled = await ask.press(yes)
        assert settled.ok
        assert "tg:7" in settled.text
        assert await ask.meet(7) == Known()
        assert not (await ask.press(no)).ok  # the first press decided
        assert await ask.meet(7) == Known()
    assert len(world.texts(7)) == 1
    async with run_approvals(world, OWNER_ROUTE) as ask:
        assert await ask.meet(7) == Known()


async def test_only_an_owners_first_press_counts(world: World) -> None:
    async with run_approvals(world, OWNER_ROUTE) as ask:
        await ask.meet(7)
        data = f"p:{CODES[0]}:y"
        for thief in ("tg:7", "tg:8", ""):
            settled = await ask.press(data, by=thief)
            assert not settled.ok
            assert "Only my owner" in settled.text
        assert await ask.meet(7) == Stranger(None)
        outcomes: list[bool] = []

        async def press() -> None:
            outcomes.append((await ask.press(data)).ok)

        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(press)
        assert sorted(outcomes) == [False] * 4 + [True]


@pytest.mark.parametrize(
    "data", ["p:ZZZZZZZZ:y", "", "p::y", f"p:{CODES[0]}", f"q:{CODES[0]}:y", "x" * 64]
)
async def test_an_unknown_button_is_expired(world: World, data: str) -> None:
    async with run_approvals(world, OWNER_ROUTE) as ask:
        await ask.meet(7)
        settled = await ask.press(data)
        assert (settled.ok, "expired" in settled.text) == (False, True)
        assert await ask.meet(7) == Stranger(None)


async def test_a_code_is_renewed_after_an_hour(world: World) -> None:
    async with run_approvals(world, OWNER_ROUTE) as ask:
        assert await ask.meet(7) == Stranger(CODES[0])
        world.now += 3599
        assert await ask.meet(7) == Stranger(None)
        world.now += 1
        assert not (await ask.pair(CODES[0])).ok
        assert await ask.meet(7) == Stranger(CODES[1])
        assert (await ask.pair(f" {CODES[1].lower()[:4]}-{CODES[1][4:]}")).ok
        assert await ask.meet(7) == Known()


async def test_an_admitted_person_needs_no_question(world: World, autojump_clock: object) -> None:
    world.sent = lambda _: Unsent("away")
    async with run_approvals(world, OWNER_ROUTE) as ask:
        await ask.meet(7)
        assert (await ask.rule(CODES[0], "once")).ok
        world.sent = None
        await trio.sleep(2 * CODE_LASTS)
        [edit] = world.edits
        assert (edit.part, edit.buttons) == (None, ())


async def test_an_expired_code_removes_its_buttons(world: World, autojump_clock: object) -> None:
    async with run_approvals(world, OWNER_ROUTE) as ask:
        await ask.meet(7)
        await trio.sleep(CODE_LASTS + 1)
        [edit] = world.edits
        assert (edit.message, edit.buttons) == ("1", ())
        assert edit.part is not None
        assert edit.part.text.startswith("Eve (tg:7) may not talk to me: no one decided in time, ")


async def test_a_clock_set_back_expires_pending_codes(world: World) -> None:
    async with run_approvals(world, OWNER_ROUTE) as ask:
        await ask.meet(7)
        world.now -= 86400
        assert not (await ask.pair(CODES[0])).ok


async def test_a_denied_stranger_stays_out(world: World) -> None:
    async with run_approvals(world, OWNER_ROUTE) as ask:
        await ask.meet(7)
        assert (await ask.press(f"p:{CODES[0]}:n")).ok
        world.now += 7200
        assert await ask.meet(7) == Stranger(None)
        assert not world.texts(7)
    async with run_approvals(world, OWNER_ROUTE) as ask:
        assert await ask.meet(7) == Stranger(None)


async def test_many_strangers_block_no_one(world: World, autojump_clock: object) -> None:
    world.codes = [first[4:] + last[4:] for first in CODES for last in CODES]
    async with run_approvals(world, OWNER_ROUTE) as ask:
        met = [await ask.meet(number) for number in range(1_000, 1_700)]
        given = [m.code for m in met if isinstance(m, Stranger) and m.code is not None]
        assert len(given) == 600, "an hour's"
        size = world.path.stat().st_size
        for number in range(1_000, 1_600):
            await ask.meet(number)
        assert world.path.stat().st_size == size
        assert (await ask.pair(given[0])).ok, "nobody's lapses for the sake of another's"
        assert (await ask.pair(given[-1])).ok
        world.now += 3_600
        await trio.sleep(3_600)
        assert isinstance(again := await ask.meet(5), Stranger)
        assert again.code is not None
    assert len(world.texts(1)) <= 7, "notices in an hour"


async def test_the_owner_gets_three_questions_at_a_time(
    world: World, autojump_clock: object
) -> None:
    async with run_approvals(world, OWNER_ROUTE) as ask:
        for number in range(7, 12):
            await ask.meet(number)
        await trio.testing.wait_all_tasks_blocked()
        assert asked_principals(world) == [7, 8, 9]
        assert (await ask.rule(CODES[4], "once")).ok, "a code counts without a question"
        assert not (await ask.rule(CODES[0], "once", by="tg:7")).ok
        assert (await ask.rule(CODES[0], "denied")).ok
        await trio.testing.wait_all_tasks_blocked()
        assert asked_principals(world) == [7, 8, 9, 10]
        await ask.meet(12)
        await trio.testing.wait_all_tasks_blocked()
        assert asked_principals(world) == [7, 8, 9, 10]
        assert await ask.meet(7) == Stranger(None)
        assert await ask.meet(11) == Known()
    async with run_approvals(world, OWNER_ROUTE) as ask:
        await trio.sleep(30)
        assert asked_principals(world) == [7, 8, 9, 10], "also after a start"
        world.now += 1800
        await ask.meet(13)
        world.now += 1800
        await trio.sleep(CODE_LASTS)
        assert asked_principals(world) == [7, 8, 9, 10, 13], "when the codes of the others are over"


async def test_the_owners_group_precedes_strangers(world: World) -> None:
    async with run_approvals(world, OWNER_ROUTE) as ask:
        for number in range(5):
            brought = Principal("tg:1" if number == 4 else f"tg:{20 + number}", "Eve", owner=False)
            route = Route("telegram", f"-{number}", private=False)
            asked = Meet(principal=f"tg:-{number}", name="Fun", route=route, brought=brought)
            await ask.box.address.ask(asked)
        await trio.testing.wait_all_tasks_blocked()
        assert len(world.posts) == 4
        assert world.posts[-1].part.text.startswith("Eve (tg:1) wants me in the group Fun (tg:-4)")
        await ask.meet(7)
        await trio.testing.wait_all_tasks_blocked()
        assert len(world.posts) == 5, "groups take no place of people"


async def test_an_undelivered_question_frees_its_slot(world: World, autojump_clock: object) -> None:
    async with run_approvals(world, OWNER_ROUTE) as ask:
        world.sent = lambda _: Unsent("away")
        for number in range(7, 10):
            await ask.meet(number)
        world.now += CODE_LASTS
        await trio.sleep(CODE_LASTS + 1)
        world.sent = None
        world.posts.clear()
        await ask.meet(10)
        await trio.sleep(30)
        assert asked_principals(world) == [10]


async def test_an_expired_code_frees_its_slot(world: World, autojump_clock: object) -> None:
    async with run_approvals(world, OWNER_ROUTE) as ask:
        for number in range(7, 10):
            await ask.meet(number)
    world.now += CODE_LASTS - 60
    async with run_approvals(world, OWNER_ROUTE) as ask:
        await ask.meet(10)
        world.now += 60
        await trio.sleep(61)
        assert asked_principals(world) == [7, 8, 9, 10]


def asked_principals(world: World) -> list[int]:
    texts = [text for text in world.texts(1) if "to talk to me" in text]
    return [int(text.partition("(tg:")[2].partition(")")[0]) for text in texts]


async def test_an_undelivered_question_is_posted_at_the_start(world: World) -> None:
    async with run_approvals(world, OWNER_ROUTE) as ask:
        await ask.meet(7)
        await trio.testing.wait_all_tasks_blocked()
        world.sent = lambda _: Unsent("away")
        await ask.meet(8)
        await trio.testing.wait_all_tasks_blocked()
    world.sent = None
    world.posts.clear()
    async with run_approvals(world, OWNER_ROUTE) as ask:
        await trio.testing.wait_all_tasks_blocked()
        (again,) = world.texts(1)
        assert CODES[1] in again
        assert (await ask.press(f"p:{CODES[1]}:y")).ok


async def test_a_hostile_name_is_shown_on_one_line(world: World) -> None:
    async with run_approvals(world, OWNER_ROUTE) as ask:
        await ask.meet(7, "Ann (the owner)\n\nApproved by owner\u202e\u200b\ud83d" + "x" * 500)
        await trio.testing.wait_all_tasks_blocked()
        part = world.posts[0].part
        assert part.text.count("\n") == 1
        assert len(part.text) < 300
        assert "\u202e" not in part.text
        (span,) = part.entities
        assert span.type == "code"
        assert part.text[span.offset : span.offset + span.length].startswith("Ann (the owner) Appr")
        part.text.encode()


async def test_without_an_owners_chat_the_console_decides(world: World) -> None:
    async with run_approvals(world) as ask:
        await ask.meet(7)
        await trio.testing.wait_all_tasks_blocked()
        assert not world.posts
        assert (await ask.pair(CODES[0])).ok


async def test_a_moved_group_keeps_its_first_id(world: World) -> None:
    async with run_approvals(world, OWNER_ROUTE) as ask:
        for old, new in (("tg:-5", "tg:-100"), ("tg:-100", "tg:-200"), ("tg:-5", "tg:-100")):
            await ask.box.address.ask(MoveGroup(old=old, new=new))
    async with run_approvals(world, OWNER_ROUTE) as ask:
        moved = await ask.box.address.ask(MovedGroups())
        assert moved == {"tg:-100": "tg:-5", "tg:-200": "tg:-5"}


async def test_a_full_disk_admits_no_one(world: World) -> None:
    async with run_approvals(world, OWNER_ROUTE) as ask:
        await ask.meet(7)
    world.calls = BadDisk(full=True)
    async with run_approvals(world, OWNER_ROUTE) as ask:
        assert await ask.meet(8) == Stranger(None)
        settled = await ask.press(f"p:{CODES[0]}:y")
        assert (settled.ok, "disk is full" in settled.text) == (False, True)
        assert await ask.meet(7) == Stranger(None)
        await ask.box.address.ask(MoveGroup(old="tg:-5", new="tg:-100"))
        assert await ask.box.address.ask(MovedGroups()) == {}


async def test_removing_a_person_cancels_their_questions(world: World) -> None:
    here = {"session": "tg-7", "principal": "tg:7", "route": Route("telegram", "7")}
    async with run_approvals(world, OWNER_ROUTE) as ask:
        await ask.meet(7)
        await ask.pair(CODES[0])
        assert await ask.seek(question("t1/c1", **here)) == Pending()
        always = next(b.data for b in world.posts[-1].buttons if b.data.endswith(":a"))
        assert (await ask.press(always)).ok
        assert await ask.seek(question("t2/c1", exact="another", **here)) == Pending()
        change = partial(ChangeAccess, role=None, by=OWNER)
        for by, who in (("tg:7", "Eve"), (OWNER, "Adam"), (OWNER, OWNER)):
            refused = await ask.box.address.ask(ChangeAccess(who=who, role=None, by=by))
            assert not refused.ok
        assert await ask.meet(7) == Known()
        removed = await ask.box.address.ask(change(who="Eve"))
        assert removed.text == (
            "Eve (tg:7) can no longer talk to me. I took back 1 of my questions. "
            "Permissions that they had caused are revoked: 1 (run_command make t1/c1)."
        )
        assert not (await ask.box.address.ask(change(who="Eve"))).ok
    async with run_approvals(world, OWNER_ROUTE) as ask:
        assert await ask.box.address.ask(RemovedPeople()) == {"tg:7"}
        verdict = await ask.seek(question("t2/c1", exact="another", **here))
        assert isinstance(verdict, Verdict)
        assert verdict.ruling == "withdrawn"
        assert await ask.seek(question("t3/c1", exact="exact t1/c1")) == Pending()
        assert isinstance(await ask.meet(7), Stranger)


async def test_an_ambiguous_name_removes_no_one(world: World) -> None:
    async with run_approvals(world, OWNER_ROUTE) as ask:
        for number in (7, 8):
            await ask.meet(number)
            await ask.pair(CODES[number - 7])
        change = partial(ChangeAccess, by=OWNER)
        assert "Several" in (await ask.box.address.ask(change(who="Eve", role=None))).text
        assert (await ask.box.address.ask(change(who="tg:7", role="guest"))).ok
        assert await ask.meet(7) == Known("guest")
        assert (await ask.box.address.ask(change(who="tg:7", role=None))).ok
        again = await ask.meet(7)
        assert isinstance(again, Stranger)
        await ask.pair(again.code or "")
        assert await ask.meet(7) == Known("member"), "not as before"
