#!/usr/bin/env python3
"""Reads a turntree store of format version 1; written from the pages beside it alone.

    reader.py STORE refs [N]                   what each ref holds, or held after operation N
    reader.py STORE log [REV]                  first parents: id, turn, time, trigger, message
    reader.py STORE ls REV [SECTION]           the sections of a context, or the entries of one
    reader.py STORE cat REV [SECTION [ENTRY]]  the bytes of an object, a section, an entry
    reader.py STORE objects                    every id: its kind, and its size or why it is gone

REV is a ref, or the first digits of an id; `log` begins at HEAD without one.
An entry is named by its key, or by its place in a list, from 0.
It needs the packages blake3, cbor2 and zstandard.
All that is printed was verified; damage is told on stderr, and then the status is 1.
"""

import fcntl
import struct
import sys
from collections import namedtuple
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import Any

import cbor2
import zstandard
from blake3 import blake3

MAGIC = b"\x89TT%c\r\n\x1a\n"


class Refused(Exception):
    """Bytes that are not as the pages say, or something that is not there."""


# What reading bytes that are not as the pages say can end in.
DAMAGE = Refused, OSError, LookupError, TypeError, ValueError, AttributeError
DAMAGE += struct.error, cbor2.CBORError, zstandard.ZstdError


def require(condition: object, message: str) -> None:
    """Refuses what is at hand unless the condition holds."""
    if not condition:
        raise Refused(message)


def checksum(what: str, data: bytes) -> bytes:
    """The checksum of a part of a file."""
    return blake3(data, derive_key_context=f"turntree v1 {what}").digest()


def decompress(stored: bytes, size: int, base: bytes = b"") -> bytes:
    """What a zstd frame holds, of which the size is known from elsewhere."""
    require(zstandard.frame_content_size(stored) == size, "a frame of another size")
    prefix = zstandard.ZstdCompressionDict(base, zstandard.DICT_TYPE_RAWCONTENT) if base else None
    return zstandard.ZstdDecompressor(prefix).decompress(stored, allow_extra_data=False)


def split(data: bytes, width: int = 32) -> list[bytes]:
    """Ids, or other things of a width, that lie back to back."""
    return [data[at : at + width] for at in range(0, len(data), width)]


# ---- object.md
BLOB, NODE, COMMIT, TAG, OPERATION = range(5)
KINDS = "blob", "node", "commit", "tag", "operation"
KEYS = [checksum(kind, b"") for kind in KINDS]
MOST_BYTES = 2 << 30, 4 << 20, 4 << 20, 4 << 20, 4 << 20
Commit = namedtuple("Commit", "tree parents session turn author time trigger message metadata")
Tag = namedtuple("Tag", "target kind name tagger micros message expires", defaults=[None])
OPERATION_FIELDS = "parents sequence micros actor reason changes undoes"
Operation = namedtuple("Operation", OPERATION_FIELDS, defaults=[None])
STRUCTURES = {(COMMIT, 1): Commit, (TAG, 1): Tag, (TAG, 2): Tag}
STRUCTURES |= {(OPERATION, version): Operation for version in (1, 2)}


def verified(id_: bytes, kind: int, data: bytes) -> tuple[int, bytes]:
    """The kind and the bytes of an object, if they are those that its id stands for."""
    found = blake3(data, key=KEYS[kind]) if kind else blake3(data)
    require(found.digest() == id_, f"{KINDS[kind]} {id_.hex()} does not verify")
    return kind, data


def decode(kind: int, data: bytes) -> Any:
    """What canonical CBOR says; of a node the array, of a structure its fields."""
    value = cbor2.loads(data)
    require(cbor2.dumps(value) == data, "CBOR that is not canonical")
    if kind == NODE:
        return value
    require((kind, value[0]) in STRUCTURES, f"{KINDS[kind]} of version {value[0]}")
    return STRUCTURES[kind, value[0]](*value[1:])


def signed(coded: int) -> int:
    """An integer that may be negative."""
    return coded >> 1 ^ -(coded & 1)


def in_turn(flat: list, width: int) -> Iterator[tuple]:
    """What stands in an array in turn: name, value, name, value, and so on."""
    return zip(*[iter(flat)] * width, strict=True)


# ---- journal.md
RECORD = struct.Struct("<8sII16sQQQ32s")
DIRECTORY_ENTRY = struct.Struct("<32sBBxxII")
INDEX_ENTRY = struct.Struct("<QIIBB6x")
BATCH, INDEX = 1, 2
Place = namedtuple("Place", "offset size stored kind codec")
FIELDS = "at magic type count segment sequence directory payload last"
Record = namedtuple("Record", f"{FIELDS} payload_at trailer_at places operations")


class Segment:
    """One file of the journal; `places` has the objects that count."""

    def __init__(self, path: Path) -> None:
        self.name, self.id, self.data = path.name, bytes.fromhex(path.stem), path.read_bytes()
        self.places, self.gone = {}, {}

    def read(self, id_: bytes, place: Place | None = None) -> tuple[int, bytes]:
        """The kind and the bytes of an object, verified."""
        offset, size, stored, kind, codec = place or self.places[id_]
        require(codec < 2 and size <= min(MOST_BYTES[kind], stored << 16), "no object can be so")
        data = self.data[offset : offset + stored]
        return verified(id_, kind, decompress(data, size) if codec else data)

    def header(self, at: int) -> Record | None:
        """The record at an offset, if its header verifies and it ends in the file."""
        head = self.data[at : at + 120]
        if len(head) < 120 or head[88:] != checksum("record header", head[:88]):
            return None
        found, type_, count, segment, _, directory, payload, _ = fields = RECORD.unpack(head[:88])
        said = MAGIC % b"R", self.id, {BATCH: 44 * count + 32, INDEX: 0}.get(type_)
        payload_at = at + 120 + directory
        trailer_at = (payload_at + payload + 7) // 8 * 8
        fits = (found, segment, directory) == said and trailer_at + 32 <= len(self.data)
        return Record(at, *fields, payload_at, trailer_at, {}, {}) if fits else None

    def read_directory(self, record: Record) -> None:
        """Takes in what is in a batch."""
        offset = record.payload_at
        directory, written = self.data[record.at : offset - 32], self.data[offset - 32 : offset]
        require(written == checksum("batch directory", directory), "a directory does not verify")
        for id_, kind, codec, size, stored in DIRECTORY_ENTRY.iter_unpack(directory[120:]):
            place = record.places[id_] = Place(offset, size, stored, kind, codec)
            offset += stored
            if kind == OPERATION:
                record.operations[id_] = decode(*self.read(id_, place))
        require(offset == record.payload_at + record.payload, "sizes that do not add up")

    def is_whole(self, record: Record) -> bool:
        """Whether the trailer of a record verifies."""
        written = self.data[record.trailer_at :][:32]
        return written == checksum("record trailer", self.data[record.at : record.trailer_at])

    def next_record(self, start: int, after: int) -> Record | None:
        """The good record at an offset, or the first whole one behind it."""
        at, end = start, 0
        while at >= 0:
            record = self.header(at) if at % 8 == 0 else None
            with suppress(*DAMAGE):
                if record and record.sequence > after:
                    end = record.trailer_at + 32 if at == start else end
                    if record.type == BATCH:
                        self.read_directory(record)
                    if at == start or self.is_whole(record):
                        return record
            at = self.data.find(MAGIC % b"R", max(at + 1, end))

    def records(self, damage: list[str]) -> Iterator[Record]:
        """The records that count: each vouches for the one before it, its trailer for the last."""
        at, sequence, trailer, last = 80, 0, bytes(32), None
        while (last is None or last.type == BATCH) and (record := self.next_record(at, sequence)):
            if (record.at, record.last, record.sequence) != (at, trailer, sequence + 1):
                damage.append(f"{self.name}: damaged from {at} to {record.at}, a good record")
            if last:
                yield last
            at, sequence, last = record.trailer_at + 32, record.sequence, record
            trailer = self.data[record.trailer_at : at]
        if last and self.is_whole(last):
            yield last

    def take_batches(self, damage: list[str]) -> list[tuple[Operation, bytes, bool]]:
        """Takes in every batch; returns the operations, and whether a record follows each."""
        operations, records = [], list(self.records(damage))
        for record in records:
            self.places |= record.places
            for id_, operation in record.operations.items():
                operations.append((operation, id_, record is not records[-1]))
        return operations

    def take_index(self, at: int) -> bool:
        """Takes in what the index of a sealed segment lists."""
        record = self.header(at)
        require(record and record.type == INDEX and self.is_whole(record), "no index")
        payload, end = self.data[record.payload_at : record.trailer_at], 1024 + 32 * record.count
        places = map(Place._make, INDEX_ENTRY.iter_unpack(payload[end:]))
        self.places = dict(zip(split(payload[1024:end]), places, strict=True))
        return True


# ---- pack.md
PACK_HEADER = struct.Struct("<8sII16s16sIIII32s32s")
FRAME = struct.Struct("<8s16sIB3sIIIIII32s32s")
BLOCK = struct.Struct("<B3xIIII")
FOOTER = struct.Struct("<8sIIIIII16sQ32s32s32s32s")
GONE, PARTS, LINKS, CUT = 254, 255, 1, 2
REASONS = {1: "elided", 2: "redacted"}


class Pack:
    """One pack; `places` has the number of the block of each object, and its place in there."""

    def __init__(self, path: Path, store: bytes) -> None:
        self.name, self.data = path.name, path.read_bytes()
        foot = len(self.data) - 216
        header, footer = self.data[:128], self.data[foot : foot + 184]
        (
            first, version, count, gone, slots, parts, blocks, self.salt, table,
            ids_sum, table_sum, header_sum, _frames_sum,
        ) = FOOTER.unpack(footer)  # fmt: skip
        notes, after = 128 + 32 * (count + gone), 128 + 32 * count + 34 * gone
        frames = after + (slots * (count + gone).bit_length() + 7) // 8
        for what, written, data in [
            ("footer", self.data[foot + 184 :], footer),
            ("header", header_sum, header[:96]),
            ("ids", ids_sum, self.data[128:frames]),
            ("table", table_sum, self.data[table:foot]),
        ]:
            require(written == checksum(f"pack {what}", data), f"{what} does not verify")
        same = store, self.salt, count, gone, slots, 0, ids_sum, header_sum
        fits = PACK_HEADER.unpack(header) == (MAGIC % b"P", 1, header[12], *same)
        fits &= (first, version, path.stem) == (MAGIC % b"F", 1, self.data[foot + 184 :].hex())
        require(fits, "not the pack of this store that its name says")
        self.ids, said = split(self.data[128:notes]), split(self.data[notes:after], 2)
        reasons = [(kind, REASONS[reason]) for kind, reason in said]
        self.gone = dict(zip(self.ids[count:], reasons, strict=True))
        self.blocks, self.parts, objects, at = [], [], [], frames
        for holds, entries, base, size, stored in BLOCK.iter_unpack(self.data[table:foot]):
            places, number = {PARTS: self.parts, GONE: []}.get(holds, objects), len(self.blocks)
            fits = base <= number and entries <= 65536 and size <= min(16 << 20, stored << 16)
            require(fits, f"block {number} cannot be")
            self.blocks.append((at, holds, len(places), entries, base, size, stored))
            places += [(number, entry) for entry in range(entries)]
            at += 120 + stored
        self.places = dict(zip(self.ids[:count], objects, strict=True))
        require((len(self.blocks), len(self.parts), at) == (blocks, parts, table), "other blocks")

    @lru_cache(maxsize=16)
    def raw(self, number: int) -> bytes:
        """The raw bytes of a block."""
        at, holds, first, count, base, size, length = self.blocks[number]
        head, stored = self.data[at : at + 120], self.data[at + 120 : at + 120 + length]
        sums = checksum("pack frame", stored), checksum("pack frame header", head[:88])
        said = self.salt, number, holds, bytes(3), first, count, base, size, length, 0, *sums
        require(FRAME.unpack(head) == (MAGIC % b"B", *said), f"block at {at} does not verify")
        return decompress(stored, size, self.raw(base - 1) if base else b"")

    @lru_cache(maxsize=16)
    def entries(self, number: int) -> list[tuple[int, bytes]]:
        """The form and the body of each entry of a block."""
        raw, at, words = self.raw(number), 0, []
        for _ in range(self.blocks[number][3]):
            word, at = varint(raw, at)
            _size, at = varint(raw, at) if word % 4 else (0, at)
            words.append(word)
        ends = list(accumulate((word // 4 for word in words), initial=at))
        require(ends[-1] == len(raw), f"block {number}: sizes that do not add up")
        return [(word % 4, raw[at:end]) for word, at, end in zip(words, ends, ends[1:])]

    def read(self, id_: bytes) -> tuple[int, bytes]:
        """The kind and the bytes of an object, verified."""
        number, place = self.places[id_]
        form, body = self.entries(number)[place]
        pieces, at, ordinal = [] if form else [body], 0, 0
        if form == LINKS:
            links, at = varint(body, at)
            for _ in range(links):
                literal, at = varint(body, at)
                distance, end = varint(body, at + literal)
                ordinal += signed(distance)
                pieces += body[at : at + literal], self.ids[ordinal]
                ordinal, at = ordinal + 1, end
            pieces.append(body[at:])
        while form == CUT and at < len(body):
            part, at = varint(body, at)
            block, place = self.parts[part]
            pieces.append(self.entries(block)[place][1])
        return verified(id_, self.blocks[number][1], b"".join(pieces))


def varint(data: bytes, at: int) -> tuple[int, int]:
    """The varint at an offset, and the offset behind it."""
    value = shift = 0
    while data[at] > 127:
        value, shift, at = value | (data[at] & 127) << shift, shift + 7, at + 1
    return value | data[at] << shift, at + 1


# ---- store.md, manifest.md, tree.md, context.md
MANIFEST = struct.Struct("<8sIIQ16sQQ32sIIQ")
MAIN = "refs/heads/default/main"
Entry = namedtuple("Entry", "id kind meta key")


class Store:
    """A store that is open for reading: its refs, its objects, and the damage that was met."""

    def __init__(self, folder: Path, damage: list[str]) -> None:
        self.folder, self.damage, self.sources = folder, damage, []
        with (folder / "superblock").open("rb") as file:
            data = file.read(96)
            whole = data[:8] == MAGIC % b"B" and data[64:] == checksum("superblock", data[:64])
            require(whole, "superblock: not that of a store, or damaged")
            supported = struct.unpack("<III", data[8:20]) == (1, 1, 1) and data[40:48] == bytes(8)
            require(supported, "superblock: of a version, or with a feature, that is not known")
            self.id = data[48:64]
            fcntl.flock(file, fcntl.LOCK_SH)  # with it, nobody takes files away
            self.load()

    def load(self) -> None:
        """Reads what the newest manifest that is whole lists, and the journal."""
        self.newest, self.refs, operations = (0, bytes(32)), {}, []
        paths = sorted(self.folder.glob("manifest-" + "[0-9a-f]" * 16), reverse=True)
        manifests = (self.attempt(path.name, self.read_manifest, path) for path in paths)
        sealed, packs, retired = next(filter(None, manifests), ({}, [], []))
        for path in sorted(self.folder.glob("journal/" + "[0-9a-f]" * 32 + ".seg")):
            index = sealed.pop(bytes.fromhex(path.stem), None)
            if bytes.fromhex(path.stem) not in retired:
                self.sources.append(segment := Segment(path))
                if not index or not self.attempt(path.name, segment.take_index, index):
                    operations += segment.take_batches(self.damage)
        self.damage += [f"{id_.hex()}.seg: is missing" for id_ in sealed]
        for path in [self.folder / "packs" / f"{name.hex()}.pack" for name in reversed(packs)]:
            self.sources += filter(None, [self.attempt(path.name, Pack, path, self.id)])
        self.known: dict[bytes, tuple[int, str] | None] = {}
        for source in reversed(self.sources):
            self.known |= dict.fromkeys(source.places) | source.gone
        self.apply(operations)

    def attempt(self, name: str, read: Callable, *arguments: Any) -> Any:
        """What a reading gives; None where it meets damage, which is noted."""
        try:
            return read(*arguments)
        except DAMAGE as error:
            self.damage.append(f"{name}: {error}")

    def read_manifest(self, path: Path) -> tuple[dict[bytes, int], list[bytes], list[bytes]]:
        """One generation: takes in its refs, and returns its lists of files."""
        data = path.read_bytes()
        require(data[-32:] == checksum("manifest", data[:-32]), "does not verify")
        *about, retired, sequence, newest, sealed, packs, size = MANIFEST.unpack(data[:104])
        packs_at = 104 + 24 * sealed
        retired_at = packs_at + 32 * packs
        refs_at = retired_at + 16 * retired
        said = [MAGIC % b"M", 1, 0, int(path.name[9:], 16), self.id]
        require(about == said and refs_at + size + 32 == len(data), "not what it says")
        indexes = dict(struct.iter_unpack("<16sQ", data[104:packs_at]))
        self.refs = dict(in_turn(decode(NODE, data[refs_at:-32]), 2))
        self.newest = sequence, newest
        return indexes, split(data[packs_at:retired_at]), split(data[retired_at:refs_at], 16)

    def apply(self, operations: list[tuple[Operation, bytes, bool]]) -> None:
        """Brings the refs up to date with operations, each with whether a record follows it."""
        after = {found[0].parents[:32] or bytes(32): found for found in operations}
        waiting = sorted(operations, key=lambda it: it[0].sequence)
        while True:
            sequence, found = self.newest[0], after.get(self.newest[1])
            if found is None or found[0].sequence <= sequence:
                waiting = [it for it in waiting if it[0].sequence > sequence]
                hidden = filter(None, (self.attempt("journal", self.hidden, it) for it in waiting))
                found = next(hidden, None) or next((it for it in waiting if it[2]), None)
                if found is None:
                    return
                self.damage.append(f"operation {found[1].hex()}: no refs lead to it")
            self.newest = found[0].sequence, found[1]
            self.refs |= {name: new for name, _old, new in in_turn(found[0].changes, 3)}

    def hidden(self, found: tuple[Operation, bytes, bool]) -> tuple | None:
        """The operation in a listed file that comes next, if it leads to one that waits."""
        operation, id_, _followed = found
        while operation.sequence > self.newest[0] and (parent := operation.parents[:32]):
            if parent == self.newest[1]:
                return operation, id_, True
            operation, id_ = decode(*self.read(parent)), parent

    def read(self, id_: bytes) -> tuple[int, bytes]:
        """The kind and the bytes of an object, verified."""
        if gone := self.known.get(id_):
            raise Refused(f"{KINDS[gone[0]]} {id_.hex()}: {gone[1]}")
        for source in self.sources:
            if id_ in source.places and (found := self.attempt(source.name, source.read, id_)):
                return found
        raise Refused(f"{id_.hex()}: not in the store, or not whole")

    def resolve(self, text: str) -> bytes:
        """The id that a ref, or the first digits of an id, stand for."""
        for _ in range(16):
            form, text = self.refs.get(text) or [1, MAIN if text == "HEAD" else text]
            if form == 0:
                return text
        found = [id_ for id_ in self.known if len(text) >= 4 and id_.hex().startswith(text)]
        require(len(found) == 1, f"{text}: no ref, and {len(found)} ids begin so")
        return found[0]

    def commit(self, text: str) -> bytes:
        """The commit that a ref or an id leads to, through tags."""
        id_ = self.resolve(text)
        while self.read(id_)[0] == TAG:
            id_ = decode(*self.read(id_)).target
        return id_

    def walk(self, start: str, names: tuple[str, ...]) -> bytes:
        """The id of a context, of a section, or of an entry in one."""
        id_ = decode(*self.read(self.commit(start))).tree
        for name in names:
            require(name in (items := self.tree(id_)), f"{start}: has no {name}")
            id_ = items[name].id
        return id_

    def tree(self, root: bytes) -> dict[str, Entry]:
        """The items of a list or a map, by place or by key."""
        form, runs = decode(*self.read(root))
        levels = reversed(list(enumerate(runs)))
        items = [entry for level, run in levels for entry in self.items(run, level, form == 2)]
        return {entry.key.decode() or str(place): entry for place, entry in enumerate(items)}

    def items(self, run: list, level: int, is_map: bool) -> Iterator[Entry]:
        """The items in a run, or below it, in order."""
        ids, key, keys = split(run[0]), b"", run[-1] if is_map else [0, b""] * (len(run[0]) // 32)
        kinds, metas = run[1] or bytes(len(ids)), run[2] if level == 0 else []
        metas = [meta for count, meta in in_turn(metas, 2) for _ in range(min(count, len(ids)))]
        for place, (shared, rest) in enumerate(in_turn(keys, 2)):
            key = key[:shared] + rest
            if level == 0:
                yield Entry(ids[place], kinds[place], metas[place], key)
                continue
            form, below, columns = decode(*self.read(ids[place]))
            require((form, below) == (1 + 2 * is_map, level - 1), f"{ids[place].hex()}: other node")
            yield from self.items(columns, below, is_map)


# ---- what can be asked for


def refs(store: Store, number: str = "") -> None:
    """A line for each ref; as operation N left them, when its number is given."""
    while number and store.newest[0] > int(number):
        operation = decode(*store.read(store.newest[1]))
        store.refs |= {name: old for name, old, _new in in_turn(operation.changes, 3)}
        parent, joins = operation.parents[:32], len(operation.parents) > 32
        before = decode(*store.read(parent)).sequence if joins else operation.sequence - 1
        store.newest = before, parent
    for name, (form, value) in sorted(filter(lambda ref: ref[1], store.refs.items())):
        print(name, f"-> {value}" if form else value.hex(), sep="\t")


def log(store: Store, start: str = "HEAD") -> None:
    """A line for each commit along the first parents; grafts say what is behind forgotten ones."""
    grafts = store.refs.get("refs/maintenance/grafts")
    grafts = dict(in_turn(store.read(grafts[1])[1].decode().split(), 2)) if grafts else {}
    id_ = store.commit(start).hex()
    while id_.strip("-"):
        commit = decode(*store.read(bytes.fromhex(id_)))
        micros, offset = map(signed, commit.time)
        time = datetime.fromtimestamp(0, timezone(timedelta(minutes=offset)))
        time += timedelta(microseconds=micros)
        subject, parent = commit.message.partition("\n")[0], commit.parents[:32].hex()
        print(id_, commit.turn, time.isoformat(), commit.trigger, subject, sep="\t")
        id_ = grafts.get(parent, parent)


def ls(store: Store, start: str, *section: str) -> None:
    """A line for each section of a context, or for each entry of one."""
    for name, entry in store.tree(store.walk(start, section)).items():
        print(entry.id.hex(), KINDS[entry.kind], entry.meta.hex(), name, sep="\t")


def cat(store: Store, start: str, *names: str) -> None:
    """The bytes of an object, a section or an entry."""
    id_ = store.walk(start, names) if names else store.resolve(start)
    sys.stdout.buffer.write(store.read(id_)[1])


def objects(store: Store) -> None:
    """A line for each id: its kind, and its size or why it has no content."""
    for id_, gone in sorted(store.known.items()):
        if found := gone or store.attempt(id_.hex(), store.read, id_):
            print(id_.hex(), KINDS[found[0]], gone[1] if gone else len(found[1]), sep="\t")


def main(folder: str = "", command: str = "", *arguments: str) -> int:
    """Answers, and returns the exit status."""
    commands = {"refs": refs, "log": log, "ls": ls, "cat": cat, "objects": objects}
    if command not in commands:
        sys.exit(__doc__)
    damage: list[str] = []
    try:
        commands[command](Store(Path(folder), damage), *arguments)
    except DAMAGE as error:
        damage.append(str(error))
    for message in dict.fromkeys(damage):
        print(message, file=sys.stderr)
    return 1 if damage else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
