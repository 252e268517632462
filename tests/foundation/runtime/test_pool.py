"""The pool: one child per key, created on demand; it only receives and offers."""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import attrs
import pytest
import trio
import trio.testing

from elwood.foundation.runtime import Child, Halt, Mailbox, PoolPolicy, RestartPolicy, run_pool
from tests.foundation.runtime.scene import Say, Scene, run_app


class Bug(Exception):
    """A programming error in a body."""


@attrs.define
class Pool:
    """A pool as the child of an app, with its refused messages."""

    body: Callable[[str, Mailbox[Say]], Awaitable[None]]
    policy: PoolPolicy = attrs.field(factory=PoolPolicy)
    woken: Iterable[str] = ()
    grace: float = 60.0
    mailbox: Mailbox[Say] = attrs.field(factory=lambda: Mailbox[Say]("pool", 256))
    scene: Scene = attrs.field(factory=Scene)
    refused: list[tuple[str, str]] = attrs.field(factory=list)

    @property
    def child(self) -> Child:
        return Child(self.mailbox, self._run, RestartPolicy(), self.grace)

    def offer(self, key: str, word: str = "hello") -> Say:
        say = Say(key=key, word=word)
        assert self.mailbox.address.offer(say)
        return say

    async def _run(self, mailbox: Mailbox[Say]) -> None:
        await run_pool(
            mailbox,
            key=lambda say: say.key,
            body=self.body,
            wake=self._wake,
            refuse=self._refuse,
            policy=self.policy,
            listener=self.scene.listen,
            actor_table=self.scene.actor_table,
        )

    async def _wake(self) -> Iterable[str]:
        return self.woken

    def _refuse(self, say: Say, why: str) -> None:
        self.refused.append((say.word, why))


async def echo_key(key: str, mailbox: Mailbox[Say]) -> None:
    async for message in mailbox:
        message.reply.set(f"{key}: {message.word}")


async def deaf(key: str, mailbox: Mailbox[Say]) -> None:
    await trio.sleep_forever()


async def fragile(key: str, mailbox: Mailbox[Say]) -> None:
    async for message in mailbox:
        if message.word == "bug":
            raise Bug
        message.reply.set(message.word)


async def test_each_key_has_one_child_created_on_demand(autojump_clock: object) -> None:
    pool = Pool(echo_key)
    async with run_app(pool.child, scene=pool.scene):
        assert list(pool.scene.actor_table.statuses) == ["pool"]
        for key in ("a", "b", "a", "a"):
            assert await pool.mailbox.address.ask(Say(key=key)) == f"{key}: hello"
        assert list(pool.scene.actor_table.statuses) == ["pool", "pool/a", "pool/b"]
        assert len(pool.scene.starts("pool/a")) == 1


async def test_a_full_child_refuses_without_blocking_others(autojump_clock: object) -> None:
    async def one_deaf(key: str, mailbox: Mailbox[Say]) -> None:
        await (deaf if key == "deaf" else echo_key)(key, mailbox)

    pool = Pool(one_deaf, PoolPolicy(capacity=2, grace=1))
    async with run_app(pool.child, scene=pool.scene):
        for number in range(4):
            pool.offer("deaf", str(number))
        assert await pool.mailbox.address.ask(Say(key="b")) == "b: hello"
        why = "its queue is full"
        assert pool.refused == [("2", why), ("3", why)]


async def test_a_failed_child_is_refused_until_its_crashes_expire(autojump_clock: object) -> None:
    restart = RestartPolicy(mode="transient", max_crashes=2, within=600)
    pool = Pool(fragile, PoolPolicy(restart=restart))
    async with run_app(pool.child, scene=pool.scene):
        for word in ("bug", "bug", "bug", "queued"):
            pool.offer("a", word)
        await trio.sleep(10)
        assert pool.refused == [("queued", "it crashed too often")]
        pool.offer("a", "later")
        await trio.testing.wait_all_tasks_blocked()
        assert pool.refused[1:] == [("later", "it crashed too often")]
        assert [s.what for s in pool.scene.actor_table.stuck()] == ["gave up: Bug"]
        assert await pool.mailbox.address.ask(Say(key="b")) == "hello", "the others live"
        await trio.sleep(600)
        assert await pool.mailbox.address.ask(Say(key="a", word="again")) == "again"
        assert not pool.scene.actor_table.stuck()
        assert pool.scene.ended is None


@pytest.mark.parametrize("gap", range(6))
async def test_a_message_to_an_ending_child_is_not_lost(gap: int, autojump_clock: object) -> None:
    """The child ends after ten idle seconds, exactly when a message arrives."""

    async def idle_out(key: str, mailbox: Mailbox[Say]) -> None:
        while True:
            with trio.move_on_after(10) as idle:
                message = await mailbox.receive()
            if idle.cancelled_caught:
                break
            message.reply.set(message.word)
        for _ in range(3):  # it cleans up and accepts nothing more
            await trio.lowlevel.checkpoint()

    pool = Pool(idle_out)
    async with run_app(pool.child, scene=pool.scene):
        assert await pool.mailbox.address.ask(Say()) == "hello"
        await trio.sleep(10)
        for _ in range(gap):
            await trio.lowlevel.checkpoint()
        with trio.fail_after(5):
            assert await pool.mailbox.address.ask(Say(word="just then")) == "just then"


async def test_a_halt_in_a_child_stops_the_app(autojump_clock: object) -> None:
    async def broken_disk(key: str, mailbox: Mailbox[Say]) -> None:
        await mailbox.receive()
        raise Halt("fsync failed")

    pool = Pool(broken_disk)
    async with run_app(pool.child, scene=pool.scene):
        pool.offer("a")
        await trio.sleep(1)
        assert pool.scene.ended is not None
        assert "fsync failed" in str(pool.scene.ended)


async def test_a_stop_lets_children_finish_within_the_grace(autojump_clock: object) -> None:
    finished: list[str] = []

    async def mixed(key: str, mailbox: Mailbox[Say]) -> None:
        if key == "deaf":
            await trio.sleep_forever()
        async for _ in mailbox:
            await trio.sleep(3)
            finished.append(key)

    pool = Pool(mixed, PoolPolicy(grace=20))
    async with run_app(pool.child, scene=pool.scene) as scene:
        for key in ("a", "deaf", "b"):
            pool.offer(key, "first")
            pool.offer(key, "second")
        await trio.testing.wait_all_tasks_blocked()
        began = trio.current_time()
        scene.stop.set()
    assert sorted(finished) == ["a", "a", "b", "b"]
    assert 20 <= trio.current_time() - began <= 20.5
    # The deaf child never received its messages; the senders get an error.
    assert pool.refused == [("first", "it is stopping"), ("second", "it is stopping")]
    assert set(scene.order_of_ends()) == {"pool", "pool/a", "pool/b", "pool/deaf"}


async def test_a_crashed_pool_fails_every_request(autojump_clock: object) -> None:
    """Also requests that are still queued at a child."""
    results: list[str] = []

    def key(say: Say) -> str:
        if say.word == "bug":
            raise Bug
        return say.key

    async def body(mailbox: Mailbox[Any]) -> None:
        await run_pool(
            mailbox, key=key, body=deaf, wake=pool._wake, refuse=pool._refuse,
            policy=PoolPolicy(), listener=pool.scene.listen, actor_table=pool.scene.actor_table,
        )  # fmt: skip

    pool = Pool(deaf)

    async def ask(word: str) -> None:
        with pytest.raises(Exception, match="pool crashed"):
            await pool.mailbox.address.ask(Say(word=word))
        results.append(word)

    async with run_app(Child(pool.mailbox, body), scene=pool.scene), trio.open_nursery() as nursery:
        nursery.start_soon(ask, "queued in the child")
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(ask, "bug")
    assert sorted(results) == ["bug", "queued in the child"]
