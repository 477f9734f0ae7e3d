"""What the adapters share: the store behind one, its threads, and the roles of messages."""

from __future__ import annotations

import contextvars
import os
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from os import PathLike
from typing import Any, TypeVar

from turntree import Role, Store
from turntree._threads import Threads, result

_T = TypeVar("_T")


#: The roles of chat formats.
_ROLES: dict[object, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "model": "assistant",
    "ai": "assistant",
    "tool": "tool",
    "toolResult": "tool",
    "function": "tool",
}


def known_role(role: object) -> Role:
    """The role of a message of others, who may have any."""
    return _ROLES.get(role, "other") if isinstance(role, str) else "other"


class AdapterStore:
    """The store of an adapter, and the adapter's threads. An adapter closes the store only if it
    opened it."""

    def __init__(self, store: Store | str | PathLike[str], actor: str) -> None:
        self._is_opened_here = not isinstance(store, Store)
        self.store = store if isinstance(store, Store) else Store(store, actor=actor)
        self._threads = Threads()

    async def run(self, call: Callable[[], _T]) -> _T:
        """Runs a call on a thread, in the caller's context."""
        return await result(self.submit(call))

    def submit(self, call: Callable[[], _T]) -> Future[_T]:
        return self._threads.submit(call)

    def close(self) -> None:
        """Waits for the calls that run, and closes the store if this adapter opened it."""
        self._threads.close()
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
        return await result(done)

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
