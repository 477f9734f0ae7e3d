"""The program that the wheel brings, on the store that Python writes to."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import turntree

PROGRAM = Path(sys.executable).with_name("turntree")
pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason="the package is not from a wheel")


def run(store: turntree.Store, *arguments: str) -> str:
    command = [PROGRAM, "--store", store.path, *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


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
    assert turntree.__version__ in subprocess.check_output([PROGRAM, "--version"], text=True)
