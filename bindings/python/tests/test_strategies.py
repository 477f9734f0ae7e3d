"""Branches compared, picked from, merged with conflicts, and explored."""

from __future__ import annotations

import sys
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from test_whole_program import has_program, told

import turntree


@pytest.fixture(autouse=True)
def elsewhere(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program takes the git repository of the working directory for the project."""
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))


def ask(store: turntree.Store, branch: str, *messages: dict[str, Any], **entries: str) -> None:
    with store.begin(branch, f"a turn of {branch}") as turn:
        for message in messages:
            turn.message(message, format="openai-chat")
        for key, content in entries.items():
            turn[f"files/{key}.txt"] = content


def called(number: int, command: str, result: str) -> list[dict[str, Any]]:
    """A call of a tool, with its result."""
    call = {"name": "run", "arguments": f'{{"command": "{command}"}}'}
    return [
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": f"call-{number}", "type": "function", "function": call}],
        },
        {"role": "tool", "tool_call_id": f"call-{number}", "content": result},
    ]


@has_program
def test_branches_are_compared_as_the_program_does(store: turntree.Store) -> None:
    ask(store, "task", {"role": "user", "content": "go"}, a="1\n")
    ask(store, "task", *called(1, "ls", "a.txt"))
    for name, files in (("plan-a", "1\n2\n"), ("plan-b", "1\n")):
        store.fork(f"task/{name}", at="task")
        ask(store, f"task/{name}", *called(2, f"edit {name}", "done"), a=files)
        ask(store, f"task/{name}", *called(3, "cargo test", "ok"), b=f"{name}\n")
    found = store.compare("task/plan-a", "task/plan-b", align=True)
    (record,) = told(store, "compare", "task/plan-a", "task/plan-b", "--align")
    assert found.fork == store["task"].id == record["fork"]["id"]
    assert [(one.name, one.turns, one.tool_calls, one.files) for one in found.branches] == [
        ("task/plan-a", 2, 2, 2),
        ("task/plan-b", 2, 2, 1),
    ]
    first = found.branches[0]
    assert (first.lines_added, first.lines_removed, first.spending, first.checks) == (2, 0, None, {})
    assert timedelta(0) <= first.elapsed < timedelta(minutes=5)
    assert found.alignment is not None
    assert [split.step for split in found.alignment.splits] == [
        split["step"] for split in record["alignment"]["splits"]
    ]
    (pair,) = found.alignment.pairs
    assert pair.names == ("task/plan-a", "task/plan-b") and pair.parted == 1
    labels = [choice.names for choice in found.alignment.splits[0].choices]
    assert sorted(labels) == [["task/plan-a"], ["task/plan-b"]]
    assert store.compare("task/plan-a", store["task/plan-b"]).alignment is None
    assert [one.name for one in store.compare("task").branches] == ["main", "plan-a", "plan-b"]
    assert [one.name for one in store.compare("task~1").branches] == ["task~1"]
    with pytest.raises(turntree.NotFound):
        store.compare("none")


def test_single_snapshots_are_picked(store: turntree.Store) -> None:
    ask(store, "task", a="1\n")
    store.fork("task/b", at="task")
    for number in range(4):
        ask(store, "task/b", {"role": "user", "content": f"n {number}"}, **{f"n{number}": "x\n"})
    (one,) = store.cherry_pick("task", "task/b~2")
    assert one.kind == "merged" and one.id == store["task"].id and one.conflicts == []
    assert {path for path in store["task"] if path.startswith("files/n")} == {"files/n1.txt"}
    store.undo()
    picks = store.cherry_pick("task", "task..task/b", only=["files"])
    assert len(picks) == 4 and store["task"].turn == 5
    assert {path for path in store["task"] if path.startswith("files/n")} == {
        f"files/n{number}.txt" for number in range(4)
    }
    assert store["task"].messages() == []
    assert [pick.kind for pick in store.cherry_pick("task", store["task/b"], only=["files"])] == [
        "up-to-date"
    ]
    assert store.undo() is not None and store["task"].turn == 1  # All picks were one operation.
    with pytest.raises(turntree.NotFound, match="no snapshot in"):
        store.cherry_pick("task", "task/b..task")
    with pytest.raises(turntree.InvalidInput):
        store.cherry_pick("task")


def in_conflict(store: turntree.Store) -> None:
    ask(store, "task", a="one\n", b="same\n", c="kept\n")
    store.fork("task/b", at="task")
    ask(store, "task", a="ours\n", b="our b\n")
    ask(store, "task/b", a="theirs\n", b="their b\n")
    with store.begin("task/b") as turn:
        turn.remove("files", "c.txt")
    with store.begin("task") as turn:
        turn["files/c.txt"] = "changed\n"
    assert store.merge("task", "task/b").conflicts == [
        "files/a.txt",
        "files/b.txt",
        "files/c.txt",
    ]


def test_conflicts_are_read_and_resolved(store: turntree.Store) -> None:
    in_conflict(store)
    first, _, third = store.conflicts("task")
    assert first == turntree.OpenConflict(
        "files/a.txt", "both-changed", b"one\n", b"ours\n", b"theirs\n"
    )
    assert (third.kind, third.ours, third.theirs) == ("removed-in-theirs", b"changed\n", None)
    done = store.resolve("task", "a.txt", take="theirs", message="take theirs")
    assert done.resolved == ["files/a.txt"] and done.open == ["files/b.txt", "files/c.txt"]
    assert done.id == store["task"].id and store["task"].title == "take theirs"
    assert store["task"]["files/a.txt"] == b"theirs\n"
    store.resolve("task", "files/b.txt", content="both\n")
    assert store["task"]["files/b.txt"] == b"both\n"
    assert store.resolve("task", take="theirs").open == []
    assert "files/c.txt" not in store["task"] and store.conflicts("task") == []
    with pytest.raises(turntree.NotFound):
        store.resolve("task", take="ours")
    assert store.undo() == "resolve 1 conflict"
    assert [one.path for one in store.conflicts("task")] == ["files/c.txt"]


def test_a_resolution_that_is_none_is_refused(store: turntree.Store) -> None:
    in_conflict(store)
    before = store["task"]
    with pytest.raises(turntree.InvalidInput, match="one source"):
        store.resolve("task")
    with pytest.raises(turntree.InvalidInput, match="expected ours"):
        store.resolve("task", take="mine")  # type: ignore[arg-type]
    with pytest.raises(turntree.InvalidInput, match="one path"):
        store.resolve("task", "a.txt", "b.txt", content="x")
    with pytest.raises(turntree.NotFound):
        store.resolve("task", "files/none", take="ours")
    with pytest.raises(turntree.NotFound):
        store.conflicts("none")
    assert store["task"] == before


#: A stand-in for an agent: it writes its prompt, or fails, or waits.
AGENT = """
import os, sys, time
from pathlib import Path
prompt = sys.argv[1]
Path("answer.txt").write_text(prompt)
if prompt.startswith("wait"):
    Path(os.environ["WAITS"]).touch()
    time.sleep(60)
sys.exit(3 if prompt == "fail" else 0)
"""

CHECK = "grep -q good answer.txt && wc -c < answer.txt"


@has_program
def test_strategies_are_explored_and_the_best_one_is_kept(
    store: turntree.Store, tmp_path: Path
) -> None:
    from turntree.explore import exploration, explore

    ask(store, "task", {"role": "user", "content": "go"}, kept="kept\n")
    with pytest.raises(turntree.NotFound):
        exploration(store)
    found = explore(
        store,
        {"short": "good", "long": "very good", "bad": "fail"},
        [sys.executable, "-c", AGENT, "{prompt}"],
        at=store["task"],
        folder=tmp_path / "trees",
        check=CHECK,
        jobs=2,
        timeout=timedelta(seconds=50),
    )
    assert (found.state, found.session, found.into) == ("over", "task", "task/main")
    assert found.at == store["task"].id and found.ranked[:2] == ["task/long", "task/short"]
    assert found.best is not None and (found.best.strategy, found.best.score) == ("long", 9.0)
    by_name = {trial.strategy: trial for trial in found.trials}
    assert by_name["bad"].state == "failed" and by_name["bad"].exit == 3
    assert by_name["long"].step is not None and by_name["long"].elapsed is not None
    assert store["task/short"]["files/answer.txt"] == b"good"
    assert found.status() == exploration(store) == exploration(store, found.name) == found
    assert [one.name for one in store.compare("task").branches] == ["bad", "long", "main", "short"]
    kept = found.keep()
    assert (kept.kind, kept.conflicts) == ("fast-forward", []) and kept.id == store["task"].id
    assert store["task"]["files/answer.txt"] == b"very good"
    assert store["task"]["files/kept.txt"] == b"kept\n"
    assert not (tmp_path / "trees" / "short").exists()
    assert found.keep("short").kind == "merged"
    with pytest.raises(turntree.NotFound, match="none"):
        found.keep("none")
    with pytest.raises(turntree.InvalidInput):
        explore(store, {}, ["true"], at="task", folder=tmp_path / "none")
    with pytest.raises(turntree.NotFound, match="no program"):
        explore(store, {"x": "y"}, ["no-such-program"], at="task", folder=tmp_path / "none")


@has_program
def test_an_interrupted_exploration_goes_on(
    store: turntree.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import turntree.explore as module

    waits = tmp_path / "waits"
    monkeypatch.setenv("WAITS", str(waits))
    ask(store, "task", kept="kept\n")
    # As Ctrl-C does, while the command runs.
    seen: list[module.Exploration] = []
    communicate = module.subprocess.Popen.communicate

    def interrupted(process: Any, *args: Any, **named: Any) -> Any:
        if "{prompt}" not in process.args:
            return communicate(process, *args, **named)
        while not waits.exists():
            time.sleep(0.02)
        seen.append(module.exploration(store))
        raise KeyboardInterrupt

    monkeypatch.setattr(module.subprocess.Popen, "communicate", interrupted)
    agent = AGENT.replace("time.sleep(60)", "time.sleep(0 if os.environ.get('GO') else 60)")
    with pytest.raises(KeyboardInterrupt):
        module.explore(
            store,
            {"one": "wait for good"},
            [sys.executable, "-c", agent, "{prompt}"],
            at="task",
            folder=tmp_path / "trees",
            check=CHECK,
        )
    assert (seen[0].state, seen[0].trials[0].state) == ("running", "running")
    found = module.exploration(store)
    assert (found.state, found.best) == ("interrupted", None)
    monkeypatch.setenv("GO", "1")
    done = found.resume(timeout=50)
    assert done.state == "over" and done.best is not None and done.best.strategy == "one"


@has_program
def test_an_exploration_is_watched_from_another_thread(
    store: turntree.Store, tmp_path: Path
) -> None:
    from turntree.explore import Exploration, exploration, explore

    ask(store, "task", kept="kept\n")
    found: list[Exploration] = []
    command = [sys.executable, "-c", "import time; time.sleep(2)"]
    begun = threading.Thread(
        target=lambda: found.append(
            explore(store, {"one": "x"}, command, at="task", folder=tmp_path / "trees")
        )
    )
    begun.start()
    seen: set[str] = set()
    while begun.is_alive():
        try:
            seen.add(exploration(store).state)
        except turntree.NotFound:
            pass
        time.sleep(0.1)
    assert "running" in seen and found[0].state == "over"
