"""The client of examples/python: every part of it, and errors.

example_client.py PROGRAM STORE WORKSPACE PAYLOAD
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "examples" / "python"))
from turntree_client import Turntree, TurntreeError  # noqa: E402

PROGRAM, STORE, WORKSPACE, PAYLOAD = sys.argv[1:5]

with Turntree("--store", STORE, "--workspace", WORKSPACE, program=PROGRAM) as store:
    assert any(method["name"] == "snapshot" for method in store.describe()["methods"])
    said = {"role": "user", "content": "é"}
    messages = store.call("status")["messages"]
    store.call("snapshot", message="a question", append={"agents": {"main": [said]}})
    assert store.call("status")["messages"] == messages + 1
    taken = store.call("snapshot", message="by the client", set={"memory/ä": {"content": "é"}})
    turns = [line["turn"] for line in store.pages("log", "snapshots", limit=1)]
    assert turns == list(range(taken["turn"], 0, -1)), turns
    assert len(list(store.pages("branch", "branches", limit=1))) == 2
    assert store.read_vfs(PAYLOAD) == "line ä\n" * 10_000
    assert store.restore("turn:1")["turn"] == taken["turn"] + 1
    assert (pathlib.Path(WORKSPACE) / "notes.txt").read_text() == "1\n"
    try:
        store.call("show", revision="nowhere")
        raise AssertionError("an error is raised")
    except TurntreeError as error:
        assert (error.kind, error.code, error.may_be_retried) == ("not-found", -32006, False)
    assert store.close() == 0
