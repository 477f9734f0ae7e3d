"""Builds the program, and the libraries of the Python and the npm package, for one target each."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from project import OUT, ROOT, Target, epoch

HERE = Path(__file__).resolve().parent
# The oldest glibc that libraries for Linux run with: that of manylinux2014.
GLIBC = "2.17"
# A trial: hardly optimised, and in parts that compile side by side.
QUICK = {"LTO": "off", "CODEGEN_UNITS": "16", "OPT_LEVEL": "0"}
QUICK_CRATES = ["turntree", "turntree-exchange"]


def host() -> str:
    lines = subprocess.run(["rustc", "-vV"], capture_output=True, text=True, check=True, cwd=ROOT).stdout.splitlines()
    return next(line.removeprefix("host: ") for line in lines if line.startswith("host: "))


def environment(triple: str, quick: bool, is_library: bool) -> dict[str, str]:
    made = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch())}
    # Paths of this machine say nothing to others, and make every machine's program another.
    home = os.environ.get("CARGO_HOME", str(Path.home() / ".cargo"))
    flags = [f"--remap-path-prefix={ROOT}=turntree", f"--remap-path-prefix={home}/registry/src=crates"]
    if triple.endswith("-apple-darwin") and sys.platform != "darwin":
        flags += [f"-Clink-arg=-F{stubs()}"]
    if is_library and triple.endswith("-linux-musl"):
        # A library shares the C library of the program that loads it.
        flags += ["-Ctarget-feature=-crt-static"]
    made["CARGO_ENCODED_RUSTFLAGS"] = "\x1f".join(flags)
    if quick:
        for profile in ["RELEASE", "WHEEL"]:
            made |= {f"CARGO_PROFILE_{profile}_{name}": value for name, value in QUICK.items()}
    return made


def stubs() -> Path:
    """The frameworks that a program for macOS is linked with where there is no SDK: names alone, no code."""
    made = OUT / "frameworks"
    for stub in sorted((HERE / "frameworks").glob("*.tbd")):
        folder = made / f"{stub.stem}.framework"
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(stub, folder / stub.name)
    return made


def cargo(triple: str, quick: bool, *arguments: str, is_library: bool = False) -> None:
    """Builds with the linker of this system for itself, and with zig for others."""
    glibc = triple.endswith("-linux-gnu")
    named = f"{triple}.{GLIBC}" if glibc else triple
    verb = ["zigbuild", "--target", named] if wants_zig(triple) else ["build", "--target", triple]
    little = [f"--config=profile.{of}.package.{crate}.opt-level=0" for of in ["release", "wheel"] for crate in QUICK_CRATES]
    command = ["cargo", *verb, "--locked", *arguments, *(little if quick else [])]
    print("+", *command, file=sys.stderr, flush=True)
    subprocess.run(command, cwd=ROOT, env=environment(triple, quick, is_library), check=True)


def wants_zig(triple: str) -> bool:
    """True for a system other than this one, and for libraries, which run with an old glibc."""
    is_native = triple == host() or (triple.endswith("-apple-darwin") and sys.platform == "darwin")
    return not is_native or triple.endswith("-linux-gnu")


def add_target(triple: str) -> None:
    if shutil.which("rustup"):
        subprocess.run(["rustup", "target", "add", triple], cwd=ROOT, check=True, capture_output=True)


def built(triple: str, profile: str) -> Path:
    return Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"), triple, profile)


def program(target: Target, quick: bool) -> None:
    add_target(target.triple)
    cargo(target.triple, quick, "--release", "-p", "turntree-cli")
    into = OUT / "programs" / target.triple
    into.mkdir(parents=True, exist_ok=True)
    shutil.copy(built(target.triple, "release") / target.program, into / target.program)


def node_library(target: Target, quick: bool) -> None:
    """The library of the npm package; on Linux one for each C library."""
    into = OUT / "libraries" / target.triple
    into.mkdir(parents=True, exist_ok=True)
    for triple in target.wheels or (target.triple,):
        add_target(triple)
        is_gnu, is_musl = triple.endswith("-linux-gnu"), triple.endswith("-linux-musl")
        cargo(triple, quick, "--profile", "wheel", "-p", "turntree-node", is_library=True)
        names = {"apple": "libturntree_node.dylib", "windows": "turntree_node.dll"}
        name = next((name for part, name in names.items() if part in triple), "libturntree_node.so")
        kind = "-gnu" if is_gnu else "-musl" if is_musl else ""
        shutil.copy(built(triple, "wheel") / name, into / f"turntree{kind}.node")


def wheel(target: Target, quick: bool) -> None:
    """The wheels of a target: on Linux one for each C library."""
    into = OUT / "wheels"
    for triple in target.wheels:
        add_target(triple)
        tag = ["--compatibility", "manylinux2014" if triple.endswith("gnu") else "musllinux_1_2"] if "linux" in triple else []
        tag += ["--zig"] if wants_zig(triple) else []
        command = ["maturin", "build", "--profile", "wheel", "--locked", "--target", triple, *tag, "--out", str(into)]
        print("+", *command, file=sys.stderr, flush=True)
        subprocess.run(command, cwd=ROOT / "bindings/python", env=environment(triple, quick, True), check=True)
