import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar, Literal

import attrs

from elwood.foundation.settings import (
    BadSetting,
    Complaint,
    Loaded,
    Paths,
    Section,
    Where,
    at_least,
    is_chat,
    none_or,
    required,
    setting,
)
from elwood.foundation.storage.paths import holds_secrets

MEGABYTE = 1_000_000
# Parent of mounts for commands and file tools; each folder has a name there.
MOUNTS = "/mounts"
# Each mount costs every command a search for secrets.
MAX_MOUNTS = 16


def _is_name(name: str) -> None:
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,31}", name):
        raise BadSetting(
            "is not a valid name of a mount", "use lower-case letters, digits, - and _"
        )


def _is_folder(path: Path) -> None:
    if not os.path.isdir(path):
        raise BadSetting(f"there is no folder {path}", "create it, or write another path")


def _is_backend(name: str) -> None:
    if name not in ("bubblewrap", "landlock", "docker"):
        raise BadSetting("is not a backend", "use bubblewrap, landlock or docker")


@attrs.frozen(kw_only=True)
class FolderMount:
    """A folder outside of the workspace that the owner opens, to conversations in *chats*."""

    path: Path = required(help="the folder", check=_is_folder)
    name: str = required(help="its name", check=_is_name)
    mode: Literal["ro", "rw"] = setting("ro", help="rw: Elwood may also change files")
    untrusted: bool = setting(True, help="false: no stranger has written any of its files")
    chats: tuple[int | str, ...] = setting(
        (),
        help="the only chats that may use it, such as `telegram:123456` (a bare number "
        "is a Telegram chat); none: all",
        check=is_chat,
        names="channel",
    )

    @property
    def place(self) -> str:
        return f"{MOUNTS}/{self.name}"


def _verify(loaded: Loaded) -> Iterator[Complaint]:
    """Report mounts that would expose private folders, and duplicate names."""
    if Paths not in loaded.config.values:
        return
    paths, config = loaded.config.get(Paths), loaded.config.file
    credentials = os.environ.get("CREDENTIALS_DIRECTORY", "")
    kept: list[tuple[str, Path | str]] = [
        ("the state folder", paths.state),
        ("the workspace", paths.workspace),
        ("the folder of the control socket", paths.runtime),
        ("the configuration", config),
        *([("the folder of secrets", credentials)] if credentials else []),
    ]
    home = Path(os.path.realpath(os.path.expanduser("~")))
    names: dict[object, Where] = {}
    for where, _, value in loaded.values:
        if where[:2] != ("sandbox", "mounts") or len(where) != 4:
            continue
        if where[3] == "name" and names.setdefault(value, where) != where:
            yield where, f"two mounts have the name {value}", "rename one of them"
        if where[2] == MAX_MOUNTS and where[3] == "path":
            yield where[:2], f"there are more than {MAX_MOUNTS}", "remove some of them"
        if not isinstance(value, Path):
            continue
        real = Path(os.path.realpath(value))
        if holds_secrets(str(real)):
            yield where, f"a name in {real} is reserved for secrets", "mount another folder"
            continue
        if home.is_relative_to(real):
            yield where, f"it would expose the home folder, {home}", "mount a folder without it"
            continue
        for what, path in kept:
            path = Path(os.path.realpath(path))
            if path.is_relative_to(real):
                yield where, f"it would expose {what}, {path}", "mount a folder without it"
                break
            if real.is_relative_to(path):
                yield where, f"it lies in {what}, {path}", "mount a folder outside it"
                break
        else:  # another mount of it may be for other chats, or read-only
            kept.append(("another mount", real))


@attrs.frozen(kw_only=True)
class SandboxSettings:
    """How commands are confined, and the limits of one command."""

    SECTION: ClassVar = Section(
        "sandbox", "Where commands run. See docs/sandbox.md.", verify=_verify
    )

    kind: Literal["auto", "bubblewrap", "landlock", "docker", "direct", "none"] = setting(
        "auto",
        help="auto: the first backend of `order` that works; direct is never chosen automatically",
    )
    order: tuple[str, ...] = setting(
        ("bubblewrap", "landlock"),
        help='backends that kind = "auto" tries; docker may be one of them',
        check=_is_backend,
    )
    memory: int = setting(1000, help="maximum megabytes of data of one process", check=at_least(16))
    processes: int = setting(
        256, help="maximum number of processes and threads of one command", check=at_least(8)
    )
    file_size: int = setting(1000, help="maximum megabytes of one file", check=at_least(1))
    max_concurrent: int = setting(
        4, help="maximum number of commands that run at the same time", check=at_least(1)
    )
    tmp: int = setting(64, help="maximum megabytes of all temporary files", check=at_least(1))
    bubblewrap: str = setting("bwrap", help="the bubblewrap program: a name on PATH, or a path")
    docker_socket: str = setting(
        "",
        help="socket of a container engine; access to it is equivalent to root; none: the first "
        "usual one that Elwood can use",
    )
    docker_image: str = setting("", help="image of the container")
    docker_cpus: float = setting(
        1.0, help="number of processors that a container may use; 0: all", check=none_or(0.01, 1024)
    )
    docker_runtime: str = setting(
        "", help="runtime of the engine, such as runsc; none: the engine's default"
    )
    mounts: tuple[FolderMount, ...] = setting(
        (),
        help="folders outside the workspace that file tools and commands can use, at "
        "`/mounts/NAME`; each is a table `[[sandbox.mounts]]` with `path`, `name`, "
        '`mode` ("ro", or "rw" to allow changes), `untrusted` (false if no '
        "stranger has written its files; default true) and `chats` (the only chats "
        "that may use it; default all)",
    )

    def limits(self) -> dict[str, int]:
        """Return the limits of a process by the names of ``resource.RLIMIT_…``, in bytes.

        RLIMIT_DATA, not RLIMIT_AS: WebAssembly in node reserves far more addresses than it uses.
        """
        return {
            "DATA": self.memory * MEGABYTE,
            "FSIZE": self.file_size * MEGABYTE,
            "NPROC": self.processes,
            "CORE": 0,
        }
