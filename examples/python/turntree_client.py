"""A client of `turntree serve --stdio` in one file, for Python 3.9 and newer, without dependencies.

    with Turntree("--workspace", ".") as store:
        question = {"role": "user", "content": "Why is it slow?"}
        store.call("snapshot", message="the question", append={"agents": {"main": [question]}})
        store.call("snapshot", message="a plan", set={"scratchpad/plan": "measure"})
        for snapshot in store.pages("log", "snapshots", limit=100):
            print(snapshot["turn"], snapshot["message"])

docs/reference/serve.md says what the methods take and answer; so does `store.describe()`.
"""

from __future__ import annotations

import json
import subprocess
from typing import Any, Iterator, Optional


class TurntreeError(Exception):
    """A call that was refused or failed; `kind` is that of the program, as `not-found`."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(error["message"])
        self.code: int = error["code"]
        self.data: dict[str, Any] = error.get("data") or {}
        self.kind: Optional[str] = self.data.get("error")

    @property
    def may_be_retried(self) -> bool:
        """True if another process committed first: the same call may work now."""
        return self.kind == "conflict"


class Turntree:
    """A server of one store. One thread at a time may use it."""

    def __init__(self, *options: str, program: str = "turntree") -> None:
        """Starts `program`; `options` are those of `turntree serve`, as "--store", DIR."""
        self._server = subprocess.Popen(
            [program, "serve", "--stdio", *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="utf-8",
        )
        self._last = 0

    def __enter__(self) -> Turntree:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> int:
        """Ends the server, and returns its exit code."""
        assert self._server.stdin and self._server.stdout
        self._server.stdin.close()
        code = self._server.wait()
        self._server.stdout.close()
        return code

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Calls a method and returns its answer."""
        assert self._server.stdin and self._server.stdout
        self._last += 1
        request = {"jsonrpc": "2.0", "id": self._last, "method": method, "params": params}
        self._server.stdin.write(json.dumps(request) + "\n")
        self._server.stdin.flush()
        line = self._server.stdout.readline()
        if not line:
            raise ConnectionError(f"the server has ended with {self._server.wait()}")
        answer = json.loads(line)
        if "error" in answer:
            raise TurntreeError(answer["error"])
        if answer.get("id") != self._last:
            raise ConnectionError(f"the answer {answer.get('id')} is not to {self._last}")
        return answer["result"]

    def pages(self, method: str, items: str, **params: Any) -> Iterator[dict[str, Any]]:
        """Calls a method that answers with a list until its end, and yields the items."""
        while True:
            answer = self.call(method, **params)
            yield from answer[items]
            if answer.get("next_cursor") is not None:
                params["cursor"] = answer["next_cursor"]
            elif answer.get("next_offset") is not None:
                params["offset"] = answer["next_offset"]
            else:
                return

    def read_vfs(self, uri: str) -> str:
        """The whole of an offloaded payload that is text."""
        part = self.call("read_vfs", uri=uri)
        text = part["text"]
        while part["next_offset"] is not None:
            part = self.call("read_vfs", uri=uri, offset=part["next_offset"])
            text += part["text"]
        return text

    def restore(self, revision: str, **params: Any) -> dict[str, Any]:
        """Brings a snapshot back, with the plan of this very moment."""
        plan = self.call("restore", revision=revision, **params)
        return self.call("restore", revision=revision, plan_id=plan["plan_id"], **params)

    def describe(self) -> dict[str, Any]:
        """All methods, with the schemas of what they take and answer."""
        return self.call("describe")
