"""Pydantic AI: the answers of its store in memory, and conversations as sessions beyond them."""

from __future__ import annotations

import asyncio
import random
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pydantic_ai.conversation_store")

from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import ConversationConflict, InMemoryConversationStore
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import (
    BinaryContent,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    UserPromptPart,
)

import turntree
from turntree.pydantic_ai import TurntreeConversationStore


NOON = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)


def turn(number: int) -> list[Any]:
    content: Any = [f"question {number}", BinaryContent(b"\0\xff", media_type="application/pdf")]
    parts: list[Any] = [TextPart(f"answer {number}"), ToolCallPart("look", {"at": number}, "c1")]
    return [
        ModelRequest([UserPromptPart(content, timestamp=NOON)]),
        ModelResponse(parts, timestamp=NOON),
    ]


def test_it_answers_as_the_store_in_memory(path: Path) -> None:
    async def play() -> None:
        source = random.Random(11)
        stores: list[Any] = [TurntreeConversationStore(path), InMemoryConversationStore()]
        names = ["a", "b/c", "..", "é"]
        for number in range(80):
            kind = source.choice(
                ["save", "save", "save", "rewrite", "branch", "fork", "delete", "window"]
            )
            name, other, at = source.choice(names), source.choice(names), source.randrange(6)
            answers = []
            for store in stores:
                try:
                    answers.append(await act(store, kind, name, other, at, number))
                except (UserError, ConversationConflict) as error:
                    answers.append(type(error))
            assert answers[0] == answers[1], (number, kind, name, other, at)
        for name in names:
            states = [await state(store, name) for store in stores]
            assert states[0] == states[1], name
        stores[0].close()

    async def act(store: Any, kind: str, name: str, other: str, at: int, number: int) -> Any:
        loaded = await store.load(name, limit=2 if kind == "window" else None)
        conversation = loaded or Conversation(conversation_id=name)
        if kind in ("save", "window"):
            conversation.messages.extend(turn(number))
            await store.save(conversation, scope=None if loaded else f"scope {len(name)}")
        elif kind == "rewrite":
            fresh = Conversation(
                conversation_id=name, messages=[*conversation.messages[:at], *turn(number)]
            )
            fresh.revision = conversation.revision
            await store.save(fresh)
        elif kind == "branch":
            await store.branch(name, at=at, expected_revision=conversation.revision)
        elif kind == "fork":
            await store.fork(name, at=at, new_conversation_id=other)
        elif loaded and number % 3 == 0:
            await store.delete(name)
        return await state(store, name)

    async def state(store: Any, name: str) -> Any:
        loaded = await store.load(name)
        listed = await store.list_conversations()
        records = sorted((one.conversation_id, one.scope, len(one.branches)) for one in listed)
        return loaded and loaded.messages, records

    asyncio.run(play())


def test_what_others_saved_meanwhile_is_a_conflict(path: Path) -> None:
    async def play() -> None:
        one, other = TurntreeConversationStore(path), TurntreeConversationStore(path)
        await one.save(Conversation(conversation_id="c", messages=turn(1)))
        ours, theirs = await one.load("c"), await other.load("c")
        assert ours and theirs
        ours.messages.extend(turn(2))
        theirs.messages.extend(turn(3))
        await one.save(ours)
        with pytest.raises(ConversationConflict):
            await other.save(theirs)
        with pytest.raises(ConversationConflict):
            await other.save(Conversation(conversation_id="c", messages=turn(4)))
        with pytest.raises(LookupError):
            await one.read_entry("none")

    asyncio.run(play())


def test_a_conversation_is_a_session_whose_messages_are_messages(path: Path) -> None:
    async def play() -> None:
        store = TurntreeConversationStore(path)
        conversation = Conversation(conversation_id="c", messages=turn(1))
        await store.save(conversation)
        conversation.messages.extend(turn(2))
        await store.save(conversation)
        branched = await store.branch("c", at=1, expected_revision=conversation.revision)
        branched.messages.extend(turn(3)[1:])
        await store.save(branched)
        await store.fork("c", new_conversation_id="d")
        await store.delete("c")
        forked = await store.load("d")
        assert forked and forked.messages == branched.messages
        store.close()

    asyncio.run(play())
    with turntree.Store(path) as store:
        assert store.sessions() == ["pydantic-ai+d"]
        shown = store["pydantic-ai+d"].messages()
        assert [message.role for message in shown] == ["user", "assistant"]
        assert b"answer 3" in shown[1].record
