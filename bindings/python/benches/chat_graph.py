"""A chat graph of many turns on several checkpoint savers: prints a table of size and times.

    python benches/chat_graph.py [TURNS] [SAVER...]

The saver ``postgres`` wants the URL of an empty database in ``TURNTREE_POSTGRES``, and is left out without it.

Each turn is one question and one answer of about 2 KB, three checkpoints and their writes. Times are
medians: of the last 20 turns, with LangGraph's own share, of their processor time, and of what the calls of
the saver took in them; and of 20 calls afterwards. A server's processor time is not in it. The state of a delta channel is read by the graph, the others by the saver.
"""

from __future__ import annotations

import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.channels import DeltaChannel
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from typing_extensions import TypedDict

LAST = 20


@contextmanager
def turntree_saver(folder: Path) -> Iterator[BaseCheckpointSaver[Any]]:
    from turntree.langgraph import TurntreeSaver

    with TurntreeSaver(folder / "store") as saver:
        yield saver


@contextmanager
def sqlite_saver(folder: Path) -> Iterator[BaseCheckpointSaver[Any]]:
    from langgraph.checkpoint.sqlite import SqliteSaver

    with SqliteSaver.from_conn_string(str(folder / "checkpoints.db")) as saver:
        yield saver


@contextmanager
def postgres_saver(folder: Path) -> Iterator[BaseCheckpointSaver[Any]]:
    from langgraph.checkpoint.postgres import PostgresSaver

    with PostgresSaver.from_conn_string(os.environ[POSTGRES]) as saver:
        saver.setup()
        yield saver


@contextmanager
def memory_saver(folder: Path) -> Iterator[BaseCheckpointSaver[Any]]:
    yield InMemorySaver()


POSTGRES = "TURNTREE_POSTGRES"
class Newest(InMemorySaver):
    """Keeps the newest checkpoint as it is given, and nothing else: what a turn takes without a saver."""

    newest: CheckpointTuple | None = None

    def get_tuple(self, config: Any) -> CheckpointTuple | None:
        return self.newest

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        given = config["configurable"]
        at = {"thread_id": given["thread_id"], "checkpoint_ns": "", "checkpoint_id": checkpoint["id"]}
        kept = {**checkpoint, "channel_values": {**checkpoint["channel_values"]}}
        self.newest = CheckpointTuple({"configurable": at}, kept, metadata, None, [])  # type: ignore[arg-type]
        return self.newest.config

    def put_writes(self, *_: Any, **__: Any) -> None:
        pass

    def copy_thread(self, *_: Any) -> None:
        raise NotImplementedError


@contextmanager
def newest_alone(folder: Path) -> Iterator[BaseCheckpointSaver[Any]]:
    yield Newest()


NOTHING = "none, the newest alone"
DELTA = "sqlite, delta channel"
SAVERS = {
    "turntree": turntree_saver,
    "sqlite": sqlite_saver,
    DELTA: sqlite_saver,
    "memory": memory_saver,
    NOTHING: newest_alone,
}
if POSTGRES in os.environ:
    SAVERS["postgres"] = postgres_saver


def appended(state: list[Any], writes: Sequence[Any]) -> list[Any]:
    return [*state, *(message for write in writes for message in write)]


class DeltaState(TypedDict):
    """Messages of which a checkpoint has only what is new; to read them is to go through history."""

    messages: Annotated[list[AnyMessage], DeltaChannel(appended)]


def words(source: random.Random, count: int) -> str:
    return " ".join(
        "".join(source.choices("etaoinshrdlu", k=source.randint(2, 9))) for _ in range(count)
    )


def median_ms(calls: int, call: Callable[[int], object]) -> float:
    times = []
    for at in range(calls):
        start = time.perf_counter()
        call(at)
        times.append((time.perf_counter() - start) * 1000)
    return statistics.median(times)


def bytes_of(folder: Path) -> int:
    # What the file system gave, not how long files are: journals are filled with zeros ahead.
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())


def bytes_of_database() -> int:
    import psycopg

    with psycopg.connect(os.environ[POSTGRES]) as database:
        found = database.execute("SELECT pg_database_size(current_database())").fetchone()
    return int(found[0]) if found else 0


class Watched:
    """Adds up the time in the calls of a saver."""

    def __init__(self, saver: Any) -> None:
        self.ms = 0.0
        for name in ("get_tuple", "put", "put_writes"):
            setattr(saver, name, self.watch(getattr(saver, name)))

    def watch(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*args: Any, **more: Any) -> Any:
            start = time.perf_counter()
            try:
                return call(*args, **more)
            finally:
                self.ms += (time.perf_counter() - start) * 1000

        return watched


def measure(name: str, turns: int) -> list[str]:
    source = random.Random(1)
    texts = [words(source, 310) for _ in range(2 * turns)]

    def answer(state: Any) -> dict[str, Any]:
        return {"messages": [AIMessage(texts[len(state["messages"])])]}

    builder: Any = StateGraph(DeltaState if name == DELTA else MessagesState)
    builder.add_node("answer", answer)
    builder.add_edge(START, "answer")
    config: Any = {"configurable": {"thread_id": "chat"}}
    with tempfile.TemporaryDirectory() as kept:
        folder = Path(kept)
        with SAVERS[name](folder) as saver:
            graph = builder.compile(checkpointer=saver)
            watched = Watched(saver)

            def turn(at: int) -> float:
                before = watched.ms
                graph.invoke({"messages": [HumanMessage(texts[2 * at])]}, config)
                return watched.ms - before

            start = time.perf_counter()
            for at in range(turns - LAST):
                turn(at)
            inside: list[float] = []
            processor: list[float] = []

            def last_turn(at: int) -> None:
                start = time.process_time()
                inside.append(turn(turns - LAST + at))
                processor.append((time.process_time() - start) * 1000)

            last = median_ms(LAST, last_turn)
            total = time.perf_counter() - start
            assert len(graph.get_state(config).values["messages"]) == 2 * turns
            # A delta channel is in no checkpoint.
            read = graph.get_state if name == DELTA else saver.get_tuple
            newest = median_ms(LAST, lambda _: read(config))
            try:
                saver.copy_thread("chat", "first")
                copied = f"{median_ms(LAST, lambda at: saver.copy_thread('chat', f'{at}')):.2f}"
            except NotImplementedError:
                copied = "not there"
        size = bytes_of(folder) if name != "postgres" else bytes_of_database()
        packed, cold = "", ""
        if name not in ("memory", NOTHING):
            with SAVERS[name](folder) as saver:
                graph = builder.compile(checkpointer=saver)
                read = graph.get_state if name == DELTA else saver.get_tuple
                cold = f"{median_ms(1, lambda _: read(config)):.0f}"
        if name == "turntree":
            with SAVERS[name](folder) as saver:
                saver.store.collect(repack=True)  # type: ignore[attr-defined]
            packed = f"{bytes_of(folder) / 1e6:.1f}"
    medians = (last, statistics.median(processor), statistics.median(inside), newest)
    times = [f"{ms:.2f}" for ms in medians]
    return [name, f"{size / 1e6:.1f}", packed, *times, cold, copied, f"{total:.0f}"]


HEAD = [
    "saver",
    "MB",
    "MB, repacked",
    "ms a turn",
    "of processor time",
    "in the saver",
    "ms newest state",
    "in a new process",
    "ms copy_thread",
    "s in all",
]


def table(turns: int, names: list[str]) -> None:
    print("| " + " | ".join(HEAD) + " |\n|" + "---|" * len(HEAD))
    for name in names:
        print("| " + " | ".join(measure(name, turns)) + " |", flush=True)


def main() -> None:
    turns = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    table(turns, sys.argv[2:] or list(SAVERS))


if __name__ == "__main__":
    main()
