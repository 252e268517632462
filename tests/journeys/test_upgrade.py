"""An installation that changes under a running Elwood: no mixed versions, no lost messages."""

import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

import elwood
from elwood.agent.conversation.message import Completion
from elwood.agent.models.client import ModelRequest
from elwood.app.installation import LOOK_EVERY, TO_RESTART, Installation, watch
from elwood.foundation.environment import Notify
from tests.fake_models import Say
from tests.journeys.home import Home, follow_message
from tests.journeys.service import town


async def test_a_message_survives_an_upgrade_over_several_starts(tmp_path: Path) -> None:
    """The package that writes answers is replaced while Elwood runs, and incomplete for a while."""
    site = tmp_path / "site"
    package = find_spec("markdown_it")
    assert package is not None
    assert package.origin is not None
    whole, name = Path(package.origin).parent, "markdown_it"
    unpacked = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(elwood.__file__).parent, site / "elwood", ignore=unpacked)
    shutil.copytree(Path(elwood.__file__).parents[1] / "workspace", site / "workspace")
    async with town(tmp_path / "town") as one:
        one.root = site
        one.models.otherwise = lambda body: Say("**Heard** m0001.")
        shutil.copytree(whole, site / name)
        await one.start()
        shutil.rmtree(site / name)
        (site / name).mkdir()
        (site / name / "__init__.py").touch()
        update = one.telegram.say("m0001")
        assert await one.wait_for_end() == 1
        for _ in range(3):
            await one.spawn()
            assert await one.wait_for_end() == 1
        assert "cannot import name 'MarkdownIt'" in one.stderr.read_text()
        one.stderr.write_text("")  # the tracebacks were intended
        shutil.rmtree(site / name)
        shutil.copytree(whole, site / name)
        await one.start()
        # In addition to the crash notices; marked as repeated, because delivery is uncertain.
        await one.until(lambda: any("Heard m0001." in text for text in one.sent_texts()))
        await one.stop()
        assert one.broken_promises({update: "m0001"}) == []


async def test_a_missing_module_does_not_abandon_the_turn(h: Home) -> None:
    def lack(request: ModelRequest) -> Completion:
        raise ModuleNotFoundError("No module named 'new'", name="new")

    h.think = lack
    h.fake.say("hello")
    for _ in range(4):
        async with h.life() as life:
            await life.over.wait()
        assert "No module named 'new'" in str(life.escalated)
    h.think = follow_message
    async with h.life():
        await h.fake.until(lambda: h.fake.texts())
    assert h.fake.texts()[-1].endswith("re: hello")


def write(module: Path, text: str) -> None:
    module.parent.mkdir(parents=True, exist_ok=True)
    module.with_suffix(".new").write_text(text)
    module.with_suffix(".new").rename(module)


async def test_under_a_supervisor_an_upgraded_elwood_stops_when_idle(
    h: Home, tmp_path: Path
) -> None:
    module = tmp_path / "site" / "module.py"
    write(module, "old")
    h.notify = Notify("@nobody-listens-there")
    async with h.life() as life, trio.open_nursery() as nursery:
        core = life.core
        nursery.start_soon(watch, Installation(module.parent), core, core.tell_owner)
        await trio.sleep(3 * LOOK_EVERY)
        for text in "123":
            write(module, text)
            await trio.sleep(LOOK_EVERY)
        assert not core.stop.is_set(), "it is still being written"
        await trio.sleep(2 * LOOK_EVERY)
        assert core.stop.is_set()
        nursery.cancel_scope.cancel()


async def test_without_a_supervisor_the_owner_is_told_once(h: Home, tmp_path: Path) -> None:
    module = tmp_path / "site" / "module.py"
    write(module, "old")
    async with h.life() as life, trio.open_nursery() as nursery:
        installation = Installation(module.parent)
        nursery.start_soon(watch, installation, life.core, life.core.tell_owner)
        await life.until(lambda: sys.meta_path[0] is installation)
        assert installation.find_spec("elwood.late", None) is None
        module.unlink()
        with pytest.raises(ImportError, match="A new version of Elwood was installed"):
            installation.find_spec("elwood.late", None)
        assert installation.find_spec("other", None) is None, "it looks after ours only"
        await trio.sleep(10 * LOOK_EVERY)
        assert [text for text in h.fake.texts() if TO_RESTART in text] == [TO_RESTART]
        assert not life.core.stop.is_set()
        nursery.cancel_scope.cancel()
    await wait_all_tasks_blocked()
    assert installation not in sys.meta_path
