"""Microsoft Agent Framework: the answers of its own stores to the same calls, and runs that continue."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("agent_framework")

from agent_framework import (
    AgentSession,
    Content,
    Executor,
    FileHistoryProvider,
    InMemoryCheckpointStorage,
    Message,
    SessionStore,
    WorkflowBuilder,
    WorkflowCheckpoint,
    WorkflowCheckpointException,
    WorkflowContext,
    handler,
)

import turntree
from turntree.agent_framework import (
    TurntreeCheckpointStorage,
    TurntreeHistoryProvider,
    TurntreeSessionStore,
)

KEYS = ["a", "b/c", "ünï", "..", "x" * 300]


def checkpoint(source: random.Random, number: int) -> WorkflowCheckpoint:
    return WorkflowCheckpoint(
        workflow_name=source.choice(KEYS),
        graph_signature_hash="h",
        checkpoint_id=source.choice([f"id {number}", "one", "two/three"]),
        timestamp=f"2026-01-01T00:00:{source.randrange(60):02}+00:00",
        state={
            "n": number,
            "deep": [{"é": None}, source.random()],
            "bytes": b"\x00\xff",
            "set": {1, 2},
        },
        iteration_count=number,
    )


async def outcome(call: Any) -> Any:
    try:
        return await call
    except WorkflowCheckpointException:
        return "no checkpoint"


@pytest.mark.parametrize("seed", [1, 2])
def test_checkpoints_are_answered_as_in_memory(path: Path, seed: int) -> None:
    async def play() -> None:
        source = random.Random(seed)
        ours, theirs = TurntreeCheckpointStorage(path), InMemoryCheckpointStorage()
        ids = ["one", "two/three", "never"]
        for number in range(150):
            kind = source.choice(["save", "save", "load", "list", "ids", "latest", "delete"])
            made, id, name = checkpoint(source, number), source.choice(ids), source.choice(KEYS)
            if kind == "save" and await outcome(theirs.load(made.checkpoint_id)) != "no checkpoint":
                # The one in memory keeps the place of a checkpoint that moves to another workflow.
                made.workflow_name = (await theirs.load(made.checkpoint_id)).workflow_name
            if kind == "save":
                ids.append(made.checkpoint_id)
            answers = []
            for storage in (ours, theirs):
                match kind:
                    case "save":
                        answers.append(await storage.save(made))
                    case "load":
                        answers.append(await outcome(storage.load(id)))
                    case "list":
                        answers.append(await storage.list_checkpoints(workflow_name=name))
                    case "ids":
                        answers.append(await storage.list_checkpoint_ids(workflow_name=name))
                    case "latest":
                        answers.append(await storage.get_latest(workflow_name=name))
                    case _:
                        answers.append(await storage.delete(id))
            assert answers[0] == answers[1], (number, kind)
            if source.random() < 0.05:
                ours.close()
                ours = TurntreeCheckpointStorage(path)
        ours.close()

    asyncio.run(play())


@dataclass
class Unknown:
    value: int


def test_what_could_not_be_loaded_is_not_saved(path: Path) -> None:
    async def play() -> None:
        saved = WorkflowCheckpoint("w", "h", state={"odd": Unknown(1)})
        storage = TurntreeCheckpointStorage(path)
        with pytest.raises(WorkflowCheckpointException):
            await storage.save(saved)
        assert await storage.list_checkpoint_ids(workflow_name="w") == []
        name = f"{Unknown.__module__}:{Unknown.__qualname__}"
        allowing = TurntreeCheckpointStorage(storage.store, allowed_checkpoint_types=[name])
        await allowing.save(saved)
        assert (await allowing.load(saved.checkpoint_id)).state == {"odd": Unknown(1)}
        storage.close()

    asyncio.run(play())


def test_a_workflow_continues_from_a_checkpoint_in_another_process(path: Path) -> None:
    class Count(Executor):
        def __init__(self, id: str, last: bool) -> None:
            super().__init__(id)
            self.last = last

        @handler
        async def count(self, number: int, context: WorkflowContext[int, int]) -> None:
            if number >= 6:
                await context.yield_output(number)
            else:
                await context.send_message(number + 1)

    def workflow(storage: TurntreeCheckpointStorage) -> Any:
        first, second = Count("first", False), Count("second", True)
        builder = WorkflowBuilder(start_executor=first, checkpoint_storage=storage, name="count")
        return builder.add_edge(first, second).add_edge(second, first).build()

    async def begin() -> list[str]:
        storage = TurntreeCheckpointStorage(path)
        result = await workflow(storage).run(0)
        assert result.get_outputs() == [6]
        ids = await storage.list_checkpoint_ids(workflow_name="count")
        storage.close()
        return ids

    async def again(id: str) -> Any:
        storage = TurntreeCheckpointStorage(path)
        result = await workflow(storage).run(checkpoint_id=id)
        storage.close()
        return result.get_outputs()

    ids = asyncio.run(begin())
    assert len(ids) > 4
    assert asyncio.run(again(ids[2])) == [6]
    with turntree.Store(path) as store:
        assert len(list(store.log("workflows"))) >= len(ids)


def message(source: random.Random, number: int) -> Message:
    kinds = [
        Content.from_text(f"text {number} ü😀"),
        Content.from_function_call(f"c{number}", "f", arguments={"n": number}),
        Content.from_function_result(f"c{number}", result={"n": number}),
    ]
    id = f"m{number}" if source.random() < 0.5 else None
    return Message(
        source.choice(["user", "assistant", "tool"]), contents=[source.choice(kinds)], message_id=id
    )


def test_a_history_is_that_of_files(path: Path, tmp_path: Path) -> None:
    async def play() -> None:
        source = random.Random(3)
        ours, theirs = TurntreeHistoryProvider(path), FileHistoryProvider(tmp_path / "files")
        said: list[Message] = []
        for number in range(60):
            session = source.choice(["a/b", "ü", None])
            new = [message(source, number * 10 + at) for at in range(source.randrange(3))]
            # Replays of messages that were stored before.
            given = (
                [*said[-source.randrange(1, 4) :], *new] if said and source.random() < 0.4 else new
            )
            said += new
            for provider in (ours, theirs):
                await provider.save_messages(session, given)
            found = [
                [one.to_dict() for one in await each.get_messages(session)]
                for each in (ours, theirs)
            ]
            assert found[0] == found[1], number
        shown = ours.store["a%2Fb"].messages()
        assert {one.format for one in shown} == {"openai-chat"}
        assert any("text " in one.text for one in shown)
        ours.close()

    asyncio.run(play())


def test_histories_and_sessions_share_a_session(path: Path) -> None:
    async def play() -> None:
        with turntree.Store(path) as store:
            history, sessions = TurntreeHistoryProvider(store), TurntreeSessionStore(store)
            theirs = SessionStore()
            session = AgentSession(session_id="s")
            session.state["history"] = {
                "messages": [Message("user", contents=[Content.from_text("hi")])]
            }
            for each in (sessions, theirs):
                assert await each.get("s") is None
                await each.delete("s")
                await each.set("s", session)
            await history.save_messages("s", [Message("user", contents=[Content.from_text("hi")])])
            ours, other = await sessions.get("s"), await theirs.get("s")
            assert ours is not None and other is not None
            assert ours.to_dict() == other.to_dict() == session.to_dict()
            with pytest.raises(ValueError):
                await sessions.get("")
            assert store.sessions() == ["s"]
            await sessions.delete("s")
            assert await sessions.get("s") is None
            assert len(await history.get_messages("s")) == 1, "the messages stay"
            store.undo()
            assert await sessions.get("s") is not None
            history.close()
            sessions.close()
            assert not store.closed, "a store that was passed in stays open"

    asyncio.run(play())


def test_writers_at_once_lose_nothing(path: Path) -> None:
    async def play() -> None:
        with turntree.Store(path) as store:
            providers = [TurntreeHistoryProvider(store) for _ in range(3)]
            storages = [TurntreeCheckpointStorage(store) for _ in range(3)]
            calls: list[Any] = []
            for at, (provider, storage) in enumerate(zip(providers, storages, strict=True)):
                for number in range(5):
                    text = [Content.from_text(f"{at}.{number}")]
                    calls.append(provider.save_messages("s", [Message("user", contents=text)]))
                    calls.append(
                        storage.save(WorkflowCheckpoint("w", "h", checkpoint_id=f"{at}.{number}"))
                    )
            await asyncio.gather(*calls)
            expected = sorted(f"{at}.{number}" for at in range(3) for number in range(5))
            assert sorted(one.text for one in await providers[0].get_messages("s")) == expected
            assert sorted(await storages[0].list_checkpoint_ids(workflow_name="w")) == expected

    asyncio.run(play())
