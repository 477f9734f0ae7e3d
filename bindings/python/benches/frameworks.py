"""What turntree costs inside of frameworks, beside what they bring: prints every table of the page.

    python benches/frameworks.py [TURNS]

Times are medians in ms unless a column says otherwise; how busy the machine was stands above the tables.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import chat_graph

import turntree

CALLS = 20_000


class PartsStore:
    """What the S3 example of the SDK does, on this disk: an object for each append, all of them for a load."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.parts = 0

    async def append(self, key: Any, entries: list[Any]) -> None:
        place = self.folder / key["project_key"] / key["session_id"]
        place.mkdir(parents=True, exist_ok=True)
        self.parts += 1
        body = "\n".join(json.dumps(entry, separators=(",", ":")) for entry in entries) + "\n"
        with open(place / f"part-{self.parts:013}-000000.jsonl", "w") as part:
            part.write(body)
            part.flush()
            os.fsync(part.fileno())

    async def load(self, key: Any) -> list[Any]:
        place = self.folder / key["project_key"] / key["session_id"]
        parts = sorted(place.iterdir())
        return [json.loads(line) for part in parts for line in part.read_text().splitlines()]


def transcripts(turns: int) -> None:
    """A transcript of turns with a question, a call of a tool, its result and an answer."""
    from claude_agent_sdk import InMemorySessionStore

    from turntree.claude import TurntreeSessionStore

    print("\n| transcripts | MB | append of 4 entries | load of all | load in a new handle |")
    print("|---|---|---|---|---|")
    source = chat_graph.random.Random(1)
    text = [chat_graph.words(source, 80) for _ in range(4 * turns)]
    key: Any = {"project_key": "p", "session_id": str(uuid.UUID(int=1))}

    def entries(turn: int) -> list[Any]:
        kinds = ("user", "assistant", "user", "assistant")
        return [
            {
                "type": kind,
                "uuid": str(uuid.UUID(int=4 * turn + at)),
                "message": {"role": kind, "content": text[4 * turn + at]},
            }
            for at, kind in enumerate(kinds)
        ]

    makes: dict[str, Callable[[Path], Any]] = {
        "turntree": TurntreeSessionStore,
        "a file for each append": PartsStore,
        "InMemorySessionStore": lambda _: InMemorySessionStore(),
    }
    for name, make in makes.items():
        with tempfile.TemporaryDirectory() as kept:

            async def play() -> list[str]:
                folder = Path(kept) / "store"
                store, times = make(folder), []
                for turn in range(turns):
                    batch, start = entries(turn), time.perf_counter()
                    await store.append(key, batch)
                    times.append((time.perf_counter() - start) * 1000)
                loads = [await timed(store) for _ in range(5)]
                if name == "InMemorySessionStore":
                    again = ""
                else:
                    if name == "turntree":
                        store.close()
                    again = f"{await timed(make(folder)):.1f}"
                size = chat_graph.bytes_of(folder) / 1e6 if folder.exists() else 0
                medians = f"{statistics.median(times[-100:]):.2f}", f"{statistics.median(loads):.1f}"
                return [name, f"{size:.1f}", *medians, again]

            async def timed(store: Any) -> float:
                start = time.perf_counter()
                assert len(await store.load(key)) == 4 * turns
                return (time.perf_counter() - start) * 1000

            print("| " + " | ".join(asyncio.run(play())) + " |", flush=True)


def calls() -> None:
    """What a call of the binding takes, from none of the engine's work to some of it."""
    print("\n| a call | µs |\n|---|---|")
    with tempfile.TemporaryDirectory() as kept, turntree.Store(Path(kept) / "store") as store:
        with store.begin("task") as change:
            change.put("kept", "a", b"1")
        snapshot = store["task"]
        rows: dict[str, Callable[[], object]] = {
            "of Python alone": lambda: None,
            "`snapshot.turn`, which leaves the interpreter locked": lambda: snapshot.turn,
            "`snapshot.get` of a section that is not there": lambda: snapshot.get("other", "a"),
            "`snapshot.get` of one byte": lambda: snapshot.get("kept", "a"),
            "`store.tip`, which looks whether others wrote": lambda: store.tip("task"),
        }
        for name, call in rows.items():
            best = min(of_many(call) for _ in range(5))
            print(f"| {name} | {best:.2f} |", flush=True)


def of_many(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    for _ in range(CALLS):
        call()
    return (time.perf_counter() - start) / CALLS * 1e6


def main() -> None:
    turns = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    load = ", ".join(f"{load:.1f}" for load in os.getloadavg())
    print(f"{os.cpu_count()} processors; load of the last 1, 5 and 15 minutes: {load}\n")
    chat_graph.table(turns, list(chat_graph.SAVERS))
    transcripts(turns)
    calls()


if __name__ == "__main__":
    main()
