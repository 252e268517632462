"""A feature is a folder and a name: one record adds one, and each can be left out."""

import ast
import io
import logging
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import trio

import elwood
from elwood.agent.conversation.message import Completion, Human, Results
from elwood.agent.conversation.route import NOWHERE
from elwood.agent.models.client import ModelRequest, Shown
from elwood.agent.models.offline import OfflineModel
from elwood.agent.models.settings import Providers, ProviderSettings
from elwood.agent.policy.settings import PolicySettings
from elwood.agent.tools.tool import Output, ToolContext
from elwood.app.cli import main
from elwood.app.config.load import load, load_own
from elwood.app.config.toml_file import ConfigErrors
from elwood.app.main import FEATURES, own_sections, tools
from elwood.features.console.parts import commands as completed_commands
from elwood.features.mcp.settings import ServerSettings
from elwood.features.mcp.tools import reader_tools, search_tool
from elwood.features.tasks.rules import schedule
from elwood.features.tasks.state import Timetable
from elwood.features.tasks.task import Task
from elwood.features.tasks.when import Every
from elwood.foundation import log
from elwood.foundation.command_line import OK
from elwood.foundation.net import control
from elwood.foundation.sandbox.settings import SandboxSettings
from elwood.foundation.secrets.redaction import Secret
from elwood.foundation.settings import Config, Paths
from tests import example_feature
from tests.agent.session.scripted import answer, call, last_message
from tests.every_tool import every_tool
from tests.example_feature import ParcelSettings
from tests.journeys.home import short_folder
from tests.line import talking
from tests.model_roles import asking

HOUSE = Path(elwood.__file__).parent
TESTS = Path(__file__).parents[1]
KEY = "pk-4417-blue-harbour"


class Tracker:
    """A model that tracks the numbers it gets, and repeats the results."""

    codec = "scripted"

    def __init__(self) -> None:
        self.asked: list[ModelRequest] = []

    async def complete(self, request: ModelRequest, show: Callable[[Shown], None]) -> Completion:
        """Call the tool for each number; return its results."""
        await trio.lowlevel.checkpoint()
        self.asked.append(request)
        last = last_message(request.messages)
        if isinstance(last, Results):
            return answer(last.results[0].text)
        said = "\n".join(one.text for one in request.messages[-2:] if isinstance(one, Human))
        if found := re.search(r"track (\w+)$", said):
            return call(("c1", "track_parcel", f'{{"number": "{found[1]}"}}'))
        return answer("Well.")


def test_the_declared_tools_are_the_built_ones() -> None:
    """The names in the configuration are declared: reading it builds nothing."""
    servers = {"time": ServerSettings(command="time")}
    policy = PolicySettings()
    readers = reader_tools(servers, {}, lambda name: True, policy)
    built = (*every_tool(), *readers, search_tool({}, policy))
    assert tools() == {tool.name: tool.id for tool in built}


def settings(folder: Path, runtime: Path, model: str) -> Config:
    """A configuration with all required settings."""
    (folder / "workspace").mkdir()
    return Config.from_values(
        Paths(state=folder, workspace=folder / "workspace", runtime=runtime),
        Providers({model: ProviderSettings(api="offline")}),
        asking(f"{model}/m", f"{model}/m"),
        SandboxSettings(kind="direct"),
        file=folder / "config.toml",
    )


def files_with(text: str, folder: Path) -> list[Path]:
    """List the files that contain *text*."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [path for path in files if text.encode() in path.read_bytes()]


@pytest.fixture
def restore_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """Restore the log settings afterwards."""
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", root.handlers[:])
    monkeypatch.setattr(root, "level", root.level)
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)


@pytest.mark.usefixtures("restore_log")
async def test_a_feature_of_one_record_works_everywhere(tmp_path: Path) -> None:
    model = Tracker()
    written = io.StringIO()
    speaker = logging.getLogger("elwood.parcels")
    with short_folder() as runtime:
        config = settings(tmp_path, runtime, "scripted").replace(ParcelSettings(key=Secret(KEY)))
        features = (*FEATURES, example_feature.FEATURE)
        async with talking(config, features, {"scripted": model}) as line:
            assert line.app is not None
            core = line.app.core
            steps = {one.mailbox.name: one.mailbox.step for one in line.app.actors}
            assert None not in steps.values()
            assert (steps["sessions"], steps["child runs"], steps["approvals"]) == (5, 4, 3)
            log.set_up(log.LogSettings(), core.redactor, stream=written, environ={})
            speaker.info("asked with %s", KEY)
            # The slash command, in the list of them, and its answer.
            assert "/parcels: list the parcels" in await line.ask("/help")
            assert await line.ask("/parcels") == "On their way: nothing."
            assert line.others is not None
            completed = completed_commands(line.others)
            assert completed["parcels"] == "list the parcels\n/post does the same."
            assert "answer" not in completed
            assert "Parcels on their way: " in await line.ask("/status")
            # The tool: the gate asks the owner, and its output has the key redacted.
            await line.say("track P17")
            question = await line.hear(lambda text: "May I watch this parcel?" in text)
            assert "\n\nnumber: P17\n\n" in question
            await line.say("/approvals")
            listed = await line.hear(lambda text: "These questions wait for you" in text)
            code = re.search(r"(\w+): track_parcel", listed)
            assert code is not None
            await line.say(f"/allow {code[1]} once")
            done = await line.hear(lambda text: "watching P17" in text)
            assert "watching P17, asked with ***" in done
            assert "✓ track_parcel P17 · allowed once by you" in done
            # The text added to the next turn, and the part of the prompt.
            await line.ask("hello")
            assert "[on their way: P17]" in str(model.asked[-1].messages)
            assert "Parcels have numbers that begin with P." in model.asked[-1].prompt.system
            # The chore is a task of Elwood, and can be run.
            assert "look after parcels" in await line.ask("/tasks all")
            assert core.config.get(ParcelSettings).every == 6.0
            # Its control command, and its line in `elwood inspect`.
            told = await trio.to_thread.run_sync(control.ask, runtime, "track", "P18")
            assert told.ok
            assert "P18" in told.text
            assert KEY not in told.text
            shown = await trio.to_thread.run_sync(control.ask, runtime, "inspect")
            assert '"name":"parcels"' in shown.text
            # Its texts are found with those of the memory.
            named = [name for one in line.app.tools for name in {one.name, one.id}]
            assert len({*named}) == len(named), "no feature takes another's name"
            [search] = [one for one in line.app.tools if one.name == "search_memory"]
            context = ToolContext(session="line", route=NOWHERE, now=0.0)
            found = await search.run(search.input(query="where is P18?"), context)
            assert isinstance(found, Output)
            assert "P18" in found.text
            assert found.private
    assert "asked with" in written.getvalue()
    assert KEY not in written.getvalue()
    assert files_with(KEY, tmp_path) == []


@pytest.mark.usefixtures("restore_log")
async def test_its_records_survive_a_restart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with short_folder() as runtime:
        config = settings(tmp_path, runtime, "offline")
        features = (*FEATURES, example_feature.FEATURE)
        for number in ("P1", "P2"):
            async with talking(config, features, {"offline": OfflineModel()}) as line:
                assert line.app is not None
                await line.ask("help")  # the app is up
                await trio.to_thread.run_sync(control.ask, runtime, "track", number)
        async with talking(config, features, {"offline": OfflineModel()}) as line:
            assert await line.ask("/parcels") == "On their way: P1, P2."
    file = tmp_path / "config.toml"
    file.write_text(f'paths.state = "{tmp_path}"\nmodels.roles.default.model = "offline/m"\n')
    # Its command works without a service, the doctor has its check, and it is in a backup.
    assert main(["--config", str(file), "parcels"], features) == OK
    assert "ParcelAdded(number='P2')" in capsys.readouterr().out
    await trio.to_thread.run_sync(main, ["--config", str(file), "doctor"], features)
    assert "parcels        there is no key" in capsys.readouterr().out
    assert main(["--config", str(file), "backup", "now"], features) == OK
    (tmp_path / example_feature.FILE).unlink()
    assert main(["--config", str(file), "backup", "restore", "1", "--yes"], features) == OK
    assert "P2" in (tmp_path / example_feature.FILE).read_text()


def test_its_settings_are_read_from_the_file(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    (tmp_path / "key").write_text(KEY)
    (tmp_path / "key").chmod(0o600)
    file.write_text(f'[parcels]\nkey = "file:{tmp_path}/key"\nevery = 2\n')
    config = load(file, {"HOME": str(tmp_path)}, [example_feature.FEATURE])
    assert config.get(ParcelSettings) == ParcelSettings(key=Secret(KEY), every=2.0)
    assert Secret(KEY) in config.secrets


def test_the_ids_of_its_chores_are_reserved(tmp_path: Path) -> None:
    """No task of config.toml or agent.toml or of a conversation can have one, on or off."""
    file = tmp_path / "config.toml"
    written = '[[tasks]]\ntitle = "Parcels"\nwhen = "daily"\nprompt = "x"\n'
    features = (*FEATURES, example_feature.FEATURE)
    file.write_text(written)
    complaint = "tasks[0].id: the id 'parcels' belongs to Elwood itself; choose another id"
    with pytest.raises(ConfigErrors) as caught:
        load(file, {"HOME": str(tmp_path)}, features)
    assert str(caught.value) == f"{file}: {complaint}"
    file.write_text("")
    config = load(file, {"HOME": str(tmp_path)}, features)
    with pytest.raises(ConfigErrors) as caught:
        load_own(written, config, own_sections(features))
    assert str(caught.value) == f"agent.toml: {complaint}"
    task, decision = schedule(
        Timetable(), Task("", "Parcels", Every(60.0), prompt="x"), 0.0, config.chores
    )
    assert decision.ok
    assert task.id == "my-parcels"


def test_the_chores_of_each_feature_are_declared() -> None:
    """A chore is reserved by its feature's record, which must declare it."""
    for feature in FEATURES:
        for path in (HOUSE / "features" / feature.name).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Call) and ast.unparse(node.func) == "Chore":
                    [id_] = [one.value for one in node.keywords if one.arg == "id"]
                    assert ast.literal_eval(id_) in feature.chores


# A part of a process without a folder of one feature: it talks, by its arguments.
TALK = """
import sys
from pathlib import Path
import elwood
import trio
from elwood.agent.models.offline import OfflineModel
from elwood.agent.models.settings import Providers, ProviderSettings
from elwood.app.main import FEATURES
from elwood.foundation.settings import Config, Paths
from tests.line import talking
from tests.model_roles import asking

async def main(house, state, runtime):
    assert Path(elwood.__file__).is_relative_to(house)
    config = Config.from_values(
        Paths(state=state, workspace=state / "workspace", runtime=runtime),
        Providers({"offline": ProviderSettings(api="offline")}),
        asking("offline/m", "offline/m"),
    )
    async with talking(config, FEATURES, {"offline": OfflineModel()}) as line:
        for words in ("help", "/help", "/status"):
            print(await line.ask(words))

trio.run(main, *map(Path, sys.argv[1:]))
"""


def copy_without(feature: str, folder: Path) -> None:
    """Copy our package into *folder* without one feature: no folder, and no name."""
    links, places = {"app", "features"}, ("", "app", "features")
    for place in places:
        (folder / "elwood" / place).mkdir()
        for path in (HOUSE / place).iterdir():
            left_out = path.name == (feature if place == "features" else "main.py")
            if path.name not in {*links, "__pycache__"} and not left_out:
                (folder / "elwood" / place / path.name).symlink_to(path)
    contents = (HOUSE / "app" / "main.py").read_text().splitlines(keepends=True)
    words = (
        f"    {feature},\n",
        f"from elwood.features.{feature}.feature import FEATURE as {feature}\n",
    )
    kept = [line for line in contents if line not in words]
    assert len(kept) == len(contents) - 2
    (folder / "elwood" / "app" / "main.py").write_text("".join(kept))


@pytest.mark.parametrize("missing", [one.name for one in FEATURES])
def test_a_feature_is_deleted_with_its_folder(tmp_path: Path, missing: str) -> None:
    copy_without(missing, tmp_path)
    (tmp_path / "state" / "workspace").mkdir(parents=True)
    with short_folder() as runtime:
        done = subprocess.run(
            [sys.executable, "-c", TALK, tmp_path, tmp_path / "state", runtime],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": f"{tmp_path}:{TESTS.parent}"},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert "I am Elwood's offline model" in done.stdout, done.stderr
    assert "/new: start a new conversation" in done.stdout
    assert "with the model offline/m" in done.stdout


# --- who names a feature --------------------------------------------------------------------------


def named_features(path: Path) -> set[str]:
    """List the features that a file imports from, except its own.

    `app/main.py` may import the record of each, and nothing else.
    """
    name = path.relative_to(HOUSE).as_posix()
    nodes = ast.walk(ast.parse(path.read_text()))
    modules = [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    if name == "app/main.py":
        modules = [one for one in modules if not one.endswith(".feature")]
    found = {one.split(".")[2] for one in modules if one.startswith("elwood.features.")}
    return {one for one in found if not name.startswith(f"features/{one}/")}


def test_only_the_registry_names_a_feature() -> None:
    naming = {
        path.relative_to(HOUSE).as_posix(): named
        for path in sorted(HOUSE.rglob("*.py"))
        if (named := named_features(path))
    }
    assert naming == {}


# --- the page -------------------------------------------------------------------------------------

PAGE = TESTS.parent / "docs" / "extending.md"
SOURCES = ("example_feature.py", "line.py", "forum.py", "app/test_extending.py")


def read_excerpts() -> list[str]:
    """List the pieces of code on the page; dots are omissions between them."""
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.M | re.S)
    return [piece.strip("\n") for block in blocks for piece in block.split("\n...\n")]


@pytest.mark.parametrize("excerpt", read_excerpts())
def test_the_page_shows_tested_code(excerpt: str) -> None:
    assert any(excerpt in (TESTS / name).read_text() for name in SOURCES)
