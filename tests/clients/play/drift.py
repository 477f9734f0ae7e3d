"""Plays the newest release of each client, and compares what it writes and names with what turntree knows.

    drift.py [--json] [options of main.py]

New are record kinds that the page of the client does not list, and hook events that the page of the hooks
does not list, in the records that the client has written and in what its package names. Exits with 1 when
something is new, an event that the hooks need is gone, or an answer is another than `clients.json` expects;
with 2 when a client could not be installed, played or read.
"""

import contextlib
import json
import sqlite3
import sys
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatch
from pathlib import Path

import packages
import tables
import written
from clients import CLIENTS
from install import Skipped, choose, program_is, programs
from main import HERE, fetch, judged, options, play
from play import DRIFT


@dataclass
class Findings:
    """What was found of one client. A new kind was written by the client, named by its package, or both."""

    pinned: str
    newest: str = ""
    answers: int = 0
    changed: list = field(default_factory=list)
    new_kinds: dict = field(default_factory=dict)
    gone_kinds: list = field(default_factory=list)
    new_events: list = field(default_factory=list)
    gone_events: list = field(default_factory=list)
    counts: dict = field(default_factory=dict)
    problems: list = field(default_factory=list)

    def code(self):
        """The exit code that they stand for."""
        if self.problems:
            return 2
        return 1 if self.new_kinds or self.new_events or self.gone_events or self.changed else 0


def compare(findings, name, beside, client, modules):
    """Looks at a client that has played: at its records, then at its package."""
    home = client.place.home
    listed, asked_for, events = tables.kinds(name), set(), set()
    if name in tables.HOOKS:
        asked_for = tables.events_asked_for(name, home)
        events = asked_for | tables.events_not_asked_for(name) | set(beside.get("no events", []))
    seen = written.kinds(name, home)
    package = packages.Package(modules, client, listed, events)
    named, events_named = packages.READERS[name](package)
    findings.counts = {"kinds written": len(seen), "kinds named": len(named), "events named": len(events_named)}
    expected = listed - set(beside.get("not named", []))
    for what, known, found in (("kinds", expected, named), ("events", events, events_named)):
        if 2 * len(known & found) < len(known):
            share = f"{len(known & found)} of {len(known)} known {what}"
            findings.problems.append(f"its package names {share}: packages.py does not fit this release")
    for kind in sorted(named - set(beside.get("not written", [])) | seen):
        if not any(fnmatch(kind, pattern) for pattern in listed):
            findings.new_kinds[kind] = [how for how, there in (("written", seen), ("named", named)) if kind in there]
    findings.gone_kinds = sorted(expected - named - seen)
    findings.new_events = sorted(events_named - events)
    findings.gone_events = sorted(asked_for - events_named)


def look_at(name, expected, beside, chosen, folder, program):
    """Installs, plays and compares one client."""
    findings = Findings(expected["pinned"])
    try:
        findings.newest = choose(folder, expected, chosen.pinned, chosen.offline_ok)
        folders = programs(folder, expected["package"], findings.newest)
    except Skipped as reason:
        findings.problems.append(f"not installed: {reason}")
        return findings

    def look(played):
        try:
            compare(findings, name, beside, played.client, folders[0].parent)
        except (*DRIFT, sqlite3.Error) as failure:
            findings.problems.append(f"not read: {type(failure).__name__}: {failure}")

    with contextlib.redirect_stdout(sys.stderr):
        answers = play(name, folders, chosen, program, look)
    findings.answers = len(answers)
    failed = answers.pop("played", None)
    findings.problems += [f"not played to the end: {failed}"] if failed else []
    lines, _ = judged(name, expected, answers)
    findings.changed = [line for line in lines if "(known: " not in line]
    return findings


def told(name, findings):
    """The findings of a client as lines."""
    counts = {"answers": findings.answers, **findings.counts}
    counted = ", ".join(f"{count} {what}" for what, count in counts.items())
    yield f"{name}: pinned {findings.pinned}, played {findings.newest or 'none'}; {counted}"
    for kind, how in findings.new_kinds.items():
        yield f"  new kind: {kind} ({', '.join(how)})"
    yield from (f"  new event: {event}" for event in findings.new_events)
    yield from (f"  kind that is gone: {kind}" for kind in findings.gone_kinds)
    yield from (f"  event that is gone: {event}" for event in findings.gone_events)
    yield from (f"  answer that is another: {line}" for line in findings.changed)
    yield from (f"  problem: {line}" for line in findings.problems)


def main():
    parser = options()
    parser.description = "Compares the newest agent clients with what turntree knows of them."
    parser.add_argument("--json", action="store_true", help="print the findings as one JSON object")
    chosen = parser.parse_args()
    folder, table = Path(chosen.folder).resolve(), json.loads((HERE / "clients.json").read_text())
    if chosen.install:
        return fetch(chosen, folder, table)
    program = program_is(chosen.program)
    beside = json.loads((HERE / "drift.json").read_text())
    found = {}
    for name in chosen.only or list(CLIENTS):
        found[name] = look_at(name, table[name], beside.get(name, {}), chosen, folder, program)
        if not chosen.json:
            print("\n".join(told(name, found[name])), flush=True)
    code = max((findings.code() for findings in found.values()), default=0)
    if chosen.json:
        clients = {name: asdict(findings) for name, findings in found.items()}
        print(json.dumps({"code": code, "clients": clients}, indent=1))
    raise SystemExit(code)


if __name__ == "__main__":
    main()
