"""The npm packages: `turntree`, and one for each system with its program and library, which npm selects."""

from __future__ import annotations

import io
import json
import os
import subprocess
import tarfile
import tempfile
from pathlib import Path

from archive import Content, tar_gz
from parts import licences
from plugins import namespace
from project import ADDRESS, OUT, PACKAGE, ROOT, VERSION, Target, programs

SCOPE = "@turntree"
NODE = ROOT / "bindings" / "node"


def packages() -> dict[str, bytes]:
    """The packages of all built programs, and the one that depends on them, by file name."""
    found = programs()
    made = {f"turntree-{target.npm}-{VERSION}.tgz": platform(target, path.read_bytes()) for target, path in found.items()}
    names = {f"{SCOPE}/{target.npm}": VERSION for target in found}
    return {**made, f"turntree-{VERSION}.tgz": whole(names)}


def platform(target: Target, program: bytes) -> bytes:
    system, processor = target.npm.split("-")
    described = {
        "name": f"{SCOPE}/{target.npm}",
        "version": VERSION,
        "description": f"The program and the library of turntree for {system} on {processor}",
        "license": PACKAGE["license"],
        "repository": {"type": "git", "url": f"git+{ADDRESS}.git"},
        "os": [system],
        "cpu": [processor],
        "preferUnplugged": True,
    }
    files: Content = {
        "package.json": (as_json(described), False),
        f"bin/{target.program}": (program, True),
        "THIRD-PARTY-LICENSES.txt": (licences(target.triple).encode(), False),
        **rights(),
    }
    libraries = sorted((OUT / "libraries" / target.triple).glob("*.node"))
    files |= {f"native/{path.name}": (path.read_bytes(), False) for path in libraries}
    return in_package(files)


def whole(platforms: dict[str, str]) -> bytes:
    """The package `turntree` as npm packs it, without a library of its own and with the platforms."""
    if not (NODE / "node_modules").is_dir():
        subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--omit=peer", "--ignore-scripts", "--no-package-lock"], cwd=NODE, check=True)
    with tempfile.TemporaryDirectory() as folder:
        told = {**os.environ, "TURNTREE_LIBRARY": "none"}
        subprocess.run(["npm", "pack", "--pack-destination", folder], cwd=NODE, env=told, check=True, capture_output=True)
        (packed,) = Path(folder).glob("*.tgz")
        files = unpacked(packed.read_bytes())
    described = json.loads(files["package.json"][0])
    described["optionalDependencies"] = platforms
    described["repository"] = {"type": "git", "url": f"git+{ADDRESS}.git", "directory": "bindings/node"}
    # By this the registry of servers knows that the package is that of server.json.
    described["mcpName"] = f"{namespace()}/turntree"
    described.pop("scripts", None)
    described.pop("devDependencies", None)
    files["package.json"] = (as_json(described), False)
    return in_package({**files, **rights()})


def unpacked(packed: bytes) -> Content:
    files: Content = {}
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        for info in tar:
            if file := tar.extractfile(info):
                files[info.name.removeprefix("package/")] = (file.read(), bool(info.mode & 0o100))
    return files


def in_package(files: Content) -> bytes:
    return tar_gz({f"package/{name}": data for name, data in files.items()})


def rights() -> Content:
    return {name: ((ROOT / name).read_bytes(), False) for name in ["LICENSE-MIT", "LICENSE-APACHE"]}


def as_json(value: object) -> bytes:
    return (json.dumps(value, indent=2) + "\n").encode()
