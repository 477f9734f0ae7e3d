"""Long-term memory of LangGraph: ``TurntreeStore``, which ``turntree.langgraph`` offers."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timezone
from os import PathLike
from typing import Any

from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
)

from turntree import Conflict, Snapshot, Store
from turntree._adapter import AdapterStore
from turntree._json import from_json, to_json
from turntree._names import parts_of, quote, session_name

#: How often items are put again when others are faster.
MAX_ATTEMPTS = 1000

#: The session of a store's long-term memory.
MEMORY = "langgraph-store"


class TurntreeStore(BaseStore):
    """Long-term memory of graphs in the turntree store at ``store``: every item is an entry of the section
    ``memory`` of the session ``session``. There is no index of vectors: a search with a query returns the
    items that have a word of it, the best first, with the score of BM25."""

    def __init__(self, store: Store | str | PathLike[str], *, session: str = MEMORY) -> None:
        self._adapter = AdapterStore(store, "langgraph")
        self.store = self._adapter.store
        self.session = session_name(session)

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        wanted = list(ops)
        puts = [op for op in wanted if isinstance(op, PutOp)]
        snapshot = self.store.newest(self.session)
        results = [None if isinstance(op, PutOp) else _answer(snapshot, op) for op in wanted]
        if puts:
            self._put(puts)
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        wanted = list(ops)
        return await self._adapter.run(lambda: self.batch(wanted))

    def close(self) -> None:
        """Waits for calls that run, and closes the store unless it was passed in as a ``Store``."""
        self._adapter.close()

    def _put(self, puts: Sequence[PutOp]) -> None:
        now = datetime.now(timezone.utc).isoformat()
        for _ in range(MAX_ATTEMPTS):
            snapshot = self.store.newest(self.session)
            tip = snapshot.id if snapshot else None
            change = self.store.begin(self.session, f"{len(puts)} items", expect=tip)
            for op in puts:
                key = _item_key(op.namespace, op.key)
                if op.value is None:
                    change.remove("memory", key)
                    continue
                old = snapshot.get("memory", key) if snapshot else None
                created = from_json(old)["created_at"] if old else now
                stored = {"value": op.value, "created_at": created, "updated_at": now}
                change.put("memory", key, to_json(stored))
            try:
                change.commit()
                return
            except Conflict:
                continue
        raise Conflict("others are always faster on the long-term memory")


def _answer(snapshot: Snapshot | None, op: Op) -> Result:
    if isinstance(op, GetOp):
        stored = snapshot.get("memory", _item_key(op.namespace, op.key)) if snapshot else None
        return Item(**_item_of(op.namespace, op.key, stored)) if stored else None
    if isinstance(op, SearchOp):
        return _search(snapshot, op) if snapshot else []
    if isinstance(op, ListNamespacesOp):
        return _list_namespaces(snapshot, op) if snapshot else []
    raise ValueError(f"unknown operation: {type(op)}")


def _search(snapshot: Snapshot, op: SearchOp) -> list[SearchItem]:
    found = []
    for key, stored in snapshot.scan("memory", _namespace_prefix(op.namespace_prefix)):
        namespace, name = _item_name(key)
        item = SearchItem(**_item_of(namespace, name, stored), score=None)
        if all(
            _matches(item.value.get(field), wanted) for field, wanted in (op.filter or {}).items()
        ):
            found.append(item)
    if op.query and op.query.strip():
        found = _ranked(found, op.query)
    return found[op.offset : op.offset + op.limit]


def _ranked(items: list[SearchItem], query: str) -> list[SearchItem]:
    """The items that have a word of the query, by BM25 with its usual parameters 1.2 and 0.75."""
    words = set(_words(query))
    counts = [Counter(_words(item.value)) for item in items]
    lengths = [count.total() for count in counts]
    usual = sum(lengths) / max(1, len(lengths)) or 1
    holders = {word: sum(word in count for count in counts) for word in words}
    for item, count, length in zip(items, counts, lengths):
        score = 0.0
        for word in words & count.keys():
            rarity = math.log(1 + (len(items) - holders[word] + 0.5) / (holders[word] + 0.5))
            times = count[word]
            score += rarity * times * 2.2 / (times + 1.2 * (0.25 + 0.75 * length / usual))
        item.score = score or None
    found = [item for item in items if item.score is not None]
    return sorted(found, key=lambda item: item.score or 0, reverse=True)


def _words(value: Any) -> list[str]:
    """The words of all texts in a value."""
    if isinstance(value, str):
        return re.findall(r"\w+", value.casefold())
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, (list, tuple)):
        return [str(value)] if isinstance(value, (int, float)) else []
    return [word for part in value for word in _words(part)]


_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "$eq": lambda value, wanted: bool(value == wanted),
    "$ne": lambda value, wanted: bool(value != wanted),
    "$gt": lambda value, wanted: value is not None and float(value) > float(wanted),
    "$gte": lambda value, wanted: value is not None and float(value) >= float(wanted),
    "$lt": lambda value, wanted: value is not None and float(value) < float(wanted),
    "$lte": lambda value, wanted: value is not None and float(value) <= float(wanted),
}


def _matches(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, dict) and any(name.startswith("$") for name in wanted):
        if unknown := [name for name in wanted if name not in _OPERATORS]:
            raise ValueError(f"unknown operator: {unknown[0]}")
        return all(_OPERATORS[name](value, operand) for name, operand in wanted.items())
    return bool(value == wanted)


def _list_namespaces(snapshot: Snapshot, op: ListNamespacesOp) -> list[tuple[str, ...]]:
    names = {_item_name(key)[0] for key in snapshot.keys("memory")}
    conditions = op.match_conditions or ()
    found = {name for name in names if all(_fits(name, condition) for condition in conditions)}
    if op.max_depth is not None:
        found = {name[: op.max_depth] for name in found}
    return sorted(found)[op.offset : op.offset + op.limit]


def _fits(namespace: tuple[str, ...], condition: MatchCondition) -> bool:
    path = condition.path
    if len(path) > len(namespace):
        return False
    if condition.match_type == "prefix":
        part = namespace[: len(path)]
    else:
        part = namespace[len(namespace) - len(path) :]
    return all(wanted in ("*", name) for wanted, name in zip(path, part))


def _namespace_prefix(namespace: tuple[str, ...]) -> str:
    return "".join(f"{quote(part)}/" for part in namespace)


def _item_key(namespace: tuple[str, ...], key: str) -> str:
    return f"{_namespace_prefix(namespace)}#{quote(key)}"


def _item_name(stored_key: str) -> tuple[tuple[str, ...], str]:
    *namespace, name = stored_key.split("/")
    return tuple(parts_of(part)[0] for part in namespace), parts_of(name[1:])[0]


def _item_of(namespace: tuple[str, ...], key: str, stored: bytes) -> dict[str, Any]:
    fields = from_json(stored)
    return {
        "namespace": namespace,
        "key": key,
        "value": fields["value"],
        "created_at": datetime.fromisoformat(fields["created_at"]),
        "updated_at": datetime.fromisoformat(fields["updated_at"]),
    }
