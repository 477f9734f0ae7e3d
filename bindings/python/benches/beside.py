"""What a conversation costs in the store of each framework and in turntree: prints a JSON record for each.

    python benches/beside.py [--sizes]

A turn is a question of 200 bytes and an answer of 2 KB. The time is the median of the last 50 turns, of a
store whose bytes are on disk; ``bytes`` is null for one that keeps them in memory. With ``--sizes``, as for a
build without optimisation, times are null. The table of the README is made of it: ``bindings/frameworks``.
"""

from __future__ import annotations

import asyncio
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import chat_graph

TURNS = 200
LAST = 50

#: Plays one turn, by its number, its question and its answer.
Turn = Callable[[int, str, str], Awaitable[Any]]
#: Opens a store in a folder. Returns how a turn is played, and how the store is closed.
Opens = Callable[[Path], tuple[Turn, Callable[[], Any]]]


def nothing() -> None:
    pass


def langgraph(ours: bool) -> Opens:
    def opens(folder: Path) -> tuple[Turn, Callable[[], Any]]:
        from langchain_core.messages import AIMessage, HumanMessage
        from langgraph.graph import START, MessagesState, StateGraph

        make = chat_graph.turntree_saver if ours else chat_graph.sqlite_saver
        opened = make(folder)
        saver, texts = opened.__enter__(), [""]
        builder: Any = StateGraph(MessagesState)
        builder.add_node("answer", lambda _: {"messages": [AIMessage(texts[-1])]})
        builder.add_edge(START, "answer")
        graph = builder.compile(checkpointer=saver)
        config: Any = {"configurable": {"thread_id": "t"}}

        async def turn(at: int, question: str, answer: str) -> None:
            texts.append(answer)
            graph.invoke({"messages": [HumanMessage(question)]}, config)

        return turn, lambda: opened.__exit__(None, None, None)

    return opens


def claude(ours: bool) -> Opens:
    def opens(folder: Path) -> tuple[Turn, Callable[[], Any]]:
        from claude_agent_sdk import InMemorySessionStore

        from turntree.claude import TurntreeSessionStore

        store: Any = TurntreeSessionStore(folder / "store") if ours else InMemorySessionStore()
        key: Any = {"project_key": "p", "session_id": "s"}

        async def turn(at: int, question: str, answer: str) -> None:
            said = [("user", question), ("assistant", answer)]
            entries = [
                {"type": role, "uuid": f"{at}-{role}", "message": {"role": role, "content": text}}
                for role, text in said
            ]
            await store.append(key, entries)

        return turn, store.close if ours else nothing

    return opens


def openai(ours: bool) -> Opens:
    def opens(folder: Path) -> tuple[Turn, Callable[[], Any]]:
        from agents import SQLiteSession

        from turntree.openai_agents import TurntreeSession

        session: Any = (
            TurntreeSession("s", folder / "store") if ours else SQLiteSession("s", folder / "s.db")
        )

        async def turn(at: int, question: str, answer: str) -> None:
            await session.add_items([{"role": "user", "content": question}])
            await session.add_items([{"role": "assistant", "content": answer}])

        return turn, session.close

    return opens


def pydantic(ours: bool) -> Opens:
    def opens(folder: Path) -> tuple[Turn, Callable[[], Any]]:
        from pydantic_ai import Agent
        from pydantic_ai.conversation import Conversation
        from pydantic_ai.conversation_store import InMemoryConversationStore
        from pydantic_ai.models.test import TestModel
        from pydantic_ai.usage import UsageLimits

        from turntree.pydantic_ai import TurntreeConversationStore

        store: Any = (
            TurntreeConversationStore(folder / "store") if ours else InMemoryConversationStore()
        )

        async def turn(at: int, question: str, answer: str) -> None:
            conversation = await store.load("c") or Conversation(conversation_id="c")
            agent = Agent(TestModel(custom_output_text=answer))
            limits = UsageLimits(request_limit=None)
            run = await agent.run(question, conversation=conversation, usage_limits=limits)
            await store.save(run)

        return turn, store.close if ours else nothing

    return opens


def adk(ours: bool) -> Opens:
    def opens(folder: Path) -> tuple[Turn, Callable[[], Any]]:
        from google.adk.events.event import Event
        from google.adk.sessions.sqlite_session_service import SqliteSessionService
        from google.genai import types

        from turntree.adk import TurntreeSessionService

        service: Any = (
            TurntreeSessionService(folder / "store")
            if ours
            else SqliteSessionService(str(folder / "adk.db"))
        )
        sessions: list[Any] = []

        async def turn(at: int, question: str, answer: str) -> None:
            if not sessions:
                sessions.append(await service.create_session(app_name="a", user_id="u"))
            for author, text in (("user", question), ("agent", answer)):
                content = types.Content(role=author, parts=[types.Part(text=text)])
                await service.append_event(sessions[0], Event(author=author, content=content))

        return turn, service.close if ours else nothing

    return opens


def strands(ours: bool) -> Opens:
    def opens(folder: Path) -> tuple[Turn, Callable[[], Any]]:
        from strands.storage import LocalFileStorage

        from turntree.strands import TurntreeStorage

        storage: Any = (
            TurntreeStorage(folder / "store") if ours else LocalFileStorage(str(folder / "files"))
        )
        messages: list[Any] = []

        async def turn(at: int, question: str, answer: str) -> None:
            messages.append({"role": "user", "content": [{"text": question}]})
            messages.append({"role": "assistant", "content": [{"text": answer}]})
            snapshot = json.dumps({"messages": messages}).encode()
            await storage.write("session/s/agent.json", snapshot)

        return turn, storage.close if ours else nothing

    return opens


def agent_framework(ours: bool) -> Opens:
    def opens(folder: Path) -> tuple[Turn, Callable[[], Any]]:
        from agent_framework import Content, FileHistoryProvider, Message

        from turntree.agent_framework import TurntreeHistoryProvider

        history: Any = (
            TurntreeHistoryProvider(folder / "store")
            if ours
            else FileHistoryProvider(folder / "files")
        )

        async def turn(at: int, question: str, answer: str) -> None:
            said = [("user", question), ("assistant", answer)]
            messages = [Message(role, contents=[Content.from_text(text)]) for role, text in said]
            await history.save_messages("s", messages)

        return turn, history.close if ours else nothing

    return opens


#: The frameworks by the package that has them, with the name of their own store.
FRAMEWORKS: dict[str, tuple[Callable[[bool], Opens], str]] = {
    "langgraph": (langgraph, "SqliteSaver"),
    "claude-agent-sdk": (claude, "InMemorySessionStore"),
    "openai-agents": (openai, "SQLiteSession"),
    "pydantic-ai-slim": (pydantic, "InMemoryConversationStore"),
    "google-adk": (adk, "SqliteSessionService"),
    "strands-agents": (strands, "LocalFileStorage"),
    "agent-framework-core": (agent_framework, "FileHistoryProvider"),
}


async def measured(opens: Opens, texts: list[str]) -> tuple[int | None, float]:
    """The bytes of a conversation, and the milliseconds of a turn."""
    with tempfile.TemporaryDirectory() as kept:
        folder = Path(kept)
        turn, close = opens(folder)
        times = []
        for at in range(len(texts) // 2):
            start = time.perf_counter()
            await turn(at, texts[2 * at], texts[2 * at + 1])
            times.append((time.perf_counter() - start) * 1000)
        close()
        size = chat_graph.bytes_of(folder)
    return size or None, statistics.median(times[-LAST:])


def main() -> None:
    has_times = "--sizes" not in sys.argv[1:]
    source = random.Random(1)
    texts = [chat_graph.words(source, count) for _ in range(TURNS) for count in (30, 310)]
    for package, (make, theirs) in FRAMEWORKS.items():
        record: dict[str, Any] = {"package": package, "store": theirs}
        for name, ours in (("turntree", True), ("own", False)):
            size, ms = asyncio.run(measured(make(ours), texts))
            record[name] = {"bytes": size, "ms": round(ms, 2) if has_times else None}
        print(json.dumps(record), flush=True)


if __name__ == "__main__":
    main()
