"""Strands Agents: the answers of its storage in memory, and versions beyond them."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("strands.storage")

from strands.storage import InMemoryStorage, Storage
from strands.types.exceptions import StorageError

from turntree.strands import TurntreeStorage


def test_it_answers_as_the_storage_in_memory(path: Path) -> None:
    async def play() -> None:
        source = random.Random(5)
        ours, theirs = TurntreeStorage(path), InMemoryStorage()
        assert isinstance(ours, Storage)
        keys = [f"session/{s}/{n}.json" for s in ("a", "ab", "é") for n in range(4)]
        for _ in range(150):
            key, data = source.choice(keys), source.randbytes(20)
            kind = source.choice(["write", "read", "delete", "list"])
            answers: list[Any] = []
            for storage in (ours, theirs):
                match kind:
                    case "write":
                        answers.append(await storage.write(key, data))
                    case "read":
                        answers.append(await storage.read(key))
                    case "delete":
                        answers.append(await storage.delete(key))
                    case _:
                        answers.append(await storage.list(key[:9]))
            assert answers[0] == answers[1], (kind, key)
        assert await ours.list() == await theirs.list()
        await ours.write("words", b"the quick brown fox")
        assert [found.key for found in await ours.search("quick fox")] == ["words"]
        for key in ("", "k" * 5000):
            with pytest.raises(StorageError):
                await ours.write(key, b"")
        ours.close()
        with pytest.raises(StorageError):
            await ours.read("words")

    asyncio.run(play())


def test_an_agent_written_again_and_again_costs_what_is_new(path: Path) -> None:
    async def play() -> None:
        storage = TurntreeStorage(path)
        text = b"".join(
            b"message %d: %s\n" % (n, random.Random(n).randbytes(40).hex().encode())
            for n in range(1500)
        )
        for end in range(1000, len(text), 1000):
            await storage.write("session/s/agent.json", text[:end])
        storage.store.collect(repack=True)
        kept = sum(file.stat().st_size for file in (path / "packs").iterdir())
        assert kept < 4 * len(text), "some hundred versions, each up to all of it"
        versions = list(storage.store.log("strands"))
        assert versions[-1].get("storage", "session/s/agent.json") == text[:1000]
        storage.close()

    asyncio.run(play())
