#!/usr/bin/env python3
"""Opens a bundle for reader.py beside it; written from bundle.md, pack.md and parity.md alone.

    bundle.py FILE    each operation that it tells of, and below it what refs held before and after
"""

import json
import re
import struct
import sys
from collections.abc import Callable
from pathlib import Path

import cbor2
import reader
from blake3 import blake3
from reader import BLOB, COMMIT, GONE, KEYS, KINDS, MAGIC, NODE, PARTS, REASONS, TAG
from reader import checksum, decode, decompress, in_turn, require, require_sum, signed, split

FOOTER = struct.Struct("<8sIIIIIIQQQQ32s32s32s")
OUTSIDE = {0: "required", **REASONS, 3: "forgotten"}
BAD_NAME = r"[\0- \x7f-\x9f\s~^:?*[\\]|\.\.|@\{|(^|/)[.-]|\.(lock)?(/|$)|//|/$|^/|^@?$"


def without_parity(data: bytes) -> bytes:
    """What lies in front of the parity, as any unit of it says."""
    at = len(data) - 68
    while (at := data.rfind(MAGIC % b"R", 0, at + 7)) >= 0:
        version, shard, content = struct.unpack_from("<IIQ", data, at + 8)
        head, rest = data[at : at + 52], data[at + 52 : at + 68 + min(shard, 1 << 20)]
        if version == 1 and rest[:16] == checksum("parity unit", head + rest[16:])[:16]:
            return data[:content]
    return data


class Ids(list):
    """Ids by their ordinals; of what is not whole, or not read yet, there is none."""

    def __getitem__(self, ordinal: int) -> bytes:
        id_ = super().__getitem__(ordinal) if ordinal >= 0 else None
        require(id_, "objects that name what is not whole")
        return id_


def identify(pack: reader.Pack, objects: list[tuple[int, int]]) -> list[bytes]:
    """Finds the ids of a pack that lists none; returns what is said of the gone ones."""
    gone = b"".join(pack.raw(number) for number, it in enumerate(pack.blocks) if it[1] == GONE)
    pack.ids = Ids([None] * len(objects) + [note[2:] for note in split(gone, 34)])
    left, before = list(range(len(objects))), None
    while left and len(left) != before:
        before, left, waiting = len(left), [], left[::-1]  # to and fro: each needs what it names
        for ordinal in waiting:
            try:
                kind, data = pack.read(None, objects[ordinal])
                pack.ids[ordinal] = hashed(kind, data)
            except reader.DAMAGE:
                left.append(ordinal)
    require(not left, f"{len(left)} of its objects cannot be identified")
    pack.ids = list(pack.ids)
    return [note[:2] for note in split(gone, 34)]


def hashed(kind: int, data: bytes) -> bytes:
    """The id of an object."""
    return (blake3(data, key=KEYS[kind]) if kind else blake3(data)).digest()


class Bundle(reader.Pack):
    """A bundle: a pack whose ids follow from its objects, with refs and operations."""

    def __init__(self, path: Path, attempt: Callable) -> None:
        self.name, self.data = path.name, path.read_bytes()
        self.data = without_parity(self.data)
        how = f"head -c {len(self.data)} {self.name} | age --decrypt > another.bundle"
        require(not self.data.startswith(b"age-encryption.org/"), f"it is encrypted: {how}")
        foot = len(self.data) - 192
        (
            magic, version, count, outside, parts, blocks, told, front, size, table, told_size,
            front_sum, table_sum, frames_sum,
        ) = FOOTER.unpack(self.data[foot : foot + 160])  # fmt: skip
        require((magic, version) == (MAGIC % b"E", 1), "not the end of a bundle")
        self.salt, told_at = front_sum[:16], front + 34 * outside
        require_sum("bundle footer", self.data[foot + 160 :], self.data[foot : foot + 160])
        require_sum("bundle front", front_sum, self.data[: told_at + told])
        require_sum("pack table", table_sum, self.data[table:foot])
        lines, _, text = self.data[:front].decode().partition("\n{")
        self.manifest = json.loads("{" + text)
        printed = json.dumps(self.manifest, indent=2, ensure_ascii=False) + "\n\n"
        first, *recipe = lines.split("\n")
        fits = "{" + text == printed and first == "turntree bundle 2" and recipe != []
        require(fits and all(line.startswith("#") for line in recipe), "another front")
        notes = split(self.data[front:told_at], 34)
        self.gone = {note[2:]: (note[0], OUTSIDE[note[1]]) for note in notes}
        require(len(self.gone) == outside == self.manifest["outside"], "other ids outside")
        said = blocks, parts, count, table
        objects = self.take_table(told_at + told, self.data[table:foot], said)
        self.places, self.ids = {}, Ids([None] * count + [note[2:] for note in notes])
        for number, (_at, holds, first, entries, *_) in enumerate(self.blocks):
            if holds != PARTS and attempt(self.name, self.entries, number):
                for ordinal in range(first, first + entries):
                    size -= attempt(self.name, self.take, ordinal, *objects[ordinal]) or 0
        heads = b"".join(self.data[block[0] + 88 : block[0] + 120] for block in self.blocks)
        attempt(self.name, require_sum, "pack frames", frames_sum, heads)
        attempt(self.name, require, size == 0, "objects are missing, or too large")
        needed = {known["commit"] for known in self.manifest["prerequisites"]}
        for name, value in self.manifest["refs"].items():
            number, _ = self.places.get(bytes.fromhex(value["id"]), (None, None))
            kind = COMMIT if value["id"] in needed else BLOB
            kind = kind if number is None else self.blocks[number][1]
            attempt(self.name, require, value["kind"] == KINDS[kind], f"{name} leads nowhere")
        told = told_at, told, told_size
        self.operations = attempt(self.name, self.read_operations, *told) or []

    def take(self, ordinal: int, number: int, place: int) -> int:
        """Takes an object in, whose id follows from its bytes; returns how many these are."""
        kind, data = self.read(None, (number, place))
        id_ = hashed(kind, data)
        may_be = OUTSIDE.values() if kind == COMMIT else ["required"]
        require(id_ not in self.places and id_ not in self.gone, f"{id_.hex()} is twice")
        self.ids[ordinal], self.places[id_] = id_, (number, place)
        for link in links(kind, data) if kind else []:
            known = link in self.places or self.gone.get(link, [0, 0])[1] in may_be
            require(known, f"{KINDS[kind]} {id_.hex()} names what is not whole")
        return len(data)

    def read_operations(self, at: int, stored: int, size: int) -> list[tuple]:
        """What was done to the refs: about each operation, and what refs held before and after."""
        require(size <= 16 << 20, "too many operations")
        data = decompress(self.data[at : at + stored], size)
        abandoned, flat = value = cbor2.loads(data)
        require(cbor2.dumps(value) == data, "operations that are not canonical")
        fresh = split(abandoned, 8)
        require(len(abandoned) % 8 == 0 and len(set(fresh)) == len(fresh), "how no id begins")
        kinds = [block[1] for block in self.blocks if block[1] != PARTS for _ in range(block[3])]
        kinds += [kind for kind, _ in self.gone.values()] + [COMMIT] * len(fresh)
        heads = filter(re.compile("refs/heads/").match, self.manifest["refs"])
        sessions = {name.split("/")[2] for name in heads}
        ids, seen, held, told, sequence, micros = [*self.ids, *fresh], len(self.ids), {}, [], 0, 0
        for step, pause, actor, reason, undoes, changes in in_turn(flat, 6):
            sequence, micros, changed = sequence + step, micros + signed(pause), []
            micros = (micros + (1 << 63)) % (1 << 64) - (1 << 63)
            fits = step > 0 and sequence < 1 << 64 and undoes <= sequence
            require(fits and isinstance(actor, str) and isinstance(reason, str), "an operation")
            for name, *steps in in_turn(changes, 3):
                place, values = held.get(name, 0), []
                for distance in steps:
                    place += signed(distance)
                    fits = 0 <= place <= min(seen + 1, len(ids))
                    require(fits and (not place or kinds[place - 1] in (COMMIT, TAG)), "a place")
                    seen = max(seen, place)
                    values.append((ids[place - 1] or b"").hex() if place else None)
                held[name] = place
                changed.append((name, *values))
                kind, _, rest = name[5:].partition("/")
                fits = name[:5] == "refs/" and kind in ("heads", "tags", "pins")
                fits &= not re.search(BAD_NAME, rest) and len(rest.encode()) <= 255
                own = kind != "heads" or rest.split("/")[0] in sessions
                require(fits and own, "a ref of another session")
            names = [name for name, *_ in changed]
            require(names and names == sorted(set(names), key=str.encode), "names in disorder")
            undone = sequence - undoes if undoes else None
            told.append(((sequence, micros, actor, reason, undone), changed))
        counts = seen, len(told)
        require(counts == (len(ids), self.manifest["operations"]), "other operations")
        return told


def links(kind: int, data: bytes) -> list[bytes]:
    """The ids that a node, a commit or a tag names."""
    value = decode(kind, data)
    if kind == NODE:
        return [id_ for run in (value[2:] or value[1]) for id_ in split(run[0])]
    return [value.target] if kind == TAG else [value.tree, *split(value.parents)]


def load(store: reader.Store) -> None:
    """Fills a store with what is in a bundle."""
    bundle = Bundle(store.folder, store.attempt)
    store.sources, store.known = [bundle], dict.fromkeys(bundle.places) | bundle.gone
    refs, grafts = bundle.manifest["refs"], bundle.manifest["grafts"]
    store.refs = {name: (0, bytes.fromhex(value["id"])) for name, value in refs.items()}
    store.grafts = {graft["forgotten"]: graft["next"] or "" for graft in grafts}
    branches = sorted(name for name in refs if name.startswith("refs/heads/"))
    mains = [name for name in branches if name.endswith("/main")]
    store.refs |= {"HEAD": (1, name) for name in [*mains, *branches][:1]}


def main(path: str) -> str | int:
    """Prints the operations, and returns what was damaged, or 0."""
    damage: list[str] = []
    try:
        store = reader.Store(Path(path), damage)
        for about, changes in store.sources[0].operations:
            print(*about, sep="\t")
            for change in changes:
                print("", *change, sep="\t")
    except reader.DAMAGE as error:
        damage.append(str(error))
    return "\n".join(dict.fromkeys(damage)) or 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]) if sys.argv[1:] else __doc__)
