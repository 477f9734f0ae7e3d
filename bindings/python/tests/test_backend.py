"""How the wheel is built, as far as it can be said without building one."""

from __future__ import annotations

import importlib.util
import sysconfig
import zipfile
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def backend() -> Any:
    pytest.importorskip("maturin")
    pytest.importorskip("zopfli")
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
    assert backend.with_arguments(None) == {"build-args": "--locked --profile wheel"}
    monkeypatch.setenv("TURNTREE_PROFILE", "dev")
    monkeypatch.setenv("TURNTREE_PROGRAM", "none")
    expected = {"other": "1", "build-args": "--locked --profile dev --no-default-features"}
    assert backend.with_arguments({"other": "1"}) == expected
    monkeypatch.setenv("TURNTREE_PROGRAM", "storage")
    assert backend.with_arguments(None)["build-args"].endswith(" --features storage")
    monkeypatch.setenv("TURNTREE_PROGRAM", "/usr/bin/turntree")
    with pytest.raises(SystemExit, match="expected none or storage"):
        backend.with_arguments(None)


def test_a_wheel_that_is_packed_tightly_has_the_same_files_in_fewer_bytes(
    backend: Any, tmp_path: Path
) -> None:
    wheel = tmp_path / "some-1-py3-none-any.whl"
    script = zipfile.ZipInfo("some-1.data/scripts/some", (2026, 1, 2, 3, 4, 6))
    script.external_attr = 0o100755 << 16
    script.compress_type = zipfile.ZIP_DEFLATED
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as files:
        files.writestr("some/numbers.py", "".join(f"N{at} = {at * at}\n" for at in range(3000)))
        files.writestr(script, "#!python\n")
    known, size = told(wheel), wheel.stat().st_size
    backend.pack_tightly(wheel)
    assert told(wheel) == known
    assert wheel.stat().st_size < size
    assert [path.name for path in tmp_path.iterdir()] == [wheel.name]


def told(wheel: Path) -> list[Any]:
    with zipfile.ZipFile(wheel) as files:
        assert files.testzip() is None
        return [
            (info.filename, info.date_time, info.external_attr, files.read(info))
            for info in files.infolist()
        ]
