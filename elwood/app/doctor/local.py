"""Looks at this machine: files and their modes, disk, kernel, journals; changes nothing."""

import fcntl
import os
import shlex
import stat
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

from elwood.agent.models.prices import PRICES
from elwood.agent.session.reading.cli import described, journals_in
from elwood.agent.session.turn.workspace import default_documents
from elwood.app.config.settings import Config
from elwood.app.doctor.findings import Finding, Level
from elwood.app.doctor.services import used_models
from elwood.foundation.storage.confined import Unconfined, open_beneath
from elwood.foundation.storage.files import can_be_marked
from elwood.foundation.storage.journal import Damage, verify

# Bytes and inodes: below the first we warn, below the second nothing can be promised.
ENOUGH_SPACE, LEAST_SPACE = 1 << 30, 100 << 20
ENOUGH_INODES, LEAST_INODES = 10_000, 1_000
# Bytes of journals that are verified here; `elwood receipts verify` takes all.
QUICK = 64 << 20
LOOPBACK = ("127.0.0.1", "::1", "localhost")


def examine_machine(config: Config) -> list[Finding]:
    """Look at everything that needs no network; blocks for a second or two at most."""
    looks: tuple[Callable[[Config], Iterator[Finding]], ...] = (
        configuration,
        credentials,
        prices,
        folders,
        space,
        kernel,
        documents,
        process,
        records,
    )
    return [finding for look in looks for finding in look(config)]


def configuration(config: Config) -> Iterator[Finding]:
    """Judge the file itself: who may read and change it."""
    mode = stat.S_IMODE(config.file.stat().st_mode)
    command = f"run: chmod 600 {shlex.quote(str(config.file))}"
    if mode & 0o022:
        what = f"{config.file} can be changed by others (mode {mode:04o})"
        yield Finding("problem", "configuration", what, command)
    elif config.inline and mode & 0o077:
        what = (
            f"{config.file} can be read by others (mode {mode:04o}) and holds "
            f"{', '.join(config.inline)}"
        )
        yield Finding("problem", "configuration", what, command)
    else:
        yield Finding("ok", "configuration", f"{config.file} is valid")


def credentials(config: Config) -> Iterator[Finding]:
    """Tell which secrets are missing for what is in use."""
    for name in used_models(config):
        provider = config.providers[name]
        is_local = urlsplit(provider.base_url).hostname in LOOPBACK
        if provider.key is not None:
            yield Finding("ok", "credentials", f"{name}-key is there")
        elif provider.api != "offline" and not is_local:
            remedy = (
                f"put it into the credential {name}-key, into "
                f"${name.upper().replace('-', '_')}_API_KEY, or name a file that has it in "
                f"providers.{name}.key"
            )
            yield Finding("problem", "credentials", f"there is no key for {name}", remedy)
    telegram = config.telegram
    if telegram.token is None:
        yield Finding("ok", "credentials", "there is no telegram-token: that channel is off")
        return
    yield Finding("ok", "credentials", "telegram-token is there")
    if not telegram.owners:
        remedy = "write your id into telegram.owners, or pair yourself: elwood pair CODE"
        yield Finding("warning", "telegram", "it has no owner", remedy)


def prices(config: Config) -> Iterator[Finding]:
    """Tell when a limit in dollars cannot hold, since nobody knows what a model costs."""
    if config.limits.session_usd is None and config.limits.day_usd is None:
        return
    for provider, models in used_models(config).items():
        for model in models:
            if f"{provider}/{model}" not in PRICES:
                what = f"what {provider}/{model} costs is not known: it counts as free"
                remedy = "write limits.session_tokens or limits.day_tokens too"
                yield Finding("warning", "limits", what, remedy)


def folders(config: Config) -> Iterator[Finding]:
    """Judge the state folder: it holds every conversation."""
    path = config.paths.state
    quoted = shlex.quote(str(path))
    try:
        status = path.stat()
    except FileNotFoundError:
        yield Finding("warning", "state", f"{path} does not exist yet", "run: elwood init")
        return
    except OSError as error:
        what = f"{path} cannot be looked at: {error.strerror}"
        yield Finding("problem", "state", what, "run this as the user of Elwood")
        return
    mode = stat.S_IMODE(status.st_mode)
    if not stat.S_ISDIR(status.st_mode):
        yield Finding("problem", "state", f"{path} is not a folder", "correct paths.state")
    elif status.st_uid != os.geteuid():
        what = f"{path} belongs to user {status.st_uid}, and you are {os.geteuid()}"
        yield Finding("problem", "state", what, "run this as the user of Elwood")
    elif mode & 0o077:
        what = f"{path} is open to others (mode {mode:04o})"
        yield Finding("problem", "state", what, f"run: chmod 700 {quoted}")
    elif not os.access(path, os.W_OK | os.X_OK):
        what = f"{path} cannot be written to"
        yield Finding("problem", "state", what, "mount it writable, and check its mode")
    else:
        yield Finding("ok", "state", f"{path} is ours alone")


def space(config: Config) -> Iterator[Finding]:
    """Measure what is left for us on the disk."""
    path = next(p for p in (config.paths.state, *config.paths.state.parents) if p.exists())
    disk = os.statvfs(path)
    free = disk.f_bavail * disk.f_frsize
    level = _enough(free, ENOUGH_SPACE, LEAST_SPACE)
    size = f"{free >> 30} GiB" if level == "ok" else f"{free >> 20} MiB"
    remedy = "" if level == "ok" else f"make room on the disk of {path}"
    yield Finding(level, "disk", f"{size} are free", remedy)
    if disk.f_files:  # some file systems make inodes as needed and say that there are none
        level = _enough(disk.f_favail, ENOUGH_INODES, LEAST_INODES)
        remedy = "" if level == "ok" else f"remove files from the disk of {path}"
        yield Finding(level, "disk", f"{disk.f_favail} more files can be made", remedy)


def _enough(left: int, enough: int, least: int) -> Level:
    if left < least:
        return "problem"
    return "ok" if left >= enough else "warning"


def kernel(config: Config) -> Iterator[Finding]:
    """Try the system call that confines file tools to the workspace."""
    root = os.open("/", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.close(open_beneath(root, ".", os.O_RDONLY | os.O_DIRECTORY))
    except Unconfined as error:
        what = f"file tools are off: {error}"
        yield Finding("problem", "kernel", what, "update the kernel, or allow openat2 in seccomp")
    else:
        yield Finding("ok", "kernel", f"Linux {os.uname().release} has openat2")
    finally:
        os.close(root)


def documents(config: Config) -> Iterator[Finding]:
    """Look for the documents of the workspace."""
    folder = config.paths.workspace
    if not folder.is_dir():
        yield Finding("warning", "workspace", f"there is no folder {folder}", "run: elwood init")
        return
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if not can_be_marked(fd):
            what = f"{folder} keeps no extended attributes, so what strangers' words lead to is not"
            remedy = "put it on ext4, XFS, Btrfs or ZFS"
            yield Finding("warning", "workspace", f"{what} written there", remedy)
    finally:
        os.close(fd)
    try:
        shipped = sorted(path.name for path in default_documents().glob("*.md"))
    except FileNotFoundError as error:
        yield Finding("problem", "workspace", str(error), "install Elwood anew")
        return
    missing = [name for name in shipped if not (folder / name).is_file()]
    if missing:
        what = f"{', '.join(missing)} not found in {folder}"
        yield Finding("warning", "workspace", what, "run: elwood init")
    else:
        yield Finding("ok", "workspace", f"the documents are in {folder}")


def process(config: Config) -> Iterator[Finding]:
    """Tell whether a process holds the state folder (`store.lock`)."""
    try:
        descriptor = os.open(config.paths.state / "lock", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        yield Finding("ok", "process", "Elwood has not run here yet")
        return
    try:
        # A shared lock, for an instant: two doctors do not disturb one another.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        pid = os.read(descriptor, 20).decode("ascii", "replace").strip() or "unknown"
        yield Finding("ok", "process", f"Elwood is running (process {pid})")
    else:
        yield Finding("ok", "process", "Elwood is not running")
    finally:
        os.close(descriptor)


def records(config: Config) -> Iterator[Finding]:
    """Verify the journals, as many as can be read quickly, the last written first."""
    if not config.paths.state.is_dir():
        return
    try:
        found = sorted(
            ((path.stat().st_mtime, path) for path in journals_in([config.paths.state])),
            reverse=True,
        )
    except OSError as error:
        what = f"{error.filename} cannot be looked at: {error.strerror}"
        yield Finding("problem", "journals", what, "run this as the user of Elwood")
        return
    left, sound, unread = QUICK, 0, 0
    for _, path in found:
        size = path.stat().st_size
        if size > left:
            unread += 1
            continue
        left -= size
        try:
            result = verify(path)
        except OSError as error:
            what = f"{path} cannot be read: {error.strerror}"
            yield Finding("problem", "journals", what, "run this as the user of Elwood")
            continue
        if isinstance(result, Damage):
            remedy = "restore it from a backup, or move it away to begin anew"
            yield Finding("problem", "journals", f"{path}: {described(result)}", remedy)
        else:
            sound += 1
    if unread:
        what = f"{unread} were not verified: they are large"
        yield Finding("warning", "journals", what, "run: elwood receipts verify")
    if sound or not found:
        yield Finding("ok", "journals", f"{sound} are whole and unchanged")
