"""Reads one folder of a repository on the web, without ever writing its files down.

Only the objects are fetched, into a bare repository; so no link, hook, filter or submodule of it
ever comes to life.  The address is checked and pinned as in `features/web`.
"""

import os
import re
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from subprocess import DEVNULL

import attrs
import trio

from elwood.features.skills.skill import MAX_BYTES, MAX_FILES, SkillFile
from elwood.foundation.net.egress import (
    Resolve,
    WebFailed,
    destination,
    is_reachable,
    pinned,
    resolved,
)
from elwood.foundation.net.http import Unreachable
from elwood.foundation.net.settings import EgressRules
from elwood.foundation.net.urls import RefusedUrl, Url, parse
from elwood.foundation.sandbox.command import GIT_ENVIRONMENT

# Seconds for a whole repository, and for each look at what was fetched.
DEADLINE, LOOK = 90.0, 20.0
# Bytes of one file that git may write, so of the pack: a newest commit without its history.
MAX_PACK = 64 << 20
# Bytes of what git prints: all files of a skill, and a line for each.
MAX_PRINTED = MAX_BYTES + (1 << 20)
# Memory, in KiB, of each of its processes.
MAX_MEMORY = 2 << 20
# The first version that knows http.curloptResolve, without which no address can be pinned.
OLDEST = (2, 37)

# dash counts in blocks of 512 bytes, bash in 1024: files may have half of it at least.
_BOUNDED = f'ulimit -c 0; ulimit -v {MAX_MEMORY}; ulimit -f {MAX_PACK // 1024}; exec "$@"'
_VERSION = re.compile(rb"git version (\d{1,4})\.(\d{1,4})")
_ENTRY = re.compile(
    rb"(?P<mode>\d{6}) (?P<kind>\w+) (?P<hash>[0-9a-f]{40,64}) +(?P<size>\d+|-)\t(?P<path>.+)", re.S
)


class GitFailed(Exception):
    """The repository was not read; the text says why, in words of ours."""


@attrs.frozen
class Fetched:
    """The *files* of a folder as they are at *commit*."""

    commit: str
    files: tuple[SkillFile, ...] = attrs.field(repr=False)


class Git:
    """Fetches from the web under *rules*.

    *allow* says which addresses may be connected to, *resolve* looks names up; *schemes* are
    those of URLs that are taken.
    """

    def __init__(
        self,
        rules: EgressRules,
        *,
        allow: Callable[[str], bool] = is_reachable,
        resolve: Resolve = resolved,
        schemes: Sequence[str] = ("https",),
    ) -> None:
        self.rules = rules
        self._pinned = pinned(allow, resolve)
        self._schemes = schemes

    def url(self, text: str) -> Url:
        """Read the address of a repository.  Raises GitFailed."""
        url = parse(text, self.rules.ports)
        if isinstance(url, RefusedUrl):
            raise GitFailed(url.why)
        if url.scheme not in self._schemes:
            raise GitFailed(f"only {' and '.join(self._schemes)} addresses are fetched from")
        return url

    async def files(self, text: str, folder: str, scratch: Path) -> Fetched:
        """Fetch the newest commit of the repository *text* into *scratch*; read *folder* of it.

        Raises GitFailed.
        """
        url = self.url(text)
        if destination(self.rules, url.host) == "blocked":
            raise GitFailed(f"the owner has blocked {url.host}")
        try:
            addresses = await self._pinned(url.host, url.port)
        except (WebFailed, Unreachable) as error:
            raise GitFailed(error.why) from error
        _, told = await _git(("version",), scratch, LOOK)
        version = _VERSION.match(told)
        if version is None or (int(version[1]), int(version[2])) < OLDEST:
            raise GitFailed("git {}.{} or newer must be installed".format(*OLDEST))
        code, _ = await _git(clone(url, addresses), scratch, DEADLINE, scheme=url.scheme)
        if code != 0:
            raise GitFailed(
                f"{url.host}: git could not fetch the repository (exit code {code}): "
                "it may not exist, need a login, redirect elsewhere, or be too large"
            )
        return await self._read(folder, scratch)

    async def _read(self, folder: str, scratch: Path) -> Fetched:
        code, commit = await _git(("-C", _REPOSITORY, "rev-parse", "HEAD"), scratch, LOOK)
        tree = f"HEAD:{'' if folder == '.' else folder.strip('/')}"
        listing = ("-C", _REPOSITORY, "ls-tree", "-r", "-l", "-z", "--full-tree", tree)
        listed_code, listed = await _git(listing, scratch, LOOK)
        if code != 0 or listed_code != 0:
            raise GitFailed("the repository is empty, or has no such folder")
        entries = [_ENTRY.fullmatch(one) for one in listed.split(b"\0")[:-1]]
        if len(entries) > MAX_FILES:
            raise GitFailed(f"it has more than {MAX_FILES} files; name the folder of the skill")
        chosen: list[tuple[str, str, int, bool]] = []
        for entry in entries:
            if entry is None or entry["mode"] not in (b"100644", b"100755"):
                raise GitFailed("it has a link or a submodule in it, which is not taken")
            path = entry["path"].decode("utf-8", "surrogateescape")
            is_run = entry["mode"] == b"100755"
            chosen.append((path, entry["hash"].decode(), int(entry["size"]), is_run))
        if sum(size for _, _, size, _ in chosen) > MAX_BYTES:
            raise GitFailed(f"it has more than {MAX_BYTES:,} bytes")
        wanted = "".join(f"{hash}\n" for _, hash, _, _ in chosen).encode()
        batch = ("-C", _REPOSITORY, "cat-file", "--batch")
        _, given = await _git(batch, scratch, LOOK, stdin=wanted)
        files = []
        for path, hash, size, is_run in chosen:
            head = f"{hash} blob {size}\n".encode()
            if not given.startswith(head) or len(given) <= len(head) + size:
                raise GitFailed("the repository is damaged")
            files.append(SkillFile(path, given[len(head) : len(head) + size], is_run))
            given = given[len(head) + size + 1 :]
        return Fetched(commit.decode("ascii", "replace").strip(), tuple(files))


_REPOSITORY = "repository"


def clone(url: Url, addresses: Sequence[str]) -> tuple[str, ...]:
    """Write the command that fetches from *addresses* of *url*, and from nowhere else.

    The transport for it is the only one there is; redirects, proxies, logins, hooks, templates
    and submodules are off.
    """
    host = f"[{url.host}]" if ":" in url.host else url.host
    there = ",".join(f"[{one}]" if ":" in one else one for one in addresses)
    settings = {
        "protocol.allow": "never",
        f"protocol.{url.scheme}.allow": "always",
        "http.followRedirects": "false",
        "http.curloptResolve": f"{host}:{url.port}:{there}",
        "http.proxy": "",
        "http.emptyAuth": "false",
        "credential.helper": "",
        "core.hooksPath": "/dev/null",
        "core.fsmonitor": "false",
        "core.askPass": "",
        "submodule.recurse": "false",
        "fetch.recurseSubmodules": "no",
        "fetch.fsckObjects": "true",
        "gc.auto": "0",
        "init.templateDir": "",
    }
    options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
    return (
        *options, "clone", "--quiet", "--bare", "--depth=1", "--single-branch", "--no-tags",
        "--template=", "--no-recurse-submodules", "--", url.text, _REPOSITORY,
    )  # fmt: skip


def environment(scratch: Path, scheme: str) -> Mapping[str, str]:
    """Make the environment of git: nothing of ours, no home but *scratch*, one transport."""
    least = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(scratch), "LC_ALL": "C"}
    return {**least, **GIT_ENVIRONMENT, "GIT_ALLOW_PROTOCOL": scheme, "GIT_ASKPASS": ""}


async def _git(
    arguments: Sequence[str], scratch: Path, limit: float, *, stdin: bytes = b"", scheme: str = ""
) -> tuple[int, bytes]:
    """Run git in *scratch*, with all that it starts, for *limit* seconds; give status and output.

    What it prints goes into a file, whose size the kernel bounds: a small repository can name
    endlessly many files.
    """
    printed = scratch / "printed"
    try:
        with trio.fail_after(limit), printed.open("wb") as output:
            done = await trio.run_process(
                ["sh", "-c", _BOUNDED, "sh", "git", *arguments],
                stdin=stdin,
                stdout=output,
                stderr=DEVNULL,
                check=False,
                cwd=scratch,
                env=environment(scratch, scheme or "none"),
                start_new_session=True,
                deliver_cancel=_kill,
            )
        with printed.open("rb") as read:
            return done.returncode, read.read(MAX_PRINTED)
    except trio.TooSlowError as error:
        raise GitFailed(f"git needed more than {limit:.0f} s") from error
    except OSError as error:
        raise GitFailed(f"git cannot be started: {error.strerror}") from error


async def _kill(process: trio.Process) -> None:
    """End git and the helpers that it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await trio.lowlevel.checkpoint()
