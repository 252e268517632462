"""The guided `elwood init`: a real process at its own terminal, a model and a Bot API."""

import os
import re
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pytest
import trio

from elwood.agent.conversation.settings import Owner
from elwood.agent.models.settings import ModelSettings, Providers
from elwood.app.config.load import load
from elwood.app.config.template import template
from elwood.features.tasks.settings import ConfiguredTasks
from elwood.features.telegram.settings import TelegramSettings
from elwood.foundation.secrets.redaction import Secret
from elwood.foundation.settings import Answers
from tests.app.test_cli import elwood, write_config
from tests.fake_http import serving
from tests.fake_models import Error, FakeModels, Say
from tests.fake_telegram import OWNER, TOKEN, fake_telegram
from tests.journeys.service import KEPT, KEY, PATIENCE, ROOT

# The program reads the key from the terminal of its process, which must not be the tests'.
AT_ITS_TERMINAL = """
import fcntl, signal, sys, termios
signal.signal(signal.SIGINT, signal.default_int_handler)  # the tests may run in the background
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
from elwood.app.cli import main
sys.exit(main(sys.argv[1:]))
"""
CTRL_C = "\x03"
# The expected output, and the text to type or the function to call then.
Step = tuple[str, str | Callable[[], object]]


async def run_init(home: Path, answers: Sequence[Step], **environ: str) -> tuple[int, str]:
    """Wait for each question in turn and type its answer, or call it; return the output."""
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    master, slave = os.openpty()
    process = await trio.lowlevel.open_process(
        [sys.executable, "-c", AT_ITS_TERMINAL, "init"],
        cwd=ROOT,
        env={**kept, "HOME": str(home), "TZ": "Europe/Berlin", **environ},
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
    )
    os.close(slave)
    shown, seen = "", 0

    def read() -> str:
        try:
            return os.read(master, 65_536).decode(errors="replace")
        except OSError:  # the terminal is closed
            return ""

    try:
        with trio.move_on_after(PATIENCE):
            for question, answer in answers:
                while question not in shown[seen:]:
                    more = await trio.to_thread.run_sync(read, abandon_on_cancel=True)
                    assert more, f"{question!r} was not asked:\n{shown}"
                    shown += more
                seen = shown.index(question, seen) + len(question)
                if callable(answer):
                    answer()
                else:
                    os.write(master, (answer + "\n" * (answer != CTRL_C)).encode())
            while more := await trio.to_thread.run_sync(read, abandon_on_cancel=True):
                shown += more
            return await process.wait(), shown.replace("\r\n", "\n")
        pytest.fail(f"it does not go on:\n{shown}")
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()
        os.close(master)


async def test_from_the_key_to_the_owner(tmp_path: Path) -> None:
    """After a wrong key, a wrong token, a stranger's message, a group's, and wrong words."""
    models, wrong_token = FakeModels([Say("Hello, I am here.")], key=KEY), "4242:wrong-token"
    async with serving(models.answer) as url, fake_telegram() as telegram:
        at = {"ELWOOD__PROVIDERS__ANTHROPIC__BASE_URL": url}
        environ = {**at, "ELWOOD__TELEGRAM__BASE_URL": telegram.url}
        telegram.say("hello all", chat=-5)
        telegram.say("\x1b[2Jit is me", chat=7, user=7)
        code, shown = await run_init(
            tmp_path,
            [
                ("Which one? [offline]", "anthropics"),
                ("Write anthropic, ", lambda: None),
                ("or an address that begins with https:// or http://. Please", lambda: None),
                ("Which one? [offline]", "anthropic"),
                ("API key", f"not-{KEY}"),
                ("model? [claude-sonnet-5-5]", ""),
                ("does not accept the API key", lambda: None),
                ("a and Enter to try again:", "a"),
                ("API key", KEY),
                ("model? [claude-sonnet-5-5]", ""),
                ("The model answers: Hello, I am here.", lambda: None),
                ("The bot's token", wrong_token),
                ("rejects the token (401 Unauthorized)", lambda: None),
                ("Another token", TOKEN),
                ("https://t.me/elwood_bot", lambda: None),
                ("it is me\n  Is that you? [y/N]".replace("\n", "\r\n"), ""),
                ("..", lambda: telegram.say("/start")),
                ("Is that you? [y/N]", "y"),
                ("When", "25:00"),
                ("Write a time from 0:00 to 23:59, or press Enter.", lambda: None),
                ("When", "7:30"),
                ("Your time zone", "Berlin"),
                ("Write a time zone as Continent/City", lambda: None),
                ("Your time zone? [Europe/Berlin]", ""),
            ],
            **environ,
        )
        path = tmp_path / ".config/elwood/config.toml"
        config = load(path, {"HOME": str(tmp_path), **environ})
        ask_doctor = partial(elwood, tmp_path, "doctor", options=(), **environ)
        doctor = await trio.to_thread.run_sync(ask_doctor)
    assert (code, doctor.returncode, doctor.stderr) == (0, 0, "")
    # The findings of the doctor end the dialogue.
    found = " ".join(shown.split())
    assert "anthropic-key is set" in found
    assert "the bot is @elwood_bot" in found
    assert "Commands run in " in found or "Commands cannot be run" in found
    assert "PROBLEM" not in found
    assert models.bodies[-1]["model"] == "claude-sonnet-5-5"
    assert config.get(ModelSettings).role("heartbeat").model == "anthropic/claude-haiku-5-5"
    assert config.get(Providers).by_name["anthropic"].key == Secret(KEY)
    assert config.get(TelegramSettings).token == Secret(TOKEN)
    assert config.get(TelegramSettings).owners == (OWNER,)
    assert config.get(Owner).timezone == "Europe/Berlin"
    [task] = config.get(ConfiguredTasks).tasks
    assert (task.title, task.id) == ("Plan for today", "plan-for-today")
    # Messages are left for Elwood to answer; no secret was shown, or is in the configuration.
    assert len(telegram.unconfirmed) == 3
    assert telegram.violations == []
    text = path.read_text()
    assert not [one for one in (KEY, TOKEN, wrong_token, "\x1b") if one in shown + text]
    for file in (path, *(path.parent / "secrets").iterdir()):
        assert file.stat().st_mode & 0o077 == 0
    assert "# Maximum retries of one model for one response\n#retries = 200\n" in text


async def test_skipping_every_step_writes_a_valid_configuration(tmp_path: Path) -> None:
    """The wait for the owner can be skipped separately."""
    async with fake_telegram() as telegram:
        steps: Sequence[Step] = [
            ("Which one? [offline]", ""),
            ("The bot's token", TOKEN),
            ("Ctrl-C: later) .", CTRL_C),
            ("no owner yet", lambda: None),
            ("When", ""),
            ("Your time zone", ""),
        ]
        code, shown = await run_init(tmp_path, steps, ELWOOD__TELEGRAM__BASE_URL=telegram.url)
    assert (code, "PROBLEM" in shown) == (0, False)
    config = load(tmp_path / ".config/elwood/config.toml", {"HOME": str(tmp_path)})
    assert config.get(ModelSettings).role("default").model == "offline/rules"
    assert config.get(TelegramSettings).owners == ()


async def test_an_interrupted_init_leaves_no_files(tmp_path: Path) -> None:
    wrong = [("Which one?", one) for one in ("http://x?y", "http://[::1/v1")]
    steps = [*wrong, ("Which one?", "anthropic"), ("API key", CTRL_C)]
    code, shown = await run_init(tmp_path, steps)
    assert (code, "Nothing was written.\n" in shown) == (130, True)
    assert "Traceback" not in shown
    assert os.listdir(tmp_path) == []


async def test_a_model_without_tools_is_reported_before_the_choice(tmp_path: Path) -> None:
    def look() -> None:
        """Type nothing."""

    steps: Sequence[Step] = [
        ("Which one?", "openai"),
        ("API key", KEY),
        ("model? [gpt-5.4]", "gpt-6.1-terra"),
        ("The model openai/gpt-6.1-terra supports tools only in OpenAI's Responses API", look),
        ("choose openai/gpt-5.4 or openai/gpt-5.4-mini.", look),
        ("a and Enter to try again:", CTRL_C),
    ]
    code, _ = await run_init(tmp_path, steps)
    assert code == 130


async def test_the_usual_model_is_offered_again_after_a_wrong_name(tmp_path: Path) -> None:
    script = [Error(404, "not_found_error", "model: claude-sonet"), Error(401, "auth_error", "no")]
    models = FakeModels([*script, Say("Hello.")])
    async with serving(models.answer) as url:
        steps: Sequence[Step] = [
            ("Which one?", "anthropic"),
            ("API key", KEY),
            ("model? [claude-sonnet-5-5]", "claude-sonet"),
            ("does not have this model", lambda: None),
            ("to try again:", "again"),
            ("Press Enter, or type a.", lambda: None),
            ("to try again:", "a"),
            ("API key", ""),
            ("model? [claude-sonnet-5-5]", "claude-opus-5-5"),  # not the key's model
            ("does not accept the API key", lambda: None),
            ("to try again:", "a"),
            ("API key", ""),
            ("model? [claude-opus-5-5]", ""),
            ("The model answers: Hello.", CTRL_C),
        ]
        code, _ = await run_init(tmp_path, steps, ELWOOD__PROVIDERS__ANTHROPIC__BASE_URL=url)
    assert code == 130


async def test_problems_are_reported_before_the_first_question(tmp_path: Path) -> None:
    environ = {"ELWOOD__OWNER__TIMEZONE": "Atlantis", "ELWOOD__TURN__DEADLINE": "soon"}
    code, shown = await run_init(tmp_path, [], **environ)
    assert (code, "Which one?" in shown) == (78, False)
    assert "there is no time zone 'Atlantis'" in shown
    assert "turn.deadline: expected a number" in shown
    assert os.listdir(tmp_path) == []


async def test_an_existing_configuration_is_kept(tmp_path: Path) -> None:
    """The output tells how to create a new one; without a terminal there is no question."""
    path = write_config(tmp_path, "")
    code, shown = await run_init(tmp_path, [("move it away", lambda: None)])
    assert (code, f"written  {path.parent}" in shown, path.read_text()) == (0, False, "")
    usual = elwood(tmp_path, "init", "--yes").stdout
    assert usual.startswith(f"kept     {path}\nkept     ")
    assert shown.replace("written  ", "kept     ").endswith(usual)


def test_answers_are_written_to_the_first_file(tmp_path: Path) -> None:
    said = 'a "quoted" ${HOME}, \\ and\nä 漢 \x7f'
    answers: Answers = {
        ("owner", "name"): said,
        ("telegram", "owners"): [1, 2],
        ("providers", "custom", "api"): "openai",
        ("providers", "custom", "base_url"): "http://127.0.0.1:1/v1",
        ("models", "roles", "default", "model"): "custom/m",
        ("tasks", "when"): "30 7 * * *",
        ("tasks", "prompt"): said,
    }
    (tmp_path / "first.toml").write_text(template(answers))
    config = load(tmp_path / "first.toml", {"HOME": "/home/ada"})
    assert config.get(Owner).name == said
    assert config.get(TelegramSettings).owners == (1, 2)
    assert config.get(Providers).by_name["custom"].base_url == "http://127.0.0.1:1/v1"
    assert config.get(ModelSettings).role("default").model == "custom/m"
    assert [task.prompt for task in config.get(ConfiguredTasks).tasks] == [said]
    assert (
        len(re.findall(r"^\[", template(answers), re.M))
        == len(re.findall(r"^\[", template(), re.M)) + 3
    )
