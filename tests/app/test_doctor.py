"""Findings of the doctor, on this machine and at services on a real loopback socket."""

import fcntl
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from email.utils import formatdate
from functools import partial
from pathlib import Path

import pytest
import trio

from elwood.agent.media.check import programs
from elwood.agent.models import check as models
from elwood.agent.models.check import USUAL, find_doubts
from elwood.app.cli import main
from elwood.app.config.load import load
from elwood.app.doctor import configuration, examine, examine_machine
from elwood.features.backup import parts as backup
from elwood.features.backup.store import Scope, take
from elwood.features.own_settings.feature import FEATURE as own_settings
from elwood.features.shell import parts as shell
from elwood.features.skills import parts as skills
from elwood.features.tasks import parts as tasks
from elwood.features.tasks.feature import FEATURE as heartbeat
from elwood.features.telegram import parts as telegram
from elwood.foundation.checks import Check, CheckContext, Finding, build_unreached
from elwood.foundation.net.http import Client
from elwood.foundation.runtime import inline
from elwood.foundation.settings import Config, Paths
from elwood.foundation.storage.disk import lock_state
from tests.fake_http import Answer, Reply, Request, serving

NOW = 1_795_300_000.0  # 2026-11-21
TOKEN = "7123456789" + ":A" + "A" + "bcdefghijklmnopqrstuvwxyzABCDEFGH"
KEY = "hunter2hunter2"
MODELS = {"data": [{"id": "claude-sonnet-5-5"}, {"id": "claude-haiku-5-5", "lifecycle": "active"}]}
ME = {"ok": True, "result": {"id": 1, "is_bot": True, "first_name": "E", "username": "elwood_bot"}}


def reply(status: int, body: object, *, date: float | None = NOW) -> Reply:
    headers = {} if date is None else {"date": formatdate(date, usegmt=True)}
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Reply(status=status, pieces=(raw,), is_chunked=False, headers=headers)


async def healthy(request: Request) -> Reply:
    await trio.lowlevel.checkpoint()
    if request.path == f"/bot{TOKEN}/getMe":
        return reply(200, ME)
    if request.path.startswith("/v1/models"):
        return reply(200 if request.headers.get("x-api-key") == KEY else 401, MODELS)
    return reply(404, {})


async def answer_with(response: Reply, request: Request) -> Reply:
    await trio.lowlevel.checkpoint()
    return response


def load_text(tmp_path: Path, text: str = "", **environ: str) -> Config:
    path = tmp_path / "config.toml"
    path.write_text(f'paths.state = "{tmp_path}/state"\n{text}')
    path.chmod(0o600)
    return load(path, {"HOME": str(tmp_path), **environ})


def configure_services(base: str, tmp_path: Path, *, token: str = TOKEN) -> Config:
    return load_text(
        tmp_path,
        f'providers.anthropic.base_url = "{base}"\n'
        f'telegram.base_url = "{base}"\ntelegram.owners = [1]',
        ANTHROPIC_API_KEY=KEY,
        ELWOOD_TELEGRAM_TOKEN=token,
    )


@asynccontextmanager
async def run_client() -> AsyncIterator[Client]:
    client = Client(connections=10)
    yield client
    await client.aclose()


async def run_checks(
    config: Config, client: Client, *checks: Check, now: float = NOW
) -> list[Finding]:
    context = CheckContext(config=config, client=client, now=now, blocking=inline)
    return await examine(context, checks)


async def check_machine(config: Config, *checks: Check, now: float = NOW) -> list[Finding]:
    async with run_client() as client:
        return await run_checks(config, client, *checks, now=now)


async def check_services(config: Config, client: Client) -> list[Finding]:
    found = await run_checks(config, client, models.check, telegram.check)
    return [one for one in found if one.subject != "credentials"]


async def check_answer(answer: Answer, tmp_path: Path, *, token: str = TOKEN) -> list[Finding]:
    async with serving(answer) as base, run_client() as client:
        config = configure_services(base, tmp_path, token=token)
        findings = await check_services(config, client)
    return [Finding(f.level, f.subject, f.what.replace(base, "BASE"), f.remedy) for f in findings]


def findings_about(subject: str, findings: Iterable[Finding]) -> list[tuple[str, str, str]]:
    return [(f.level, f.what, f.remedy) for f in findings if f.subject == subject]


# --- services -----------------------------------------------------------------------------------


async def test_services_that_accept_us_are_fine(tmp_path: Path) -> None:
    assert await check_answer(healthy, tmp_path) == [
        Finding("ok", "anthropic", "BASE answers"),
        Finding("ok", "telegram", "BASE responds; the bot is @elwood_bot"),
        Finding("ok", "clock", "agrees with the services within 1 s"),
    ]


NEW_TOKEN = "get the token from @BotFather and store it as telegram-token"
NEW_KEY = "create a new key there and store it as anthropic-key"


@pytest.mark.parametrize(
    ("response", "subject", "expected"),
    [
        (reply(401, {"error": "no"}), "anthropic",
         ("problem", "BASE refuses the key (401)", NEW_KEY)),
        (reply(404, b"<html>"), "anthropic",
         ("warning", "there is no list of models at BASE/v1/models (404)",
          "check providers.anthropic.base_url, unless the service has no such list")),
        (reply(503, b"<html>"), "anthropic",
         ("warning", "BASE answers with status 503", "try again later")),
        (reply(401, {"ok": False}), "telegram",
         ("problem", "BASE rejects the token (401)", NEW_TOKEN)),
        (reply(502, b"<html>"), "telegram",
         ("warning", "BASE responds with status 502, but not like the Bot API",
          "check telegram.base_url, or try again later")),
    ],
)  # fmt: skip
async def test_a_service_that_refuses_us_is_reported(
    tmp_path: Path, response: Reply, subject: str, expected: tuple[str, str, str]
) -> None:
    found = await check_answer(partial(answer_with, response), tmp_path)
    assert findings_about(subject, found) == [expected]


@pytest.mark.parametrize("body", [b"<html>", b'{"data": 5}', b"\xff"])
async def test_an_invalid_list_of_models_is_a_warning(tmp_path: Path, body: bytes) -> None:
    found = await check_answer(partial(answer_with, reply(200, body)), tmp_path)
    assert (
        "warning",
        "the list of models cannot be read",
        "check providers.anthropic.base_url",
    ) in (findings_about("anthropic", found))


async def test_retired_and_retiring_models_are_reported(tmp_path: Path) -> None:
    models = {
        "data": [
            {"id": "claude-sonnet-5-4"},
            {"id": "claude-haiku-5-5", "lifecycle": "deprecated", "retires_at": "2026-11-30"},
            {"id": "local", "lifecycle": "retired"},
        ]
    }
    found = await check_answer(partial(answer_with, reply(200, models)), tmp_path)
    assert findings_about("anthropic", found)[1:] == [
        ("problem",
         "the model anthropic/claude-sonnet-5-5 is not among the 3 models that anthropic lists",
         "did you mean anthropic/claude-sonnet-5-4?"),
        ("warning", "the model anthropic/claude-haiku-5-5 is deprecated and retires on 2026-11-30",
         "choose another in [models.roles]"),
    ]  # fmt: skip


async def test_the_retirement_date_of_an_openai_model_is_reported(tmp_path: Path) -> None:
    listed = {"data": [{"id": "gpt-4.2", "shutdown_date": "2027-03-01"}, {"id": "gpt-5.4"}]}
    async with serving(partial(answer_with, reply(200, listed))) as url:
        text = f'providers.openai.base_url = "{url}"\nmodels.roles.default.model = "openai/gpt-4.2"'
        config = load_text(tmp_path, f'{text}\nmodels.roles.cheap.model = "openai/gpt-5.4"')
        async with run_client() as client:
            found = await run_checks(config, client, models.check)
    assert findings_about("openai", found)[1:] == [
        ("warning", "openai says that it shuts the model openai/gpt-4.2 down on 2027-03-01",
         "choose another in [models.roles]"),
    ]  # fmt: skip


RESPONSES = "supports tools only in OpenAI's Responses API, which Elwood does not support yet"


@pytest.mark.parametrize(
    ("model", "today", "level", "said"),
    [
        ("openai/gpt-5", "2026-11-27", "warning", "shuts down on 2026-12-11"),
        ("openai/gpt-5-mini-2025-08-07", "2026-12-11", "problem", "is shut down"),
        ("openai/o3-mini", "2026-11-27", "problem", "is shut down"),
        ("openai/gpt-5.6-sol", "2026-11-27", "problem", RESPONSES),
        ("openai/gpt-6.1-terra", "2026-11-27", "problem", RESPONSES),
        ("openai/gpt-5.5", "2026-11-27", "warning", RESPONSES.replace("supports", "may support")),
        ("openai/gpt-5.4", "2026-11-27", "", ""),
        ("openai/gpt-5.4-mini", "2026-11-27", "", ""),
        ("openai/gpt-oss-120b", "2026-11-27", "", ""),
        ("anthropic/claude-sonnet-4-5-20250929", "2026-11-27", "warning", "on 2026-11-30"),
        ("anthropic/claude-3-5-haiku-latest", "2026-11-27", "problem", "is shut down"),
        ("anthropic/claude-sonnet-4-6", "2026-11-27", "", ""),
        ("proxy/gpt-6-sol", "2026-11-27", "", ""),
    ],
)
def test_models_that_retire_or_need_another_api_are_reported(
    tmp_path: Path, model: str, today: str, level: str, said: str
) -> None:
    proxy = 'providers.proxy = { api = "openai", base_url = "https://proxy.example/v1" }'
    text = f'{proxy}\nmodels.roles.default.model = "{model}"'
    found = list(find_doubts(load_text(tmp_path, text), today))
    assert [one.level for one in found] == ([level] if level else [])
    if found:
        assert found[0].what.startswith(f"the model {model} ")
        assert found[0].what.endswith(said)
        assert found[0].remedy.startswith("choose ")


def test_recommended_models_work(tmp_path: Path) -> None:
    """Its defaults, and the offers of `elwood init`."""
    for model, cheap in (USUAL["openai"], USUAL["anthropic"]):
        name = "openai" if model.startswith("gpt") else "anthropic"
        text = f'[models.roles]\ndefault.model = "{name}/{model}"\ncheap.model = "{name}/{cheap}"'
        config = load_text(tmp_path, text)
        assert not list(find_doubts(config, "2026-12-31"))


async def test_an_invalid_token_is_not_sent(tmp_path: Path) -> None:
    asked_for = []

    async def answer(request: Request) -> Reply:
        asked_for.append(request.path)
        return await healthy(request)

    found = await check_answer(answer, tmp_path, token="../../x?a=b")
    what = "the token looks wrong; it has digits, a colon and letters"
    assert findings_about("telegram", found) == [("problem", what, NEW_TOKEN)]
    assert [path for path in asked_for if "bot" in path] == []


async def test_unreachable_services_are_reported(tmp_path: Path) -> None:
    async with serving(healthy) as base:
        pass  # its server is closed
    async with run_client() as client:
        found = await check_services(configure_services(base, tmp_path), client)
    remedy = "check the network (DNS, proxy, firewall) and the address"
    for subject in ("anthropic", "telegram"):
        what = f"{base} cannot be reached: cannot connect: Connection refused"
        assert findings_about(subject, found) == [("problem", what, remedy)]
    assert findings_about("clock", found) == [
        ("warning", "no service gave a time to compare with", "")
    ]


async def test_a_missing_key_is_not_reported_as_refused(tmp_path: Path) -> None:
    async with serving(healthy) as base, run_client() as client:
        config = load_text(tmp_path, f'providers.anthropic.base_url = "{base}"')
        found = await check_services(config, client)
    assert findings_about("anthropic", found) == [("ok", f"{base} answers", "")]


@pytest.mark.parametrize("scope", ["session", "day", "month", "job"])
def test_each_impossible_limit_is_reported(tmp_path: Path, scope: str) -> None:
    text = f'models.roles.default.model = "ollama/qwen"\nlimits.{scope}_usd = 0.5\n'
    [finding] = models.prices(load_text(tmp_path, text))
    does = "does not count" if scope == "job" else "blocks"
    assert finding.what == f"limits.{scope}_usd {does} ollama/qwen: Elwood does not know the price"
    assert finding.remedy == "add the price to models.prices"
    free = text.replace("ollama/qwen", "offline/rules")
    priced = f'{text}models.prices."ollama/*" = {{ input = 0, output = 0 }}'
    for sound in (priced, free, 'models.roles.default.model = "ollama/qwen"'):
        assert list(models.prices(load_text(tmp_path, sound))) == []


async def test_an_offline_provider_is_not_checked(tmp_path: Path) -> None:
    config = load_text(
        tmp_path,
        'models.roles.default.model = "toy/rules"\nmodels.roles.cheap.model = "toy/rules"\n'
        'providers.toy.api = "offline"',
    )
    async with run_client() as client:
        assert await check_services(config, client) == []


@pytest.mark.parametrize(
    ("ahead", "expected"),
    [
        (300.0, ("ok", "agrees with the services within 301 s", "")),
        (301.0, ("problem", "is 5 min ahead of the services",
                 "set the clock: run timedatectl set-ntp true")),
        (-86_400.0, ("problem", "is 1440 min behind the services",
                     "set the clock: run timedatectl set-ntp true")),
    ],
)  # fmt: skip
async def test_a_wrong_clock_is_reported(
    tmp_path: Path, ahead: float, expected: tuple[str, str, str]
) -> None:
    response = reply(503, b"", date=NOW - ahead)
    found = await check_answer(partial(answer_with, response), tmp_path)
    assert findings_about("clock", found) == [expected]


@pytest.mark.parametrize("why", ["TLS failed: certificate is not yet valid",
                                 "TLS failed: certificate has expired"])  # fmt: skip
def test_a_certificate_of_another_time_is_blamed_on_the_clock(why: str) -> None:
    """With a clock that is days off TLS fails, and no server can report the time."""
    found = build_unreached("telegram", "https://api.telegram.org", why, NOW)
    assert (found.level, found.subject) == ("problem", "clock")
    assert "at the time of this machine, 2026-11-21 22:26 UTC:" in found.what
    assert found.remedy == "set the clock: run timedatectl set-ntp true"


# --- this machine -------------------------------------------------------------------------------


def test_a_sound_machine_has_no_problems(tmp_path: Path) -> None:
    (tmp_path / "state" / "workspace").mkdir(parents=True, mode=0o700)
    (tmp_path / "state").chmod(0o700)
    found = examine_machine(load_text(tmp_path, ANTHROPIC_API_KEY=KEY))
    levels = {f.subject: f.level for f in found if f.subject not in ("disk", "workspace")}
    assert levels == {
        "configuration": "ok",
        "state": "ok",
        "kernel": "ok",
        "process": "ok",
        "journals": "ok",
    }


def test_before_the_first_start_there_is_only_advice(tmp_path: Path) -> None:
    found = examine_machine(load_text(tmp_path, ANTHROPIC_API_KEY=KEY))
    assert findings_about("state", found) == [
        ("warning", f"{tmp_path}/state does not exist yet", "run: elwood init")
    ]
    assert findings_about("workspace", found) == [
        ("warning", f"the folder {tmp_path}/state/workspace does not exist", "run: elwood init")
    ]
    assert findings_about("process", found) == [("ok", "Elwood has not run here yet", "")]


@pytest.mark.parametrize(
    ("mode", "secret", "level", "what"),
    [
        (
            0o640,
            True,
            "problem",
            "can be read by other users (mode 0640) and contains telegram.token",
        ),
        (0o644, False, "ok", "is valid"),
        (0o666, False, "problem", "can be changed by other users (mode 0666)"),
    ],
)
def test_the_permissions_of_the_configuration_are_checked(
    tmp_path: Path, mode: int, secret: bool, level: str, what: str
) -> None:
    config = load_text(tmp_path, f'telegram.token = "{TOKEN}"' if secret else "")
    config.file.chmod(mode)
    remedy = "" if level == "ok" else f"run: chmod 600 {config.file}"
    assert findings_about("configuration", examine_machine(config)) == [
        (level, f"{config.file} {what}", remedy)
    ]


async def test_missing_secrets_are_reported(tmp_path: Path) -> None:
    config = load_text(
        tmp_path,
        'models.roles.default.fallbacks = ["local/x", "ollama/y", "far/z"]\n'
        'providers.local = { api = "openai", base_url = "http://[::1]:8080" }\n'
        'providers.far = { api = "openai", base_url = "https://example.org" }',
    )
    found = [*models.credentials(config), *await check_machine(load_text(tmp_path), telegram.check)]
    assert findings_about("credentials", found) == [
        (
            "problem",
            "there is no key for anthropic",
            "put it into the credential anthropic-key, into $ANTHROPIC_API_KEY, or name a file "
            "that has it in providers.anthropic.key",
        ),
        (
            "problem",
            "there is no key for far",
            "put it into the credential far-key, into $FAR_API_KEY, or name a file that has it in "
            "providers.far.key",
        ),
        ("ok", "no telegram-token: the Telegram channel is off", ""),
    ]
    vectors = load_text(tmp_path, 'memory.embeddings = "openai/vectors"', ANTHROPIC_API_KEY=KEY)
    assert "there is no key for openai" in [one.what for one in models.credentials(vectors)]


def test_a_missing_or_public_state_folder_is_a_problem(tmp_path: Path) -> None:
    config = load_text(tmp_path)
    state = config.get(Paths).state
    state.mkdir()
    state.chmod(0o701)
    assert findings_about("state", examine_machine(config)) == [
        ("problem", f"other users have access to {state} (mode 0701)", f"run: chmod 700 {state}")
    ]


def test_a_running_elwood_is_detected(tmp_path: Path) -> None:
    config = load_text(tmp_path)
    config.get(Paths).state.mkdir()
    with (config.get(Paths).state / "lock").open("w") as lock:
        lock.write("4711\n")
        lock.flush()
        assert findings_about("process", examine_machine(config)) == [
            ("ok", "Elwood is not running", "")
        ]
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert findings_about("process", examine_machine(config)) == [
            ("ok", "Elwood is running (process 4711)", "")
        ]


async def test_the_webhook_needs_https_and_a_free_port(tmp_path: Path) -> None:
    async def find(more: str = "") -> list[str]:
        text = f'telegram.owners = [1]\ntelegram.webhook_listen = "{place}"\n{more}'
        # Such a token is not sent to Telegram.
        config = load_text(tmp_path, text, ELWOOD_TELEGRAM_TOKEN="malformed")
        found = findings_about("telegram", await check_machine(config, telegram.check))
        return [what for _, what, _ in found if "token" not in what]

    [taken] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with taken:
        place = f"127.0.0.1:{taken.socket.getsockname()[1]}"
        busy = f"Elwood cannot listen on {place}: Address already in use"
        insecure = "telegram.webhook_url is not an https address, so Telegram does not use it"
        url = 'telegram.webhook_url = "http://example.org"'
        assert await find() == []
        assert await find(url) == [insecure, busy]
        assert await find(f'{url}\ntelegram.base_url = "http://localhost:8081"') == [busy]
        (tmp_path / "state").mkdir()
        with lock_state(tmp_path / "state"):  # Elwood runs, and listens there itself
            assert await find(url.replace("http:", "https:")) == []
    assert await find(url) == [insecure]


def test_a_damaged_journal_is_a_problem(tmp_path: Path) -> None:
    config = load_text(tmp_path)
    folder = config.get(Paths).state / "sessions"
    folder.mkdir(parents=True)
    (folder / "good.jsonl").write_text("")
    (folder / "bad.jsonl").write_text('{"seq": 1}\n{"seq": 2}\n')
    problem, fine = findings_about("journals", examine_machine(config))
    assert problem[0] == "problem"
    assert problem[1].startswith(f"{folder}/bad.jsonl: line 1 ")
    assert problem[2] == "restore it from a backup, or move it away to start without it"
    assert fine == ("ok", "1 verified: no line is missing, moved or edited", "")


# --- the whole ----------------------------------------------------------------------------------


async def run_doctor(config: Path, **environ: str) -> tuple[int, str]:
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    done = await trio.run_process(
        [sys.executable, "-m", "elwood", "doctor", "--config", str(config)],
        env={**kept, "HOME": str(config.parent), **environ},
        capture_stdout=True,
        capture_stderr=True,
        check=False,
    )
    assert done.stderr == b""
    return done.returncode, done.stdout.decode()


async def test_the_command_exits_1_when_there_are_problems(tmp_path: Path) -> None:
    async def answer(request: Request) -> Reply:
        response = await healthy(request)
        return reply(response.status, json.loads(b"".join(response.pieces)), date=time.time())

    async with serving(answer) as base:
        path = tmp_path / "config.toml"
        path.write_text(
            f'paths.state = "{tmp_path}/state"\nproviders.anthropic.base_url = "{base}"\n'
            f'telegram.base_url = "{base}"\ntelegram.owners = [1]'
        )
        path.chmod(0o600)
        secrets = {"ANTHROPIC_API_KEY": KEY, "ELWOOD_TELEGRAM_TOKEN": TOKEN}
        code, text = await run_doctor(path, **secrets)
        assert "PROBLEM" not in text
        assert code == 0
        code, text = await run_doctor(path, **secrets | {"ANTHROPIC_API_KEY": "revoked-key"})
    assert code == 1
    assert f"PROBLEM  anthropic      {base} refuses the key (401) → create a new key there" in text
    assert "revoked-key" not in text
    assert TOKEN not in text


async def test_a_wrong_configuration_is_a_finding(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("[turn]\ndedline = 5")
    code, text = await run_doctor(path)
    assert code == 1
    assert text == (
        "level    subject        finding\n"
        f"PROBLEM  configuration  {path}: turn.dedline: no such key → did you mean deadline?\n"
    )


# --- the sandbox ---------------------------------------------------------------------------------


def test_a_pattern_that_matches_no_tool_is_a_warning(tmp_path: Path) -> None:
    config = load_text(tmp_path, '[policy]\ndeny = ["web_*"]')
    found = [one for one in configuration(config) if one.level == "warning"]
    what = f"{config.file}: policy.deny[0]: no tool matches web_*"
    assert found == [Finding("warning", "configuration", what, "did you mean web.*?")]


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["sh"], ""),
        (["/bin/sh", "-c", "x"], ""),
        (["wisper"], "media.transcription_command: there is no program wisper"),
        (["/opt/none/x"], "media.transcription_command: there is no program /opt/none/x"),
    ],
)
def test_a_missing_program_is_a_problem(tmp_path: Path, command: list[str], said: str) -> None:
    found = programs(load_text(tmp_path, f"media.transcription_command = {command}"))
    assert [(one.level, one.what) for one in found] == ([("problem", said)] if said else [])


async def test_rules_for_missing_programs_are_reported(tmp_path: Path) -> None:
    rules = 'ask_commands = ["gti log", "sh -c"]\nsafe_commands = ["mkae"]'
    config = load_text(tmp_path, f'sandbox.kind = "direct"\n[policy]\n{rules}')
    found = await check_machine(config, shell.check)
    assert [one.what for one in found if one.subject == "policy"] == [
        "policy.ask_commands names gti, but commands find no such program",
        "policy.safe_commands names mkae, but commands find no such program",
    ]


async def test_missing_skills_are_reported(tmp_path: Path) -> None:
    (tmp_path / "state/workspace").mkdir(parents=True)
    config = load_text(tmp_path, '[skills]\noff = ["github"]\nfolders = ["/nowhere/skills"]')
    found = await check_machine(config, skills.check)
    assert [(one.level, one.what) for one in found] == [
        ("warning", "skills.folders: there is no folder /nowhere/skills"),
        ("warning", "skills.off: there is no skill github"),
    ]


async def test_a_skill_with_a_problem_is_reported_once(tmp_path: Path) -> None:
    (folder := tmp_path / "state/workspace/skills/a").mkdir(parents=True)
    (folder / "SKILL.md").write_text("no head")
    path = tmp_path / "config.toml"
    path.write_text(f'paths.state = "{tmp_path}/state"')
    _, text = await run_doctor(path)
    assert text.count(f"{folder}: it does not begin with the line ---") == 1


async def test_the_sandbox_is_tried(tmp_path: Path) -> None:
    config = load_text(tmp_path)
    config.get(Paths).state.mkdir()
    config.get(Paths).workspace.mkdir()
    (finding,) = await check_machine(config, shell.check)
    # The result depends on the machine: a sandbox, or the reason why there is none.
    assert finding.what.startswith(("Commands run in", "Commands cannot be run"))
    assert finding.what.endswith("tested from this shell; a service may have fewer rights")


@pytest.mark.parametrize(
    ("written", "level", "words"),
    [
        ('kind = "direct"', "warning", "not confined, so Elwood asks you about each"),
        ('kind = "direct"\n[policy]\nallow = ["*"]', "warning", "Elwood asks you about each"),
        ('kind = "direct"\n[policy]\nallow = ["*"]\nask = ["run_command"]', "warning", "asks you"),
        ('kind = "direct"\n[policy]\ndeny = ["shell.*"]', "ok", "policy.deny forbids all commands"),
        ('kind = "none"', "ok", "turned off"),
        ('kind = "docker"', "warning", "set sandbox.docker_socket and sandbox.docker_image"),
        (
            'kind = "docker"\ndocker_socket = "/nowhere"\ndocker_image = "a"',
            "warning",
            "/nowhere: cannot connect: No such file or directory",
        ),
        (
            'kind = "bubblewrap"\nbubblewrap = "no-such"',
            "warning",
            "Commands cannot be run: bubblewrap: the program no-such was not found",
        ),
    ],
)
async def test_the_chosen_sandbox_is_reported(
    tmp_path: Path, written: str, level: str, words: str
) -> None:
    config = load_text(tmp_path, f"[sandbox]\n{written}\n")
    config.get(Paths).state.mkdir()
    config.get(Paths).workspace.mkdir()
    (finding,) = await check_machine(config, shell.check)
    assert finding.level == level
    assert words in finding.what


async def test_an_available_engine_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "docker.sock").touch()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    config = load_text(tmp_path, '[sandbox]\nkind = "docker"\n')
    config.get(Paths).state.mkdir()
    config.get(Paths).workspace.mkdir()
    (finding,) = await check_machine(config, shell.check)
    assert "there is a container engine at /" in finding.what
    assert finding.remedy.startswith("see docs/sandbox.md; there is a container engine at /")


async def test_without_folders_there_is_no_sandbox_to_try(tmp_path: Path) -> None:
    assert await check_machine(load_text(tmp_path), shell.check) == []


async def test_every_configured_model_is_checked(tmp_path: Path) -> None:
    """Also an embedding model."""
    listed = {"data": [{"id": "here"}, {"id": "vectors:latest"}]}
    async with serving(partial(answer_with, reply(200, listed))) as base, run_client() as client:
        text = f"""
models.roles.default.model = "local/here"
models.roles.cheap.model = "local/here"
memory.embeddings = "local/vectors"
providers.local = {{ api = "openai", base_url = "{base}" }}
"""
        config = load_text(tmp_path, text)
        found = await run_checks(config, client, models.check)
        assert {one.level for one in found} == {"ok"}
        text = text.replace("local/vectors", "local/vektors")
        found = await run_checks(load_text(tmp_path, text), client, models.check)
    [gone] = [one for one in found if one.level != "ok"]
    assert "local/vektors is not among" in gone.what


async def test_an_old_backup_is_reported(tmp_path: Path) -> None:
    config = load_text(tmp_path)
    config.get(Paths).workspace.mkdir(parents=True, exist_ok=True)
    assert await check_machine(config, backup.check) == []
    take(Scope.from_config(config), clock=lambda: NOW - 86_400, keep=7)
    (fresh,) = await check_machine(config, backup.check)
    assert (fresh.level, fresh.what) == ("ok", "the last backup is 24 h old")
    (old,) = await check_machine(config, backup.check, now=NOW + 3 * 86_400)
    assert old.level == "warning"


async def test_the_limits_of_tasks_are_checked(tmp_path: Path) -> None:
    text = """
models.roles.default.model = "ollama/qwen"
models.roles.cheap.model = "ollama/qwen"
heartbeat.usd = 0.1
[[tasks]]
title = "A"
when = "daily"
prompt = "x"
usd = 0.1
[[tasks]]
title = "B"
when = "daily"
prompt = "x"
usd = 0.1
tokens = 1000
"""
    found = findings_about("limits", await check_machine(load_text(tmp_path, text), tasks.check))
    why, remedy = "ollama/qwen: Elwood does not know the price", "add the price to models.prices"
    assert found == [
        ("warning", f"heartbeat.usd cannot limit {why}", remedy),
        ("warning", f"usd of the task a blocks {why}", remedy),
    ]


def test_an_invalid_own_setting_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config, own = tmp_path / "config.toml", tmp_path / "state" / "agent.toml"
    offline = 'models.roles = { default.model = "offline/rules", cheap.model = "offline/rules" }\n'
    config.write_text(
        f'{offline}providers.offline.api = "offline"\npaths.state = "{tmp_path}/state"\n'
    )
    own.parent.mkdir(mode=0o700)

    def said() -> str:
        assert main(["doctor", "--config", str(config)], (own_settings, heartbeat)) == 0
        return " ".join(capsys.readouterr().out.split())

    assert "agent.toml" not in said()
    own.write_text('[personality]\ntext = "Be short."\n[[tasks]]\nwhen = "daily"\nmessage = "Tea"')
    assert f"ok configuration {own} is valid" in said()
    own.write_text('[policy]\nallow = ["run_command"]\n[[tasks]]\nwhen = "often"\nprompt = "Look."')
    broken = said()
    assert (
        "warning configuration agent.toml has an error, so its last valid version stays in effect."
        in broken
    )
    assert (
        "valid version stays in effect. agent.toml: policy: is allowed only in config.toml"
        in broken
    )
    assert "; agent.toml: tasks[0].when: 'often' is not a valid time" in broken
    assert "→ correct it, or send /settings undo in a chat" in broken
    own.write_bytes(b"\xff")
    assert "'utf-8' codec can't decode byte 0xff" in said()
