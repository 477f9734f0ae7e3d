"""LangGraph: what the sessions of graphs with delta channels show."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

pytest.importorskip("langgraph")

import turntree
from conftest import of
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import START, StateGraph
from langgraph.graph.message import _messages_delta_reducer
from langgraph.types import Overwrite
from turntree.langgraph import TurntreeSaver


def talk(saver: Any, every: int = 100) -> Any:
    """A graph whose messages are a delta channel. A text of the user says what the answer does."""
    channel = DeltaChannel(_messages_delta_reducer, snapshot_frequency=every)

    State = TypedDict("State", {"messages": Annotated[list[AnyMessage], channel]})  # noqa: UP013

    def reply(state: Any) -> dict[str, Any]:
        messages = state["messages"]
        said = messages[-1].text
        if said == "forget" and len(messages) > 2:
            return {
                "messages": [
                    RemoveMessage(messages[0].id),
                    AIMessage("forgotten", id=f"{len(messages)}"),
                ]
            }
        if said == "rephrase":
            return {"messages": [HumanMessage("rephrased", id=messages[0].id)]}
        if said == "begin again":
            return {"messages": Overwrite([AIMessage("again", id="again")])}
        return {"messages": [AIMessage(f"you said {said}")]}

    builder = StateGraph(State)
    builder.add_node("reply", reply)
    builder.add_edge(START, "reply")
    return builder.compile(checkpointer=saver)


def shown(saver: TurntreeSaver, thread: str) -> list[str]:
    messages = saver.store[thread].messages()
    return [str(json.loads(message.record)["content"]) for message in messages]


def texts(graph: Any, thread: str) -> list[str]:
    return [message.text for message in graph.get_state(of(thread)).values["messages"]]


def test_a_delta_channel_is_the_conversation(saver: TurntreeSaver) -> None:
    graph = talk(saver)
    for said in ("one", "two"):
        graph.invoke({"messages": [HumanMessage(said)]}, of("t"))
    expected = ["one", "you said one", "two", "you said two"]
    assert texts(graph, "t") == shown(saver, "t") == expected
    messages = saver.store["t"].messages()
    assert [message.role for message in messages] == ["user", "assistant"] * 2
    assert "you said two" in saver.store["t"].title


@pytest.mark.parametrize("every", [2, 3, 100])
def test_the_conversation_follows_a_random_walk(path: Path, every: int) -> None:
    walk = random.Random(every)
    saver = TurntreeSaver(path)
    for step in range(40):
        if walk.random() < 0.2:  # Another process goes on.
            saver.close()
            saver = TurntreeSaver(path)
        said = walk.choice(["a", "b", "forget", "rephrase", "begin again"])
        at: dict[str, str] = {}
        states = list(talk(saver, every).get_state_history(of("t")))
        if states and walk.random() < 0.25:  # A fork at an older state.
            at = {"checkpoint_id": walk.choice(states).config["configurable"]["checkpoint_id"]}
        message = HumanMessage(said, id=f"user-{step}")
        graph = talk(saver, every)
        if walk.random() < 0.2 and states:
            graph.update_state(of("t", **at), {"messages": [message]}, as_node="reply")
        else:
            graph.invoke({"messages": [message]}, of("t", **at))
        assert texts(graph, "t") == shown(saver, "t"), f"step {step}"
    saver.close()


def test_the_history_of_a_channel_is_that_of_the_walk_over_tuples(saver: TurntreeSaver) -> None:
    graph = talk(saver, every=3)
    for said in "abcdefg":
        graph.invoke({"messages": [HumanMessage(said)]}, of("t"))
    for state in graph.get_state_history(of("t")):
        wanted = {"config": state.config, "channels": ["messages", "missing"]}
        found = saver.get_delta_channel_history(**wanted)
        assert found == BaseCheckpointSaver.get_delta_channel_history(saver, **wanted)
    assert saver.get_delta_channel_history(config=of("none"), channels=["x"]) == {
        "x": {"writes": []}
    }


def test_snapshots_of_a_delta_channel_share_their_items(saver: TurntreeSaver) -> None:
    graph = talk(saver, every=2)
    for step in range(30):
        graph.invoke({"messages": [HumanMessage(f"{step} " + "x" * 500)]}, of("t"))
    snapshot = saver.store["t"]
    assert len(snapshot.list("langgraph-items")) <= 60
    saver.prune(["t"])
    saver._forget_all()
    assert len(texts(graph, "t")) == 60


def test_a_channel_of_other_values_shows_nothing(saver: TurntreeSaver) -> None:
    class State(TypedDict):
        messages: Annotated[list[Any], DeltaChannel(lambda state, writes: [*state, *writes])]
        files: Annotated[list[Any], DeltaChannel(lambda state, writes: [*state, *writes])]

    builder = StateGraph(State)
    builder.add_node("step", lambda state: {"messages": 7, "files": 8})
    builder.add_edge(START, "step")
    graph = builder.compile(checkpointer=saver)
    graph.invoke({"messages": 1, "files": 2}, of("t"))
    assert graph.get_state(of("t")).values == {"messages": [1, 7], "files": [2, 8]}
    assert saver.store["t"].messages() == []


def test_files_that_a_graph_does_not_know_stay(path: Path) -> None:
    State = TypedDict("State", {"files": Annotated[dict[str, Any], DeltaChannel(merge)]})  # noqa: UP013

    def step(files: Any, **at: str) -> None:
        with TurntreeSaver(path) as saver:  # Another process each time.
            builder = StateGraph(State)
            builder.add_node("step", lambda _: {"files": {}})
            builder.add_edge(START, "step")
            builder.compile(checkpointer=saver).invoke({"files": files}, of("t", **at))

    def shown() -> list[str]:
        with turntree.Store(path) as store:
            return store["t"].keys("files")

    step({})
    with turntree.Store(path) as store, store.begin("t", "a capture") as change:
        change.put_file("captured.txt", b"by a hook")
    with TurntreeSaver(path) as saver:
        first = next(saver.list(of("t"))).config["configurable"]["checkpoint_id"]
    step({"/a.md": {"content": "one"}, "/b.md": {"content": ["two", "lines"]}})
    assert shown() == ["a.md", "b.md", "captured.txt"]
    step({"/a.md": None})
    assert shown() == ["b.md", "captured.txt"]
    step({"/c.md": {"content": "fork"}}, checkpoint_id=first)
    assert shown() == ["c.md", "captured.txt"]


def merge(state: dict[str, Any], writes: list[dict[str, Any]]) -> dict[str, Any]:
    files = {path: file for write in [state, *writes] for path, file in write.items()}
    return {path: file for path, file in files.items() if file is not None}
