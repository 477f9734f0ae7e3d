"""The primitives: what adapters and users of the package rely on."""

from __future__ import annotations

import ast
import inspect
import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path

import pytest

import turntree


def put(store: turntree.Store, key: str, content: bytes, branch: str = "task") -> str:
    with store.begin(branch, f"put {key}") as change:
        change.put("kept", key, content)
    tip = store.tip(branch)
    assert tip
    return tip


def test_a_store_is_a_context_manager_and_closed_ones_say_so(path: Path) -> None:
    with turntree.Store(path) as store:
        put(store, "a", b"1")
        snapshot = store["task"]
        change = store.begin("task")
        log = store.log("task")
        assert Path(store.path) == path and not store.closed
    assert store.closed
    calls: list[Callable[[], object]] = [
        store.sessions, store.undo, lambda: store.tip("task"), lambda: store.begin("x"), change.commit,
        lambda: next(log), store.collect,
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(turntree.InvalidInput, match="closed"):
            call()
    assert snapshot.get("kept", "a") == b"1", "what was read holds what it needs"
    store.close()


def test_paths_may_be_text_or_paths_and_relative_ones_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with turntree.Store("here") as store:
        monkeypatch.chdir("/")
        put(store, "a", b"1")
    with turntree.Store(os.fspath(tmp_path / "here"), create=False) as store:
        assert store.sessions() == ["task"]
    with pytest.raises(turntree.NotFound):
        turntree.Store(tmp_path / "none", create=False)


def test_a_store_is_never_made_among_other_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "README.md").write_text("a project")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(turntree.InvalidInput, match=r"\.turntree"):
        turntree.Store(".")
    with pytest.raises(turntree.StoreIOError):
        turntree.Store("README.md")
    assert os.listdir() == ["README.md"]
    with turntree.Store(".turntree") as store:
        put(store, "a", b"1")


def test_a_block_commits_when_it_ends_well_and_only_then(store: turntree.Store) -> None:
    with pytest.raises(ZeroDivisionError):
        with store.begin("task") as change:
            change.put("kept", "a", b"1")
            1 / 0
    assert store.tip("task") is None
    with store.begin("task") as change:
        change.put("kept", "a", b"1")
        first = change.commit("by hand")
    assert store.tip("task") == first
    with pytest.raises(turntree.InvalidInput, match="finished"):
        change.put("kept", "b", b"2")
    with pytest.raises(turntree.InvalidInput, match="finished"):
        change.commit()
    assert store["task"].title == "by hand"
    assert store.begin("task").commit() == first, "nothing was changed"
    assert store.begin("none").commit() is None and store.sessions() == ["task"]


def test_entries_records_and_messages(store: turntree.Store) -> None:
    with store.begin("task", "first") as change:
        for number in range(200):
            change.put("kept", f"k/{number:03}", b"%d" % number)
            change.push("log", b"%d" % number)
        change.put("kept", "other", b"\0\xff")
        change.push_message("user", b'{"role":"user","content":"hi"}')
        change.set_blob("note", b"a blob")
        change.note("model", "none")
    found = store["task"]
    assert found.sections() == {
        "agents/main/messages": "list", "kept": "map", "log": "list", "note": "blob",
    }  # fmt: skip
    assert found.get("kept", "other") == b"\0\xff" and found.get("kept", "none") is None
    assert found.get("none", "none") is None and found.count("log") == 200
    assert found["note"] == b"a blob"
    assert found.scan("kept", "k/", after="k/197") == [("k/198", b"198"), ("k/199", b"199")]
    assert found.keys("kept", "k/", reverse=True, limit=2) == ["k/199", "k/198"]
    assert found.keys("kept", "k/", after="k/001", reverse=True) == ["k/000"]
    assert found.list("log", 198) == [b"198", b"199"] and found.list("log", 5, 6) == [b"5"]
    assert [(one.role, one.record) for one in found.messages()] == [
        ("user", b'{"role":"user","content":"hi"}')
    ]
    assert found.agents() == ["main"] and found.metadata == {"model": "none"}
    assert (found.turn, found.title, found.session, found.parents) == (1, "first", "task", [])
    assert found.author == "python" and found.time > datetime(2020, 1, 1, tzinfo=timezone.utc)


def test_history_forks_diffs_and_merges(store: turntree.Store) -> None:
    first = put(store, "a", b"1")
    second = put(store, "b", b"2")
    assert [one.id for one in store.log("task")] == [second, first]
    assert store.fork("task/other", at=first).id == first
    with pytest.raises(turntree.AlreadyExists, match="choose another name") as raised:
        store.fork("task/other", at=second)
    assert isinstance(raised.value, FileExistsError) and isinstance(raised.value, turntree.Conflict)
    assert raised.value.kind == "conflict"
    put(store, "c", b"3", "task/other")
    assert store.branches("task") == ["task/main", "task/other"]
    assert store.diff("task", "task/other") == [("kept/b", "removed"), ("kept/c", "added")]
    merged = store.merge("task", "task/other")
    assert (merged.kind, merged.conflicts) == ("merged", [])
    assert store["task"].keys("kept") == ["a", "b", "c"]
    assert store.undo() and store.tip("task") == second
    assert store.redo() and store.tip("task") == merged.id
    assert store.delete("task") and not store.delete("task") and store.sessions() == []


def test_long_histories_are_read_as_they_are_asked_for(store: turntree.Store) -> None:
    for number in range(150):
        put(store, str(number), b"")
    assert [one.turn for one in store.log("task")] == list(range(150, 0, -1))
    assert next(store.log("task")).turn == 150


def test_one_change_of_several_branches_is_one_operation(store: turntree.Store) -> None:
    tip = put(store, "a", b"1")
    with store.begin("one", "both", expect=None) as change:
        change.push("log", b"1")
        change.on("two", expect=None).go_on_from("task")
        change.on("task", expect=tip).delete()
    assert store.sessions() == ["one", "two"] and store.tip("two") == tip
    store.undo()
    assert store.sessions() == ["task"]
    with store.begin("task", "anew") as change:
        change.start_over()
        change.put("kept", "b", b"2")
    assert (store["task"].parents, store["task"].keys("kept")) == ([], ["b"])


def test_an_expected_tip_is_held_to(store: turntree.Store) -> None:
    tip = put(store, "a", b"1")
    put(store, "a", b"2")
    change = store.begin("task", expect=tip)
    change.put("kept", "a", b"3")
    with pytest.raises(turntree.Conflict) as raised:
        change.commit()
    assert raised.value.kind == "conflict" and isinstance(raised.value, turntree.Error)
    assert store["task"].get("kept", "a") == b"2"
    change = store.begin("task")
    change.put_new("kept", "a", b"4")
    assert change.commit() == store.tip("task") and store["task"].get("kept", "a") == b"2"


def test_wrong_arguments_are_exceptions_and_nothing_else(store: turntree.Store) -> None:
    put(store, "a", b"1")
    change, snapshot = store.begin("task"), store["task"]
    wrong_types: list[Callable[[], object]] = [
        lambda: turntree.Store(3),  # type: ignore[arg-type]
        lambda: turntree.Store(),  # type: ignore[call-arg]
        lambda: store.tip(None),  # type: ignore[arg-type]
        lambda: store.begin("task", expect=3),  # type: ignore[arg-type]
        lambda: change.put("s", "k", {"a": 1}),  # type: ignore[arg-type]
        lambda: change.put("s", "k", 3),  # type: ignore[arg-type]
        lambda: store.fork("other", at=3),  # type: ignore[arg-type]
        lambda: store.log("task", since=3),  # type: ignore[arg-type]
        lambda: store[None],  # type: ignore[index]
        lambda: change.put("s", 3, b""),  # type: ignore[arg-type]
        lambda: change.push("s", None),  # type: ignore[arg-type]
        lambda: snapshot.list("s", "x"),  # type: ignore[arg-type]
        lambda: snapshot.changes_since("task"),  # type: ignore[arg-type]
        lambda: store.retain(turns="x"),  # type: ignore[arg-type]
        lambda: turntree.Snapshot(),
    ]
    for call in wrong_types:
        with pytest.raises(TypeError):
            call()
    with pytest.raises(OverflowError):
        snapshot.list("kept", -1)
    invalid: list[Callable[[], object]] = [
        lambda: store.tip("a b"),
        lambda: store.tip(""),
        lambda: store.begin("a..b"),
        lambda: store.begin("task", expect="no id"),
        lambda: change.put("", "k", b""),
        lambda: change.put("s", "", b""),
        lambda: change.put("s/t", "k", b""),
        lambda: change.put("s", "k" * 5000, b""),
        lambda: change.put("files", "../up", b""),
        lambda: change.push("agents/main/messages", b""),
        lambda: change.push_message("user", b"", agent="a/b"),
        lambda: snapshot.list("kept"),
        lambda: store.retain(seconds=-1),
        lambda: store.retain(seconds=float("nan")),
        lambda: store["task:kept"],
        lambda: change.push_message("usr", b"{}"),  # type: ignore[arg-type]
        lambda: change.message({"content": "hi"}),
        lambda: change.say("nobody", "hi"),  # type: ignore[arg-type]
        lambda: store.log("task", since=datetime(2020, 1, 1)),
    ]
    for call in invalid:
        with pytest.raises(ValueError) as raised:
            call()
        assert isinstance(raised.value, (turntree.Error, ValueError)), raised.value
    for missing in ("none", "task/none", "0" * 64, "task~9"):
        with pytest.raises(LookupError):
            store[missing]
    with pytest.raises((ValueError, UnicodeEncodeError)):
        store.tip("\ud800")


def test_damage_is_an_error_of_its_kind(path: Path) -> None:
    with turntree.Store(path) as store:
        put(store, "a", b"1")
    (path / "superblock").write_bytes(b"nothing of ours")
    with pytest.raises(turntree.Error):
        turntree.Store(path)
    file = path.parent / "file"
    file.write_text("no folder")
    with pytest.raises(turntree.Error):
        turntree.Store(file / "store")


def test_retention_drops_old_turns_and_says_so(store: turntree.Store) -> None:
    first = put(store, "first", b"x" * 5000)
    for number in range(30):
        put(store, str(number), b"%d" % number)
    store.retain("task", turns=5)
    store.collect()
    turns = [one.turn for one in store.log("task")]
    assert turns[0] == 31 and len(turns) <= 31
    store.retain("task")
    assert store["task"].get("kept", "first") == b"x" * 5000
    assert store.collect(repack=True).written_bytes >= 0
    try:
        assert store[first].turn == 1
    except turntree.Expired as error:
        assert error.kind == "expired"


def test_threads_write_at_once_and_nothing_is_lost(store: turntree.Store) -> None:
    def write(writer: int) -> None:
        for number in range(25):
            with store.begin("task") as change:
                change.push("log", b"%d %d" % (writer, number))

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    log = store["task"].list("log")
    for writer in range(4):
        own = [record for record in log if record.startswith(b"%d " % writer)]
        assert own == [b"%d %d" % (writer, number) for number in range(25)]


WRITER = """
    import sys, turntree
    store = turntree.Store(sys.argv[1])
    print("ready", flush=True)
    for number in range(int(sys.argv[3])):
        with store.begin("task") as change:
            change.push("log", f"{sys.argv[2]} {number}".encode())
        print(number, flush=True)
"""


def test_processes_that_are_killed_lose_nothing_they_were_told_is_kept(path: Path) -> None:
    turntree.Store(path).close()
    command = [sys.executable, "-c", textwrap.dedent(WRITER), str(path)]
    writers = [
        subprocess.Popen([*command, name, "100000"], stdout=subprocess.PIPE, text=True)
        for name in ("a", "b")
    ]
    acknowledged = {}
    for name, writer in zip("ab", writers):
        assert writer.stdout
        for line in writer.stdout:
            if line.strip() == "20":
                writer.kill()
        acknowledged[name] = 20
        writer.wait()
    subprocess.run([*command, "c", "3"], check=True, stdout=subprocess.DEVNULL)
    with turntree.Store(path) as store:
        log = store["task"].list("log")
    for name, count in acknowledged.items():
        own = [record for record in log if record.startswith(name.encode())]
        assert own == [f"{name} {number}".encode() for number in range(len(own))]
        assert len(own) > count
    assert len([record for record in log if record.startswith(b"c")]) == 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_goes_on_with_a_handle_of_its_own(store: turntree.Store) -> None:
    with store.begin("task") as change:
        for number in range(500):
            change.push("log", b"%d" % number)
    assert len(store["task"].list("log")) == 500
    child = os.fork()
    if child == 0:
        code = 1
        try:
            # Enough to be read and packed by several threads, which the parent kept.
            with store.begin("task") as change:
                for number in range(9000):
                    change.push("log", b"child %d" % number)
            read = len(store["task"].list("log"))
            store.close()
            code = 0 if read == 9500 else 2
        finally:
            os._exit(code)
    put(store, "parent", b"1")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    put(store, "after", b"1")
    assert len(store["task"].list("log")) == 9500
    assert store["task"].keys("kept") == ["after", "parent"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_process_that_was_forked_from_a_forked_one_works(path: Path) -> None:
    store = turntree.Store(path)

    def fork_and_write(name: str, then: Callable[[], int]) -> int:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                signal.alarm(100)  # Waits for no threads of its parent for ever.
                with store.begin("task") as change:
                    for number in range(9000):
                        change.push("log", b"%s %d" % (name.encode(), number))
                code = then()
            finally:
                os._exit(code)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    put(store, "parent", b"1")
    assert fork_and_write("child", lambda: fork_and_write("grandchild", lambda: 0)) == 0
    assert store["task"].count("log") == 18_000
    store.close()


def test_the_stubs_say_what_help_says() -> None:
    stub = Path(turntree.__file__).with_name("_turntree.pyi")
    tree = ast.parse(stub.read_text())
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    assert len(classes) == 20
    for node in classes:
        cls = getattr(turntree, node.name)
        assert inspect.cleandoc(cls.__doc__) == ast.get_docstring(node), node.name
        for member in node.body:
            if not isinstance(member, ast.FunctionDef) or member.name.startswith("__"):
                continue  # Python has its own words for its protocols.
            if not hasattr(turntree.Store, "search") and not hasattr(cls, member.name):
                continue  # A method of the program, which this build lacks.
            if doc := ast.get_docstring(member):
                found = inspect.cleandoc(getattr(cls, member.name).__doc__)
                assert found == doc, f"{node.name}.{member.name}"
