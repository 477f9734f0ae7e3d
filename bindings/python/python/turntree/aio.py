"""Stores for asyncio: the methods of ``turntree.Store``, awaited.

    async with turntree.aio.Store("agents.turntree") as store:
        async with store.begin("task", "the question") as turn:  # commits when it ends well
            turn.say("user", "Why does the parser fail?")
        snapshot = await store.get("task")
        async for older in store.log("task", limit=3):
            print(older.title)

Each store has threads of its own, at most ``threads``. A change is filled in memory, so its methods are
not awaited; what reads a snapshot or a change runs on a thread by ``await store.run(snapshot.messages)``.

A call that is cancelled before it begins does not run. One that changes the store and runs already is
waited for before the cancellation goes on: after ``CancelledError`` nothing changes any more. A call
that only reads, and ``collect``, go on alone.
"""

from __future__ import annotations

import functools
import os
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import datetime
from itertools import islice
from pathlib import Path
from types import EllipsisType, TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import turntree
from turntree import InvalidInput, Snapshot, Transaction
from turntree._threads import THREADS, Threads, result, settled

if TYPE_CHECKING:
    from typing_extensions import Buffer, Self

__all__ = ["Store"]

_P = ParamSpec("_P")
_T = TypeVar("_T")

#: Snapshots of a log that are read at once.
_PAGE = 64


def _reads(
    call: Callable[Concatenate[turntree.Store, _P], _T],
) -> Callable[Concatenate[Store, _P], Coroutine[Any, Any, _T]]:
    """The twin of a method that changes nothing, or that need not be waited for."""

    @functools.wraps(call)
    async def twin(self: Store, /, *args: _P.args, **named: _P.kwargs) -> _T:
        return await self.run(call, self.opened, *args, **named)

    return twin


def _writes(
    call: Callable[Concatenate[turntree.Store, _P], _T],
) -> Callable[Concatenate[Store, _P], Coroutine[Any, Any, _T]]:
    """The twin of a method that changes the store."""

    @functools.wraps(call)
    async def twin(self: Store, /, *args: _P.args, **named: _P.kwargs) -> _T:
        made = functools.partial(call, self.opened, *args, **named)
        return await settled(self._threads.submit(made))

    return twin


class Store:
    """The store in a directory, as ``turntree.Store`` opens it with these options; it is open inside
    of ``async with``. ``threads`` is the number of calls that run at once."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        actor: str = "python",
        create: bool = True,
        maintain: bool = True,
        key: Buffer | None = None,
        threads: int = THREADS,
    ) -> None:
        self._open = functools.partial(
            turntree.Store, path, actor=actor, create=create, maintain=maintain, key=key
        )
        self._threads = Threads(threads)
        self._store: turntree.Store | None = None

    async def __aenter__(self) -> Self:
        opening = self._threads.submit(self._open)
        try:
            self._store = await settled(opening)
        except BaseException:
            # A cancelled one may have been opened.
            if opening.done() and not opening.cancelled() and opening.exception() is None:
                opening.result().close()
            self._threads.close()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Waits for the calls that run, and closes the store."""
        ends = Threads(1)  # Not one of those that it waits for.
        try:
            await settled(ends.submit(self._close))
        finally:
            self._close()
            ends.close()

    def _close(self) -> None:
        self._threads.close()
        if self._store is not None:
            self._store.close()

    @property
    def opened(self) -> turntree.Store:
        """The store itself, for calls that may block."""
        if self._store is None:
            raise InvalidInput("the store is not open: use 'async with turntree.aio.Store(...)'")
        if self._store.closed:
            raise InvalidInput(f"the store {self._store.path} is closed")
        return self._store

    @property
    def path(self) -> Path:
        """The directory of the store."""
        return (self._store or self.opened).path

    @property
    def closed(self) -> bool:
        """True after the store was closed."""
        return self._store is not None and self._store.closed

    async def run(self, call: Callable[_P, _T], /, *args: _P.args, **named: _P.kwargs) -> _T:
        """Runs a call that reads, such as a method of a snapshot, on a thread of this store."""
        _ = self.opened  # Raises if the store is not open.
        return await result(self._threads.submit(functools.partial(call, *args, **named)))

    @asynccontextmanager
    async def begin(
        self,
        branch: str,
        message: str = "",
        *,
        expect: str | Snapshot | None | EllipsisType = ...,
    ) -> AsyncIterator[Transaction]:
        """Begins a change of a branch, as ``turntree.Store.begin`` does, and commits it when the
        block ends. An exception, or a cancellation before the commit has begun, drops it."""
        turn = self.opened.begin(branch, message, expect=expect)
        try:
            yield turn
            await settled(self._threads.submit(functools.partial(turn.__exit__, None, None, None)))
        except BaseException:
            turn.rollback()
            raise

    async def log(
        self,
        revision: str | Snapshot,
        *,
        limit: int | None = None,
        since: datetime | None = None,
        path: str | None = None,
    ) -> AsyncIterator[Snapshot]:
        """Iterates over the snapshots backwards from a revision, as ``turntree.Store.log`` does."""
        walk = await self.run(self.opened.log, revision, limit=limit, since=since, path=path)
        while page := await self.run(list, islice(walk, _PAGE)):
            for snapshot in page:
                yield snapshot

    sessions = _reads(turntree.Store.sessions)
    branches = _reads(turntree.Store.branches)
    tip = _reads(turntree.Store.tip)
    get = _reads(turntree.Store.get)
    newest = _reads(turntree.Store.newest)
    diff = _reads(turntree.Store.diff)
    bisect = _reads(turntree.Store.bisect)
    blame = _reads(turntree.Store.blame)
    grep = _reads(turntree.Store.grep)
    conflicts = _reads(turntree.Store.conflicts)
    tags = _reads(turntree.Store.tags)
    pins = _reads(turntree.Store.pins)
    labels = _reads(turntree.Store.labels)
    retention = _reads(turntree.Store.retention)
    fsck = _reads(turntree.Store.fsck)
    stats = _reads(turntree.Store.stats)
    collect = _reads(turntree.Store.collect)

    fork = _writes(turntree.Store.fork)
    merge = _writes(turntree.Store.merge)
    cherry_pick = _writes(turntree.Store.cherry_pick)
    resolve = _writes(turntree.Store.resolve)
    undo = _writes(turntree.Store.undo)
    redo = _writes(turntree.Store.redo)
    delete = _writes(turntree.Store.delete)
    retain = _writes(turntree.Store.retain)
    restore = _writes(turntree.Store.restore)
    rollback = _writes(turntree.Store.rollback)
    tag = _writes(turntree.Store.tag)
    untag = _writes(turntree.Store.untag)
    pin = _writes(turntree.Store.pin)
    unpin = _writes(turntree.Store.unpin)
    label = _writes(turntree.Store.label)
    rename = _writes(turntree.Store.rename)

    # What a package that was built without the program lacks.
    if hasattr(turntree.Store, "search"):
        search = _reads(turntree.Store.search)
        export = _reads(turntree.Store.export)
        compare = _reads(turntree.Store.compare)
        remotes = _reads(turntree.Store.remotes)
        import_file = _writes(turntree.Store.import_file)
        add_remote = _writes(turntree.Store.add_remote)
        remove_remote = _writes(turntree.Store.remove_remote)
        push = _writes(turntree.Store.push)
        fetch = _writes(turntree.Store.fetch)
        pull = _writes(turntree.Store.pull)
