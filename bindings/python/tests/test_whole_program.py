"""What the program does is done from Python too, with the same answers as ``turntree --json``."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

import turntree
import turntree._turntree as native

#: The program inside of the extension module, as its script runs it.
PROGRAM = [sys.executable, "-c", "from turntree._program import main; main()"]

has_program = pytest.mark.skipif(
    not hasattr(native, "run_program"), reason="this build has no program"
)


def told(store: turntree.Store, *arguments: object, code: int = 0) -> list[Any]:
    command = [*PROGRAM, "--store", store.path, "--json", *map(str, arguments)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert ran.returncode == code, ran.stderr
    return [json.loads(line) for line in ran.stdout.splitlines()]


def fill(store: turntree.Store, turns: int = 8) -> list[turntree.Snapshot]:
    """Some turns with messages, entries and files."""
    for number in range(turns):
        with store.begin("task", f"turn {number}") as turn:
            turn.say("user", f"question {number} about the parser")
            turn.say("assistant", f"answer {number}: look at the lexer")
            turn["scratchpad/plan"] = "".join(f"step {line}\n" for line in range(number + 1))
            turn[f"files/src/{number % 3}.rs"] = f"fn f{number}() {{}}\n"
    return list(store.log("task"))[::-1]


@has_program
def test_blame_names_the_turns_that_wrote_each_part(store: turntree.Store) -> None:
    snapshots = fill(store)
    for path in ("scratchpad/plan", "files", "agents/main/messages", "files/src/1.rs"):
        records = told(store, "blame", f"task:{path}")
        found = store.blame("task", path)
        assert [(one.name, one.turn, one.id, one.session, one.before) for one in found] == [
            (one["name"], one["turn"], one["id"], one["session"], one["before"]) for one in records
        ]
        by_id = {one.id: one.time for one in snapshots}
        assert [one.time for one in found] == [by_id[one.id] for one in found]
    plan = store.blame(snapshots[4], "scratchpad/plan")
    assert [(one.text, one.turn) for one in plan] == [(f"step {n}", n + 1) for n in range(5)]
    messages = store.blame("task", "agents/main/messages")
    assert messages[0].text == "question 0 about the parser" and messages[0].author == "python"
    with pytest.raises(turntree.NotFound):
        store.blame("task", "scratchpad/none")


@has_program
def test_grep_finds_what_the_program_finds(store: turntree.Store) -> None:
    fill(store)
    store.fork("other", at="task~2")
    cases: list[tuple[dict[str, Any], list[str]]] = [
        ({"pattern": "question [35]"}, ["question [35]", "--all"]),
        ({"pattern": "STEP 2", "ignore_case": True}, ["-i", "STEP 2", "--all"]),
        ({"pattern": "f1()", "fixed": True}, ["-F", "f1()", "--all"]),
        ({"pattern": "step", "word": True, "session": "task"}, ["-w", "step", "--session", "task"]),
        ({"pattern": "parser", "paths": ["agents"]}, ["parser", "--path", "agents", "--all"]),
        ({"pattern": "nothing like it"}, ["nothing like it", "--all"]),
    ]
    for named, arguments in cases:
        found = store.grep(**named)
        records = told(store, "grep", *arguments, code=0 if found else 1)
        theirs = sorted((one["turn"], one["id"], one["path"]) for one in records)
        assert sorted((one.turn, one.id, one.path) for one in found) == theirs, named
    (found_one,) = store.grep("question 3", at="task~1")
    assert (found_one.role, found_one.path) == ("user", "agents/main/messages/6")
    assert [line.number for line in found_one.lines] == [1]
    with pytest.raises(turntree.NotFound):
        store.grep("x", session="none")
    with pytest.raises(turntree.InvalidInput):
        store.grep("(")


def test_bisect_finds_the_first_bad_snapshot(store: turntree.Store) -> None:
    snapshots = fill(store, 40)
    for first_bad in (1, 2, 17, 38, 39):
        asked: list[int] = []

        def is_bad(snapshot: turntree.Snapshot) -> bool:
            asked.append(snapshot.turn)
            return snapshot.turn > first_bad

        found = store.bisect(snapshots[0], "task", is_bad)
        assert found == snapshots[first_bad] and len(asked) <= 6
    with pytest.raises(turntree.InvalidInput, match="ancestor"):
        store.bisect("task", snapshots[0], is_bad)
    with pytest.raises(turntree.InvalidInput):
        store.bisect("task", "task", is_bad)
    with pytest.raises(ZeroDivisionError):
        store.bisect(snapshots[0], "task", lambda snapshot: 1 / 0)


def test_a_snapshot_is_restored_into_a_directory(store: turntree.Store, tmp_path: Path) -> None:
    fill(store)
    out = tmp_path / "out"
    planned = store.restore("task", out, only=["files"], dry_run=True)
    assert not out.exists() and {one.action for one in planned} == {"create"}
    done = store.restore("task", out, only=["files"])
    assert done == planned
    assert {one.path: (out / one.path).read_bytes() for one in done} == {
        Path(path): store["task"][path] for path in store["task"] if path.startswith("files/")
    }
    assert {one.action for one in store.restore("task", out, only=["files"])} == {"keep"}
    changed = out / done[0].path
    changed.write_text("mine")
    with pytest.raises(turntree.Error):
        store.restore("task", out, only=["files"])
    assert changed.read_text() == "mine"
    again = store.restore("task", out, only=["files"], overwrite=True)
    assert [one.path for one in again if one.action == "overwrite"] == [done[0].path]
    assert changed.read_text() != "mine"


def test_a_branch_is_rolled_back_with_its_workspace_and_forth_again(
    store: turntree.Store, tmp_path: Path
) -> None:
    snapshots = fill(store)
    work = tmp_path / "work"
    planned = store.rollback("task", turn=3, dry_run=True)
    assert planned.snapshot is None and "scratchpad" in planned.sections
    assert store["task"] == snapshots[-1]
    done = store.rollback("task", to=snapshots[2])
    assert done.snapshot == store["task"] and done.snapshot.turn == 9
    assert store.diff(snapshots[2], "task") == []
    store.undo()
    assert store["task"] == snapshots[-1]
    store.rollback("task", to="task~1", only=["scratchpad"])
    assert {change.path for change in store.diff(snapshots[-1], "task")} == {"scratchpad/plan"}
    work.mkdir()
    (work / "notes.txt").write_text("mine")
    with_files = store.rollback("task", to=snapshots[0], workspace=work)
    assert ("create" in {one.action for one in with_files.files}) and len(with_files.files) >= 1
    for named in ({}, {"to": "task", "turn": 1}):
        with pytest.raises(turntree.InvalidInput, match="target"):
            store.rollback("task", **named)  # type: ignore[arg-type]
    with pytest.raises(turntree.NotFound):
        store.rollback("none", turn=1)


@has_program
def test_tags_pins_titles_and_labels_are_those_of_the_program(store: turntree.Store) -> None:
    snapshots = fill(store)
    store.tag("v1", at=snapshots[2], message="the first")
    with pytest.raises(turntree.AlreadyExists, match="untag"):
        store.tag("v1", at="task")
    assert store["v1"] == snapshots[2]
    (tag,) = store.tags()
    (record,) = told(store, "tag")[0]["tags"]
    assert (tag.name, tag.id, tag.message, tag.actor) == (
        record["tag"], record["id"], record["message"], record["actor"],
    )  # fmt: skip
    assert tag.time and datetime.now(timezone.utc) - tag.time < timedelta(minutes=10)
    store.untag("v1")
    assert store.tags() == []
    with pytest.raises(turntree.NotFound):
        store.untag("v1")

    expires = datetime.now(timezone.utc).replace(microsecond=7) + timedelta(days=2)
    pin = store.pin(snapshots[1], name="keep", reason="shown", expires=expires)
    assert store.pins() == [pin] and pin.expires == expires and pin.id == snapshots[1].id
    (record,) = told(store, "pins")[0]["pins"]
    assert (record["pin"], record["id"], record["reason"]) == ("keep", pin.id, "shown")
    with pytest.raises(turntree.AlreadyExists):
        store.pin("task", name="keep")
    assert store.pin(snapshots[1], name="keep", reason="anew").expires is None
    with pytest.raises(turntree.InvalidInput, match="past"):
        store.pin("task", expires=datetime(2020, 1, 1, tzinfo=timezone.utc))
    store.unpin("keep")
    assert store.pins() == []

    assert store.labels("task") == (None, frozenset())
    assert store.label("task", "draft", "lexer").labels == {"draft", "lexer"}
    store.rename("task", "the parser, second try")
    assert store.label("task", "draft", remove=["lexer", "none"]).labels == {"draft"}
    (record,) = told(store, "session", "label", "task")
    assert (record["title"], record["labels"]) == ("the parser, second try", ["draft"])
    with pytest.raises(turntree.NotFound):
        store.label("none", "draft")


@has_program
def test_upkeep_says_what_the_program_says(store: turntree.Store) -> None:
    fill(store)
    assert store.retention() is None and store.retention("task") is None
    store.retain("task", turns=5, seconds=3600.5, budget_bytes=1 << 20)
    assert store.retention("task") == (5, 3600.5, 1 << 20) and store.retention() is None
    store.retain("task")
    assert store.retention("task") is None
    (record,) = told(store, "fsck")
    report = store.fsck()
    assert report.ok and record["ok"] and report.objects == record["objects"] > 0
    assert (report.snapshots, report.operations) == (record["commits"], record["operations"])
    assert store.fsck(quick=True).ok
    stats = store.stats()
    assert [one.session for one in stats.sessions] == ["task"]
    assert (stats.sessions[0].turns, stats.sessions[0].branches) == (8, 1)
    assert store.stats("task").sessions == stats.sessions
    assert stats.stored_bytes >= stats.sessions[0].stored_bytes > 0
    with pytest.raises(turntree.NotFound):
        store.stats("none")


def test_a_collection_does_what_its_plan_says(store: turntree.Store) -> None:
    snapshots = fill(store, 60)
    store.retain("task", turns=5)
    before = store.stats()
    planned = store.collect(dry_run=True)
    assert store.stats() == before and planned.expired_turns > 0
    done = store.collect()
    assert (done.expired_turns, done.freed_objects) == planned[:2]
    assert store.collect(dry_run=True).expired_turns == 0
    turns = [one.turn for one in store.log("task")]
    assert turns[:5] == [60, 59, 58, 57, 56]
    expired = [one for one in snapshots if one.turn not in turns]
    assert len(expired) == done.expired_turns
    for snapshot in expired:
        with pytest.raises(turntree.Expired):
            store[snapshot]


def test_damage_is_found(path: Path) -> None:
    with turntree.Store(path, maintain=False) as store:
        fill(store)
    for segment in (path / "journal").iterdir():
        content = bytearray(segment.read_bytes())
        content[3000] ^= 0xFF
        segment.write_bytes(content)
    try:
        with turntree.Store(path, maintain=False) as store:
            report = store.fsck()
            assert not report.ok and any(finding.is_damage for finding in report.findings)
            assert all(finding.place and finding.message for finding in report.findings)
    except turntree.Corrupt:
        pass  # Where the damage hits what opening needs.


CODEX = [
    {"timestamp": "2026-01-01T10:00:00.000Z", "type": "session_meta", "payload": {"id": "c1", "cwd": "/w"}},
    {"timestamp": "2026-01-01T10:00:01.000Z", "type": "response_item", "payload": {
        "type": "message", "role": "user", "content": [{"type": "input_text", "text": "Why slow?"}]}},
    {"timestamp": "2026-01-01T10:00:02.000Z", "type": "response_item", "payload": {
        "type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "A loop."}]}},
]  # fmt: skip


@has_program
def test_transcripts_come_in_and_go_out(store: turntree.Store, tmp_path: Path) -> None:
    file = tmp_path / "rollout.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in CODEX))
    done = store.import_file(file, session="imported")
    assert (done.branch, done.format) == ("imported/main", "codex")
    assert done.messages >= 2 and store["imported"].id == done.id
    assert [one.text for one in store["imported"].messages()][-1] == "A loop."
    assert store.export("imported", "source") == file.read_bytes()
    for format in ("jsonl", "markdown", "json", "openai", "anthropic", "atif"):
        command = [*PROGRAM, "--store", str(store.path), "export", "imported", "--format", format]
        theirs = subprocess.run(command, capture_output=True, timeout=120, check=True).stdout
        ours = store.export(store["imported"], format)  # type: ignore[arg-type]
        assert ours == theirs, format
    with file.open("a") as more:
        more.write(json.dumps(CODEX[1]) + "\n" + json.dumps(CODEX[2]) + "\n")
    again = store.import_file(file, session="imported")
    assert again.turns > 0 and store.import_file(file, session="imported").turns == 0
    with pytest.raises(turntree.InvalidInput, match="expected"):
        store.export("imported", "pdf")  # type: ignore[arg-type]
    with pytest.raises(turntree.InvalidInput, match="codex"):
        store.import_file(file, format="none")
    with pytest.raises(turntree.StoreIOError):
        store.import_file(tmp_path / "none")
    other = tmp_path / "other.txt"
    other.write_text("no transcript")
    with pytest.raises(turntree.InvalidInput, match="other.txt"):
        store.import_file(other)


SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


@has_program
def test_secrets_do_not_go_out_unnoticed(store: turntree.Store, tmp_path: Path) -> None:
    with store.begin("task") as turn:
        turn.say("user", f"my token is {SECRET}")
    with pytest.raises(turntree.InvalidInput, match="allow_secrets") as raised:
        store.export("task", "jsonl")
    assert SECRET not in str(raised.value)
    assert SECRET.encode() in store.export("task", "jsonl", allow_secrets=True)
    store.add_remote("origin", tmp_path / "remote")
    with pytest.raises(turntree.InvalidInput, match="allow_secrets"):
        store.push("task")
    assert [one.branches for one in store.push("task", allow_secrets=True)] == [["task/main"]]


@has_program
def test_words_are_found_in_every_turn(store: turntree.Store) -> None:
    fill(store)
    hits = store.search("question parser", all_words=True, limit=3)
    assert len(hits) == 3
    assert {hit.role for hit in hits} == {"user"} and "parser" in hits[0].text
    assert store.search("lexer", session="none") == []
    (one,) = store.search('"answer 5"', paths=["agents"])
    assert (one.session, one.turn, one.path) == ("task", 6, "agents/main/messages/11")
    with pytest.raises(ValueError):
        store.search("...")


@has_program
def test_sessions_are_pushed_fetched_and_pulled(store: turntree.Store, tmp_path: Path) -> None:
    fill(store)
    store.fork("task/plan-b", at="task~3")
    with pytest.raises(turntree.NotFound, match="add_remote"):
        store.push()
    store.add_remote("origin", tmp_path / "remote")
    with pytest.raises(turntree.AlreadyExists):
        store.add_remote("origin", tmp_path / "remote")
    assert store.remotes() == {"origin": str(tmp_path / "remote")}
    (pushed,) = store.push()
    assert (pushed.session, set(pushed.branches)) == ("task", {"task/main", "task/plan-b"})
    assert [one.branches for one in store.push()] == [[]]
    with turntree.Store(tmp_path / "clone") as clone:
        clone.add_remote("origin", tmp_path / "remote")
        (fetched,) = clone.fetch()
        assert fetched.session == "task" and fetched.bytes > 0 and clone.sessions() == []
        assert clone["origin/task"] == store["task"]
        assert {(one.branch, one.kind) for one in clone.pull()} == {
            ("task/main", "created"), ("task/plan-b", "created"),
        }  # fmt: skip
        assert clone["task/plan-b"] == store["task/plan-b"] and clone.pull() == []
        with clone.begin("task") as turn:
            turn["scratchpad/clone"] = "one"
        clone.push("task")
        with store.begin("task") as turn:
            turn["scratchpad/here"] = "two"
        with pytest.raises(turntree.Conflict):
            store.push("task")
        (merged,) = store.pull("task")
        assert (merged.branch, merged.kind, merged.conflicts) == ("task/main", "merged", [])
        assert store["task"]["scratchpad/clone"] == b"one"
        store.push()
        assert [one.kind for one in clone.pull()] == ["fast-forward"]
        assert clone["task"] == store["task"]
        with pytest.raises(turntree.NotFound, match="no session"):
            clone.fetch("none")
        with pytest.raises(turntree.NotFound, match="origin"):
            clone.fetch(remote="upstream")
    (record,) = told(store, "remote")[0]["remotes"]
    assert (record["name"], record["unpushed"]) == ("origin", 0)


@has_program
def test_a_remote_is_cloned_whole_or_not_at_all(store: turntree.Store, tmp_path: Path) -> None:
    snapshots = fill(store)
    store.fork("other", at=snapshots[3])
    with pytest.raises(turntree.Error):
        turntree.Store.clone(tmp_path / "none", tmp_path / "clone")
    assert not (tmp_path / "clone").exists()
    store.add_remote("origin", tmp_path / "remote")
    store.push()
    with turntree.Store.clone(tmp_path / "remote", tmp_path / "clone", actor="me") as clone:
        assert {name: clone[name] for name in clone} == {name: store[name] for name in store}
        assert clone.remotes() == store.remotes() and clone.fsck().ok
        with clone.begin("task") as turn:
            turn["kept/a"] = "1"
        assert clone["task"].author == "me"
        clone.push()
    assert [one.branch for one in store.pull()] == ["task/main"]
    with pytest.raises(turntree.InvalidInput, match="not empty"):
        turntree.Store.clone(tmp_path / "remote", tmp_path / "clone")


@has_program
def test_a_merge_is_that_of_the_program(store: turntree.Store, tmp_path: Path) -> None:
    """Calls of tools stay with their results, although the other side spoke between them."""

    def ask(branch: str, *messages: dict[str, Any]) -> None:
        with store.begin(branch) as turn:
            for message in messages:
                turn.message(message, format="openai-chat")

    def called(name: str) -> list[dict[str, Any]]:
        call = {"id": name, "type": "function", "function": {"name": "run", "arguments": "{}"}}
        return [
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": name, "content": name},
        ]

    ask("task", {"role": "user", "content": "go"}, *called("first"))
    store.fork("task/b", at="task")
    ask("task", called("ours")[0])
    ask("task/b", *called("theirs"))
    ask("task", called("ours")[1])
    shutil.copytree(store.path, tmp_path / "copy")
    assert store.merge("task", "task/b").kind == "merged"
    records = [message.json() for message in store["task"].messages()]
    assert len(records) == 7
    for at, record in enumerate(records):
        if calls := record.get("tool_calls"):
            assert records[at + 1]["tool_call_id"] == calls[0]["id"]
    with turntree.Store(tmp_path / "copy") as copy:
        told(copy, "merge", "task/b", "--into", "task")
        assert [message.json() for message in copy["task"].messages()] == records
