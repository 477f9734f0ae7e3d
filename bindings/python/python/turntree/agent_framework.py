"""Microsoft Agent Framework on turntree: checkpoints of workflows, histories and sessions of agents.

    storage = TurntreeCheckpointStorage("agents.turntree")
    workflow = WorkflowBuilder(start_executor=first, checkpoint_storage=storage).build()

    history = TurntreeHistoryProvider("agents.turntree")
    agent = Agent(client, context_providers=[history])

The history of an agent's session is the conversation of the session of this name, so ``turntree log``,
``diff`` and ``fork`` work on it, and its ``AgentSession`` is a section of the same session. The
checkpoints of all workflows are one session:

- ``agent-framework-checkpoints``, a map: the checkpoint with an id;
- ``agent-framework-workflows``, a map: ``<workflow>/<number>`` is an id, in the order of the saves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from os import PathLike
from typing import Any, TypeVar

from agent_framework import (
    AgentSession,
    HistoryProvider,
    Message,
    SessionStore,
    WorkflowCheckpoint,
    WorkflowCheckpointException,
)
from agent_framework._sessions import filter_new_messages
from agent_framework._workflows._checkpoint_encoding import (
    decode_checkpoint_value,
    encode_checkpoint_value,
)

from turntree import Conflict, Snapshot, Store, Transaction
from turntree._adapter import AdapterStore, InOrder, known_role
from turntree._json import from_json, to_json
from turntree._names import quote, session_name

__all__ = ["TurntreeCheckpointStorage", "TurntreeHistoryProvider", "TurntreeSessionStore"]

MESSAGES = "agents/main/messages"
CHECKPOINTS = "agent-framework-checkpoints"
WORKFLOWS = "agent-framework-workflows"
SESSION = "agent-framework-session"

#: The field of a message's record that has the message of the framework.
WHOLE = "agent_framework"

#: How often a change is made again when others are faster.
MAX_ATTEMPTS = 1000

_T = TypeVar("_T")


class _Adapter:
    """A store, and changes of it that are made again when others are faster."""

    def __init__(self, store: Store | str | PathLike[str]) -> None:
        self._adapter = AdapterStore(store, "agent-framework")
        self.store = self._adapter.store
        self._in_order = InOrder(self._adapter).run

    def close(self) -> None:
        """Waits for calls that run, and closes the store unless it was passed in as a ``Store``."""
        self._adapter.close()

    def _change(
        self, name: str, title: str, fill: Callable[[Transaction, Snapshot | None], _T]
    ) -> _T:
        for _ in range(MAX_ATTEMPTS):
            snapshot = self.store.newest(name)
            change = self.store.begin(name, title, expect=snapshot)
            result = fill(change, snapshot)
            try:
                change.commit()
                return result
            except Conflict:
                continue
        raise Conflict(f"others are always faster on {name}")


class TurntreeCheckpointStorage(_Adapter):
    """Keeps checkpoints of workflows in the turntree store at ``store``, which is created if nothing is
    there. Implements the framework's ``CheckpointStorage``.

    A save is durable when it returns, and one commit. A checkpoint that repeats the state of the one
    before costs what is new in it, once it is packed. Values outside of JSON are pickled by the
    framework; ``allowed_checkpoint_types`` are the types that a load may create besides its own, as
    ``"module:qualname"``. So trust the store as you trust code."""

    def __init__(
        self,
        store: Store | str | PathLike[str],
        *,
        session: str = "workflows",
        allowed_checkpoint_types: list[str] | None = None,
    ) -> None:
        super().__init__(store)
        self.session = session
        self._allowed = frozenset(allowed_checkpoint_types or ())

    async def save(self, checkpoint: WorkflowCheckpoint) -> str:
        id, workflow = checkpoint.checkpoint_id, checkpoint.workflow_name
        encoded = encode_checkpoint_value(checkpoint.to_dict())
        # What cannot be loaded again is refused now.
        decode_checkpoint_value(encoded, allowed_types=self._allowed)
        record = to_json(encoded)

        def put(change: Transaction, snapshot: Snapshot | None) -> None:
            known = _get(snapshot, CHECKPOINTS, quote(id))
            before = from_json(known)["workflow_name"] if known is not None else None
            if before != workflow:
                if before is not None and (place := _place_of(snapshot, before, id)):
                    change.remove(WORKFLOWS, place)
                change.put(WORKFLOWS, _next_place(snapshot, workflow), id)
            change.put(CHECKPOINTS, quote(id), record)

        title = f"{workflow}: checkpoint of iteration {checkpoint.iteration_count}"
        await self._in_order(lambda: self._change(self._name, title, put))
        return id

    async def load(self, checkpoint_id: str) -> WorkflowCheckpoint:
        record = await self._in_order(
            lambda: _get(self.store.newest(self._name), CHECKPOINTS, quote(checkpoint_id))
        )
        if record is None:
            raise WorkflowCheckpointException(f"No checkpoint found with ID {checkpoint_id}")
        return self._decoded(record)

    async def list_checkpoints(self, *, workflow_name: str) -> list[WorkflowCheckpoint]:
        def read() -> list[bytes]:
            snapshot = self.store.newest(self._name)
            found = (_get(snapshot, CHECKPOINTS, quote(id)) for id in _ids(snapshot, workflow_name))
            return [record for record in found if record is not None]

        return [self._decoded(record) for record in await self._in_order(read)]

    async def list_checkpoint_ids(self, *, workflow_name: str) -> list[str]:
        return await self._in_order(lambda: _ids(self.store.newest(self._name), workflow_name))

    async def get_latest(self, *, workflow_name: str) -> WorkflowCheckpoint | None:
        found = await self.list_checkpoints(workflow_name=workflow_name)
        return max(found, key=lambda one: datetime.fromisoformat(one.timestamp), default=None)

    async def delete(self, checkpoint_id: str) -> bool:
        def remove() -> bool:
            snapshot = self.store.newest(self._name)
            if _get(snapshot, CHECKPOINTS, quote(checkpoint_id)) is None:
                return False
            return self._change(self._name, f"delete {checkpoint_id}", drop)

        def drop(change: Transaction, snapshot: Snapshot | None) -> bool:
            record = _get(snapshot, CHECKPOINTS, quote(checkpoint_id))
            if record is None:
                return False
            place = _place_of(snapshot, from_json(record)["workflow_name"], checkpoint_id)
            change.remove(CHECKPOINTS, quote(checkpoint_id))
            if place is not None:
                change.remove(WORKFLOWS, place)
            return True

        return await self._in_order(remove)

    @property
    def _name(self) -> str:
        return session_name(self.session)

    def _decoded(self, record: bytes) -> WorkflowCheckpoint:
        values = decode_checkpoint_value(from_json(record), allowed_types=self._allowed)
        return WorkflowCheckpoint.from_dict(values)


class TurntreeHistoryProvider(_Adapter, HistoryProvider):
    """Keeps the messages of sessions in the turntree store at ``store``, which is created if nothing is
    there. A message that a session has already is not stored again. The other arguments are those of
    the framework's ``HistoryProvider``."""

    DEFAULT_SOURCE_ID = "turntree"

    def __init__(
        self,
        store: Store | str | PathLike[str],
        source_id: str = DEFAULT_SOURCE_ID,
        *,
        load_messages: bool = True,
        store_inputs: bool = True,
        store_context_messages: bool = False,
        store_context_from: set[str] | None = None,
        store_outputs: bool = True,
        skip_excluded: bool = False,
    ) -> None:
        _Adapter.__init__(self, store)
        HistoryProvider.__init__(
            self,
            source_id,
            load_messages=load_messages,
            store_inputs=store_inputs,
            store_context_messages=store_context_messages,
            store_context_from=store_context_from,
            store_outputs=store_outputs,
        )
        self.skip_excluded = skip_excluded

    async def get_messages(
        self, session_id: str | None, *, state: dict[str, Any] | None = None, **kwargs: Any
    ) -> list[Message]:
        name = session_name(session_id or "default")
        messages = await self._in_order(lambda: _messages(self.store.newest(name)))
        if self.skip_excluded:
            return [one for one in messages if not one.additional_properties.get("_excluded")]
        return messages

    async def save_messages(
        self,
        session_id: str | None,
        messages: Sequence[Message],
        *,
        state: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        if not messages:
            return
        # Taken now, before the caller changes them.
        given = [Message.from_dict(message.to_dict()) for message in messages]
        name = session_name(session_id or "default")

        def append(change: Transaction, snapshot: Snapshot | None) -> None:
            for message in filter_new_messages(_messages(snapshot), given):
                record = to_json(_record_of(message.to_dict()))
                change.push_message(known_role(message.role), record, format="openai-chat")

        await self._in_order(lambda: self._change(name, f"{len(given)} messages", append))


class TurntreeSessionStore(_Adapter, SessionStore):
    """Keeps ``AgentSession`` objects in the turntree store at ``store``, which is created if nothing is
    there: each is a section of the session of its id. A delete leaves the session's messages."""

    def __init__(self, store: Store | str | PathLike[str]) -> None:
        _Adapter.__init__(self, store)

    async def get(self, session_id: str) -> AgentSession | None:
        self.validate_session_id(session_id)
        name = session_name(session_id)

        def read() -> bytes | None:
            snapshot = self.store.newest(name)
            return snapshot[SESSION] if snapshot is not None and SESSION in snapshot else None

        record = await self._in_order(read)
        return AgentSession.from_dict(from_json(record)) if record is not None else None

    async def set(self, session_id: str, session: AgentSession) -> None:
        self.validate_session_id(session_id)
        name, record = session_name(session_id), to_json(session.to_dict())
        await self._in_order(
            lambda: self._change(
                name, "session", lambda change, _: change.set_blob(SESSION, record)
            )
        )

    async def delete(self, session_id: str) -> None:
        self.validate_session_id(session_id)
        name = session_name(session_id)

        def drop() -> None:
            snapshot = self.store.newest(name)
            if snapshot is not None and SESSION in snapshot:
                self._change(
                    name, "delete the session", lambda change, _: change.drop_section(SESSION)
                )

        await self._in_order(drop)


def _get(snapshot: Snapshot | None, section: str, key: str) -> bytes | None:
    return snapshot.get(section, key) if snapshot is not None else None


def _places(snapshot: Snapshot | None, workflow: str) -> list[tuple[str, bytes]]:
    return snapshot.scan(WORKFLOWS, f"{quote(workflow)}/") if snapshot is not None else []


def _ids(snapshot: Snapshot | None, workflow: str) -> list[str]:
    return [id.decode() for _, id in _places(snapshot, workflow)]


def _place_of(snapshot: Snapshot | None, workflow: str, id: str) -> str | None:
    return next((key for key, one in _places(snapshot, workflow) if one.decode() == id), None)


def _next_place(snapshot: Snapshot | None, workflow: str) -> str:
    """A key after those of the workflow's other checkpoints."""
    prefix = f"{quote(workflow)}/"
    last = snapshot.keys(WORKFLOWS, prefix, reverse=True, limit=1) if snapshot is not None else []
    number = int(last[0].removeprefix(prefix)) + 1 if last else 0
    return f"{prefix}{number:012}"


def _messages(snapshot: Snapshot | None) -> list[Message]:
    """The messages of a conversation that the framework wrote."""
    records = (
        [from_json(record) for record in snapshot.list(MESSAGES)] if snapshot is not None else []
    )
    return [Message.from_dict(record[WHOLE]) for record in records if WHOLE in record]


def _record_of(message: dict[str, Any]) -> dict[str, Any]:
    """A message as a conversation shows it, with the whole message of the framework."""
    parts: list[dict[str, Any]] = message.get("contents") or []
    texts = [part["text"] for part in parts if part.get("type") == "text" and part.get("text")]
    results = [part for part in parts if part.get("type") == "function_result"]
    calls = [
        {
            "id": part.get("call_id"),
            "type": "function",
            "function": {"name": part.get("name"), "arguments": _text(part.get("arguments"))},
        }
        for part in parts
        if part.get("type") == "function_call"
    ]
    texts += [_text(part.get("result")) for part in results]
    record: dict[str, Any] = {"role": message["role"], "content": "\n".join(texts)}
    if calls:
        record["tool_calls"] = calls
    if results:
        record["tool_call_id"] = results[0].get("call_id")
    return {**record, WHOLE: message}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else to_json(value).decode()
