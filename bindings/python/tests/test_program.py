"""The program that the wheel brings, on the store that Python writes to."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import turntree

PROGRAM = Path(sys.executable).with_name("turntree")
pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason="the package is not from a wheel")


def ran(*arguments: object, **more: Any) -> subprocess.CompletedProcess[str]:
    command = [PROGRAM, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, **more)


def run(store: turntree.Store, *arguments: str) -> str:
    done = ran("--store", store.path, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_both_work_on_one_store_at_once(store: turntree.Store) -> None:
    with store.begin("task", "the question") as turn:
        turn.push_message("user", b'{"role":"user","content":"Why?"}', format="openai-chat")
        turn.put("scratchpad", "plan", b"read the tests")
    assert "the question" in run(store, "log", "task")
    run(store, "fork", "--at", "task", "other")
    assert store.branches("task") == ["task/main", "task/other"]
    with store.begin("task/other", "another") as turn:
        turn.push_message(
            "assistant", b'{"role":"assistant","content":"So."}', format="openai-chat"
        )
    found = run(store, "diff", "task", "task/other")
    assert "assistant  So." in found
    assert turntree.__version__ in ran("--version").stdout


def test_it_ends_as_a_program_does(store: turntree.Store) -> None:
    nothing = ran("--store", store.path, "--json", "show", "none")
    assert (nothing.returncode, nothing.stdout) == (6, "")
    assert json.loads(nothing.stderr)["error"] == "not-found"
    wrong = ran("shwo")
    assert wrong.returncode == 2 and "show" in wrong.stderr
    assert ran("--help").stdout.startswith("Git for what an agent knows")
    given = ran("--store", store.path, "hash-object", "-", input="hello")
    assert given.returncode == 0 and len(given.stdout.strip()) == 64, given.stderr


def test_python_reads_nothing_else_before_it_starts(tmp_path: Path) -> None:
    """Hooks start it at every step of an agent."""
    empty = tmp_path / "empty.py"
    empty.touch()

    def modules(*command: object) -> set[str]:
        told = subprocess.run(
            [*map(str, command)], capture_output=True, text=True, timeout=120, check=True,
            env={**os.environ, "PYTHONPROFILEIMPORTTIME": "1"},
        )  # fmt: skip
        return {line.rpartition("|")[2].strip() for line in told.stderr.splitlines()}

    more = modules(PROGRAM, "--version") - modules(sys.executable, empty)
    assert more == {"turntree", "turntree._program", "turntree._turntree"}


def test_what_is_not_utf_8_comes_through(store: turntree.Store, tmp_path: Path) -> None:
    name = os.fsdecode(b"\xff.txt")
    (tmp_path / name).write_bytes(b"bytes")
    done = subprocess.run(
        [PROGRAM, "--store", store.path, "hash-object", tmp_path / name], capture_output=True, timeout=120
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_closed_streams_are_no_files_of_the_store(store: turntree.Store) -> None:
    for stream in range(3):
        command = f'"$0" --store "$1" snapshot -m "closed {stream}" {stream}>&-'
        done = subprocess.run(
            ["sh", "-c", command, PROGRAM, store.path], capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
    run(store, "fsck")


def test_it_reads_to_the_end_and_a_signal_ends_it(store: turntree.Store) -> None:
    server = subprocess.Popen(
        [PROGRAM, "--store", store.path, "serve", "--stdio"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert server.stdin and server.stdout
    server.stdin.write('{"jsonrpc":"2.0","id":1,"method":"status"}\n')
    server.stdin.flush()
    assert json.loads(server.stdout.readline())["id"] == 1
    server.stdin.close()
    assert server.wait(120) == 0
    with store.begin("task") as turn:
        turn.put("kept", "large", bytes(4 << 20))
    command = [PROGRAM, "--store", store.path, "cat", "task:kept/large"]
    # Whatever started the tests may ignore the signal, and programs inherit that.
    heeds = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    writing = subprocess.Popen(command, stdout=subprocess.PIPE, bufsize=0, preexec_fn=heeds)
    assert writing.stdout and writing.stdout.read(1) == b"\0"
    # The pipe is full, and has no reader: Python's own handler would wait for it.
    writing.send_signal(signal.SIGINT)
    assert writing.wait(120) == -signal.SIGINT


def test_clients_are_told_of_the_script(tmp_path: Path) -> None:
    """What settings name and what starts itself again is the script, and not the interpreter behind it."""
    home = {**os.environ, "HOME": str(tmp_path)}
    done = ran("hook", "install", "claude-code", env=home, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    settings = (tmp_path / ".claude" / "settings.local.json").read_text()
    assert f"{PROGRAM}' hook" in settings, settings
    asked = {**home, "COMPLETE": "bash"}
    assert str(PROGRAM) in ran(env=asked).stdout
