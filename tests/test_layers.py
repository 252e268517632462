"""The house rules about who may import whom, read from the import statements."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import elwood

HOUSE = Path(elwood.__file__).parent
STEPS = {
    "runtime": 1,
    "core": 1,
    "log": 1,
    "store": 2,
    "wire": 2,
    "sandbox": 2,
    "messages": 3,
    "tools": 4,
    "agent": 5,
    "actors": 6,
    "auditing": 7,
    "backing_up": 8,
    "config": 7,
    "exporting": 7,
    "inspecting": 7,
    "outside": 7,
    "remembering": 8,
    "verifying": 7,
    "showing_sessions": 8,
    "equipment": 8,
    "status": 8,
    "installing": 8,
    "clockwork": 9,
    "conversing": 9,
    "app": 10,
    "doctor": 8,
    "channels": 8,
    "serving": 11,
    "teaching": 8,
    "words": 9,
    "cli": 12,
    "__main__": 13,
}
# Rooms whose modules must not import one another: each stands alone.
LONERS = {"actors"}
CORE_MAY = {
    "__future__", "attrs", "base64", "msgspec", "markdown_it", "cronsim", "bisect", "collections",
    "dataclasses", "datetime", "difflib", "enum", "fnmatch", "functools", "hashlib", "html",
    "ipaddress", "itertools", "json", "math", "re", "string", "textwrap", "types", "typing",
    "unicodedata", "urllib.parse", "zoneinfo",
}  # fmt: skip
RUNTIME_MAY_NOT = {"httpx2", "msgspec", "cattrs", "logging", "sqlite3", "subprocess", "socket"}
FILES = sorted(path for path in HOUSE.rglob("*.py") if path.name != "__init__.py")


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield node.module or ""


def room(module: str) -> str:
    return module.split(".")[1] if "." in module else "elwood"


def room_of(path: Path) -> str:
    return path.relative_to(HOUSE).with_suffix("").parts[0]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(HOUSE)))
def test_imports_go_downstairs_only(path: Path) -> None:
    here = room_of(path)
    for module in imports(path):
        if not module.startswith("elwood.") or room(module) == here:
            continue
        assert STEPS[room(module)] < STEPS[here], f"{path} imports {module}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(HOUSE)))
def test_actors_do_not_import_one_another(path: Path) -> None:
    here = room_of(path)
    if here in LONERS:
        assert not [m for m in imports(path) if m.startswith(f"elwood.{here}")]


@pytest.mark.parametrize("path", sorted((HOUSE / "core").glob("*.py")), ids=lambda p: p.stem)
def test_the_core_touches_no_world(path: Path) -> None:
    for module in imports(path):
        known = module in CORE_MAY or module.split(".")[0] in CORE_MAY
        assert known or module.startswith("elwood.core"), f"{path} imports {module}"
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            assert node.func.attr not in {"now", "today", "utcnow"}, f"{path}:{node.lineno}"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in {"open", "print", "input"}, f"{path}:{node.lineno}"


@pytest.mark.parametrize("path", sorted((HOUSE / "runtime").glob("*.py")), ids=lambda p: p.stem)
def test_the_runtime_knows_only_trio(path: Path) -> None:
    for module in imports(path):
        assert module.split(".")[0] not in RUNTIME_MAY_NOT
        assert not module.startswith("elwood.") or module.startswith("elwood.runtime")


def test_the_http_library_is_imported_in_one_place() -> None:
    users = [p for p in HOUSE.rglob("*.py") if {"httpx2", "httpcore2"} & set(imports(p))]
    assert {p.relative_to(HOUSE).as_posix() for p in users} <= {
        "wire/http.py",
        "wire/connecting.py",
    }


def test_files_stay_under_300_lines() -> None:
    long = {p.name: n for p in HOUSE.rglob("*.py") if (n := len(p.read_text().splitlines())) > 300}
    assert not long
