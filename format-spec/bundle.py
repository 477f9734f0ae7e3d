#!/usr/bin/env python3
"""Opens a turntree bundle of version 1; written from bundle.md and pack.md alone.

    bundle.py FILE            its refs, one a line: id and name
    bundle.py FILE objects    every object: its id, kind and size
    bundle.py FILE cat ID     the bytes of an object
    bundle.py FILE content    those of all blobs, in the order in which turns first have them

It needs what reader.py beside it needs. Everything is verified before anything is printed.
"""

import json
import struct
import sys
from pathlib import Path

from blake3 import blake3

import reader
from reader import BLOCK, COMMIT, GONE, KEYS, KINDS, NODE, PARTS, TAG, Pack, checksum, require

FOOTER = struct.Struct("<8sIIIIIIQQQQ32s32s32s")
REQUIRED = 0


class Bundle(Pack):
    """A bundle; `objects` has the kind and the bytes of each object by its id."""

    def __init__(self, path: Path) -> None:
        self.name, self.data = path.name, path.read_bytes()
        foot = len(self.data) - 192
        require(foot >= 0 and self.data.startswith(b"turntree bundle 1\n"), "no bundle")
        (
            magic, version, count, outside, parts, blocks, zero, front, size, table, zero_too,
            front_sum, table_sum, frames_sum,
        ) = FOOTER.unpack(self.data[foot : foot + 160])  # fmt: skip
        said = magic, version, zero, zero_too
        require(said == (reader.MAGIC % b"E", 1, 0, 0), "another footer")
        frames = front + 34 * outside
        for what, written, data in [
            ("bundle footer", self.data[foot + 160 :], self.data[foot : foot + 160]),
            ("bundle front", front_sum, self.data[:frames]),
            ("pack table", table_sum, self.data[table:foot]),
        ]:
            require(written == checksum(what, data), f"{what} does not verify")
        self.salt = front_sum[:16]
        text = self.data[:front].decode()
        self.manifest = json.loads(text.split("\n", 1)[1])
        printed = json.dumps(self.manifest, indent=2, ensure_ascii=False)
        require(text == f"turntree bundle 1\n{printed}\n\n", "another manifest")
        notes = reader.split(self.data[front:frames], 34)
        self.outside = {note[2:]: (note[0], note[1]) for note in notes}
        require(len(self.outside) == outside == self.manifest["outside"], "ids outside")
        self.blocks, self.parts, places, headers, at = [], [], [], b"", frames
        for holds, entries, base, raw, stored in BLOCK.iter_unpack(self.data[table:foot]):
            kind, number = self.parts if holds == PARTS else places, len(self.blocks)
            fits = base <= number and entries <= 65536 and raw <= min(16 << 20, stored << 16)
            require(fits and holds != GONE, f"block {number} cannot be")
            self.blocks.append((at, holds, len(kind), entries, base, raw, stored))
            kind += [(number, entry) for entry in range(entries)]
            headers += self.data[at + 88 : at + 120]
            at += 120 + stored
        require((len(self.blocks), len(self.parts), len(places)) == (blocks, parts, count), "blocks")
        require(at == table and frames_sum == checksum("pack frames", headers), "other frames")
        # An ordinal that is not known yet is beyond what is read: it stands for nothing.
        self.ids = [None] * count + [note[2:] for note in notes]
        self.places, self.gone, self.objects = {}, {}, {}
        for ordinal, (number, entry) in enumerate(places):
            self.take(ordinal, number, entry)
        require(sum(len(data) for _, data in self.objects.values()) == size, "another size")
        self.check_refs()

    def take(self, ordinal: int, number: int, entry: int) -> None:
        """Reads an object, whose id follows from its bytes."""
        kind = self.blocks[number][1]
        data = self.bytes_of(number, entry)
        id_ = (blake3(data, key=KEYS[kind]) if kind else blake3(data)).digest()
        require(id_ not in self.objects and id_ not in self.outside, f"{id_.hex()} is twice")
        for link, may_be_gone in self.links(kind, data):
            known = link in self.objects or link in self.outside
            why = self.outside.get(link, (None, REQUIRED))[1]
            require(known and (why == REQUIRED or may_be_gone), f"{id_.hex()}: a loose link")
        self.ids[ordinal], self.objects[id_] = id_, (kind, data)

    def bytes_of(self, number: int, entry: int) -> bytes:
        """The bytes of an object, as reader.py puts them together, without a look at its id."""
        original, reader.verified = reader.verified, lambda _id, _kind, data: (_kind, data)
        try:
            self.places = {None: (number, entry)}
            return self.read(None)[1]
        finally:
            reader.verified = original

    def links(self, kind: int, data: bytes) -> list[tuple[bytes, bool]]:
        """What an object names, and whether that may be gone."""
        if kind == COMMIT:
            commit = reader.decode(kind, data)
            return [(commit.tree, True)] + [(id_, True) for id_ in reader.split(commit.parents)]
        if kind == TAG:
            return [(reader.decode(kind, data).target, False)]
        return [(link, False) for link in node_links(data)] if kind == NODE else []

    def check_refs(self) -> None:
        """Refs lead to what they say."""
        needed = {known["commit"] for known in self.manifest["prerequisites"]}
        for name, value in self.manifest["refs"].items():
            kind, _ = self.objects.get(bytes.fromhex(value["id"]), (COMMIT, b""))
            known = bytes.fromhex(value["id"]) in self.objects or value["id"] in needed
            require(known and KINDS[kind] == value["kind"], f"{name} leads nowhere")


def node_links(data: bytes) -> list[bytes]:
    """The ids in a node or root: those of each run lie in one byte string, its first column."""
    form, *rest = reader.decode(NODE, data)
    runs = [rest[1]] if form in (1, 3) else rest[0]
    return [id_ for run in runs for id_ in reader.split(run[0])]


def main(arguments: list[str]) -> int:
    """Does what the arguments say."""
    try:
        path, what, *rest = [*arguments, "refs"][: max(2, len(arguments))]
        bundle = Bundle(Path(path))
        if what == "refs":
            for name, value in bundle.manifest["refs"].items():
                print(value["id"], name)
        elif what == "objects":
            for id_, (kind, data) in bundle.objects.items():
                print(id_.hex(), KINDS[kind], len(data))
        elif what == "content":
            for kind, data in bundle.objects.values():
                sys.stdout.buffer.write(data if kind == 0 else b"")
        else:
            sys.stdout.buffer.write(bundle.objects[bytes.fromhex(rest[0])][1])
    except reader.DAMAGE as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
