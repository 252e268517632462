"""Repositories are read from a pinned address, by one transport, and nothing in them runs."""

import os
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import mkdtemp

import attrs
import pytest
import trio

from elwood.features.skills.git_client import Fetched, Git, GitFailed, clone, environment
from elwood.features.skills.skill import MAX_FILES, SkillFile
from elwood.foundation.net.settings import EgressRules
from elwood.foundation.net.urls import Url
from tests.fake_http import Reply, Request, connection, listen, port_of, resolving, whole

SKILL = b"---\nname: pdf\ndescription: Fill forms.\n---\nDo it.\n"


def git(folder: Path, *words: str, stdin: bytes = b"") -> bytes:
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    who = ("-c", "user.name=a", "-c", "user.email=a@e.example", "-c", "init.defaultBranch=main")
    words = ("git", *who, *words)
    done = subprocess.run(words, cwd=folder, env=environ, input=stdin, capture_output=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "served"
    folder.mkdir()
    git(folder, "init", "--quiet")
    (folder / "SKILL.md").write_bytes(SKILL)
    (folder / "scripts").mkdir()
    (folder / "scripts/a.sh").write_bytes(b"#!/bin/sh\n")
    (folder / "scripts/a.sh").chmod(0o755)
    (folder / "more/x y").mkdir(parents=True)
    (folder / "more/x y/ü.md").write_bytes(b"\0\xff\n")
    commit(folder)
    return folder


def commit(folder: Path) -> str:
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "x")
    return git(folder, "rev-parse", "HEAD").decode().strip()


@attrs.frozen
class Served:
    """A server of one repository by git's smart protocol, and a client that may connect to it."""

    port: int

    async def files(self, folder: str, scratch: Path, path: str = "/x.git") -> Fetched:
        """Fetch from a name that no other resolver knows: git connects to what was checked."""
        git = Git(
            EgressRules(ports=(self.port,)),
            allow="127.0.0.1".__eq__,
            resolve=resolving("127.0.0.1"),
            schemes=("http",),
        )
        return await git.files(f"http://skills.example:{self.port}{path}", folder, scratch)


@asynccontextmanager
async def serving(repository: Path) -> AsyncIterator[Served]:
    async def respond(request: Request) -> Reply:
        await trio.lowlevel.checkpoint()
        if not request.path.startswith("/x.git/"):
            return Reply(status=404, is_chunked=False)
        pack = ("upload-pack", "--stateless-rpc")
        if request.method == "GET":
            told = git(repository, *pack, "--advertise-refs", ".")
            head = b"001e# service=git-upload-pack\n0000"
            return whole(200, head + told, "application/x-git-upload-pack-advertisement")
        found = git(repository, *pack, ".", stdin=request.body)
        return whole(200, found, "application/x-git-upload-pack-result")

    listener = await listen()
    async with trio.open_nursery() as nursery:
        await nursery.start(trio.serve_listeners, connection(respond), [listener])
        yield Served(port_of(listener))
        nursery.cancel_scope.cancel()


async def test_files_come_from_the_checked_address(repository: Path, tmp_path: Path) -> None:
    head = git(repository, "rev-parse", "HEAD").decode().strip()
    async with serving(repository) as served:
        found = await served.files(".", tmp_path)
        inner = await served.files("more/x y", tmp_path / "served")
    assert found.commit == head
    assert set(found.files) == {
        SkillFile("SKILL.md", SKILL),
        SkillFile("scripts/a.sh", b"#!/bin/sh\n", executable=True),
        SkillFile("more/x y/ü.md", b"\0\xff\n"),
    }
    assert inner.files == (SkillFile("ü.md", b"\0\xff\n"),)


async def refusal(served: Served, tmp: Path, path: str = "/x.git", folder: str = ".") -> str:
    with pytest.raises(GitFailed) as told:
        await served.files(folder, Path(mkdtemp(dir=tmp)), path)
    return str(told.value)


async def test_more_than_files_is_refused(repository: Path, tmp_path: Path) -> None:
    link = repository / "link"
    async with serving(repository) as served:
        link.symlink_to("/etc/passwd")
        head = commit(repository)
        assert "a link or a submodule" in await refusal(served, tmp_path)
        link.unlink()
        git(repository, "update-index", "--add", "--cacheinfo", f"160000,{head},module")
        git(repository, "commit", "--quiet", "--message", "x")
        assert "a link or a submodule" in await refusal(served, tmp_path)
        git(repository, "update-index", "--force-remove", "module")
        (repository / "big").write_bytes(b"x" * (5 << 20))
        commit(repository)
        assert "bytes" in await refusal(served, tmp_path)
        for number in range(MAX_FILES):
            (repository / f"f{number}").touch()
        commit(repository)
        assert "files" in await refusal(served, tmp_path)
        assert "no such folder" in await refusal(served, tmp_path, folder="none")
        told = await refusal(served, tmp_path, "/obey-me.git")
        assert "could not fetch" in told
        assert "obey-me" not in told, "nothing is told in the server's words"


async def test_nothing_of_a_repository_runs_or_is_written_as_a_file(
    repository: Path, tmp_path: Path
) -> None:
    mark = tmp_path / "ran"
    (repository / ".gitattributes").write_text("* filter=evil\n")
    (repository / ".gitmodules").write_text(
        f'[submodule "a"]\n\tpath = a\n\turl = ext::sh -c "touch {mark}"\n'
    )
    (repository / "hooks").mkdir()
    (repository / "hooks/post-checkout").write_text(f"#!/bin/sh\ntouch {mark}\n")
    (repository / "hooks/post-checkout").chmod(0o755)
    commit(repository)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    async with serving(repository) as served:
        found = await served.files(".", scratch)
    assert len(found.files) == 6
    assert not mark.exists()
    assert not [path for path in scratch.rglob("*") if path.name in ("SKILL.md", "post-checkout")]


async def test_a_repository_that_names_endlessly_many_files_is_refused(
    repository: Path, tmp_path: Path
) -> None:
    """Ten folders that hold one another ten times over name 10^10 files in a few objects."""
    blob = git(repository, "hash-object", "-w", "--stdin", stdin=b"x").decode().strip()
    entry = f"100644 blob {blob}"
    for _ in range(10):
        lines = "".join(f"{entry}\tn{number}\n" for number in range(10))
        tree = git(repository, "mktree", stdin=lines.encode()).decode().strip()
        entry = f"040000 tree {tree}"
    bomb = git(repository, "commit-tree", "-m", "x", tree).decode().strip()
    git(repository, "update-ref", "HEAD", bomb)
    async with serving(repository) as served:
        told = await refusal(served, tmp_path)
    assert "no such folder" in told or "more than" in told


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://e.example/x", "only https"),
        ("git://e.example/x", "only http and https"),
        ("ssh://e.example/x", "only http and https"),
        ("file:///etc", "only http and https"),
        ("ext::sh -c id", "blank"),
        ("https://user:pass@e.example/x", "user name"),
        ("https://127.0.0.1/x", "public address"),
        ("https://169.254.169.254/x", "public address"),
        ("https://localhost/x", "local network"),
        ("https://e.example:22/x", "port 22"),
        ("https://blocked.example/x", "blocked"),
        ("--upload-pack=id", "not a full URL"),
    ],
)
async def test_other_addresses_are_refused_before_git_starts(
    tmp_path: Path, url: str, why: str
) -> None:
    nowhere = tmp_path / "never-made"
    with pytest.raises(GitFailed, match=why):
        await Git(EgressRules(blocked=("blocked.example",))).files(url, ".", nowhere)


async def test_a_name_that_leads_inside_is_refused(tmp_path: Path) -> None:
    with pytest.raises(GitFailed, match="public address"):
        await Git(EgressRules(), resolve=resolving("127.0.0.1")).files(
            "https://e.example/x", ".", tmp_path
        )


async def test_cancelling_ends_git_and_its_helpers(tmp_path: Path) -> None:
    ended = trio.Event()
    scope = trio.CancelScope()

    async def say_nothing(stream: trio.SocketStream) -> None:
        assert await stream.receive_some()
        scope.cancel()
        # The end of the connection is the end of who held it.
        assert await stream.receive_some() == b""
        ended.set()

    listener = await listen()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, say_nothing, [listener])
        served = Served(port_of(listener))
        with scope:
            await served.files(".", tmp_path)
        assert scope.cancelled_caught
        with trio.fail_after(60):
            await ended.wait()
        nursery.cancel_scope.cancel()


def test_the_command_leaves_git_one_way_only() -> None:
    words = clone(Url("https", "e.example", 443, "/x"), ["192.0.2.1", "2001:db8::1"])
    assert words[-3:] == ("--", "https://e.example/x", "repository")
    for setting in (
        "protocol.allow=never",
        "protocol.https.allow=always",
        "http.followRedirects=false",
        "http.curloptResolve=e.example:443:192.0.2.1,[2001:db8::1]",
        "http.proxy=",
        "credential.helper=",
        "core.hooksPath=/dev/null",
    ):
        assert words[words.index(setting) - 1] == "-c"
    for option in ("--bare", "--depth=1", "--no-recurse-submodules", "--template="):
        assert option in words
    environ = environment(Path("/scratch"), "https")
    assert environ["GIT_ALLOW_PROTOCOL"] == "https"
    assert environ["GIT_CONFIG_GLOBAL"] == "/dev/null"
    assert environ["HOME"] == "/scratch"
    assert not [name for name in environ if "proxy" in name.lower()]
