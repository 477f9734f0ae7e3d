"""Several processes on one store, one of them killed while it writes; and signals during long calls."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import turntree

PROGRAM = Path(sys.executable).with_name("turntree")

#: Seconds after which a process that hangs is given up.
PATIENCE = 120

#: Commits entries to a session of its own and to a shared one, and says which it was told are durable.
WORKER = """
import sys, turntree
store, name = turntree.Store(sys.argv[1], actor=sys.argv[2]), sys.argv[2]
for number in range(int(sys.argv[3])):
    with store.begin(name, f"turn {number}") as change:
        change.push_message("user", b'{"role":"user","content":"%d"}' % number)
        change.put("kept", str(number), b"x" * 2000)
        change.on("shared").put("kept", f"{name} {number}", b"")
    print(number, flush=True)
"""


def worker(path: Path, name: str, turns: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WORKER, str(path), name, str(turns)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def program(path: Path, *arguments: str) -> str:
    command = [PROGRAM, "--store", path, *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert ran.returncode == 0, f"{arguments}: {ran.stderr}"
    return ran.stdout


@pytest.mark.skipif(not PROGRAM.exists(), reason="the package is not from a wheel")
def test_nothing_acknowledged_is_lost_when_a_writer_is_killed(path: Path) -> None:
    turntree.Store(path).close()
    killed, other = worker(path, "killed", 100_000), worker(path, "other", 40)
    assert killed.stdout and other.stdout
    told = 0
    for number in range(12):
        program(path, "snapshot", "--session", "program", "-m", f"turn {number}", "--append-message", "user=hi")
        told = int(killed.stdout.readline())
    killed.send_signal(signal.SIGKILL)
    # What was written before the signal came counts too, also what this side has read ahead, which
    # `communicate` would pass over.
    rest = killed.stdout.read()
    killed.communicate(timeout=PATIENCE)
    told = max([told, *(int(line) for line in rest.splitlines(keepends=True) if line.endswith("\n"))])
    assert killed.returncode == -signal.SIGKILL
    written, errors = other.communicate(timeout=PATIENCE)
    assert other.returncode == 0 and errors == "", errors
    assert written.split() == [str(number) for number in range(40)]
    program(path, "snapshot", "--session", "program", "-m", "after", "--append-message", "user=hi")

    with turntree.Store(path, create=False) as store:
        counts = {"other": 40, "program": 13}
        for name in store.sessions():
            if name != "shared":
                at_least = counts.get(name, told + 1)
                # One that was durable, but not told of yet, is there as well.
                assert len(store[name].messages()) - at_least in (0, name == "killed")
        shared = set(store["shared"].keys("kept"))
        assert shared >= {f"killed {number}" for number in range(told + 1)}
        assert shared >= {f"other {number}" for number in range(40)}
    program(path, "fsck")


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Interrupts as Python handles them, even if the parent process ignores them."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@contextmanager
def interrupted(held: Path) -> Iterator[None]:
    """Holds the lock of a store, and interrupts this process while it waits for that."""
    with open(held / "superblock", "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        try:
            with pytest.raises(KeyboardInterrupt):
                yield
        finally:
            timer.join()


def forever(call: Callable[[], object]) -> None:
    while True:
        call()


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_ends_the_wait_for_a_lock(path: Path, store: turntree.Store) -> None:
    with store.begin("task") as change:
        change.put("kept", "a", b"1")
    change = store.begin("task")
    change.put("kept", "b", b"2")
    with interrupted(path):
        change.commit()
    assert store["task"].keys("kept") == ["a"], "nothing has changed then"
    with interrupted(path):
        forever(store.collect)
    with interrupted(path):
        store.undo()
    with store.begin("task") as change:
        change.put("kept", "c", b"3")
    assert store["task"].keys("kept") == ["a", "c"]


def test_what_has_many_pages_is_read_whole(store: turntree.Store) -> None:
    count = 3 * 4096
    with store.begin("task") as change:
        for number in range(count):
            change.put("kept", f"{number:05}", b"%d" % number)
            change.push("log", b"%d" % number)
            change.push_message("user", b"%d" % number)
    snapshot = store["task"]
    keys, records = [f"{n:05}" for n in range(count)], [b"%d" % n for n in range(count)]
    assert snapshot.keys("kept") == keys
    assert snapshot.keys("kept", reverse=True) == keys[::-1]
    assert snapshot.keys("kept", after="00001", limit=5000) == keys[2:5002]
    assert snapshot.scan("kept") == list(zip(keys, records))
    assert snapshot.scan("kept", "0", reverse=True, limit=9000) == list(zip(keys, records))[9999:999:-1]
    assert snapshot.list("log") == records and snapshot.list("log", 4000, 9000) == records[4000:9000]
    assert snapshot.list("log", count - 1) == records[-1:] and snapshot.list("log", 5, 5) == []
    assert [message.record for message in snapshot.messages()] == records


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_ends_long_reading(store: turntree.Store) -> None:
    with store.begin("task") as change:
        for number in range(9000):
            change.put("kept", f"{number:05}", b"")
    snapshot = store["task"]
    ended = threading.Event()

    def interrupt() -> None:
        # Again, since an interrupt that comes while Python finalizes an object is swallowed there.
        while not ended.wait(1):
            os.kill(os.getpid(), signal.SIGINT)

    interrupts = threading.Thread(target=interrupt)
    interrupts.start()
    with pytest.raises(KeyboardInterrupt):
        try:
            forever(lambda: snapshot.scan("kept"))
        finally:
            ended.set()
    interrupts.join()
