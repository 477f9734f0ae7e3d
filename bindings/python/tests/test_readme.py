"""The examples of the README, as they are pasted."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parent.parent / "README.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)

SAYS = [
    "[('scratchpad/plan', 'changed')]\nfast-forward\n",
    "['user', 'assistant']\n",
    "",
    "[{'type': 'user', 'uuid': '1', 'message': {'role': 'user', 'content': 'hi'}}]\n",
    "'branch_id': 'politer'",
    "1\n",
    "1\n",
    "['session/s1/agent.json']\n",
]

FRAMEWORKS = [
    "",
    "langgraph",
    "langgraph.checkpoint.sqlite",
    "claude_agent_sdk",
    "agents",
    "pydantic_ai.conversation_store",
    "google.adk.sessions",
    "strands",
]


def test_every_example_has_what_it_says() -> None:
    assert len(EXAMPLES) == len(SAYS) == len(FRAMEWORKS)


@pytest.mark.parametrize("number", range(len(SAYS)))
def test_an_example_runs(number: int, tmp_path: Path) -> None:
    if FRAMEWORKS[number]:
        pytest.importorskip(FRAMEWORKS[number])
    ran = run(EXAMPLES[number], tmp_path)
    assert SAYS[number] in ran, ran


def run(example: str, folder: Path) -> str:
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
    run(EXAMPLES[2], tmp_path)
    with TurntreeSaver(tmp_path / "agents.turntree") as new:
        assert states(new) == expected and len(expected) == 9
        assert len(new.store.snapshot("a").messages()) == 4
