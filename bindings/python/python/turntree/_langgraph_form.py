"""How a thread of LangGraph is stored: the sections of its session, their keys, and lists as places."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from turntree import Snapshot
from turntree._langgraph_items import ranges_of
from turntree._names import parts_of, quote

CHECKPOINTS = "langgraph-checkpoints"
WRITES = "langgraph-writes"
VALUES = "langgraph-values"
ITEMS = "langgraph-items"

#: Values that are lists: kind, then the ranges of their items. The second is a snapshot of a delta channel.
LIST, DELTA = b"list", b"delta"

#: Entries that a scan reads at once.
PAGE = 64

_PLAIN_NS = frozenset("-_.:|=,")


def checkpoint_key(ns: str, id: str) -> str:
    return f"{quote(ns, _PLAIN_NS)}/{quote(id)}"


def ns_of(key: str) -> str:
    return parts_of(key.partition("/")[0])[0]


def value_key(ns: str, channel: str, version: str | int | float) -> str:
    # By version, so that what a step changes lies together.
    return f"{quote(ns, _PLAIN_NS)}/{quote(str(version))}/{quote(channel, _PLAIN_NS)}"


def namespaces_of(snapshot: Snapshot) -> list[str]:
    """The namespaces that have a checkpoint. Looks once for each."""
    found: list[str] = []
    after: str | None = None
    while keys := snapshot.keys(CHECKPOINTS, after=after, limit=1):
        found.append(ns_of(keys[0]))
        # The key behind all of this namespace: 0 follows the slash.
        after = keys[0].partition("/")[0] + "0"
    return found


def records_in(
    snapshot: Snapshot, thread: str, ns: str, below: str | None, wanted: str | None
) -> Iterator[tuple[str, Snapshot, str, str, bytes]]:
    if wanted:
        record = snapshot.get(CHECKPOINTS, checkpoint_key(ns, wanted))
        if record is not None and (below is None or wanted < below):
            yield wanted, snapshot, thread, ns, record
        return
    after = checkpoint_key(ns, below) if below else None
    while page := snapshot.scan(
        CHECKPOINTS, checkpoint_key(ns, ""), after=after, reverse=True, limit=PAGE
    ):
        for key, record in page:
            yield parts_of(key.rpartition("/")[2])[0], snapshot, thread, ns, record
        after = page[-1][0]


class Backwards:
    """Reads a section from new checkpoints to older ones, a page at a time: the ancestors of a checkpoint
    mostly lie next to each other."""

    def __init__(self, snapshot: Snapshot, section: str, ns: str) -> None:
        self._snapshot = snapshot
        self._section = section
        self._prefix = checkpoint_key(ns, "")
        self._entries: dict[str, list[tuple[str, bytes]]] = {}
        #: From the oldest to the newest checkpoint whose entries were read.
        self._oldest, self._newest = "1", "0"

    def of(self, checkpoint: str) -> list[tuple[str, bytes]]:
        """The entries of the checkpoint with this key, in order of their keys."""
        if not self._oldest <= checkpoint <= self._newest:
            self._read(checkpoint)
        return self._entries.get(checkpoint, [])

    def _read(self, newest: str) -> None:
        # 0 follows the slash after the key of the checkpoint.
        page = self._snapshot.scan(
            self._section, self._prefix, after=newest + "0", reverse=True, limit=PAGE
        )
        entries: dict[str, list[tuple[str, bytes]]] = {}
        for key, stored in reversed(page):
            entries.setdefault("/".join(key.split("/", 2)[:2]), []).append((key, stored))
        self._oldest, self._newest = "", newest
        if len(page) == PAGE:
            # The page may end within the writes of a checkpoint.
            entries.pop(next(iter(entries)))
            if not entries:
                entries[newest] = self._snapshot.scan(self._section, newest + "/")
            self._oldest = next(iter(entries))
        self._entries = entries


def places_in(stored: bytes) -> Iterator[int]:
    kind, _, body = stored.partition(b"\0")
    if kind in (LIST, DELTA):
        for start, stop in json.loads(body.decode()):
            yield from range(start, stop)


def shifted(stored: bytes, place_of: Callable[[int], int]) -> bytes:
    """A stored value whose items have moved."""
    kind = stored.partition(b"\0")[0]
    if kind not in (LIST, DELTA):
        return stored
    return packed_places(kind, ranges_of(place_of(place) for place in places_in(stored)))


def packed_places(kind: bytes, ranges: list[list[int]]) -> bytes:
    """A value that is a list, as the ranges of its items."""
    return kind + b"\0" + json.dumps(ranges, separators=(",", ":")).encode()


def head_of(stored: bytes) -> tuple[list[Any], bytes]:
    """The line of JSON at the beginning of a record or a write, and what follows it."""
    head, _, body = stored.partition(b"\n")
    # As text: the decoder looks for the encoding of bytes, which takes longer than a short line itself.
    return json.loads(head.decode()), body
