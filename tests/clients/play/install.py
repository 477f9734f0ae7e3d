"""Installs the clients from the package registry, each version once, into a folder that stays."""

import json
import os
import shutil
import subprocess
from pathlib import Path

PATIENCE = 300


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
