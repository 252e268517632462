"""What can be set about the sandbox."""

from typing import ClassVar, Literal

import attrs

from elwood.foundation.settings import Section, at_least, setting

MEGABYTE = 1_000_000


@attrs.frozen(kw_only=True)
class SandboxSettings:
    """How commands are confined, and what one of them may use.

    *memory* is the data of one process, *file_size* of one file, *tmp* of all temporary files, in
    megabytes; *processes* counts threads too.  *bubblewrap* is a name on PATH or a path.  The
    docker rung needs *docker_socket*, which is as good as root, and an image.
    """

    SECTION: ClassVar = Section("sandbox", "Where commands run. See docs/sandbox.md.")

    kind: Literal["auto", "bubblewrap", "landlock", "docker", "direct", "none"] = setting(
        "auto", help="auto takes bubblewrap, else Landlock; docker and direct only if written here"
    )
    memory: int = setting(1000, help="megabytes of data of one process", check=at_least(16))
    processes: int = setting(
        256, help="most processes and threads of one command", check=at_least(8)
    )
    file_size: int = setting(1000, help="megabytes of one file", check=at_least(1))
    tmp: int = setting(64, help="megabytes of all temporary files", check=at_least(1))
    bubblewrap: str = setting("bwrap", help="the program, by its name on PATH or its path")
    docker_socket: str = setting("", help="socket of a container engine; it is as good as root")
    docker_image: str = setting("", help="image of the container")

    def limits(self) -> dict[str, int]:
        """Say what a process may use, by the names of ``resource.RLIMIT_…``, in bytes.

        RLIMIT_DATA, not RLIMIT_AS: WebAssembly in node reserves far more addresses than it uses.
        """
        return {
            "DATA": self.memory * MEGABYTE,
            "FSIZE": self.file_size * MEGABYTE,
            "NPROC": self.processes,
            "CORE": 0,
        }
