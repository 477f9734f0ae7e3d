#!/usr/bin/env python3
"""Builds the program for Windows and runs it under Wine: daily work, two processes at once, kills
during commits, names that Windows treats in its own way, and stores that move between systems.

    tests/windows/check.py [--kills N] [--seed N] [--no-build] [--only NAME]

Says what is missing, and succeeds, if the machine cannot build for Windows or has no Wine. What Wine
cannot show is listed in docs/reference/platforms.md.
"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TARGET = "x86_64-pc-windows-gnu"
EXE = ROOT / "target" / TARGET / "debug" / "turntree.exe"
NATIVE = ROOT / "target/debug/turntree"
# Unoptimised, as the program runs for moments only.
BUILD = ["cargo", "build", "--package", "turntree-cli", "--bin", "turntree", "--target", TARGET, "--locked",
         "--config", "profile.dev.package.turntree.opt-level=0"]
# Seconds: Wine starts slowly on a busy machine.
PATIENCE = 120


def missing():
    """Returns the missing tool, or None."""
    for tool in ["x86_64-w64-mingw32-gcc", "wine", "cargo"]:
        if not shutil.which(tool):
            return f"{tool} is not installed"
    found = subprocess.run(["rustup", "target", "list", "--installed"], capture_output=True, text=True)
    if TARGET not in found.stdout.split():
        return f"the target {TARGET} is not installed"
    return None


def windows(path):
    """The path of a file of this machine as Wine shows it."""
    return "Z:" + str(path).replace("/", "\\")


class Machine:
    """A home directory, a project and a store, and the programs that work on them."""

    def __init__(self, prefix, folder):
        self.folder = folder
        # Wine decides where the home directory is.
        self.home = next((prefix / "drive_c/users").glob("[!P]*"))
        self.work = folder / "work"
        self.work.mkdir()
        self.store = folder / "store"
        self.prefix = prefix

    def environment(self, is_windows):
        kept = {name: value for name, value in os.environ.items() if not name.startswith("TURNTREE_")}
        kept |= {"WINEPREFIX": str(self.prefix), "WINEDEBUG": "-all", "TURNTREE_ACTOR": "test",
                 "TURNTREE_MAINTENANCE": "off", "NO_COLOR": "1"}
        if not is_windows:
            kept["HOME"] = str(self.folder)
        return kept

    def command(self, arguments, is_windows=True, store=None):
        store = store or self.store
        if is_windows:
            return ["wine", str(EXE), "--store", windows(store), *arguments]
        return [str(NATIVE), "--store", str(store), *arguments]

    def start(self, *arguments, is_windows=True, cwd=None, store=None):
        return subprocess.Popen(
            self.command(arguments, is_windows, store), cwd=cwd or self.work, text=True, encoding="utf-8",
            env=self.environment(is_windows), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, start_new_session=True)

    def run(self, *arguments, code=0, text=None, **how):
        """Runs the program to its end; returns its output."""
        started = self.start(*arguments, **how)
        try:
            out, err = started.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            os.killpg(started.pid, signal.SIGKILL)
            raise AssertionError(f"{arguments} did not end") from None
        shown = f"{' '.join(arguments)}\nexit code {started.returncode}\n{out}\n{err}"
        codes = code if isinstance(code, tuple) else (code,)
        assert started.returncode in codes, shown
        assert text is None or text in out + err, f"expected {text!r}\n{shown}"
        return out + err if code else out

    def unix(self, *arguments, **how):
        return self.run(*arguments, is_windows=False, **how)

    def state(self):
        """What changes when a process writes to the store."""
        found = []
        for folder in ["journal", "packs", "."]:
            for entry in os.scandir(self.store / folder):
                try:
                    found.append((entry.name, entry.stat().st_size, entry.stat().st_mtime_ns))
                except FileNotFoundError:
                    found.append((entry.name, 0, 0))
        return sorted(found)

    def turns(self, **how):
        lines = self.run("log", "--json", "-n", "100000", **how).splitlines()
        return [json.loads(line) for line in lines]


def transcript(cwd, prompts):
    """A transcript of Claude Code with some prompts, with the lines of Windows."""
    records, parent = [], None
    for at in range(prompts):
        for role in ["user", "assistant"]:
            uuid = f"{role}{at}"
            content = f"prompt {at} about mangrove" if role == "user" else [{"type": "text", "text": f"answer {at}"}]
            message = {"role": role, "content": content}
            if role == "assistant":
                message["id"] = f"m{at}"
            records.append({"type": role, "uuid": uuid, "parentUuid": parent, "sessionId": "s1", "cwd": cwd,
                            "timestamp": f"2026-01-01T00:00:{at * 2:02}Z", "message": message})
            parent = uuid
    return "".join(json.dumps(record) + "\r\n" for record in records)


def check_daily_work(machine):
    """Adopt, log, search, fork, merge, resume, bundle, fsck."""
    machine.run("demo", text="turntree")
    cwd = "C:\\Users\\Ann Müller\\project"
    folder = machine.home / ".claude/projects/C--Users-Ann-M-ller-project"
    shutil.rmtree(machine.home / ".claude", ignore_errors=True)
    folder.mkdir(parents=True)
    text = transcript(cwd, 3)
    (folder / "s1.jsonl").write_bytes(text.encode())
    machine.run("adopt", text="claude-code")
    machine.run("switch", "s1")
    assert len(machine.turns()) == 6
    machine.run("search", "mangrove", text="mangrove")
    # Every byte is restored, line ends included.
    machine.run("export", "HEAD", "--format", "source", "-o", windows(machine.folder / "back.jsonl"))
    assert (machine.folder / "back.jsonl").read_bytes() == text.encode()
    machine.run("fork", "plan-b")
    machine.run("switch", "plan-b")
    machine.run("snapshot", "-m", "on b", "--set", "scratchpad/b=1")
    machine.run("switch", "main")
    machine.run("merge", "plan-b")
    machine.run("cat", "HEAD:scratchpad/b", text="1")
    out = machine.run("resume", "HEAD", "--cwd", windows(machine.work))
    assert "pushd" in out and "claude --resume" in out, out
    machine.run("bundle", "create", "s1", "-o", windows(machine.folder / "all.ttb"))
    machine.run("bundle", "verify", windows(machine.folder / "all.ttb"))
    machine.run("status")
    machine.run("fsck")


def check_workspace(machine):
    """Snapshots of files, restores, rollback, undo."""
    work = machine.work
    (work / "src").mkdir()
    (work / "src/main.py").write_text("one\n")
    (work / "notes äöü.txt").write_text("x\r\n")
    (work / ".gitignore").write_text("*.log\n")
    (work / "a.log").write_text("ignored")
    machine.run("snapshot", "-m", "first", "--workspace", ".")
    (work / "src/main.py").write_text("two\n")
    (work / "new.txt").write_text("new\n")
    machine.run("snapshot", "-m", "second", "--workspace", ".")
    names = machine.run("ls", "HEAD:files")
    assert "a.log" not in names and "notes äöü.txt" in names, names
    machine.run("restore", "HEAD~1")
    assert (work / "src/main.py").read_text() == "one\n" and not (work / "new.txt").exists()
    machine.run("undo")
    assert (work / "src/main.py").read_text() == "two\n" and (work / "new.txt").exists()
    machine.run("rollback", "1")
    assert (work / "src/main.py").read_text() == "one\n"
    machine.run("undo")
    assert (work / "src/main.py").read_text() == "two\n"
    # A file that another process has open is replaced.
    with open(work / "src/main.py") as held:
        machine.run("restore", "HEAD~1")
        assert held.read() == "two\n"
    assert (work / "src/main.py").read_text() == "one\n"
    machine.run("gc")
    machine.run("repack")
    machine.run("fsck")
    # A path of more than 260 characters.
    deep = work / "/".join(["d" * 60] * 5)
    deep.mkdir(parents=True)
    (deep / "far.txt").write_text("far\n")
    machine.run("snapshot", "-m", "deep", "--workspace", ".")
    to = machine.folder / "laid out"
    machine.run("restore", "HEAD", "--to", windows(to))
    assert (to / "files" / deep.relative_to(work) / "far.txt").read_text() == "far\n"


def check_names(machine):
    """Names that Windows reserves, names that differ by case, executables."""
    files = {"aux.txt": "a", "dot.": "d", "a:b": "c", "back\\slash": "b", "plain": "p"}
    (machine.work / "state.json").write_text(json.dumps({"files": files}))
    machine.run("snapshot", "-m", "names", "--state", "state.json")
    to = machine.folder / "coded"
    machine.run("restore", "HEAD", "--to", windows(to))
    found = sorted(path.name for path in (to / "files").iterdir())
    assert found == ["%61ux.tx%74", "%64ot%2E", "a%3Ab", "back%5Cslash", "plain"], found
    (machine.work / "state.json").write_text(json.dumps({"files": {"d/Makefile": "1", "d/makefile": "2"}}))
    machine.run("snapshot", "-m", "case", "--state", "state.json")
    to = machine.folder / "case"
    machine.run("restore", "HEAD", "--to", windows(to), code=2, text="cannot both be files here")
    left = [path for path in to.rglob("*") if path.is_file()]
    assert not left, f"nothing is written: {left}"
    # The executable bit of Linux survives an edit on Windows.
    work, store = machine.folder / "program", machine.folder / "of both"
    work.mkdir()
    (work / "run.sh").write_text("#!/bin/sh\n")
    (work / "run.sh").chmod(0o755)
    how = {"cwd": work, "store": store}
    # A directory has another path on each system, so its session is named.
    of = ["--session", "default"]
    machine.unix("snapshot", "-m", "program", "--workspace", ".", *of, **how)
    (work / "run.sh").write_text("#!/bin/sh\necho\n")
    machine.run("snapshot", "-m", "edited", "--workspace", ".", *of, **how)
    machine.unix("restore", "default/main", "--to", str(machine.folder / "again"), **how)
    again = machine.folder / "again/files/run.sh"
    assert again.read_text().endswith("echo\n") and again.stat().st_mode & 0o100, "it is executable"


def check_both_systems(machine):
    """A store of each system, opened and continued on the other."""
    for first, second in [(machine.unix, machine.run), (machine.run, machine.unix)]:
        store = machine.folder / f"store of {first.__name__}"
        of = ["--session", "default"]
        first("snapshot", "-m", "one", "--set", "scratchpad/a=1", *of, store=store)
        second("snapshot", "-m", "two", "--set", "scratchpad/b=2", *of, store=store)
        second("gc", store=store)
        first("repack", store=store)
        first("snapshot", "-m", "three", "--set", "scratchpad/c=3", *of, store=store)
        for run in [first, second]:
            run("fsck", store=store)
            assert run("cat", "default/main:scratchpad/a", store=store).strip() == "1"
            lines = run("log", "--json", *of, store=store).splitlines()
            assert [json.loads(line)["turn"] for line in lines] == [3, 2, 1]


def check_processes(machine):
    """Several writers at once: every acknowledged turn is in the store."""
    machine.run("init")
    writers, turns = 3, 5
    for turn in range(turns):
        started = [machine.start("snapshot", "-m", f"{turn}", "--set", f"scratchpad/k{writer}={turn}",
                                 "--session", f"w{writer}")
                   for writer in range(writers)]
        for one in started:
            out, err = one.communicate(timeout=PATIENCE)
            assert one.returncode == 0, out + err
    for writer in range(writers):
        lines = machine.run("log", "--json", "--session", f"w{writer}").splitlines()
        assert len(lines) == turns, lines
    machine.run("fsck")


def check_kills(machine, kills, seed):
    """Kills processes while they commit, and looks for every acknowledged turn."""
    machine.run("init")
    draw = random.Random(seed)
    machine.run("snapshot", "-m", "begin", "--set", "scratchpad/n=-1", "--session", "s")
    began = time.monotonic()
    machine.run("snapshot", "-m", "usual", "--set", "scratchpad/n=-1", "--session", "s")
    usual = time.monotonic() - began
    acknowledged, killed, torn = [], 0, 0
    for at in range(kills):
        before = machine.state()
        one = machine.start("snapshot", "-m", f"{at}", "--set", f"scratchpad/n={at}", "--session", "s")
        if at % 3:
            # While it writes: a moment after the first change of a file.
            while machine.state() == before and one.poll() is None:
                time.sleep(0.0005)
            time.sleep(0.03 * draw.random() ** 3)
        else:
            time.sleep(usual * draw.random())
        os.killpg(one.pid, signal.SIGKILL)
        out, _ = one.communicate(timeout=PATIENCE)
        if out.strip():
            acknowledged.append(at)
        killed += one.returncode == -signal.SIGKILL
        if at % 10 == 9 or at == kills - 1:
            turns = {turn["message"] for turn in machine.turns()}
            lost = [str(done) for done in acknowledged if str(done) not in turns]
            assert not lost, f"acknowledged and lost: {lost}"
            torn = sum(str(done) not in turns for done in range(at + 1))
            machine.run("fsck")
    machine.run("snapshot", "-m", "end", "--set", "scratchpad/n=end", "--session", "s")
    machine.run("gc")
    machine.run("fsck")
    assert killed, "no process was killed while it ran"
    return f"{killed} of {kills} killed, {len(acknowledged)} acknowledged, none lost, {torn} turns gone as allowed"


CHECKS = {"daily work": check_daily_work, "workspace": check_workspace, "names": check_names,
          "both systems": check_both_systems, "processes": check_processes, "kills": check_kills}


def prepared(builds):
    """Builds both programs; returns the directory of Wine, with what the program wants in it."""
    if builds:
        subprocess.run(BUILD, cwd=ROOT, check=True)
    if not NATIVE.exists():
        subprocess.run(["cargo", "build", "--workspace", "--bin", "turntree", "--locked"], cwd=ROOT, check=True)
    prefix = ROOT / "target/wine"
    environment = wine_environment(prefix)
    prefix.parent.mkdir(exist_ok=True)
    # One server for all commands: to start one for each takes longer than a command, and a kill meanwhile may leave
    # the next command waiting.
    subprocess.run(["wineserver", "-p"], env=environment, check=False)
    subprocess.run(["wineboot", "--init"], env=environment, check=True, timeout=PATIENCE * 3,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    shim = EXE.with_name("bcryptprimitives.dll")
    # At once: another check may be starting programs with it.
    made = shim.with_suffix(f".{os.getpid()}")
    subprocess.run(["x86_64-w64-mingw32-gcc", "-shared", "-O1", "-o", str(made),
                    str(Path(__file__).with_name("bcryptprimitives.c")), "-ladvapi32"], check=True)
    made.replace(shim)
    return prefix


def wine_environment(prefix):
    return {**os.environ, "WINEPREFIX": str(prefix), "WINEDEBUG": "-all", "WINEDLLOVERRIDES": "mscoree,mshtml="}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--no-build", action="store_true")
    parser.add_argument("--only", choices=CHECKS, action="append")
    arguments = parser.parse_args()
    lacks = missing()
    if lacks:
        print(f"the program was not run on Windows: {lacks}")
        return 0
    prefix = prepared(builds=not arguments.no_build)
    failed = 0
    for name, check in CHECKS.items():
        if arguments.only and name not in arguments.only:
            continue
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            machine = Machine(prefix, Path(folder).resolve())
            try:
                told = check(machine, arguments.kills, arguments.seed) if check is check_kills else check(machine)
                print(f"ok      {name} ({time.monotonic() - began:.0f} s){': ' + told if told else ''}", flush=True)
            except AssertionError as error:
                failed += 1
                print(f"FAILED  {name}: {error}", flush=True)
    subprocess.run(["wineserver", "-k"], env=wine_environment(prefix), check=False)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
