"""Checkpoints of other savers of LangGraph, as they are copied: thread by thread, oldest first."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import WRITES_IDX_MAP, CheckpointTuple, PendingWrite
from langgraph.checkpoint.serde.types import _DeltaSnapshot

#: A thread, the id of one of its checkpoints, which sorts by time, and its namespace.
Place = tuple[str, str, str]


def place_of(found: CheckpointTuple) -> Place:
    at = found.config["configurable"]
    return str(at["thread_id"]), str(at["checkpoint_id"]), str(at.get("checkpoint_ns", ""))


def config_at(place: Place) -> RunnableConfig:
    thread, id, ns = place
    return {"configurable": {"thread_id": thread, "checkpoint_ns": ns, "checkpoint_id": id}}


class SharedItems:
    """Replaces equal items of lists by those of the checkpoint before: another saver returns new objects
    each time, and a saver stores every object that it has not seen. Keeps the lists of one thread."""

    def __init__(self, form: Callable[[Any], object]) -> None:
        #: What two items have in common if they are equal in every bit: how they are stored.
        self._form = form
        self._thread = ""
        self._lists: dict[tuple[str, str], tuple[list[Any], list[object]]] = {}

    def of(self, place: Place, values: dict[str, Any]) -> dict[str, Any]:
        """Returns the values of a checkpoint with shared items."""
        thread, _, ns = place
        if thread != self._thread:
            self._thread = thread
            self._lists.clear()
        return {channel: self._shared((ns, channel), value) for channel, value in values.items()}

    def _shared(self, channel: tuple[str, str], value: Any) -> Any:
        if isinstance(value, _DeltaSnapshot):
            return _DeltaSnapshot(self._shared(channel, value.value))
        if type(value) is not list:
            return value
        known, forms = self._lists.get(channel, ([], []))
        new_forms = [self._form(item) for item in value]
        shared = [
            known[at] if at < len(known) and forms[at] == new_forms[at] else item
            for at, item in enumerate(value)
        ]
        self._lists[channel] = shared, new_forms
        return list(shared)


def calls_of(writes: Iterable[PendingWrite] | None) -> list[tuple[str, str, list[tuple[str, Any]]]]:
    """The calls of ``put_writes`` that store pending writes in this order: the task, its path, its writes.

    A write is stored under its number in its call, so the writes of a task belong into one call; errors
    and interrupts have numbers of their own. A checkpoint does not say the paths by which tasks are
    ordered. Where the order of their ids is another one, they get paths that sort before all others."""
    of_task: dict[str, tuple[list[tuple[str, Any]], list[tuple[str, Any]]]] = {}
    for task, channel, value in writes or ():
        values, special = of_task.setdefault(task, ([], []))
        (special if channel in WRITES_IDX_MAP else values).append((channel, value))
    tasks = list(of_task)
    is_sorted = tasks == sorted(tasks)
    return [
        (task, "" if is_sorted else f"{number:08}", part)
        for number, task in enumerate(tasks)
        for part in of_task[task]
        if part
    ]
