"""Objects and trees of format version 1: bytes in, values out; written from object.md and tree.md.

It needs the package `blake3`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from blake3 import blake3


class Refused(Exception):
    """Bytes that the pages do not allow; the message names the place."""


def require(condition: object, message: str) -> None:
    """Refuses the bytes at hand unless the condition holds."""
    if not condition:
        raise Refused(message)


# ---- object.md

BLOB, NODE, COMMIT, TAG, OPERATION = range(5)
KINDS = ("blob", "node", "commit", "tag", "operation")
KEYS = [blake3(b"", derive_key_context=f"turntree v1 {kind}").digest() for kind in KINDS]
MOST_BYTES = [2 << 30] + [4 << 20] * 4


def object_id(kind: int, data: bytes) -> bytes:
    """The id of an object."""
    return (blake3(data, key=KEYS[kind]) if kind else blake3(data)).digest()


def checksum(what: str, data: bytes) -> bytes:
    """The checksum of a part of a file."""
    return blake3(data, derive_key_context=f"turntree v1 {what}").digest()


class Cbor:
    """A cursor over canonical CBOR that accepts only the bytes that a writer would write."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, count: int) -> bytes:
        """The next bytes, which must be there."""
        require(count <= len(self.data) - self.at, f"CBOR ends early at byte {self.at}")
        self.at += count
        return self.data[self.at - count : self.at]

    def head(self, major: int) -> int:
        """The argument of the next item, of this major type and in its shortest form."""
        at, first = self.at, self.take(1)[0]
        short = first & 31
        require(first >> 5 == major and short < 28, f"CBOR head {first:#04x} at byte {at}, not of type {major}")
        if short < 24:
            return short
        width = 1 << (short - 24)
        value = int.from_bytes(self.take(width), "big")
        require(value >= (24 if width == 1 else 1 << (4 * width)), f"CBOR head too long at byte {at}")
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
        try:
            return self.take(self.head(3)).decode()
        except UnicodeDecodeError:
            raise Refused(f"text that is not UTF-8 before byte {self.at}") from None

    def ids(self, most: int) -> list[bytes]:
        """Ids back to back."""
        found = self.string()
        require(len(found) % 32 == 0 and len(found) <= 32 * most, f"{len(found)} bytes of ids before byte {self.at}")
        return [found[at : at + 32] for at in range(0, len(found), 32)]

    def id(self) -> bytes:
        """One id."""
        found = self.ids(1)
        require(found, f"no id before byte {self.at}")
        return found[0]

    def array(self, *readers: Callable[[Cbor], Any]) -> list[Any]:
        """An array of fixed length, an item by each reader."""
        length = self.head(4)
        require(length == len(readers), f"CBOR array of {length}, not {len(readers)}, before byte {self.at}")
        return [read(self) for read in readers]

    def groups(self, width: int, most: int) -> range:
        """The head of an array of groups of so many items; a number for each group."""
        length = self.head(4)
        require(length % width == 0 and length <= width * most, f"CBOR array of {length} before byte {self.at}")
        return range(length // width)

    def table(self, most: int, *readers: Callable[[Cbor], Any]) -> dict[str, list[Any]]:
        """An array of name, values, name, values, ... with names that rise by bytes."""
        found: dict[str, list[Any]] = {}
        last = None
        for _ in self.groups(1 + len(readers), most):
            name = self.text()
            require(last is None or last < name.encode(), f"{name!r} does not rise")
            found[name], last = [read(self) for read in readers], name.encode()
        return found

    def value(self) -> bytes | str | None:
        """The value of a ref: an id, the name of another ref, or none."""
        length = self.head(4)
        form = self.uint() if length else None
        require((length, form) in ((0, None), (2, 0), (2, 1)), f"not a value of a ref before byte {self.at}")
        return None if form is None else (self.id, self.text)[form]()

    def structure(
        self, later: dict[str, Callable[[Cbor], Any]] | None = None, **fields: Callable[[Cbor], Any]
    ) -> SimpleNamespace:
        """A whole structure of version 1, a field by each reader, or of version 2, which has the later ones too."""
        length, version = self.head(4), self.uint()
        versions = [fields] if later is None else [fields, fields | later]
        require(version <= len(versions), f"structure of version {version}, which is not supported")
        fits = version > 0 and length == 1 + len(versions[version - 1])
        require(fits, f"structure of {length} fields, version {version}")
        found = SimpleNamespace(**{name: read(self) for name, read in versions[version - 1].items()})
        self.end()
        return found

    def end(self) -> None:
        """Refuses bytes after the end."""
        require(self.at == len(self.data), f"bytes after the end at byte {self.at}")


def decode_commit(data: bytes) -> SimpleNamespace:
    """A commit."""
    return Cbor(data).structure(
        tree=Cbor.id,
        parents=lambda cbor: cbor.ids(1024),
        session=Cbor.text,
        turn=Cbor.uint,
        author=lambda cbor: cbor.array(Cbor.text, Cbor.text),
        time=lambda cbor: cbor.array(Cbor.signed, Cbor.signed),
        trigger=Cbor.text,
        message=Cbor.text,
        metadata=lambda cbor: cbor.table(4096, Cbor.text),
    )


def decode_tag(data: bytes) -> SimpleNamespace:
    """A tag; one of version 2 expires."""
    return Cbor(data).structure(
        {"expires": Cbor.signed},
        target=Cbor.id,
        kind=Cbor.uint,
        name=Cbor.text,
        tagger=Cbor.text,
        micros=Cbor.signed,
        message=Cbor.text,
    )


def decode_operation(data: bytes) -> SimpleNamespace:
    """An operation."""
    return Cbor(data).structure(
        parents=lambda cbor: cbor.ids(64),
        sequence=Cbor.uint,
        micros=Cbor.signed,
        actor=Cbor.text,
        reason=Cbor.text,
        changes=lambda cbor: cbor.table(65536, Cbor.value, Cbor.value),
    )


# ---- tree.md


def thresholds(tree: str) -> list[int]:
    """The table of the page, and a last entry that always ends a node."""
    page = Path(__file__).with_name("tree.md").read_text(encoding="utf-8")
    return [int(n) for n in page.split(f"```text {tree} thresholds")[1].split("```")[0].split()] + [1 << 32]


THRESHOLDS = thresholds("list"), thresholds("map")


class Entry(NamedTuple):
    """An element of a level: an item at level 0, above it a reference to a node."""

    id: bytes
    kind: int
    meta: bytes
    items: int
    key: bytes


def read_metas(cbor: Cbor, entries: int) -> list[bytes]:
    """The meta of each entry, from stretches of equal ones."""
    metas: list[bytes] = []
    for _ in cbor.groups(2, entries):
        stretch, meta = cbor.uint(), cbor.string()
        require(0 < stretch <= entries - len(metas) and len(meta) <= 1024, "metas that cannot be")
        require(not metas or metas[-1] != meta, "two stretches of equal metas")
        metas += [meta] * stretch
    require(len(metas) == entries, f"{len(metas)} metas for {entries} entries")
    return metas


def read_keys(cbor: Cbor, entries: int) -> list[bytes]:
    """The key of each entry, from shared lengths and rests."""
    keys, last = [], b""
    for _ in cbor.groups(2, entries):
        shared, rest = cbor.uint(), cbor.string()
        require(rest and shared <= len(last) and shared + len(rest) <= 4096, "a key that cannot be")
        require(shared == len(last) or rest[0] > last[shared], "a key that does not rise")
        keys.append(last := last[:shared] + rest)
    require(len(keys) == entries, f"{len(keys)} keys for {entries} entries")
    return keys


def read_run(cbor: Cbor, is_map: bool, level: int) -> list[Entry]:
    """The entries of a run."""
    columns = cbor.head(4)
    require(columns == (2 if level else 3) + is_map, f"a run of {columns} columns")
    ids = cbor.ids(len(THRESHOLDS[is_map]))
    kinds, metas, counts, keys = [NODE] * len(ids), [b""] * len(ids), [1] * len(ids), [b""] * len(ids)
    if level:
        counts = cbor.array(*[Cbor.uint] * len(ids))
        require(0 not in counts, "a count of 0")
    else:
        column = cbor.string()
        require(not column or len(column) == len(ids) and 0 < max(column) < len(KINDS), "kinds that cannot be")
        kinds, metas = list(column or bytes(len(ids))), read_metas(cbor, len(ids))
    if is_map:
        keys = read_keys(cbor, len(ids))
    return [Entry(*fields) for fields in zip(ids, kinds, metas, counts, keys, strict=True)]


def boundaries(run: list[Entry], is_map: bool, level: int) -> list[int]:
    """The places of the boundaries in a run."""
    at, n, found = 4 * (level % 8), 0, []
    for place, entry in enumerate(run):
        digest = blake3(entry.key).digest() if is_map else entry.id
        ends = int.from_bytes(digest[at : at + 4], "little") < THRESHOLDS[is_map][n]
        n = 0 if ends else n + 1
        found += [place] if ends else []
    return found


def decode_root(data: bytes) -> tuple[bool, list[list[Entry]]]:
    """Whether the root of a tree is a map, and its unfinished runs from level 0 up."""
    cbor = Cbor(data)
    fields, form = cbor.head(4), cbor.uint()
    require(form in (0, 2) and fields == 2, f"no root: form {form}")
    is_map = form == 2
    runs = [read_run(cbor, is_map, level) for level in cbor.groups(1, 16)]
    cbor.end()
    require(runs and (runs[-1] or len(runs) == 1), "an empty run at the top")
    require(not any(boundaries(run, is_map, level) for level, run in enumerate(runs)), "a boundary in a root")
    require(sum(entry.items for run in runs for entry in run) <= 1 << 48, "too many items")
    return is_map, runs


def decode_node(data: bytes) -> tuple[bool, int, list[Entry]]:
    """Whether a closed node is of a map, its level, and its run."""
    cbor = Cbor(data)
    fields, form, level = cbor.head(4), cbor.uint(), cbor.uint()
    require(form in (1, 3) and fields == 3 and level <= 14, f"no closed node: form {form}, level {level}")
    run = read_run(cbor, form == 3, level)
    cbor.end()
    require(boundaries(run, form == 3, level) == [len(run) - 1], "a node that does not end at its one boundary")
    return form == 3, level, run
