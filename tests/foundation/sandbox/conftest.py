"""The sandbox backends of this machine; the others are skipped with a warning."""

import io
import os
import shutil
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from elwood.foundation.sandbox.command import Executor
from elwood.foundation.sandbox.launched import landlock_version
from tests.foundation.sandbox import scene

LINKS = {"bin": "usr/bin", "lib": "usr/lib", "lib64": "usr/lib64", "sbin": "usr/sbin"}
FOLDERS = ("usr", "proc", "sys", "dev", "tmp", "etc/alternatives", "workspace", "run")


@pytest.fixture
def has_bubblewrap() -> None:
    if why := scene.without_bubblewrap():
        pytest.skip(f"BUBBLEWRAP NOT TESTED: {why}")


@pytest.fixture
def has_landlock() -> None:
    if landlock_version() < 6:
        pytest.skip("LANDLOCK NOT TESTED: the kernel's is older than version 6")


@pytest.fixture(scope="session")
def engine() -> Iterator[str]:
    """Start a private Docker engine with an almost empty image."""
    if shutil.which("dockerd") is None or shutil.which("docker") is None or os.getuid() != 0:
        pytest.skip("DOCKER NOT TESTED: there is no dockerd, or no root to start it")
    folder = Path(tempfile.mkdtemp(prefix="dockerd-"))
    socket = f"unix://{folder}/socket"
    places = {"--data-root": "data", "--exec-root": "exec", "--pidfile": "pid"}
    argv = ["dockerd", "-H", socket, "--bridge=none", "--iptables=false", "--ip-forward=false"]
    for option, name in places.items():
        argv += [option, str(folder / name)]
    with (folder / "log").open("wb") as log:
        daemon = subprocess.Popen(argv, stdout=log, stderr=log)
    try:
        until = time.monotonic() + scene.PATIENCE
        while subprocess.run(["docker", "-H", socket, "version"], capture_output=True).returncode:
            if daemon.poll() is not None or time.monotonic() > until:
                pytest.skip(f"DOCKER NOT TESTED: dockerd does not start here: {_last(folder)}")
            time.sleep(0.1)
        subprocess.run(
            ["docker", "-H", socket, "import", "-", scene.IMAGE],
            input=_image(),
            capture_output=True,
            check=True,
        )
        yield f"{folder}/socket"
    finally:
        daemon.terminate()
        daemon.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _last(folder: Path) -> str:
    return (folder / "log").read_text()[-300:]


def _image() -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for name in FOLDERS:
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(folder)
        for name, target in LINKS.items():
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, target
            archive.addfile(link)
    return made.getvalue()


@pytest.fixture
def home(tmp_path: Path) -> scene.Home:
    if why := scene.without_programs():
        pytest.skip(f"COMMANDS NOT TESTED: {why}")
    return scene.make_home(tmp_path / "house")


@pytest.fixture(params=["bubblewrap", "landlock", "direct", "docker"])
def rung(request: pytest.FixtureRequest) -> tuple[str, str]:
    """Yield each backend in turn, with the socket of its engine."""
    name: str = request.param
    if name == "docker":
        return name, request.getfixturevalue("engine")
    if name != "direct":
        request.getfixturevalue(f"has_{name}")
    return name, ""


@pytest.fixture
async def hands(rung: tuple[str, str], home: scene.Home) -> Executor:
    return await scene.choose_backend(rung[0], home, rung[1])
