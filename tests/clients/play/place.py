"""The scratch place of one client: a home, a work folder with a store, and the processes that run there."""

import copy
import json
import os
import signal
import subprocess
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

KEPT = ("LANG", "LC_ALL", "TERM", "TZ")
MARK = "CLIENTS_PLAY"


class Failed(Exception):
    """A command that did not do what the play needs."""


@dataclass
class Ran:
    """What a command gave."""

    code: int
    out: bytes
    err: str

    def text(self):
        return self.out.decode("utf-8", "replace")


class Place:
    """A folder with `home` and `work`, and an environment that has nothing else of the machine."""

    def __init__(self, folder, programs, program, patience):
        self.home, self.work = folder / "home", folder / "work"
        self.program, self.until = program, time.monotonic() + patience
        self.home.mkdir(parents=True)
        self.work.mkdir()
        temporary = folder / "tmp"
        temporary.mkdir()
        self.mark = uuid.uuid4().hex
        path = os.pathsep.join([*map(str, programs), os.environ["PATH"]])
        self.environment = {name: os.environ[name] for name in KEPT if name in os.environ}
        self.environment |= {"HOME": str(self.home), "PATH": path, MARK: self.mark}
        self.environment["TMPDIR"] = str(temporary)
        self.environment |= {"PWD": str(self.work), "NO_PROXY": "127.0.0.1"}

    def beside(self, name):
        """The same place, with a folder beside the work folder to work in."""
        other = copy.copy(self)
        other.work = self.work.parent / name
        other.environment = {**self.environment, "PWD": str(other.work)}
        return other

    def start(self, command, given=None, **environment):
        """Starts a command in the work folder."""
        return subprocess.Popen(
            list(map(str, command)),
            cwd=self.work,
            env={**self.environment, **environment},
            stdin=subprocess.DEVNULL if given is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def interrupt(self, process, is_begun):
        """Interrupts a process once something has begun; kills it when it does not end by itself."""
        while not is_begun() and process.poll() is None and time.monotonic() < self.until:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        try:
            process.communicate(timeout=15)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()

    def run(self, command, given=None, **environment):
        """Runs a command in the work folder to its end, or kills it when the time of this place is over."""
        process = self.start(command, given, **environment)
        try:
            left = max(self.until - time.monotonic(), 1.0)
            out, err = process.communicate(given, timeout=left)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            name = Path(str(command[0])).name
            raise Failed(f"{name} did not end before the time of this client was over") from None
        return Ran(process.returncode, out, err.decode("utf-8", "replace"))

    def turntree(self, *arguments):
        ran = self.run([self.program, "--no-pager", *arguments])
        if ran.code:
            raise Failed(f"turntree {' '.join(map(str, arguments))}: {ran.code} {ran.err.strip()[:300]}")
        return ran.out

    def turntree_lines(self, *arguments):
        """What a verb prints with --json, one object a line."""
        return [json.loads(line) for line in self.turntree("--json", *arguments).splitlines()]

    def other_session(self):
        """A file with the session of another agent: a prompt, a call with its result, an answer."""
        call = {"name": "look_around", "arguments": json.dumps({"where": "here"})}
        messages = [
            {"role": "user", "content": "Look around."},
            {"role": "assistant", "content": "I look.", "tool_calls": [{"id": "c1", "type": "function", "function": call}]},
            {"role": "tool", "tool_call_id": "c1", "content": "nothing"},
            {"role": "assistant", "content": "There is nothing."},
        ]
        path = self.home / "other.json"
        path.write_text(json.dumps({"messages": messages}))
        return path

    def end_processes(self):
        """Kills what was started here and still runs: processes with the mark in their environment."""
        wanted = f"{MARK}={self.mark}".encode()
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                if wanted in (entry / "environ").read_bytes().split(b"\0"):
                    os.kill(int(entry.name), signal.SIGKILL)
            except OSError:
                continue  # It has ended, or belongs to another user.
