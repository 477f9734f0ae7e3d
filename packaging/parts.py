"""The third-party code in a program: a bill of materials in CycloneDX, and the licences."""

from __future__ import annotations

import json
import subprocess
import tomllib
import uuid
from collections import deque
from pathlib import Path
from typing import Any

from project import ADDRESS, DESCRIPTION, ROOT, VERSION, git

PROGRAM = "turntree-cli"


def parts(triple: str) -> list[dict[str, Any]]:
    """The packages that are linked into the program for a target, as cargo describes them."""
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", triple]
    told = json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout)
    packages = {package["id"]: package for package in told["packages"]}
    nodes = {node["id"]: node for node in told["resolve"]["nodes"]}
    first = next(name for name, package in packages.items() if package["name"] == PROGRAM)
    found, waiting = {first}, deque([first])
    while waiting:
        for dependency in nodes[waiting.popleft()]["deps"]:
            is_linked = any(kind["kind"] is None for kind in dependency["dep_kinds"])
            is_macro = any("proc-macro" in made["kind"] for made in packages[dependency["pkg"]]["targets"])
            if is_linked and not is_macro and dependency["pkg"] not in found:
                found.add(dependency["pkg"])
                waiting.append(dependency["pkg"])
    return sorted((packages[name] for name in found), key=lambda package: (package["name"], package["version"]))


def bill(triple: str) -> str:
    """The bill of materials of a target."""
    checksums = lock_checksums()
    components, own = [], []
    for package in parts(triple):
        is_own = package["source"] is None
        name, version = package["name"], package["version"]
        component = {
            "type": "library",
            "bom-ref": f"{name}@{version}",
            "name": name,
            "version": version,
            "licenses": [{"expression": (package["license"] or "NOASSERTION").replace("/", " OR ")}],
            "purl": f"pkg:cargo/{name}@{version}",
        }
        if checksum := checksums.get((name, version)):
            component["hashes"] = [{"alg": "SHA-256", "content": checksum}]
        (own if is_own else components).append(component)
    # The same for the same commit and target, as the rest of a release is.
    serial = uuid.uuid5(uuid.NAMESPACE_URL, "/".join([ADDRESS, git("rev-parse", "HEAD"), triple]))
    name = f"turntree {VERSION} {triple}"
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{serial}",
        "version": 1,
        "metadata": {
            "component": {"type": "application", "name": name, "version": VERSION, "description": DESCRIPTION},
        },
        "components": own + components,
    }
    return json.dumps(document, indent=1) + "\n"


def lock_checksums() -> dict[tuple[str, str], str]:
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text())
    return {(part["name"], part["version"]): part["checksum"] for part in lock["package"] if "checksum" in part}


def licences(triple: str) -> str:
    """The licences of all third-party code, each text once, below the packages that have it."""
    texts: dict[str, list[str]] = {}
    without = []
    for package in parts(triple):
        if package["source"] is None:
            continue
        title = f"{package['name']} {package['version']} ({package['license']})"
        folder = Path(package["manifest_path"]).parent
        named = ("license", "licence", "copying", "copyright", "notice", "unlicense")
        files = [path for path in sorted(folder.iterdir()) if path.is_file() and path.name.lower().startswith(named)]
        # Of a package with alternatives, the one that deny.toml allows.
        files = [path for path in files if "gpl" not in path.name.lower()]
        for file in files:
            texts.setdefault(file.read_text(errors="replace").strip(), []).append(title)
        if not files:
            without.append(title)
    blocks = ["\n".join(sorted(set(titles))) + f"\n\n{text}\n" for text, titles in texts.items()]
    blocks.sort()
    rule = "\n" + "-" * 80 + "\n\n"
    head = "Third-party code in this program, with its licences.\n"
    if without:
        head += "\nPackages without a licence file of their own; the named licence applies:\n\n" + "\n".join(without) + "\n"
    return head + rule + rule.join(blocks)
