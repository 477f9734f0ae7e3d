#!/usr/bin/env python3
"""Reads a turntree store or bundle of version 1 or 2; written from the pages beside it alone.

    reader.py FROM refs                    what each ref holds
    reader.py FROM log [REV]               first parents: id, turn, time, trigger, message
    reader.py FROM ls REV[:PATH]           the sections of a context, or the entries of one
    reader.py FROM cat REV[:PATH]          the bytes of an object, a section, an entry
    reader.py FROM transcript REV [AGENT]  what was imported; else, or with AGENT, the messages
    reader.py FROM objects                 every id: its kind, and its size or why it is gone

FROM is the directory of a store, or the file of a bundle, which takes bundle.py beside this one.
REV is a ref, branch, tag or pin, or the first digits of an id.
PATH is a section, and behind a slash the key of an entry, or its place in a list, from 0.
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
from importlib import import_module
from itertools import accumulate
from pathlib import Path

import cbor2
import zstandard
from blake3 import blake3

MAGIC = b"\x89TT%c\r\n\x1a\n"
DAMAGE = OSError, LookupError, TypeError, ValueError, AttributeError  # what bad bytes end in
DAMAGE += struct.error, cbor2.CBORError, zstandard.ZstdError, ArithmeticError, RecursionError


def require(condition: object, message: str) -> None:
    """Refuses what is at hand unless the condition holds."""
    if not condition:
        raise ValueError(message)


def checksum(what: str, data: bytes) -> bytes:
    """The checksum of a part of a file."""
    return blake3(data, derive_key_context=f"turntree v1 {what}").digest()


def require_sum(what: str, written: bytes, data: bytes) -> None:
    """Refuses a part of a file whose checksum is another than was written."""
    require(written == checksum(what, data), f"{what} does not verify")


def decompress(stored: bytes, size: int, base: bytes = b"") -> bytes:
    """What a zstd frame holds, of which the size is known from elsewhere."""
    require(zstandard.frame_content_size(stored) == size <= len(stored) << 16, "another size")
    prefix = zstandard.ZstdCompressionDict(base, zstandard.DICT_TYPE_RAWCONTENT) if base else None
    return zstandard.ZstdDecompressor(prefix).decompress(stored, allow_extra_data=False)


def split(data: bytes, width: int = 32) -> list[bytes]:
    """Ids, or other things of a width, that lie back to back."""
    return [data[at : at + width] for at in range(0, len(data), width)]


def signed(coded: int) -> int:
    """An integer that may be negative."""
    return coded >> 1 ^ -(coded & 1)


def in_turn(flat: list, width: int) -> Iterator[tuple]:
    """What stands in an array in turn: name, value, name, value, and so on."""
    return zip(*[iter(flat)] * width, strict=True)


# ---- object.md
BLOB, NODE, COMMIT, TAG, OPERATION = range(5)
KINDS = "blob", "node", "commit", "tag", "operation"
KEYS = [checksum(kind, b"") for kind in KINDS]
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


def decode(kind: int, data: bytes):
    """What canonical CBOR says; of a node the array, of a structure its fields."""
    value = cbor2.loads(data)
    require(cbor2.dumps(value) == data, "CBOR that is not canonical")
    known = kind == NODE or (kind, value[0]) in STRUCTURES
    require(known, f"{KINDS[kind]} of version {value[0]}")
    return value if kind == NODE else STRUCTURES[kind, value[0]](*value[1:])


# ---- journal.md
RECORD = struct.Struct("<8sII16sQQQ32s")
DIRECTORY_ENTRY = struct.Struct("<32sBBxxII")
INDEX_ENTRY = struct.Struct("<QIIBB6x")
BATCH, INDEX = 1, 2
FIELDS = "at magic type count segment sequence directory payload last"
Record = namedtuple("Record", f"{FIELDS} payload_at trailer_at places operations")


class Segment:
    """One file of the journal; `places` has the objects that count."""

    def __init__(self, path: Path) -> None:
        self.name, self.id, self.data = path.name, bytes.fromhex(path.stem), path.read_bytes()
        self.places, self.gone = {}, {}

    def read(self, id_: bytes, place: tuple | None = None) -> tuple[int, bytes]:
        """The kind and the bytes of an object, verified."""
        offset, size, stored, kind, codec = place or self.places[id_]
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
        require_sum("batch directory", written, directory)
        for id_, kind, codec, size, stored in DIRECTORY_ENTRY.iter_unpack(directory[120:]):
            place = record.places[id_] = offset, size, stored, kind, codec
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
        elif last and self.data.startswith(b"synced\0\0", at):
            damage.append(f"{self.name}: the last batch, at {last.at}, was durable and has changed")

    def take_index(self, at: int) -> bool:
        """Takes in what the index of a sealed segment lists."""
        record = self.header(at)
        require(record and record.type == INDEX and self.is_whole(record), "no index")
        payload, end = self.data[record.payload_at : record.trailer_at], 1024 + 32 * record.count
        places = INDEX_ENTRY.iter_unpack(payload[end:])
        self.places = dict(zip(split(payload[1024:end]), places, strict=True))
        return True


# ---- pack.md
PACK_HEADER = struct.Struct("<8sII16s16sIIII32s32s")
FRAME, BLOCK = struct.Struct("<8s16sIB3sIIIIII32s32s"), struct.Struct("<B3xIIII")
PACK_FOOTER = struct.Struct("<8sIIIIII16sQ32s32s32s32s")
GONE, PARTS, LINKS, CUT, REASONS = 254, 255, 1, 2, {1: "elided", 2: "redacted"}


class Pack:
    """One pack; `places` has the number of the block of each object, and its place in there."""

    def __init__(self, path: Path, store: bytes) -> None:
        self.name, self.data = path.name, path.read_bytes()
        foot = len(self.data) - 216
        header, footer = self.data[:128], self.data[foot : foot + 184]
        (
            first, version, count, gone, slots, parts, blocks, self.salt, table,
            ids_sum, table_sum, header_sum, _frames_sum,
        ) = PACK_FOOTER.unpack(footer)  # fmt: skip
        listed, known = (count + gone, 1) if slots else (0, 2)
        notes, after = 128 + 32 * listed, 128 + 32 * listed + 2 * gone * bool(slots)
        frames = after + (slots * listed.bit_length() + 7) // 8
        require_sum("pack footer", self.data[foot + 184 :], footer)
        require_sum("pack header", header_sum, header[:96])
        require_sum("pack ids", ids_sum, self.data[128:frames])
        require_sum("pack table", table_sum, self.data[table:foot])
        same = store, self.salt, count, gone, slots, 0, ids_sum, header_sum
        fits = PACK_HEADER.unpack(header) == (MAGIC % b"P", known, header[12], *same)
        fits &= (first, version, path.stem) == (MAGIC % b"F", known, self.data[foot + 184 :].hex())
        require(fits, "not the pack of this store that its name says")
        objects = self.take_table(frames, self.data[table:foot], (blocks, parts, count, table))
        self.ids, said = split(self.data[128:notes]), split(self.data[notes:after], 2)
        said = said if slots else import_module("bundle").identify(self, objects)
        reasons = [(kind, REASONS[reason]) for kind, reason in said]
        self.gone = dict(zip(self.ids[count:], reasons, strict=True))
        self.places = dict(zip(self.ids[:count], objects, strict=True))

    def take_table(self, at: int, table: bytes, said: tuple) -> list[tuple[int, int]]:
        """Takes the blocks in, and returns the block of each object and its place in there."""
        self.blocks, self.parts, objects = [], [], []
        for holds, entries, base, size, stored in BLOCK.iter_unpack(table):
            places, number = {PARTS: self.parts, GONE: []}.get(holds, objects), len(self.blocks)
            require(base <= number and entries <= 65536 and size <= 16 << 20, "an impossible block")
            self.blocks.append((at, holds, len(places), entries, base, size, stored))
            places += [(number, entry) for entry in range(entries)]
            at += 120 + stored
        require((len(self.blocks), len(self.parts), len(objects), at) == said, "other blocks")
        return objects

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

    def read(self, id_: bytes, where: tuple | None = None) -> tuple[int, bytes]:
        """The kind and the bytes of an object, verified; those at a place, which has no id yet."""
        number, place = where or self.places[id_]
        kind, (form, body) = self.blocks[number][1], self.entries(number)[place]
        pieces, at, ordinal = [] if form else [body], 0, 0
        if form == LINKS:
            count, at = varint(body, at)
            for _ in range(count):
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
        return (kind, b"".join(pieces)) if where else verified(id_, kind, b"".join(pieces))


def varint(data: bytes, at: int) -> tuple[int, int]:
    """The varint at an offset, and the offset behind it."""
    value = shift = 0
    while data[at] > 127:
        value, shift, at = value | (data[at] & 127) << shift, shift + 7, at + 1
    return value | data[at] << shift, at + 1


# ---- store.md, manifest.md, tree.md, context.md
MANIFEST = struct.Struct("<8sIIQ16sQQ32sIIQ")
MAIN, write = "refs/heads/default/main", sys.stdout.buffer.write
NAMES = "{}", "refs/heads/{}", "refs/heads/{}/main", "refs/tags/{}", "refs/pins/{}"
Entry = namedtuple("Entry", "id kind meta key")


class Store:
    """What is open for reading: its refs, its objects, and the damage that was met."""

    def __init__(self, folder: Path, damage: list[str]) -> None:
        self.folder, self.damage, self.sources, self.grafts = folder, damage, [], {}
        if folder.is_file():
            return import_module("bundle").load(self)
        with (folder / "superblock").open("rb") as file:
            data = file.read(96)
            require_sum("superblock", data[64:], data[:64])
            require(not data[40] & 1, "an encrypted store: see encryption.md")
            said = data[:8], *struct.unpack("<III", data[8:20]), data[40] & ~4, data[41:48]
            require(said == (MAGIC % b"B", 1, 1, 1, 0, bytes(7)), "a store of an unknown version")
            self.id = data[48:64]
            fcntl.flock(file, fcntl.LOCK_SH)  # while it is held, no process removes files
            self.load()
        if grafts := self.refs.get("refs/maintenance/grafts"):
            self.grafts = dict(in_turn(self.read(grafts[1])[1].decode().split(), 2))

    def load(self) -> None:
        """Reads what the newest manifest that is whole lists, and the journal."""
        self.newest, self.refs, self.known, operations = (0, bytes(32)), {}, {}, []
        paths = sorted(self.folder.glob("manifest-" + "[0-9a-f]" * 16), reverse=True)
        manifests = (self.attempt(path.name, self.read_manifest, path) for path in paths)
        sealed, packs, retired = next(filter(None, manifests), ({}, [], []))
        for path in sorted(self.folder.glob("journal/" + "[0-9a-f]" * 32 + ".seg")):
            index = sealed.pop(bytes.fromhex(path.stem), None)
            if bytes.fromhex(path.stem) not in retired:
                self.sources.append(segment := Segment(path))
                if not index or not self.attempt(path.name, segment.take_index, index):
                    for record in (records := list(segment.records(self.damage))):
                        segment.places |= record.places
                        found, followed = record.operations.items(), record is not records[-1]
                        operations += [(it, id_, followed) for id_, it in found]
        self.damage += [f"{id_.hex()}.seg: is missing" for id_ in sealed]
        for path in [self.folder / "packs" / f"{name.hex()}.pack" for name in reversed(packs)]:
            self.sources += filter(None, [self.attempt(path.name, Pack, path, self.id)])
        for source in reversed(self.sources):
            self.known |= dict.fromkeys(source.places) | source.gone
        self.apply(operations)

    def attempt(self, name: str, read: Callable, *arguments: object):
        """What a reading gives; None where it meets damage, which is noted."""
        try:
            return read(*arguments)
        except DAMAGE as error:
            self.damage.append(f"{name}: {error}")

    def read_manifest(self, path: Path) -> tuple[dict[bytes, int], list[bytes], list[bytes]]:
        """One generation: takes in its refs, and returns its lists of files."""
        data = path.read_bytes()
        require_sum("manifest", data[-32:], data[:-32])
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
            raise ValueError(f"{KINDS[gone[0]]} {id_.hex()}: {gone[1]}")
        for source in self.sources:
            if id_ in source.places and (found := self.attempt(source.name, source.read, id_)):
                return found
        raise ValueError(f"{id_.hex()}: not in the store, or not whole")

    def resolve(self, text: str) -> bytes:
        """The id that a ref, a part of its name, or the first digits of an id stand for."""
        for _ in range(16):
            values = filter(None, (self.refs.get(form.format(text)) for form in NAMES))
            form, text = next(values, [1, MAIN if text == "HEAD" else text])
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

    def walk(self, revision: str) -> bytes:
        """The id of a context, of a section, or of an entry in one."""
        start, _, path = revision.partition(":")
        id_ = decode(*self.read(self.commit(start))).tree
        while path:
            items = self.tree(id_)
            fitting = (name for name in items if f"{path}/".startswith(f"{name}/"))
            name = max(fitting, key=len, default=path)
            require(name in items, f"{revision}: there is no {path}")
            id_, path = items[name].id, path[len(name) + 1 :]
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

    def newer(self, id_: bytes, source: bytes, name: str) -> int:
        """How many messages were added since the source was as it is."""
        ends: list[dict[str, Entry]] = []  # the sections of the newest and of the oldest
        parent = id_.hex()
        with suppress(*DAMAGE):
            while parent.strip("-"):
                commit = decode(*self.read(bytes.fromhex(parent)))
                sections = self.tree(commit.tree)
                if sections.get("source", Entry(b"", 0, b"", b"")).id != source:
                    break
                ends = [*ends[:1], sections]
                parent = self.grafts.get(commit.parents[:32].hex(), commit.parents[:32].hex())
        counts = [len(self.tree(found[name].id)) if name in found else 0 for found in ends]
        return max(0, counts[0] - counts[-1]) if counts else 0

    # The questions, as the text at the top of this file tells of them.
    def ask_refs(self) -> None:
        for name, (form, value) in sorted(filter(lambda ref: ref[1], self.refs.items())):
            print(name, f"-> {value}" if form else value.hex(), sep="\t")

    def ask_log(self, start: str = "HEAD") -> None:
        id_ = self.commit(start).hex()
        while id_.strip("-"):
            commit = decode(*self.read(bytes.fromhex(id_)))
            micros, offset = map(signed, commit.time)
            time = datetime.fromtimestamp(0, timezone(timedelta(minutes=offset)))
            time = (time + timedelta(microseconds=micros)).isoformat()
            subject, parent = commit.message.partition("\n")[0], commit.parents[:32].hex()
            print(id_, commit.turn, time, commit.trigger, subject, sep="\t")
            id_ = self.grafts.get(parent, parent)

    def ask_ls(self, *words: str) -> None:
        for name, entry in self.tree(self.walk(":".join(words))).items():
            print(entry.id.hex(), KINDS[entry.kind], entry.meta.hex(), name, sep="\t")

    def ask_cat(self, *words: str) -> None:
        text = ":".join(words)
        write(self.read(self.walk(text) if ":" in text else self.resolve(text))[1])

    def ask_transcript(self, start: str = "HEAD", agent: str = "") -> None:
        sections = self.tree(self.walk(start))
        source = None if agent else sections.get("source")
        if not agent and "source-copied" in sections:
            module = import_module("copies")
            for piece in module.copies(self.read, self.tree, sections):
                write(piece)
            if not source:
                return
        messages = f"agents/{agent or 'main'}/messages"
        if source and (newer := self.newer(self.commit(start), source.id, messages)):
            note = f"{newer} newer messages are not in what was imported: transcript {start} main\n"
            sys.stderr.write(note)
        for entry in self.tree((source or sections[messages]).id).values():
            if found := self.attempt(start, self.read, entry.id):
                write(found[1] if source else found[1].replace(b"\n", b" "))
                write(entry.meta[1:] if source else b"\n")

    def ask_objects(self) -> None:
        for id_, gone in sorted(self.known.items()):
            if found := gone or self.attempt(id_.hex(), self.read, id_):
                print(id_.hex(), KINDS[found[0]], gone[1] if gone else len(found[1]), sep="\t")


def main(folder: str = "", question: str = "", *words: str) -> int:
    """Answers, and returns the exit status."""
    if not (ask := getattr(Store, f"ask_{question}", None)):
        sys.exit(__doc__)
    damage: list[str] = []
    try:
        ask(Store(Path(folder), damage), *words)
    except DAMAGE as error:
        damage.append(str(error))
    sys.stderr.writelines(f"{message}\n" for message in dict.fromkeys(damage))
    return 1 if damage else 0


if __name__ == "__main__":
    sys.exit(import_module("reader").main(*sys.argv[1:]))  # the one that bundle.py knows, too
