"""The command line, as a process: its output, its files, its exit codes."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from elwood import __version__
from elwood.agent.models.offline import OPENLY
from elwood.app.cli import default_config, make_parser
from elwood.app.config.load import load
from elwood.foundation.settings import Paths

# The environment of a command; tests must not read the user's own configuration.
KEPT = ("PATH", "PYTHONPATH", "SYSTEMROOT", "LANG")


def elwood(
    home: Path, *arguments: str, options: tuple[str, ...] = (), **environ: str
) -> subprocess.CompletedProcess[str]:
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    return subprocess.run(
        [sys.executable, *options, "-m", "elwood", *arguments],
        env={**kept, "HOME": str(home), **environ},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def write_config(home: Path, text: str) -> Path:
    path = home / ".config" / "elwood" / "config.toml"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    return path


# Modules that a command does without, the heaviest first.
SERVICE = {"trio", "asyncio", "httpx2", "httpcore2", "ssl", "sqlite3", "markdown_it"}
SETTINGS = {"attrs", "msgspec", "tomllib", "elwood.foundation.settings"}
PARSER = {"argparse", "pathlib", "typing", "elwood.app.cli"}


@pytest.mark.parametrize(
    ("arguments", "code", "absent"),
    [
        (["--help"], 0, SERVICE | SETTINGS | PARSER),
        (["--version"], 0, SERVICE | SETTINGS | PARSER),
        (["once", "--help"], 0, SERVICE | SETTINGS),
        (["inspect"], 1, SERVICE),
    ],
)
def test_a_command_imports_only_what_it_needs(
    tmp_path: Path, arguments: list[str], code: int, absent: set[str]
) -> None:
    write_config(tmp_path, "")
    done = elwood(tmp_path, *arguments, options=("-X", "importtime"))
    assert done.returncode == code
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "elwood" in imported
    assert not imported & absent
    assert "elwood.foundation.runtime" not in imported


@pytest.mark.parametrize("arguments", [["--help"], ["init"]])
def test_unwritable_output_is_a_failure(tmp_path: Path, arguments: list[str]) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "elwood", *arguments],
            env={"HOME": str(tmp_path)},
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=60,
        )
    assert done.returncode == 1
    assert done.stderr == b"[Errno 28] No space left on device\n"


def test_help_names_every_command(tmp_path: Path) -> None:
    done = elwood(tmp_path, "--help")
    of_app = ["init", "doctor", "run", "demo", "chat", "once", "inspect", "pair", "approve"]
    commands = [*of_app, "receipts", "session", "memory", "skills", "backup"]
    assert [c for c in commands if f"\n    {c} " not in done.stdout] == []
    assert done.stderr == ""
    assert elwood(tmp_path, "--version").stdout == f"elwood {__version__}\n"


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["once"],
        ["approve", "abc", "perhaps"],
        ["approve", "--deny"],
        ["approve", "abc", "always", "--deny"],
        ["approve", "abc", "--revoke", "3"],
        ["skills", "install"],
        ["run", "--fast"],
    ],
)
def test_a_wrong_command_line_exits_2(tmp_path: Path, arguments: list[str]) -> None:
    write_config(tmp_path, "")
    done = elwood(tmp_path, *arguments)
    assert done.returncode == 2
    assert "usage: elwood" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_command_named_first_needs_no_other_parsers() -> None:
    """Also after the configuration, as in systemd units."""
    shown = [
        make_parser(words=[*before, "run"]).format_help() for before in ([], ["--config", "x"])
    ]
    assert ["doctor" in text for text in (*shown, make_parser().format_help())] == [
        False,
        False,
        True,
    ]


def test_a_wrong_configuration_exits_78_with_all_problems(tmp_path: Path) -> None:
    path = write_config(tmp_path, '[turn]\ndedline = 5\n[log]\nlevel = "loud"\n')
    done = elwood(tmp_path, "run", ELWOOD__MODELS__MAX_TOKENS="0")
    assert (done.returncode, done.stdout) == (78, "")
    assert done.stderr.splitlines() == [
        "ELWOOD__MODELS__MAX_TOKENS: models.max_tokens: 0 is too small; the minimum is 1",
        f"{path}: turn.dedline: no such key; did you mean deadline?",
        f'{path}: log.level: cannot be the text "loud"; write one of debug, info, warning, error',
    ]


@pytest.mark.parametrize("before", [True, False])
def test_the_configuration_option_may_be_on_either_side(tmp_path: Path, before: bool) -> None:
    option = ("--config", str(tmp_path / "none.toml"))
    done = elwood(tmp_path, *option, "run") if before else elwood(tmp_path, "run", *option)
    assert done.returncode == 78
    assert done.stderr == f"{tmp_path}/none.toml: there is no such file; run: elwood init\n"


def test_init_writes_files_for_the_owner_only(tmp_path: Path) -> None:
    done = elwood(tmp_path, "init")
    assert (done.returncode, done.stderr) == (0, "")
    config = tmp_path / ".config/elwood/config.toml"
    workspace = tmp_path / ".local/state/elwood/workspace"
    assert f"written  {config}\n" in done.stdout
    assert config.stat().st_mode & 0o777 == 0o600
    assert workspace.parent.stat().st_mode & 0o777 == 0o700
    assert workspace.stat().st_mode & 0o777 == 0o700
    assert (workspace / "SOUL.md").stat().st_mode & 0o777 == 0o600
    assert load(config, {"HOME": str(tmp_path)}).get(Paths).workspace == workspace
    for words in (
        "memory.embeddings",
        '"ollama/nomic-embed-text" costs nothing',
        "$0.02 per million",
    ):
        assert words in done.stdout
    assert (workspace / "skills/skill-creator/references/format.md").is_file()
    assert (workspace / ".agents/skills").is_dir()
    done = elwood(tmp_path, "skills")
    assert (done.returncode, done.stderr) == (0, "")
    assert "\nweb-research   ready  Find facts" in done.stdout


def test_init_keeps_existing_files(tmp_path: Path) -> None:
    config = write_config(tmp_path, f'paths.workspace = "{tmp_path}/mine"')
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "SOUL.md").write_text("my own")
    done = elwood(tmp_path, "init")
    assert done.returncode == 0
    assert f"kept     {config}\n" in done.stdout
    assert f"kept     {tmp_path}/mine/SOUL.md\n" in done.stdout
    assert (tmp_path / "mine" / "SOUL.md").read_text() == "my own"
    assert config.read_text() == f'paths.workspace = "{tmp_path}/mine"'


def test_init_reports_a_folder_that_cannot_be_created(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = elwood(tmp_path, "init", "--config", str(tmp_path / "file" / "config.toml"))
    assert done.returncode == 1
    assert done.stderr == f"File exists: {tmp_path}/file\n"


def test_init_with_a_wrong_configuration_in_place_exits_78(tmp_path: Path) -> None:
    write_config(tmp_path, "x = 1")
    done = elwood(tmp_path, "init")
    assert done.returncode == 78
    assert "x: no such key" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "shown"),
    [(["inspect"], 1, ""), (["receipts", "--json"], 0, "[]\n"), (["session", "list"], 0, "")],
)
def test_read_only_commands_need_no_secret(
    tmp_path: Path, arguments: list[str], code: int, shown: str
) -> None:
    """On a server only the service has the credentials."""
    write_config(tmp_path, 'telegram.token = "file:/run/elwood-secrets/telegram-token"')
    assert elwood(tmp_path, "run").returncode == 78
    done = elwood(tmp_path, *arguments)
    assert (done.returncode, done.stdout) == (code, shown)  # no app ran here
    assert "telegram-token" not in done.stderr


def test_a_closed_pipe_is_no_error(tmp_path: Path) -> None:
    for number in range(2000):
        (tmp_path / f"{number}.jsonl").write_text("")
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    with subprocess.Popen(
        [sys.executable, "-m", "elwood", "receipts", "verify", str(tmp_path)],
        env={**kept, "HOME": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 1


@pytest.mark.parametrize(
    ("closed", "arguments"), [("<&-", "init"), ("<&-", "once hi"), (">&-", "doctor")]
)
def test_a_closed_stream_is_replaced(tmp_path: Path, closed: str, arguments: str) -> None:
    write_config(tmp_path, OFFLINE)
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    done = subprocess.run(
        ["sh", "-c", f'exec "$0" -m elwood {arguments} {closed}', sys.executable],
        env={**kept, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


# --- one message ---------------------------------------------------------------------------------

HELP = "remind me in 1 minute to call mum"
OFFLINE = 'models.roles = { default.model = "offline/rules", cheap.model = "offline/rules" }'
# The discard port has no listener.
NOBODY = 'providers.anthropic.base_url = "http://127.0.0.1:9"'


def test_an_answer_is_printed_and_remembered_by_name(tmp_path: Path) -> None:
    write_config(tmp_path, OFFLINE)
    first = elwood(tmp_path, "once", "--session", "tea", "write a.txt: green")
    assert first.returncode == 0
    assert re.fullmatch(r"\n— What I actually did —\n✓ write_file a.txt · \S+ #1\n", first.stderr)
    assert first.stdout.startswith("I wrote `a.txt`:\n")
    # The model introduces itself only in the first answer of a conversation.
    assert OPENLY in first.stdout
    again = elwood(tmp_path, "once", "--session", "tea", "read a.txt")
    assert again.stdout.startswith("Content of `a.txt`:\n\n")
    assert OPENLY not in again.stdout


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("../../x", "use at most 64 letters"),
        ("x" * 65, "use at most 64 letters"),
        ("tg-1", "tg-1 works only while Elwood is running"),
    ],
)
def test_a_conversation_is_a_file_among_the_others(tmp_path: Path, name: str, why: str) -> None:
    write_config(tmp_path, OFFLINE)
    done = elwood(tmp_path, "once", "--session", name, "hello")
    assert done.returncode == 2
    assert why in done.stderr
    assert not (tmp_path / ".local").exists()


def test_an_empty_message_is_refused(tmp_path: Path) -> None:
    done = elwood(tmp_path, "once", " \n")
    assert done.returncode == 2
    assert "error: argument text: the message is empty" in done.stderr


def test_a_call_that_needs_approval_has_its_own_exit_code(tmp_path: Path) -> None:
    write_config(tmp_path, f"{OFFLINE}\napprovals.wait = 0.1")
    done = elwood(tmp_path, "once", "--json", "run mv a b")
    assert (done.returncode, json.loads(done.stdout)["outcome"]) == (3, "waits")
    assert "Why I ask: mv is not on the list of safe commands" in done.stderr


def test_the_answer_to_one_message_can_be_watched(tmp_path: Path) -> None:
    """With --debug also its requests and answers; the log file keeps its configured level."""
    write_config(tmp_path, f'{OFFLINE}\nlog.file = "{tmp_path}/elwood.log"')
    shown = []
    for option in ("--verbose", "--debug"):
        done = elwood(tmp_path, "once", option, "write a.txt: green")
        lines = [json.loads(one) for one in done.stderr.splitlines() if one.startswith("{")]
        shown.append([(line["event"], line.get("tool")) for line in lines])
        assert done.returncode == 0
        assert ("green" in done.stderr) == (option == "--debug")
    tool = [("tool started", "write_file"), ("tool_call", "write_file")]
    assert shown[0] == [("llm_call", None), *tool, ("llm_call", None)]
    assert {("call", "write_file"), *tool, ("result", "write_file")} <= set(shown[1])
    kept = (tmp_path / "elwood.log").read_text()
    assert kept.count('"tool_call"') == 2
    assert "green" not in kept


def test_an_unreachable_model_is_reported_and_exits_1(tmp_path: Path) -> None:
    write_config(tmp_path, f"{NOBODY}\nturn.model_deadline = 5")
    done = elwood(tmp_path, "once", "hello")
    assert done.returncode == 1
    assert done.stdout.startswith(
        "I cannot answer now: anthropic (claude-sonnet-5-5) cannot be reached:"
    )


def test_a_missing_key_is_reported_before_any_request(tmp_path: Path) -> None:
    for name in ("anthropic", "openai"):
        home = tmp_path / name
        write_config(
            home, f'models.roles = {{ default.model = "{name}/m", cheap.model = "{name}/m" }}'
        )
        done = elwood(home, "once", "hello", ELWOOD__PATHS__RUNTIME=str(home))
        remedy = f"put it into the credential {name}-key, into ${name.upper()}_API_KEY, or name"
        assert f"there is no key for {name}: {remedy}" in done.stderr
        assert f"{name} (m) has no API key: {remedy}" in done.stdout
        assert (done.returncode, "Traceback" in done.stderr) == (1, False)


def test_pending_messages_of_another_conversation_are_not_answered(tmp_path: Path) -> None:
    config = write_config(tmp_path, NOBODY)
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    with subprocess.Popen(
        [sys.executable, "-m", "elwood", "once", "--session", "lost", "--debug", "help"],
        env={**kept, "HOME": str(tmp_path), "ELWOOD__LOG__LEVEL": "debug"},
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stderr is not None
        assert any(b'"turn started"' in line for line in process.stderr)
        process.kill()
    config.write_text(OFFLINE)
    other = elwood(tmp_path, "once", "list the files")
    assert HELP not in other.stdout
    # The next request in that conversation answers it.
    both = elwood(tmp_path, "once", "--session", "lost", "list the files")
    assert HELP in both.stdout


def test_the_configuration_is_in_the_xdg_folder() -> None:
    assert default_config({"HOME": "/h"}.get) == Path("/h/.config/elwood/config.toml")
    assert default_config({"XDG_CONFIG_HOME": "/c", "HOME": "/h"}.get) == Path(
        "/c/elwood/config.toml"
    )
    assert default_config({"XDG_CONFIG_HOME": "c", "HOME": "/h"}.get) == Path(
        "/h/.config/elwood/config.toml"
    )


def test_unreadable_folders_are_reported(tmp_path: Path) -> None:
    """A name that is too long fails like one without permission, for any user."""
    unseen = tmp_path / ("x" * 300)
    write_config(
        tmp_path, f'[paths]\nstate = "{unseen}"\n[models]\nroles.default.model = "offline/rules"\n'
    )
    done = elwood(tmp_path, "doctor")
    assert (done.returncode, done.stderr) == (1, "")
    assert f"{unseen} cannot be read: File name too long" in done.stdout
    assert "kernel" in done.stdout, "all else is examined"
    for arguments in (["inspect"], ["doctor"]):
        for home in (tmp_path, unseen):
            done = elwood(home, *arguments)
            assert done.returncode in (1, 78)
            assert "File name too long" in done.stdout + done.stderr
            assert "Traceback" not in done.stderr


def test_terminals_reach_a_service_without_a_channel(tmp_path: Path) -> None:
    write_config(tmp_path, OFFLINE)
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    with subprocess.Popen(
        [sys.executable, "-m", "elwood", "run"],
        env={**kept, "HOME": str(tmp_path)},
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as service:
        assert service.stderr is not None
        assert any("elwood up" in line for line in service.stderr)
        done = elwood(tmp_path, "once", "hello")
        assert done.returncode == 0, done.stderr
        service.terminate()
        service.stderr.read()


def test_a_mistyped_command_gets_the_nearest_one(tmp_path: Path) -> None:
    done = elwood(tmp_path, "sesion")
    assert done.returncode == 2
    assert done.stderr.endswith("there is no command sesion. Did you mean session?\n")


def test_a_group_of_commands_lists_its_things(tmp_path: Path) -> None:
    write_config(tmp_path, OFFLINE)
    assert elwood(tmp_path, "memory").stderr == "There are no notes.\n"
    elwood(tmp_path, "once", "--session", "tea", "read tea.txt")
    assert [one["conversation"] for one in _json(tmp_path, "session")] == ["tea"]
    [turn] = _json(tmp_path, "session", "show", "tea")
    assert turn["heard"] == [{"who": "console", "text": "read tea.txt"}]
    assert [one["session"] for one in _json(tmp_path, "search", "tea")] == ["tea"]
    assert _json(tmp_path, "policy", "explain", "ls")["subject"] == "ls"
    assert _json(tmp_path, "receipts", "verify")["problems"] == []
    assert Path(_json(tmp_path, "backup", "now")["path"]).exists()


def _json(home: Path, *words: str) -> Any:
    return json.loads(elwood(home, *words, "--json").stdout)


def test_a_service_that_no_one_can_reach_does_not_start(tmp_path: Path) -> None:
    write_config(tmp_path, '[sandbox]\nkind = "direct"\n')
    done = elwood(tmp_path, "run")
    assert done.returncode == 78  # so that systemd does not restart it
    assert "no channel is set up" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
