"""Shared by the tests: a store and a saver of LangGraph in a new folder, and the config of a thread."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import turntree


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def store(path: Path) -> Iterator[turntree.Store]:
    with turntree.Store(path) as opened:
        yield opened


@pytest.fixture
def saver(path: Path) -> Iterator[Any]:
    module = pytest.importorskip("turntree.langgraph")
    with module.TurntreeSaver(path) as opened:
        yield opened


def of(thread: str, **more: str) -> Any:
    """The config of a thread of LangGraph."""
    return {"configurable": {"thread_id": thread, **more}}
