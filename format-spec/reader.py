#!/usr/bin/env python3
"""Reads a turntree store of format version 1; written from the pages beside it alone.

    reader.py STORE refs               each ref and what it holds
    reader.py STORE log [REF]          first parents: id, turn, time, trigger, message
    reader.py STORE cat ID             the bytes of any object
    reader.py STORE ls REF [SECTION]   the sections of a context, or the entries of one
    reader.py STORE gone               each id without content that a pack answers for
    reader.py STORE verify             all that the refs reach, each hash and each tree; and each pack

`objects.py` has what object.md and tree.md say, `packs.py` what pack.md says; here are the other
files, and the commands.
It needs the packages `blake3` and `zstandard`.
Damage that does not stop a command is told on stderr; what stops one ends it with status 1.
"""

from __future__ import annotations

import fcntl
import mmap
import struct
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import zstandard

from objects import (
    BLOB,
    COMMIT,
    KINDS,
    MOST_BYTES,
    NODE,
    OPERATION,
    TAG,
    Cbor,
    Entry,
    Refused,
    checksum,
    decode_commit,
    decode_node,
    decode_operation,
    decode_root,
    decode_tag,
    object_id,
    require,
)
from packs import Pack

# ---- journal.md

RECORD = struct.Struct("<8sII16sQQQ32s")
DIRECTORY_ENTRY = struct.Struct("<32sBBHII")
INDEX_ENTRY = struct.Struct("<QIIBB6s")
BATCH, INDEX = 1, 2


def magic(letter: bytes) -> bytes:
    """The first bytes of a file or a record."""
    return b"\x89TT" + letter + b"\r\n\x1a\n"


class Place(NamedTuple):
    """Where an object lies, and how."""

    segment: Segment
    offset: int
    size: int
    stored: int
    kind: int
    codec: int

    def read(self, id_: bytes) -> bytes:
        """The bytes of the object, verified."""
        where = f"{self.segment.name}:{self.offset}: object {id_.hex()}"
        known = self.kind < len(KINDS) and self.codec < 2 and self.size <= MOST_BYTES[self.kind]
        require(known, f"{where}: of kind {self.kind}, codec {self.codec}")
        data = self.segment.data[self.offset : self.offset + self.stored]
        if self.codec == 1:
            require(self.size <= 65536 * self.stored, f"{where}: {self.size} bytes from {self.stored}")
            try:
                framed = zstandard.get_frame_parameters(data).content_size
                require(framed == self.size, f"{where}: a frame of {framed} bytes")
                data = zstandard.ZstdDecompressor().decompress(data, allow_extra_data=False)
            except zstandard.ZstdError as error:
                raise Refused(f"{where}: {error}") from None
        require(len(data) == self.size and object_id(self.kind, data) == id_, f"{where}: does not verify")
        return data


class PlaceInPack(NamedTuple):
    """An object of a pack."""

    pack: Pack
    kind: int

    def read(self, id_: bytes) -> bytes:
        """The bytes of the object, verified."""
        return self.pack.read(id_)


class Record(NamedTuple):
    """A record, by its offset and its header."""

    at: int
    magic: bytes
    type: int
    objects: int
    segment: bytes
    sequence: int
    directory: int
    payload: int
    previous: bytes

    def payload_at(self) -> int:
        """Offset of the payload."""
        return self.at + 120 + self.directory

    def trailer_at(self) -> int:
        """Offset of the trailer."""
        return (self.payload_at() + self.payload + 7) // 8 * 8

    def end(self) -> int:
        """Offset of what follows."""
        return self.trailer_at() + 32


class Segment:
    """One file of the journal."""

    def __init__(self, path: Path) -> None:
        self.name, self.id = path.name, bytes.fromhex(path.stem)
        with path.open("rb") as file:
            self.data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if path.stat().st_size else b""

    def header(self, at: int) -> Record | None:
        """The record at an offset, if its header verifies."""
        head = self.data[at : at + 120]
        if len(head) < 120 or head[88:] != checksum("record header", head[:88]):
            return None
        record = Record(at, *RECORD.unpack(head[:88]))
        directory = {BATCH: 44 * record.objects + 32, INDEX: 0}.get(record.type)
        fits = record.directory == directory and record.payload <= 4 << 30 and record.end() <= len(self.data)
        return record if fits and record.magic == magic(b"R") and record.segment == self.id else None

    def record(self, at: int, after: int) -> Record | None:
        """The record at an offset, if header and directory verify and its sequence is higher."""
        record = self.header(at)
        if record is None or record.sequence <= after:
            return None
        end = record.payload_at() - 32
        written = self.data[end : end + 32]
        whole = record.type == INDEX or written == checksum("batch directory", self.data[at:end])
        return record if whole else None

    def trailer(self, record: Record) -> bytes:
        """The trailer of a record, as it was written."""
        return self.data[record.trailer_at() : record.end()]

    def verifies(self, record: Record) -> bool:
        """Whether the trailer of a record is that of the bytes before it."""
        return self.trailer(record) == checksum("record trailer", self.data[record.at : record.trailer_at()])

    def records(self, damage: Callable[[str], None]) -> Iterator[Record]:
        """The records that count. Each vouches for the one before; the last one's trailer must verify."""
        at, sequence, trailer = 80, 0, bytes(32)
        last: Record | None = None
        while last is None or last.type == BATCH:
            record = self.record(at, sequence) or self.good_record(at, sequence)
            if record is None:
                break
            if (record.at, record.previous, record.sequence) != (at, trailer, sequence + 1):
                damage(f"{self.name}:{at}: damaged up to {record.at}, where a good record follows")
            if last:
                yield last
            at, sequence, trailer, last = record.end(), record.sequence, self.trailer(record), record
        if last and self.verifies(last):
            yield last

    def good_record(self, at: int, after: int) -> Record | None:
        """The first record behind a bad one that verifies whole."""
        bad = self.header(at)
        at = bad.end() if bad and bad.sequence > after else at
        while (at := self.data.find(magic(b"R"), at)) >= 0:
            record = self.record(at, after) if at % 8 == 0 else None
            if record and self.verifies(record):
                return record
            at += 1
        return None

    def batch(self, record: Record) -> Iterator[tuple[bytes, Place]]:
        """The objects of a batch."""
        at = record.payload_at()
        directory = self.data[record.at + 120 : at - 32]
        for id_, kind, codec, _zero, size, stored in DIRECTORY_ENTRY.iter_unpack(directory):
            yield id_, Place(self, at, size, stored, kind, codec)
            at += stored
        require(at == record.payload_at() + record.payload, f"{self.name}:{record.at}: a payload with a gap")

    def index(self, at: int) -> dict[bytes, Place]:
        """The objects of a sealed segment."""
        record = self.header(at)
        if record is None or record.type != INDEX or not self.verifies(record):
            raise Refused(f"{self.name}:{at}: no index")
        payload = self.data[record.payload_at() : record.payload_at() + record.payload]
        places = 1024 + 32 * record.objects
        require(len(payload) == places + 24 * record.objects, f"{self.name}:{at}: an index of the wrong size")
        ids = [payload[at : at + 32] for at in range(1024, places, 32)]
        counts = Counter(id_[0] for id_ in ids)
        fan_out = [sum(counts[byte] for byte in range(first + 1)) for first in range(256)]
        fits = ids == sorted(set(ids)) and list(struct.unpack_from("<256I", payload)) == fan_out
        require(fits, f"{self.name}:{at}: an index out of order")
        entries = INDEX_ENTRY.iter_unpack(payload[places:])
        return {id_: Place(self, *entry[:5]) for id_, entry in zip(ids, entries, strict=True)}


# ---- store.md, manifest.md

SUPERBLOCK = struct.Struct("<8s4I3Q16s")
MANIFEST = struct.Struct("<8sIIQ16sQQ32sIIQ")
SEALED_SEGMENT = struct.Struct("<16sQ")


class Manifest(NamedTuple):
    """One generation: where sealed segments have their index, packs, retired segments, and the refs."""

    sealed: dict[bytes, int]
    packs: list[bytes]
    retired: set[bytes]
    newest: tuple[int, bytes]
    refs: dict


class Store:
    """A store that is open for reading: its objects, its refs, and the damage that was met."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.damaged = folder, []
        self.id = self.read_superblock()
        for _ in range(16):
            epoch = self.settled_epoch()
            self.load()
            if self.epoch() == epoch:
                break
        else:
            raise Refused("files are replaced faster than they can be read")
        self.grafts = self.read_grafts()

    def epoch(self) -> int:
        """The word that changes when files are taken away."""
        with (self.folder / "superblock").open("rb") as file:
            file.seek(4096)
            word = file.read(8)
        return int.from_bytes(word, "little") if len(word) == 8 else 0

    def settled_epoch(self) -> int:
        """The epoch; if it is odd, as it is when nobody is changing it any more."""
        if self.epoch() % 2:
            with (self.folder / "superblock").open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                return self.epoch()
        return self.epoch()

    def load(self) -> None:
        """Reads what the newest manifest lists, and the journal behind it."""
        self.damaged.clear()
        self.objects: dict[bytes, Place | PlaceInPack] = {}
        self.gone: dict[bytes, tuple[int, str]] = {}
        self.packs: list[Pack] = []
        manifest = self.newest_manifest()
        for name in manifest.packs:
            self.read_pack(name)
        operations: list[tuple[SimpleNamespace, bytes, bool]] = []
        sealed = dict(manifest.sealed)
        for path in sorted(self.folder.glob("journal/" + "[0-9a-f]" * 32 + ".seg")):
            if bytes.fromhex(path.stem) in manifest.retired:
                continue
            segment = Segment(path)
            if not self.read_index(segment, sealed.pop(segment.id, None)):
                operations += self.read_batches(segment)
        for id_ in sealed:
            self.damage(f"{id_.hex()}.seg: is missing")
        for id_ in self.gone.keys() & self.objects.keys():
            del self.gone[id_]
        self.newest, self.refs = self.applied(operations, manifest.newest, manifest.refs)

    def read_pack(self, name: bytes) -> None:
        """Takes in a pack; what it says of an id outdoes what older ones say."""
        try:
            pack = Pack(self.folder / "packs" / f"{name.hex()}.pack", self.id)
        except (Refused, OSError) as error:
            self.damage(f"{name.hex()}.pack: {error}")
            return
        self.packs.append(pack)
        for id_, kind in pack.objects():
            self.objects[id_] = PlaceInPack(pack, kind)
            self.gone.pop(id_, None)
        for id_, why in pack.gone.items():
            self.objects.pop(id_, None)
            self.gone[id_] = why

    def read_grafts(self) -> dict[bytes, bytes | None]:
        """The commit that history goes on with behind each forgotten one."""
        id_ = self.refs.get("refs/maintenance/grafts")
        if not isinstance(id_, bytes):
            return {}
        lines = [line.split(" ") for line in self.read(id_, BLOB).decode("ascii").splitlines()]
        grafts = {bytes.fromhex(old): None if new == "-" else bytes.fromhex(new) for old, new in lines}
        require(list(grafts) == sorted(grafts) and len(grafts) == len(lines), "grafts that do not rise")
        return grafts

    def damage(self, message: str) -> None:
        """Notes damage that does not stop the reading."""
        self.damaged.append(message)

    def read_superblock(self) -> bytes:
        """Checks that this is a store of version 1, and returns its id."""
        data = (self.folder / "superblock").read_bytes()
        require(len(data) >= 96 and data[:8] == magic(b"B"), "superblock: not a store")
        require(data[64:96] == checksum("superblock", data[:64]), "superblock: does not verify")
        _, version, hash_, trees, _, _, _, features, id_ = SUPERBLOCK.unpack(data[:64])
        require((version, hash_, trees, features) == (1, 1, 1, 0), "superblock: not supported")
        return id_

    def newest_manifest(self) -> Manifest:
        """The newest valid one, or an empty one."""
        for path in sorted(self.folder.glob("manifest-" + "[0-9a-f]" * 16), reverse=True):
            try:
                return self.read_manifest(path.read_bytes(), int(path.name[9:], 16))
            except Refused as refused:
                self.damage(f"{path.name}: {refused}")
        return Manifest({}, [], set(), (0, bytes(32)), {})

    def read_manifest(self, data: bytes, generation: int) -> Manifest:
        """One generation."""
        require(len(data) >= 136 and data[-32:] == checksum("manifest", data[:-32]), "does not verify")
        fields = MANIFEST.unpack(data[:104])
        found, version, zero, number, store, retired, sequence, newest, sealed, packs, size = fields
        require((found, version, zero) == (magic(b"M"), 1, 0), f"version {version}")
        packs_at = 104 + 24 * sealed
        retired_at = packs_at + 32 * packs
        end = retired_at + 16 * retired
        require((number, store, end + size + 32) == (generation, self.id, len(data)), "not of its name, store or size")
        cbor = Cbor(data[end:-32])
        refs = {name: value for name, (value,) in cbor.table(65536, Cbor.value).items()}
        cbor.end()
        return Manifest(
            dict(SEALED_SEGMENT.iter_unpack(data[104:packs_at])),
            [data[at : at + 32] for at in range(packs_at, retired_at, 32)],
            {data[at : at + 16] for at in range(retired_at, end, 16)},
            (sequence, newest),
            refs,
        )

    def read_index(self, segment: Segment, at: int | None) -> bool:
        """Takes in a sealed segment by its index, if it has one; its operations are in the refs already."""
        try:
            self.objects |= {} if at is None else segment.index(at)
        except Refused as refused:
            self.damage(str(refused))
            return False
        return at is not None

    def read_batches(self, segment: Segment) -> Iterator[tuple[SimpleNamespace, bytes, bool]]:
        """Takes in a segment; yields its operations, and whether a record follows each."""
        records = list(segment.records(self.damage))
        for record in records:
            try:
                objects = dict(segment.batch(record)) if record.type == BATCH else {}
                self.objects |= objects
                for id_ in (id_ for id_, place in objects.items() if place.kind == OPERATION):
                    yield self.decoded(id_, OPERATION, decode_operation), id_, record is not records[-1]
            except Refused as refused:
                self.damage(str(refused))

    def applied(self, operations: list, newest: tuple[int, bytes], refs: dict) -> tuple[tuple[int, bytes], dict]:
        """The newest operation and the refs, after those operations that count."""
        after = {(operation.parents or [bytes(32)])[0]: (operation, id_) for operation, id_, _ in operations}
        acknowledged = sorted((found for found in operations if found[2]), key=lambda found: -found[0].sequence)
        while True:
            operation, id_ = after.get(newest[1], (None, b""))
            if operation is None or operation.sequence <= newest[0]:
                while acknowledged and acknowledged[-1][0].sequence <= newest[0]:
                    acknowledged.pop()
                if not acknowledged:
                    return newest, {name: value for name, value in refs.items() if value is not None}
                operation, id_, _ = acknowledged.pop()
                self.damage(f"operation {id_.hex()}: those between {newest[0]} and {operation.sequence} are missing")
            newest = operation.sequence, id_
            refs |= {name: new for name, (_old, new) in operation.changes.items()}

    def read(self, id_: bytes, kind: int | None = None) -> bytes:
        """The bytes of an object, of a kind if one is given, verified."""
        place = self.objects.get(id_)
        if place is None:
            _, why = self.gone.get(id_, (None, "not in the store"))
            raise Refused(f"{id_.hex()}: {why}")
        require(kind in (None, place.kind), f"{id_.hex()}: of kind {place.kind}")
        return place.read(id_)

    @lru_cache(maxsize=4096)
    def decoded(self, id_: bytes, kind: int, decode: Callable[[bytes], Any]) -> Any:
        """An object of a kind other than blob."""
        data = self.read(id_, kind)
        try:
            return decode(data)
        except Refused as refused:
            raise Refused(f"{KINDS[kind]} {id_.hex()}: {refused}") from None

    def commit(self, id_: bytes) -> SimpleNamespace:
        """A commit."""
        return self.decoded(id_, COMMIT, decode_commit)

    def parents(self, commit: SimpleNamespace) -> list[bytes]:
        """What history goes on with behind a commit: its parents, or what the grafts say instead."""
        parents = [self.grafts.get(id_, id_) for id_ in commit.parents]
        return [id_ for id_ in parents if id_ is not None]

    def node(self, entry: Entry, is_map: bool, level: int) -> list[Entry]:
        """The run of the node that an entry of a level refers to, which must be as the entry says."""
        found_map, found_level, run = self.decoded(entry.id, NODE, decode_node)
        found = found_map, found_level, sum(child.items for child in run), run[-1].key
        require(found == (is_map, level - 1, entry.items, entry.key), f"node {entry.id.hex()}: not as expected")
        return run

    def items(self, root: bytes, seen: set[bytes] | None = None) -> Iterator[Entry]:
        """The items of a tree, in order; without those below nodes in `seen`, to which it adds."""
        is_map, runs = self.decoded(root, NODE, decode_root)
        last = b""
        work = [(level, entry) for level, run in enumerate(runs) for entry in reversed(run)]
        while work:
            level, entry = work.pop()
            run = self.node(entry, is_map, level) if level else [entry]
            require(not is_map or last < run[0].key, f"root {root.hex()}: keys that do not rise")
            if level and (seen is None or entry.id not in seen):
                work += [(level - 1, child) for child in reversed(run)]
                (set() if seen is None else seen).add(entry.id)
                continue
            last = entry.key
            if level == 0:
                yield entry

    def resolve(self, text: str) -> bytes:
        """The id that a ref, or the beginning of an id, stands for."""
        for _ in range(16):
            value = self.refs.get(text, "refs/heads/default/main" if text == "HEAD" else None)
            if isinstance(value, bytes):
                return value
            text = value or text
        found = [id_ for id_ in self.objects if len(text) >= 4 and id_.hex().startswith(text)]
        require(len(found) == 1, f"{text}: {len(found)} objects and no ref")
        return found[0]

    def resolve_commit(self, text: str) -> bytes:
        """The commit that a ref or an id leads to, through tags."""
        id_ = self.resolve(text)
        while (place := self.objects.get(id_)) and place.kind == TAG:
            id_ = self.decoded(id_, TAG, decode_tag).target
        return id_


# ---- commands; context.md

SHAPES = ("blob", "list", "map")
ROLES = ("system", "user", "assistant", "tool", "other")
MODES = ("regular", "executable", "symbolic-link")
PIECES = ("record", "glue", "damaged")


def print_refs(store: Store) -> None:
    """A line for each ref."""
    for name, value in sorted(store.refs.items()):
        print(name, value.hex() if isinstance(value, bytes) else f"-> {value}", sep="\t")


def print_log(store: Store, start: str = "HEAD") -> None:
    """A line for each commit along the first parents."""
    parents = [store.resolve_commit(start)]
    while parents:
        id_, commit = parents[0], store.commit(parents[0])
        micros, offset = commit.time
        moment = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(microseconds=micros)
        time = moment.astimezone(timezone(timedelta(minutes=offset))).isoformat(timespec="microseconds")
        print(id_.hex(), commit.turn, time, commit.trigger, commit.message.partition("\n")[0], sep="\t")
        parents = store.parents(commit)


def print_gone(store: Store) -> None:
    """A line for each id without content: its kind, and why."""
    for id_, (kind, why) in sorted(store.gone.items()):
        print(id_.hex(), KINDS[kind], why, sep="\t")


def print_object(store: Store, text: str) -> None:
    """The bytes of an object."""
    sys.stdout.buffer.write(store.read(store.resolve(text)))


def meta_text(section: str, meta: bytes) -> str:
    """What the meta of an entry says, by the section that it is in."""
    if section.startswith("agents/") and section.endswith("/messages"):
        return f"{ROLES[meta[0]]} {meta[1:].decode()}"
    if section == "files":
        return f"{MODES[meta[0]]} {int.from_bytes(meta[1:], 'little')}"
    return f"{PIECES[meta[0]]} {meta[1:]!r}" if section == "source" else meta.decode()


def print_entries(store: Store, ref: str, section: str | None = None) -> None:
    """The sections of a context, or the entries of one."""
    sections = {entry.key.decode(): entry for entry in store.items(store.commit(store.resolve_commit(ref)).tree)}
    if section is None:
        for name, entry in sections.items():
            print(entry.id.hex(), SHAPES[entry.meta[0]], name, sep="\t")
        return
    require(section in sections, f"{ref}: has no {section}")
    found = sections[section]
    for place, entry in enumerate(store.items(found.id) if found.kind == NODE else [found._replace(meta=b"")]):
        print(entry.id.hex(), meta_text(section, entry.meta), entry.key.decode() or place, sep="\t")


def links(store: Store, id_: bytes, kind: int, seen: set[bytes]) -> Iterator[tuple[bytes, int]]:
    """What an object refers to, once it is found to be right."""
    if kind == BLOB:
        store.read(id_, kind)
    elif kind == NODE:
        yield from ((entry.id, entry.kind) for entry in store.items(id_, seen))
    elif kind == TAG:
        tag = store.decoded(id_, TAG, decode_tag)
        if tag.target in store.objects or not hasattr(tag, "expires"):
            yield tag.target, tag.kind
    elif kind == OPERATION:
        parents = store.decoded(id_, OPERATION, decode_operation).parents
        yield from ((parent, OPERATION) for parent in parents if parent in store.objects)
    else:
        commit = store.commit(id_)
        parents = [parent for parent in store.parents(commit) if parent not in store.gone]
        yield from [(commit.tree, NODE)] + [(parent, COMMIT) for parent in parents]
        turns = [store.commit(parent).turn for parent in parents]
        least = max(turns, default=0) + 1
        fits = commit.turn == least if parents == commit.parents else commit.turn > least
        require(fits, f"commit {id_.hex()}: turn {commit.turn} after {turns}")
        for section in store.items(commit.tree) if commit.tree not in store.gone else ():
            shape = 1 + store.decoded(section.id, NODE, decode_root)[0] if section.kind == NODE else 0
            require(section.meta == bytes([shape]), f"commit {id_.hex()}: the shape of {section.key!r}")


def verify(store: Store) -> None:
    """Reads and checks all that the refs and the newest operation reach, as far as it is not gone; and each pack."""
    for pack in store.packs:
        try:
            pack.verify_frames()
        except Refused as refused:
            store.damage(str(refused))
    starts = {value for value in store.refs.values() if isinstance(value, bytes)} | {store.newest[1]}
    work: list[tuple[bytes, int | None]] = [(id_, None) for id_ in starts - {bytes(32)}]
    seen: set[bytes] = set()
    while work:
        id_, kind = work.pop()
        if id_ not in seen and id_ not in store.gone:
            seen.add(id_)
            try:
                require(id_ in store.objects, f"{id_.hex()}: not in the store")
                work += links(store, id_, store.objects[id_].kind if kind is None else kind, seen)
            except Refused as refused:
                store.damage(str(refused))
    counts = Counter(KINDS[store.objects[id_].kind] for id_ in seen if id_ in store.objects)
    print(*(f"{counts[kind]} {kind}s" for kind in KINDS), f"{len(store.objects)} objects in the store", sep=", ")
    sys.exit(1 if store.damaged else 0)


COMMANDS: dict[str, Callable[..., None]] = {
    "refs": print_refs,
    "log": print_log,
    "cat": print_object,
    "ls": print_entries,
    "gone": print_gone,
    "verify": verify,
}


def main(arguments: list[str]) -> None:
    """Runs a command."""
    if len(arguments) < 2 or arguments[1] not in COMMANDS:
        sys.exit(__doc__)
    store = None
    try:
        store = Store(Path(arguments[0]))
        COMMANDS[arguments[1]](store, *arguments[2:])
    except (Refused, OSError) as error:
        sys.exit(f"{arguments[0]}: {error}")
    finally:
        for message in store.damaged if store else ():
            print(f"damaged: {message}", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
