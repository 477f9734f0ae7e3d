"""What is asked of a store after a play: contexts, files of turns, the transcript, and going back."""

import json
import time
from difflib import SequenceMatcher

from place import Failed
from standin import listing
from wire import without_reminders

WAIT = 0.1


def until_same(wanted, found, deadline):
    """Whether `found` gives what `wanted` gives, now or soon: clients write late, hooks follow."""
    until = time.monotonic() + deadline
    while True:
        is_same = wanted() == found()
        if is_same or time.monotonic() > until:
            return is_same
        time.sleep(WAIT)


def source(client, session, name, deadline):
    """The transcript comes back byte for byte, within so many seconds."""
    def exported():
        return client.place.turntree("export", name, "--format", "source", "--allow-secrets")

    if until_same(lambda: client.recorded(session), exported, deadline):
        return None
    kept, given = client.recorded(session), exported()
    same = next((at for at, (a, b) in enumerate(zip(kept, given)) if a != b), min(len(kept), len(given)))
    return f"{len(given)} bytes instead of {len(kept)}, the same up to byte {same}"


def context(client, request, name, agent="main"):
    """The exported context of an agent is what was sent, and the answer to it."""
    sent = client.as_recorded([*request.parts, ("assistant", "text", request.answer.text)])
    sent = without_reminders(sent)
    form, dialect = client.export
    exported = json.loads(client.place.turntree("export", name, "--format", form, "--agent", agent, "--allow-secrets"))
    has = without_reminders(client.as_exported(dialect.parts(exported)))
    if sent == has:
        return None
    for what, at, to, other, end in SequenceMatcher(None, sent, has, autojunk=False).get_opcodes():
        if what != "equal":
            return f"part {at} of {len(sent)}: sent {brief(sent[at:to])}, exported {brief(has[other:end])}"
    return None


def helpers(place, name):
    """The agents of a session beside the main one."""
    whole = json.loads(place.turntree("export", name, "--format", "json"))
    return [agent for agent in whole["agents"] if agent != "main"]


def brief(parts):
    """The first of some parts, short enough for a table."""
    if not parts:
        return "nothing"
    role, kind, value = parts[0]
    more = f" and {len(parts) - 1} more" if len(parts) > 1 else ""
    return f"{role} {kind} {value[:60]!r}{more}"


def turns(place, name):
    """Each turn of a session's line: its number, how many calls its context has, and its files."""
    found = []
    for entry in reversed(place.turntree_lines("log", name)):
        whole = json.loads(place.turntree("export", entry["id"], "--format", "json"))
        messages = whole["agents"].get("main", {}).get("messages", [])
        calls = sum(len(message.get("tool_calls") or []) for message in messages)
        files = {path: file.get("text") for path, file in whole["files"].items()}
        found.append((entry["turn"], calls, files))
    return found


def written(client, request, files):
    """What tools that write files left on disk: without hooks nothing else is known."""
    tool = client.write("", "").name
    told = [str(call.input) for call in request.answer.calls if call.name == tool]
    return {path: text for path, text in files.items() if any(path in given for given in told)}


def files(client, requests, name):
    """The files of the turn of each call are those that lay on disk after it."""
    recorded, wrong, calls = turns(client.place, name), [], 0
    for request, after in zip(requests, requests[1:]):
        if not request.answer.calls:
            continue
        calls += len(request.answer.calls)
        turn = next((turn for turn in recorded if turn[1] >= calls), None)
        if turn is None:
            wrong.append(f"call {calls} is in no turn")
            continue
        has, disk = turn[2], after.files
        if not client.hooks:
            disk = written(client, request, disk)
            has = {path: text for path, text in has.items() if path in disk}
        if has != disk:
            wrong.append(f"turn {turn[0]} has {sorted(has)}, the disk had {sorted(disk)}")
    return f"{len(wrong)} of {calls} calls: {wrong[0]}" if wrong else None


def rollback(client, requests, name, lost):
    """Going back to the turn before files were removed gives the workspace of that turn."""
    before = [lost in str(request.answer.calls) for request in requests].index(True)
    calls = sum(len(request.answer.calls) for request in requests[:before])
    found = [turn for turn in turns(client.place, name) if turn[1] >= calls]
    if not found:
        return f"call {calls} is in no turn"
    turn = found[0]
    arguments = ["--session", name, "--workspace", client.place.work, "--to-turn", turn[0]]
    client.place.turntree("rollback", *arguments)
    then, now = requests[before].files, listing(client.place.work)
    if not client.hooks:
        # What no tool names is not known, and stays.
        now = {path: text for path, text in now.items() if path in then}
    if now == then:
        return None
    return f"the disk has {sorted(now)}, at turn {turn[0]} it had {sorted(then)}"
