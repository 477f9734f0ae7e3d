"""A deep agent of fifty turns: browsed, forked, compared and merged."""

from __future__ import annotations

import html
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

deepagents = pytest.importorskip("deepagents")

from conftest import of
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage
from test_whole_program import PROGRAM, has_program, told

import turntree
from turntree.langgraph import TurntreeSaver

TURNS = 50

#: The turn after which the second strategy begins.
FORK = 40


class Model(GenericFakeChatModel):
    def bind_tools(self, tools: Any, **_: Any) -> Any:
        return self


def called(turn: int, name: str, **arguments: Any) -> AIMessage:
    call = {"name": name, "args": arguments, "id": f"call-{turn}"}
    usage: Any = {"input_tokens": 100, "output_tokens": 10, "total_tokens": 110}
    return AIMessage("", tool_calls=[call], usage_metadata=usage)


def work(turns: range, strategy: str) -> Iterator[AIMessage]:
    """What the model says: it plans, writes a note every fifth turn, and changes the parser."""
    for turn in turns:
        if turn == 0:
            yield called(turn, "write_file", file_path="/plan.md", content="read\nthe tests\n")
            yield called(100, "write_file", file_path="/src/parser.py", content="slow = True\n")
        elif turn % 5 == 0:
            path, content = f"/notes/{strategy}-{turn}.md", f"note of turn {turn}\n"
            yield called(turn, "write_file", file_path=path, content=content)
        elif turn == FORK + 2:
            old, new = "slow = True", f"{strategy} = True"
            file = "/src/parser.py"
            yield called(turn, "edit_file", file_path=file, old_string=old, new_string=new)
        yield AIMessage(f"Answer {turn} of {strategy}: <done> & more.")


def play(saver: TurntreeSaver, thread: str, turns: range, strategy: str) -> Any:
    model = Model(messages=work(turns, strategy))
    agent = deepagents.create_deep_agent(model=model, checkpointer=saver)
    for turn in turns:
        agent.invoke({"messages": [HumanMessage(f"Question {turn} of {strategy}?")]}, of(thread))
    return agent


def text_of(store: turntree.Store, *arguments: str) -> str:
    command = [*PROGRAM, "--store", str(store.path), *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[TurntreeSaver, Any]]:
    """Fifty turns of one strategy, and the last ten again with another."""
    path = tmp_path_factory.mktemp("deep") / "store"
    with TurntreeSaver(path) as saver:
        play(saver, "deep", range(FORK), "cache")
        saver.store.fork("deep/pool", at="deep")
        saver.copy_thread("deep", "second")
        agent = play(saver, "deep", range(FORK, TURNS), "cache")
        play(saver, "second", range(FORK, TURNS), "pool")
        yield saver, agent


def test_it_is_read_as_the_graph_has_it(story: Any) -> None:
    saver, agent = story
    state = agent.get_state(of("deep")).values
    snapshot = saver.store["deep"]
    messages = snapshot.messages()
    assert [message.json()["content"] for message in messages] == [
        one.content for one in state["messages"]
    ]
    assert sum(message.role == "user" for message in messages) == TURNS
    assert {f"/{path}" for path in snapshot.keys("files")} == set(state["files"])
    assert snapshot["files/src/parser.py"] == b"cache = True\n"


@has_program
def test_it_is_browsed(story: Any, tmp_path: Path) -> None:
    saver, _ = story
    store = saver.store
    log = told(store, "log", "deep", "-n", "1000")
    assert [one["id"] for one in log] == [one.id for one in store.log("deep", limit=1000)]
    assert "Answer 47 of cache" in str(log)
    assert ("files/src/parser.py", "changed") in store.diff("deep/pool", "deep")
    shown = text_of(store, "diff", "deep/pool", "deep")
    assert "-slow = True" in shown and "+cache = True" in shown
    lines = [(one.text, one.session) for one in store.blame("second", "files/src/parser.py")]
    assert lines == [("pool = True", "second")]
    (hit, *_) = store.search('"question 17"', session="deep")
    assert hit.text.startswith("Question 17") and hit.role == "user"
    page = tmp_path / "page.html"
    text_of(store, "export", "deep", "--format", "html", "-o", str(page))
    document = html.unescape(page.read_text())
    for expected in ("Question 49 of cache?", "Answer 49 of cache", "notes/cache-45.md"):
        assert expected in document


@has_program
def test_its_strategies_are_compared(story: Any) -> None:
    saver, _ = story
    found = saver.store.compare("deep", "second", align=True)
    first, second = found.branches
    assert (first.name, second.name) == ("deep", "second")
    assert first.tool_calls == second.tool_calls == 3
    assert first.spending is not None and first.spending.input == 300
    assert {first.files, second.files} == {3}
    assert found.alignment is not None and found.alignment.shared_steps == 0
    (pair,) = found.alignment.pairs
    assert pair.parted == 1


def test_they_are_merged_and_the_agent_goes_on(story: Any) -> None:
    saver, _ = story
    store = saver.store
    store.fork("joined", at="deep")
    merged = store.merge("joined", "second")
    assert merged.conflicts == ["files/src/parser.py"]
    (conflict,) = store.conflicts("joined")
    assert (conflict.ours, conflict.theirs) == (b"cache = True\n", b"pool = True\n")
    store.resolve("joined", conflict.path, content="cache = pool = True\n")
    snapshot = store["joined"]
    assert {"notes/cache-45.md", "notes/pool-45.md"} <= set(snapshot.keys("files"))
    assert sum(message.role == "user" for message in snapshot.messages()) == TURNS + 10
    # The graph has the state of the newest checkpoint; what it shall know of the other is written to it.
    saver._forget_all()
    agent = deepagents.create_deep_agent(model=Model(messages=iter(())), checkpointer=saver)
    missing = ("src/parser.py", "notes/cache-45.md")
    now = "2026-12-01T00:00:00+00:00"
    files = {
        f"/{path}": {
            "content": snapshot[f"files/{path}"].decode(),
            "encoding": "utf-8",
            "created_at": now,
            "modified_at": now,
        }
        for path in missing
    }
    agent.update_state(of("joined"), {"files": files})
    agent = play(saver, "joined", range(TURNS, TURNS + 1), "both")
    state = agent.get_state(of("joined")).values
    assert sum(isinstance(one, HumanMessage) for one in state["messages"]) == TURNS + 1
    assert state["files"]["/src/parser.py"]["content"] == "cache = pool = True\n"
    joined = store["joined"]
    assert joined["files/src/parser.py"] == b"cache = pool = True\n"
    assert {"notes/cache-45.md", "notes/pool-45.md", "notes/both-50.md"} <= set(joined.keys("files"))
