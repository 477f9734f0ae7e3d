"""Builds the wheel with maturin, as the environment wants it.

``TURNTREE_PROFILE`` is the profile of cargo, ``wheel`` by default. ``TURNTREE_PROGRAM=none`` leaves the
program ``turntree`` out, and the wheel is a quarter as large; with ``storage`` it has remotes in object
storage and databases. ``TURNTREE_LIBRARY`` names an extension module that is built already.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import maturin
import zopfli
from maturin import (  # noqa: F401 (the other functions of a backend)
    build_sdist,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

HERE = Path(__file__).parent


def build_wheel(folder: str, settings: Any = None, metadata: str | None = None) -> str:
    refuse_what_cannot_load_it()
    if library := os.environ.get("TURNTREE_LIBRARY"):
        return packed(Path(folder), Path(library))
    wheel = maturin.build_wheel(folder, with_arguments(settings), metadata)
    if profile() == "wheel":
        pack_tightly(Path(folder, wheel))
    return wheel


def build_editable(folder: str, settings: Any = None, metadata: str | None = None) -> str:
    refuse_what_cannot_load_it()
    return maturin.build_editable(folder, with_arguments(settings), metadata)


def refuse_what_cannot_load_it() -> None:
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        raise SystemExit(
            "turntree: expected a Python with the interpreter's lock: the module is built for the stable"
            f" ABI, which {sys.executable}, a free-threaded {sysconfig.get_python_version()}, does not load"
        )


def with_arguments(settings: Any) -> dict[str, Any]:
    arguments = f"--locked --profile {profile()}"
    program = os.environ.get("TURNTREE_PROGRAM")
    if program not in (None, "none", "storage"):
        raise SystemExit(f"TURNTREE_PROGRAM is {program}: expected none or storage")
    arguments += {"none": " --no-default-features", "storage": " --features storage"}.get(program or "", "")
    return {**(settings or {}), "build-args": arguments}


def profile() -> str:
    return os.environ.get("TURNTREE_PROFILE", "wheel")


def pack_tightly(wheel: Path) -> None:
    """Packs the same files anew, in the fewest bytes of deflate that can be found: 3 % below its level 9.

    A wheel is packed once. More than one iteration finds hardly less.
    """
    tight = wheel.with_suffix(".tight")
    with zipfile.ZipFile(wheel) as files, zopfli.ZipFile(tight, "w", iterations=1) as anew:
        for info in files.infolist():
            anew.writestr(info, files.read(info))
    os.replace(tight, wheel)


def packed(folder: Path, library: Path) -> str:
    """The wheel that maturin would make, around a library that is there: it always builds one itself."""
    with tempfile.TemporaryDirectory() as place:
        described = maturin.prepare_metadata_for_build_wheel(place)
        package = Path(place, "turntree")
        ignored = shutil.ignore_patterns("__pycache__", "*.so")
        shutil.copytree(HERE / "python" / "turntree", package, ignore=ignored)
        shutil.copy(library, package / "_turntree.abi3.so")
        shutil.copytree(HERE / "data", Path(place, described).with_suffix(".data"))
        pack = [sys.executable, "-m", "wheel", "pack", "--dest-dir", str(folder), place]
        subprocess.run(pack, check=True, stdout=sys.stderr)
    return max(folder.glob("turntree-*.whl"), key=os.path.getmtime).name
