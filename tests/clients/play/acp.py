"""Talks with an agent over its standard streams in the Agent Client Protocol: JSON-RPC, one object a line."""

import json
import os
import select
import signal
import subprocess
import time

from place import Failed


class Agent:
    """An agent that runs for as long as the `with` lasts, within the time of its place."""

    def __init__(self, place, command, **environment):
        self.until, self.name, self.asked, self.read = place.until, command[0], 0, b""
        self.process = subprocess.Popen(
            list(map(str, command)),
            cwd=place.work,
            env={**place.environment, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def __enter__(self):
        self.call("initialize", protocolVersion=1, clientCapabilities={})
        return self

    def __exit__(self, *_):
        # It may end by itself when the client is silent.
        self.process.stdin.close()
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.process.stdout.close()

    def call(self, method, **parameters):
        """Asks, and gives the result. What the agent tells meanwhile is passed over."""
        self.asked += 1
        request = {"jsonrpc": "2.0", "id": self.asked, "method": method, "params": parameters}
        self.process.stdin.write(json.dumps(request).encode() + b"\n")
        self.process.stdin.flush()
        while True:
            told = json.loads(self.line())
            if "method" in told or told.get("id") != self.asked:
                continue
            if "error" in told:
                raise Failed(f"{self.name}, {method}: {told['error']}")
            return told["result"]

    def line(self):
        stream = self.process.stdout.fileno()
        while b"\n" not in self.read:
            ready, _, _ = select.select([stream], [], [], max(self.until - time.monotonic(), 1.0))
            more = os.read(stream, 1 << 16) if ready else b""
            if not more:
                raise Failed(f"{self.name} said nothing more")
            self.read += more
        line, self.read = self.read.split(b"\n", 1)
        return line
