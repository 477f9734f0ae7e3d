"""How a thread of LangGraph is stored: the sections of its session, their keys, and lists as places."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

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


def places_in(stored: bytes) -> Iterator[int]:
    kind, _, body = stored.partition(b"\0")
    if kind in (LIST, DELTA):
        for start, stop in json.loads(body):
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


def parent_in(record: bytes) -> str | None:
    parent: str | None = json.loads(record.partition(b"\n")[0])[3]
    return parent
