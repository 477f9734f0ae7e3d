"""LangGraph: the suite of its owners, and what is promised beyond it."""

from __future__ import annotations

import asyncio
import operator
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

pytest.importorskip("langgraph")

import turntree
from conftest import of
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.store.base import (
    GetOp,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchOp,
)
from langgraph.store.memory import InMemoryStore
from turntree.langgraph import TurntreeSaver, TurntreeStore


def chat(saver: Any, answer: Any = None) -> Any:
    def reply(state: MessagesState) -> dict[str, Any]:
        said = state["messages"][-1].text
        return {"messages": [AIMessage(f"you said {said}") if answer is None else answer(state)]}

    builder = StateGraph(MessagesState)
    builder.add_node("reply", reply)
    builder.add_edge(START, "reply")
    return builder.compile(checkpointer=saver)


def texts(found: Any) -> list[str]:
    return [message.text for message in found.values["messages"]]


def test_the_suite_of_the_owners_passes_whole(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    conformance = pytest.importorskip("langgraph.checkpoint.conformance")
    stores = iter(range(1000))

    @conformance.checkpointer_test(name="TurntreeSaver")
    async def fresh() -> AsyncIterator[TurntreeSaver]:
        async with TurntreeSaver(tmp_path / str(next(stores))) as saver:
            yield saver

    report = asyncio.run(conformance.validate(fresh))
    results = report.results.values()
    failures = [failure for result in results for failure in result.failures or ()]
    assert failures == []
    passed = sum(result.tests_passed for result in results)
    record_property("langgraph-checkpoint-conformance", f"{passed} of {passed}")
    assert passed >= 81
    assert len(results) == 8 and all(result.passed for result in results)


def test_a_thread_goes_on_after_the_process(path: Path) -> None:
    with TurntreeSaver(path) as saver:
        chat(saver).invoke({"messages": [HumanMessage("one")]}, of("t"))
    with TurntreeSaver(path) as saver:
        chat(saver).invoke({"messages": [HumanMessage("two")]}, of("t"))
        expected = ["one", "you said one", "two", "you said two"]
        assert texts(chat(saver).get_state(of("t"))) == expected
        assert len(list(chat(saver).get_state_history(of("t")))) == 6


def test_async_graphs_work_too(path: Path) -> None:
    async def play() -> None:
        async with TurntreeSaver(path) as saver:
            graph = chat(saver)
            await asyncio.gather(
                *(graph.ainvoke({"messages": [HumanMessage("hi")]}, of(str(n))) for n in range(5))
            )
            for n in range(5):
                assert texts(await graph.aget_state(of(str(n)))) == ["hi", "you said hi"]

    asyncio.run(play())


def test_every_state_of_a_random_walk_is_that_of_the_memory_saver(saver: TurntreeSaver) -> None:
    """Turns, forks from older checkpoints, removals and edits, on both savers at once."""
    import random

    source = random.Random(7)
    memory = InMemorySaver()
    graphs = [chat(saver), chat(memory)]
    taken: list[list[Any]] = [[], []]
    for number in range(40):
        kind = source.choice(["turn", "turn", "fork", "remove", "edit"])
        at = source.randrange(len(taken[0])) if taken[0] else None
        for graph, known in zip(graphs, taken, strict=True):
            config = known[at] if at is not None and kind == "fork" else of("t")
            state = graph.get_state(config)
            messages = state.values.get("messages", [])
            if kind == "remove" and messages:
                update: Any = {"messages": [RemoveMessage(id=messages[number % len(messages)].id)]}
                new = graph.update_state(state.config, update)
            elif kind == "edit" and messages:
                old = messages[number % len(messages)]
                update = {"messages": [type(old)(content=f"edited {number}", id=old.id)]}
                new = graph.update_state(state.config, update)
            else:
                graph.invoke({"messages": [HumanMessage(f"{number}", id=f"h{number}")]}, config)
                new = graph.get_state(of("t")).config
            known.append(new)
    for ours, theirs in zip(*taken, strict=True):
        assert texts(graphs[0].get_state(ours)) == texts(graphs[1].get_state(theirs))
    histories = [[texts(s) for s in graph.get_state_history(of("t"))] for graph in graphs]
    assert histories[0] == histories[1]
    saver._forget_all()
    assert [texts(s) for s in graphs[0].get_state_history(of("t"))] == histories[1]


def test_a_thread_is_a_session_whose_messages_are_messages(path: Path) -> None:
    call = {"name": "look", "args": {"at": [1, 2]}, "id": "c1", "type": "tool_call"}
    said: list[AnyMessage] = [
        SystemMessage("be kind"),
        HumanMessage("hi", name="me"),
        AIMessage("", tool_calls=[call], usage_metadata={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}),
        ToolMessage("found", tool_call_id="c1", artifact={"b": b"bytes"}),
    ]  # fmt: skip
    with TurntreeSaver(path) as saver:
        graph = chat(saver)
        graph.invoke({"messages": said}, of("support chat"))
        first = graph.get_state(of("support chat")).config
        graph.invoke({"messages": [HumanMessage("more")]}, of("support chat"))
        saver._forget_all()
        found = graph.get_state(of("support chat")).values["messages"]
        assert found[:4] == said
        assert found[3].artifact == {"b": b"bytes"}, "what JSON has not stays what it is"
        graph.update_state(first, {"messages": [HumanMessage("another way")]})
    with turntree.Store(path) as store:
        assert store.sessions() == ["support%20chat"]
        snapshot = store["support%20chat"]
        roles = [message.role for message in snapshot.messages()]
        assert roles == ["system", "user", "assistant", "tool", "assistant", "user"]
        assert b'"another way"' in snapshot.messages()[-1].record, "the newest state, not all forks"
        assert {message.format for message in snapshot.messages()} == {"openai-chat"}
        assert any("user: more" in one.title for one in store.log("support%20chat"))


def test_the_program_shows_messages_and_counts_the_rest(saver: TurntreeSaver) -> None:
    program = Path(sys.executable).with_name("turntree")
    if not program.exists():
        pytest.skip("the package is not from a wheel")
    graph = chat(saver)
    for said in ("hi", "more"):
        graph.invoke({"messages": [HumanMessage(said)]}, of("t"))
    saver.copy_thread("t", "u")
    graph.invoke({"messages": [HumanMessage("otherwise")]}, of("u"))

    def run(*arguments: str) -> str:
        command = [program, "--store", saver.store.path, *arguments]
        return subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=120
        ).stdout

    assert "user: otherwise" in run("log", "u")
    changed = run("diff", "t", "u").splitlines()
    assert [line.split(maxsplit=2)[2] for line in changed if line.startswith("+")] == [
        "user       otherwise", "assistant  you said otherwise",
    ]  # fmt: skip
    assert any(line.startswith("langgraph-items  +2 -0") for line in changed)
    assert not any("not text" in line or line.startswith("---") for line in changed)
    told = AIMessage(
        "so", usage_metadata={"input_tokens": 11, "output_tokens": 7, "total_tokens": 18}
    )
    failed = ToolMessage("no", tool_call_id="c", status="error")
    graph.update_state(of("u"), {"messages": [failed, told]})
    assert [m.status for m in graph.get_state(of("u")).values["messages"] if m.type == "tool"] == [
        "error"
    ]
    assert "11" in run("usage", "u") and "7" in run("usage", "u")
    assert '"is_error":true' in run("export", "u", "--format", "json").replace(" ", "")
    page = run("export", "u", "--format", "markdown")
    assert "you said otherwise" in page and "langgraph" not in page.replace("· langgraph ·", "")
    assert "no sign" in run("spiral", "u")


def test_a_step_costs_what_is_new(path: Path) -> None:
    with TurntreeSaver(path) as saver:
        graph = chat(saver)
        for number in range(60):
            graph.invoke({"messages": [HumanMessage(f"{number}" * 200)]}, of("t"))
        snapshot = saver.store["t"]
        assert snapshot.count("langgraph-items") == 120, "each message once"
        values = snapshot.scan("langgraph-values")
        assert max(len(stored) for key, stored in values if key.endswith("/messages")) < 40
        graph.update_state(of("t"), {"messages": [RemoveMessage(id=graph.get_state(of("t")).values["messages"][3].id)]})  # fmt: skip
        assert saver.store["t"].count("langgraph-items") == 120
        assert len(saver.store["t"].messages()) == 119


def test_what_a_node_changes_in_place_is_stored(saver: TurntreeSaver) -> None:
    def meddle(state: MessagesState) -> AIMessage:
        state["messages"][0].additional_kwargs["seen"] = len(state["messages"])
        state["messages"][0].content = f"edited {len(state['messages'])}"
        return AIMessage("ok")

    graph = chat(saver, meddle)
    graph.invoke({"messages": [HumanMessage("one")]}, of("t"))
    graph.invoke({"messages": [HumanMessage("two")]}, of("t"))
    saver._forget_all()
    found = graph.get_state(of("t")).values["messages"]
    assert (found[0].content, found[0].additional_kwargs) == ("edited 3", {"seen": 3})


def test_a_change_in_place_of_a_field_without_a_name_is_stored(saver: TurntreeSaver) -> None:
    def mark(state: MessagesState) -> Any:
        for message in state["messages"]:
            message.mark = getattr(message, "mark", 0) + 1  # type: ignore[attr-defined]
        return AIMessage("marked")

    graph = chat(saver, mark)
    for turn in range(1, 4):
        graph.invoke({"messages": [HumanMessage("hi", mark=0)]}, of("t"))
        saver._forget_all()
        found = graph.get_state(of("t")).values["messages"]
        assert [one.mark for one in found if isinstance(one, HumanMessage)] == list(
            range(turn, 0, -1)
        )


class Incomparable:
    """As arrays are: comparing it gives no answer."""

    def __eq__(self, other: object) -> bool:
        raise ValueError("neither")


def test_what_cannot_be_compared_ends_no_graph(path: Path) -> None:
    with TurntreeSaver(path, serde=JsonPlusSerializer(pickle_fallback=True)) as saver:
        graph = chat(saver)
        for turn in range(1, 4):
            said = HumanMessage("hi", additional_kwargs={"array": Incomparable()})
            graph.invoke({"messages": [said]}, of("t"))
            assert len(graph.get_state(of("t")).values["messages"]) == 2 * turn


def test_half_a_surrogate_pair_ends_no_graph(saver: TurntreeSaver, path: Path) -> None:
    graph = chat(saver)
    for said in ("\ud800", "one \udfff half", "whole \U0001f600"):
        graph.invoke({"messages": [HumanMessage(said)]}, of("t"))
    saver._forget_all()
    found = texts(graph.get_state(of("t")))[::2]
    assert found == ["\ud800", "one \udfff half", "whole \U0001f600"]
    assert len(saver.store["t"].messages()) == 6
    assert all(one.title.isprintable() for one in saver.store.log("t"))
    with pytest.raises(turntree.InvalidInput, match="surrogate"):
        graph.invoke({"messages": [HumanMessage("hi")]}, of("\ud800"))


def test_what_a_reader_changes_in_place_is_not_stored(saver: TurntreeSaver) -> None:
    graph = chat(saver)
    graph.invoke({"messages": [HumanMessage("one")]}, of("t"))
    graph.get_state(of("t")).values["messages"][0].content = "meddled"
    assert texts(graph.get_state(of("t"))) == ["one", "you said one"]


class Other(TypedDict):
    numbers: Annotated[list[int], operator.add]
    records: Annotated[list[dict[str, Any]], operator.add]
    note: str


def test_lists_of_anything_and_other_values_come_back(saver: TurntreeSaver) -> None:
    builder = StateGraph(Other)
    builder.add_node("add", lambda state: {
        "numbers": [len(state["numbers"])], "records": [{"n": [1, b"x", None]}], "note": "ü",
    })  # fmt: skip
    builder.add_edge(START, "add")
    graph = builder.compile(checkpointer=saver)
    for _ in range(3):
        graph.invoke({"numbers": [7]}, of("t"))
    saver._forget_all()
    expected = {"numbers": [7, 1, 7, 3, 7, 5], "records": [{"n": [1, b"x", None]}] * 3, "note": "ü"}
    assert graph.get_state(of("t")).values == expected


def extend(state: list[Any], writes: list[list[Any]]) -> list[Any]:
    return state + [item for write in writes for item in write]


class Logged(TypedDict):
    log: Annotated[list[Any], DeltaChannel(extend)]


def test_delta_channels_survive_pruning(saver: TurntreeSaver) -> None:
    builder = StateGraph(Logged)
    builder.add_node("add", lambda state: {"log": [f"after {len(state['log'])}"]})
    builder.add_edge(START, "add")
    graph = builder.compile(checkpointer=saver)
    for number in range(5):
        graph.invoke({"log": [number]}, of("t"))
    before = graph.get_state(of("t")).values
    assert len(before["log"]) == 10
    saver.copy_thread("t", "copy")
    saver.prune(["t"])
    assert graph.get_state(of("t")).values == before == graph.get_state(of("copy")).values
    assert graph.invoke({"log": ["more"]}, of("t"))["log"][:10] == before["log"]


def test_pruning_keeps_the_newest_state_and_frees_the_rest(saver: TurntreeSaver) -> None:
    graph = chat(saver)
    for number in range(10):
        graph.invoke({"messages": [HumanMessage(f"{number}")]}, of("t"))
    expected = texts(graph.get_state(of("t")))
    saver.prune(["t", "never was"])
    assert len(list(graph.get_state_history(of("t")))) == 1
    assert texts(graph.get_state(of("t"))) == expected
    snapshot = saver.store["t"]
    assert snapshot.parents == [] and len(snapshot.messages()) == 20
    graph.invoke({"messages": [HumanMessage("on")]}, of("t"))
    assert texts(graph.get_state(of("t")))[-2:] == ["on", "you said on"]
    saver.store.undo()


def test_a_copy_costs_nothing_and_goes_its_own_way(saver: TurntreeSaver) -> None:
    graph = chat(saver)
    graph.invoke({"messages": [HumanMessage("one")]}, of("t"))
    saver.copy_thread("t", "copy")
    assert saver.store.tip("t") == saver.store.tip("copy")
    graph.invoke({"messages": [HumanMessage("two")]}, of("copy"))
    assert len(texts(graph.get_state(of("t")))) == 2
    saver.delete_thread("t")
    assert len(texts(graph.get_state(of("copy")))) == 4
    graph.invoke({"messages": [HumanMessage("other")]}, of("u"))
    saver.copy_thread("copy", "u")
    assert len(list(saver.list(of("u")))) == 9
    saver._forget_all()
    assert sorted(len(texts(s)) for s in graph.get_state_history(of("u")))[-1] == 4
    saver.copy_thread("never was", "v")
    assert saver.get_tuple(of("v")) is None


def test_an_encrypting_serializer_keeps_everything_opaque(path: Path) -> None:
    pytest.importorskip("Crypto")
    serde = EncryptedSerializer.from_pycryptodome_aes(key=os.urandom(32))
    with TurntreeSaver(path, serde=serde) as saver:
        chat(saver).invoke({"messages": [HumanMessage("a secret")]}, of("t"))
        assert texts(chat(saver).get_state(of("t"))) == ["a secret", "you said a secret"]
        assert saver.store["t"].messages() == []
    files = [file.read_bytes() for file in path.rglob("*") if file.is_file()]
    assert all(b"a secret" not in content for content in files)


def test_two_savers_and_many_threads_on_one_store_lose_nothing(path: Path) -> None:
    savers = [TurntreeSaver(path), TurntreeSaver(path)]

    def run(worker: int) -> None:
        graph = chat(savers[worker % 2])
        for number in range(5):
            graph.invoke({"messages": [HumanMessage(f"{number}")]}, of(f"own {worker}"))
            config = of("shared", checkpoint_ns="", checkpoint_id=f"{worker}-{number}")
            savers[worker % 2].put_writes(config, [("log", [worker, number])], f"task {worker}")

    workers = [threading.Thread(target=run, args=(worker,)) for worker in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for worker in range(4):
        assert len(texts(chat(savers[0]).get_state(of(f"own {worker}")))) == 10
    assert savers[0].store["shared"].count("langgraph-writes") == 20
    for saver in savers:
        saver.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_goes_on(saver: TurntreeSaver) -> None:
    graph = chat(saver)
    graph.invoke({"messages": [HumanMessage("one")]}, of("t"))
    child = os.fork()
    if child == 0:
        code = 1
        try:
            graph.invoke({"messages": [HumanMessage("two")]}, of("t"))
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert texts(graph.get_state(of("t")))[2:] == ["two", "you said two"]


def test_threads_of_any_name_and_errors_as_exceptions(saver: TurntreeSaver) -> None:
    graph = chat(saver)
    for thread in ("", "a/b", "..", "-x", "@", "é 1:2~3", "x.lock", "%2E", "a+b"):
        graph.invoke({"messages": [HumanMessage(thread or "empty")]}, of(thread))
    listed = {found.config["configurable"]["thread_id"] for found in saver.list(None)}
    assert listed >= {"", "a/b", "..", "-x", "@", "é 1:2~3", "x.lock", "%2E"}
    with pytest.raises(TypeError):
        saver.put_writes(of("t", checkpoint_id="c"), [("x", object())], "task")
    assert saver.get_tuple(of("t")) is None
    saver.close()
    with pytest.raises(turntree.InvalidInput):
        saver.get_tuple(of("t"))


def test_long_term_memory_answers_as_the_one_in_memory(path: Path) -> None:
    ours, theirs = TurntreeStore(path), InMemoryStore()
    for store in (ours, theirs):
        for user in ("a", "b", "a/c"):
            for number in range(5):
                value = {"n": number, "text": f"ü {number}"}
                store.put(("users", user), f"k{number}", value)
        store.put(("users", "a"), "k1", {"n": 100})
        store.delete(("users", "b"), "k2")
        store.put(("top",), "x/y", {"n": None})
    ops: list[Any] = [
        GetOp(("users", "a"), "k1"),
        GetOp(("users", "a"), "none"),
        GetOp(("top",), "x/y"),
        SearchOp(("users",), limit=100),
        SearchOp(("users", "a"), limit=100),
        SearchOp(("users",), filter={"n": 3}),
        SearchOp(("users",), filter={"n": {"$gte": 3}}, limit=100),
        SearchOp(("us",), limit=10),
        ListNamespacesOp(),
        ListNamespacesOp(max_depth=1),
        ListNamespacesOp(match_conditions=(MatchCondition("prefix", ("users",)),)),
        ListNamespacesOp(match_conditions=(MatchCondition("suffix", ("a/c",)),)),
        ListNamespacesOp(match_conditions=(MatchCondition("prefix", ("*", "b")),)),
    ]

    def plain(result: Any) -> Any:
        if isinstance(result, list):
            return sorted((plain(one) for one in result), key=str)
        return (result.namespace, result.key, result.value) if hasattr(result, "key") else result

    for op in ops:
        assert plain(ours.batch([op])[0]) == plain(theirs.batch([op])[0]), op
    item = ours.get(("users", "a"), "k1")
    assert item and item.created_at < item.updated_at
    assert asyncio.run(ours.abatch([PutOp(("n",), "k", {"v": 1}), GetOp(("top",), "x/y")]))[1]
    assert ours.get(("n",), "k")


def test_a_search_with_a_query_ranks_by_words(path: Path) -> None:
    store = TurntreeStore(path)
    texts = [
        "the parser fails on empty lines",
        "Lines of poems",
        "nothing to see",
        "empty empty parser lines, a long text about other things and more",
    ]
    for number, text in enumerate(texts):
        store.put(("users", "a"), f"k{number}", {"text": text, "tags": ["x", number]})
    store.put(("others",), "k", {"text": "parser"})
    found = store.search(("users",), query="Parser LINES?")
    assert [item.key for item in found] == ["k0", "k3", "k1"]
    scores = [item.score for item in found]
    assert all(scores) and scores == sorted(scores, key=float, reverse=True)  # type: ignore[arg-type]
    assert store.search(("users",), query="nothing like it")[0].key == "k2"
    assert store.search(("users",), query="absent") == []
    assert [item.key for item in store.search(("users",), query="lines", limit=1, offset=1)] == [
        "k0"
    ]
    assert len(store.search(("users",), query=" ")) == len(store.search(("users",))) == 4
    assert store.search(("users",), query="parser", filter={"text": texts[3]})[0].key == "k3"


def test_states_of_a_list_share_their_messages(saver: TurntreeSaver) -> None:
    graph = chat(saver)
    for turn in range(20):
        graph.invoke({"messages": [HumanMessage(f"{turn}")]}, of("t"))
    saver._forget_all()
    read = []
    item = saver._item
    saver._item = lambda stored: (read.append(stored), item(stored))[1]  # type: ignore[method-assign]
    states = list(saver.list(of("t")))
    assert len(read) == 40
    for state in states:
        found = saver.get_tuple(state.config)
        assert found and found.checkpoint == state.checkpoint
