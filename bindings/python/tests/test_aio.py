"""Stores for asyncio: the answers are those of the store, and a cancelled call leaves nothing half done."""

from __future__ import annotations

import asyncio
import inspect
import random
import threading
import warnings
from pathlib import Path
from typing import Any

import pytest

import turntree
from turntree import aio


def test_calls_have_the_answers_of_the_store(path: Path) -> None:
    async def play() -> None:
        async with aio.Store(path) as store:
            for number in range(70):
                async with store.begin("task", f"turn {number}") as turn:
                    turn.say("user", f"question {number}")
                    turn["kept/number"] = str(number)
            newest = await store.get("task")
            assert newest is not None and newest.turn == 70
            assert await store.run(newest.get, "kept", "number") == b"69"
            assert [one.turn async for one in store.log("task")] == list(range(70, 0, -1))
            assert [one.turn async for one in store.log("task", limit=2)] == [70, 69]
            forked = await store.fork("task/other", at="task~3")
            assert await store.diff(forked, "task") == store.opened.diff(forked, "task")
            assert await store.sessions() == ["task"] and await store.get("none") is None
            await store.tag("v1", at=newest)
            assert [tag.name for tag in await store.tags()] == ["v1"]
            assert (await store.fsck()).ok and (await store.collect()).expired_turns == 0
            assert store.path == path and not store.closed
            with pytest.raises(turntree.AlreadyExists):
                await store.fork("task/other", at="task")
        assert store.closed
        with pytest.raises(turntree.InvalidInput, match="closed"):
            await store.sessions()

    asyncio.run(play())


def test_every_method_has_its_twin() -> None:
    own = {name for name in dir(turntree.Store) if not name.startswith("_")}
    twins = {name for name in dir(aio.Store) if not name.startswith("_")}
    # A clone is opened by a block of its own.
    assert own - twins <= {"clone"} and twins - own == {"opened", "run"}
    for name in sorted(own - {"clone", "path", "closed", "close", "begin", "log"}):
        twin = getattr(aio.Store, name)
        assert inspect.iscoroutinefunction(twin), name
        assert inspect.signature(twin) == inspect.signature(getattr(turntree.Store, name)), name
        assert twin.__doc__ == getattr(turntree.Store, name).__doc__, name
    for name in ("begin", "log"):
        ours = inspect.signature(getattr(aio.Store, name)).parameters
        assert list(ours) == list(inspect.signature(getattr(turntree.Store, name)).parameters)


def test_a_store_is_open_inside_of_its_block(tmp_path: Path) -> None:
    async def play() -> None:
        store = aio.Store(tmp_path / "none", create=False)
        with pytest.raises(turntree.InvalidInput, match="async with"):
            await store.sessions()
        with pytest.raises(turntree.NotFound):
            async with store:
                pass
        await store.close()

    asyncio.run(play())


def test_one_process_may_use_several_loops(path: Path) -> None:
    async def write(number: int) -> None:
        async with aio.Store(path) as store:
            async with store.begin("task") as turn:
                turn.push("log", str(number))

    for number in range(3):
        asyncio.run(write(number))
    with turntree.Store(path) as store:
        assert store["task"].list("log") == [b"0", b"1", b"2"]


def test_many_at_once_lose_nothing(path: Path) -> None:
    async def play() -> None:
        async with aio.Store(path, threads=3) as store:

            async def write(number: int) -> None:
                async with store.begin("task") as turn:
                    turn.push("log", str(number))

            await asyncio.gather(*(write(number) for number in range(60)))
            newest = await store.newest("task")
            assert newest and sorted(newest.list("log"), key=int) == [b"%d" % n for n in range(60)]
        names = [one.name for one in threading.enumerate() if one.name.startswith("turntree")]
        assert names == []

    asyncio.run(play())


def test_a_change_is_dropped_by_an_exception(path: Path) -> None:
    async def play() -> None:
        async with aio.Store(path) as store:
            with pytest.raises(ZeroDivisionError):
                async with store.begin("task") as turn:
                    turn["kept/a"] = "1"
                    1 / 0
            assert await store.get("task") is None
            async with store.begin("task") as turn:
                turn["kept/a"] = "1"
                tip = await store.run(turn.commit)
            assert (await store.tip("task")) == tip
            with pytest.raises(turntree.Conflict):
                async with store.begin("task", expect=None) as turn:
                    turn["kept/a"] = "2"

    asyncio.run(play())


@pytest.mark.parametrize("seed", range(5))
def test_after_a_cancellation_nothing_changes_any_more(path: Path, seed: int) -> None:
    """Cancels commits at random moments: what is there then stays, and is whole."""
    numbers = random.Random(seed)

    async def play() -> None:
        async with aio.Store(path, threads=2) as store:

            async def write(number: int) -> None:
                async with store.begin("task") as turn:
                    turn.push("log", f"{number} a")
                    turn.push("log", f"{number} b")
                    await asyncio.sleep(0)

            for number in range(30):
                task = asyncio.ensure_future(write(number))
                await asyncio.sleep(numbers.choice((0, 0, 0.001, 0.003)))
                task.cancel()
                outcome: Any = (await asyncio.gather(task, return_exceptions=True))[0]
                tip = await store.tip("task")
                newest = await store.get("task")
                log = newest.list("log") if newest else []
                is_kept = b"%d a" % number in log
                assert (b"%d b" % number in log) == is_kept
                assert is_kept or isinstance(outcome, asyncio.CancelledError)
                await asyncio.sleep(0.002)
                assert await store.tip("task") == tip

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        asyncio.run(play())
