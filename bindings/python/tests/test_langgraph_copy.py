"""LangGraph: threads that are copied from other savers."""

from __future__ import annotations

import asyncio
import operator
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

pytest.importorskip("langgraph")

from conftest import of
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command, Send, interrupt
from turntree.langgraph import TurntreeSaver


def extend(state: list[Any], writes: list[list[Any]]) -> list[Any]:
    return [*state, *(item for write in writes for item in write)]


class State(TypedDict):
    n: Annotated[int, operator.add]
    #: Every write of a step counts, and their order.
    m: Annotated[list[Any], DeltaChannel(extend)]
    messages: Annotated[list[AnyMessage], add_messages]


def graph(saver: Any) -> Any:
    def ask(state: State) -> dict[str, Any]:
        said = state["messages"][-1].text
        if said == "stop":
            return {"n": 1, "m": [interrupt("go on?")], "messages": [AIMessage("resumed")]}
        return {"n": 1, "m": ["answer"], "messages": [AIMessage(f"you said {said}")]}

    def spread(state: State) -> list[Send]:
        return [Send("part", {"number": number}) for number in range(12)]

    def part(state: Any) -> dict[str, Any]:
        return {"n": 1, "m": [f"part {state['number']}"]}

    builder = StateGraph(State)
    builder.add_node("ask", ask)
    builder.add_node("part", part)
    builder.add_edge(START, "ask")
    builder.add_conditional_edges("ask", spread, ["part"])
    return builder.compile(checkpointer=saver)


def fill(saver: Any) -> None:
    """Threads with forks, parallel tasks, and one that waits for an answer."""
    talk = graph(saver)
    for turn in range(4):
        talk.invoke({"m": [f"question {turn}"], "messages": [HumanMessage(f"{turn}")]}, of("a"))
    older = list(talk.get_state_history(of("a")))[3]
    talk.update_state(older.config, {"messages": [HumanMessage("another way")]}, as_node="ask")
    talk.invoke({"m": ["q"], "messages": [HumanMessage("b")]}, of("b"))
    talk.invoke({"m": ["s"], "messages": [HumanMessage("stop")]}, of("waits"))


def states(saver: Any, thread: str) -> list[Any]:
    def plain(state: Any) -> Any:
        at = state.config["configurable"]
        parent = state.parent_config and state.parent_config["configurable"]["checkpoint_id"]
        tasks = [(task.name, task.error, task.interrupts, task.path) for task in state.tasks]
        return at["checkpoint_id"], parent, state.values, state.next, tasks, state.metadata

    return [plain(state) for state in graph(saver).get_state_history(of(thread))]


def writes(saver: Any, thread: str) -> list[Any]:
    return [found.pending_writes for found in saver.list(of(thread))]


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_a_copy_has_every_state_fork_and_write(path: Path, tmp_path: Path, kind: str) -> None:
    with SqliteSaver.from_conn_string(str(tmp_path / "checkpoints.db")) as sqlite:
        old = InMemorySaver() if kind == "memory" else sqlite
        fill(old)
        with TurntreeSaver(path) as new:
            count = sum(1 for _ in old.list(None))
            assert new.copy_from(old) == count
            for thread in ("a", "b", "waits"):
                assert states(new, thread) == states(old, thread)
                assert writes(new, thread) == writes(old, thread)
            # Again, in another process: nothing is new, and nothing grows.
            tips = {name: new.store.tip(name) for name in new.store.sessions()}
            new._forget_all()
            assert new.copy_from(old) == 0
            assert {name: new.store.tip(name) for name in new.store.sessions()} == tips
            # Both go on alike.
            for saver in (old, new):
                graph(saver).invoke(Command(resume="yes"), of("waits"))
                graph(saver).invoke({"messages": [HumanMessage("more")]}, of("a"))
            for thread in ("a", "waits"):
                values = [graph(saver).get_state(of(thread)).values for saver in (old, new)]
                texts = [[one.text for one in found.pop("messages")] for found in values]
                assert values[0] == values[1] and texts[0] == texts[1]
            messages = graph(new).get_state(of("a")).values["messages"]
            assert len(new.store["a"].messages()) == len(messages)


def test_items_are_copied_once(path: Path) -> None:
    old = InMemorySaver()
    talk = graph(old)
    for turn in range(20):
        talk.invoke({"messages": [HumanMessage(f"{turn}")]}, of("a"))
    with TurntreeSaver(path) as new:
        new.copy_from(old, ["a"])
        messages = graph(new).get_state(of("a")).values["messages"]
        items = new.store["a"].list("langgraph-items")
        assert len(messages) == 40 and len(items) == 40 + 20 * 12  # With the calls of parts.


def test_an_interrupted_copy_goes_on(path: Path) -> None:
    old = InMemorySaver()
    fill(old)
    expected = states(old, "a")
    for survives in (1, 5, 11, 10_000):
        with TurntreeSaver(path) as new:
            left = iter(range(survives))
            copy = new._copy

            def fails(*arguments: Any) -> bool:
                if next(left, None) is None:
                    raise KeyboardInterrupt
                return copy(*arguments)

            new._copy = fails  # type: ignore[method-assign]
            try:
                new.copy_from(old)
            except KeyboardInterrupt:
                assert survives < 10_000
    with TurntreeSaver(path) as new:
        assert states(new, "a") == expected


def test_threads_can_be_chosen_and_savers_be_asynchronous(path: Path, tmp_path: Path) -> None:
    database = str(tmp_path / "checkpoints.db")
    with SqliteSaver.from_conn_string(database) as old:
        fill(old)
        expected = states(old, "b")

    async def copy() -> int:
        async with AsyncSqliteSaver.from_conn_string(database) as old:
            async with TurntreeSaver(path) as new:
                return await new.acopy_from(old, ["b"])

    assert asyncio.run(copy()) == len(expected)
    with TurntreeSaver(path) as new:
        assert new.store.sessions() == ["b"]
        assert states(new, "b") == expected
