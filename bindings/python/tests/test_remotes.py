"""Remotes of every kind from Python: folders, encrypted, in object storage, and in a database."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from s3 import Storage
from test_whole_program import has_program, told

import turntree

pytestmark = has_program


@pytest.fixture(autouse=True)
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Makes the process one of a person, who has settings and keys of their own."""

    def is_now(person: str) -> None:
        for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "HOME"):
            monkeypatch.setenv(name, str(tmp_path / person))
        (tmp_path / person).mkdir(exist_ok=True)

    for name in [name for name in os.environ if name.startswith(("TURNTREE_", "AWS_", "PG"))]:
        monkeypatch.delenv(name)
    is_now("ann")
    yield is_now


def refuses(url: str, store: turntree.Store) -> str | None:
    """The reason why this build has no remotes at such a URL."""
    try:
        store.add_remote("tried", url)
    except turntree.Unsupported as reason:
        return str(reason)
    store.remove_remote("tried")
    return None


def goes_round(store: turntree.Store, url: str, tmp_path: Path) -> None:
    """Turns go to a remote and to another store, and back."""
    with store.begin("task", "first") as turn:
        turn.say("user", "Why does the parser fail?")
    store.fork("task/plan-b", at="task")
    store.add_remote("origin", url)
    assert store.remotes() == {"origin": url}
    assert {branch for one in store.push() for branch in one.branches} == {
        "task/main",
        "task/plan-b",
    }
    with turntree.Store.clone(url, tmp_path / "clone") as clone:
        assert clone["task/plan-b"] == store["task/plan-b"]
        with clone.begin("task", "second") as turn:
            turn.say("assistant", "It reads past the end.")
        clone.push("task")
        assert [(one.branch, one.kind) for one in store.pull()] == [("task/main", "fast-forward")]
        assert store["task"] == clone["task"]
    (checked,) = told(store, "remote", "check", "origin")
    assert checked["missing"] == checked["damaged"] == []


def test_a_remote_in_object_storage(
    store: turntree.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "of tests")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "of tests")
    with Storage() as storage:
        if reason := refuses(storage.url("tried"), store):
            pytest.skip(reason)
        goes_round(store, storage.url("team"), tmp_path)
        storage.shutdown()
        assert any(key.startswith("team/") for key in storage.objects)


def test_a_remote_in_a_database(
    store: turntree.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if not found:
        pytest.skip("PostgreSQL is not installed")
    place, programs = tmp_path / "server", found[-1]
    place.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    is_root = os.getuid() == 0
    if is_root:  # The server refuses to run as root.
        for parent in [place, *place.parents]:
            if parent.stat().st_uid == 0 and parent != Path("/"):
                parent.chmod(parent.stat().st_mode | 0o011)
        shutil.chown(place, "postgres")

    def run(program: str, *words: str) -> None:
        user = ["runuser", "-u", "postgres", "--"] if is_root else []
        subprocess.run([*user, programs / program, *words], cwd=place, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=120)  # fmt: skip

    data, url = str(place / "data"), f"postgres://ann@127.0.0.1:{port}/postgres"
    run("initdb", "--username=ann", "--auth=trust", "--no-sync", "-D", data)
    options = f"-p {port} -k {place} -h 127.0.0.1"
    run("pg_ctl", "-D", data, "-l", str(place / "log"), "-w", "-o", options, "start")
    try:
        if reason := refuses(f"{url}/tried", store):
            pytest.skip(reason)
        goes_round(store, f"{url}/team", tmp_path)
    finally:
        run("pg_ctl", "-D", data, "-m", "immediate", "-w", "stop")


def test_an_encrypted_remote_is_for_its_members(
    store: turntree.Store, tmp_path: Path, own: Callable[[str], None]
) -> None:
    place = tmp_path / "remote"
    own("bob")
    with turntree.Store(tmp_path / "of-bob") as other:
        with pytest.warns(UserWarning, match="secret key"):
            other.add_remote("own", tmp_path / "other", encrypt=True)
        (members,) = told(other, "remote", "members", "own")
    (bob,) = members["members"]
    own("ann")
    with pytest.warns(UserWarning, match="identity.txt"):
        store.add_remote("origin", place, encrypt=True, members=[bob])
    with store.begin("task", "first") as turn:
        turn.say("user", "the codeword is heliotrope")
    store.push()
    assert all(
        b"heliotrope" not in file.read_bytes() for file in place.rglob("*") if file.is_file()
    )
    own("carol")
    with pytest.raises(turntree.Encrypted):
        turntree.Store.clone(place, tmp_path / "of-carol")
    assert not (tmp_path / "of-carol").exists()
    with pytest.raises(turntree.Encrypted):
        store.push("task")
    own("bob")
    with turntree.Store.clone(place, tmp_path / "clone") as clone:
        assert clone["task"] == store["task"]
        with clone.begin("task", "second") as turn:
            turn.say("assistant", "understood")
        clone.push()
    own("ann")
    assert [one.kind for one in store.pull()] == ["fast-forward"]
    with turntree.Store(tmp_path / "third") as third:
        third.add_remote("origin", place)
        assert [one.session for one in third.fetch()] == ["task"]
        with pytest.raises(turntree.InvalidInput, match="encrypt=True"):
            third.add_remote("b", tmp_path / "b", members=[bob])
        with pytest.raises(turntree.InvalidInput):
            third.add_remote("c", tmp_path / "c", encrypt=True, members=["no key"])
        assert not (tmp_path / "c").exists() or third.remotes().keys() == {"origin"}


def test_a_remote_is_removed_from_the_store_alone(store: turntree.Store, tmp_path: Path) -> None:
    place = tmp_path / "remote"
    store.add_remote("origin", place)
    with store.begin("task") as turn:
        turn.say("user", "hi")
    store.push()
    store.remove_remote("origin")
    assert store.remotes() == {} and any(place.iterdir())
    with pytest.raises(turntree.NotFound):
        store.remove_remote("origin")
    for url in ("ftp://host/x", "what://ever"):
        with pytest.raises(turntree.Unsupported, match="expected a folder"):
            store.add_remote("far", url)
