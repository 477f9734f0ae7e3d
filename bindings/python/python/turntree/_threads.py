"""The threads that run calls of a store for asyncio and Trio."""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

_T = TypeVar("_T")

#: Threads of one store. A commit mostly waits for the disk.
THREADS = 8


class Threads:
    """Some threads, which start with the first call.

    They belong to one store or adapter: its waits for the disk never take a thread of
    ``asyncio.to_thread`` from other code."""

    def __init__(self, count: int = THREADS) -> None:
        self._count = count
        self._lock = threading.Lock()
        self._process = 0
        self._threads: ThreadPoolExecutor | None = None

    def submit(self, call: Callable[[], _T]) -> Future[_T]:
        """Begins a call, in the caller's context."""
        context = contextvars.copy_context()
        with self._lock:
            if self._threads is None or self._process != os.getpid():
                # The threads of a process do not exist in its forks.
                self._threads = ThreadPoolExecutor(self._count, "turntree")
                self._process = os.getpid()
            return self._threads.submit(context.run, call)

    def close(self) -> None:
        """Waits for the calls that run."""
        with self._lock:
            threads, self._threads = self._threads, None
        if threads is not None and self._process == os.getpid():
            threads.shutdown()


async def result(done: Future[_T]) -> _T:
    """Waits for a call. One that is cancelled before it begins does not run."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:  # Trio, which only adapters with anyio support.
        import anyio.to_thread

        return await anyio.to_thread.run_sync(done.result)
    return await asyncio.wrap_future(done)


async def settled(done: Future[_T]) -> _T:
    """Waits for a call that changes something. One that is cancelled before it begins does not run;
    one that runs is waited for before the cancellation goes on, so that nothing changes after it."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return await result(done)
    waited = asyncio.wrap_future(done)
    try:
        return await asyncio.shield(waited)
    except asyncio.CancelledError as cancelled:
        if done.cancel():
            raise
        while not waited.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([waited])
        if not waited.cancelled() and (error := waited.exception()) is not None:
            raise cancelled from error
        raise
