"""Builds the wheel: the program ``turntree`` first, which goes into it, then all that maturin makes.

``TURNTREE_PROFILE`` is the profile of both. ``TURNTREE_PROGRAM`` names a program that is built already;
``none`` leaves it out, and the wheel is a fifth as large.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import maturin
from maturin import (  # noqa: F401 (the other functions of a backend)
    build_sdist,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

HERE = Path(__file__).parent
PROFILE = os.environ.get("TURNTREE_PROFILE", "wheel")

#: What maturin puts beside the package: programs, in a folder of that name.
SCRIPTS = HERE / "turntree.data" / "scripts"

# Maturin wants it to be there for metadata, too.
SCRIPTS.mkdir(parents=True, exist_ok=True)


def build_wheel(folder: str, settings: Any = None, metadata: str | None = None) -> str:
    bring_program()
    return maturin.build_wheel(folder, with_profile(settings), metadata)


def build_editable(folder: str, settings: Any = None, metadata: str | None = None) -> str:
    bring_program()
    return maturin.build_editable(folder, with_profile(settings), metadata)


def with_profile(settings: Any) -> dict[str, Any]:
    return {**(settings or {}), "build-args": f"--locked --profile {PROFILE}"}


def bring_program() -> None:
    given = os.environ.get("TURNTREE_PROGRAM")
    if given == "none":
        (SCRIPTS / "turntree").unlink(missing_ok=True)
    else:
        shutil.copy(given or built_program(), SCRIPTS / "turntree")


def built_program() -> Path:
    command = ["cargo", "build", "--locked", "--profile", PROFILE, "-p", "turntree-cli"]
    subprocess.run(command, cwd=HERE, check=True)
    target = os.environ.get("CARGO_TARGET_DIR") or HERE.parent.parent / "target"
    return Path(target) / ("debug" if PROFILE == "dev" else PROFILE) / "turntree"
