"""The examples of the README, as they are pasted."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import turntree

PAGE = Path(__file__).parent.parent / "README.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)

SAYS = [
    "[Change(path='scratchpad/plan', kind='changed')]\nfast-forward\n",
    "('note 3', 4)\n['agents/main/messages/1', 'agents/main/messages/2']\n3\n"
    "[FileAction(path=PosixPath('files/notes.md'), action='create')]\nTrue 5\ntask\nb'{\"messages\"",
    "task/plan-a 1 2 2\ntask/plan-b 1 2 2\n[['files/parser.py']]\nb'fast\\n' b'safe\\n'\nb'safe\\n'\n",
    "over ['task/long', 'task/short']\nfast-forward b'add a cache and measure it'\n",
    "['Why does the parser fail?'] [1]\n",
    "['user', 'assistant']\n",
    "0 checkpoints copied\n",
    "[{'type': 'user', 'uuid': '1', 'message': {'role': 'user', 'content': 'hi'}}]\n",
    "",
    "'branch_id': 'politer'",
    "done\n",
    "1\n",
    "1\n",
    "['session/s1/agent.json']\n",
    "['hi']\n[]\n",
]

#: What an example needs: a module, or the program in the package.
PROGRAM = "the program"
NEEDS = [
    "",
    PROGRAM,
    PROGRAM,
    PROGRAM,
    PROGRAM,
    "langgraph",
    "langgraph.checkpoint.sqlite",
    "claude_agent_sdk",
    "claude_agent_sdk",
    "agents",
    "agents.sandbox",
    "pydantic_ai.conversation_store",
    "google.adk.sessions",
    "strands",
    "agent_framework",
]


def test_every_example_has_what_it_says() -> None:
    assert len(EXAMPLES) == len(SAYS) == len(NEEDS)


@pytest.mark.parametrize("number", range(len(SAYS)))
def test_an_example_runs(number: int, tmp_path: Path) -> None:
    if NEEDS[number] == PROGRAM:
        if not hasattr(turntree.Store, "search"):
            pytest.skip("this build has no program")
    elif NEEDS[number]:
        pytest.importorskip(NEEDS[number])
    ran = run(EXAMPLES[number], tmp_path / "project")
    assert SAYS[number] in ran, ran


def run(example: str, folder: Path) -> str:
    folder.mkdir(exist_ok=True)
    command = [sys.executable, "-c", example]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_threads_of_the_sqlite_saver_come_over_whole(tmp_path: Path) -> None:
    sqlite = pytest.importorskip("langgraph.checkpoint.sqlite")
    from langgraph.graph import START, MessagesState, StateGraph

    from turntree.langgraph import TurntreeSaver

    builder = StateGraph(MessagesState)
    builder.add_node("answer", lambda state: {"messages": [("ai", str(len(state["messages"])))]})
    builder.add_edge(START, "answer")

    def states(saver: Any) -> list[Any]:
        graph = builder.compile(checkpointer=saver)
        history = [list(graph.get_state_history({"configurable": {"thread_id": t}})) for t in "ab"]
        return [(state.values, state.metadata, state.next) for one in history for state in one]

    with sqlite.SqliteSaver.from_conn_string(str(tmp_path / "checkpoints.db")) as old:
        graph = builder.compile(checkpointer=old)
        for thread in "aab":
            config: Any = {"configurable": {"thread_id": thread}}
            graph.invoke({"messages": [("user", thread)]}, config)
        expected = states(old)
    run(EXAMPLES[6], tmp_path)
    with TurntreeSaver(tmp_path / "agents.turntree") as new:
        assert states(new) == expected and len(expected) == 9
        assert len(new.store["a"].messages()) == 4


def test_transcripts_of_the_s3_store_come_over_whole(tmp_path: Path) -> None:
    pytest.importorskip("claude_agent_sdk")
    import asyncio
    import json

    from turntree.claude import TurntreeSessionStore

    def entries(kind: str, start: int) -> list[Any]:
        texts = [f"{kind} {number}\u2028\n" for number in range(start, start + 3)]
        return [{"type": "user", "uuid": text, "message": {"content": text}} for text in texts]

    # As its keys and objects are: the time in milliseconds, then what tells two writers apart.
    parts = {
        "p/s1/part-1700000000001-ffffff.jsonl": entries("first", 0),
        "p/s1/part-1700000000002-000000.jsonl": entries("first", 3),
        "p/s1/subagents/agent-1/part-1700000000001-aaaaaa.jsonl": entries("below", 0),
        "p/s2/part-1700000000001-aaaaaa.jsonl": entries("second", 0),
    }
    for name, content in parts.items():
        path = tmp_path / "transcripts" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(map(json.dumps, content)) + "\n")
    for _ in range(2):
        run(EXAMPLES[8], tmp_path)

    async def loaded(session: str, **more: str) -> Any:
        store = TurntreeSessionStore(tmp_path / "agents.turntree")
        try:
            return await store.load({"project_key": "p", "session_id": session, **more})  # type: ignore[typeddict-item]
        finally:
            store.close()

    assert asyncio.run(loaded("s1")) == entries("first", 0) + entries("first", 3)
    assert asyncio.run(loaded("s1", subpath="subagents/agent-1")) == entries("below", 0)
    assert asyncio.run(loaded("s2")) == entries("second", 0)
