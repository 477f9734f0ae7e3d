"""The Claude Agent SDK: the contracts of its owners, and what is promised beyond them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("claude_agent_sdk")

from claude_agent_sdk.testing import run_session_store_conformance

import turntree
from turntree.claude import TurntreeSessionStore

KEY: Any = {"project_key": "-home-me-project", "session_id": "5a0c8b1e-1f6b-4f61-9d3a-0d7b8f6c1a2b"}


def entry(number: int, kind: str = "user", **more: Any) -> Any:
    message = {"role": kind, "content": f"entry {number}"}
    return {"type": kind, "uuid": f"u{number}", "message": message, **more}


def test_the_contracts_of_the_sdk_hold(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    stores = iter(range(100))
    make = lambda: TurntreeSessionStore(tmp_path / str(next(stores)))  # noqa: E731
    asyncio.run(run_session_store_conformance(make))
    # Each contract has a store of its own, after one that tells what the store can do.
    contracts = next(stores) - 1
    record_property("run_session_store_conformance", f"{contracts} of {contracts}")
    assert contracts >= 14


def test_an_entry_comes_once_however_often_its_batch_is_sent(path: Path) -> None:
    async def play() -> None:
        store = TurntreeSessionStore(path)
        await store.append(KEY, [entry(1), entry(1), {"type": "title", "title": "a"}])
        await store.append(KEY, [entry(1), entry(2, "assistant"), {"type": "title", "title": "a"}])
        title = {"type": "title", "title": "a"}
        assert await store.load(KEY) == [entry(1), title, entry(2, "assistant"), title]
        sub = {**KEY, "subpath": "subagents/agent-1"}
        await store.append(sub, [entry(1)])
        assert await store.load(sub) == [entry(1)], "a transcript has its own entries"
        await store.delete(sub)
        await store.append(sub, [entry(1)])
        assert await store.load(sub) == [entry(1)], "and forgets them with itself"
        store.close()

    asyncio.run(play())


def test_calls_at_once_keep_their_order(path: Path) -> None:
    async def play() -> None:
        store = TurntreeSessionStore(path)
        await asyncio.gather(*(store.append(KEY, [entry(number)]) for number in range(50)))
        assert await store.load(KEY) == [entry(number) for number in range(50)]
        store.close()

    asyncio.run(play())


def test_several_stores_on_one_session_lose_nothing(path: Path) -> None:
    async def write(writer: int) -> None:
        store = TurntreeSessionStore(path)
        for number in range(10):
            await store.append(
                KEY, [entry(number, writer=writer), entry(100 * writer + number + 100)]
            )
        store.close()

    async def play() -> None:
        await asyncio.gather(*(write(writer) for writer in range(3)))
        store = TurntreeSessionStore(path)
        loaded = await store.load(KEY) or []
        uuids = [str(one["uuid"]) for one in loaded]  # type: ignore[typeddict-item]
        expected = {f"u{n}" for n in range(10)} | {
            f"u{100 * w + n + 100}" for w in range(3) for n in range(10)
        }
        assert set(uuids) == expected and len(uuids) == len(expected)

    asyncio.run(play())


def test_a_transcript_is_a_session_whose_messages_are_messages(path: Path) -> None:
    async def play() -> None:
        store = TurntreeSessionStore(path)
        await store.append(KEY, [entry(1), {"type": "summary", "summary": "x"}])
        await store.append(KEY, [entry(2, "assistant")])
        await store.append({**KEY, "subpath": "subagents/a1"}, [entry(3)])
        store.close()

    asyncio.run(play())
    with turntree.Store(path) as store:
        [session] = store.sessions()
        snapshot = store[session]
        assert [message.role for message in snapshot.messages()] == ["user", "assistant"]
        assert snapshot.agents() == ["a1@main", "main"]
        assert [one.turn for one in store.log(session)] == [3, 2, 1]


def test_any_text_and_any_key_comes_back(path: Path) -> None:
    async def play() -> None:
        store = TurntreeSessionStore(path)
        odd = [{"type": "x", "text": text} for text in ("\0", "\ud800", "é\n", "a" * 100_000)]
        keys: list[Any] = [
            {"project_key": project, "session_id": session}
            for project in ("", "a/b", "a+b", "-x.lock", "é ü")
            for session in ("..", "@", "~1:2^")
        ]
        for number, key in enumerate(keys):
            await store.append(key, [{"type": "n", "number": number}, *odd])
        for number, key in enumerate(keys):
            assert await store.load(key) == [{"type": "n", "number": number}, *odd]
        assert len(await store.list_sessions("a/b")) == 3
        with pytest.raises(TypeError):
            await store.append(KEY, [{"type": "x", "value": object()}])  # type: ignore[typeddict-unknown-key]
        assert await store.load(KEY) is None
        store.close()
        with pytest.raises(turntree.InvalidInput):
            await store.load(KEY)

    asyncio.run(play())
