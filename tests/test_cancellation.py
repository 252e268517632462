"""Three cancellation mistakes that no other check finds, detected in the source."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import elwood

ROOT = Path(elwood.__file__).parents[1]
SCOPES = {"open_nursery", "CancelScope", "move_on_after", "move_on_at", "fail_after", "fail_at"}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


def called(node: ast.expr) -> str:
    """Return the last part of the called or used name: ``trio.CancelScope(…)`` is CancelScope."""
    target = node.func if isinstance(node, ast.Call) else node
    return target.attr if isinstance(target, ast.Attribute) else getattr(target, "id", "")


def is_shield(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and any(word.arg == "shield" for word in node.keywords)


def within(node: ast.AST) -> Iterator[ast.AST]:
    """Return everything that runs with *node*, without the bodies of its functions."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, FUNCTIONS):
            yield child
            yield from within(child)


def waits(node: ast.AST) -> Iterator[ast.stmt | ast.expr]:
    """Return where *node* can be cancelled; a close finishes immediately when cancelled."""
    if isinstance(node, ast.With) and any(is_shield(item.context_expr) for item in node.items):
        return
    if isinstance(node, ast.Await) and called(node.value) == "aclose":
        return
    if isinstance(node, ast.Await | ast.AsyncWith | ast.AsyncFor):
        yield node
    elif not isinstance(node, FUNCTIONS):
        for child in ast.iter_child_nodes(node):
            yield from waits(child)


def mistakes(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        match node:
            case ast.AsyncFunctionDef(decorator_list=decorators):
                if {called(each) for each in decorators} & {"asynccontextmanager", "fixture"}:
                    continue
                for scope in within(node):
                    if isinstance(scope, ast.With | ast.AsyncWith) and any(
                        called(item.context_expr) in SCOPES for item in scope.items
                    ):
                        for inner in within(scope):
                            if isinstance(inner, ast.Yield):
                                yield inner.lineno, "yields inside a nursery or a cancel scope"
            case ast.Try(finalbody=last):
                for statement in last:
                    for wait in waits(statement):
                        yield wait.lineno, "waits in `finally` without a shield"
            case ast.ExceptHandler(type=kind):
                caught = kind.elts if isinstance(kind, ast.Tuple) else [kind]
                wide = any(e is None or called(e) in {"BaseException", "Cancelled"} for e in caught)
                if wide and not any(isinstance(inner, ast.Raise) for inner in within(node)):
                    yield node.lineno, "swallows the cancellation"


def test_cancellation_is_respected_everywhere() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line} {what}"
        for folder in ("elwood", "tests")
        for path in sorted((ROOT / folder).rglob("*.py"))
        if "async" in (text := path.read_text())
        for line, what in mistakes(ast.parse(text))
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("body", "is_wrong"),
    [
        ("async with trio.open_nursery() as n:\n  yield n", True),
        ("with CancelScope():\n  if a:\n   yield", True),
        ("async with connect() as n:\n  yield n", False),
        ("try:\n  a()\n finally:\n  await b()", True),
        ("try:\n  a()\n finally:\n  await b.aclose()", False),
        ("try:\n  a()\n finally:\n  with trio.CancelScope(shield=True):\n   await b()", False),
        ("try:\n  a()\n except BaseException:\n  b()", True),
        ("try:\n  a()\n except:\n  b()\n  raise", False),
    ],
)
def test_each_mistake_is_detected(body: str, is_wrong: bool) -> None:
    assert bool(list(mistakes(ast.parse(f"async def f():\n {body}")))) == is_wrong
