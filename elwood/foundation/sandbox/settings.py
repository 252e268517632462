"""What can be set about the sandbox; free of Trio, for commands that only look."""

from typing import Literal

import attrs

MEGABYTE = 1_000_000


@attrs.frozen(kw_only=True)
class SandboxSettings:
    """How commands are confined, and what one of them may use.

    *memory* is the data of one process, *file_size* of one file, *tmp* of all temporary files, in
    megabytes; *processes* counts threads too.  *bubblewrap* is a name on PATH or a path.  The
    docker rung needs *docker_socket*, which is as good as root, and an image.
    """

    kind: Literal["auto", "bubblewrap", "landlock", "docker", "direct", "none"] = "auto"
    memory: int = 1000
    processes: int = 256
    file_size: int = 1000
    tmp: int = 64
    bubblewrap: str = "bwrap"
    docker_socket: str = ""
    docker_image: str = ""

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
