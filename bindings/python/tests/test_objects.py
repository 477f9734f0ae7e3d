"""Objects in and out: contents, revisions, results and names as Python has them."""

from __future__ import annotations

import array
import gc
import random
import warnings
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

import turntree


def test_content_is_any_buffer_or_text(store: turntree.Store) -> None:
    contents: list[tuple[Any, bytes]] = [
        (b"\0\xff", b"\0\xff"),
        (bytearray(b"array"), b"array"),
        (memoryview(b"0123456789")[1:9:2], b"1357"),
        (array.array("H", [258]), array.array("H", [258]).tobytes()),
        ("grün \U0001f600", "grün \U0001f600".encode()),
        ("", b""),
    ]
    for number, (content, _) in enumerate(contents):
        with store.begin("task", str(number)) as turn:
            turn.put("kept", str(number), content)
            turn.put_new("kept", f"new {number}", content)
            turn.push("log", content)
            turn.put_file(f"{number}.txt", content)
            turn.push_message("user", content)
            turn[f"kept/item {number}"] = content
            turn.set_blob("blob", content)
        assert store["task"]["blob"] == contents[number][1]
    found = store["task"]
    for number, (_, stored) in enumerate(contents):
        for name in (str(number), f"new {number}", f"item {number}"):
            assert found.get("kept", name) == found[f"kept/{name}"] == stored
        assert found[f"files/{number}.txt"] == stored
    assert found.list("log") == [stored for _, stored in contents]
    assert [message.record for message in found.messages()] == found.list("log")


def test_messages_are_objects_in_both_directions(store: turntree.Store) -> None:
    said: list[dict[str, Any]] = [
        {"role": "user", "content": "Wo? \u2028 \U0001f600"},
        {"role": "developer", "content": "be brief"},
        {"role": "tool", "tool_call_id": "1", "content": [{"type": "text", "text": "there"}]},
    ]
    with store.begin("task") as turn:
        for message in said:
            turn.message(message)
        turn.say("assistant", "There.")
        turn.message(["of", "another", "kind"], role="other")
        turn.message({"role": "narrator"}, role="other", agent="second")
    found = store["task"].messages()
    assert [message.json() for message in found[:3]] == said
    assert found[3].json() == {"role": "assistant", "content": "There."}
    assert [message.role for message in found] == ["user", "system", "tool", "assistant", "other"]
    assert found[4].json() == ["of", "another", "kind"]
    assert store["task"].messages("second")[0].json() == {"role": "narrator"}
    with store.begin("task") as turn:
        turn.push_message("user", "no JSON")
    last = store["task"].messages()[-1]
    assert last.text == "no JSON"
    with pytest.raises(ValueError):
        last.json()
    with pytest.raises(TypeError):
        store.begin("task").message({"role": "user", "content": object()})


def test_revisions_are_text_or_snapshots(store: turntree.Store) -> None:
    for number in range(3):
        with store.begin("task", f"turn {number}") as turn:
            turn["kept/number"] = str(number)
    first, newest = store["task~2"], store["task"]
    assert store[first] == first and store.get(first.id) == first and first in store
    assert store.get("none") is None and "none" not in store and "task~9" not in store
    with pytest.raises(turntree.NotFound):
        store["none"]
    assert store.diff(first, newest) == store.diff("task~2", "task") == [("kept/number", "changed")]
    assert store.fork("task/other", at=first) == first == store["task/other"]
    with store.begin("task/other", expect=first) as turn:
        turn.go_on_from(newest)
    assert store["task/other"] == newest
    assert [one.turn for one in store.log(first)] == [1]
    assert list(store) == store.sessions() == ["task"]
    stale = store.begin("task", expect=first)
    stale["kept/number"] = "9"
    with pytest.raises(turntree.Conflict, match="expected"):
        stale.commit()
    with turntree.Store(Path(store.path).with_name("elsewhere")) as other:
        with pytest.raises(turntree.NotFound):
            other[first]


def test_a_branch_is_read_by_its_name_alone(store: turntree.Store) -> None:
    """Names of frameworks are of users: a tag of that name must not hide the session."""
    for number in range(2):
        with store.begin("task", str(number)) as turn:
            turn["kept/number"] = str(number)
    store.tag("task", at="task~1")
    at_tag, newest = store["task"], store.newest("task")
    assert at_tag.turn == 1 and newest and newest.turn == 2 and store.newest("none") is None
    assert store.tip("task") == newest.id
    with pytest.raises(turntree.InvalidInput):
        store.newest("task~1")


def test_results_are_named(store: turntree.Store) -> None:
    before = datetime.now(timezone.utc) - timedelta(seconds=1)
    with store.begin("task", "first") as turn:
        turn["kept/a"] = "1"
    with store.begin("task", "second") as turn:
        turn["kept/b"] = "2"
        turn["kept/a"] = "2"
    changes = store.diff("task~1", "task")
    assert [(change.path, change.kind) for change in changes] == changes
    assert all(isinstance(change, turntree.Change) for change in changes)
    assert changes == store["task"].changes_since(store["task~1"])
    made = store["task"].time
    assert made.tzinfo is timezone.utc and before < made < before + timedelta(minutes=10)
    assert store.collect()._fields == (
        "expired_turns", "freed_objects", "freed_bytes", "written_bytes",
    )  # fmt: skip
    assert isinstance(store.path, Path)


def test_a_snapshot_is_a_collection_of_paths(store: turntree.Store) -> None:
    with store.begin("task") as turn:
        for number in range(5000):
            turn.put("kept", f"{number:04}/x", str(number))
        turn.set_blob("note", "a blob")
        turn.push("log", "record")
    found = store["task"]
    assert list(found) == [f"kept/{number:04}/x" for number in range(5000)] + ["note"]
    assert all(path in found for path in ("kept/0001/x", "note", "log/0"))
    assert not any(path in found for path in ("kept", "kept/0001", "none", "none/x", "", "log/1"))
    assert found["kept/0007/x"] == b"7" and found["log/0"] == b"record"
    with pytest.raises(LookupError):
        found["kept/none"]
    with pytest.raises(ValueError):
        found["kept"]


def test_a_log_has_a_limit_a_time_and_a_path(store: turntree.Store) -> None:
    for number in range(200):
        with store.begin("task", str(number)) as turn:
            turn["kept/all"] = str(number)
            if number % 50 == 0:
                turn["kept/some/x"] = str(number)
    newest = store["task"]
    assert [one.turn for one in store.log("task", limit=3)] == [200, 199, 198]
    assert [one.turn for one in store.log("task", limit=0)] == []
    assert [one.turn for one in store.log("task", path="kept/some")] == [151, 101, 51, 1]
    assert [one.turn for one in store.log("task", path="kept/some", limit=2)] == [151, 101]
    assert [one.turn for one in store.log("task", path="none")] == []
    since = store["task^{turn:100}"].time
    later = [one.turn for one in store.log("task", since=since)]
    assert later == [one.turn for one in store.log("task") if one.time > since]
    assert list(store.log("task", since=newest.time)) == []


def test_a_change_is_read_as_it_will_be_committed(store: turntree.Store) -> None:
    """Random edits and reads beside a model, and the snapshot of the commit at the end."""
    random_numbers = random.Random(1)
    entries: dict[str, bytes] = {}
    records: list[bytes] = []
    for _ in range(30):
        turn = store.begin("task", "some")
        for step in range(random_numbers.randrange(1, 30)):
            key, content = f"k{random_numbers.randrange(20):02}", b"%d" % step
            match random_numbers.randrange(7):
                case 0:
                    turn.put("kept", key, content)
                    entries[key] = content
                case 1:
                    turn.put_new("kept", key, content)
                    entries.setdefault(key, content)
                case 2:
                    turn.remove("kept", key)
                    entries.pop(key, None)
                case 3:
                    turn.push("log", content)
                    records.append(content)
                case 4:
                    count = random_numbers.randrange(40)
                    turn.cut("log", count)
                    del records[count:]
                case 5 if random_numbers.randrange(20) == 0:
                    turn.drop_section("kept")
                    entries.clear()
                case _:
                    assert turn.get("kept", key) == entries.get(key)
                    assert (f"kept/{key}" in turn) == (key in entries)
                    assert turn.count("kept") == len(entries)
                    assert turn.scan("kept") == sorted(entries.items())
                    limited = turn.keys("kept", "k1", reverse=True, limit=3)
                    ordered = sorted((k for k in entries if k.startswith("k1")), reverse=True)
                    assert limited == ordered[:3]
                    assert turn.list("log") == records and turn.count("log") == len(records)
                    if records:
                        assert turn[f"log/{len(records) - 1}"] == records[-1]
        turn.commit()
        found = store.get("task")
        assert found is None or found.scan("kept") == sorted(entries.items())
        assert found is None or found.list("log") == records


def test_a_change_that_was_read_is_committed_on_what_it_read(store: turntree.Store) -> None:
    def count(branch: str = "task") -> None:
        with store.begin(branch) as turn:
            turn["kept/count"] = str(int(turn.get("kept", "count") or 0) + 1)

    count()
    turn = store.begin("task")
    assert turn["kept/count"] == b"1"
    count()
    turn["kept/count"] = "1000"
    with pytest.raises(turntree.Conflict):
        turn.commit()
    assert store["task"]["kept/count"] == b"2"
    turn = store.begin("task")
    turn["kept/other"] = "not read before"
    count()
    assert turn.get("kept", "count") == b"3", "read on top of the newest snapshot"
    turn.commit()
    assert store["task"]["kept/other"] == b"not read before"
    # What does not depend on the branch.
    turn = store.begin("task")
    turn.start_over()
    assert turn.get("kept", "count") is None and turn.count("kept") == 0
    turn.go_on_from("task~1")
    assert turn["kept/count"] == b"3" and "kept/other" not in turn
    turn.on("none").put("kept", "a", "b")
    assert turn.on("none").keys("kept") == ["a"] and turn.on("nothing").keys("kept") == []
    turn.rollback()
    with pytest.raises(turntree.InvalidInput, match="finished"):
        turn.get("kept", "count")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_change_that_is_forgotten_warns(store: turntree.Store) -> None:
    def warned(use: Callable[[], object]) -> list[str]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            use()
            gc.collect()
        return [str(one.message) for one in caught if one.category is ResourceWarning]

    def forget() -> None:
        turn = store.begin("task")
        turn["kept/a"] = "1"

    def raise_in_it() -> None:
        with pytest.raises(KeyError):
            turn = store.begin("task")
            turn["kept/a"] = "1"
            raise KeyError

    def use_well() -> None:
        store.begin("task")
        with store.begin("task") as turn:
            turn["kept/a"] = "2"
        with pytest.raises(ZeroDivisionError):
            with store.begin("task") as turn:
                turn["kept/a"] = "3"
                1 / 0
        turn = store.begin("task")
        turn["kept/a"] = "4"
        turn.rollback()
        conflicting = store.begin("task", expect=None)
        conflicting["kept/a"] = "5"
        with pytest.raises(turntree.Conflict):
            conflicting.commit()

    assert [("task/main" in one, "with" in one) for one in warned(forget)] == [(True, True)]
    assert store.get("task") is None
    assert len(warned(raise_in_it)) == 1
    assert warned(use_well) == []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        store.begin("task").put("kept", "a", "an error here is reported, and nothing else fails")


def test_names_of_sessions_are_made_of_any_text(store: turntree.Store) -> None:
    for parts in [("me@x.org:1",), ("a/b", "c d"), ("..",), ("",), ("@",), ("-x", "\U0001f600")]:
        name = turntree.session_name(*parts)
        assert turntree.parts_of(name) == parts
        with store.begin(name) as turn:
            turn["kept/a"] = "1"
        assert name in list(store)
    with pytest.raises(turntree.InvalidInput, match="turntree.session_name"):
        store.begin("me@x.org:1")
    assert {"Change", "session_name", "Store"} <= set(dir(turntree))
    with pytest.raises(AttributeError):
        turntree.none  # type: ignore[attr-defined]
