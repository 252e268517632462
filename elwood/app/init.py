"""What ``elwood init`` does: writes the first files, and never over one that is there."""

import os
from collections.abc import Callable, MutableMapping
from pathlib import Path

from elwood.agent.session.turn.prompt import default_documents
from elwood.app.config.load import load
from elwood.app.config.reference import template
from elwood.app.main import sections
from elwood.foundation.command_line import OK
from elwood.foundation.settings import Paths

# Folders and files are for their owner only: they hold conversations and perhaps secrets.
FOLDER_MODE = 0o700
FILE_MODE = 0o600


def install(config: Path, environ: MutableMapping[str, str]) -> int:
    """Write *config* and the workspace documents it asks for; return the exit code."""
    _write(config, template().encode(), say=print)
    paths = load(config, environ, secrets=False).of(Paths)
    for folder in (paths.state, paths.workspace):
        folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    copy_documents(paths.workspace, say=print)
    for kind in sections():
        if kind.SECTION.advice:
            print(f"\n{kind.SECTION.advice}")
    print(f"\nNext: put your keys into {config}, then run: elwood doctor")
    return OK


def copy_documents(folder: Path, *, say: Callable[[str], None]) -> None:
    """Write the documents that we ship into *folder*, and *say* for each what was done."""
    shipped = default_documents()
    # A sandbox can keep commands from writing skills only in folders that are there.
    (folder / ".agents" / "skills").mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    for path in sorted(path for path in shipped.rglob("*") if path.is_file()):
        document = path.relative_to(shipped)
        if path.suffix == ".md" or document.parts[0] == "skills":
            _write(folder / document, path.read_bytes(), say=say)


def _write(path: Path, content: bytes, *, say: Callable[[str], None]) -> None:
    path.parent.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags, FILE_MODE)
    except FileExistsError:
        say(f"kept     {path}")
        return
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    say(f"written  {path}")
