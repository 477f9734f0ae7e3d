"""Runs public recordings of agents through turntree, and prints what became of them by set.

    main.py [--only PART]... [--folder DIR] [--cache DIR] [--program PATH] [--most N] [--all]
            [--largest MIB] [--jobs N] [--patience SECONDS] [--json] [--verbose]

Exits with 1 when an answer is no that `sets.json` does not know, or when the program crashed.
A set that cannot be had is skipped with the reason.
"""

import argparse
import json
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from sets import Missing, content, drawn, file_name, listed_files, load, repository_of
from trial import QUESTIONS, Trial

HERE = Path(__file__).parent


def options():
    parser = argparse.ArgumentParser(description="Runs public recordings of agents through turntree.")
    parser.add_argument("--only", action="append", default=[], help="sets whose name has this part")
    parser.add_argument("--folder", help="git directories or checkouts, as OWNER/NAME or OWNER+NAME; no network then")
    parser.add_argument("--cache", default="target/world", help="where clones stay")
    parser.add_argument("--program", default="target/debug/turntree", help="the turntree to try")
    parser.add_argument("--most", type=int, default=60, help="files of a set, drawn from its seed")
    parser.add_argument("--all", action="store_true", help="every file of every set")
    parser.add_argument("--largest", type=float, default=16.0, help="MiB of a file; larger ones are left out")
    parser.add_argument("--jobs", type=int, default=2, help="files at once")
    parser.add_argument("--patience", type=float, default=120.0, help="seconds for each file")
    parser.add_argument("--json", action="store_true", help="everything that was found, as JSON")
    parser.add_argument("--verbose", action="store_true", help="known answers too")
    return parser.parse_args()


def tried(each, repository, entry, chosen):
    path, blob, _ = entry
    trial = Trial(chosen.program, chosen.patience, file_name(path), content(repository, blob), each.format_of(path))
    return path, trial.whole()


def try_set(each, chosen, seen):
    """What was found in a set; a file that another set has too is tried once."""
    repository = repository_of(each, chosen.folder, chosen.cache)
    files, left_out = [], Counter()
    for entry in listed_files(each, repository):
        _, blob, size = entry
        if size is None:
            left_out["absent"] += 1
        elif size > chosen.largest * (1 << 20):
            left_out["large"] += 1
        elif blob in seen:
            left_out["again"] += 1
        else:
            seen.add(blob)
            files.append(entry)
    files = drawn(files, None if chosen.all else chosen.most, each.seed)
    found = {"set": each.name, "licence": each.licence, "files": len(files), "left_out": left_out}
    found |= {"formats": Counter(), "refused": 0, "no": Counter(), "known": [], "failures": [], "unread": Counter()}
    with ThreadPoolExecutor(chosen.jobs) as pool:
        for path, trial in pool.map(lambda entry: tried(each, repository, entry, chosen), files):
            note(found, each, path, trial)
    return found


def note(found, each, path, trial):
    if trial.format:
        found["formats"][trial.format] += 1
    elif not trial.answers["import"]:
        found["refused"] += 1
    found["unread"].update({f"{trial.format} {kind}": count for kind, count in trial.unread.items()})
    for question, reason in trial.answers.items():
        if not reason:
            continue
        known = None if trial.crashed else each.known_reason(path, question)
        line = {"path": path, "question": question, "reason": reason, "known": known}
        found["known" if known else "failures"].append(line)
        found["no"][question] += not known


def row(found, seconds):
    formats = ", ".join(f"{count} {name}" for name, count in found["formats"].most_common())
    cells = "  ".join(str(found["no"][question] or "-").rjust(len(question)) for question in QUESTIONS)
    return f"{found['set']:<42} {found['files']:>5} {found['refused']:>7}  {cells}  {len(found['known']):>5} {seconds:>6.0f} s  {formats}"


def notes(found, verbose):
    for line in found["failures"] + (found["known"] if verbose else []):
        about = f" (known: {line['known']})" if line["known"] else ""
        yield f"{found['set']}, {line['path']}, {line['question']}: {line['reason']}{about}"
    for kind, count in found["unread"].most_common():
        yield f"{found['set']}: {count} records that are not read: {kind}"


def main():
    chosen = options()
    chosen.program = str(Path(chosen.program).resolve())
    seen, results, lines = set(), [], []
    if not chosen.json:
        print(f"{'set':<42} {'files':>5} {'refused':>7}  {'  '.join(QUESTIONS)}  known     time  formats", flush=True)
    for each in load(HERE / "sets.json", chosen.only):
        begun = time.monotonic()
        try:
            found = try_set(each, chosen, seen)
        except Missing as reason:
            results.append({"set": each.name, "skipped": str(reason)})
            lines.append(f"{each.name}: skipped: {reason}")
            continue
        results.append(found)
        lines += notes(found, chosen.verbose)
        if not chosen.json:
            print(row(found, time.monotonic() - begun), flush=True)
    if chosen.json:
        print(json.dumps(results, indent=1, ensure_ascii=False))
    else:
        tried_any = any("files" in found for found in results)
        print("\n".join(["", *(lines or ["Everything is as expected." if tried_any else "No set was tried."])]))
    raise SystemExit(1 if any(found.get("failures") for found in results) else 0)


if __name__ == "__main__":
    main()
