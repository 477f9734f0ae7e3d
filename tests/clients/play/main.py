"""Plays scripts with real agent clients against a stand-in, and prints what a store made of it by client.

    main.py [--only CLIENT]... [--pinned] [--offline-ok] [--program PATH] [--folder DIR]
            [--delay SECONDS] [--patience SECONDS] [--keep] [--install]

Exits with 1 when an answer that `clients.json` expects to be yes is no. A client that does not install
is skipped with the reason.
"""

import argparse
import json
import shutil
import tempfile
import time
from pathlib import Path

from clients import CLIENTS
from install import Skipped, choose, program_is, programs
from place import Place
from play import DRIFT, Play
from standin import StandIn

QUESTIONS = ["context", "resume", "files", "source", "rollback", "rewind", "fork", "carry-on", "take-over", "edit", "worktree", "uncompact", "two-ways", "sub-agent", "compaction", "kinds", "said-back", "own-edits", "learned", "interrupted", "explored", "replayed", "reclaimed"]
HERE = Path(__file__).parent


def options():
    parser = argparse.ArgumentParser(description="Plays scripts with real agent clients.")
    parser.add_argument("--only", action="append", choices=list(CLIENTS), help="play this client")
    parser.add_argument("--pinned", action="store_true", help="the versions of clients.json")
    parser.add_argument("--offline-ok", action="store_true", help="play what is installed if need be")
    parser.add_argument("--program", default="target/debug/turntree", help="the turntree to try")
    parser.add_argument("--folder", default="target/clients", help="where installations stay")
    parser.add_argument("--delay", type=float, default=0.0, help="seconds before each answer")
    parser.add_argument("--patience", type=float, default=240.0, help="seconds for each client")
    parser.add_argument("--install", action="store_true", help="installs the clients and plays none")
    parser.add_argument("--keep", action="store_true", help="leave homes and stores, and say where")
    return parser


def play(name, folders, chosen, program, look=None):
    """The answers of one client, in a place of its own. `look` is given the play before the place goes."""
    folder = Path(tempfile.mkdtemp(prefix=f"turntree-{name}-"))
    place = Place(folder, folders, program, chosen.patience)
    stand_in = StandIn(place.work, chosen.delay)
    played = Play(CLIENTS[name](place, stand_in.port), stand_in)
    try:
        try:
            played.whole()
        except DRIFT as failure:
            played.answers["played"] = f"{type(failure).__name__}: {failure}"
        if look:
            look(played)
    finally:
        stand_in.close()
        place.end_processes()
        if chosen.keep:
            noted = json.dumps(stand_in.noted, indent=1, ensure_ascii=False)
            (folder / "requests.json").write_text(noted)
            print(f"{name}: {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    return played.answers


def row(name, version, answers, seconds):
    words = {question: "no" if answers[question] else "yes" for question in answers}
    cells = [words.get(question, "-").ljust(len(question)) for question in QUESTIONS]
    return f"{name:<12} {version:<10} {'  '.join(cells)}  {seconds:>5.0f} s"


def judged(name, expected, answers):
    """Lines about what is no, and about what is better than expected; how many are worse."""
    lines, worse = [], 0
    for question, reason in answers.items():
        known = expected.get("no", {}).get(question)
        if reason:
            worse += known is None
            lines.append(f"{name}, {question}: {reason}" + (f" (known: {known})" if known else ""))
        elif known:
            lines.append(f"{name}, {question}: is yes now, and clients.json says no ({known})")
    for question in expected["yes"]:
        if question not in answers:
            worse += 1
            lines.append(f"{name}, {question}: was not played")
    return lines, worse


def fetch(chosen, folder, table):
    """Installs the clients, so that playing them waits for no registry."""
    for name in chosen.only or list(CLIENTS):
        try:
            programs(folder, table[name]["package"], choose(folder, table[name], chosen.pinned, chosen.offline_ok))
        except Skipped as reason:
            print(f"{name:<12} not installed: {reason}", flush=True)


def main():
    chosen = options().parse_args()
    folder, table = Path(chosen.folder).resolve(), json.loads((HERE / "clients.json").read_text())
    if chosen.install:
        return fetch(chosen, folder, table)
    program = program_is(chosen.program)
    heads = "  ".join(QUESTIONS)
    print(f"{'client':<12} {'version':<10} {heads}  {'time':>7}", flush=True)
    notes, worse, played = [], 0, 0
    for name in chosen.only or list(CLIENTS):
        begun = time.monotonic()
        try:
            version = choose(folder, table[name], chosen.pinned, chosen.offline_ok)
            folders = programs(folder, table[name]["package"], version)
        except Skipped as reason:
            print(f"{name:<12} skipped: {reason}", flush=True)
            continue
        answers, played = play(name, folders, chosen, program), played + 1
        print(row(name, version, answers, time.monotonic() - begun), flush=True)
        lines, count = judged(name, table[name], answers)
        notes, worse = notes + lines, worse + count
    well = "Every answer is as expected." if played else "No client was played."
    print("\n".join(["", *(notes or [well])]))
    raise SystemExit(1 if worse else 0)


if __name__ == "__main__":
    main()
