"""The OpenAI Agents SDK on turntree: ``TurntreeSession`` keeps the items of a conversation,
``TurntreeSnapshot`` the workspace of a sandbox.

    session = TurntreeSession("customer 7", "agents.turntree")
    result = await Runner.run(agent, "hello", session=session)

The items are the conversation of the agent ``main``, one record each, so every item shows as a
message. A branch of the conversation is a branch of the store: making one copies nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from typing import Any, TypeVar, cast

from agents.items import TResponseInputItem
from agents.memory.session import SessionABC
from agents.memory.session_settings import SessionSettings, resolve_session_limit

from turntree import Conflict, Role, Snapshot, Store, Transaction
from turntree._adapter import AdapterStore, InOrder, known_role
from turntree._json import all_from_json, from_json, to_json
from turntree._names import parts_of, quote, session_name
from turntree._openai_workspace import TurntreeSnapshot, TurntreeSnapshotSpec

__all__ = ["TurntreeSession", "TurntreeSnapshot", "TurntreeSnapshotSpec"]

ITEMS = "agents/main/messages"
MAIN = "main"

#: How often a change is made again when others are faster.
MAX_ATTEMPTS = 1000

_T = TypeVar("_T")


class TurntreeSession(SessionABC):
    """A session in the turntree store at ``store``, which is made if nothing is there.

    Sessions may share a ``Store``, which stays open when a session is closed. A session may be used
    from several event loops and threads. Every call is durable when it returns, and one commit, so an
    undo takes back a whole batch of items."""

    def __init__(
        self,
        session_id: str,
        store: Store | str | PathLike[str],
        *,
        session_settings: SessionSettings | None = None,
    ) -> None:
        self.session_id = session_id
        self.session_settings = session_settings or SessionSettings()
        self._adapter = AdapterStore(store, "openai-agents")
        self.store = self._adapter.store
        self.branch_id = MAIN
        self._in_order = InOrder(self._adapter).run

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        limit = resolve_session_limit(limit, self.session_settings)

        def read() -> list[TResponseInputItem]:
            snapshot = self.store.newest(self._branch())
            if snapshot is None:
                return []
            count = snapshot.count(ITEMS)
            # Less than none means all, as it does to the SDK's own sessions.
            start = 0 if limit is None or limit < 0 else max(0, count - limit)
            return all_from_json(snapshot.list(ITEMS, start))

        return await self._in_order(read)

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        if not items:
            return
        records = [(_role(cast(Any, item)), to_json(item)) for item in items]

        def write() -> None:
            with self.store.begin(self._branch(), f"{len(records)} items") as change:
                for role, record in records:
                    change.push_message(role, record, format="openai-chat")

        await self._in_order(write)

    async def pop_item(self) -> TResponseInputItem | None:
        def fill(change: Transaction, snapshot: Snapshot) -> TResponseInputItem | None:
            count = snapshot.count(ITEMS)
            if count == 0:
                return None
            change.cut(ITEMS, count - 1)
            return cast(TResponseInputItem, from_json(snapshot.list(ITEMS, count - 1)[0]))

        return await self._in_order(lambda: self._change("pop an item", fill))

    async def clear_session(self) -> None:
        """Removes all items of all branches. An undo brings them back."""

        def clear() -> None:
            self.store.delete(session_name(self.session_id))
            self.branch_id = MAIN

        await self._in_order(clear)

    async def create_branch_from_turn(
        self, turn_number: int, branch_name: str | None = None
    ) -> str:
        """Begins a branch before the user's message of a turn, from 1, and switches to it."""

        def create() -> str:
            snapshot = self.store.newest(self._branch())
            starts = _turns(snapshot)
            if snapshot is None or not 1 <= turn_number <= len(starts):
                raise ValueError(f"there is no turn {turn_number}")
            name = branch_name or _free_name(self._branches(), f"turn-{turn_number}")
            change = self.store.begin(self._branch(name), f"branch {name}", expect=None)
            change.go_on_from(snapshot.id)
            change.cut(ITEMS, starts[turn_number - 1])
            try:
                change.commit()
            except Conflict:
                raise ValueError(f"branch {name} exists already") from None
            self.branch_id = name
            return name

        return await self._in_order(create)

    async def switch_to_branch(self, branch_id: str) -> None:
        """Goes on in another branch."""

        def switch() -> None:
            if branch_id != MAIN and branch_id not in self._branches():
                raise ValueError(f"there is no branch {branch_id}")
            self.branch_id = branch_id

        await self._in_order(switch)

    async def delete_branch(self, branch_id: str, force: bool = False) -> None:
        """Deletes a branch. The current one only by ``force``, and the main one never."""

        def delete() -> None:
            if branch_id == MAIN:
                raise ValueError("the main branch stays")
            if branch_id not in self._branches():
                raise ValueError(f"there is no branch {branch_id}")
            if branch_id == self.branch_id and not force:
                raise ValueError("this is the current branch: switch first, or force it")
            with self.store.begin(self._branch(branch_id), f"delete {branch_id}") as change:
                change.delete()
            if branch_id == self.branch_id:
                self.branch_id = MAIN

        await self._in_order(delete)

    async def list_branches(self) -> list[dict[str, Any]]:
        """The branches: ``branch_id``, ``message_count``, ``user_turns``, ``is_current``."""

        def read() -> list[dict[str, Any]]:
            found = []
            for name in self._branches():
                snapshot = self.store.newest(self._branch(name))
                found.append(
                    {
                        "branch_id": name,
                        "message_count": snapshot.count(ITEMS) if snapshot else 0,
                        "user_turns": len(_turns(snapshot)),
                        "is_current": name == self.branch_id,
                    }
                )
            return found

        return await self._in_order(read)

    def close(self) -> None:
        """Waits for calls that run, and closes the store unless it was passed in as a ``Store``."""
        self._adapter.close()

    def _branch(self, name: str | None = None) -> str:
        return f"{session_name(self.session_id)}/{session_name(name or self.branch_id)}"

    def _branches(self) -> list[str]:
        names = self.store.branches(session_name(self.session_id))
        return [parts_of(name.partition("/")[2])[0] for name in names]

    def _change(self, title: str, fill: Callable[[Transaction, Snapshot], _T]) -> _T | None:
        for _ in range(MAX_ATTEMPTS):
            snapshot = self.store.newest(self._branch())
            if snapshot is None:
                return None
            change = self.store.begin(self._branch(), title, expect=snapshot.id)
            result = fill(change, snapshot)
            try:
                change.commit()
                return result
            except Conflict:
                continue
        raise Conflict(f"others are always faster on {self.session_id}")


def _role(item: dict[str, Any]) -> Role:
    """The role of an item."""
    if role := item.get("role"):
        return known_role(role)
    return "tool" if str(item.get("type")).endswith("_output") else "assistant"


def _turns(snapshot: Snapshot | None) -> list[int]:
    """The places of the user's messages, with which turns begin."""
    messages = snapshot.messages() if snapshot else []
    return [at for at, message in enumerate(messages) if message.role == "user"]


def _free_name(taken: list[str], name: str) -> str:
    names = (name if number == 1 else f"{quote(name)}-{number}" for number in range(1, 1 << 30))
    return next(one for one in names if one not in taken)
