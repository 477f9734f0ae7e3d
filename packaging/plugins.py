"""The parts of a release for agents: the plugins as archives, bundles for desktop clients, and the entry of a registry."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import urlsplit

from archive import Content, tar_gz, tree, zipped
from installers import filled
from project import ADDRESS, ROOT, VERSION, Target, programs

AGENTS = Path(__file__).resolve().parent / "agents"


def packages() -> dict[str, bytes]:
    """The files, by name."""
    made = {f"turntree-{VERSION}-plugins.tar.gz": tar_gz(with_rights(tree(AGENTS, "turntree-plugins"), "turntree-plugins"))}
    for target, path in programs().items():
        made[f"turntree-{VERSION}-{target.triple}.mcpb"] = bundle(target, path.read_bytes())
    made["server.json"] = server().encode()
    return made


def server() -> str:
    """The entry of the registry of servers, with the packages whose owner it can verify: npm.py names the server in
    the npm package, and a page of the Python package is compared, as the wheel has it.
    """
    entry = json.loads(filled("server.json", {"NAMESPACE": namespace()}))
    if f"mcp-name: {entry['name']}\n" not in (ROOT / "bindings/python/README.md").read_text():
        print(f"server.json omits the Python package: its README lacks the line 'mcp-name: {entry['name']}'")
        entry["packages"] = [package for package in entry["packages"] if package["registryType"] != "pypi"]
    return json.dumps(entry, indent=2) + "\n"


def with_rights(content: Content, folder: str) -> Content:
    names = ["LICENSE-MIT", "LICENSE-APACHE"]
    return content | {f"{folder}/{name}": ((ROOT / name).read_bytes(), False) for name in names}


def bundle(target: Target, program: bytes) -> bytes:
    """The server of the Model Context Protocol for a desktop client: the program and its manifest."""
    platform = target.npm.split("-")[0]
    manifest = filled("mcpb.json", {"PROGRAM": target.program, "PLATFORM": platform})
    json.loads(manifest)
    return zipped({"manifest.json": (manifest.encode(), False), f"server/{target.program}": (program, True)})


def namespace() -> str:
    """The name of the project's host in a registry: its parts in reverse, as the registry verifies them."""
    host = urlsplit(ADDRESS)
    owner = host.path.strip("/").split("/")[0]
    if host.hostname == "github.com":
        return f"io.github.{owner}"
    return ".".join(reversed((host.hostname or "").split(".")))
