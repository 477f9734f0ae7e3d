#!/usr/bin/env python3
"""Opens a turntree bundle of version 1; written from bundle.md, pack.md and
parity.md alone.

    bundle.py FILE            its refs, one a line: id and name
    bundle.py FILE objects    every object: its id, kind and size
    bundle.py FILE cat ID     the bytes of an object
    bundle.py FILE content    those of all blobs, in the order in which turns first have them
    bundle.py FILE operations each operation, and below it what refs held before and after

It needs what reader.py beside it needs. Everything is verified before anything is printed.
"""

import json
import re
import struct
import sys
from collections import namedtuple
from pathlib import Path

import cbor2
from blake3 import blake3

import reader
from reader import BLOCK, COMMIT, GONE, KEYS, KINDS, NODE, PARTS, TAG, Pack, checksum, require

FOOTER = struct.Struct("<8sIIIIIIQQQQ32s32s32s")
REQUIRED = 0
Told = namedtuple("Told", "sequence micros actor reason undoes changes")
BAD_NAME = re.compile(
    r"[\x00-\x20\x7f-\x9f\s~^:?*\[\\]|\.\.|@\{|(^|/)[.-]|\.(lock)?(/|$)|//|/$|^/|^@?$"
)


def without_parity(data: bytes) -> bytes:
    """What lies in front of the parity, as any unit of it says."""
    at = data.rfind(reader.MAGIC % b"R")
    while at >= 0:
        head, rest = data[at : at + 52], data[at + 52 :]
        if len(head) == 52:
            version, shard, content = struct.unpack("<IIQ", head[8:24])
            if version == 1 and rest[:16] == checksum("parity unit", head + rest[16 : 16 + shard])[:16]:
                return data[:content]
        at = data.rfind(reader.MAGIC % b"R", 0, at + 7)
    return data


class Bundle(Pack):
    """A bundle; `objects` has the kind and the bytes of each object by its id."""

    def __init__(self, path: Path) -> None:
        self.name, self.data = path.name, without_parity(path.read_bytes())
        foot = len(self.data) - 192
        require(foot >= 0 and self.data.startswith(b"turntree bundle 1\n"), "no bundle")
        (
            magic, version, count, outside, parts, blocks, told, front, size, table, told_size,
            front_sum, table_sum, frames_sum,
        ) = FOOTER.unpack(self.data[foot : foot + 160])  # fmt: skip
        said = magic, version, told_size <= min(16 << 20, told << 16)
        require(said == (reader.MAGIC % b"E", 1, True), "another footer")
        ids_end = front + 34 * outside
        frames = ids_end + told
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
        notes = reader.split(self.data[front:ids_end], 34)
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
        told = reader.decompress(self.data[ids_end:frames], told_size)
        self.operations = self.read_operations(told, notes)

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


    def read_operations(self, data: bytes, notes: list[bytes]) -> list[Told]:
        """What was done to the refs; every place is that of a commit or tag."""
        abandoned, flat = value = cbor2.loads(data)
        require(cbor2.dumps(value) == data, "operations that are not canonical")
        kinds = [self.objects[id_][0] for id_ in self.objects] + [note[0] for note in notes]
        fresh = reader.split(abandoned, 8)
        require(len(abandoned) % 8 == 0 and len(set(fresh)) == len(fresh), "how no id begins")
        parts = [name.split("/") for name in self.manifest["refs"]]
        self.sessions = {session for _, kind, session, *_ in parts if kind == "heads"}
        ids, kinds = self.ids + fresh, kinds + [COMMIT] * len(fresh)
        sequence = micros = 0
        seen, held, told = len(self.ids), {}, []
        for step, pause, actor, reason, undoes, changes in reader.in_turn(flat, 6):
            sequence += step
            micros = (micros + reader.signed(pause) + (1 << 63)) % (1 << 64) - (1 << 63)
            require(step > 0 and sequence < 1 << 64 and undoes <= sequence, "another number")
            require(isinstance(actor, str) and isinstance(reason, str), "what is no text")
            changed, refs = [], list(reader.in_turn(changes, 3))
            for name, *steps in refs:
                place, places = held.get(name, 0), []
                for distance in steps:
                    place += reader.signed(distance)
                    fits = 0 <= place <= min(seen + 1, len(ids))
                    require(fits and (place == 0 or kinds[place - 1] in (COMMIT, TAG)), "a place")
                    seen, places = max(seen, place), [*places, place]
                held[name] = place
                require(self.own(name), "a ref of somebody else")
                changed.append((name, *(ids[at - 1].hex() if at else None for at in places)))
            names = [name for name, *_ in refs]
            require(refs and names == sorted(set(names), key=str.encode), "names that do not rise")
            undone = sequence - undoes if undoes else None
            told.append(Told(sequence, micros, actor, reason, undone, changed))
        require(seen == len(ids) and len(told) == self.manifest["operations"], "other operations")
        return told

    def own(self, name: str) -> bool:
        """Whether operations may speak of a ref."""
        refs, kind, rest = [*name.split("/", 2), "", ""][:3]
        require(refs == "refs" and kind in ("heads", "tags", "pins"), "another ref")
        fits = not BAD_NAME.search(rest) and len(rest.encode()) <= 255
        return fits and (kind != "heads" or rest.split("/")[0] in self.sessions)


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
        elif what == "operations":
            for told in bundle.operations:
                print(told.sequence, told.micros, told.actor, told.reason, told.undoes, sep="\t")
                for name, old, new in told.changes:
                    print("", name, old, new, sep="\t")
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
