"""Google's Agent Development Kit: the answers of its service in memory, and what goes beyond them."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("google.adk.sessions")

from google.adk.errors._stale_session_error import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions import InMemorySessionService
from google.adk.sessions.base_session_service import GetSessionConfig
from google.genai import types

import turntree
from turntree.adk import TurntreeSessionService


def event(number: int, author: str = "user", **state: Any) -> Event:
    delta = {key.replace("_", ":", 1): value for key, value in state.items()}
    parts = [types.Part(text=f"words {number} é")]
    return Event(
        id=f"e{number}",
        author=author,
        invocation_id=f"i{number}",
        timestamp=1000.0 + number,
        content=types.Content(role="user", parts=parts),
        actions=EventActions(state_delta=delta),
    )


def plain(session: Any) -> Any:
    if session is None:
        return None
    return session.id, session.user_id, session.state, [one.model_dump() for one in session.events]


def test_it_answers_as_the_service_in_memory(path: Path) -> None:
    async def play() -> None:
        source = random.Random(2)
        services: list[Any] = [TurntreeSessionService(path), InMemorySessionService()]
        for number in range(100):
            kind = source.choice(["create", "append", "append", "append", "get", "delete", "list"])
            if kind == "delete" and number % 2:
                kind = "append"
            key = {"app_name": "app", "user_id": source.choice("uv")}
            one = {**key, "session_id": source.choice(["s", "t/1", " é "])}
            recent, after = source.choice([None, 0, 2]), source.choice([None, 1000.0 + number / 2])
            config = GetSessionConfig(num_recent_events=recent, after_timestamp=after)
            answers = []
            for service in services:
                try:
                    answers.append(await act(service, kind, number, key, one, config))
                except (AlreadyExistsError, SessionNotFoundError) as error:
                    answers.append(type(error))
            assert answers[0] == answers[1], (number, kind, one)
        services[0].close()

    async def act(service: Any, kind: str, number: int, key: Any, one: Any, config: Any) -> Any:
        if kind == "create":
            state = {"a": 1, "app:b": [2, None], "user:c": {"d": "é"}, "temp:e": 1}
            return plain(await service.create_session(**one, state=state))
        if kind == "append":
            session = await service.get_session(**one)
            if session is None:
                return None
            new = event(number, n=number, app_n=number, user_n=None, temp_n=1)
            await service.append_event(session, new)
            await service.append_event(session, event(number, n=number, app_n=number, user_n=None))
            return plain(session), plain(await service.get_session(**one))
        if kind == "get":
            return plain(await service.get_session(**one, config=config))
        if kind == "delete":
            await service.delete_session(**one)
        listed = await service.list_sessions(app_name="app")
        own = await service.list_sessions(**key)
        names = sorted((s.user_id, s.id, str(sorted(s.state))) for s in listed.sessions)
        return names, len(own.sessions), await service.get_user_state(**key)

    asyncio.run(play())


def test_a_session_that_somebody_else_changed_is_stale(path: Path) -> None:
    async def play() -> None:
        service = TurntreeSessionService(path)
        one: Any = {"app_name": "app", "user_id": "u", "session_id": "s"}
        ours = await service.create_session(**one)
        theirs = await TurntreeSessionService(path).get_session(**one)
        assert theirs
        await service.append_event(ours, event(1))
        await service.append_event(ours, event(2, app_n=1))
        with pytest.raises(StaleSessionError):
            await service.append_event(theirs, event(3))
        partial = event(4)
        partial.partial = True
        await service.append_event(theirs, partial)
        await service.delete_session(**one)
        with pytest.raises(SessionNotFoundError):
            await service.append_event(ours, event(5))

    asyncio.run(play())


def test_a_session_shows_what_was_said_and_one_undo_takes_back_an_event(path: Path) -> None:
    async def play() -> None:
        service = TurntreeSessionService(path)
        session = await service.create_session(app_name="app", user_id="u", session_id="s")
        await service.append_event(session, event(1))
        await service.append_event(session, event(2, "model", app_n=1, n=2))
        service.close()

    asyncio.run(play())
    with turntree.Store(path, actor="adk") as store:
        name = "adk+app+u+s"
        assert [message.role for message in store[name].messages()] == [
            "user",
            "assistant",
        ]
        store.undo()
        assert store[name].count("adk-events") == 1 and store.tip("adk-app+app") is None


def test_events_appended_at_once_to_one_session_are_kept_in_order(path: Path) -> None:
    async def play() -> None:
        for service in (TurntreeSessionService(path), InMemorySessionService()):
            session = await service.create_session(app_name="app", user_id="u", session_id="s")
            events = [event(number, count=number) for number in range(20)]
            await asyncio.gather(*(service.append_event(session, one) for one in events))
            assert [one.id for one in session.events] == [one.id for one in events]
            read = await service.get_session(app_name="app", user_id="u", session_id="s")
            assert read and plain(read) == plain(session)
            stale = read.model_copy(deep=True)
            await service.append_event(read, event(20))
            if isinstance(service, TurntreeSessionService):
                with pytest.raises(StaleSessionError):
                    await service.append_event(stale, event(21))

    asyncio.run(play())
