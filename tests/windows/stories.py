#!/usr/bin/env python3
"""Plays the pages of tests/stories with the program for Windows under Wine, and counts what differs.

    tests/windows/stories.py [--page NAME]... [--native] [--no-build] [--shown N]

Compares without ids, sizes and the form of paths, which follow from the directory: the rest of a line is to be the
same. A page that is listed in `DIFFERS` has a reason; any other page that differs fails. `--native` plays them with
the program of this system, as a check of this player.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from check import EXE, NATIVE, ROOT, missing, prepared, wine_environment

PAGES = ROOT / "tests/stories"
# Pages with commands whose output is another on Windows, or under Wine, and why.
OPEN = "Wine does not replace a file that the store has open"
LONG = "a command line has at most 32,767 characters there"
DIFFERS: dict[str, str] = {
    "adopting": "HOME does not name the home directory there",
    "asking": "Wine has no sh for 'bisect run'",
    "budget": LONG,
    "damage": OPEN,
    "forgetting": LONG,
    "hooking": "hooks name the program by its own path there",
    "keeping-small": OPEN,
    "plumbing": "a program of a release names its commit",
    "swarm": "Wine names a closed pipe by another error than Windows",
    "words": "Wine reports a file in place of a directory by another error",
    "workspace": "Wine shows no links, and waits in a named pipe",
}


def record(turn, part, kind, message, more=""):
    at = f"2026-11-20T10:{turn // 60 % 60:02}:{turn % 60:02}.000Z"
    return (f'{{"type":"{kind}","uuid":"u-{turn}-{part}","sessionId":"s-1","cwd":"/project","version":"2.1.0",'
            f'"timestamp":"{at}","message":{{{message}}}{more}}}\n')


def claude_code(turns):
    """The transcript of the pages: the same as `claude_code` of tests/src/transcripts.rs."""
    text = ""
    for turn in range(turns):
        if turn % 4 == 0:
            prompt = f"Please look at part {turn} of the parser and say what you find."
            text += record(turn, 0, "user", f'"role":"user","content":"{prompt}"')
            continue
        call, path = f"call-{turn}", f"/project/src/part_{turn % 5}.rs"
        content = f"fn part_{turn}() -> usize {{\\n    {turn}\\n}}\\n" * 8
        used = f'{{"type":"tool_use","id":"{call}","name":"Write","input":{{"file_path":"{path}","content":"{content}"}}}}'
        text += record(turn, 1, "assistant", f'"role":"assistant","id":"msg-{turn}","model":"model-1","content":[{used}]')
        done = f'{{"type":"tool_result","tool_use_id":"{call}","content":"written"}}'
        more = (f',"toolUseResult":{{"type":"create","filePath":"{path}","content":"{content}","originalFile":null,'
                '"structuredPatch":[]}')
        text += record(turn, 2, "user", f'"role":"user","content":[{done}]', more)
    return text


class Shell:
    def __init__(self, page, folder, prefix):
        self.root, self.prefix = folder, prefix
        for name in ["bin", "home", "work"]:
            (folder / name).mkdir()
        self.home = folder / "home"
        program = folder / "bin/turntree"
        if prefix is None:
            program.symlink_to(NATIVE)
        else:
            program.write_text(f'#!/bin/sh\nexport WINEPREFIX={prefix} WINEDEBUG=-all\nexec wine {EXE} "$@"\n')
            program.chmod(0o755)
            # Wine decides where the home directory is: it is emptied for each page.
            self.home = next((prefix / "drive_c/users").glob("[!P]*"))
            for entry in [".claude", ".codex", ".gemini", "AppData/Local/turntree", "AppData/Roaming/turntree"]:
                shutil.rmtree(self.home / entry, ignore_errors=True)
        for name, turns in [("session.jsonl", 9), ("longer.jsonl", 11)]:
            (folder / "work" / name).write_text(claude_code(turns))
        for name, vectors in [("swarm", "swarmsdk"), ("open-codesign", "open-codesign")]:
            if page in ("swarm", "designs"):
                (folder / "work" / name).symlink_to(ROOT / "tests/vectors" / vectors)

    def run(self, command):
        env = {"PATH": f"{self.root}/bin:/usr/bin:/bin", "LC_ALL": "C.UTF-8", "TZ": "UTC", "HOME": str(self.home),
               "TURNTREE_NOW": "2026-11-20T12:00:00Z", "TURNTREE_ACTOR": "ann", "TURNTREE_MAINTENANCE": "off"}
        try:
            done = subprocess.run(["sh", "-c", f"exec 2>&1\n{command}"], cwd=self.root / "work", env=env, timeout=120,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        except subprocess.TimeoutExpired:
            return "it did not end\n"
        text = done.stdout.decode("utf-8", "replace")
        if text and not text.endswith("\n"):
            text += "\n"
        return text + (f"[exit {done.returncode}]\n" if done.returncode else "")

    def plain(self, line):
        """A line without what follows from the directory or the system."""
        line = line.rstrip("\r")
        for place, name in [(self.home, "[ROOT]/home"), (self.root, "[ROOT]")]:
            dos = "Z:" + str(place).replace("/", "\\")
            for form in [dos.replace("\\", "\\\\"), dos, dos.replace("\\", "/"), str(place)]:
                line = line.replace(form, name)
        line = re.sub(r"C:(\\\\|\\|/)users\1[^\\/]+", "[ROOT]/home", line)
        line = re.sub(r"\\+", "/", line)
        for folder, name in [("AppData/Local", ".local/share"), ("AppData/Roaming", ".config")]:
            line = line.replace(f"[ROOT]/home/{folder}/", f"[ROOT]/home/{name}/")
        line = re.sub(r"\b[0-9a-f]{12,64}\b", "ID", line)
        line = re.sub(r"[\d\0][\d.,\0]* (B|KiB|MiB)\b", "SIZE", line)
        return re.sub(r" +", " ", line).rstrip()

    def fits(self, expected, line):
        parts = self.plain(expected.replace("[..]", "\0")).split("\0")
        return re.fullmatch(".*".join(map(re.escape, parts)), self.plain(line)) is not None


def blocks(page):
    """The commands of a page, with the lines that they print."""
    lines, at, kind = page.split("\n"), 0, None
    while at < len(lines):
        line = lines[at]
        at += 1
        if line.startswith("```"):
            kind = line
        elif kind == "```console" and line.startswith("$ "):
            command = line[2:]
            while "<<'END'" in command and not command.endswith("\nEND"):
                command += "\n" + lines[at]
                at += 1
            expected = []
            while at < len(lines) and not lines[at].startswith(("$ ", "```")):
                expected.append(lines[at])
                at += 1
            yield command, expected


def play(path, prefix, shown):
    """Plays a page; returns the number of its commands, and of those that differ."""
    count, differing = 0, 0
    with tempfile.TemporaryDirectory() as folder:
        shell = Shell(path.stem, Path(folder).resolve(), prefix)
        for command, expected in blocks(path.read_text()):
            count += 1
            found = shell.run(command).splitlines()
            if len(found) == len(expected) and all(map(shell.fits, expected, found)):
                continue
            differing += 1
            if differing <= shown:
                print(f"--- {path.name}: $ {command}", *(f"  expected {line}" for line in expected),
                      *(f"  found    {line}" for line in found), sep="\n", flush=True)
    return count, differing


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--page", action="append", default=[])
    parser.add_argument("--native", action="store_true")
    parser.add_argument("--no-build", action="store_true")
    parser.add_argument("--shown", type=int, default=0)
    chosen = parser.parse_args()
    lacks = None if chosen.native else missing()
    if lacks:
        print(f"the stories were not played on Windows: {lacks}")
        return 0
    prefix = None if chosen.native else prepared(builds=not chosen.no_build)
    failed, commands, same = 0, 0, 0
    for path in sorted(PAGES.glob("*.md")):
        if chosen.page and path.stem not in chosen.page:
            continue
        count, differing = play(path, prefix, chosen.shown)
        commands, same = commands + count, same + count - differing
        reason = DIFFERS.get(path.stem) if differing and not chosen.native else None
        failed += bool(differing) and reason is None
        note = f", {reason}" if reason else ""
        print(f"{'ok     ' if not differing else 'differs'} {path.stem}: {count - differing} of {count}{note}", flush=True)
    print(f"{same} of {commands} commands say the same")
    if prefix:
        subprocess.run(["wineserver", "-k"], env=wine_environment(prefix), check=False)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
