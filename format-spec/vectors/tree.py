#!/usr/bin/env python3
"""Builds the trees of tree.json by what tree.md says, and compares their roots.

It needs the packages blake3 and cbor2.
"""

import json
import sys
from collections import namedtuple
from itertools import groupby
from os.path import commonprefix
from pathlib import Path

import cbor2
from blake3 import blake3

HERE = Path(__file__).parent
NODE = 1
NODE_KEY = blake3(derive_key_context="turntree v1 node").digest()
Entry = namedtuple("Entry", "id kind meta items key")


def thresholds(tree: str) -> list[int]:
    """The table of the page, with a last entry that is always a boundary."""
    page = (HERE.parent / "tree.md").read_text(encoding="utf-8")
    table = page.split(f"```text {tree} thresholds")[1].split("```")[0]
    return [*map(int, table.split()), 1 << 32]


THRESHOLDS = thresholds("list"), thresholds("map")


def item(place: int) -> Entry:
    """An item by the rule in tree.json."""
    kind, meta = 0 if place % 5 else NODE, b"\x07" * (place // 4 % 3)
    key = f"src/{place % 7}/file-{place:05}.rs".encode()
    return Entry(blake3(f"item {place}".encode()).digest(), kind, meta, 1, key)


def boundaries(entries: list[Entry], level: int, is_map: bool) -> list[int]:
    """Where closed nodes end: behind each boundary."""
    at, ends, start = 4 * (level % 8), [], 0
    for place, entry in enumerate(entries):
        digest = blake3(entry.key).digest() if is_map else entry.id
        word = int.from_bytes(digest[at : at + 4], "little")
        if word < THRESHOLDS[is_map][place - start]:
            start = place + 1
            ends.append(start)
    return ends


def columns(run: list[Entry], level: int, is_map: bool) -> list:
    """A run as it is written."""
    found = [b"".join(entry.id for entry in run)]
    if level:
        found.append([entry.items for entry in run])
    else:
        kinds = bytes(entry.kind for entry in run)
        metas = [(len(list(equal)), meta) for meta, equal in groupby(entry.meta for entry in run)]
        found += [kinds if any(kinds) else b"", [part for stretch in metas for part in stretch]]
    if is_map:
        keys, last = [], b""
        for entry in run:
            shared = len(commonprefix([last, entry.key]))
            keys += [shared, entry.key[shared:]]
            last = entry.key
        found.append(keys)
    return found


def root(items: list[Entry], is_map: bool) -> bytes:
    """The bytes of the root of a tree."""
    runs, entries = [], items
    while not runs or entries:
        level, nodes, start = len(runs), [], 0
        for end in boundaries(entries, level, is_map):
            run, start = entries[start:end], end
            data = cbor2.dumps([1 + 2 * is_map, level, columns(run, level, is_map)])
            id_ = blake3(data, key=NODE_KEY).digest()
            nodes.append(Entry(id_, NODE, b"", sum(entry.items for entry in run), run[-1].key))
        runs.append(columns(entries[start:], level, is_map))
        entries = nodes
    return cbor2.dumps([2 * is_map, runs])


def main() -> int:
    """Compares all of them; the exit status is 1 if one differs."""
    vectors = json.loads((HERE / "tree.json").read_text(encoding="utf-8"))["vectors"]
    wrong = 0
    for vector in vectors:
        count, is_map = vector["items"], vector["tree"] == "map"
        items = [item(1 if vector["tree"] == "repeated" else place) for place in range(count)]
        data = root(sorted(items, key=lambda entry: entry.key) if is_map else items, is_map)
        same = blake3(data, key=NODE_KEY).hexdigest() == vector["root"]
        same &= data.hex() == vector.get("bytes", data.hex())
        print("same" if same else "OTHER", vector["tree"], count)
        wrong += not same
    return 1 if wrong or not vectors else 0


if __name__ == "__main__":
    sys.exit(main())
