"""Spellings of paths, and names of secrets."""

import pytest

from elwood.core.paths import holds_secrets, refusal, shown


@pytest.mark.parametrize(
    ("path", "refused"),
    [
        ("a.txt", False),
        ("../x", False),  # the kernel's work, not ours
        ("/etc/passwd", False),
        ("a" * 255, False),
        ("ü" * 127, False),
        ("x/" * 2047, False),
        ("", True),
        ("a\0", True),
        ("a\n", True),
        ("a\x7f", True),
        ("a\x85b", True),
        ("gnp\u202eexe", True),
        ("\u2066x", True),
        ("\u200fx", True),
        ("x\udcff", True),
        ("a" * 256, True),
        ("ü" * 128, True),
        ("x/" * 2048, True),
    ],
)
def test_spelling(path: str, refused: bool) -> None:
    assert (refusal(path) is not None) is refused


@pytest.mark.parametrize(
    ("path", "secret"),
    [
        (".env", True),
        (".env.local", True),
        ("prod.env", True),
        (".ENV", True),
        ("sub/.ssh/known_hosts", True),
        ("ID_RSA", True),
        ("x.pem", True),
        ("server.key", True),
        (".bash_history", True),
        ("auth-profiles.json", True),
        (".env.example", False),
        ("id_rsa.pub", False),
        ("environment.md", False),
        ("monkey.txt", False),
        ("history.txt", False),
        ("pem.txt", False),
        (".git/config", False),
    ],
)
def test_names_of_secrets(path: str, secret: bool) -> None:
    assert holds_secrets(path) is secret


def test_every_name_can_be_shown() -> None:
    for name in ("a\0b", "\x1b[31mred", "\udc80", "a\u2028b", "tab\there"):
        assert shown(name).encode().decode().isprintable()
