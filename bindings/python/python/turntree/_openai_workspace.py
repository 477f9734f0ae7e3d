"""Workspaces of OpenAI's sandboxes: archives whose files are kept once, however often they come.

Each workspace is a session of the store, and each archive that differs from the one before a snapshot:

===================== ==== ================================================================
``files``             map  the files and links by their paths, as for every workspace
``workspace-members`` list what else the archive has: for each member the name of its file,
                           a line feed, and the bytes up to its content
===================== ==== ================================================================

What is restored is the archive byte for byte, so names, modes, times and links are as they were.
"""

from __future__ import annotations

import asyncio
import io
import json
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Literal, cast

from agents.sandbox.errors import SnapshotPersistError, SnapshotRestoreError
from agents.sandbox.session.dependencies import Dependencies
from agents.sandbox.snapshot import SnapshotBase, SnapshotSpec
from agents.sandbox.util.tar_utils import safe_tar_member_rel_path, validate_tarfile

from turntree import NotFound, Snapshot, Store, Transaction
from turntree._names import session_name

FILES = "files"
MEMBERS = "workspace-members"

#: Bytes that are copied at once.
PIECE = 1 << 20


class TurntreeSnapshot(SnapshotBase):
    """The newest archive of the workspace ``id``, in the turntree store at ``path``.

    Files that were there before are not stored again, so a snapshot costs what is new in it. Archives
    with names that lead out of the workspace are refused. Every call is durable when it returns."""

    type: Literal["turntree"] = "turntree"
    path: Path

    async def persist(self, data: io.IOBase, *, dependencies: Dependencies | None = None) -> None:
        try:
            await asyncio.to_thread(self._persist, data)
        except Exception as error:
            raise SnapshotPersistError(snapshot_id=self.id, path=self.path, cause=error) from error

    async def restore(self, *, dependencies: Dependencies | None = None) -> io.IOBase:
        try:
            return await asyncio.to_thread(self._restore)
        except Exception as error:
            raise SnapshotRestoreError(snapshot_id=self.id, path=self.path, cause=error) from error

    async def restorable(self, *, dependencies: Dependencies | None = None) -> bool:
        return await asyncio.to_thread(self._is_there)

    def _persist(self, data: io.IOBase) -> None:
        with tempfile.TemporaryFile() as copy, Store(self.path, actor="openai-agents") as store:
            # A stream cannot be read twice, and names are looked at before anything is kept.
            while piece := cast(IO[bytes], data).read(PIECE):
                copy.write(piece)
            copy.seek(0)
            with tarfile.open(fileobj=copy, mode="r:*") as archive:
                validate_tarfile(archive)
                change = store.begin(self._session(), f"workspace {self.id}")
                change.drop_section(FILES)
                change.drop_section(MEMBERS)
                for name, head in _kept(archive, change):
                    change.push(MEMBERS, json.dumps(name).encode() + b"\n" + head)
                change.commit()

    def _restore(self) -> io.IOBase:
        with Store(self.path, create=False) as store:
            snapshot = store.newest(self._session())
            if snapshot is None:
                raise NotFound(f"there is no workspace {self.id}")
            archive = tempfile.TemporaryFile()
            for member in snapshot.list(MEMBERS):
                name, _, head = member.partition(b"\n")
                archive.write(head)
                if (path := json.loads(name)) is not None:
                    archive.write(_file(snapshot, path))
            archive.seek(0)
            return cast(io.IOBase, archive)

    def _is_there(self) -> bool:
        try:
            with Store(self.path, create=False) as store:
                snapshot = store.newest(self._session())
                return snapshot is not None and snapshot.count(MEMBERS) > 0
        except NotFound:
            return False

    def _session(self) -> str:
        return session_name("workspace", self.id)


class TurntreeSnapshotSpec(SnapshotSpec):
    """Makes a ``TurntreeSnapshot`` for each sandbox, all in the turntree store at ``path``."""

    type: Literal["turntree"] = "turntree"
    path: Path

    def build(self, snapshot_id: str) -> SnapshotBase:
        return TurntreeSnapshot(id=snapshot_id, path=self.path)


def _kept(archive: tarfile.TarFile, change: Transaction) -> Iterator[tuple[str | None, bytes]]:
    """Puts the files and links of an archive into a change. Gives what it has beside their content: for
    each member the name of the file that follows, and the bytes from the content before up to that."""
    raw = cast(IO[bytes], archive.fileobj)
    at, taken = 0, set()
    for member in archive.getmembers():
        if member.issparse():
            raise ValueError(f"{member.name!r} is a sparse file, which is not kept")
        raw.seek(at)
        head = raw.read(member.offset_data - at)
        at = member.offset_data
        path = safe_tar_member_rel_path(member, allow_symlinks=True)
        name = None
        if path is not None and not member.isdir():
            # A name need not be text; files that then have one name cannot both be kept.
            name = (
                path.as_posix().encode(errors="surrogateescape").decode(errors="backslashreplace")
            )
            if name in taken:
                raise ValueError(f"{member.name!r} cannot be told from another file")
            taken.add(name)
        if name is not None and member.issym():
            target = member.linkname.encode(errors="surrogateescape")
            change.put_file(name, target, mode="link")
            name = None
        elif name is not None:
            content = raw.read(member.size)
            at += member.size
            mode = "executable" if member.mode & 0o100 else "regular"
            change.put_file(name, content, mode=mode)  # type: ignore[arg-type]
        yield name, head
    raw.seek(at)
    yield None, raw.read()


def _file(snapshot: Snapshot, path: str) -> bytes:
    content = snapshot.get(FILES, path)
    if content is None:
        raise NotFound(f"the workspace has lost {path}")
    return content
