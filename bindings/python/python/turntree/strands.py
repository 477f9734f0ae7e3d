"""Strands Agents on turntree: ``TurntreeStorage`` keeps bytes by key, and every version of them.

    manager = SnapshotSessionManager("s1", storage=TurntreeStorage("agents.turntree"))

What is kept under all keys is the section ``storage`` of one session, so ``turntree log``, ``diff`` and
an undo work on it. A snapshot of an agent that is written again costs what is new in it, once it is
packed.
"""

from __future__ import annotations

import asyncio
import builtins
from collections.abc import Callable
from os import PathLike
from typing import TypeVar

from strands.storage.storage import StorageSearchResult
from strands.storage.search.keyword import KeywordSearchStrategy
from strands.types.exceptions import StorageError

from turntree import Error, Store
from turntree._names import session_name

__all__ = ["TurntreeStorage"]

STORAGE = "storage"

_T = TypeVar("_T")


class TurntreeStorage:
    """Keeps bytes by key in the turntree store at ``store``, which is made if nothing is there.

    Keys are opaque: any text of 1 to 4,096 bytes. Several processes may use one store at once."""

    def __init__(self, store: Store | str | PathLike[str], *, session: str = "strands") -> None:
        self.store = store if isinstance(store, Store) else Store(store, actor="strands")
        self.session = session

    async def write(self, key: str, data: bytes) -> None:
        def put() -> None:
            with self.store.begin(session_name(self.session), f"write {key}") as change:
                change.put(STORAGE, _checked(key), bytes(data))

        await _on_thread(put)

    async def read(self, key: str) -> bytes | None:
        def get() -> bytes | None:
            snapshot = self.store.newest(session_name(self.session))
            return snapshot.get(STORAGE, _checked(key)) if snapshot else None

        return await _on_thread(get)

    async def delete(self, key: str) -> None:
        def remove() -> None:
            name = session_name(self.session)
            if self.store.tip(name) is None:
                return
            with self.store.begin(name, f"delete {key}") as change:
                change.remove(STORAGE, _checked(key))

        await _on_thread(remove)

    async def list(self, query: str = "") -> builtins.list[str]:
        def keys() -> builtins.list[str]:
            snapshot = self.store.newest(session_name(self.session))
            found = snapshot.keys(STORAGE, query) if snapshot else []
            return sorted(found)

        return await _on_thread(keys)

    async def search(self, query: str) -> builtins.list[StorageSearchResult]:
        return await KeywordSearchStrategy().search(self, query)

    def close(self) -> None:
        """Closes the store."""
        self.store.close()


def _checked(key: str) -> str:
    if not key:
        raise StorageError("a key of a storage has at least one byte")
    return key


async def _on_thread(work: Callable[[], _T]) -> _T:
    try:
        return await asyncio.to_thread(work)
    except Error as error:
        raise StorageError(str(error)) from error
