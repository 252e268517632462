"""The generated pages agree with the code."""

import shlex
import subprocess

import pytest

from elwood.app.cli import make_parser
from tests.app.reference_pages import ROOT, pages
from tests.app.shell_pages import COMPLETIONS, EXAMPLES

PAGES = pages()


@pytest.mark.parametrize("path", PAGES)
def test_the_page_equals_what_the_code_generates(path: str) -> None:
    assert (ROOT / path).read_text() == PAGES[path], "run: python -m tests.app.reference_pages"


@pytest.mark.parametrize("typed", EXAMPLES)
def test_the_examples_of_the_man_page_can_be_typed(typed: str) -> None:
    for command in typed.split("; "):
        make_parser().parse_args(shlex.split(command)[1:])


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("se", ["search", "session"]),
        ("session export --f", ["--format"]),
        ("session export --format ", ["md", "html"]),
        ("--config /etc/passw", ["/etc/passwd"]),
        ("--config x receipts ver", ["verify"]),
    ],
)
def test_bash_completes(typed: str, offered: list[str]) -> None:
    words = ["elwood", *typed.split(" ")]
    script = (
        f"source {ROOT / COMPLETIONS['bash']}; COMP_WORDS=({shlex.join(words)}); "
        f"COMP_CWORD={len(words) - 1}; _shtab_elwood elwood {shlex.join([words[-1], words[-2]])}; "
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60)
    assert set(offered) <= set(done.stdout.split()), done.stderr
