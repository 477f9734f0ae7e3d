"""Pydantic AI on turntree: ``TurntreeConversationStore`` keeps conversations, with every branch.

    store = TurntreeConversationStore("agents.turntree")
    conversation = await store.load("c1") or Conversation(conversation_id="c1")
    result = await agent.run("hello", conversation=conversation)
    await store.save(result)

A conversation is a session of the store:

======================== ==== ===================================================
``pydantic-ai-record``   blob the record
``pydantic-ai-entries``  map  the entries of its history and of branches that it left, by id
``agents/main/messages`` list its history, for people
======================== ==== ===================================================

A fork has the entries of its history too. They are the same blobs, so nothing is stored twice, and
deleting a conversation never takes them from another one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from os import PathLike
from typing import Any, TypeVar

from pydantic import ConfigDict, TypeAdapter
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationRecord,
    ConversationStore,
)
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter

from turntree import Conflict, Role, Snapshot, Store, Transaction
from turntree._adapter import AdapterStore
from turntree._json import to_json
from turntree._names import parts_of, session_name

__all__ = ["TurntreeConversationStore"]

RECORD = "pydantic-ai-record"
ENTRIES = "pydantic-ai-entries"
MESSAGES = "agents/main/messages"

#: How often a change is made again when others are faster.
MAX_ATTEMPTS = 1000

_RECORDS: TypeAdapter[list[ConversationRecord]] = TypeAdapter(
    list[ConversationRecord], config=ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")
)

_T = TypeVar("_T")


class TurntreeConversationStore(ConversationStore):
    """Keeps conversations in the turntree store at ``store``, which is made if nothing is there.

    A save is durable when it returns, and one commit. ``delete`` deletes a conversation with its entries;
    their content comes free with a collection, once no undo can want it and no fork has it."""

    def __init__(self, store: Store | str | PathLike[str]) -> None:
        self._adapter = AdapterStore(store, "pydantic-ai")
        self.store = self._adapter.store
        #: The session in which an entry was last seen: what is read next is what a record names.
        self._session_of: dict[str, str] = {}

    async def read_record(self, conversation_id: str) -> ConversationRecord | None:
        def read() -> ConversationRecord | None:
            name = _name(conversation_id)
            record = _record(self.store.newest(name))
            if record is not None and record.head_id is not None:
                self._session_of = {record.head_id: name}
            return record

        return await self._adapter.run(read)

    async def read_records(
        self, *, scope: str | None = None, limit: int | None = None
    ) -> Sequence[ConversationRecord]:
        def read() -> list[ConversationRecord]:
            found = [_record(self.store.newest(name)) for name in self._sessions()]
            records = [one for one in found if one and (scope is None or one.scope == scope)]
            records.sort(key=lambda record: record.updated_at, reverse=True)
            return records[:limit]

        return await self._adapter.run(read)

    async def write_record(
        self,
        record: ConversationRecord,
        *,
        new_entries: Sequence[ConversationEntry] = (),
        expected_revision: str | None,
    ) -> None:
        new = list(new_entries)

        def fill(change: Transaction, snapshot: Snapshot | None) -> None:
            stored = _record(snapshot)
            if (stored.revision if stored else None) != expected_revision:
                raise ConversationConflict(record.conversation_id)
            taken = self._taken_over(record, new, snapshot)
            for entry in taken + new:
                change.put(ENTRIES, entry.id, _entry_bytes(entry))
            _show(change, snapshot, stored, record, taken + new)
            change.set_blob(RECORD, _RECORDS.dump_json([record]))

        title = f"{len(new)} messages"
        await self._adapter.run(lambda: self._change(record.conversation_id, title, fill))

    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        def fill(change: Transaction, snapshot: Snapshot | None) -> None:
            stored = _record(snapshot)
            if stored is None or stored.revision != expected_revision:
                raise ConversationConflict(conversation_id)
            change.delete()

        await self._adapter.run(lambda: self._change(conversation_id, "delete", fill))

    async def read_entry(self, entry_id: str) -> ConversationEntry:
        def read() -> ConversationEntry:
            snapshot = self._snapshot_with(entry_id)
            return _entry(entry_id, snapshot.get(ENTRIES, entry_id))

        return await self._adapter.run(read)

    async def read_history(
        self, head_id: str | None, *, limit: int | None = None
    ) -> list[ConversationEntry]:
        def read() -> list[ConversationEntry]:
            if head_id is None:
                return []
            return _history(self._snapshot_with(head_id), head_id, limit)

        return await self._adapter.run(read)

    def close(self) -> None:
        """Waits for calls that run, and closes the store unless it was passed in as a ``Store``."""
        self._adapter.close()

    def _change(
        self,
        conversation_id: str,
        title: str,
        fill: Callable[[Transaction, Snapshot | None], None],
    ) -> None:
        name = _name(conversation_id)
        for _ in range(MAX_ATTEMPTS):
            snapshot = self.store.newest(name)
            change = self.store.begin(name, title, expect=snapshot.id if snapshot else None)
            fill(change, snapshot)
            try:
                change.commit()
                return
            except Conflict:
                continue
        raise ConversationConflict(conversation_id)

    def _taken_over(
        self,
        record: ConversationRecord,
        new: Sequence[ConversationEntry],
        snapshot: Snapshot | None,
    ) -> list[ConversationEntry]:
        """The entries of a fork's history that are in another conversation."""
        first = new[0].parent_id if new else record.head_id
        if first is None or (snapshot is not None and snapshot.get(ENTRIES, first) is not None):
            return []
        try:
            return _history(self._snapshot_with(first), first, None)
        except LookupError:
            raise ConversationConflict(record.conversation_id) from None

    def _sessions(self) -> Iterator[str]:
        for name in self.store.sessions():
            parts = parts_of(name)
            if len(parts) == 2 and parts[0] == "pydantic-ai":
                yield name

    def _snapshot_with(self, entry_id: str) -> Snapshot:
        """A conversation that has an entry. Looks through all of them if it was not read just now."""
        known = self._session_of.get(entry_id)
        for name in [*([known] if known else []), *self._sessions()]:
            snapshot = self.store.newest(name)
            if snapshot is not None and snapshot.get(ENTRIES, entry_id) is not None:
                return snapshot
        raise LookupError(f"there is no entry {entry_id}")


def _name(conversation_id: str) -> str:
    return session_name("pydantic-ai", conversation_id)


def _record(snapshot: Snapshot | None) -> ConversationRecord | None:
    if snapshot is None:
        return None
    return _RECORDS.validate_json(snapshot[RECORD])[0]


def _entry_bytes(entry: ConversationEntry) -> bytes:
    head = json.dumps([entry.parent_id, entry.kind]).encode()
    return head + b"\n" + ModelMessagesTypeAdapter.dump_json([entry.message])


def _entry(id: str, stored: bytes | None) -> ConversationEntry:
    if stored is None:
        raise LookupError(f"there is no entry {id}")
    head, _, body = stored.partition(b"\n")
    parent, kind = json.loads(head)
    [message] = ModelMessagesTypeAdapter.validate_json(body)
    return ConversationEntry(id=id, parent_id=parent, message=message, kind=kind)


def _chain(snapshot: Snapshot, head: str, limit: int | None) -> list[tuple[str, bytes]]:
    """The stored entries up to ``head``, oldest first."""
    # All at once where all may be wanted: most of them are on the way.
    kept = dict(snapshot.scan(ENTRIES)) if limit is None else None
    found: list[tuple[str, bytes]] = []
    at: str | None = head
    while at is not None and (limit is None or len(found) < limit):
        stored = snapshot.get(ENTRIES, at) if kept is None else kept.get(at)
        if stored is None:
            raise LookupError(f"there is no entry {at}")
        found.append((at, stored))
        at = json.loads(stored.partition(b"\n")[0])[0]
    found.reverse()
    return found


def _history(snapshot: Snapshot, head: str, limit: int | None) -> list[ConversationEntry]:
    return [_entry(id, stored) for id, stored in _chain(snapshot, head, limit)]


def _show(
    change: Transaction,
    snapshot: Snapshot | None,
    stored: ConversationRecord | None,
    record: ConversationRecord,
    added: Sequence[ConversationEntry],
) -> None:
    """Makes the conversation of the session the history of the record."""
    old_head = stored.head_id if stored else None
    if record.head_id == old_head:
        return
    if added and added[0].parent_id == old_head and added[-1].id == record.head_id:
        fresh = list(added)
    else:
        old = _history(snapshot, old_head, None) if snapshot and old_head else []
        first = added[0].parent_id if added else record.head_id
        kept = _history(snapshot, first, None) if snapshot and first else []
        now = [*kept, *added]
        same = 0
        while same < min(len(old), len(now)) and old[same].id == now[same].id:
            same += 1
        change.cut(MESSAGES, same)
        fresh = now[same:]
    for entry in fresh:
        role, message = _readable(entry.message)
        change.push_message(role, message, format="openai-chat")


def _readable(message: ModelMessage) -> tuple[Role, bytes]:
    """Who speaks in a message, and the message as OpenAI's interface has it."""
    kinds = {part.part_kind for part in message.parts}
    contents = [getattr(part, "content", None) for part in message.parts]
    texts = [text if isinstance(text, str) else str(text) for text in contents if text]
    if message.kind == "response":
        role: Role = "assistant"
    elif "user-prompt" in kinds:
        role = "user"
    else:
        role = "tool" if kinds & {"tool-return", "retry-prompt"} else "system"
    record: dict[str, Any] = {"role": role, "content": "\n\n".join(texts)}
    calls = [part for part in message.parts if part.part_kind == "tool-call"]
    if calls:
        record["tool_calls"] = [
            {
                "id": call.tool_call_id,
                "type": "function",
                "function": {"name": call.tool_name, "arguments": call.args_as_json_str()},
            }
            for call in calls
        ]
    return role, to_json(record)
