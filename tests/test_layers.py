"""The order of the house, read from the import statements: docs/architecture.md draws it."""

import ast
from collections.abc import Iterator
from pathlib import Path

import elwood

HOUSE = Path(elwood.__file__).parent
# Each imports from those before it only; features never import one another.
ORDER = [
    "foundation/runtime", "foundation/text", "foundation/secrets", "foundation/settings",
    "foundation/command_line", "foundation/storage", "foundation/net", "foundation/sandbox",
    "foundation/log",
    "foundation/environment", "foundation/checks",
    "agent/conversation", "agent/models", "agent/channels", "agent/policy", "agent/tools",
    "agent/approvals", "agent/session", "agent/feature", "features", "app",
]  # fmt: skip
# Imports against the order that are left of the first house.  It only goes down.
LEFT = 11


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield node.module or ""


def room(module: str) -> tuple[int, str]:
    """Say on which step *module* stands, and in which folder."""
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


def test_imports_go_downstairs_only() -> None:
    bad = list(against_the_order())
    assert len(bad) <= LEFT, "\n".join(bad)


def test_the_http_library_is_imported_in_one_folder() -> None:
    users = [p for p in HOUSE.rglob("*.py") if {"httpx2", "httpcore2"} & set(imports(p))]
    assert {p.parent.relative_to(HOUSE).as_posix() for p in users} <= {"foundation/net"}


def test_the_runtime_knows_only_trio() -> None:
    for path in (HOUSE / "foundation/runtime").rglob("*.py"):
        for module in imports(path):
            assert module.split(".")[0] not in {"httpx2", "cattrs", "logging", "subprocess"}
            assert not module.startswith("elwood.") or "foundation.runtime" in module
