"""The OpenAI Agents SDK: the answers of its own SQLite session, and branches beyond them."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("agents")

from agents import SQLiteSession
from agents.memory import Session, SessionSettings

import turntree
from turntree.openai_agents import TurntreeSession


def said(role: str, text: str) -> Any:
    return {"role": role, "content": text}


def test_it_answers_as_the_sessions_of_sqlite(tmp_path: Path) -> None:
    async def play() -> None:
        source = random.Random(3)
        ours: Any = TurntreeSession("s", tmp_path / "store")
        theirs = SQLiteSession("s", tmp_path / "sessions.db")
        assert isinstance(ours, Session)
        for number in range(120):
            kind = source.choice(["add", "add", "add", "get", "pop", "clear", "limit"])
            if kind == "clear" and number % 3:
                kind = "add"
            count = source.randrange(-1, 5)
            items = [said("user", f"{number} é\0"), {"type": "reasoning", "n": [1, None, 1.5]}]
            answers = []
            for session in (ours, theirs):
                match kind:
                    case "add":
                        answers.append(await session.add_items(items[: max(0, count)]))
                    case "pop":
                        answers.append(await session.pop_item())
                    case "clear":
                        answers.append(await session.clear_session())
                    case "limit":
                        answers.append(await session.get_items(count))
                    case _:
                        answers.append(await session.get_items())
            assert answers[0] == answers[1], (number, kind, count)
        limited = TurntreeSession("s", ours.store, session_settings=SessionSettings(limit=2))
        assert await limited.get_items() == (await ours.get_items())[-2:]
        ours.close()
        theirs.close()

    asyncio.run(play())


def test_branches_from_turns(path: Path) -> None:
    async def play() -> None:
        session = TurntreeSession("customer 7/é", path)
        for turn in range(3):
            await session.add_items([said("user", f"q{turn}"), said("assistant", f"a{turn}")])
        whole = await session.get_items()
        name = await session.create_branch_from_turn(2, "plan b")
        assert name == session.branch_id == "plan b" and await session.get_items() == whole[:2]
        await session.add_items([said("user", "other")])
        await session.switch_to_branch("main")
        assert await session.get_items() == whole
        branches = await session.list_branches()
        assert [(b["branch_id"], b["message_count"], b["user_turns"]) for b in branches] == [
            ("main", 6, 3),
            ("plan b", 3, 2),
        ]
        again = await session.create_branch_from_turn(1)
        await session.switch_to_branch("main")
        assert await session.create_branch_from_turn(1) != again
        for wrong in (
            session.create_branch_from_turn(0),
            session.create_branch_from_turn(9),
            session.create_branch_from_turn(1, "plan b"),
            session.switch_to_branch("none"),
            session.delete_branch("main"),
            session.delete_branch("none"),
            session.delete_branch(session.branch_id),
        ):
            with pytest.raises(ValueError):
                await wrong
        await session.delete_branch("plan b")
        session.close()

    asyncio.run(play())


def test_calls_at_once_and_in_several_sessions_lose_nothing(path: Path) -> None:
    async def play() -> None:
        one, other = TurntreeSession("s", path), TurntreeSession("s", path)
        calls = [s.add_items([said("user", f"{n}")]) for n in range(20) for s in (one, other)]
        await asyncio.gather(*calls)
        texts = [item["content"] for item in await one.get_items()]  # type: ignore[typeddict-item]
        assert sorted(texts) == sorted([f"{n}" for n in range(20)] * 2)
        popped = await asyncio.gather(*(s.pop_item() for _ in range(21) for s in (one, other)))
        assert len([item for item in popped if item]) == 40
        with pytest.raises(TypeError):
            await one.add_items([{"content": object()}])  # type: ignore[list-item]
        one.close()
        with pytest.raises(turntree.InvalidInput):
            await one.get_items()

    asyncio.run(play())
