"""What all adapters promise alike: whose store is closed, and calls from several event loops."""

from __future__ import annotations

import asyncio
import importlib
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import turntree
from turntree._adapter import AdapterStore, InOrder

ADAPTERS: list[tuple[str, str, Callable[..., Any]]] = [
    ("langgraph", "langgraph", lambda module, store: module.TurntreeSaver(store)),
    ("langgraph", "langgraph", lambda module, store: module.TurntreeStore(store)),
    ("agents", "openai_agents", lambda module, store: module.TurntreeSession("s", store)),
    ("google.adk", "adk", lambda module, store: module.TurntreeSessionService(store)),
    ("claude_agent_sdk", "claude", lambda module, store: module.TurntreeSessionStore(store)),
    ("pydantic_ai", "pydantic_ai", lambda m, store: m.TurntreeConversationStore(store)),
    ("strands", "strands", lambda module, store: module.TurntreeStorage(store)),
    ("agent_framework", "agent_framework", lambda m, store: m.TurntreeCheckpointStorage(store)),
    ("agent_framework", "agent_framework", lambda m, store: m.TurntreeHistoryProvider(store)),
    ("agent_framework", "agent_framework", lambda m, store: m.TurntreeSessionStore(store)),
]


@pytest.mark.parametrize(("framework", "name", "make"), ADAPTERS)
def test_only_a_store_that_an_adapter_opened_is_closed(
    path: Path, framework: str, name: str, make: Callable[..., Any]
) -> None:
    pytest.importorskip(framework)
    module = importlib.import_module(f"turntree.{name}")
    with turntree.Store(path) as store:
        adapter = make(module, store)
        assert adapter.store is store
        adapter.close()
        assert not store.closed
        assert store.sessions() == []
    opened = make(module, path)
    opened.close()
    assert opened.store.closed


def test_a_saver_leaves_a_passed_store_open_in_a_with(path: Path) -> None:
    langgraph = pytest.importorskip("turntree.langgraph")

    async def play(store: turntree.Store) -> None:
        async with langgraph.TurntreeSaver(store):
            pass

    with turntree.Store(path) as store:
        with langgraph.TurntreeSaver(store):
            pass
        asyncio.run(play(store))
        assert not store.closed


def test_one_session_is_used_from_many_event_loops(path: Path) -> None:
    agents = pytest.importorskip("turntree.openai_agents")
    session = agents.TurntreeSession("s", path)

    async def add(number: int) -> None:
        items = ({"role": "user", "content": f"{number}.{part}"} for part in range(5))
        await asyncio.gather(*(session.add_items([item]) for item in items))

    for number in range(3):
        asyncio.run(add(number))
    threads = [threading.Thread(target=asyncio.run, args=(add(3 + one),)) for one in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = asyncio.run(session.get_items())
    assert len(found) == 35
    for number in range(7):
        mine = [item["content"] for item in found if item["content"].startswith(f"{number}.")]
        assert mine == [f"{number}.{part}" for part in range(5)]


def test_a_claude_store_works_under_trio(path: Path) -> None:
    trio = pytest.importorskip("trio")
    claude = pytest.importorskip("turntree.claude")
    store = claude.TurntreeSessionStore(path)
    key = {"project_key": "p", "session_id": "s"}

    async def play() -> Any:
        await store.append(key, [{"type": "user", "uuid": "1"}])
        return await store.load(key)

    assert len(trio.run(play)) == 1


def test_calls_keep_their_order_past_errors_and_cancelled_calls(path: Path) -> None:
    adapter = AdapterStore(path, "test")
    order, done = InOrder(adapter), []
    first = threading.Event()

    def note(number: int) -> None:
        if number == 0:
            first.wait(10)
        if number == 3:
            raise LookupError(number)
        done.append(number)

    async def play() -> None:
        calls = [asyncio.ensure_future(order.run(lambda n=n: note(n))) for n in range(40)]  # type: ignore[misc]
        await asyncio.sleep(0.05)
        for number in (20, 39):  # They wait for a thread.
            calls[number].cancel()
        await asyncio.sleep(0)  # The loop passes it on to the waiting calls.
        first.set()
        results = await asyncio.gather(*calls, return_exceptions=True)
        assert isinstance(results[3], LookupError)
        assert isinstance(results[20], asyncio.CancelledError)

    asyncio.run(play())
    assert done == [number for number in range(40) if number not in (3, 20, 39)]
    asyncio.run(order.run(lambda: note(40)))
    assert done[-1] == 40
    adapter.close()


def test_a_call_in_order_goes_on_in_a_forked_process(path: Path) -> None:
    adapter = AdapterStore(path, "test")
    order = InOrder(adapter)
    asyncio.run(order.run(lambda: None))
    child = os.fork()
    if child == 0:
        found = 1
        try:
            found = asyncio.run(asyncio.wait_for(order.run(lambda: 0), 20))
        finally:
            os._exit(found)
    assert os.waitpid(child, 0)[1] == 0


def test_waits_of_an_adapter_take_no_thread_of_others(path: Path) -> None:
    adapter = AdapterStore(path, "test")
    held = threading.Event()

    async def play() -> None:
        waits = [asyncio.ensure_future(adapter.run(lambda: held.wait(10))) for _ in range(100)]
        assert await asyncio.wait_for(asyncio.to_thread(lambda: 7), 5) == 7
        held.set()
        assert all(await asyncio.gather(*waits))

    asyncio.run(play())
    adapter.close()
