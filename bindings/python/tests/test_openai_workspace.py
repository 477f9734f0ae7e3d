"""Workspaces of OpenAI's sandboxes: what comes back, what is kept once, and what is refused."""

from __future__ import annotations

import asyncio
import io
import os
import random
import tarfile
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("agents.sandbox")

from agents.sandbox import Manifest
from agents.sandbox.errors import SnapshotPersistError, SnapshotRestoreError
from agents.sandbox.sandboxes.unix_local import UnixLocalSandboxClient
from agents.sandbox.snapshot import SnapshotBase

import turntree
from turntree.openai_agents import TurntreeSnapshot, TurntreeSnapshotSpec


def archive_of(*members: tuple[str, bytes | str | None], form: int = tarfile.PAX_FORMAT, mode: str = "w") -> bytes:
    """An archive of files, of links to where a text leads, and of folders."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode=mode, format=form) as archive:  # type: ignore[call-overload]
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.mtime, info.mode = 1_700_000_000, 0o640
            if content is None:
                info.type, info.mode = tarfile.DIRTYPE, 0o750
            elif isinstance(content, str):
                info.type, info.linkname = tarfile.SYMTYPE, content
            else:
                info.size = len(content)
            archive.addfile(info, io.BytesIO(content) if isinstance(content, bytes) else None)
    return made.getvalue()


def keep(path: Path, archive: bytes, id: str = "s1") -> None:
    asyncio.run(TurntreeSnapshot(id=id, path=path).persist(io.BytesIO(archive)))


def restored(path: Path, id: str = "s1") -> bytes:
    archive: Any = asyncio.run(TurntreeSnapshot(id=id, path=path).restore())
    with archive:
        content: bytes = archive.read()
        return content


ODD = [
    (".", None),
    ("./src", None),
    ("./src/main.py", b"print('hi')\n"),
    ("src/" + "long" * 60 + ".txt", b"x" * 513),
    ("empty", b""),
    ("block", b"b" * 512),
    ("é \n name", b"\0\xff"),
    ("src/link", "main.py"),
    ("src/far", "../" + "a" * 150),
    ("none-below", None),
]


@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
def test_an_archive_comes_back_byte_for_byte(path: Path, form: int) -> None:
    odd = archive_of(*ODD, ("not-text-\udcff", b"1"), form=form)
    keep(path, odd)
    assert restored(path) == odd
    packed = archive_of(*ODD, form=form, mode="w:gz")
    keep(path, packed)
    assert restored(path) == archive_of(*ODD, form=form), "without what compressed it"
    keep(path, archive_of())
    assert restored(path) == archive_of()


def test_a_stream_that_cannot_seek_is_taken(path: Path) -> None:
    archive = archive_of(*ODD)
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb") as read, os.fdopen(writer, "wb") as write:
        write.write(archive)
        write.close()
        asyncio.run(TurntreeSnapshot(id="s1", path=path).persist(read))
    assert restored(path) == archive


def test_what_two_snapshots_share_is_stored_once(path: Path) -> None:
    source = random.Random(1)
    files = [(f"data/{number}", source.randbytes(20_000)) for number in range(50)]
    keep(path, archive_of(*files))
    sizes = []
    for number in range(2):
        with turntree.Store(path) as store:
            store.collect(repack=True)
        # A store keeps a reserve of a fixed size for full disks.
        stored = [file for file in path.rglob("*") if file.name != "reserve"]
        sizes.append(sum(file.stat().st_blocks * 512 for file in stored))
        # Another workspace, and the next snapshot of the same.
        keep(path, archive_of(*files, ("new", b"1")), f"s{number}")
        keep(path, archive_of(*files, ("new", b"2")), f"s{number}")
    assert sizes[1] < sizes[0] + 200_000 < 1_400_000
    with turntree.Store(path) as store:
        assert [one.turn for one in store.log("workspace+s1")] == [3, 2, 1]
        assert store.diff("workspace+s1~1", "workspace+s1") == [("files/new", "changed")]
        assert store["workspace+s1"].get("files", "new") == b"2"


@pytest.mark.parametrize(
    "member",
    [
        ("../out", b""),
        ("/etc/passwd", b""),
        ("a/../../out", b""),
        ("a\\..\\b", b""),
        ("C:/out", b""),
    ],
)
def test_a_name_that_leads_out_is_refused(path: Path, member: tuple[str, bytes]) -> None:
    keep(path, archive_of(("kept", b"1")))
    with pytest.raises(SnapshotPersistError):
        keep(path, archive_of(("fine", b"1"), member))
    assert restored(path) == archive_of(("kept", b"1")), "and nothing has changed"


def test_other_hostile_archives_are_refused(path: Path) -> None:
    device = tarfile.TarInfo("device")
    device.type = tarfile.CHRTYPE
    hard = tarfile.TarInfo("hard")
    hard.type, hard.linkname = tarfile.LNKTYPE, "fine"
    below_link = archive_of(("link", "/etc"), ("link/passwd", b""))
    for bad in (device, hard):
        made = io.BytesIO()
        with tarfile.open(fileobj=made, mode="w") as archive:
            archive.addfile(bad)
        with pytest.raises(SnapshotPersistError):
            keep(path, made.getvalue())
    for bytes_ in (below_link, archive_of(("twice", b"1"), ("twice", b"2")), b"no archive", b""):
        with pytest.raises(SnapshotPersistError):
            keep(path, bytes_)
    assert not asyncio.run(TurntreeSnapshot(id="s1", path=path).restorable())


def test_what_was_never_kept_is_not_there(path: Path) -> None:
    snapshot = TurntreeSnapshotSpec(path=path).build("never")
    assert not asyncio.run(snapshot.restorable()), "nor is a store made for the question"
    assert not path.exists()
    with pytest.raises(SnapshotRestoreError):
        asyncio.run(snapshot.restore())
    assert SnapshotBase.parse(snapshot.model_dump(mode="json")) == snapshot
    with pytest.raises(SnapshotPersistError):
        keep(path / "below" / "a file", b"")


def test_a_sandbox_goes_on_in_its_workspace(path: Path) -> None:
    async def play() -> None:
        client = UnixLocalSandboxClient()
        session = await client.create(snapshot=TurntreeSnapshotSpec(path=path), manifest=Manifest())
        async with session:
            root = Path(session.state.manifest.root)
            (root / "src").mkdir()
            (root / "src" / "run.sh").write_text("echo hi\n")
            (root / "src" / "run.sh").chmod(0o755)
            (root / "link").symlink_to("src/run.sh")
        state = session.state
        await client.delete(session)
        again = await client.resume(state)
        async with again:
            root = Path(again.state.manifest.root)
            assert (root / "link").readlink() == Path("src/run.sh")
            assert (root / "src" / "run.sh").stat().st_mode & 0o777 == 0o755
            assert (root / "link").read_text() == "echo hi\n"
        await client.delete(again)

    asyncio.run(play())
    with turntree.Store(path) as store:
        [name] = store.sessions()
        assert store[name].keys("files") == ["link", "src/run.sh"]
