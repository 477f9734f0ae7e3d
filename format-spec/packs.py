"""Packs of a turntree store of format version 1; written from pack.md alone.

`Pack(path, store_id)` verifies all but the frames; `read` gives an object, verified.
"""

from __future__ import annotations

import mmap
import struct
from bisect import bisect_right
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import zstandard

from objects import BLOB, KINDS, MOST_BYTES, Refused, checksum, object_id, require

HEADER = struct.Struct("<8sII16s16sIIII32s")
FRAME = struct.Struct("<8s16sIB3sIIIIII32s")
BLOCK = struct.Struct("<B3sIIII")
FOOTER = struct.Struct("<8sIIIIII16sQ32s32s32s32s")
GONE, PARTS = 254, 255
VERBATIM, LINKS, CUT = 0, 1, 2
REASONS = {1: "elided", 2: "redacted"}


class Block(NamedTuple):
    """What the table says of a block, and where its frame starts."""

    at: int
    holds: int
    first: int
    objects: int
    base: int
    size: int
    stored: int


class Pack:
    """One pack: its objects by id, and its gone ids."""

    def __init__(self, path: Path, store: bytes) -> None:
        self.name = path.name
        with path.open("rb") as file:
            self.data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        data, foot = self.data, len(self.data) - 216
        require(foot >= 128, f"{self.name}: too short for a pack")
        (
            magic, version, self.count, gone, slots, self.parts, blocks, self.salt, table,
            ids, table_sum, header_sum, self.frames_sum,
        ) = FOOTER.unpack(data[foot : foot + 184])  # fmt: skip
        name = checksum("pack footer", data[foot : foot + 184])
        good = (magic, version) == (b"\x89TTF\r\n\x1a\n", 1) and data[foot + 184 :] == name
        require(good and self.name == f"{name.hex()}.pack", f"{self.name}: the footer does not verify")
        head = HEADER.unpack(data[:96])
        expected = b"\x89TTP\r\n\x1a\n", 1, head[2], store, self.salt, self.count, gone, slots, 0, ids
        good = head == expected and head[2] in (1, 2, 3) and data[96:128] == header_sum
        require(good and header_sum == checksum("pack header", data[:96]), f"{self.name}: the header does not verify")
        self.read_ids(gone, slots, ids)
        self.blocks = list(self.read_table(data[table:foot], table, blocks, table_sum))
        self.firsts = {part: self.numbered(part=part) for part in (False, True)}

    def read_ids(self, gone: int, slots: int, expected: bytes) -> None:
        """Takes in the ids, and checks that each is found by the slots."""
        count = self.count + gone
        width = count.bit_length()
        notes = 128 + 32 * count
        self.frames_at = notes + 2 * gone + (slots * width + 7) // 8
        found = checksum("pack ids", self.data[128 : self.frames_at])
        require(found == expected, f"{self.name}: the ids do not verify")
        self.ids = [self.data[at : at + 32] for at in range(128, notes, 32)]
        pairs = [self.data[at : at + 2] for at in range(notes, notes + 2 * gone, 2)]
        known = all(kind < len(KINDS) and reason in REASONS for kind, reason in pairs)
        require(known and count < slots <= 2 * count + 1, f"{self.name}: ids that cannot be")
        gone_ids = self.ids[self.count :]
        self.gone = {id_: (kind, REASONS[reason]) for id_, (kind, reason) in zip(gone_ids, pairs, strict=True)}
        bits = int.from_bytes(self.data[notes + 2 * gone : self.frames_at], "little")
        table = [bits >> slot * width & (1 << width) - 1 for slot in range(slots)] if count <= 4096 else []
        for ordinal, id_ in enumerate(self.ids if table else []):
            slot = int.from_bytes(id_[:8], "big") * slots >> 64
            while table[slot] not in (0, ordinal + 1):
                slot = (slot + 1) % slots
            require(table[slot] != 0, f"{self.name}: {id_.hex()} is not in its slots")
        self.ordinals = {id_: ordinal for ordinal, id_ in enumerate(self.ids[: self.count])}
        require(len(self.ordinals) + len(self.gone) == count, f"{self.name}: an id twice")

    def read_table(self, table: bytes, end: int, blocks: int, expected: bytes) -> Iterator[Block]:
        """The blocks, which lie back to back from the ids to the table."""
        whole = len(table) == 20 * blocks and checksum("pack table", table) == expected
        require(whole, f"{self.name}: the table does not verify")
        at, next_, bases = self.frames_at, {GONE: self.count, PARTS: 0}, {-1: -1}
        for number, (holds, zero, objects, base, size, stored) in enumerate(BLOCK.iter_unpack(table)):
            key = holds if holds in next_ else 0
            first = next_.setdefault(key, 0)
            fits = zero == bytes(3) and (holds < len(KINDS) or holds in (GONE, PARTS)) and bases.get(base - 1, 2) < 2
            fits &= 1 <= objects <= min(size, 65536) and size <= min(16 << 20, stored << 16)
            fits &= holds != GONE or size == 34 * objects
            require(fits, f"{self.name}: block {number} cannot be")
            yield Block(at, holds, first, objects, base - 1, size, stored)
            bases[number] = bases[base - 1] + 1
            next_[key] += objects
            at += 120 + stored
        counts = next_.get(0, 0), next_[GONE], next_[PARTS], at
        require(counts == (self.count, len(self.ids), self.parts, end), f"{self.name}: blocks that do not add up")

    def numbered(self, *, part: bool) -> tuple[list[int], list[int]]:
        """The first object in each block of objects, or part in each of parts; and the numbers of these."""
        found = [(block.first, number) for number, block in enumerate(self.blocks) if block.holds != GONE]
        found = [(first, number) for first, number in found if (self.blocks[number].holds == PARTS) == part]
        return [first for first, _ in found], [number for _, number in found]

    @lru_cache(maxsize=16)
    def raw(self, number: int) -> bytes:
        """The raw bytes of a block."""
        block = self.blocks[number]
        where = f"{self.name}:{block.at}: block {number}"
        head, stored = self.data[block.at : block.at + 120], self.data[block.at + 120 : block.at + 120 + block.stored]
        require(head[88:] == checksum("pack frame header", head[:88]), f"{where}: its header does not verify")
        said = b"\x89TTB\r\n\x1a\n", self.salt, number, block.holds, bytes(3), block.first, block.objects
        said += (block.base + 1, block.size, block.stored, 0, checksum("pack frame", stored))
        require(FRAME.unpack(head[:88]) == said, f"{where}: its frame is another one")
        base = self.raw(block.base) if block.base >= 0 else b""
        prefix = zstandard.ZstdCompressionDict(base, zstandard.DICT_TYPE_RAWCONTENT) if base else None
        try:
            framed = zstandard.get_frame_parameters(stored).content_size
            require(framed == block.size, f"{where}: a frame of {framed} bytes")
            return zstandard.ZstdDecompressor(prefix).decompress(stored, allow_extra_data=False)
        except zstandard.ZstdError as error:
            raise Refused(f"{where}: {error}") from None

    @lru_cache(maxsize=16)
    def entries(self, number: int) -> list[tuple[int, int, bytes]]:
        """Form, size and body of each entry of a block."""
        raw, at, block = self.raw(number), 0, self.blocks[number]
        directory = []
        for _ in range(block.objects):
            word, at = varint(raw, at)
            size, at = varint(raw, at) if word % 4 else (word // 4, at)
            directory.append((word % 4, size, word // 4))
        found = []
        for form, size, stored in directory:
            found.append((form, size, raw[at : at + stored]))
            at += stored
        require(at == len(raw), f"{self.name}: block {number}: a directory that does not fit")
        return found

    def entry(self, position: int, *, part: bool) -> tuple[int, int, int, bytes]:
        """What the block of an object, or of a part, holds; and form, size and body of that."""
        firsts, numbers = self.firsts[part]
        at = bisect_right(firsts, position) - 1
        block = self.blocks[numbers[at]] if at >= 0 else None
        if block is None or position - block.first >= block.objects:
            raise Refused(f"{self.name}: no object or part {position}")
        return block.holds, *self.entries(numbers[at])[position - block.first]

    def objects(self) -> Iterator[tuple[bytes, int]]:
        """The id and the kind of each object."""
        for block in self.blocks:
            if block.holds < len(KINDS):
                yield from ((id_, block.holds) for id_ in self.ids[block.first : block.first + block.objects])

    def read(self, id_: bytes) -> bytes:
        """An object, verified."""
        kind, form, size, body = self.entry(self.ordinals[id_], part=False)
        where = f"{self.name}: object {id_.hex()}"
        known = form in (VERBATIM, CUT if kind == BLOB else LINKS)
        require(known and size <= MOST_BYTES[kind], f"{where}: of form {form} and {size} bytes")
        data = body
        if form == LINKS:
            data = self.with_links(body)
        elif form == CUT:
            data = b"".join(self.entry(part, part=True)[3] for part in varints(body))
        require(len(data) == size and object_id(kind, data) == id_, f"{where}: does not verify")
        return data

    def with_links(self, body: bytes) -> bytes:
        """A structured object, its ids put back."""
        links, at = varint(body, 0)
        pieces, previous = [], 0
        for _ in range(links):
            literal, at = varint(body, at)
            pieces.append(body[at : at + literal])
            distance, at = varint(body, at + literal)
            ordinal = previous + (-(distance + 1) // 2 if distance % 2 else distance // 2)
            require(0 <= ordinal < len(self.ids), f"{self.name}: a link to {ordinal}")
            pieces.append(self.ids[ordinal])
            previous = ordinal + 1
        return b"".join([*pieces, body[at:]])

    def verify_frames(self) -> None:
        """Checks that the frames are those that the footer names."""
        sums = b"".join(self.data[block.at + 88 : block.at + 120] for block in self.blocks)
        require(checksum("pack frames", sums) == self.frames_sum, f"{self.name}: frames that the footer does not name")
        for number in range(len(self.blocks)):
            self.raw(number)


def varint(data: bytes, at: int) -> tuple[int, int]:
    """The varint at an offset, and the offset behind it."""
    value = 0
    for shift in range(0, 63, 7):
        require(at < len(data), "a number without an end")
        value |= (data[at] & 127) << shift
        at += 1
        if data[at - 1] < 128:
            return value, at
    raise Refused("a number of more than 63 bits")


def varints(data: bytes) -> Iterator[int]:
    """All of them."""
    at = 0
    while at < len(data):
        value, at = varint(data, at)
        yield value
