#!/usr/bin/env python3
"""Reads a turntree store of format version 1, written from the pages beside this file alone.

    reader.py STORE refs               each ref and what it names
    reader.py STORE log [REF]          first parents: id, turn, time, trigger, message
    reader.py STORE cat ID             the bytes of any object
    reader.py STORE ls REF [SECTION]   the sections of a context, or the entries of one
    reader.py STORE verify             everything that refs reach, with each hash checked

It needs the packages `blake3` and `zstandard`.
Damage that does not stop a command is told on stderr; what stops one ends it with status 1.
"""

from __future__ import annotations

import mmap
import re
import struct
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import zstandard
from blake3 import blake3


class Refused(Exception):
    """Bytes that the pages do not allow; the message names the place."""


def require(condition: object, message: str) -> None:
    """Refuses the bytes at hand unless the condition holds."""
    if not condition:
        raise Refused(message)


# ---- object.md: kinds, ids, canonical CBOR

BLOB, NODE, COMMIT, TAG, OPERATION = range(5)
KINDS = ("blob", "node", "commit", "tag", "operation")
KEYS = [None] + [blake3(b"", derive_key_context=f"turntree v1 {kind}").digest() for kind in KINDS[1:]]
MOST_BYTES = [2 << 30] + [4 << 20] * 4


def object_id(kind: int, data: bytes) -> bytes:
    """The id of an object."""
    return blake3(data, key=KEYS[kind]).digest() if kind else blake3(data).digest()


def checksum(what: str, data: bytes) -> bytes:
    """The checksum of a part of a file; `what` names the part."""
    return blake3(data, derive_key_context=f"turntree v1 {what}").digest()


class Cbor:
    """A cursor over canonical CBOR that accepts only the bytes a writer would write."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, count: int) -> bytes:
        """The next bytes, which must be there."""
        require(count <= len(self.data) - self.at, f"CBOR ends early at byte {self.at}")
        self.at += count
        return self.data[self.at - count : self.at]

    def head(self, major: int) -> int:
        """The argument of the next item, which must be of this major type and in its shortest form."""
        first = self.take(1)[0]
        require(first >> 5 == major, f"CBOR major type {first >> 5} instead of {major} before byte {self.at}")
        short = first & 31
        require(short < 28, f"CBOR head {first:#04x} before byte {self.at}")
        if short < 24:
            return short
        width = 1 << (short - 24)
        value = int.from_bytes(self.take(width), "big")
        least = 24 if width == 1 else 1 << (4 * width)
        require(value >= least, f"CBOR head longer than needed before byte {self.at}")
        return value

    def uint(self) -> int:
        """An unsigned integer."""
        return self.head(0)

    def signed(self) -> int:
        """A signed integer, zigzag-coded."""
        coded = self.head(0)
        return (coded >> 1) ^ -(coded & 1)

    def string(self) -> bytes:
        """A byte string."""
        return self.take(self.head(2))

    def text(self) -> str:
        """A text string."""
        return self.take(self.head(3)).decode()

    def array(self, length: int | None = None) -> int:
        """The head of an array, of this length if one is given."""
        found = self.head(4)
        require(length in (None, found), f"CBOR array of {found} instead of {length} before byte {self.at}")
        return found

    def structure(self, length: int) -> None:
        """The head and the version of a structure with this many fields."""
        found = self.array()
        version = self.uint()
        require(version <= 1, f"structure version {version} is not supported")
        require(version == 1 and found == length, "not a structure of version 1")

    def id(self) -> bytes:
        """One id."""
        found = self.string()
        require(len(found) == 32, f"an id of {len(found)} bytes before byte {self.at}")
        return found

    def ids(self, most: int) -> list[bytes]:
        """Ids back to back."""
        found = self.string()
        require(len(found) % 32 == 0 and len(found) <= 32 * most, f"{len(found)} bytes of ids before byte {self.at}")
        return [found[at : at + 32] for at in range(0, len(found), 32)]

    def names(self, most: int, width: int) -> Iterator[str]:
        """The names of an array of name, value(s), ...; the caller reads the values."""
        length = self.array()
        require(length % width == 0 and length <= width * most, f"array of {length} before byte {self.at}")
        last = None
        for _ in range(length // width):
            name = self.text()
            require(last is None or last.encode() < name.encode(), f"name {name!r} does not rise")
            yield (last := name)

    def value(self) -> bytes | str | None:
        """The value of a ref: an id, the name of another ref, or none."""
        length = self.array()
        if length == 0:
            return None
        form = self.uint()
        require(length == 2 and form < 2, f"a ref's value of form {form}")
        return self.text() if form else self.id()

    def end(self) -> None:
        """Refuses bytes after the end."""
        require(self.at == len(self.data), f"bytes after the end at byte {self.at}")


class Commit(NamedTuple):
    """A snapshot of a context."""

    tree: bytes
    parents: list[bytes]
    session: str
    turn: int
    author: tuple[str, str]
    micros: int
    offset: int
    trigger: str
    message: str
    metadata: dict[str, str]

    @classmethod
    def decode(cls, data: bytes) -> Commit:
        """Reads a commit."""
        cbor = Cbor(data)
        cbor.structure(10)
        tree, parents, session, turn = cbor.id(), cbor.ids(1024), cbor.text(), cbor.uint()
        cbor.array(2)
        author = cbor.text(), cbor.text()
        cbor.array(2)
        micros, offset = cbor.signed(), cbor.signed()
        require(-(1 << 15) <= offset < 1 << 15, f"offset of {offset} minutes")
        trigger, message = cbor.text(), cbor.text()
        metadata = {name: cbor.text() for name in cbor.names(4096, 2)}
        cbor.end()
        return cls(tree, parents, session, turn, author, micros, offset, trigger, message, metadata)

    def time(self) -> str:
        """The time of the commit, where it was made."""
        zone = timezone(timedelta(minutes=self.offset))
        moment = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(microseconds=self.micros)
        return moment.astimezone(zone).isoformat(timespec="microseconds")


class Tag(NamedTuple):
    """A name with a message for an object."""

    target: bytes
    kind: int
    name: str
    tagger: str
    micros: int
    message: str

    @classmethod
    def decode(cls, data: bytes) -> Tag:
        """Reads a tag."""
        cbor = Cbor(data)
        cbor.structure(7)
        tag = cls(cbor.id(), cbor.uint(), cbor.text(), cbor.text(), cbor.signed(), cbor.text())
        require(tag.kind < len(KINDS), f"kind {tag.kind}")
        cbor.end()
        return tag


class Operation(NamedTuple):
    """One change of refs: the new value of each ref that it changes."""

    parents: list[bytes]
    sequence: int
    changes: dict[str, bytes | str | None]

    @classmethod
    def decode(cls, data: bytes) -> Operation:
        """Reads an operation."""
        cbor = Cbor(data)
        cbor.structure(7)
        parents, sequence, _micros, _actor, _reason = cbor.ids(64), cbor.uint(), cbor.signed(), cbor.text(), cbor.text()
        changes = {name: (cbor.value(), cbor.value())[1] for name in cbor.names(65536, 3)}
        cbor.end()
        return cls(parents, sequence, changes)


# ---- tree.md: lists and maps

LIST_ROOT, LIST_NODE, MAP_ROOT, MAP_NODE = range(4)
LIST_THRESHOLDS = [
    0, 757868, 3283131, 8833483, 18604798, 33771503, 55473217, 84798400,
    122765350, 170301004, 228218165, 297191887, 377735940, 470180353, 574651162, 691053532,
    819059414, 958100851, 1107369884, 1265825829, 1432210379, 1605070668, 1782790006, 1963625590,
    2145752069, 2327309418, 2506453278, 2681405645, 2850503671, 3012244353, 3165323041, 3308663984,
    3441441564, 3563091380, 3673310941, 3772050297, 3859493548, 3936032625, 4002235141, 4058808344,
    4106561293, 4146367309, 4179128536, 4205744158, 4227083373, 4243963842, 4257135860, 4267272125,
    4274962662, 4280714177, 4284953026, 4288030864, 4290232101, 4291782352, 4292857185, 4293590639,
    4294083116, 4294408404, 4294619709, 4294754665, 4294839389, 4294891658, 4294923337,
    1 << 32,
]  # fmt: skip
MAP_THRESHOLDS = [
    0, 13685492, 58989636, 156978389, 324303424, 571415548, 899852553, 1300382339,
    1752904550, 2228703982, 2694977690, 3120710503, 3482313159, 3767339707, 3975217230, 4115023235,
    4201407246, 4250252448, 4275423731, 4287195367, 4292169543, 4294060254, 4294703805, 4294899061,
    4294951623, 4294964119, 4294966730, 4294967208, 4294967284, 4294967294, 4294967295,
    1 << 32,
]  # fmt: skip


class Entry(NamedTuple):
    """An element of a level: an item at level 0, above it a reference to a node."""

    id: bytes
    kind: int
    meta: bytes
    count: int
    key: bytes


def read_metas(cbor: Cbor, entries: int) -> list[bytes]:
    """The meta of each entry, from stretches of equal ones."""
    metas: list[bytes] = []
    length = cbor.array()
    require(length % 2 == 0, "half a stretch of metas")
    for _ in range(length // 2):
        stretch, meta = cbor.uint(), cbor.string()
        require(0 < stretch <= entries - len(metas) and len(meta) <= 1024, "a stretch of metas that cannot be")
        require(not metas or metas[-1] != meta, "two stretches of equal metas")
        metas += [meta] * stretch
    require(len(metas) == entries, f"{len(metas)} metas for {entries} entries")
    return metas


def read_keys(cbor: Cbor, entries: int) -> list[bytes]:
    """The key of each entry, from shared lengths and rests."""
    cbor.array(2 * entries)
    keys, last = [], b""
    for _ in range(entries):
        shared, rest = cbor.uint(), cbor.string()
        require(rest and shared <= len(last) and shared + len(rest) <= 4096, "a key that cannot be")
        require(shared == len(last) or rest[0] > last[shared], "a key that does not rise")
        keys.append(last := last[:shared] + rest)
    return keys


def read_run(cbor: Cbor, is_map: bool, level: int) -> list[Entry]:
    """The entries of a run."""
    cbor.array((2 if level else 3) + is_map)
    ids = cbor.ids(32 if is_map else 64)
    kinds, metas, counts = [NODE] * len(ids), [b""] * len(ids), [1] * len(ids)
    if level:
        cbor.array(len(ids))
        counts = [cbor.uint() for _ in ids]
        require(0 not in counts, "a count of 0")
    else:
        column = cbor.string()
        require(not column or len(column) == len(ids) and any(column) and max(column) < len(KINDS), "wrong kinds")
        kinds = list(column or bytes(len(ids)))
        metas = read_metas(cbor, len(ids))
    keys = read_keys(cbor, len(ids)) if is_map else [b""] * len(ids)
    return [Entry(*fields) for fields in zip(ids, kinds, metas, counts, keys)]


def boundaries(run: list[Entry], is_map: bool, level: int) -> list[int]:
    """The places of the boundaries in a run."""
    thresholds = MAP_THRESHOLDS if is_map else LIST_THRESHOLDS
    at, n, found = 4 * (level % 8), 0, []
    for place, entry in enumerate(run):
        digest = blake3(entry.key).digest() if is_map else entry.id
        if int.from_bytes(digest[at : at + 4], "little") < thresholds[n]:
            n = 0
            found.append(place)
        else:
            n += 1
    return found


def decode_root(data: bytes) -> tuple[bool, list[list[Entry]]]:
    """Whether the root of a tree is a map, and its unfinished runs from level 0 up."""
    cbor = Cbor(data)
    cbor.array(2)
    form = cbor.uint()
    require(form in (LIST_ROOT, MAP_ROOT), f"a root of form {form}")
    is_map, levels = form == MAP_ROOT, cbor.array()
    require(1 <= levels <= 16, f"{levels} levels")
    runs = [read_run(cbor, is_map, level) for level in range(levels)]
    cbor.end()
    require(runs[-1] or levels == 1, "an empty run at the top")
    require(not any(boundaries(run, is_map, level) for level, run in enumerate(runs)), "a boundary in a root")
    require(sum(entry.count for run in runs for entry in run) <= 1 << 48, "too many items")
    return is_map, runs


def decode_node(data: bytes) -> tuple[bool, int, list[Entry]]:
    """Whether a closed node is of a map, its level, and its run."""
    cbor = Cbor(data)
    cbor.array(3)
    form, level = cbor.uint(), cbor.uint()
    require(form in (LIST_NODE, MAP_NODE), f"a node of form {form}")
    require(level <= 14, f"a node of level {level}")
    is_map = form == MAP_NODE
    run = read_run(cbor, is_map, level)
    cbor.end()
    require(boundaries(run, is_map, level) == [len(run) - 1], "a node that does not end at its one boundary")
    return is_map, level, run


# ---- store.md, journal.md, manifest.md: files

SUPERBLOCK = struct.Struct("<8s4I3Q16s")
RECORD = struct.Struct("<8sII16sQQQ32s")
DIRECTORY_ENTRY = struct.Struct("<32sBBHII")
INDEX_ENTRY = struct.Struct("<QIIBB6s")
MANIFEST = struct.Struct("<8sIIQ16sQQ32sIIQ")
SEALED_SEGMENT = struct.Struct("<16sQ")
SEGMENT_HEADER, RECORD_HEADER, TRAILER = 80, 120, 32
BATCH, INDEX = 1, 2


def magic(letter: str) -> bytes:
    """The first bytes of a file or a record."""
    return b"\x89TT" + letter.encode() + b"\r\n\x1a\n"


class Place(NamedTuple):
    """Where an object lies, and how."""

    segment: Segment
    offset: int
    size: int
    stored: int
    kind: int
    codec: int


class Record(NamedTuple):
    """A record whose header verifies."""

    at: int
    type: int
    objects: int
    sequence: int
    directory: int
    payload: int
    previous: bytes

    @property
    def payload_at(self) -> int:
        """Offset of the payload in the file."""
        return self.at + RECORD_HEADER + self.directory

    @property
    def trailer_at(self) -> int:
        """Offset of the trailer in the file."""
        return (self.payload_at + self.payload + 7) // 8 * 8

    @property
    def end(self) -> int:
        """Offset of what follows."""
        return self.trailer_at + TRAILER


class Segment:
    """One file of the journal."""

    def __init__(self, path: Path, damage: Callable[[str], None]) -> None:
        self.path, self.id, self.damage = path, bytes.fromhex(path.stem), damage
        with path.open("rb") as file:
            empty = path.stat().st_size == 0
            self.data = b"" if empty else mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def record(self, at: int) -> Record | None:
        """The record at an offset, if its header verifies."""
        head = self.data[at : at + RECORD_HEADER]
        if len(head) < RECORD_HEADER or head[88:] != checksum("record header", head[:88]):
            return None
        found, type_, objects, segment, sequence, directory, payload, previous = RECORD.unpack(head[:88])
        expected = 44 * objects + 32 if type_ == BATCH else 0
        if found != magic("R") or type_ not in (BATCH, INDEX) or segment != self.id or directory != expected:
            return None
        record = Record(at, type_, objects, sequence, directory, payload, previous)
        return record if payload <= 4 << 30 and record.end <= len(self.data) else None

    def directory_verifies(self, record: Record) -> bool:
        """Whether the directory of a batch is what was written; an index has none."""
        end = record.payload_at - 32
        return record.type == INDEX or self.data[end : end + 32] == checksum("batch directory", self.data[record.at : end])

    def trailer_verifies(self, record: Record) -> bool:
        """Whether the whole record is what was written."""
        return self.trailer(record) == checksum("record trailer", self.data[record.at : record.trailer_at])

    def trailer(self, record: Record) -> bytes:
        """The trailer as it lies there."""
        return self.data[record.trailer_at : record.end]

    def accepted(self, record: Record | None, after: int) -> bool:
        """Whether a record holds: the one behind it may vouch for its payload."""
        if record is None or record.sequence <= after or not self.directory_verifies(record):
            return False
        behind = self.record(record.end)
        vouched = behind is not None and behind.previous == self.trailer(record)
        return vouched or self.trailer_verifies(record)

    def records(self) -> Iterator[Record]:
        """The good records; a gap between them is damage, bytes behind the last are a batch that died."""
        at, sequence = SEGMENT_HEADER, 0
        while True:
            record = self.record(at)
            if not self.accepted(record, sequence):
                bad, record = at, self.good_behind(record.end if record else at, sequence)
                if record is None:
                    return
                self.damage(f"{self.path.name}:{bad}: a bad record in front of a good one")
            yield record
            at, sequence = record.end, record.sequence
            if record.type == INDEX:
                return

    def good_behind(self, at: int, sequence: int) -> Record | None:
        """The first record from an offset on that verifies whole."""
        while (at := self.data.find(magic("R"), at)) >= 0:
            record = self.record(at) if at % 8 == 0 else None
            whole = record and self.directory_verifies(record) and self.trailer_verifies(record)
            if whole and record.sequence > sequence:
                return record
            at += 1
        return None

    def batch(self, record: Record) -> Iterator[tuple[bytes, Place]]:
        """The objects of a batch."""
        at = record.payload_at
        for id_, kind, codec, zero, size, stored in DIRECTORY_ENTRY.iter_unpack(
            self.data[record.at + RECORD_HEADER : record.payload_at - 32]
        ):
            require(zero == 0, f"{self.path.name}:{record.at}: an entry that cannot be")
            yield id_, Place(self, at, size, stored, kind, codec)
            at += stored
        require(at == record.payload_at + record.payload, f"{self.path.name}:{record.at}: a payload with a gap")

    def index(self, at: int) -> Iterator[tuple[bytes, Place]]:
        """The objects of a sealed segment, from its index."""
        record, place = self.record(at), f"{self.path.name}:{at}"
        require(record and record.type == INDEX and self.trailer_verifies(record), f"{place}: no index")
        payload = self.data[record.payload_at : record.payload_at + record.payload]
        count = record.objects
        require(len(payload) == 1024 + 56 * count, f"{place}: an index of the wrong size")
        ids = [payload[at : at + 32] for at in range(1024, 1024 + 32 * count, 32)]
        require(ids == sorted(set(ids)), f"{place}: ids that do not rise")
        first_bytes = Counter(id_[0] for id_ in ids)
        fan_out = [sum(first_bytes[low] for low in range(byte + 1)) for byte in range(256)]
        require(list(struct.unpack("<256I", payload[:1024])) == fan_out, f"{place}: a fan-out that does not fit")
        for id_, fields in zip(ids, INDEX_ENTRY.iter_unpack(payload[1024 + 32 * count :])):
            offset, size, stored, kind, codec, zeros = fields
            require(not any(zeros), f"{place}: an entry that cannot be")
            yield id_, Place(self, offset, size, stored, kind, codec)


class Store:
    """A store that is open for reading: its objects, refs, and the damage that was met."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.damaged: list[str] = []
        self.objects: dict[bytes, Place] = {}
        self.id = self.read_superblock()
        sealed, self.newest, self.refs = self.newest_manifest()
        operations: list[tuple[Operation, bytes, bool]] = []
        for path in sorted(folder.glob("journal/*.seg")):
            segment = Segment(path, self.damage)
            if not self.read_index(segment, sealed.get(segment.id)):
                operations += self.read_segment(segment)
        self.apply(operations)

    def damage(self, message: str) -> None:
        """Notes damage that does not stop the reading."""
        print(f"damaged: {message}", file=sys.stderr)
        self.damaged.append(message)

    def read_superblock(self) -> bytes:
        """Checks that this is a store that can be read, and returns its id."""
        data = (self.folder / "superblock").read_bytes()
        require(len(data) >= 96 and data[:8] == magic("B"), "superblock: not a store")
        require(data[64:96] == checksum("superblock", data[:64]), "superblock: does not verify")
        _, version, hash_, trees, _zero, _any, _writing, features, id_ = SUPERBLOCK.unpack(data[:64])
        found = (version, hash_, trees, features)
        require(found == (1, 1, 1, 0), f"superblock: format {found} is not supported")
        return id_

    def newest_manifest(self) -> tuple[dict[bytes, int], tuple[int, bytes], dict[str, bytes | str]]:
        """The sealed segments with their indexes, the newest operation in the refs, and the refs."""
        pattern = re.compile("manifest-[0-9a-f]{16}")
        names = [path for path in self.folder.iterdir() if pattern.fullmatch(path.name)]
        for path in sorted(names, reverse=True):
            try:
                return self.read_manifest(path.read_bytes(), int(path.name[9:], 16))
            except Refused as refused:
                self.damage(f"{path.name}: {refused}")
        return {}, (0, bytes(32)), {}

    def read_manifest(self, data: bytes, generation: int) -> tuple[dict, tuple[int, bytes], dict]:
        """What `newest_manifest` returns, from one."""
        require(len(data) >= 136 and data[-32:] == checksum("manifest", data[:-32]), "does not verify")
        found, version, _, number, store, _epoch, sequence, operation, segments, packs, size = MANIFEST.unpack(data[:104])
        require((found, number, store) == (magic("M"), generation, self.id), "not the manifest of its name")
        require(version == 1, f"version {version} is not supported")
        end = 104 + 24 * segments
        require(packs == 0 and len(data) == end + size + 32, "of the wrong size")
        cbor, refs = Cbor(data[end:-32]), {}
        for name in cbor.names(65536, 2):
            value = cbor.value()
            require(value is not None, f"{name} has no value")
            refs[name] = value
        cbor.end()
        return dict(SEALED_SEGMENT.iter_unpack(data[104:end])), (sequence, operation), refs

    def read_index(self, segment: Segment, at: int | None) -> bool:
        """Takes in the objects of a sealed segment, whose operations are in the refs already."""
        try:
            self.objects |= {} if at is None else dict(segment.index(at))
        except Refused as refused:
            self.damage(str(refused))
            return False
        return at is not None

    def read_segment(self, segment: Segment) -> Iterator[tuple[Operation, bytes, bool]]:
        """Takes in the objects of a segment; yields its operations, and whether a record follows each."""
        batches = list(segment.records())
        for record in batches:
            if record.type == BATCH:
                objects = list(segment.batch(record))
                self.objects.update(objects)
                for id_, place in objects:
                    if place.kind == OPERATION:
                        operation = Operation.decode(self.read(id_, OPERATION))
                        yield operation, id_, record is not batches[-1]

    def apply(self, operations: list[tuple[Operation, bytes, bool]]) -> None:
        """Brings the refs up to date."""
        (newest_sequence, newest) = self.newest
        for operation, id_, followed in sorted(operations, key=lambda found: found[0].sequence):
            if operation.sequence <= newest_sequence:
                continue
            fits = newest in operation.parents if operation.parents else newest_sequence == 0
            if not fits and not followed:
                continue
            if not fits:
                self.damage(f"operation {id_.hex()}: its parent is missing")
            newest_sequence, newest = operation.sequence, id_
            for name, value in operation.changes.items():
                self.refs[name] = value
                if value is None:
                    del self.refs[name]
        self.newest = newest_sequence, newest

    def read(self, id_: bytes, kind: int | None = None) -> bytes:
        """The bytes of an object of a kind, verified."""
        place = self.objects.get(id_)
        require(place, f"{id_.hex()}: not in the store")
        where = f"{place.segment.path.name}:{place.offset}: object {id_.hex()}"
        known = place.kind < len(KINDS) and place.codec < 2 and place.size <= MOST_BYTES[place.kind]
        require(known and kind in (None, place.kind), f"{where}: of kind {place.kind}, codec {place.codec}")
        data = place.segment.data[place.offset : place.offset + place.stored]
        if place.codec == 1:
            require(place.size <= 65536 * place.stored, f"{where}: {place.size} bytes from {place.stored}")
            data = self.decompress(data, place.size, where)
        require(len(data) == place.size and object_id(place.kind, data) == id_, f"{where}: does not verify")
        return data

    @staticmethod
    def decompress(data: bytes, size: int, where: str) -> bytes:
        """The content of a zstd frame, whose size must be as expected."""
        try:
            require(zstandard.get_frame_parameters(data).content_size == size, f"{where}: frame of another size")
            return zstandard.ZstdDecompressor().decompress(data, allow_extra_data=False)
        except zstandard.ZstdError as error:
            raise Refused(f"{where}: {error}") from None

    def decoded(self, id_: bytes, kind: int, decode: Callable) -> object:
        """An object of a kind other than blob; what it lacks is told with its id."""
        data = self.read(id_, kind)
        try:
            return decode(data)
        except (Refused, UnicodeDecodeError) as error:
            raise Refused(f"{KINDS[kind]} {id_.hex()}: {error}") from None

    def commit(self, id_: bytes) -> Commit:
        """A commit."""
        return self.decoded(id_, COMMIT, Commit.decode)

    def root(self, id_: bytes) -> tuple[bool, list[list[Entry]]]:
        """The root of a tree."""
        return self.decoded(id_, NODE, decode_root)

    @lru_cache(maxsize=4096)
    def node(self, id_: bytes) -> tuple[bool, int, list[Entry]]:
        """A closed node of a tree."""
        return self.decoded(id_, NODE, decode_node)

    def below(self, entry: Entry, is_map: bool, level: int, last: bytes) -> list[Entry]:
        """The run of the node that an entry of a level refers to, checked against the entry."""
        found_map, found_level, run = self.node(entry.id)
        found = found_map, found_level, sum(child.count for child in run), run[-1].key
        require(found == (is_map, level - 1, entry.count, entry.key), f"node {entry.id.hex()}: not as its parent says")
        require(not is_map or last < run[0].key, f"node {entry.id.hex()}: keys that do not rise")
        return run

    def items(self, root: bytes) -> Iterator[Entry]:
        """The items of a tree, in order."""
        is_map, runs = self.root(root)
        last = b""

        def walk(run: list[Entry], level: int) -> Iterator[Entry]:
            nonlocal last
            for entry in run:
                if level:
                    yield from walk(self.below(entry, is_map, level, last), level - 1)
                else:
                    require(not is_map or last < entry.key, f"root {root.hex()}: keys that do not rise")
                    last = entry.key
                    yield entry

        for level in reversed(range(len(runs))):
            yield from walk(runs[level], level)

    def resolve(self, text: str) -> bytes:
        """The id that a ref, or the beginning of an id, stands for."""
        for _ in range(10):
            value = self.refs.get(text)
            if isinstance(value, bytes):
                return value
            if value is None:
                break
            text = value
        found = [id_ for id_ in self.objects if id_.hex().startswith(text)] if len(text) >= 4 else []
        require(len(found) == 1, f"{text}: {len(found)} objects and no ref")
        return found[0]

    def resolve_commit(self, text: str) -> bytes:
        """The commit that a ref or an id leads to, through tags."""
        id_ = self.resolve(text)
        while (place := self.objects.get(id_)) and place.kind == TAG:
            id_ = self.decoded(id_, TAG, Tag.decode).target
        return id_


# ---- commands; context.md for `ls`

SHAPES = ("blob", "list", "map")
ROLES = ("system", "user", "assistant", "tool", "other")
MODES = ("regular", "executable", "link")
PIECES = ("record", "glue", "damaged")


def print_refs(store: Store) -> None:
    """One line for each ref."""
    for name, value in sorted(store.refs.items()):
        print(name, value.hex() if isinstance(value, bytes) else f"-> {value}", sep="\t")


def print_log(store: Store, start: str = "HEAD") -> None:
    """One line for each commit along the first parents."""
    id_ = store.resolve_commit(start)
    while True:
        commit = store.commit(id_)
        print(id_.hex(), commit.turn, commit.time(), commit.trigger, commit.message.partition("\n")[0], sep="\t")
        if not commit.parents:
            return
        id_ = commit.parents[0]


def print_object(store: Store, text: str) -> None:
    """The bytes of an object."""
    sys.stdout.buffer.write(store.read(store.resolve(text)))


def meta_text(section: str, meta: bytes) -> str:
    """What the meta of an entry says, by the section it is in."""
    if section.endswith("/messages"):
        return f"{ROLES[meta[0]]} {meta[1:].decode()}"
    if section == "files":
        return f"{MODES[meta[0]]} {int.from_bytes(meta[1:], 'little')}"
    if section == "source":
        return f"{PIECES[meta[0]]} {meta[1:]!r}"
    return meta.decode()


def print_entries(store: Store, ref: str, section: str | None = None) -> None:
    """The sections of a context, or the entries of one."""
    sections = {entry.key.decode(): entry for entry in store.items(store.commit(store.resolve_commit(ref)).tree)}
    if section is None:
        for name, entry in sections.items():
            print(entry.id.hex(), SHAPES[entry.meta[0]], name, sep="\t")
        return
    require(section in sections, f"{ref}: has no {section}")
    found = sections[section]
    entries = store.items(found.id) if found.meta[0] else [found._replace(meta=b"")]
    for place, entry in enumerate(entries):
        print(entry.id.hex(), meta_text(section, entry.meta), entry.key.decode() or place, sep="\t")


def tree_links(store: Store, root: bytes, seen: set[bytes]) -> Iterator[tuple[bytes, int]]:
    """What a tree's items link to, without what lies below nodes that were seen; adds to those."""
    is_map, runs = store.root(root)
    last = b""
    work = [(level, entry) for level, run in enumerate(runs) for entry in reversed(run)]
    while work:
        level, entry = work.pop()
        if level:
            run = store.below(entry, is_map, level, last)
            if entry.id not in seen:
                seen.add(entry.id)
                work += [(level - 1, child) for child in reversed(run)]
                continue
        else:
            require(not is_map or last < entry.key, f"root {root.hex()}: keys that do not rise")
            yield entry.id, entry.kind
        last = entry.key


def links(store: Store, id_: bytes, kind: int, seen: set[bytes]) -> Iterator[tuple[bytes, int]]:
    """What an object refers to, once it verifies."""
    if kind == NODE:
        yield from tree_links(store, id_, seen)
    elif kind == TAG:
        tag = store.decoded(id_, TAG, Tag.decode)
        yield tag.target, tag.kind
    elif kind == OPERATION:
        parents = store.decoded(id_, OPERATION, Operation.decode).parents
        yield from ((parent, OPERATION) for parent in parents if parent in store.objects)
    elif kind == COMMIT:
        commit = store.commit(id_)
        turns = [store.commit(parent).turn for parent in commit.parents]
        require(commit.turn == max(turns, default=0) + 1, f"commit {id_.hex()}: turn {commit.turn} after {turns}")
        yield from [(commit.tree, NODE)] + [(parent, COMMIT) for parent in commit.parents]
        for section in store.items(commit.tree):
            shape = "blob" if section.kind == BLOB else SHAPES[1 + store.root(section.id)[0]]
            require(section.meta == bytes([SHAPES.index(shape)]), f"commit {id_.hex()}: {section.key!r} is a {shape}")
    else:
        store.read(id_, kind)


def verify(store: Store) -> None:
    """Reads and checks all that the refs and the newest operation reach."""
    starts = {value for value in store.refs.values() if isinstance(value, bytes)} | {store.newest[1]} - {bytes(32)}
    work = [(id_, None) for id_ in starts]
    seen: set[bytes] = set()
    while work:
        id_, kind = work.pop()
        if id_ in seen:
            continue
        seen.add(id_)
        try:
            require(id_ in store.objects, f"{id_.hex()}: not in the store")
            kind = store.objects[id_].kind if kind is None else kind
            work += links(store, id_, kind, seen)
        except Refused as refused:
            store.damage(str(refused))
    counts = Counter(KINDS[store.objects[id_].kind] for id_ in seen if id_ in store.objects)
    print(*(f"{counts[kind]} {kind}s" for kind in KINDS), f"{len(store.objects)} in the store", sep=", ")
    sys.exit(1 if store.damaged else 0)


COMMANDS = {"refs": print_refs, "log": print_log, "cat": print_object, "ls": print_entries, "verify": verify}


def main(arguments: list[str]) -> None:
    """Runs a command."""
    if len(arguments) < 2 or arguments[1] not in COMMANDS:
        sys.exit(__doc__)
    try:
        COMMANDS[arguments[1]](Store(Path(arguments[0])), *arguments[2:])
    except (Refused, OSError) as refused:
        sys.exit(f"{arguments[0]}: {refused}")


if __name__ == "__main__":
    main(sys.argv[1:])
