"""``elwood init``: ask for the settings and write the first files; never overwrite a file."""

import os
import re
import shutil
from argparse import Namespace
from collections.abc import Callable, MutableMapping
from contextlib import redirect_stdout
from pathlib import Path
from zoneinfo import available_timezones

from elwood.agent.session.turn.prompt import default_documents
from elwood.app.config.load import load
from elwood.app.config.template import template
from elwood.app.main import sections
from elwood.foundation.command_line import OK, ask
from elwood.foundation.secrets.redaction import Secret
from elwood.foundation.settings import Answers, Config, Paths
from elwood.foundation.storage.disk import temporary

# Private to their owner: they hold conversations and perhaps secrets.
FOLDER_MODE = 0o700
FILE_MODE = 0o600


def install(config: Path, environ: MutableMapping[str, str]) -> int:
    """Write *config* and its workspace documents; return the exit code."""
    _write_new(config, template().encode(), say=print)
    paths = load(config, environ, secrets=False).get(Paths)
    for folder in (paths.state, paths.workspace):
        folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    copy_documents(paths.workspace, say=print)
    for kind in sections():
        if kind.SECTION.advice:
            print(f"\n{kind.SECTION.advice}")
    print(f"\nNext: add your keys to {config}, then run: elwood doctor")
    return OK


def copy_documents(folder: Path, *, say: Callable[[str], None]) -> None:
    """Copy the shipped documents into *folder*, and *say* the result for each."""
    shipped = default_documents()
    # A sandbox can protect the skill folders only if they exist.
    (folder / ".agents" / "skills").mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    for path in sorted(path for path in shipped.rglob("*") if path.is_file()):
        document = path.relative_to(shipped)
        if path.suffix == ".md" or document.parts[0] == "skills":
            _write_new(folder / document, path.read_bytes(), say=say)


def _write_new(path: Path, content: bytes, *, say: Callable[[str], None]) -> None:
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


# --- the guided way -------------------------------------------------------------------------------


def set_up(path: Path, given: Namespace) -> int:
    """Run the questions at the terminal; write *path* and the other files at the end only."""
    from elwood.agent.models.check import set_up as set_up_models
    from elwood.app.doctor import doctor

    if path.exists():
        print(f"{path} exists already. To answer the questions again, move it away first.\n")
        return install(path, os.environ)
    print("Press Enter to accept the value in [ ] or to skip a step. Nothing is written until")
    print("the end. Press Ctrl-C to quit without changes.")
    path, answers = path.absolute(), Answers()
    try:
        config = load(Path(os.devnull), dict(os.environ))
        for step in (set_up_models, *(one.set_up for one in given.features), _ask_time_zone):
            answers |= step(config) if step is not None else {}
        written = _write_all(path, answers)
    except BaseException:  # Ctrl-C too; re-raised
        print("\nNothing was written.")
        raise
    with redirect_stdout(None):
        install(path, os.environ)
    print("\nWritten:", *written, sep="\n  ", end="\n\n")
    doctor(Config.from_values(file=path), given)
    print("\nNext: `elwood chat` starts a conversation here. `elwood run` is the service for")
    print("Telegram. To keep it running with systemd or NixOS, see docs/start/install.md.")
    return OK


def _ask_time_zone(config: Config) -> Answers:
    pattern = "|".join(map(re.escape, available_timezones()))
    form = "Write a time zone as Continent/City, such as Europe/Berlin."
    return {("owner", "timezone"): ask("\nYour time zone?", find_local_zone(), pattern, form)}


def find_local_zone() -> str:
    """Return the name of this machine's time zone; "UTC" if it is unknown."""
    here = os.path.realpath("/etc/localtime").partition("/zoneinfo/")[2]
    guesses, zones = (os.environ.get("TZ", "").lstrip(":"), here), available_timezones()
    return next((one for one in guesses if one in zones), "UTC")


def _write_all(path: Path, answers: Answers) -> list[Path]:
    """Write *path* and a file for each secret: all of them, or none.  Raises ConfigErrors."""
    draft, folder, saved = temporary(path), _unused_path(path.with_name("secrets")), dict(answers)
    written = [path]
    try:
        for at, value in answers.items():
            if isinstance(value, Secret):
                written.append(folder / f"{at[-2]}-{at[-1]}")
                _write_new(written[-1], value.reveal().encode(), say=lambda line: None)
                saved[at] = f"file:{written[-1]}"
        draft.unlink(missing_ok=True)
        _write_new(draft, template(saved).encode(), say=lambda line: None)
        load(draft, dict(os.environ))
    except BaseException:  # re-raised: no secret stays without its configuration
        shutil.rmtree(folder, ignore_errors=True)
        draft.unlink(missing_ok=True)
        raise
    draft.replace(path)
    return written


def _unused_path(path: Path) -> Path:
    """Return a path like *path* that is unused."""
    return _unused_path(path.with_name(f"{path.name}-2")) if os.path.lexists(path) else path
