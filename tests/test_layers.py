"""The layers of Elwood, checked by the import statements: docs/architecture.md draws them."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import elwood
from tests.every_tool import every_tool

HOUSE = Path(elwood.__file__).parent
# Each layer imports only from those before it; features never import one another.
ORDER = [
    "foundation/runtime", "foundation/text", "foundation/secrets", "foundation/settings",
    "foundation/command_line", "foundation/storage", "foundation/net", "foundation/sandbox",
    "foundation/log",
    "foundation/environment", "foundation/checks",
    "agent/conversation", "agent/models", "agent/channels", "agent/media", "agent/policy",
    "agent/people", "agent/tools", "agent/approvals",
    "agent/session/log", "agent/session/settings", "agent/session/inspection",
    "agent/session/messages", "agent/session/client", "agent/session/rights",
    "agent/session/paging",
    "agent/session/extension", "agent/session/reading", "agent/session/restored",
    "agent/session/admission", "agent/session/live", "agent/session/own_config",
    "agent/session/core", "agent/session/store", "agent/session/delivery", "agent/session/attached",
    "agent/session/turn",
    "agent/session/commands", "agent/session/actor", "agent/session/cli",
    "agent/parts", "agent/feature",
    "features", "app",
]  # fmt: skip
MODULE = re.compile(r"elwood(\.\w+)+:\w+")
DRAWS = re.compile(
    r"(?:rich|prompt_toolkit)\b|elwood\.features\.console\.(drawing|editing|live|screen|view)$"
)


def imported(node: ast.Import | ast.ImportFrom) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module or ""]


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import | ast.ImportFrom):
            is_relative = isinstance(node, ast.ImportFrom) and node.level > 0
            assert not is_relative, f"{path}: relative import"
            yield from imported(node)
        elif isinstance(node, ast.Constant) and MODULE.fullmatch(str(node.value)):
            yield str(node.value).partition(":")[0]  # a section named by a Feature


def room(module: str) -> tuple[int, str]:
    """Return the layer and the folder of *module*."""
    path = module.removeprefix("elwood.").replace(".", "/") + "/"
    for step, part in enumerate(ORDER):
        if path.startswith(part + "/"):
            return step, "/".join(path.split("/")[:2])
    return len(ORDER) - 1, "app"


def against_the_order() -> Iterator[str]:
    for path in sorted(HOUSE.rglob("*.py")):
        step, folder = room(".".join(("elwood", *path.relative_to(HOUSE).with_suffix("").parts)))
        for module in imports(path):
            if module == "elwood" or not module.startswith("elwood."):
                continue
            there, other = room(module)
            between = ORDER[step] == "features" and there == step and other != folder
            if there > step or between:
                yield f"{path.relative_to(HOUSE)} imports {module}"


def test_imports_go_to_lower_layers_only() -> None:
    assert list(against_the_order()) == []


def imported_files(path: Path) -> Iterator[str]:
    yield from imports(path)
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_there_are_no_import_cycles() -> None:
    """Imports within functions and for the type checker count too."""
    files = {
        ".".join(("elwood", *path.relative_to(HOUSE).with_suffix("").parts)): path
        for path in HOUSE.rglob("*.py")
    }
    edges = {name: files.keys() & set(imported_files(path)) for name, path in files.items()}
    # A file is in no cycle if it imports none of the remaining files, or none of them imports it.
    while free := {
        name
        for name, there in edges.items()
        if not there & edges.keys() or name not in set().union(*edges.values())
    }:
        edges = {name: there - free for name, there in edges.items() if name not in free}
    assert edges == {}


def test_one_folder_imports_the_http_library() -> None:
    users = [p for p in HOUSE.rglob("*.py") if {"httpx2", "httpcore2"} & set(imports(p))]
    assert {p.parent.relative_to(HOUSE).as_posix() for p in users} <= {"foundation/net"}


def test_the_http_library_is_imported_lazily() -> None:
    """It costs 30 ms and 6 MB, and our own requests do not need it."""
    library = re.compile(r"(?:httpx2|httpcore2)$|elwood\.foundation\.net\.library_client$")
    eager = {
        path.relative_to(HOUSE).as_posix()
        for path in HOUSE.rglob("*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.Import | ast.ImportFrom) and any(map(library.match, imported(node)))
    }
    assert eager == {"foundation/net/library_client.py"}


def test_the_service_does_not_import_the_terminal_library() -> None:
    """They cost 13 MB and 0.2 s; a terminal client imports the screen itself."""
    here = "features/console"
    users = [p for p in HOUSE.rglob("*.py") if any(map(DRAWS.match, imports(p)))]
    drawing = {
        f"{here}/{name}.py" for name in ("asking", "drawing", "editing", "live", "screen", "view")
    }
    assert {path.relative_to(HOUSE).as_posix() for path in users} == drawing


def test_the_runtime_imports_only_trio() -> None:
    for path in (HOUSE / "foundation/runtime").rglob("*.py"):
        for module in imports(path):
            assert module.split(".")[0] not in {"httpx2", "logging", "subprocess"}
            assert not module.startswith("elwood.") or "foundation.runtime" in module


# Uses of a tool's name outside its own folder, and their reasons.
NAMES_TOOLS = {
    "agent/models/offline.py": "a model, which chooses tools by their names",
    "agent/policy/settings.py": "examples for the operator",
    "features/daily_notes/parts.py": "a chore lists the tools of its model",
    "features/mcp_serve/cli.py": "offers a tool of the same name to other programs",
}


def texts(tree: ast.AST) -> Iterator[str]:
    """Return the strings of a file, without docstrings."""
    said = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in said:
            yield node.value


def test_tool_names_appear_only_where_tools_are_defined() -> None:
    """Other code uses an attribute of the tool, because a copy of its name becomes stale."""
    homes = {tool.name: tool.input.__module__.rpartition(".")[0] for tool in every_tool()}
    found = set()
    for path in HOUSE.rglob("*.py"):
        folder = ".".join(("elwood", *path.relative_to(HOUSE).parts[:-1]))
        for text in texts(ast.parse(path.read_text())):
            # A name of one word is also an ordinary word in other strings.
            names = {text, *re.findall(r"\w+_\w+", text)} & homes.keys()
            if any(homes[name] != folder for name in names):
                found.add(str(path.relative_to(HOUSE)))
    assert found == set(NAMES_TOOLS)


def test_public_classes_have_distinct_names() -> None:
    names = Counter(
        node.name
        for path in HOUSE.rglob("*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert [name for name, count in names.items() if count > 1] == []


# Files with these names, and the folders below, may use the clock, disk, network, Trio or
# randomness; every other file contains only decisions.
EDGES = {
    "actor", "attached", "check", "cli", "client", "commands", "extension", "feature", "intake",
    "messages", "outbox", "parts", "settings", "store", "tools",
}  # fmt: skip
EFFECTS = (
    "foundation/runtime", "foundation/storage", "foundation/net", "foundation/sandbox", "app",
)  # fmt: skip
# The other files that may, and why. The list only becomes shorter.
MORE = {
    "__main__.py": "prints the help, and starts the rest",
    "agent/models/embeddings.py": "calls the services and the actor",
    "agent/models/offline.py": "is a provider",
    "agent/session/commands/actor_commands.py": "runs the commands",
    "agent/session/core.py": "contains the disk, clock and mailboxes",
    "agent/session/live.py": "stores the list of sessions in memory",
    "agent/session/delivery.py": "sends the replies",
    "agent/session/log/session_log.py": "writes the log",
    "agent/session/reading/verify.py": "reads the journals, for a command",
    "agent/session/turn/approval_client.py": "asks approvals",
    "agent/session/turn/compaction.py": "asks the models actor",
    "agent/session/turn/gate.py": "runs the tools",
    "agent/session/turn/prompt.py": "rereads the documents after a while",
    "agent/session/turn/runner.py": "runs the turns",
    "agent/session/turn/running.py": "limits the time of a tool",
    "agent/session/turn/turn.py": "asks the models actor",
    "agent/tools/talk.py": "sends messages",
    "agent/tools/tool.py": "defines async functions",
    "features/backup/restore.py": "unpacks, and moves folders",
    "features/console/editing.py": "stores the history, and completes file names",
    "features/console/screen.py": "controls the terminal",
    "features/files/search_tools.py": "defines two tools",
    "features/telegram/poll.py": "gets updates from Telegram",
    "foundation/command_line.py": "prints, and runs the pager",
    "foundation/checks.py": "asks services for the doctor",
    "foundation/environment.py": "provides clock, randomness and threads",
    "foundation/log.py": "writes to stderr",
}
IMPURE = {
    "os", "random", "secrets", "shutil", "socket", "sqlite3", "subprocess", "tempfile", "time",
    "trio",
}  # fmt: skip


def test_only_edge_files_have_effects() -> None:
    found = {
        name
        for path in HOUSE.rglob("*.py")
        if not (name := path.relative_to(HOUSE).as_posix()).startswith(EFFECTS)
        and path.stem not in EDGES
        and {module.split(".")[0] for module in imports(path)} & IMPURE
    }
    assert not found - MORE.keys(), "only edge files, named as in EDGES, may have effects"


def test_all_output_goes_through_the_printer() -> None:
    """A new command prints, and no control character for the terminal gets through."""
    ways = re.compile(
        r"\.buffer\b|__std(out|err)__|write_fd\(|/dev/tty|os\.write\([12],|open\([12],"
    )
    found = {
        p.relative_to(HOUSE).as_posix() for p in HOUSE.rglob("*.py") if ways.search(p.read_text())
    }
    assert found == {
        "foundation/command_line.py",  # has the printer
        "agent/media/extract.py",  # is a separate process, whose output we read
        "features/console/asking.py",  # draws one question, without control characters
        "features/console/live.py",  # the same for one answer
        "features/console/screen.py",  # draws on the terminal, without control characters
        "foundation/sandbox/launcher.py",  # is a separate process, whose output we read
    }
