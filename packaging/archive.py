"""Archives whose bytes follow from their content alone: sorted names, one time, no owner."""

from __future__ import annotations

import gzip
import io
import tarfile
import time
import zipfile
from pathlib import Path

from project import epoch

# A name in an archive, with its bytes and whether it is a program.
Content = dict[str, tuple[bytes, bool]]


def tree(folder: Path, prefix: str) -> Content:
    """The files below a folder, by their names below ``prefix``."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {f"{prefix}/{path.relative_to(folder).as_posix()}": (path.read_bytes(), False) for path in paths}


def tar_gz(content: Content, folders: bool = False) -> bytes:
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for name in sorted(names_with_folders(content) if folders else content):
            info = tarfile.TarInfo(name)
            info.mtime = epoch()
            data, is_program = content.get(name, (b"", True))
            info.size, info.mode = len(data), 0o755 if is_program else 0o644
            info.type = tarfile.REGTYPE if name in content else tarfile.DIRTYPE
            info.uname = info.gname = "root" if folders else ""
            tar.addfile(info, io.BytesIO(data))
    return gzip.compress(plain.getvalue(), 9, mtime=0)


def names_with_folders(content: Content) -> set[str]:
    """The names of files and of the folders above them: dpkg wants each."""
    found = set(content)
    for name in content:
        parts = name.split("/")
        found.update("/".join(parts[:depth]) for depth in range(1, len(parts)))
    return found


def zipped(content: Content) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name in sorted(content):
            data, is_program = content[name]
            info = zipfile.ZipInfo(name, time.gmtime(epoch())[:6])
            info.create_system = 3
            info.external_attr = (0o100755 if is_program else 0o100644) << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, data)
    return packed.getvalue()


def ar(members: list[tuple[str, bytes]]) -> bytes:
    """The container of a Debian package."""
    packed = b"!<arch>\n"
    for name, data in members:
        packed += f"{name:<16}{epoch():<12}{0:<6}{0:<6}{'100644':<8}{len(data):<10}`\n".encode()
        packed += data + b"\n" * (len(data) % 2)
    return packed


def universal(programs: list[bytes]) -> bytes:
    """One Mach-O file of several, each for one processor: what ``lipo -create`` makes."""
    # The magic, the number of programs; then processor, its kind, offset, size and alignment of each.
    align = 14
    head = 8 + 20 * len(programs)
    packed, entries = b"", b""
    for program in sorted(programs, key=lambda program: int.from_bytes(program[4:8], "little")):
        if program[:4] != b"\xcf\xfa\xed\xfe":
            raise SystemExit("a universal program is made of 64-bit Mach-O files, and this is none")
        offset = -(-(head + len(packed)) // (1 << align)) * (1 << align)
        packed += bytes(offset - head - len(packed)) + program
        kind = [int.from_bytes(program[place : place + 4], "little") for place in (4, 8)]
        entries += b"".join(number.to_bytes(4, "big") for number in [*kind, offset, len(program), align])
    return b"\xca\xfe\xba\xbe" + len(programs).to_bytes(4, "big") + entries + packed
