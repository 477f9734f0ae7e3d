"""Strands Agents on turntree: ``TurntreeStorage`` keeps bytes by key, and every version of them.

    manager = SnapshotSessionManager("s1", storage=TurntreeStorage("agents.turntree"))

What is kept under all keys is the section ``storage`` of one session, so ``turntree log``, ``diff`` and
an undo work on it. A snapshot of an agent that is written again costs what is new in it, once it is
packed.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from os import PathLike
from typing import TypeVar

from strands.storage.storage import StorageSearchResult
from strands.storage.search.keyword import KeywordSearchStrategy
from strands.types.exceptions import StorageError

from turntree import Error, Store
from turntree._adapter import AdapterStore
from turntree._names import session_name

__all__ = ["TurntreeStorage"]

STORAGE = "storage"

_T = TypeVar("_T")


class TurntreeStorage:
    """Keeps bytes by key in the turntree store at ``store``, which is made if nothing is there.

    Keys are opaque: any text of 1 to 4,096 bytes. Several processes may use one store at once."""

    def __init__(self, store: Store | str | PathLike[str], *, session: str = "strands") -> None:
        self._adapter = AdapterStore(store, "strands")
        self.store = self._adapter.store
        self.session = session

    async def write(self, key: str, data: bytes) -> None:
        def put() -> None:
            with self.store.begin(session_name(self.session), f"write {key}") as change:
                change.put(STORAGE, _checked(key), bytes(data))

        await self._run(put)

    async def read(self, key: str) -> bytes | None:
        def get() -> bytes | None:
            snapshot = self.store.newest(session_name(self.session))
            return snapshot.get(STORAGE, _checked(key)) if snapshot else None

        return await self._run(get)

    async def delete(self, key: str) -> None:
        def remove() -> None:
            name = session_name(self.session)
            if self.store.tip(name) is None:
                return
            with self.store.begin(name, f"delete {key}") as change:
                change.remove(STORAGE, _checked(key))

        await self._run(remove)

    async def list(self, query: str = "") -> builtins.list[str]:
        def keys() -> builtins.list[str]:
            snapshot = self.store.newest(session_name(self.session))
            found = snapshot.keys(STORAGE, query) if snapshot else []
            return sorted(found)

        return await self._run(keys)

    async def search(self, query: str) -> builtins.list[StorageSearchResult]:
        return await KeywordSearchStrategy().search(self, query)

    def close(self) -> None:
        """Waits for calls that run, and closes the store unless it was passed in as a ``Store``."""
        self._adapter.close()

    async def _run(self, work: Callable[[], _T]) -> _T:
        try:
            return await self._adapter.run(work)
        except Error as error:
            raise StorageError(str(error)) from error


def _checked(key: str) -> str:
    if not key:
        raise StorageError("a key of a storage has at least one byte")
    return key
