"""LangGraph on turntree: ``TurntreeSaver`` keeps checkpoints, ``TurntreeStore`` long-term memory.

A thread is a session, so ``turntree log``, ``diff`` and the page work on it. Everything that LangGraph
keeps is in four sections of the newest snapshot:

========================= ==== ====================================================================
``langgraph-checkpoints`` map  ``<ns>/<id>``: a checkpoint without its values, metadata, parent
``langgraph-writes``      map  ``<ns>/<id>/<task>/<idx>``: pending writes
``langgraph-values``      map  ``<ns>/<version>/<channel>``: a value, or the places of its items
``langgraph-items``       list items of lists, each one stored when it is new
========================= ==== ====================================================================

The channel ``messages`` of the root graph is also the conversation of the agent ``main``, and the channel
``files`` of deepagents the section ``files``.
"""

from __future__ import annotations

import asyncio
import builtins
import heapq
import json
import os
import random
import threading
from collections import OrderedDict
from collections.abc import (
    AsyncIterator,
    Callable,
    Container,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from functools import partial
from os import PathLike
from typing import Any

from langchain_core import messages as lc
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    PendingWrite,
    get_checkpoint_id,
    get_checkpoint_metadata,
    writes_sort_key,
)
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.serde.types import _DeltaSnapshot

from turntree import Conflict, Snapshot, Store, Transaction
from turntree._adapter import AdapterStore
from turntree._langgraph_copy import SharedItems, calls_of, config_at, place_of
from turntree._langgraph_form import (
    CHECKPOINTS,
    DELTA,
    ITEMS,
    LIST,
    VALUES,
    WRITES,
    Backwards,
    checkpoint_key,
    head_of,
    namespaces_of,
    ns_of,
    packed_places,
    places_in,
    records_in,
    shifted,
    value_key,
)
from turntree._langgraph_items import (
    SeenList,
    message_of,
    ranges_of,
    record_of,
    same_places,
    same_start,
)
from turntree._langgraph_view import Step, ThreadView
from turntree._langgraph_store import TurntreeStore
from turntree._names import parts_of, quote, session_name

__all__ = ["TurntreeSaver", "TurntreeStore"]

#: Threads whose newest lists are kept in memory.
MAX_THREADS = 64
#: How often a change is made again when others are faster.
MAX_ATTEMPTS = 1000

_SCALARS = (int, float, bool, type(None))


class _Thread:
    """What is known of a thread since its newest snapshot."""

    def __init__(self, tip: str | None, items: int) -> None:
        self.tip = tip
        self.items = items
        self.lists: dict[tuple[str, str], SeenList] = {}
        #: What the session shows; None before it was read.
        self.view: ThreadView | None = None
        #: Records of messages by their places, which this step stores and may show.
        self.records: dict[int, bytes] = {}


class TurntreeSaver(BaseCheckpointSaver[str]):
    """Keeps checkpoints in the turntree store at ``store``, which is made if nothing is there.

    A value that is a list is kept item by item, so a step costs what is new in it. Threads and processes
    may use one store at once. Every call is durable when it returns.

    With a ``serde`` of your own, such as one that encrypts, values are opaque: the thread has no
    conversation to show. Encryption of the whole store keeps both.
    """

    def __init__(
        self, store: Store | str | PathLike[str], *, serde: SerializerProtocol | None = None
    ) -> None:
        super().__init__(serde=serde)
        self._adapter = AdapterStore(store, "langgraph")
        self.store = self._adapter.store
        self._forget_all()

    def __enter__(self) -> TurntreeSaver:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> TurntreeSaver:
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.close)

    def close(self) -> None:
        """Waits for calls that run, and closes the store unless it was passed in as a ``Store``."""
        self._adapter.close()

    # Reading.

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        thread, ns = _thread_of(config), config["configurable"].get("checkpoint_ns", "")
        wanted = get_checkpoint_id(config)
        with self._locked(thread):
            snapshot = self.store.newest(session_name(thread))
            if snapshot is None:
                return None
            if wanted:
                found = snapshot.get(CHECKPOINTS, checkpoint_key(ns, wanted))
                record = (wanted, found) if found is not None else None
            else:
                newest = snapshot.scan(CHECKPOINTS, checkpoint_key(ns, ""), reverse=True, limit=1)
                record = (newest[0][0].rpartition("/")[2], newest[0][1]) if newest else None
            if record is None:
                return None
            state = self._state(thread, snapshot)
            return self._tuple(snapshot, thread, ns, *record, state=state)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        if limit is not None and limit <= 0:
            return
        wanted = get_checkpoint_id(config) if config else None
        threads = [_thread_of(config)] if config else self._thread_ids()
        ns = config["configurable"].get("checkpoint_ns") if config else None
        below = get_checkpoint_id(before) if before else None
        records = (self._records(thread, ns, below, wanted) for thread in threads)
        newest_first = heapq.merge(*records, key=lambda found: found[0], reverse=True)
        left = limit
        #: Older states mostly are beginnings of newer ones, whose items they share.
        states: dict[str, _Thread] = {}
        for id, snapshot, thread, found_ns, record in newest_first:
            if filter:
                metadata = self._parts(record)[1]
                if any(metadata.get(key) != value for key, value in filter.items()):
                    continue
            if thread not in states and len(states) == MAX_THREADS:
                states.clear()
            state = states.setdefault(thread, _Thread(snapshot.id, 0))
            yield self._tuple(snapshot, thread, found_ns, id, record, state)
            if left is not None:
                left -= 1
                if left == 0:
                    return

    def _thread_ids(self) -> Sequence[str]:
        return [parts[0] for name in self.store.sessions() if len(parts := parts_of(name)) == 1]

    def _records(
        self, thread: str, ns: str | None, below: str | None, wanted: str | None
    ) -> Iterator[tuple[str, Snapshot, str, str, bytes]]:
        """The checkpoints of a thread, newest first."""
        snapshot = self.store.newest(session_name(thread))
        if snapshot is None:
            return iter(())
        namespaces = namespaces_of(snapshot) if ns is None else [ns]
        of_each = (records_in(snapshot, thread, ns, below, wanted) for ns in namespaces)
        return heapq.merge(*of_each, key=lambda found: found[0], reverse=True)

    def _parts(self, record: bytes) -> tuple[Any, Any, str | None]:
        """The checkpoint, the metadata and the parent that a record has."""
        (kind, length, metadata_kind, parent), body = head_of(record)
        checkpoint = self.serde.loads_typed((kind, body[:length]))
        return checkpoint, self.serde.loads_typed((metadata_kind, body[length:])), parent

    def _tuple(
        self,
        snapshot: Snapshot,
        thread: str,
        ns: str,
        id: str,
        record: bytes,
        state: _Thread | None = None,
    ) -> CheckpointTuple:
        checkpoint, metadata, parent = self._parts(record)
        values = {}
        for channel, version in checkpoint["channel_versions"].items():
            stored = snapshot.get(VALUES, value_key(ns, channel, version))
            if stored is not None:
                values[channel] = self._value(snapshot, ns, channel, stored, state)
        return CheckpointTuple(
            config=_config(thread, ns, id),
            checkpoint={**checkpoint, "channel_values": values},  # type: ignore[typeddict-item]
            metadata=metadata,
            parent_config=_config(thread, ns, parent) if parent else None,
            pending_writes=self._writes(snapshot.scan(WRITES, checkpoint_key(ns, id) + "/")),
        )

    def _writes(
        self, stored: Iterable[tuple[str, bytes]], channels: Container[str] | None = None
    ) -> builtins.list[PendingWrite]:
        """The writes at a checkpoint, in the order in which LangGraph applies them."""
        writes = []
        for name, write in stored:
            (task, channel, path, kind), body = head_of(write)
            if channels is None or channel in channels:
                order = writes_sort_key(path, task, int(name.rpartition("/")[2]))
                writes.append((order, (task, channel, self.serde.loads_typed((kind, body)))))
        writes.sort(key=lambda write: write[0])
        return [write for _, write in writes]

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        thread, ns = _thread_of(config), config["configurable"].get("checkpoint_ns", "")
        snapshot = self.store.newest(session_name(thread)) if channels else None
        if snapshot is None:
            return {channel: {"writes": []} for channel in channels}
        id = get_checkpoint_id(config)
        if not id:
            newest = snapshot.keys(CHECKPOINTS, checkpoint_key(ns, ""), reverse=True, limit=1)
            id = parts_of(newest[0].rpartition("/")[2])[0] if newest else ""
        return self._history(snapshot, ns, id, channels)

    def _history(
        self, snapshot: Snapshot, ns: str, id: str, channels: Sequence[str]
    ) -> dict[str, DeltaChannelHistory]:
        """The writes of channels that lead to a checkpoint, since the nearest ancestor with a value.
        Reads each ancestor once, and of its writes and values only those of the channels."""
        found: dict[str, DeltaChannelHistory] = {channel: {"writes": []} for channel in channels}
        left = set(channels)
        records = Backwards(snapshot, CHECKPOINTS, ns)
        writes = Backwards(snapshot, WRITES, ns)
        at: str | None = id
        while left and at and (entries := records.of(checkpoint_key(ns, at))):
            (kind, length, _, parent), body = head_of(entries[0][1])
            if at != id:
                for write in reversed(self._writes(writes.of(entries[0][0]), left)):
                    found[write[1]]["writes"].append(write)
                versions = self.serde.loads_typed((kind, body[:length]))["channel_versions"]
                for channel in [channel for channel in left if channel in versions]:
                    stored = snapshot.get(VALUES, value_key(ns, channel, versions[channel]))
                    if stored is not None:
                        found[channel]["seed"] = self._value(snapshot, ns, channel, stored, None)
                        left.discard(channel)
            at = parent
        for history in found.values():
            history["writes"].reverse()
        return found

    def _value(
        self, snapshot: Snapshot, ns: str, channel: str, stored: bytes, state: _Thread | None
    ) -> Any:
        kind, _, body = stored.partition(b"\0")
        if kind == DELTA:
            return _DeltaSnapshot(self._items(snapshot, ns, channel, stored, state))
        if kind == LIST:
            return self._items(snapshot, ns, channel, stored, state)
        return self.serde.loads_typed((kind.decode(), body))

    def _items(
        self, snapshot: Snapshot, ns: str, channel: str, stored: bytes, state: _Thread | None
    ) -> builtins.list[Any]:
        """The items of a value that is a list. Those that were read or stored last are shared."""
        places = builtins.list(places_in(stored))
        known = state.lists.get((ns, channel)) if state else None
        same = same_places(known.places, places) if known else 0
        same = known.same_items(same) if known else 0
        if known is not None and same == len(places):
            # What is known goes on from there, or ends there too.
            return known.objects[:same]
        found = known.first(same) if known else SeenList()
        for start, stop in ranges_of(places[same:]):
            for place, item in zip(range(start, stop), snapshot.list(ITEMS, start, stop)):
                value = self._item(item)
                if state is None:
                    found.objects.append(value)
                else:
                    found.add(value, place)
        if state is not None:
            state.lists[ns, channel] = found
        return list(found.objects)

    # Writing.

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        thread, ns = _thread_of(config), config["configurable"].get("checkpoint_ns", "")
        self._commit(thread, self._put(config, checkpoint, metadata, new_versions))
        return _config(thread, ns, checkpoint["id"])

    def _put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> Callable[[Transaction, _Thread], None]:
        ns = config["configurable"].get("checkpoint_ns", "")
        bare: dict[str, Any] = {**checkpoint}
        values = bare.pop("channel_values")
        kind, body = self.serde.dumps_typed(bare)
        merged = get_checkpoint_metadata(config, metadata)
        metadata_kind, metadata_body = self.serde.dumps_typed(merged)
        parent = config["configurable"].get("checkpoint_id")
        deltas = merged.get("counters_since_delta_snapshot") or ()
        head = json.dumps([kind, len(body), metadata_kind, parent]).encode()
        record = head + b"\n" + body + metadata_body

        def fill(change: Transaction, state: _Thread) -> None:
            title = f"step {merged.get('step', '?')} ({merged.get('source', 'checkpoint')})"
            for channel, version in new_versions.items():
                key = value_key(ns, channel, version)
                if channel in values:
                    stored = self._stored(change, state, ns, channel, values[channel])
                    change.put(VALUES, key, stored)
                else:
                    change.remove(VALUES, key)
            # What another serializer makes of a message may be no text, or a secret.
            if not ns and isinstance(self.serde, JsonPlusSerializer):
                if state.view is None:
                    state.view = ThreadView(self.store[state.tip] if state.tip else None)
                step = self._step(state, parent, checkpoint, new_versions, deltas)
                title += state.view.show(change, step)
            state.records.clear()
            change.put(CHECKPOINTS, checkpoint_key(ns, checkpoint["id"]), record)
            change.title(_readable(f"{ns}: {title}" if ns else title))

        return fill

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        def fill(change: Transaction, _: _Thread) -> None:
            put(change)
            names = ", ".join(sorted({channel for channel, _ in writes}))
            change.title(_readable(f"writes {names}"))

        put = self._put_writes(config, writes, task_id, task_path)
        self._commit(_thread_of(config), fill)

    def _put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str,
    ) -> Callable[[Transaction], None]:
        ns = config["configurable"].get("checkpoint_ns", "")
        below = checkpoint_key(ns, config["configurable"]["checkpoint_id"])
        entries = []
        for at, (channel, value) in enumerate(writes):
            idx = WRITES_IDX_MAP.get(channel, at)
            kind, body = self.serde.dumps_typed(value)
            head = json.dumps([task_id, channel, task_path, kind]).encode()
            entries.append((idx, f"{below}/{quote(task_id)}/{idx}", head + b"\n" + body))

        def fill(change: Transaction) -> None:
            for idx, key, content in entries:
                # Of a task's values the first counts, and of its errors and interrupts the last.
                (change.put_new if idx >= 0 else change.put)(WRITES, key, content)

        return fill

    def _commit(self, thread: str, fill: Callable[[Transaction, _Thread], None]) -> None:
        """Commits what ``fill`` does to a thread, again when another process was faster."""
        name = session_name(thread)
        with self._locked(thread):
            for _ in range(MAX_ATTEMPTS):
                state = self._state(thread, None)
                change = self.store.begin(name, "checkpoint", expect=state.tip)
                try:
                    fill(change, state)
                    state.tip = change.commit()
                    return
                except Conflict:
                    self._forget(thread)
                except BaseException:
                    self._forget(thread)
                    raise
            raise Conflict(f"others are always faster on thread {thread}")

    def _stored(
        self, change: Transaction, state: _Thread, ns: str, channel: str, value: Any
    ) -> bytes:
        """A value as it is stored: whole, or the places of its items."""
        is_delta = isinstance(value, _DeltaSnapshot)
        items = value.value if is_delta else value
        if type(items) is not list or not items or isinstance(items[0], _SCALARS):
            state.lists.pop((ns, channel), None)
            kind, body = self.serde.dumps_typed(value)
            return kind.encode() + b"\0" + body
        known = state.lists.get((ns, channel)) or SeenList()
        same = known.same_items(same_start(known.objects, items))
        moved = {id(known.objects[at]): at for at in range(same, len(known.objects))}
        now = known.first(same)
        for item in items[same:]:
            at = moved.get(id(item))
            if at is not None and known.is_same(at):
                now.add(item, known.places[at])
            else:
                packed = self._packed(item)
                change.push(ITEMS, packed)
                if packed.startswith(b"{"):
                    state.records[state.items] = packed
                now.add(item, state.items)
                state.items += 1
        state.lists[ns, channel] = now
        return packed_places(DELTA if is_delta else LIST, now.ranges)

    def _packed(self, item: Any) -> bytes:
        """An item as bytes. A message is what a conversation shows, if nothing of it is lost so."""
        kind, body = self.serde.dumps_typed(item)
        if isinstance(item, lc.BaseMessage) and isinstance(self.serde, JsonPlusSerializer):
            try:
                record = record_of(item)
                if self.serde.dumps_typed(message_of(record)) == (kind, body):
                    return record
            except Exception:  # Then it has something that JSON has not.
                pass
        return kind.encode() + b"\0" + body

    def _item(self, stored: bytes) -> Any:
        if stored.startswith(b"{"):
            return message_of(stored)
        kind, _, body = stored.partition(b"\0")
        return self.serde.loads_typed((kind.decode(), body))

    def _step(
        self,
        state: _Thread,
        parent: str | None,
        checkpoint: Checkpoint,
        changed: Iterable[str],
        delta_channels: Iterable[str],
    ) -> Step:
        """A checkpoint of the root graph as the view of its thread shows it."""
        snapshot = self.store[state.tip] if state.tip else None

        def past(channel: str, id: str | None) -> DeltaChannelHistory:
            if snapshot is None or id is None:
                return {"writes": []}
            # The history of a checkpoint begins at its parent: its own value counts first.
            record = snapshot.get(CHECKPOINTS, checkpoint_key("", id))
            version = self._parts(record)[0]["channel_versions"].get(channel) if record else None
            stored = snapshot.get(VALUES, value_key("", channel, version)) if version else None
            if stored is not None:
                return {"writes": [], "seed": self._value(snapshot, "", channel, stored, None)}
            return self._history(snapshot, "", id, [channel])[channel]

        def writes(channel: str) -> builtins.list[Any]:
            if snapshot is None or parent is None:
                return []
            stored = snapshot.scan(WRITES, checkpoint_key("", parent) + "/")
            return [value for _, _, value in self._writes(stored, {channel})]

        newest = snapshot.keys(CHECKPOINTS, "/", reverse=True, limit=1) if snapshot else []
        values = checkpoint["channel_values"]
        shown: dict[str, Any] = {
            channel: values[channel] for channel in ("messages", "files") if channel in values
        }
        known = state.lists.get(("", "messages"))
        return Step(
            parent=parent,
            newest=parts_of(newest[0].rpartition("/")[2])[0] if newest else None,
            id=checkpoint["id"],
            values=shown,
            changed=set(changed),
            deltas=set(delta_channels),
            places=known.places if known and known.has_only_messages else None,
            records=state.records,
            past=past,
            writes=writes,
        )

    # Whole threads.

    def copy_from(
        self, old: BaseCheckpointSaver[Any], thread_ids: Iterable[str] | None = None
    ) -> int:
        """Copies threads from another saver, all by default, with their pending writes. Returns the
        number of new checkpoints.

        Each checkpoint is one durable commit, so a copy that was interrupted goes on where it ended, and
        one that is repeated copies what is new. Reads each checkpoint of ``old`` twice, and has one in
        memory at a time. Steps that are added to ``old`` during the copy may be missing."""
        shared = SharedItems(self.serde.dumps_typed)
        found = (place_of(one) for config in _configs(thread_ids) for one in old.list(config))
        tuples = (old.get_tuple(config_at(place)) for place in sorted(found))
        return sum(self._copy(shared, one) for one in tuples if one)

    async def acopy_from(
        self, old: BaseCheckpointSaver[Any], thread_ids: Iterable[str] | None = None
    ) -> int:
        """Does what :meth:`copy_from` does, from an asynchronous saver."""
        shared, new = SharedItems(self.serde.dumps_typed), 0
        found = [
            place_of(one) for config in _configs(thread_ids) async for one in old.alist(config)
        ]
        for place in sorted(found):
            if one := await old.aget_tuple(config_at(place)):
                new += await self._adapter.run(partial(self._copy, shared, one))
        return new

    def _copy(self, shared: SharedItems, found: CheckpointTuple) -> bool:
        """Copies a checkpoint with its writes. Returns whether it is new."""
        thread, id, ns = place = place_of(found)
        values = shared.of(place, found.checkpoint["channel_values"])
        checkpoint: Checkpoint = {**found.checkpoint, "channel_values": values}
        with self._locked(thread):
            snapshot = self.store.newest(session_name(thread))
            versions = {
                channel: version
                for channel, version in checkpoint["channel_versions"].items()
                if snapshot is None or snapshot.get(VALUES, value_key(ns, channel, version)) is None
            }
            put = self._put(
                found.parent_config or _config_of(thread, ns), checkpoint, found.metadata, versions
            )
            writes = [
                self._put_writes(config_at(place), values, task, path)
                for task, path, values in calls_of(found.pending_writes)
            ]

            def fill(change: Transaction, state: _Thread) -> None:
                put(change, state)
                for write in writes:
                    write(change)

            self._commit(thread, fill)
        return snapshot is None or snapshot.get(CHECKPOINTS, checkpoint_key(ns, id)) is None

    def delete_thread(self, thread_id: str) -> None:
        with self._locked(thread_id):
            self._forget(thread_id)
            self.store.delete(session_name(thread_id))

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copies a thread, with all that its checkpoints need. Nothing of it is copied on the disk."""
        source, target = session_name(source_thread_id), session_name(target_thread_id)
        tip = self.store.tip(source)
        if tip is None or source == target:
            return
        with self._locked(target_thread_id):
            self._forget(target_thread_id)
            change = self.store.begin(target, f"copy of {source_thread_id}", expect=None)
            change.go_on_from(tip)
            try:
                change.commit()
                return
            except Conflict:
                self._copy_into(self.store[tip], target_thread_id)

    def _copy_into(self, source: Snapshot, thread: str) -> None:
        """Copies checkpoints into a thread that has some already."""

        def fill(change: Transaction, state: _Thread) -> None:
            moved = state.items
            for item in source.list(ITEMS):
                change.push(ITEMS, item)
                state.items += 1
            for section in (CHECKPOINTS, WRITES):
                for key, content in source.scan(section):
                    change.put(section, key, content)
            for key, content in source.scan(VALUES):
                change.put(VALUES, key, shifted(content, lambda place: place + moved))

        self._commit(thread, fill)

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        runs = set(run_ids)
        threads = self._thread_ids() if runs else []
        for thread in threads:
            doomed = {
                checkpoint_key(ns, id)
                for id, _, _, ns, record in self._records(thread, None, None, None)
                if self._parts(record)[1].get("run_id") in runs
            }
            if doomed:
                self._keep(thread, lambda key, doomed=doomed: key not in doomed)  # type: ignore[misc]

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Drops all checkpoints but the newest of each namespace, and those that its delta channels
        are read from; or, with the strategy ``delete``, the threads."""
        if strategy not in ("keep_latest", "delete"):
            raise ValueError(f"unknown strategy: {strategy}")
        for thread in thread_ids:
            if strategy == "delete":
                self.delete_thread(thread)
                continue
            snapshot = self.store.newest(session_name(thread))
            if snapshot is None:
                continue
            kept = {key for ns in namespaces_of(snapshot) for key in self._needed(snapshot, ns)}
            self._keep(thread, kept.__contains__)

    def _needed(self, snapshot: Snapshot, ns: str) -> Iterator[str]:
        """The newest checkpoint of a namespace, and its ancestors as far as a channel without a value of
        its own goes back to find one."""
        newest = snapshot.keys(CHECKPOINTS, checkpoint_key(ns, ""), reverse=True, limit=1)
        key: str | None = newest[0] if newest else None
        open_channels: set[str] | None = None
        while key is not None:
            record = snapshot.get(CHECKPOINTS, key)
            if record is None:
                return
            yield key
            checkpoint, metadata, parent = self._parts(record)
            if open_channels is None:
                open_channels = set(metadata.get("counters_since_delta_snapshot") or ())
            versions = checkpoint["channel_versions"]
            open_channels = {
                channel
                for channel in open_channels
                if channel not in versions
                or snapshot.get(VALUES, value_key(ns, channel, versions[channel])) is None
            }
            key = checkpoint_key(ns, parent) if parent and open_channels else None

    def _keep(self, thread: str, keeps: Callable[[str], bool]) -> None:
        """Leaves the checkpoints whose keys are kept, with all that is theirs, as a history of its own:
        what is dropped comes free with a collection, once no undo can want it."""

        def fill(change: Transaction, state: _Thread) -> None:
            if state.tip is None:
                return
            snapshot = self.store[state.tip]
            records = [found for found in snapshot.scan(CHECKPOINTS) if keeps(found[0])]
            change.start_over()
            change.title(f"{len(records)} checkpoints kept")
            self._carry(change, snapshot, records)

        with self._locked(thread):
            self._commit(thread, fill)
            self._forget(thread)

    def _carry(
        self, change: Transaction, snapshot: Snapshot, records: Iterable[tuple[str, bytes]]
    ) -> None:
        values: dict[str, bytes] = {}
        for key, record in records:
            change.put(CHECKPOINTS, key, record)
            for write, content in snapshot.scan(WRITES, key + "/"):
                change.put(WRITES, write, content)
            ns = ns_of(key)
            for channel, version in self._parts(record)[0]["channel_versions"].items():
                name = value_key(ns, channel, version)
                stored = snapshot.get(VALUES, name)
                if stored is not None:
                    values[name] = stored
        used = sorted({place for stored in values.values() for place in places_in(stored)})
        place_of = {place: at for at, place in enumerate(used)}
        for start, stop in ranges_of(used):
            for item in snapshot.list(ITEMS, start, stop):
                change.push(ITEMS, item)
        for name, stored in values.items():
            change.put(VALUES, name, shifted(stored, place_of.__getitem__))
        for message in snapshot.messages():
            change.push_message(message.role, message.record, format=message.format)

    # What is known of threads.

    def _locked(self, thread: str) -> threading.RLock:
        """The lock of a thread, and of some others."""
        if self._process != os.getpid():
            # Who held them in the process that this one is a fork of is not here to let them go.
            self._forget_all()
        return self._locks[hash(thread) % len(self._locks)]

    def _forget_all(self) -> None:
        self._threads: OrderedDict[str, _Thread] = OrderedDict()
        self._locks = [threading.RLock() for _ in range(MAX_THREADS)]
        self._lock = threading.Lock()
        self._process = os.getpid()

    def _state(self, thread: str, snapshot: Snapshot | None) -> _Thread:
        """What is known of a thread, at a snapshot or at where it was last seen."""
        state = self._threads.get(thread)
        if state is None or (snapshot is not None and state.tip != snapshot.id):
            if snapshot is None:
                snapshot = self.store.newest(session_name(thread))
            items = snapshot.count(ITEMS) if snapshot else 0
            state = _Thread(snapshot.id if snapshot else None, items)
        with self._lock:
            self._threads[thread] = state
            self._threads.move_to_end(thread)
            while len(self._threads) > MAX_THREADS:
                self._threads.popitem(last=False)
        return state

    def _forget(self, thread: str) -> None:
        with self._lock:
            self._threads.pop(thread, None)

    def get_next_version(self, current: str | None, channel: None) -> str:
        if current is None:
            number = 0
        else:
            number = current if isinstance(current, int) else int(str(current).split(".")[0])
        # Random, so that two forks of one checkpoint never have the same version for two values.
        return f"{number + 1:032}.{random.random():016}"

    # The same for asyncio, on threads.

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return await self._adapter.run(lambda: self.get_tuple(config))

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        return await self._adapter.run(
            lambda: self.get_delta_channel_history(config=config, channels=channels)
        )

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        found = self.list(config, filter=filter, before=before, limit=limit)
        while (item := await self._adapter.run(lambda: next(found, None))) is not None:
            yield item

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        return await self._adapter.run(lambda: self.put(config, checkpoint, metadata, new_versions))

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        await self._adapter.run(lambda: self.put_writes(config, writes, task_id, task_path))

    async def adelete_thread(self, thread_id: str) -> None:
        await self._adapter.run(lambda: self.delete_thread(thread_id))

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        await self._adapter.run(lambda: self.delete_for_runs(run_ids))

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        await self._adapter.run(lambda: self.copy_thread(source_thread_id, target_thread_id))

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        await self._adapter.run(lambda: self.prune(thread_ids, strategy=strategy))


def _thread_of(config: RunnableConfig) -> str:
    return str(config["configurable"]["thread_id"])


def _config_of(thread: str, ns: str | None = None) -> RunnableConfig:
    at = {"thread_id": thread} if ns is None else {"thread_id": thread, "checkpoint_ns": ns}
    return {"configurable": at}


def _configs(thread_ids: Iterable[str] | None) -> Sequence[RunnableConfig | None]:
    """What lists the checkpoints of these threads, or of all."""
    return [None] if thread_ids is None else [_config_of(str(thread)) for thread in thread_ids]


def _config(thread: str, ns: str, id: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread, "checkpoint_ns": ns, "checkpoint_id": id}}


def _readable(title: str) -> str:
    """A title without halves of surrogate pairs, which UTF-8 has not."""
    return title.encode(errors="replace").decode()
