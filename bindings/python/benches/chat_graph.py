"""A chat graph of many turns on several checkpoint savers: prints a table of size and times.

    python benches/chat_graph.py [TURNS] [SAVER...]

Each turn is one question and one answer of about 2 KB, three checkpoints and three writes. Times are medians:
of the last 20 turns, and of 20 calls afterwards.
"""

from __future__ import annotations

import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph

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
def memory_saver(folder: Path) -> Iterator[BaseCheckpointSaver[Any]]:
    yield InMemorySaver()


SAVERS = {"turntree": turntree_saver, "sqlite": sqlite_saver, "memory": memory_saver}


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


def measure(name: str, turns: int) -> list[str]:
    source = random.Random(1)

    def answer(_: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage(words(source, 310))]}

    builder = StateGraph(MessagesState)
    builder.add_node("answer", answer)
    builder.add_edge(START, "answer")
    config: Any = {"configurable": {"thread_id": "chat"}}
    with tempfile.TemporaryDirectory() as kept:
        folder = Path(kept)
        with SAVERS[name](folder) as saver:
            graph = builder.compile(checkpointer=saver)

            def turn(_: int) -> None:
                graph.invoke({"messages": [HumanMessage(words(source, 310))]}, config)

            start = time.perf_counter()
            for at in range(turns - LAST):
                turn(at)
            last = median_ms(LAST, turn)
            total = time.perf_counter() - start
            newest = median_ms(LAST, lambda _: saver.get_tuple(config))
            found = saver.get_tuple(config)
            assert found and len(found.checkpoint["channel_values"]["messages"]) == 2 * turns
            try:
                copied = (
                    f"{median_ms(LAST, lambda at: saver.copy_thread('chat', f'copy-{at}')):.2f}"
                )
            except NotImplementedError:
                copied = "not there"
        with SAVERS[name](folder) as saver:
            cold = (
                "" if name == "memory" else f"{median_ms(1, lambda _: saver.get_tuple(config)):.1f}"
            )
        size = f"{bytes_of(folder) / 1e6:.1f}"
    return [name, str(turns), size, f"{last:.2f}", f"{newest:.2f}", cold, copied, f"{total:.1f}"]


def main() -> None:
    turns = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    names = sys.argv[2:] or list(SAVERS)
    head = [
        "saver",
        "turns",
        "MB",
        "ms a turn, last 20",
        "ms get_tuple",
        "ms get_tuple, new process",
        "ms copy_thread",
        "s in all",
    ]
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for name in names:
        print("| " + " | ".join(measure(name, turns)) + " |", flush=True)


if __name__ == "__main__":
    main()
