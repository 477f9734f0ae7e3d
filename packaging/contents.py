"""The files of an archive besides the program: manual pages, completions, licences."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from archive import Content, tar_gz, tree, universal, zipped
from parts import bill, licences
from project import OUT, ROOT, UNIVERSAL, VERSION, Target, programs

# The name of a shell's completion script, in the folder where the shell looks for it.
COMPLETIONS = {
    "bash": "turntree.bash",
    "zsh": "_turntree",
    "fish": "turntree.fish",
    "powershell": "_turntree.ps1",
    "elvish": "turntree.elv",
}
PAGES = ["README.md", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE"]


def runnable() -> Path:
    """A program of the release that runs on this machine."""
    for path in programs().values():
        try:
            done = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
        except OSError:
            continue
        if done.returncode == 0 and VERSION in done.stdout:
            return path.resolve()
    raise SystemExit("none of the programs in target/dist runs here: build one for this machine first")


def manual() -> Content:
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([runnable(), "manual", folder], check=True, capture_output=True)
        return tree(Path(folder), "man/man1")


def completions() -> Content:
    found = {}
    for shell, name in COMPLETIONS.items():
        command = [runnable(), "completions", shell]
        script = subprocess.run(command, check=True, capture_output=True).stdout
        found[f"completions/{name}"] = (script, False)
    return found


def shared() -> Content:
    """The files that archives of all systems have."""
    pages: Content = {name: ((ROOT / name).read_bytes(), False) for name in PAGES}
    return {**pages, **manual(), **completions()}


def archives() -> dict[str, bytes]:
    """The archives of all programs that have been built, and their bills of materials, by name."""
    files, made = shared(), {}
    found = programs()
    for target, path in found.items():
        made[target.archive] = archive(target, path.read_bytes(), files, licences(target.triple))
        made[f"turntree-{VERSION}-{target.triple}.cdx.json"] = bill(target.triple).encode()
    macos = [path.read_bytes() for target, path in found.items() if target.is_macos]
    if len(macos) == 2:
        triple = next(target.triple for target in found if target.is_macos)
        made[UNIVERSAL.archive] = archive(UNIVERSAL, universal(macos), files, licences(triple))
    return made


def archive(target: Target, program: bytes, files: Content, third: str) -> bytes:
    content = {target.program: (program, True), "THIRD-PARTY-LICENSES.txt": (third.encode(), False), **files}
    folder = f"turntree-{VERSION}-{target.triple}"
    content = {f"{folder}/{name}": data for name, data in content.items()}
    return zipped(content) if target.is_windows else tar_gz(content)

