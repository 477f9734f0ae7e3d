"""Installs the clients from the package registry, each version once, into a folder that stays."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

PATIENCE = 300
# The Node for clients that want a newer one than there is: its package brings the program.
NODE = "24.21.0"


class Skipped(Exception):
    """A client that cannot be had here, and why."""


def npm(folder, *arguments):
    """Runs npm in a folder; gives what it prints."""
    if shutil.which("npm") is None:
        raise Skipped("npm is not installed")
    command = ["npm", "--no-audit", "--no-fund", "--fetch-retries=1", *arguments]
    try:
        ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        raise Skipped(f"npm {arguments[0]} took more than {PATIENCE} s") from None
    if ran.returncode:
        told = [line for line in ran.stderr.splitlines() if line.startswith("npm error")]
        raise Skipped(f"npm {arguments[0]}: {(told or ['exit code ' + str(ran.returncode)])[0]}")
    return ran.stdout.strip()


def newest(package):
    """The release that the registry calls the latest."""
    return npm(Path.cwd(), "view", package, "dist-tags.latest")


def there(folder, package):
    """The newest version of a package that is installed here already, or nothing."""
    found = [path.parent for path in folder.glob(f"{slug(package)}@*/done")]
    found.sort(key=lambda path: [int(n) if n.isdigit() else 0 for n in path.name.split("@")[-1].split(".")])
    return found[-1].name.split("@")[-1] if found else None


def slug(package):
    return package.strip("@").replace("/", "-")


def install(folder, package, version):
    """The folder with the programs of one version. What an interrupted installation left is replaced."""
    into = folder / f"{slug(package)}@{version}"
    if (into / "done").exists():
        return into / "node_modules" / ".bin"
    if into.exists():
        shutil.rmtree(into)
    into.mkdir(parents=True)
    # Newer npm runs the scripts of an installation only for packages that are named here.
    wanted = {"private": True, "allowScripts": {package: True}}
    (into / "package.json").write_text(json.dumps(wanted))
    npm(into, "install", f"{package}@{version}")
    (into / "done").touch()
    return into / "node_modules" / ".bin"


def programs(folder, package, version):
    """The folders with programs that one version of a client needs: its own, and a Node if it wants a newer one."""
    own = install(folder, package, version)
    wanted = node_wanted(own, package)
    if wanted is None or numbers(own_node()) >= wanted:
        return [own]
    if numbers(NODE) < wanted:
        raise Skipped(f"it wants Node {'.'.join(map(str, wanted))}; here are {own_node() or 'none'} and {NODE}")
    return [own, install(folder, "node", NODE)]


def node_wanted(own, package):
    """The oldest Node that a client runs on, or nothing for a client that is no script."""
    described = json.loads((own.parent / package / "package.json").read_text())
    scripts = described.get("bin", {})
    scripts = [scripts] if isinstance(scripts, str) else scripts.values()
    for script in scripts:
        with (own.parent / package / script).open("rb") as file:
            if b"node" in file.readline(80):
                return numbers(described.get("engines", {}).get("node", ""))
    return None


def own_node():
    """The version of the Node of this machine, empty without one."""
    if shutil.which("node") is None:
        return ""
    return subprocess.run(["node", "--version"], capture_output=True, text=True, check=False).stdout.strip()


def numbers(version):
    """The first version in a text, as numbers."""
    found = re.search(r"[0-9]+(\.[0-9]+)*", version)
    return [int(part) for part in found[0].split(".")] if found else []


def choose(folder, client, pinned, offline_ok):
    """Which version to play: the pinned one, the newest, or with `offline_ok` what is here."""
    if pinned:
        return client["pinned"]
    try:
        return newest(client["package"])
    except Skipped:
        version = there(folder, client["package"]) if offline_ok else None
        if version is None:
            raise
        return version


def program_is(path):
    """The program to be tried, as a whole path."""
    found = Path(path).resolve()
    if not os.access(found, os.X_OK):
        raise SystemExit(f"{path} is no program: build turntree first, or name it with --program")
    return found
