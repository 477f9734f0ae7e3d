"""Makes a release in target/dist; `packaging/dist` calls it with the tools that it wants."""

from __future__ import annotations

import argparse
import hashlib
import shutil
import subprocess
import sys

import build
import contents
import debian
import installers
import npm
import plugins
from project import OUT, TARGETS, Target, git, programs


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Makes a release in target/dist.")
    parser.add_argument("step", nargs="?", default="all", choices=["all", "build", "libraries", "wheels", "assemble"])
    triples = [target.triple for target in TARGETS]
    parser.add_argument("--target", action="append", choices=triples, help="only this target")
    parser.add_argument("--quick", action="store_true", help="do not optimise as a release; allow uncommitted changes")
    parser.add_argument("--packages", action="store_true", help="with all: libraries and wheels too, which take long")
    return parser.parse_args()


def main() -> int:
    chosen = arguments()
    if not chosen.quick and git("status", "--porcelain"):
        print("there are uncommitted changes, and a release names a commit: commit them, or try --quick", file=sys.stderr)
        return 2
    targets = [target for target in TARGETS if chosen.target is None or target.triple in chosen.target]
    steps = {"build": build.program, "libraries": build.node_library, "wheels": build.wheel}
    wanted = [chosen.step] if chosen.step in steps else []
    if chosen.step == "all":
        wanted = ["build", "libraries", "wheels"] if chosen.packages else ["build"]
    missing = [failure for step in wanted for target in targets if (failure := tried(steps[step], step, target, chosen.quick))]
    if chosen.step in ("all", "assemble"):
        assemble()
    for failure in missing:
        print(f"not in this release: {failure}", file=sys.stderr)
    return 1 if missing else 0


def tried(work, step: str, target: Target, quick: bool) -> str | None:
    """Does a step for a target. Returns what failed, so that the other targets are still built."""
    try:
        work(target, quick)
    except subprocess.CalledProcessError:
        return f"{step} for {target.triple}"
    return None


def assemble() -> None:
    if not programs():
        raise SystemExit("there is no program in target/dist: build one first")
    files = OUT / "files"
    shutil.rmtree(files, ignore_errors=True)
    files.mkdir(parents=True)
    made = {**contents.archives(), **debian.packages(), **plugins.packages()}
    sums = {name: hashlib.sha256(data).hexdigest() for name, data in made.items()}
    scripts = {name: text.encode() for name, text in installers.installers(sums).items()}
    registries = npm.packages()
    for name, data in {**made, **scripts}.items():
        (files / name).write_bytes(data)
    for target, path in programs().items():
        if target.deb:
            # Where the Dockerfile looks.
            into = OUT / "image" / target.deb
            into.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, into / target.program)
    shutil.rmtree(OUT / "npm", ignore_errors=True)
    (OUT / "npm").mkdir()
    for name, data in registries.items():
        (OUT / "npm" / name).write_bytes(data)
    listed = {path.name: path.read_bytes() for path in sorted(files.iterdir())}
    lines = [f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in listed.items()]
    (files / "SHA256SUMS").write_text("".join(lines))
    for name, data in {**listed, **registries}.items():
        print(f"{len(data):>10}  {name}")


if __name__ == "__main__":
    sys.exit(main())
