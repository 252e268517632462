"""Archives that are damaged or forged change nothing."""

import gzip
import hashlib
import io
import os
import tarfile
import zlib
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from elwood.features.backup.restore import restore
from elwood.features.backup.rules import VERSION, BackupFailed, Manifest, Member
from elwood.features.backup.store import Scope, take
from tests.features.backup.keeping import NOW, Clock, contents, furnish, is_kept, scope


def attempt(there: Scope, archive: Path) -> str:
    """Restore *archive*; return the refusal, after checking that nothing changed."""
    before = contents(there.state, is_kept), contents(there.workspace)
    with pytest.raises(BackupFailed) as refused:
        restore(there, archive, clock=lambda: NOW + 60)
    assert (contents(there.state, is_kept), contents(there.workspace)) == before
    assert not list(there.state.glob("restor*"))
    assert not list(there.workspace.parent.glob(".workspace.*"))
    return str(refused.value)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    here = scope(tmp_path_factory.mktemp("sound"))
    furnish(here)
    (here.workspace / "noise").write_bytes(os.urandom(2000))
    return take(here, clock=Clock(), keep=1).path


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Scope:
    one = scope(tmp_path_factory.mktemp("there"))
    furnish(one, "what is here")
    one.folder.mkdir()
    return one


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_a_flipped_bit_is_detected(sound: Path, there: Scope, data: st.DataObject) -> None:
    content = bytearray(sound.read_bytes())
    # After the header of the packed file, whose time and name are not read.
    at = data.draw(st.integers(10, len(content) - 1))
    content[at] ^= 1 << data.draw(st.integers(0, 7))
    with suppress(OSError, EOFError, zlib.error):
        # A few bits at the end of the packed data only fill a byte.
        assume(gzip.decompress(content) != gzip.decompress(sound.read_bytes()))
    broken = there.folder / "broken.tar.gz"
    broken.write_bytes(content)
    attempt(there, broken)


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_a_missing_end_is_detected(sound: Path, there: Scope, data: st.DataObject) -> None:
    content = sound.read_bytes()
    broken = there.folder / "broken.tar.gz"
    broken.write_bytes(content[: data.draw(st.integers(0, len(content) - 1))])
    attempt(there, broken)


def member(name: str, type_: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode = type_, link, 0o700
    return info


def made(folder: Path, extra: list[tarfile.TarInfo], version: int = VERSION) -> Path:
    """Build an archive of a state folder with a file, and *extra*, with a matching manifest."""
    path = folder / "made.tar.gz"
    kinds = {tarfile.DIRTYPE: "folder", tarfile.SYMTYPE: "link"}
    members = []
    with tarfile.open(path, "w:gz") as tar:
        for info in (member("state", tarfile.DIRTYPE), member("state/a"), *extra):
            kind = kinds.get(info.type, "file")
            content = info.linkname.encode() if kind == "link" else b""
            digest = "" if kind == "folder" else hashlib.sha256(content).hexdigest()
            tar.addfile(info)
            members.append(
                msgspec.convert(
                    {"name": info.name, "kind": kind, "mode": info.mode, "sha256": digest}, Member
                )
            )
        manifest = Manifest(version=version, elwood="x", at=NOW, members=tuple(members))
        text = msgspec.json.encode(manifest)
        info = tarfile.TarInfo("manifest.json")
        info.size = len(text)
        tar.addfile(info, io.BytesIO(text))
    return path


FOLDER, LINK = tarfile.DIRTYPE, tarfile.SYMTYPE
TOP = member("workspace", FOLDER)
EVIL = {
    "an absolute name": [member("/tmp/elwood-evil")],
    "a climbing name": [member("state/../../evil")],
    "another top": [member("etc", FOLDER), member("etc/passwd")],
    "no folder above it": [member("workspace/a")],
    "a link out": [TOP, member("workspace/l", LINK, "../../up")],
    "an absolute link": [TOP, member("workspace/l", LINK, "/etc")],
    "a link that climbs behind a link": [
        TOP,
        member("workspace/here", LINK, "."),
        member("workspace/l", LINK, "here/../x"),
    ],
    "a file behind a link": [TOP, member("workspace/l", LINK, "d"), member("workspace/l/evil")],
    "a file where a link is": [TOP, member("workspace/l", LINK, "d"), member("workspace/l")],
    "a name twice": [member("state/a")],
    "a hard link": [TOP, member("workspace/h", tarfile.LNKTYPE, "state/a")],
    "a fifo": [TOP, member("workspace/f", tarfile.FIFOTYPE)],
    "a device": [TOP, member("workspace/d", tarfile.CHRTYPE)],
    "the lock": [member("state/lock")],
    "the backups": [member("state/backups", FOLDER)],
    "a workspace that is a file": [member("workspace")],
    "a workspace that is a link": [member("workspace", LINK, "state")],
    "too many folders": [member("state/" + "/".join("d" * n), FOLDER) for n in range(1, 99)],
}


@pytest.mark.parametrize("extra", EVIL.values(), ids=list(EVIL))
def test_forged_archives_write_nothing(tmp_path: Path, extra: list[tarfile.TarInfo]) -> None:
    there = scope(tmp_path / "there")
    furnish(there, "what is here")
    before = contents(tmp_path, lambda path: "lock" not in path)
    attempt(there, made(tmp_path, extra))
    (tmp_path / "made.tar.gz").unlink()
    assert contents(tmp_path, lambda path: "lock" not in path) == before


def test_a_valid_archive_is_accepted(tmp_path: Path) -> None:
    """Otherwise those above might be refused for another reason."""
    there = scope(tmp_path / "there")
    furnish(there, "what is here")
    links = [TOP, member("workspace/d", FOLDER), member("workspace/d/l", LINK, "../x")]
    restore(there, made(tmp_path, links), clock=lambda: NOW + 60)
    assert (there.state / "a").read_bytes() == b""
    assert (there.workspace / "d" / "l").readlink() == Path("../x")


def test_another_version_is_refused_with_a_reason(tmp_path: Path) -> None:
    there = scope(tmp_path / "there")
    furnish(there)
    assert "version 2" in attempt(there, made(tmp_path, [], version=2))
    assert "No such file" in attempt(there, tmp_path / "nothing")


def test_a_difference_to_the_manifest_is_refused(tmp_path: Path, sound: Path) -> None:
    there = scope(tmp_path / "there")
    furnish(there)

    def dropped(info: tarfile.TarInfo, data: bytes) -> bytes | None:
        return None if info.name == "state/approvals.jsonl" else data

    def exchanged(info: tarfile.TarInfo, data: bytes) -> bytes | None:
        return b"HELLO" if info.name == "state/memory/note.md" else data

    def unmarked(info: tarfile.TarInfo, data: bytes) -> bytes | None:
        if info.name == "workspace/folder/said.txt":
            info.mode = 0o777
        return data

    for change in (dropped, exchanged, unmarked):
        changed = tmp_path / "changed.tar.gz"
        with tarfile.open(sound) as old, tarfile.open(changed, "w:gz") as new:
            for info in old:
                file = old.extractfile(info) if info.isreg() else None
                data = change(info, file.read() if file else b"")
                if data is not None:
                    new.addfile(info, io.BytesIO(data))
        assert "does not match its manifest.json" in attempt(there, changed)
