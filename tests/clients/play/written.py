"""The record kinds that a client has written in a play."""

import json
import sqlite3
from contextlib import closing

# The files of a client below its home; opencode has a database instead.
FILES = {
    "claude-code": ".claude/projects/**/*.jsonl",
    "codex": ".codex/sessions/**/rollout-*.jsonl",
    "gemini-cli": ".gemini/tmp/*/chats/**/*.jsonl",
    "pi": ".pi/agent/sessions/**/*.jsonl",
    "copilot-cli": ".copilot/session-state/*/events.jsonl",
    "cline-cli": ".cline/data/sessions/*/*.messages.json",
}
DATABASE = ".local/share/opencode/opencode.db"


def kinds(client, home):
    """The kinds of all records, as the tables name them."""
    if client == "opencode":
        return kinds_of_database(home / DATABASE)
    found = set()
    for path in home.glob(FILES[client]):
        text = path.read_text(errors="replace")
        records = json.loads(text)["messages"] if path.suffix == ".json" else map(json.loads, text.splitlines())
        for record in records:
            found |= kinds_of(client, record)
    return found


def kinds_of(client, record):
    """The kind of a record, and the one within it where the tables list those."""
    if client == "cline-cli":
        return {record["role"]}
    if client == "gemini-cli":
        return {record["type"]} if "type" in record else {key for key in record if key.startswith("$")}
    kind, within = record["type"], None
    if client == "codex" and kind in ("response_item", "event_msg"):
        within = record["payload"]["type"]
    elif client == "pi" and kind == "message":
        within = record["message"]["role"]
    return {kind, f"{kind}/{within}"} if within else {kind}


def kinds_of_database(path):
    """The roles of messages and the types of their parts."""
    found = set()
    with closing(sqlite3.connect(path)) as database:
        for table, field in (("message", "$.role"), ("part", "$.type")):
            rows = database.execute(f"SELECT DISTINCT json_extract(data, ?) FROM {table}", (field,))
            found |= {name for (name,) in rows}
    return found
