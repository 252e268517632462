"""The sources of secrets, and the reasons to refuse one."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from elwood.foundation.secrets.redaction import Secret
from elwood.foundation.secrets.store import LARGEST, SecretUnusable, look_up

Kept = Callable[[str, bytes], Path]


@pytest.fixture
def write_secret(tmp_path: Path) -> Kept:
    def keep(name: str, content: bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(content)
        path.chmod(0o600)
        return path

    return keep


def test_systemd_precedes_references_precede_variables(write_secret: Kept) -> None:
    """The variable is removed in each case."""
    there, nowhere = str(write_secret("api-key", b"from-systemd\n").parent), "/nowhere"
    file = f"file:{write_secret('x', b'from-file')}"
    for folder, reference, found in (
        (there, file, "from-systemd"),
        (nowhere, file, "from-file"),
        (nowhere, "from-config", "from-config"),
        (nowhere, None, "from-environment"),
    ):
        environ = {"CREDENTIALS_DIRECTORY": folder, "API_KEY": "from-environment"}
        assert look_up("api-key", reference, ["API_KEY"], environ) == Secret(found)
        assert environ == {"CREDENTIALS_DIRECTORY": folder}


@pytest.mark.parametrize("environ", [{}, {"API_KEY": ""}, {"CREDENTIALS_DIRECTORY": "/nowhere"}])
def test_a_missing_secret_is_none(environ: dict[str, str]) -> None:
    assert look_up("api-key", None, ["API_KEY"], environ) is None


def test_a_systemd_credential_may_have_any_mode(write_secret: Kept) -> None:
    path = write_secret("api-key", b"from-systemd")
    path.chmod(0o440)
    environ = {"CREDENTIALS_DIRECTORY": str(path.parent)}
    assert look_up("api-key", None, (), environ) == Secret("from-systemd")


@pytest.mark.parametrize(
    ("content", "value"), [(b"a\n", "a"), (b"a\r\n", "a"), (b"a", "a"), (b"a b\n", "a b")]
)
def test_one_final_newline_is_removed(write_secret: Kept, content: bytes, value: str) -> None:
    assert look_up("k", f"file:{write_secret('x', content)}", (), {}) == Secret(value)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o610, 0o666])
def test_a_public_file_is_refused(write_secret: Kept, mode: int) -> None:
    path = write_secret("my key", b"hunter2")
    path.chmod(mode)
    with pytest.raises(SecretUnusable) as caught:
        look_up("k", f"file:{path}", (), {})
    assert caught.value.problem == f"{path} can be read or changed by other users (mode {mode:04o})"
    assert caught.value.remedy == f"run: chmod 600 '{path}'"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "is empty"),
        (b"\n", "is empty"),
        (
            b"hunter2\n\n",
            "begins or ends with a space, or contains a line break or a control character",
        ),
        (
            b"hunter2\nX-Evil: 1",
            "begins or ends with a space, or contains a line break or a control character",
        ),
        (
            b" hunter2",
            "begins or ends with a space, or contains a line break or a control character",
        ),
        (
            b"hunter2\x1b",
            "begins or ends with a space, or contains a line break or a control character",
        ),
        (b"hunter2\xff", "is not UTF-8 text"),
        (b"hunter2" + b"x" * LARGEST, f"is larger than {LARGEST} bytes"),
    ],
)
def test_an_invalid_secret_is_refused_unshown(
    write_secret: Kept, content: bytes, problem: str
) -> None:
    path = write_secret("key", content)
    with pytest.raises(SecretUnusable) as caught:
        look_up("k", f"file:{path}", (), {})
    assert caught.value.problem.removeprefix("the file ") == f"{path} {problem}"
    error: BaseException | None = caught.value
    while error is not None:
        assert "hunter2" not in repr(error)
        error = error.__cause__


def test_a_special_file_is_refused_without_blocking(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, 0o600)
    with pytest.raises(SecretUnusable, match="is not a regular file"):
        look_up("k", f"file:{pipe}", (), {})
    with pytest.raises(SecretUnusable, match="is not a regular file"):
        look_up("k", f"file:{tmp_path}", (), {})


@pytest.mark.parametrize(
    ("reference", "problem"),
    [
        ("file:/nowhere/key", "/nowhere/key does not exist"),
        ("file:key", "file:key is not an absolute path"),
        ("file:/dev/null/key", "/dev/null/key cannot be read: Not a directory"),
        ("", "the value is empty"),
    ],
)
def test_a_missing_file_is_an_error(reference: str, problem: str) -> None:
    with pytest.raises(SecretUnusable) as caught:
        look_up("k", reference, (), {})
    assert caught.value.problem == problem
