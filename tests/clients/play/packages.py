"""The record kinds and the hook events that the program of a client names: what it could write one day."""

import json
import mmap
import re
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

import literals
from clients import Client
from place import Failed

# What the names of events of requests begin with in the Copilot CLI.
OF_REQUESTS = "model."
# Seconds that a program has to tell what it knows.
PATIENCE = 60


@dataclass
class Package:
    """An installed client, with what is known of it and its driver, whose place has what it has played."""

    modules: Path
    client: Client
    kinds: set
    events: set

    def file(self, *path):
        """A file among the installed packages."""
        return self.modules.joinpath(*path)

    def ask(self, *command, **variables):
        """What a command of the client prints."""
        self.client.place.until = time.monotonic() + PATIENCE
        return self.client.place.run(command, **variables)


def claude_code(package):
    """Its program is a bundle; lists of kinds stand in it as tables, comparisons and records that are written."""
    with package.file(".bin", "claude").open("rb") as file:
        program = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    # Words such as `user` and `system` stand in many lists; those with a hyphen in none of another kind.
    telling = {kind for kind in package.kinds if "-" in kind}
    kinds = literals.beside(program, telling, 2) | literals.literals_with(program, "sessionId")
    return kinds, literals.beside(program, package.events, 5)


def codex(package):
    """It describes its items and hooks, and tells which kinds it expected when a rollout has another one."""
    described = package.client.place.home / "described"
    package.ask("codex", "app-server", "generate-ts", "--experimental", "--out", described)
    items = re.findall(r'"type": "(\w+)"', (described / "ResponseItem.ts").read_text())
    hooks = re.findall(r'"(\w+)"', (described / "v2" / "HookEventName.ts").read_text())
    kinds, messages = expected_by_codex(package)
    kinds |= {f"response_item/{item}" for item in items} | {f"event_msg/{message}" for message in messages}
    return kinds, {hook[0].upper() + hook[1:] for hook in hooks}


def expected_by_codex(package):
    """The kinds of records, and those of `event_msg`, from the complaints about a record of neither."""
    session, moment = str(uuid.uuid4()), "2026-01-01T00:00:00.000Z"
    begun = {"id": session, "timestamp": moment, "cwd": str(package.client.place.work), "originator": "codex_exec"}
    begun |= {"cli_version": "0.0.0", "source": "exec", "model_provider": "stand-in"}
    said = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Say nothing."}]}
    records = [
        ("session_meta", begun),
        ("strange_record", {}),
        ("event_msg", {"type": "strange_event"}),
        ("response_item", said),
        ("event_msg", {"type": "user_message", "message": "Say nothing.", "images": []}),
    ]
    lines = [json.dumps({"timestamp": moment, "type": kind, "payload": payload}) for kind, payload in records]
    rollout = f".codex/sessions/2026/01/01/rollout-2026-01-01T00-00-00-{session}.jsonl"
    package.client.setting(rollout, "\n".join(lines) + "\n")
    command = ["codex", "exec", "resume", "--skip-git-repo-check", session, "Say nothing."]
    told = package.ask(*command, STAND_IN_KEY="none", RUST_LOG="codex_rollout=trace").err
    lists = []
    for name in ("strange_record", "strange_event"):
        complaint = re.search(rf"unknown variant `{name}`, expected one of (.*)", told)
        if complaint is None:
            raise Failed(f"it does not say what it expected instead of {name}")
        lists.append(set(re.findall(r"`(\w+)`", complaint[1])))
    return lists


def gemini_cli(package):
    """Its bundles call what records a message, and write records whose only field begins with a dollar."""
    kinds, events = set(), set()
    for path in package.file("@google", "gemini-cli", "bundle").glob("*.js"):
        text = path.read_text(errors="replace")
        kinds |= set(re.findall(r'\brecordMessage\(\{[^{}]{0,80}?\btype: "(\w+)"', text))
        kinds |= set(re.findall(r"(?:\bappendRecord|\bJSON\.stringify)\(\{ (\$\w+)\b", text))
        events |= set(re.findall(r'\bHookEventName\d*\["\w+"\] = "(\w+)"', text))
    return kinds, events


def opencode(package):
    """It prints the description of its server, which sends messages and parts as the database has them."""
    schemas = json.loads(package.ask("opencode", "generate").out)["components"]["schemas"]
    kinds = set()
    for name, field in (("Message", "role"), ("Part", "type")):
        for option in schemas[name]["anyOf"]:
            kinds |= set(schemas[option["$ref"].split("/")[-1]]["properties"][field]["enum"])
    return kinds, set()


def pi(package):
    """The types of its entries, and the roles of its messages, are declared beside its code."""
    scope = package.file("@earendil-works")
    core = scope / "pi-coding-agent" / "dist" / "core"
    entries = (core / "session-manager.d.ts").read_text()
    kinds = set(re.findall(r"interface Session(?:Header|\w*Entry)\b[^{]*\{\s*type: \"(\w+)\"", entries))
    kinds |= set(re.findall(r"extends SessionEntryBase \{\s*type: \"(\w+)\"", entries))
    for declared in (core / "messages.d.ts", scope / "pi-ai" / "dist" / "types.d.ts"):
        roles = re.findall(r"^    role: \"(\w+)\";", declared.read_text(), re.MULTILINE)
        kinds |= {f"message/{role}" for role in roles}
    return kinds, set()


def copilot_cli(package):
    """Its first run unpacks the schema of its events; those that are ephemeral are in no file."""
    unpacked = sorted((package.client.place.home / ".cache" / "copilot").rglob("session-events.schema.json"))
    if not unpacked:
        raise Failed("it has unpacked no schema of its events")
    definitions = json.loads(unpacked[-1].read_text())["definitions"]
    kinds = set()
    for option in definitions["SessionEvent"]["anyOf"]:
        fields = definitions[option["$ref"].split("/")[-1]]["properties"]
        if fields.get("ephemeral", {}).get("const") is not True:
            kinds.add(fields["type"]["const"])
    # Those of its requests are in a list of their own, by their names behind the prefix.
    program = (unpacked[-1].parents[1] / "cli-main.js").read_bytes()
    known = {kind.removeprefix(OF_REQUESTS) for kind in package.kinds if kind.startswith(OF_REQUESTS)}
    return kinds | {OF_REQUESTS + kind for kind in literals.beside(program, known, 6)}, set()


def cline_cli(package):
    """The roles of its messages are declared beside its code; other kinds are in a compiled program alone."""
    declared = package.file("@cline", "shared", "dist", "llms", "messages.d.ts").read_text()
    roles = re.search(r"type MessageRole = ([^;]*);", declared)
    return set(re.findall(r'"(\w+)"', roles[1])), set()


READERS = {
    "claude-code": claude_code,
    "codex": codex,
    "gemini-cli": gemini_cli,
    "opencode": opencode,
    "pi": pi,
    "copilot-cli": copilot_cli,
    "cline-cli": cline_cli,
}
