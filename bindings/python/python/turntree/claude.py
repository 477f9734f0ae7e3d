"""The Claude Agent SDK on turntree: ``TurntreeSessionStore`` keeps transcripts.

    options = ClaudeAgentOptions(session_store=TurntreeSessionStore("agents.turntree"))

A session of the SDK is a session of the store, with its subagents:

===================== ==== =================================================================
``claude-entries``    list the entries of the transcript; ``claude-entries:<subpath>`` others
``claude-uuids``      map  ``<subpath>/<uuid>`` of each entry that has one
``claude-summary``    blob what ``fold_session_summary`` made of the entries
``agents/*/messages`` list the messages among the entries, for people
===================== ==== =================================================================
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from os import PathLike
from typing import Any

from claude_agent_sdk import fold_session_summary
from claude_agent_sdk.types import (
    SessionKey,
    SessionListSubkeysKey,
    SessionStore,
    SessionStoreEntry,
    SessionStoreListEntry,
    SessionSummaryEntry,
)

from turntree import Conflict, Snapshot, Store, Transaction
from turntree._adapter import AdapterStore, InOrder, known_role
from turntree._json import all_from_json, from_json, to_json
from turntree._names import parts_of, quote, session_name

__all__ = ["TurntreeSessionStore"]

ENTRIES = "claude-entries"
UUIDS = "claude-uuids"
SUMMARY = "claude-summary"

#: How often entries are appended again when others are faster.
MAX_ATTEMPTS = 1000


class TurntreeSessionStore(SessionStore):
    """Keeps transcripts in the turntree store at ``store``, which is made if nothing is there.

    An append is durable when it returns, and one commit. Entries whose ``uuid`` is there already are
    left out, in a batch too. Processes may use one store at once."""

    def __init__(self, store: Store | str | PathLike[str]) -> None:
        self._adapter = AdapterStore(store, "claude")
        self.store = self._adapter.store
        self._in_order = InOrder(self._adapter).run

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        if not entries:
            return
        # Taken now, in the order of the calls, and before the caller changes them.
        records = [(dict(entry), to_json(entry)) for entry in entries]
        await self._in_order(lambda: self._append(key, records))

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        def read() -> list[SessionStoreEntry] | None:
            snapshot = self.store.newest(_name(key))
            section = _section(key.get("subpath"))
            if snapshot is None or not snapshot.count(section):
                return None
            return all_from_json(snapshot.list(section))

        return await self._adapter.run(read)

    async def list_sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        def read() -> list[SessionStoreListEntry]:
            return [
                {"session_id": session, "mtime": _mtime(snapshot)}
                for session, snapshot in self._sessions(project_key)
            ]

        return await self._adapter.run(read)

    async def list_session_summaries(self, project_key: str) -> list[SessionSummaryEntry]:
        def read() -> list[SessionSummaryEntry]:
            return [
                {"session_id": session, "mtime": _mtime(snapshot), "data": _summary(snapshot)}
                for session, snapshot in self._sessions(project_key)
            ]

        return await self._adapter.run(read)

    async def delete(self, key: SessionKey) -> None:
        await self._in_order(lambda: self._delete(key))

    async def list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        def read() -> list[str]:
            name = session_name("claude", key["project_key"], key["session_id"])
            snapshot = self.store.newest(name)
            return _subpaths(snapshot) if snapshot else []

        return await self._adapter.run(read)

    def close(self) -> None:
        """Waits for calls that run, and closes the store unless it was passed in as a ``Store``."""
        self._adapter.close()

    def _append(self, key: SessionKey, records: list[tuple[dict[str, Any], bytes]]) -> None:
        name, subpath = _name(key), key.get("subpath")
        for _ in range(MAX_ATTEMPTS):
            snapshot = self.store.newest(name)
            fresh = _fresh(snapshot, subpath, records)
            if not fresh:
                return
            tip = snapshot.id if snapshot else None
            change = self.store.begin(name, _title(fresh, subpath), expect=tip)
            _push(change, subpath, fresh)
            if subpath is None:
                folded = fold_session_summary(_previous(snapshot, key), key, [e for e, _ in fresh])  # type: ignore[misc]
                change.set_blob(SUMMARY, to_json(folded["data"]))
            try:
                change.commit()
                return
            except Conflict:
                continue
        raise Conflict(f"others are always faster on {name}")

    def _delete(self, key: SessionKey) -> None:
        name, subpath = _name(key), key.get("subpath")
        if subpath is None:
            self.store.delete(name)
            return
        snapshot = self.store.newest(name)
        if snapshot is None or not snapshot.count(_section(subpath)):
            return
        with self.store.begin(name, f"delete {subpath}") as change:
            change.drop_section(_section(subpath))
            change.drop_section(f"agents/{_agent(subpath)}/messages")
            for uuid in snapshot.keys(UUIDS, _uuid_key(subpath, "")):
                change.remove(UUIDS, uuid)

    def _sessions(self, project: str) -> list[tuple[str, Snapshot]]:
        """The sessions of a project that have a transcript of their own."""
        found = []
        for name in self.store.sessions():
            parts = parts_of(name)
            if parts[:2] != ("claude", project) or len(parts) != 3:
                continue
            snapshot = self.store.newest(name)
            if snapshot is not None and snapshot.count(ENTRIES):
                found.append((parts[2], snapshot))
        return found


def _name(key: SessionKey) -> str:
    return session_name("claude", key["project_key"], key["session_id"])


def _section(subpath: str | None) -> str:
    return ENTRIES if subpath is None else f"{ENTRIES}:{quote(subpath)}"


def _uuid_key(subpath: str | None, uuid: str) -> str:
    return f"{quote(subpath or '')}/{quote(uuid)}"


def _subpaths(snapshot: Snapshot) -> list[str]:
    start = f"{ENTRIES}:"
    return [
        parts_of(name[len(start) :])[0] for name in snapshot.sections() if name.startswith(start)
    ]


def _agent(subpath: str | None) -> str:
    """The agent whose conversation a transcript is."""
    return "main" if subpath is None else f"{quote(subpath.removeprefix('subagents/'))}@main"


_EPOCH = datetime.fromtimestamp(0, timezone.utc)


def _mtime(snapshot: Snapshot) -> int:
    return (snapshot.time - _EPOCH) // timedelta(milliseconds=1)


def _summary(snapshot: Snapshot) -> dict[str, Any]:
    data: dict[str, Any] = from_json(snapshot[SUMMARY])
    return data


def _previous(snapshot: Snapshot | None, key: SessionKey) -> SessionSummaryEntry | None:
    if snapshot is None or not snapshot.count(SUMMARY):
        return None
    data = _summary(snapshot)
    return {"session_id": key["session_id"], "mtime": _mtime(snapshot), "data": data}


def _fresh(
    snapshot: Snapshot | None, subpath: str | None, records: list[tuple[dict[str, Any], bytes]]
) -> list[tuple[dict[str, Any], bytes]]:
    """The entries that are not there yet."""
    fresh, seen = [], set()
    for entry, record in records:
        uuid = entry.get("uuid")
        if uuid is not None:
            known = snapshot and snapshot.get(UUIDS, _uuid_key(subpath, str(uuid))) is not None
            if known or uuid in seen:
                continue
            seen.add(uuid)
        fresh.append((entry, record))
    return fresh


def _push(
    change: Transaction, subpath: str | None, fresh: list[tuple[dict[str, Any], bytes]]
) -> None:
    for entry, record in fresh:
        change.push(_section(subpath), record)
        if (uuid := entry.get("uuid")) is not None:
            change.put(UUIDS, _uuid_key(subpath, str(uuid)), b"")
        if entry.get("type") in ("user", "assistant") and isinstance(entry.get("message"), dict):
            agent, role = _agent(subpath), known_role(entry["message"].get("role", entry["type"]))
            change.push_message(role, record, agent=agent, format="claude-code")


def _title(fresh: list[tuple[dict[str, Any], bytes]], subpath: str | None) -> str:
    kinds = [str(entry.get("type")) for entry, _ in fresh]
    title = ", ".join(dict.fromkeys(kinds))
    return f"{subpath}: {title}" if subpath else title
