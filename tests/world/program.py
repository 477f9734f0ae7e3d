"""Runs turntree on one file: in a home of its own, with bounds of time and memory."""

import json
import os
import resource
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

CRASHES = {101, 134, 139}
MEMORY = 4 << 30


class Failed(Exception):
    """A command that did not do what it was asked, with what it said."""

    def __init__(self, code, said):
        super().__init__(said)
        self.code = code

    @property
    def is_crash(self):
        return self.code in CRASHES or self.code < 0


class Program:
    """turntree in a folder that is thrown away."""

    def __init__(self, path, patience):
        self.path, self.ends = path, time.monotonic() + patience
        self.folder = Path(tempfile.mkdtemp(prefix="turntree-world-"))
        self.home, self.work = self.folder / "home", self.folder / "work"
        self.home.mkdir()
        self.work.mkdir()
        kept = {name: os.environ[name] for name in ("PATH", "TMPDIR") if name in os.environ}
        self.environment = kept | {"HOME": str(self.home), "TZ": "UTC", "TURNTREE_MAINTENANCE": "off", "NO_COLOR": "1"}

    def run(self, store, *arguments):
        """What a command prints and what it warns of; `Failed` if its exit code is not 0."""
        left = self.ends - time.monotonic()
        if left <= 0:
            raise Failed(124, "no time left")
        command = [self.path, "--store", str(self.folder / store), *map(str, arguments)]
        try:
            run = subprocess.run(command, cwd=self.work, env=self.environment, capture_output=True, timeout=left, preexec_fn=bound_memory)
        except subprocess.TimeoutExpired:
            raise Failed(124, f"'{verb(arguments)}' took longer than the time for a file") from None
        said = run.stderr.decode(errors="replace")
        if run.returncode:
            said = message_of(said).replace(f"{self.folder}/", "")
            raise Failed(run.returncode, f"'{verb(arguments)}' ended with {run.returncode}: {said}")
        return run.stdout, said

    def json(self, store, *arguments):
        printed, said = self.run(store, "--json", *arguments)
        return json.loads(printed), said

    def close(self):
        shutil.rmtree(self.folder, ignore_errors=True)


def bound_memory():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def verb(arguments):
    return next(word for word in arguments if not word.startswith("--"))


def message_of(said):
    """The error among warnings."""
    lines = said.strip().splitlines()
    for line in lines:
        if line.startswith("{"):
            return json.loads(line)["message"]
    return next((line for line in lines if line.startswith("error") or "panicked" in line), lines[-1] if lines else "")[:400]
