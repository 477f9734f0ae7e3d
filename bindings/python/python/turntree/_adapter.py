"""The store behind an adapter, and the threads that run the adapter's calls for asyncio and Trio."""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from os import PathLike
from typing import Any, TypeVar

from turntree import Store

_T = TypeVar("_T")

#: Threads of one adapter. A commit mostly waits for the disk.
THREADS = 8


class AdapterStore:
    """The store of an adapter. An adapter closes the store only if it opened it.

    The threads belong to the adapter: its waits for the disk never take a thread of
    ``asyncio.to_thread`` from other code. They start with the first call."""

    def __init__(self, store: Store | str | PathLike[str], actor: str) -> None:
        self._is_opened_here = not isinstance(store, Store)
        self.store = store if isinstance(store, Store) else Store(store, actor=actor)
        self._lock = threading.Lock()
        self._process = 0
        self._threads: ThreadPoolExecutor | None = None

    async def run(self, call: Callable[[], _T]) -> _T:
        """Runs a call on a thread, in the caller's context."""
        return await _result(self.submit(call))

    def submit(self, call: Callable[[], _T]) -> Future[_T]:
        context = contextvars.copy_context()
        with self._lock:
            if self._threads is None or self._process != os.getpid():
                # The threads of a process do not exist in its forks.
                self._threads = ThreadPoolExecutor(THREADS, "turntree")
                self._process = os.getpid()
            return self._threads.submit(context.run, call)

    def close(self) -> None:
        """Waits for the calls that run, and closes the store if this adapter opened it."""
        with self._lock:
            threads, self._threads = self._threads, None
        if threads is not None and self._process == os.getpid():
            threads.shutdown()
        if self._is_opened_here:
            self.store.close()


class InOrder:
    """Runs calls one after the other in the order in which they were made, from any event loop."""

    def __init__(self, store: AdapterStore) -> None:
        self._store = store
        self._begin()

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._waiting: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._is_running = False

    async def run(self, call: Callable[[], _T]) -> _T:
        """Runs a call after those that were made before. A call that is cancelled before it begins
        does not run."""
        if self._process != os.getpid():
            # The calls of a process do not run in its forks.
            self._begin()
        done: Future[_T] = Future()
        with self._lock:
            self._waiting.append((done, partial(contextvars.copy_context().run, call)))
            begins, self._is_running = not self._is_running, True
        if begins:
            self._store.submit(self._run_next)
        return await _result(done)

    def _run_next(self) -> None:
        with self._lock:
            done, call = self._waiting.popleft()
        if done.set_running_or_notify_cancel():
            try:
                done.set_result(call())
            except BaseException as error:
                done.set_exception(error)
        with self._lock:
            self._is_running = bool(self._waiting)
            if not self._is_running:
                return
        # Behind what others have submitted, so that one busy session does not hold a thread.
        self._store.submit(self._run_next)


async def _result(done: Future[_T]) -> _T:
    try:
        asyncio.get_running_loop()
    except RuntimeError:  # Trio, which only adapters with anyio support.
        import anyio.to_thread

        return await anyio.to_thread.run_sync(done.result)
    return await asyncio.wrap_future(done)
