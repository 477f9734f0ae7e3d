"""How the wheel is built, as far as it can be said without building one."""

from __future__ import annotations

import importlib.util
import sysconfig
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def backend() -> Any:
    pytest.importorskip("maturin")
    place = Path(__file__).parent.parent / "backend.py"
    spec = importlib.util.spec_from_file_location("backend", place)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("build", ["build_wheel", "build_editable"])
def test_a_python_that_would_not_load_it_is_refused(
    backend: Any, build: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    known = sysconfig.get_config_var
    free = {"Py_GIL_DISABLED": 1}
    monkeypatch.setattr(sysconfig, "get_config_var", lambda name: free.get(name, known(name)))
    with pytest.raises(SystemExit, match="free-threaded"):
        getattr(backend, build)(str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_the_environment_chooses_the_profile_and_the_program(
    backend: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("TURNTREE_PROFILE", "TURNTREE_PROGRAM"):
        monkeypatch.delenv(name, raising=False)
    packed = "--locked --compression-level 9 --profile"
    assert backend.with_arguments(None) == {"build-args": f"{packed} wheel"}
    monkeypatch.setenv("TURNTREE_PROFILE", "dev")
    monkeypatch.setenv("TURNTREE_PROGRAM", "none")
    expected = {"other": "1", "build-args": f"{packed} dev --no-default-features"}
    assert backend.with_arguments({"other": "1"}) == expected
    monkeypatch.setenv("TURNTREE_PROGRAM", "storage")
    assert backend.with_arguments(None)["build-args"].endswith(" --features storage")
    monkeypatch.setenv("TURNTREE_PROGRAM", "/usr/bin/turntree")
    with pytest.raises(SystemExit, match="expected none or storage"):
        backend.with_arguments(None)
