"""Google's Agent Development Kit on turntree: ``TurntreeSessionService`` keeps sessions.

    runner = Runner(agent=agent, app_name="app", session_service=TurntreeSessionService("agents.turntree"))

A session is a session of the store; what an app and a user share is in sessions of their own, and an event
changes all three in one commit:

======================== ==== ===================================================
``adk-session``          blob when it was last changed
``adk-events``           list its events
``adk-event-ids``        map  the place of each event, by id
``adk-state``            map  its state, or that of the app or the user
``agents/main/messages`` list what was said, for people
======================== ==== ===================================================
"""

from __future__ import annotations

import json
import time
import uuid
from os import PathLike
from typing import Any
from weakref import WeakValueDictionary

from google.adk.errors._stale_session_error import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.sessions.base_session_service import (
    BaseSessionService,
    GetSessionConfig,
    ListSessionsResponse,
)
from google.adk.sessions.session import Session
from google.adk.sessions.state import State

from turntree import Conflict, Role, Snapshot, Store, Transaction
from turntree._adapter import AdapterStore, InOrder
from turntree._json import from_json, to_json
from turntree._names import parts_of, session_name

__all__ = ["TurntreeSessionService"]

SESSION = "adk-session"
EVENTS = "adk-events"
IDS = "adk-event-ids"
STATE = "adk-state"

#: How often a change is made again when others are faster.
MAX_ATTEMPTS = 1000


class TurntreeSessionService(BaseSessionService):
    """Keeps sessions in the turntree store at ``store``, which is made if nothing is there.

    A state's value that is not JSON is kept as its text. Appending an event to a session that
    changed since it was read raises ``StaleSessionError``; appends to one ``Session`` object may run
    at once, and keep their order."""

    def __init__(self, store: Store | str | PathLike[str]) -> None:
        self._adapter = AdapterStore(store, "adk")
        self.store = self._adapter.store
        #: The appends of a session, in order, while there are any.
        self._appends: WeakValueDictionary[str, InOrder] = WeakValueDictionary()

    async def create_session(
        self,
        *,
        app_name: str,
        user_id: str,
        state: dict[str, Any] | None = None,
        session_id: str | None = None,
    ) -> Session:
        id = (session_id or "").strip() or str(uuid.uuid4())
        return await self._adapter.run(lambda: self._create(app_name, user_id, id, state or {}))

    async def get_session(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        config: GetSessionConfig | None = None,
    ) -> Session | None:
        def read() -> Session | None:
            snapshot = self.store.newest(_name(app_name, user_id, session_id.strip()))
            if snapshot is None:
                return None
            events = _events(snapshot, config or GetSessionConfig())
            return self._session(snapshot, app_name, user_id, session_id.strip(), events)

        return await self._adapter.run(read)

    async def list_sessions(
        self, *, app_name: str, user_id: str | None = None
    ) -> ListSessionsResponse:
        def read() -> ListSessionsResponse:
            found = []
            for name in self.store.sessions():
                parts = parts_of(name)
                if len(parts) != 4 or parts[:2] != ("adk", app_name):
                    continue
                snapshot = self.store.newest(name) if user_id in (None, parts[2]) else None
                if snapshot is not None:
                    found.append(self._session(snapshot, *parts[1:], []))
            found.sort(key=lambda session: (session.last_update_time, session.user_id, session.id))
            return ListSessionsResponse(sessions=found)

        return await self._adapter.run(read)

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        name = _name(app_name, user_id, session_id.strip())
        await self._adapter.run(lambda: self.store.delete(name))

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        return await self._adapter.run(lambda: self._state(_user(app_name, user_id)))

    async def append_event(self, session: Session, event: Event) -> Event:
        if event.partial:
            return event
        # What is kept has no state that is only for this invocation.
        kept = self._trim_temp_delta_state(event.model_copy(deep=True))
        appends = self._appends.setdefault(_name_of(session), InOrder(self._adapter))
        is_new = await appends.run(lambda: self._append(session, kept))
        if is_new:
            await super().append_event(session, event)
            session.last_update_time = event.timestamp
        return event

    def close(self) -> None:
        """Waits for calls that run, and closes the store unless it was passed in as a ``Store``."""
        self._adapter.close()

    def _create(self, app: str, user: str, id: str, state: dict[str, Any]) -> Session:
        now = time.time()
        for _ in range(MAX_ATTEMPTS):
            if self.store.tip(_name(app, user, id)) is not None:
                raise AlreadyExistsError(f"Session with id {id} already exists.")
            change = self.store.begin(_name(app, user, id), "create the session", expect=None)
            change.set_blob(SESSION, to_json({"last_update_time": now}))
            _put_state(change, app, user, state)
            try:
                change.commit()
                break
            except Conflict:
                continue
        snapshot = self.store[_name(app, user, id)]
        return self._session(snapshot, app, user, id, [])

    def _append(self, session: Session, event: Event) -> bool:
        """Appends an event, and returns whether the session had none with its id. The session counts as
        read at the new snapshot, before the next append to it compares."""
        app, user, name = session.app_name, session.user_id, _name_of(session)
        record = event.model_dump_json(exclude_none=True, by_alias=True).encode()
        for _ in range(MAX_ATTEMPTS):
            snapshot = self.store.newest(name)
            if snapshot is None:
                raise SessionNotFoundError(f"Session {session.id} not found.")
            count = snapshot.count(EVENTS)
            at = snapshot.get(IDS, event.id) if event.id else None
            if at is not None and snapshot.list(EVENTS, int(at), int(at) + 1) == [record]:
                return False
            _expect_fresh(session, snapshot)
            change = self.store.begin(name, _title(event), expect=snapshot.id)
            change.push(EVENTS, record)
            if event.id:
                change.put(IDS, event.id, str(count).encode())
            change.set_blob(SESSION, to_json({"last_update_time": event.timestamp}))
            _show(change, event)
            _put_state(change, app, user, (event.actions and event.actions.state_delta) or {})
            try:
                session._storage_update_marker = change.commit()
                return True
            except Conflict:
                continue
        raise Conflict(f"others are always faster on {name}")

    def _session(
        self, snapshot: Snapshot, app: str, user: str, id: str, events: list[Event]
    ) -> Session:
        state = {key: from_json(value) for key, value in snapshot.scan(STATE)}
        for prefix, name in ((State.APP_PREFIX, _app(app)), (State.USER_PREFIX, _user(app, user))):
            state |= {prefix + key: value for key, value in self._state(name).items()}
        last = from_json(snapshot[SESSION])["last_update_time"]
        session = Session(
            id=id, app_name=app, user_id=user, state=state, events=events, last_update_time=last
        )
        session._storage_update_marker = snapshot.id
        return session

    def _state(self, name: str) -> dict[str, Any]:
        snapshot = self.store.newest(name)
        found = snapshot.scan(STATE) if snapshot else []
        return {key: from_json(value) for key, value in found}


def _name(app: str, user: str, id: str) -> str:
    return session_name("adk", app, user, id)


def _name_of(session: Session) -> str:
    return _name(session.app_name, session.user_id, session.id)


def _app(app: str) -> str:
    return session_name("adk-app", app)


def _user(app: str, user: str) -> str:
    return session_name("adk-user", app, user)


def _expect_fresh(session: Session, snapshot: Snapshot) -> None:
    marker = session._storage_update_marker
    last = from_json(snapshot[SESSION])["last_update_time"]
    if marker != snapshot.id if marker else last > session.last_update_time:
        raise StaleSessionError(f"Session {session.id} was changed since it was read.")


def _put_state(change: Transaction, app: str, user: str, state: dict[str, Any]) -> None:
    """Sets entries of the state of the session, the app and the user, by their prefixes."""
    for key, value in state.items():
        if key.startswith(State.TEMP_PREFIX):
            continue
        part = change
        for prefix, name in ((State.APP_PREFIX, _app(app)), (State.USER_PREFIX, _user(app, user))):
            if key.startswith(prefix):
                part, key = change.on(name), key.removeprefix(prefix)
        part.put(STATE, key, json.dumps(value, default=str).encode())


def _events(snapshot: Snapshot, config: GetSessionConfig) -> list[Event]:
    start, recent = 0, config.num_recent_events
    if recent is not None:
        start = max(0, snapshot.count(EVENTS) - recent)
    events = [Event.model_validate_json(record) for record in snapshot.list(EVENTS, start)]
    if (after := config.after_timestamp) is not None:
        older = [at for at, event in enumerate(events) if event.timestamp < after]
        events = events[older[-1] + 1 :] if older else events
    return events


def _text(event: Event) -> str:
    parts = (event.content.parts or []) if event.content else []
    return "\n\n".join(part.text for part in parts if part.text and not part.thought)


def _title(event: Event) -> str:
    return f"{event.author}: {' '.join(_text(event).split())[:60]}".removesuffix(": ")


def _show(change: Transaction, event: Event) -> None:
    """Adds what an event says to the conversation of the session."""
    parts = (event.content.parts or []) if event.content else []
    calls = [part.function_call for part in parts if part.function_call]
    answers = [part.function_response for part in parts if part.function_response]
    if text := _text(event):
        role: Role = "user" if event.author == "user" else "assistant"
        change.push_message(role, to_json({"role": role, "content": text}), format="openai-chat")
    if calls:
        called = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": json.dumps(call.args, default=str)},
            }
            for call in calls
        ]
        record = {"role": "assistant", "content": "", "tool_calls": called}
        change.push_message("assistant", to_json(record), format="openai-chat")
    for answer in answers:
        content = json.dumps(answer.response, default=str, ensure_ascii=False)
        told = {"role": "tool", "tool_call_id": answer.id, "content": content}
        change.push_message("tool", to_json(told), format="openai-chat")
