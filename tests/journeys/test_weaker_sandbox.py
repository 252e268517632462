"""An installed sandbox fails: the real service uses a weaker one, and reports it."""

import json
from pathlib import Path

import pytest

from elwood.foundation.sandbox.launched import landlock_version
from tests.foundation.sandbox.test_picking import broken_bubblewrap
from tests.journeys.service import Town, town

WEAKER = "Commands run in landlock, a weaker sandbox (/sandbox)"
WHY = "bubblewrap: No permissions to create namespace"


@pytest.fixture
def broken(tmp_path: Path) -> str:
    if not landlock_version():
        pytest.skip("LANDLOCK NOT TESTED: this kernel, or a container around us, has none")
    return f'[sandbox]\nbubblewrap = "{broken_bubblewrap(tmp_path)}"\n'


async def test_a_weaker_sandbox_is_reported_everywhere(tmp_path: Path, broken: str) -> None:
    async with town(tmp_path / "town", more=broken) as here:
        await here.start()
        await wait_for_warning(here, 1)
        assert f"! {WEAKER}: {WHY}" in (await here.command("inspect")).stdout.decode()
        doctor = " ".join((await here.command("doctor")).stdout.decode().split())
        assert f"warning sandbox {WEAKER}; {WHY};" in doctor
        health = json.loads((here.state / "health.json").read_text())
        assert [one["what"] for one in health["inspection"]["stuck"]] == [f"{WEAKER}: {WHY}"]

        here.telegram.say("/status")
        assert f"\n{WEAKER}: {WHY}" in (await here.wait_for_messages(2))[1]
        here.telegram.say("/sandbox")
        said = (await here.wait_for_messages(3))[2]
        assert said.startswith(f"{WEAKER}.\n")
        assert ".git/hooks" in said
        here.telegram.say("/sandbox reset")
        said = (await here.wait_for_messages(4))[3]
        assert said.startswith("There is nothing to reset.")
        await here.eventually(lambda: read_warnings(here) == [f"{WEAKER}: {WHY}"])
        await here.kill()
        text = here.config.read_text()
        here.config.write_text(text.replace("[sandbox]", '[sandbox]\nkind = "landlock"'))
        await here.start()
        await here.eventually(lambda: read_warnings(here) == [])
        await here.stop()
        here.config.write_text(text)
        await here.start()
        await wait_for_warning(here, 2)
        await here.stop()


async def wait_for_warning(here: Town, times: int) -> None:
    """Wait until the owner has been warned *times* times, in the same words."""

    def warnings() -> list[str]:
        return [text for text in here.telegram.texts() if text.startswith("⚠")]

    await here.until(lambda: len(warnings()) >= times)
    assert warnings() == [f"⚠ {WEAKER}: {WHY}"] * times


def read_warnings(here: Town) -> list[str]:
    told: list[str] = json.loads((here.state / "health.json").read_text())["told"]
    return told
