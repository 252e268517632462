"""Load secrets from credentials, files, the configuration or the environment, in this order."""

import os
import shlex
import stat
from collections.abc import MutableMapping, Sequence
from pathlib import Path

from elwood.foundation.secrets.redaction import Secret

# Bytes of a secret file; the largest key we know has 4 KiB.
LARGEST = 16_384


class SecretUnusable(Exception):
    """A configured secret cannot be used.  The error never contains its value.

    *remedy* is what the operator can do.
    """

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(f"{problem}; {remedy}")
        self.problem = problem
        self.remedy = remedy


def look_up(
    name: str, reference: str | None, variables: Sequence[str], environ: MutableMapping[str, str]
) -> Secret | None:
    """Load the secret *name*; return None if it is not configured.

    The sources, in order: the file *name* in ``$CREDENTIALS_DIRECTORY`` (systemd.exec(5));
    *reference*, which is ``file:`` and a path, or the secret itself; the first of *variables* that
    is set.  All *variables* are always removed from *environ*, so that no child process gets them.

    Raises SecretUnusable if the first source that has the secret is invalid.
    """
    values = {one: environ.pop(one, "") for one in variables}
    directory = environ.get("CREDENTIALS_DIRECTORY")
    if directory:
        path = Path(directory, name)
        if path.exists():
            # Skip the permission check: systemd may grant access by an ACL, which the mode bits
            # show as access for the group.
            return _make_secret(_read(path, private=False), f"the credential {path}")
    if reference is not None and reference.startswith("file:"):
        path = Path(reference.removeprefix("file:")).expanduser()
        return _make_secret(read_private(path), f"the file {path}")
    if reference is not None:
        return _make_secret(reference, "the value")
    for variable, text in values.items():
        if text:
            return _make_secret(text, f"the variable {variable}")
    return None


def read_private(path: Path) -> str:
    """Read a file that only its owner may read or change.  Raises SecretUnusable."""
    return _read(path, private=True)


def _read(path: Path, *, private: bool) -> str:
    if not path.is_absolute():
        raise SecretUnusable(f"file:{path} is not an absolute path", "begin it with /")
    try:
        # Do not block on a named pipe, which is refused below.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise SecretUnusable(
                    f"{path} is not a regular file", "put the secret in a regular file"
                )
            mode = stat.S_IMODE(status.st_mode)
            if private and mode & 0o077:
                raise SecretUnusable(
                    f"{path} can be read or changed by other users (mode {mode:04o})",
                    f"run: chmod 600 {shlex.quote(str(path))}",
                )
            content = os.read(descriptor, LARGEST + 1)
        finally:
            os.close(descriptor)
    except FileNotFoundError:
        raise SecretUnusable(f"{path} does not exist", "create it, or correct the path") from None
    except OSError as error:
        raise SecretUnusable(
            f"{path} cannot be read: {error.strerror}",
            "make it readable for the user that runs Elwood",
        ) from error
    if len(content) > LARGEST:
        raise SecretUnusable(f"{path} is larger than {LARGEST} bytes", "keep only the secret in it")
    try:
        return content.decode()
    except UnicodeDecodeError:
        # `from None`: the error contains the bytes.
        raise SecretUnusable(f"{path} is not UTF-8 text", "write the secret as text") from None


def _make_secret(text: str, place: str) -> Secret:
    """Check *text* and return it as a Secret, without the line break that editors append."""
    value = text.removesuffix("\n").removesuffix("\r")
    if not value:
        raise SecretUnusable(f"{place} is empty", "write the secret to it")
    if not value.isprintable() or value != value.strip():
        # It is sent in an HTTP header, and an error of the HTTP library would contain it.
        raise SecretUnusable(
            f"{place} begins or ends with a space, or contains a line break or a control character",
            "write only the secret, in one line",
        )
    return Secret(value)
