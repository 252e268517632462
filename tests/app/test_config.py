"""Valid configurations, and the problems reported for all others."""

from pathlib import Path

import pytest

from elwood.agent.conversation.settings import Owner, TurnSettings
from elwood.agent.models.settings import Limits, ModelRole, ModelSettings, Providers
from elwood.app.config.load import load, load_own
from elwood.app.config.names import COMPONENTS
from elwood.app.config.toml_file import LARGEST, ConfigErrors
from elwood.app.main import ALL, own_sections
from elwood.features.daily_notes.settings import DailyNotesSettings
from elwood.features.memory.settings import LearningSettings
from elwood.features.telegram.settings import TelegramSettings
from elwood.features.web.settings import SearchSettings
from elwood.foundation.secrets.redaction import Secret
from elwood.foundation.settings import Config, Paths

LOGGERS = sorted([*COMPONENTS, *(feature.name for feature in ALL)])
HOME = {"HOME": "/home/ada"}
TOKEN = "7123456789" + ":A" + "A" + "bcdefghijklmnopqrstuvwxyzABCDEFGH"


def load_text(tmp_path: Path, text: str, **environ: str) -> Config:
    path = tmp_path / "config.toml"
    path.write_text(text)
    return load(path, HOME | environ)


def load_problems(tmp_path: Path, text: str, **environ: str) -> list[str]:
    with pytest.raises(ConfigErrors) as caught:
        load_text(tmp_path, text, **environ)
    prefix = f"{tmp_path}/"
    return [str(problem).removeprefix(prefix) for problem in caught.value.problems]


def test_an_empty_file_is_a_configuration(tmp_path: Path) -> None:
    config = load_text(tmp_path, "")
    assert config.get(ModelSettings).role("default").model == "anthropic/claude-sonnet-5-5"
    known = ["anthropic", "offline", "ollama", "openai", "openrouter"]
    assert sorted(config.get(Providers).by_name) == known
    assert config.get(TelegramSettings).token is None
    assert config.secrets == ()
    assert config.file == tmp_path / "config.toml"


def test_a_byte_order_mark_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes(b"\xef\xbb\xbf[owner]\r\nname = '${WHO}'\r\n")
    (tmp_path / ".env").write_bytes(b"\xef\xbb\xbfWHO=Ann\r\n")
    (tmp_path / ".env").chmod(0o600)
    assert load(path, {}).get(Owner).name == "Ann"


def test_a_file_instead_of_a_folder_is_one_problem(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("")
    text = f'[paths]\nstate = "{tmp_path}/state"'
    expected = f"config.toml: paths.state: {tmp_path}/state is a file; write the path of a folder"
    assert load_problems(tmp_path, text) == [expected]


def test_every_kind_of_value_can_be_written(tmp_path: Path) -> None:
    config = load_text(
        tmp_path,
        """
        owner.timezone = "Europe/Berlin"
        paths = { state = "~/elwood", runtime = "/run/x" }
        limits.day_usd = 5
        turn.deadline = 60
        [models.roles.default]
        model = "local/qwen"
        fallbacks = ["openai/gpt", "anthropic/claude"]
        [models.roles.heartbeat]
        model = "local/small"
        thinking = "low"
        [providers.local]
        api = "openai"
        base_url = "http://127.0.0.1:8080/v1"
        echo_reasoning = "reasoning"
        [telegram]
        owners = [123456789012, 2]
        groups = [-1001]
        """,
    )
    assert config.get(Owner).timezone == "Europe/Berlin"
    assert config.get(Paths).state == Path("/home/ada/elwood")
    assert config.get(Paths).workspace == Path("/home/ada/elwood/workspace")
    assert config.get(Paths).runtime == Path("/run/x")
    assert config.get(Limits).day_usd == 5.0
    assert config.get(TurnSettings).deadline == 60.0
    assert isinstance(config.get(TurnSettings).deadline, float)
    models = config.get(ModelSettings)
    assert models.role("default").models == ("local/qwen", "openai/gpt", "anthropic/claude")
    assert models.role("heartbeat") == ModelRole(("local/small",), 16_000, "low")
    assert config.get(Providers).by_name["local"].echo_reasoning == "reasoning"
    assert config.get(TelegramSettings).owners == (123456789012, 2)


WRONG = [
    # text, message
    ('[owner]\ntimezone = "Europe/Berln"',
     ": owner.timezone: there is no time zone 'Europe/Berln'; write a name like Europe/Berlin"),
    ('[turn]\n\ndedline = 5', ": turn.dedline: no such key; did you mean deadline?"),
    ('[sessions]\nx = 5',
     ": sessions.x: no such key; there are archive, idle, in_memory, keep, keep_runs"),
    ('log.levels = { tols = "debug" }',
     ": log.levels.tols: no component has this name; did you mean tools?"),
    ('log.levels = { x = "debug" }',
     f": log.levels.x: no component has this name; use one of {', '.join(LOGGERS)}"),
    ('[modles]\nx = 5', ": modles: no such key; did you mean models?"),
    ('[models]\nmax_tokens = "16000"',
     ': models.max_tokens: expected a whole number, found the text "16000"; '
     "write digits only"),
    ('[models]\nmax_tokens = 1.5',
     ": models.max_tokens: expected a whole number, found the number 1.5; "
     "write digits only"),
    ('[models]\nmax_tokens = 0',
     ": models.max_tokens: 0 is too small; the minimum is 1"),
    ('[turn]\ndeadline = nan', ": turn.deadline: nan is out of range; it must be from 1 to 86400"),
    ('[turn]\ndeadline = 2026-11-21',
     ": turn.deadline: expected a number, found a date or time; "
     "write digits, with a decimal point if needed"),
    ('[owner]\nname = 5', ": owner.name: expected a text, found the number 5; put it in quotes"),
    ('[telegram]\nowners = [\n  1,\n  "2",\n]',
     ': telegram.owners[1]: expected a whole number, found the text "2"; '
     "write digits only"),
    ('[telegram]\nowners = 5', ": telegram.owners: expected a list, found the number 5; "
     "write [1, 2]"),
    ('[telegram]\nowners = [-5]',
     ": telegram.owners[0]: -5 is not a user id; list groups in telegram.groups"),
    ('[telegram]\nbase_url = "ftp://x"', ": telegram.base_url: not an http or https address; "
     "write an address like https://api.example.org/v1"),
    (f'[telegram]\nbase_url = "http://{"a" * 64}.org"',
     ": telegram.base_url: not an http or https address; "
     "write an address like https://api.example.org/v1"),
    ('[telegram]\nbase_url = "http://a:hunter2@x"', ": telegram.base_url: the address contains a "
     "user name or password; write the key in the setting key"),
    ('telegram = 5', ": telegram: expected a table, found the number 5; begin it with [telegram]"),
    ('providers = 5', ": providers: expected a table, found the number 5; "
     "write a table for each, such as [providers.local]"),
    ('[providers]\nanthropic = 5', ": providers.anthropic: expected a table, found the number 5; "
     "begin it with [providers.anthropic]"),
    ('[providers.local]\nbase_url = "http://x"',
     ": providers.local.api: is missing; write it"),
    ('[providers.local]\napi = "openai"',
     ": providers.local.base_url: is missing; write the API's address"),
    ('[providers.local]\napi = "opnai"\nbase_url = "http://x"',
     ": providers.local.api: cannot be the text \"opnai\"; "
     "write one of anthropic, openai, offline"),
    ('[providers."a/b"]\napi = "offline"',
     ": providers.a/b: not a name for a provider; use lower-case letters, digits, - and _"),
    ('[models]\ndefault = "claude"',
     ": models.default: 'claude' is not a model; write provider/name, as in openai/gpt-5.4"),
    ('[models]\ndefault = "antropic/claude"',
     ": models.default: there is no provider antropic; did you mean anthropic?"),
    ('[models.roles.chaep]\nmodel = "openai/gpt"', ": models.roles.chaep: there is no such role; "
     "there are default, cheap, summarizer, observer, heartbeat"),
    ('[models]\ndefault = "a/b"\n[models.roles.default]\nmodel = "openai/gpt"',
     ": models.default: is the old name of models.roles.default.model, which is set too; "
     "remove one of them"),
    ('memory.embeddings = "offline/rules"',
     ": memory.embeddings: the offline model has no embeddings; choose another, or remove it"),
    ('telegram.token = "${NOT_SET}"', ": telegram.token: the variable NOT_SET is not set; "
     "set it, or write $${NOT_SET}"),
    ('[paths]\nstate = "here"', ': paths.state: the text "here" is not an absolute path; '
     "begin it with / or ~/"),
    ('[owner]\nname = "${1}"', ": owner.name: ${ without a name and }; "
     "write $${ for a plain ${"),
    ('[telegram]\ntoken = 5', ": telegram.token: expected a text; put it in quotes"),
    ('[telegram]\ntoken = "file:/nowhere"',
     ": telegram.token: /nowhere does not exist; create it, or correct the path"),
    ('[telegram]\ntoken = "file:here"',
     ": telegram.token: file:here is not an absolute path; begin it with /"),
    ('[providers.openai]\nkey = ""',
     ": providers.openai.key: the value is empty; write the secret to it"),
    ('[policy]\ndeny = ["run_comand"]',
     ": policy.deny[0]: there is no tool run_comand; did you mean run_command?"),
    ('[policy]\nask = ["files.file.wirte"]',
     ": policy.ask[0]: there is no tool files.file.wirte; did you mean files.file.write?"),
    ('[policy]\nallow = ["xyzzy"]', ": policy.allow[0]: there is no tool xyzzy; "
     "docs/reference/tools.md lists all tools"),
    ('[policy]\ndeny = ["tme__now"]\n[mcp_servers.time]\ncommand = "time"',
     ": policy.deny[0]: there is no tool tme__now; docs/reference/tools.md lists all tools"),
    ('policy.timeout = { web_fech = 5 }',
     ": policy.timeout.web_fech: there is no tool web_fech; did you mean web_fetch?"),
    ('policy.timeout = { "web.page.read" = 5 }',
     ": policy.timeout.web.page.read: there is no tool web.page.read; did you mean web_fetch?"),
    ('[[tasks]]\nwhen = "daily"\ntool = "list_file"',
     ": tasks[0].tool: there is no tool list_file; did you mean list_files?"),
    ('[[tasks]]\nwhen = "daily"\nprompt = "x"\ntools = ["grep", "web.*"]',
     ": tasks[0].tools[1]: web.* is not the name of a tool; write names, without wildcards"),
    ('[skills]\nchats = { tax = [-5, "telegrm:7", "telegram:7"] }',
     ": skills.chats.tax[1]: there is no channel telegrm; did you mean telegram?"),
    ('[skills]\nchats = { tax = ["telegram"] }',
     ": skills.chats.tax[0]: 'telegram' is not a chat; write telegram:123456789"),
    ("[skills]\nchats = { tax = [1.5] }",
     ": skills.chats.tax[0]: expected a text, found the number 1.5; put it in quotes"),
    ('[[tasks]]\nwhen = "daily"\nprompt = "x"\ndeliver = "telegrm:-100"',
     ": tasks[0].deliver: there is no channel telegrm; did you mean telegram?"),
    ('[[tasks]]\nwhen = "daily"\nprompt = "x"\ndeliver = "telegram:@me"',
     ": tasks[0].deliver: telegram:@me is not a chat of telegram; "
     "write an id in the format of telegram"),
    ("[policy]\nblocked_patterns = ['prod', '(?!safe)rm']",
     ": policy.blocked_patterns[1]: RE2 cannot use this regular expression: invalid perl operator: "
     "(?!; write it in the syntax of RE2 (github.com/google/re2/wiki/Syntax), "
     "which has no look-around such as (?=…) and no back-references such as \\1"),
    ("[policy]\ndangerous_patterns = ['[a']",
     ": policy.dangerous_patterns[0]: RE2 cannot use this regular expression: missing ]: [a; "
     "write it in the syntax of RE2 (github.com/google/re2/wiki/Syntax), "
     "which has no look-around such as (?=…) and no back-references such as \\1"),
    ("[a]\nb = 1\n[a.b]", ": line 3: [a.b] is written twice, or is both a table and a value; "
     "keep one of them"),
    ('[web]\nkey = "one"\nkey = "two"',
     ": line 3: key is written twice, or is both a table and a value; keep one of them"),
    (f"sessions.in_memory = {'9' * 30}",
     ": sessions.in_memory: the number is too large; write one of at most 18 digits"),
    (f"sessions.in_memory = 0x{'f' * 100_000}",
     ": sessions.in_memory: the number is too large; write one of at most 18 digits"),
    (f"sessions.in_memory = {'9' * 100_000}",
     ": has a number of more than 4,300 digits; check that it is the right file"),
    (f"{'.'.join('a' * 100_000)} = 1",
     ": has a key of more than 100 parts; check that it is the right file"),
    (f"[{' . '.join('a' * 100_000)}]",
     ": has a key of more than 100 parts; check that it is the right file"),
    ('[[tasks]]\nwhen = "daily"\ntool = "read_file"\n'
     f"arguments = {('{' + '.'.join('a' * 90) + ' = ') * 50}1{'}' * 50}",
     ": tasks: is nested too deeply; check that it is the right file"),
    ('a = 1\nb = ', ": not TOML: Invalid value (at end of document); see https://toml.io"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "said"), WRONG)
def test_a_wrong_value_is_reported_with_place_and_remedy(
    tmp_path: Path, text: str, said: str
) -> None:
    assert load_problems(tmp_path, text) == [f"config.toml{said}"]


@pytest.mark.parametrize(
    ("text", "doubt"),
    [
        ('deny = ["web_*"]', "deny[0]: no tool matches web_*; did you mean web.*?"),
        ('deny = ["wbe.*"]', "deny[0]: no tool matches wbe.*; did you mean web.*?"),
        ('ask = ["x?"]', "ask[0]: no tool matches x?; patterns are compared with the ids in "
         "docs/reference/tools.md, such as web.*"),
        ('deny = ["time__later"]', "deny[0]: no MCP server has an accepted tool time__later; "
         "compare it with the list of /mcp"),
        ('deny = ["mcp.time.l*"]', "deny[0]: no accepted tool of an MCP server matches "
         "mcp.time.l*; compare it with the list of /mcp"),
        ("timeout = { time__later = 5 }", "timeout.time__later: no MCP server has an accepted "
         "tool time__later; compare it with the list of /mcp"),
        ('deny = ["web.*", "time__now", "mcp.time.now", "mcp.time.*", "*", "read_resource"]', ""),
        ("timeout = { time__now = 5, run_command = 5 }", ""),
    ],
)  # fmt: skip
def test_a_name_that_may_exist_later_is_a_warning(tmp_path: Path, text: str, doubt: str) -> None:
    """The tools of an MCP server have names only after the owner accepts them."""
    (tmp_path / "mcp").mkdir()
    (tmp_path / "mcp" / "time.json").write_text('{"accepted": {"now": {"name": "now"}}}')
    server = f'[mcp_servers.time]\ncommand = "time"\n[paths]\nstate = "{tmp_path}"'
    config = load_text(tmp_path, f"[policy]\n{text}\n{server}")
    expected = [f"{tmp_path}/config.toml: policy.{doubt}"] if doubt else []
    assert [f"{what}; {remedy}" for what, remedy in config.warnings] == expected


def test_a_tool_missing_from_this_run_can_be_named(tmp_path: Path) -> None:
    """Such as those of MCP servers, if none is configured."""
    assert not load_text(tmp_path, '[policy]\ndeny = ["read_resource", "mcp.*"]').warnings


def test_all_problems_are_reported_together(tmp_path: Path) -> None:
    text = """
[log]
level = 3
[modles]
[models]
default = "x/y"
fallbacks = [3, "z/z"]
max_tokens = 0
[telegram]
token = 5
"""
    found = load_problems(tmp_path, text, ELWOOD__TURN__MAX_ROUNDS="many")
    assert {tuple(line.split(": ")[:2]) for line in found} == {
        ("config.toml", "log.level"),
        ("config.toml", "modles"),
        ("config.toml", "models.default"),
        ("config.toml", "models.fallbacks[0]"),
        ("config.toml", "models.fallbacks[1]"),
        ("config.toml", "models.max_tokens"),
        ("config.toml", "telegram.token"),
        ("ELWOOD__TURN__MAX_ROUNDS", "turn.max_rounds"),
    }


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, ": there is no such file; run: elwood init"),
        (b'a = 1\nb = "\xff"', ": line 2 is not UTF-8 text; save it as UTF-8"),
        (
            b"#" * (LARGEST + 1),
            f": is larger than {LARGEST} bytes; check that it is the right file",
        ),
        (b"a = " + b"[" * 100_000, ": is nested too deeply; check that it is the right file"),
    ],
)
def test_an_unreadable_file_is_one_problem(
    tmp_path: Path, content: bytes | None, said: str
) -> None:
    path = tmp_path / "config.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigErrors) as caught:
        load(path, {})
    assert str(caught.value) == f"{path}{said}"


# --- old names ------------------------------------------------------------------------------------


def test_the_old_keys_of_models_keep_their_meaning(tmp_path: Path) -> None:
    text = """
[models]
default = "openai/gpt"
fallbacks = ["offline/rules"]
summarizer = "ollama/qwen"
max_tokens = 500
"""
    config = load_text(tmp_path, text, ELWOOD__MODELS__SUMMARIZER="ollama/small")
    models = config.get(ModelSettings)
    usual = ("openai/gpt", "offline/rules")
    assert models.role("default") == ModelRole(usual, 500, None)
    assert models.role("summarizer") == ModelRole(("ollama/small", *usual), 500, None)
    for role in ("cheap", "observer", "heartbeat"):
        assert models.role(role) == ModelRole(("ollama/small",), 500, None)
    shown = [f"{what.removeprefix(f'{tmp_path}/')}; {remedy}" for what, remedy in config.warnings]
    default = "models.roles.default"
    assert shown == [
        f"config.toml: models.default: has a new name; write {default}.model",
        f"config.toml: models.fallbacks: has a new name; write {default}.fallbacks",
        f"config.toml: models.max_tokens: has a new name; write {default}.max_tokens",
        "ELWOOD__MODELS__SUMMARIZER: models.summarizer: has a new name; "
        "write ELWOOD__MODELS__ROLES__CHEAP__MODEL",
    ]


def test_reflections_are_read_from_their_old_key(tmp_path: Path) -> None:
    config = load_text(tmp_path, "[learning]\nthreshold = 2\nreflections = false")
    assert not config.get(DailyNotesSettings).reflections
    assert config.get(LearningSettings).threshold == 2
    [(what, remedy)] = config.warnings
    assert what == f"{tmp_path}/config.toml: learning.reflections: has a new name"
    assert remedy == "write daily_notes.reflections"
    with pytest.raises(ConfigErrors) as caught:
        load_own("learning.reflections = false", config, own_sections())
    assert str(caught.value).startswith("agent.toml: learning.reflections: no such key; ")


def test_a_variable_with_a_new_name_overrides_an_old_key(tmp_path: Path) -> None:
    new = {"ELWOOD__MODELS__ROLES__DEFAULT__MODEL": "openai/gpt"}
    config = load_text(tmp_path, 'models.default = "offline/rules"', **new)
    assert config.get(ModelSettings).role("default").model == "openai/gpt"
    both = {"ELWOOD__MODELS__SUMMARIZER": "a/b", "ELWOOD__MODELS__ROLES__CHEAP__MODEL": "ollama/x"}
    assert load_text(tmp_path, "", **both).get(ModelSettings).role("cheap").model == "ollama/x"


def test_roles_inherit_except_for_written_keys(tmp_path: Path) -> None:
    """Each of the three roles after `cheap` may set less, or more, than `cheap`."""
    text = """
[models.roles.cheap]
model = "openai/small"
fallbacks = ["offline/rules"]
thinking = "low"
[models.roles.observer]
max_tokens = 300
[models.roles.heartbeat]
model = "openai/other"
[models.roles.summarizer]
fallbacks = []
"""
    models = load_text(tmp_path, text).get(ModelSettings)
    assert models.role("cheap") == ModelRole(("openai/small", "offline/rules"), 16_000, "low")
    assert models.role("observer") == ModelRole(("openai/small", "offline/rules"), 300, "low")
    assert models.role("heartbeat") == ModelRole(("openai/other",), 16_000, None)
    assert models.role("summarizer") == ModelRole(("openai/small",), 16_000, "low")


# --- the environment ----------------------------------------------------------------------------


def test_variables_override_the_file(tmp_path: Path) -> None:
    config = load_text(
        tmp_path,
        'turn.deadline = 5\n[providers.my-box]\napi = "openai"\nbase_url = "http://x"',
        ELWOOD__TURN__DEADLINE="7.5",
        ELWOOD__MODELS__ROLES__DEFAULT__MAX_TOKENS="3",
        ELWOOD__MODELS__ROLES__DEFAULT__FALLBACKS='["openai/gpt"]',
        ELWOOD__OWNER__NAME="5",
        ELWOOD__LIMITS__DAY_USD="1",
        ELWOOD__PROVIDERS__MY_BOX__BASE_URL="http://y",
        ELWOOD__PROVIDERS__OPENAI__ECHO_REASONING="reasoning",
        ELWOOD__PROVIDERS__NEW__API="offline",
        ELWOOD__TELEGRAM__OWNERS="[5]",
        ELWOOD__TELEGRAM__POLL="3",
    )
    assert config.get(TurnSettings).deadline == 7.5
    default = config.get(ModelSettings).role("default")
    assert default == ModelRole(("anthropic/claude-sonnet-5-5", "openai/gpt"), 3, None)
    assert config.get(Owner).name == "5"
    assert config.get(Limits).day_usd == 1.0
    assert config.get(Providers).by_name["my-box"].base_url == "http://y"
    assert config.get(Providers).by_name["openai"].echo_reasoning == "reasoning"
    assert config.get(Providers).by_name["new"].api == "offline"
    assert config.get(TelegramSettings).owners == (5,)
    assert config.get(TelegramSettings).poll == 3.0


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("TURN__MAX_ROUNDS", "many", 'turn.max_rounds: expected a whole number, '
         'found the text "many"; write digits only'),
        ("TURN__MAX_ROUNDS", "0",
         "turn.max_rounds: 0 is out of range; it must be from 1 to 1000"),
        ("TURN__DEADLINE", "soon",
         'turn.deadline: expected a number, found the text "soon"; '
         "write digits, with a decimal point if needed"),
        ("TELEGRAM__OWNERS", "me",
         'telegram.owners: expected a list in JSON, found the text "me"; write [1, 2]'),
        ("TELEGRAM__OWNERS", '["5"]', 'telegram.owners[0]: expected a whole number, '
         'found the text "5"; write digits only'),
        ("MODELS__FALLBACKS", '["x/y"]', "models.fallbacks[0]: there is no provider x; "
         "there are anthropic, offline, ollama, openai, openrouter"),
        ("TRUN__DEADLINE", "5", "trun: no such key; did you mean turn?"),
        ("TURN", "5", 'turn: expected a table, found the text "5"; set its keys separately'),
    ],
)  # fmt: skip
def test_a_wrong_variable_is_reported(tmp_path: Path, name: str, text: str, said: str) -> None:
    variable = f"ELWOOD__{name}"
    assert load_problems(tmp_path, "", **{variable: text}) == [f"{variable}: {said}"]


def test_variables_are_expanded_in_texts(tmp_path: Path) -> None:
    text = '[owner]\nname = "${FIRST} $${FIRST} $FIRST ${LAST}"'
    config = load_text(tmp_path, text, FIRST="Ada", LAST="${FIRST}")
    assert config.get(Owner).name == "Ada ${FIRST} $FIRST ${FIRST}"


def test_state_and_runtime_follow_systemd_and_the_session(tmp_path: Path) -> None:
    environ = {"XDG_RUNTIME_DIR": "/run/user/7"}
    assert load_text(tmp_path, "", **environ).get(Paths).runtime == Path("/run/user/7/elwood")
    environ |= {"STATE_DIRECTORY": "/var/lib/elwood:/x", "RUNTIME_DIRECTORY": "/run/elwood"}
    paths = load_text(tmp_path, "", **environ).get(Paths)
    assert paths.state == Path("/var/lib/elwood")
    assert paths.workspace == Path("/var/lib/elwood/workspace")
    assert paths.runtime == Path("/run/elwood")


def test_all_folders_are_below_the_home_of_a_plain_user(tmp_path: Path) -> None:
    paths = load_text(tmp_path, "").get(Paths)
    assert paths.state == Path("/home/ada/.local/state/elwood")
    assert paths.runtime == Path("/home/ada/.local/state/elwood/run")


# --- secrets ------------------------------------------------------------------------------------


def test_secrets_have_default_sources(tmp_path: Path) -> None:
    (tmp_path / "local-key").write_text("k3\n")
    (tmp_path / "config.toml").write_text(
        '[providers.local]\napi = "openai"\nbase_url = "http://x"'
    )
    environ = {
        "ELWOOD_TELEGRAM_TOKEN": "k0",
        "ANTHROPIC_API_KEY": "k1",
        "OPENAI_API_KEY": "k2",
        "CREDENTIALS_DIRECTORY": str(tmp_path),
    }
    config = load(tmp_path / "config.toml", environ)
    assert config.get(TelegramSettings).token == Secret("k0")
    assert {name: provider.key for name, provider in config.get(Providers).by_name.items()} == {
        "local": Secret("k3"),
        "anthropic": Secret("k1"),
        "openai": Secret("k2"),
        "openrouter": None,
        "ollama": None,
        "offline": None,
    }
    assert set(config.secrets) == {Secret(f"k{n}") for n in range(4)}
    assert set(environ) == {"CREDENTIALS_DIRECTORY"}


def test_variables_that_held_secrets_are_removed(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text('[telegram]\ntoken = "${TOKEN}"\n[owner]\nname = "${NAME}"')
    environ = {"TOKEN": "k0", "NAME": "Ada", "ELWOOD__PROVIDERS__OPENAI__KEY": "k2"}
    config = load(path, environ)
    assert config.get(TelegramSettings).token == Secret("k0")
    assert config.get(Providers).by_name["openai"].key == Secret("k2")
    assert environ == {"NAME": "Ada"}
    assert config.inline == ()


def test_well_known_variables_work_too(tmp_path: Path) -> None:
    config = load_text(
        tmp_path, "", TELEGRAM_BOT_TOKEN="k0", BRAVE_SEARCH_API_KEY="k1", OPENROUTER_API_KEY="k2"
    )
    assert config.get(TelegramSettings).token == Secret("k0")
    assert config.get(SearchSettings).brave_key == Secret("k1")
    assert config.get(Providers).by_name["openrouter"].key == Secret("k2")
    both = {"TELEGRAM_BOT_TOKEN": "k0", "ELWOOD_TELEGRAM_TOKEN": "k3"}
    assert load_text(tmp_path, "", **both).get(TelegramSettings).token == Secret("k3")


def write_dotenv(tmp_path: Path, text: str, mode: int = 0o600) -> None:
    (tmp_path / ".env").write_text(text)
    (tmp_path / ".env").chmod(mode)


def test_a_file_of_variables_counts_and_leaves_the_environment_unchanged(tmp_path: Path) -> None:
    write_dotenv(
        tmp_path,
        """# my keys
export TELEGRAM_BOT_TOKEN="k0"  # of BotFather

ANTHROPIC_API_KEY='k1'
OPENAI_API_KEY=k2 # old
NAME=Ada # L.
ELWOOD__TURN__DEADLINE=60
BRAVE_API_KEY=
""",
    )
    (tmp_path / "config.toml").write_text('[owner]\nname = "${NAME}"')
    environ = {"HOME": "/h", "OPENAI_API_KEY": "k3"}
    config = load(tmp_path / "config.toml", environ)
    assert config.get(TelegramSettings).token == Secret("k0")
    providers = config.get(Providers).by_name
    assert providers["anthropic"].key == Secret("k1")
    assert providers["openai"].key == Secret("k3"), "the environment comes first"
    assert (config.get(Owner).name, config.get(TurnSettings).deadline) == ("Ada", 60.0)
    assert set(config.secrets) == {Secret("k0"), Secret("k1"), Secret("k3")}
    assert environ == {"HOME": "/h"}


def test_a_file_of_variables_that_others_can_read_is_refused(tmp_path: Path) -> None:
    write_dotenv(tmp_path, f"TELEGRAM_BOT_TOKEN={TOKEN}", 0o644)
    assert load_problems(tmp_path, "") == [
        f".env can be read or changed by other users (mode 0644); run: chmod 600 {tmp_path}/.env"
    ]
    # A command that needs no secret may run as another user.
    load(tmp_path / "config.toml", HOME.copy(), secrets=False)


def test_invalid_lines_of_variables_are_reported_by_number_only(tmp_path: Path) -> None:
    write_dotenv(tmp_path, f"{TOKEN}\nA=1\nB='open\n= 2")
    assert load_problems(tmp_path, "") == [
        f".env: line {number} does not set a variable; write NAME=value" for number in (1, 3, 4)
    ]


def test_without_secrets_none_is_read_or_required(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(
        '[telegram]\ntoken = "${TOKEN}"\n[providers.openai]\nkey = "file:/no/such/file"\n'
        '[paths]\nruntime = "/run/elwood"'
    )
    environ = {"HOME": "/h", "ANTHROPIC_API_KEY": "k", "ELWOOD__PROVIDERS__OLLAMA__KEY": "k"}
    config = load(path, dict(environ), secrets=False)
    assert config.get(Paths).runtime == Path("/run/elwood")
    assert config.secrets == ()
    with pytest.raises(ConfigErrors):
        load(path, environ)


def test_plain_secrets_in_the_file_are_reported(tmp_path: Path) -> None:
    config = load_text(tmp_path, f'[telegram]\ntoken = "{TOKEN}"\n[providers.openai]\nkey = "k"')
    assert set(config.inline) == {"telegram.token", "providers.openai.key"}
    assert TOKEN not in repr(config)


def test_no_secret_is_shown_in_a_message(tmp_path: Path) -> None:
    text = f"""
[telegram]
tokn = "{TOKEN}"
token = ["{TOKEN}"]
owners = "{TOKEN}"
base_url = "${{TOKEN}}"
[providers.openai]
key = "a\\nb{TOKEN}"
"""
    found = load_problems(tmp_path, text, TOKEN=TOKEN)
    assert len(found) == 5
    assert TOKEN not in "".join(found)
