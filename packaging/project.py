"""The facts of a release about the project: read from Cargo.toml, where version and address have their one place."""

from __future__ import annotations

import os
import subprocess
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "target" / "dist"
PACKAGE = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]
VERSION: str = PACKAGE["version"]
DESCRIPTION: str = PACKAGE["description"]
# A forge that runs the release knows the address; elsewhere it is that of Cargo.toml.
ADDRESS: str = os.environ.get("TURNTREE_ADDRESS") or PACKAGE["repository"]
DOWNLOADS = f"{ADDRESS}/releases/download/v{VERSION}"
LATEST = f"{ADDRESS}/releases/latest/download"


@dataclass(frozen=True)
class Target:
    """A system that the program is built for."""

    triple: str
    # As npm, Python and Debian call it.
    npm: str
    wheels: tuple[str, ...] = ()
    deb: str | None = None

    @property
    def is_windows(self) -> bool:
        return "-windows-" in self.triple

    @property
    def is_macos(self) -> bool:
        return self.triple.endswith("-apple-darwin")

    @property
    def program(self) -> str:
        return "turntree.exe" if self.is_windows else "turntree"

    @property
    def archive(self) -> str:
        return f"turntree-{VERSION}-{self.triple}.{'zip' if self.is_windows else 'tar.gz'}"


TARGETS = [
    Target(
        "x86_64-unknown-linux-musl",
        "linux-x64",
        wheels=("x86_64-unknown-linux-gnu", "x86_64-unknown-linux-musl"),
        deb="amd64",
    ),
    Target(
        "aarch64-unknown-linux-musl",
        "linux-arm64",
        wheels=("aarch64-unknown-linux-gnu", "aarch64-unknown-linux-musl"),
        deb="arm64",
    ),
    Target("aarch64-apple-darwin", "darwin-arm64", wheels=("aarch64-apple-darwin",)),
    Target("x86_64-apple-darwin", "darwin-x64", wheels=("x86_64-apple-darwin",)),
    Target("x86_64-pc-windows-gnu", "win32-x64"),
    Target("aarch64-pc-windows-gnullvm", "win32-arm64"),
]
UNIVERSAL = Target("universal-apple-darwin", "")


def git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def epoch() -> int:
    """The time of everything in a release, in seconds: that of its commit, or ``SOURCE_DATE_EPOCH``."""
    named = os.environ.get("SOURCE_DATE_EPOCH")
    return int(named or git("log", "-1", "--format=%ct"))


def programs() -> dict[Target, Path]:
    """The programs that have been built, by target."""
    found = {target: OUT / "programs" / target.triple / target.program for target in TARGETS}
    return {target: path for target, path in found.items() if path.is_file()}
