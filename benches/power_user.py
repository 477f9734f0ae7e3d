#!/usr/bin/env python3
"""Makes the home of a power user, runs the commands over it, and fails where one is over its budget.

usage: power_user.py PROGRAM [--gb N] [--keep FOLDER] [--only NAME[,NAME...]]

At --gb 6 the home has 25,000 sessions with a million messages, 200,000 files of a workspace and 5,000 branches of one
session; other sizes are in proportion. Everything is drawn from a seed. A row has the processor time, the memory and
the bytes of a command, and its budget. Processor time is that of all its processes; a busy machine raises it by up to
a half. The table "A power user's home" of benches/README.md is this one.
"""
import argparse
import base64
import itertools
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
import uuid

MIB = 1 << 20
PROJECTS = [f"/home/u/work/{name}" for name in ("web", "api", "engine", "infra", "data", "mobile", "docs", "ml", "tools", "site", "game", "ops")]


class Words:
    """Text, ids and times, from a seed."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        letters = "etaoinshrdlucmfwypvbgkjqxz"
        weights = [26 - at for at in range(26)]
        draw = self.random
        words = {"".join(draw.choices(letters, weights, k=draw.randint(2, 10))) for _ in range(30000)}
        self.words = sorted(words, key=lambda word: (len(word), word))
        self.weights = list(itertools.accumulate(1 / (at + 5) for at in range(len(self.words))))
        self.sentences = [self.sentence() for _ in range(20000)]
        self.files = [(f"{draw.choice(self.words)}_{number}.py", [self.line() for _ in range(draw.randint(80, 900))]) for number in range(600)]
        self.pictures = [base64.b64encode(draw.randbytes(int(draw.lognormvariate(11, 0.6)))).decode() for _ in range(60)]
        self.millis = 1735689600000

    def sentence(self):
        return " ".join(self.random.choices(self.words, cum_weights=self.weights, k=self.random.randint(6, 22))).capitalize() + ". "

    def line(self):
        name, other = self.random.choices(self.words, cum_weights=self.weights, k=2)
        return f"    {name} = self.{other}({self.random.randint(0, 999)})"

    def prose(self, sentences):
        return "".join(self.random.choices(self.sentences, k=max(1, sentences)))

    def output(self, size):
        """What a tool prints: a part of a file with numbers, matches, or prose."""
        draw = self.random.random()
        name, lines = self.random.choice(self.files)
        if draw < 0.5:
            first = self.random.randrange(len(lines))
            return name, "\n".join(f"{first + at:6}\t{line}" for at, line in enumerate(lines[first : first + max(2, size // 45)]))
        if draw < 0.75:
            found = (self.random.choice(self.files) for _ in range(max(2, size // 70)))
            return "rg", "\n".join(f"src/{name}:{at}:{lines[at % len(lines)]}" for at, (name, lines) in enumerate(found))
        return "log", self.prose(size // 80)

    def id(self):
        return str(uuid.UUID(int=self.random.getrandbits(128), version=4))

    def time(self):
        self.millis += self.random.randint(50, 40000)
        seconds, millis = divmod(self.millis, 1000)
        return time.strftime("%Y-%m-%dT%H:%M:%S.", time.gmtime(seconds)) + f"{millis:03}Z"


def claude(words, home, messages, size):
    draw = words.random
    cwd, session, parent = draw.choice(PROJECTS), words.id(), None
    folder = f"{home}/.claude/projects/{cwd.replace('/', '-')}"
    os.makedirs(folder, exist_ok=True)
    path, made, left = f"{folder}/{session}.jsonl", 0, 0
    with open(path, "w") as file:

        def add(kind, message):
            nonlocal parent, made
            record = {"parentUuid": parent, "isSidechain": False, "userType": "external", "cwd": cwd, "sessionId": session, "version": "2.1.332", "gitBranch": "main", "type": kind, "message": message, "uuid": words.id(), "timestamp": words.time()}
            file.write(json.dumps(record, separators=(",", ":")) + "\n")
            parent, made = record["uuid"], made + 1

        def answer(part):
            usage = {"input_tokens": draw.randint(1, 20), "cache_creation_input_tokens": draw.randint(0, 9000), "cache_read_input_tokens": draw.randint(0, 160000), "output_tokens": draw.randint(20, 1500)}
            add("assistant", {"id": f"msg_{draw.getrandbits(64):x}", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5", "content": [part], "usage": usage})

        while made < messages:
            if left == 0:
                left = 1 + int(draw.expovariate(1 / 6))
                content = words.prose(draw.randint(1, 6))
                if draw.random() < 0.02:
                    content = [{"type": "text", "text": content}, {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": draw.choice(words.pictures)}}]
                add("user", {"role": "user", "content": content})
                continue
            left -= 1
            if left == 0:
                answer({"type": "text", "text": words.prose(draw.randint(2, 14))})
                continue
            call = f"toolu_{draw.getrandbits(80):x}"
            name, output = words.output(int(draw.lognormvariate(0, 0.9) * size))
            answer({"type": "tool_use", "id": call, "name": "Read", "input": {"file_path": f"{cwd}/src/{name}"}})
            add("user", {"role": "user", "content": [{"tool_use_id": call, "type": "tool_result", "content": output}]})
    return path, made


def codex(words, home, messages, size):
    draw = words.random
    cwd, began, made, left = draw.choice(PROJECTS), words.time(), 0, 0
    session = f"019f{words.id()[4:]}"
    folder = f"{home}/.codex/sessions/{began[:10].replace('-', '/')}"
    os.makedirs(folder, exist_ok=True)
    path = f"{folder}/rollout-{began[:19].replace(':', '-')}-{session}.jsonl"
    with open(path, "w") as file:

        def add(kind, payload):
            file.write(json.dumps({"timestamp": words.time(), "type": kind, "payload": payload}, separators=(",", ":")) + "\n")

        add("session_meta", {"id": session, "timestamp": began, "cwd": cwd, "originator": "codex-tui", "cli_version": "0.171.0", "source": "cli", "model_provider": "openai"})
        while made < messages:
            if left == 0:
                left = 1 + int(draw.expovariate(1 / 6))
                add("turn_context", {"turn_id": words.id(), "cwd": cwd, "approval_policy": "never", "sandbox_policy": {"type": "danger-full-access"}, "model": "gpt-5.5", "effort": "high"})
                text = words.prose(draw.randint(1, 6))
                add("response_item", {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]})
                add("event_msg", {"type": "user_message", "message": text})
                made += 1
                continue
            left -= 1
            if left == 0:
                text = words.prose(draw.randint(2, 14))
                add("response_item", {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]})
                made += 1
                continue
            call = f"call_{draw.getrandbits(90):x}"
            name, output = words.output(int(draw.lognormvariate(0, 0.9) * size))
            add("response_item", {"type": "function_call", "name": "exec_command", "arguments": json.dumps({"cmd": f"sed -n 1,200p {name}"}), "call_id": call})
            add("response_item", {"type": "function_call_output", "call_id": call, "output": output})
            made += 2
    return path, made


def make_home(home, gb):
    """Returns the bytes, the sessions and the messages. The sizes of sessions are log-normal, 40 messages on average."""
    words, sessions = Words(43), max(20, int(25000 * gb / 6))
    sizes = [max(4, min(14000, int(words.random.lognormvariate(3.0, 1.2)))) for _ in range(sessions)]
    per_message = gb * 1e9 / sum(sizes)
    total, messages = 0, 0
    for size in sizes:
        write = claude if words.random.random() < 0.65 else codex
        path, made = write(words, home, size, int(per_message * 2.6))
        total, messages = total + os.path.getsize(path), messages + made
    return total, sessions, messages


class Run:
    """What a command took."""

    def __init__(self, command, env, cwd):
        self.output = tempfile.TemporaryFile()
        since = time.monotonic()
        child = subprocess.Popen(command, env=env, cwd=cwd, stdout=self.output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)
        self.wall = time.monotonic() - since
        self.code = os.waitstatus_to_exitcode(status)
        self.cpu = usage.ru_utime + usage.ru_stime
        self.memory = usage.ru_maxrss * 1024
        self.written = usage.ru_oublock * 512
        self.bytes = self.output.seek(0, os.SEEK_END)

    def text(self):
        self.output.seek(0)
        return self.output.read().decode(errors="replace")


class Home:
    def __init__(self, program, folder, gb, only):
        self.program, self.folder, self.gb, self.only = program, folder, gb, only
        self.home, self.store = f"{folder}/home", f"{folder}/store"
        self.env = {"HOME": self.home, "PATH": os.environ["PATH"], "TURNTREE_STORE": self.store, "TURNTREE_ACTOR": "bench", "TURNTREE_MAINTENANCE": "off"}
        self.rows, self.over = [], 0

    def run(self, *words, store=None, home=None, expect=(0,)):
        env = {**self.env, **({"TURNTREE_STORE": store} if store else {}), **({"HOME": home} if home else {})}
        done = Run([self.program, *words], env, self.folder)
        if done.code not in expect:
            sys.exit(f"{' '.join(words)}: exit {done.code}: {done.text()[:600]}")
        return done

    def adopt(self):
        """Adopts as a user does: with packs between batches, and the maintenance that begins afterwards."""
        env = {name: value for name, value in self.env.items() if name != "TURNTREE_MAINTENANCE"}
        done = Run([self.program, "adopt"], env, self.folder)
        if done.code:
            sys.exit(f"adopt: exit {done.code}: {done.text()[:600]}")
        while subprocess.run(["pgrep", "-f", f"^{self.program} "], capture_output=True).returncode == 0:
            time.sleep(0.2)
        return done

    def row(self, name, done, **budgets):
        """Adds a row. A budget is for `cpu` in s, `memory` and `bytes`, or a pair of a measured and an allowed figure."""
        measured = {"cpu": done.cpu, "memory": done.memory, "bytes": done.bytes}
        told = []
        for what, most in budgets.items():
            figure, most = most if isinstance(most, tuple) else (measured[what], most)
            is_over = figure > most
            self.over += is_over
            told.append(f"{what.replace('_', ' ')} {show(what, figure)} of {show(what, most)}{' **over**' if is_over else ''}")
        self.rows.append((name, done.cpu, done.wall, done.memory, done.bytes, "; ".join(told)))
        print(f"| {name} | {done.cpu:.2f} | {done.wall:.2f} | {done.memory / MIB:.0f} | {done.bytes:,} | {'; '.join(told)} |", flush=True)

    def wants(self, part):
        return not self.only or part in self.only

    def measure(self):
        total, sessions, messages = make_home(self.home, self.gb)
        print(f"{total / 1e9:.2f} GB, {sessions:,} sessions, {messages:,} messages, load {os.getloadavg()[0]:.1f}\n")
        print("| command | cpu s | wall s | peak MiB | bytes of output | budget |\n|---|---|---|---|---|---|")
        done = self.adopt()
        self.row("`adopt`", done, cpu=25 * total / 1e9, memory=300 * MIB, written=(done.written, 1.3 * du(self.store)))
        if self.wants("home"):
            self.lists()
            self.maintenance(total)
        if self.wants("view"):
            self.view()
        if self.wants("wide"):
            self.wide()
        if self.wants("files"):
            self.files()
        if self.wants("large"):
            self.large()

    def lists(self):
        self.row("`adopt`, nothing new", self.run("adopt"), cpu=1.0 + self.gb)
        words = ["budget", "qqqzzzxxx"]
        self.row("`search`, the first", self.run("search", words[0], expect=(0, 1)), cpu=0.3)
        self.row("`search`", self.run("search", words[0], expect=(0, 1)), cpu=0.06)
        self.row("`search`, nothing found", self.run("search", words[1], expect=(0, 1)), cpu=0.06)
        self.row("`sessions`, the first", self.run("sessions"))
        self.row("`sessions`", self.run("sessions"), cpu=0.03)
        self.row("`sessions --json`", self.run("sessions", "--json"))
        self.row("`log -n 20`, no session here", self.run("log", "-n", "20", expect=(0, 6)), cpu=0.03)
        self.row("`log --all -n 1000`", self.run("log", "--all", "-n", "1000", "--oneline"), cpu=0.1)
        self.row("`branch`", self.run("branch"), cpu=0.5)
        self.row("`status`", self.run("status", expect=(0, 6)), cpu=0.03)
        completion = {**self.env, "COMPLETE": "bash", "_CLAP_COMPLETE_INDEX": "2", "_CLAP_COMPLETE_COMP_TYPE": "9", "_CLAP_IFS": "\n"}
        done = Run([self.program, "--", "turntree", "log", ""], completion, self.folder)
        self.row("completion of a name", done, cpu=0.02)

    def maintenance(self, total):
        passes = total / 1e9
        self.row("`stats`", self.run("stats"), cpu=6 * passes + 0.1, memory=300 * MIB)
        self.row("`usage --all`, the first", self.run("usage", "--all"), memory=300 * MIB)
        self.row("`usage --all`", self.run("usage", "--all"), cpu=0.3)
        self.row("`secrets scan --all`", self.run("secrets", "scan", "--all", expect=(0, 1, 3)), memory=300 * MIB)
        self.row("`secrets scan --all`, nothing new", self.run("secrets", "scan", "--all", expect=(0, 1, 3)), cpu=0.3)
        self.row("`gc --dry-run`", self.run("gc", "--dry-run"), memory=300 * MIB)
        self.row("`fsck`", self.run("fsck"), memory=512 * MIB)
        repack = self.run("repack")
        self.row("`repack`", repack, memory=300 * MIB)
        bundle = self.run("bundle", "create", "--all", "-o", f"{self.folder}/all.bundle", "--allow-secrets")
        self.row("`bundle create --all`", bundle, cpu=1.5 * repack.cpu + 0.1, memory=300 * MIB)
        os.remove(f"{self.folder}/all.bundle")

    def view(self):
        child = subprocess.Popen([self.program, "--json", "view", "--port", "0"], env=self.env, cwd=self.folder, stdout=subprocess.PIPE, text=True)
        try:
            told = json.loads(child.stdout.readline())
            key = {"authorization": f"Bearer {told['url'].split('#key=')[1][:64]}"}
            before, since = ticks(child.pid), time.monotonic()
            request = urllib.request.Request(f"http://127.0.0.1:{told['port']}/api/sessions?first=1&n=50", headers=key)
            body = urllib.request.urlopen(request).read()
            wall = time.monotonic() - since
            status = open(f"/proc/{child.pid}/status").read()
            memory = int(re.search(r"VmHWM:\s+(\d+)", status).group(1)) * 1024
            done = argparse.Namespace(cpu=ticks(child.pid) - before, wall=wall, memory=memory, bytes=len(body))
            self.row("`view`, its first list", done, cpu=0.1, memory=150 * MIB)
        finally:
            child.terminate()
            child.wait()

    def wide(self):
        store, count = f"{self.folder}/wide", max(100, int(5000 * self.gb / 6))
        self.run("init", store=store)
        self.run("snapshot", "-m", "begin", store=store)
        self.run("fork", *[f"s{number:04}" for number in range(count)], store=store)
        server = subprocess.Popen([self.program, "serve", "--stdio"], env={**self.env, "TURNTREE_STORE": store}, cwd=self.folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for number in range(count):
            for turn in range(3):
                request = {"jsonrpc": "2.0", "id": 1, "method": "snapshot", "params": {"message": f"{number}.{turn}", "branch": f"s{number:04}", "set": {f"scratchpad/s{turn}": f"{number * 7919} {turn}"}}}
                server.stdin.write(json.dumps(request) + "\n")
                server.stdin.flush()
                server.stdout.readline()
        server.stdin.close()
        server.wait()
        graph = self.run("log", "--graph", "--all", store=store)
        self.row(f"`log --graph --all` of {count:,} branches", graph, bytes=400 * count * 3)
        self.row("`snapshot` beside them", self.run("snapshot", "-m", "one more", store=store), cpu=0.01)
        self.row("`branch`", self.run("branch", store=store))
        self.row("`compare` of all", self.run("compare", "--all", store=store, expect=(0, 2)))

    def files(self):
        source, store, count = f"{self.folder}/tree", f"{self.folder}/files", max(1000, int(200000 * self.gb / 6))
        draw = random.Random(5)
        for number in range(count):
            folder = f"{source}/d{number // 200:04}"
            if number % 200 == 0:
                os.makedirs(folder)
            with open(f"{folder}/f{number}", "wb") as file:
                file.write(draw.randbytes(draw.randint(20, 600)))
        self.run("init", store=store)
        self.row(f"`snapshot` of {count:,} files", self.run("snapshot", "-m", "all", "--workspace", source, store=store))
        self.row("`snapshot`, nothing changed", self.run("snapshot", "-m", "again", "--workspace", source, store=store))
        copied = Run(["cp", "-r", source, f"{self.folder}/copy"], self.env, self.folder)
        os.sync()
        restored = self.run("restore", "HEAD", "--to", f"{self.folder}/restored", store=store)
        self.row("`restore --to`", restored, beside_cp_cpu=(restored.cpu, 3 * copied.cpu), beside_cp_wall=(restored.wall, 3 * copied.wall))
        for name in ("copy", "restored", "tree", "files"):
            shutil.rmtree(f"{self.folder}/{name}", ignore_errors=True)

    def large(self):
        """A transcript of a third of a GB per GB of home, in a home of its own."""
        words, store = Words(44), f"{self.folder}/large"
        size = int(self.gb * 333e6)
        path, _ = claude(words, f"{self.folder}/large-home", 4000, size // 2200)
        total = os.path.getsize(path)
        self.run("init", store=store)
        first = self.run("import", path, "--session", "large", store=store)
        self.row(f"`import` of a file of {total / 1e6:.0f} MB", first, memory=300 * MIB)
        self.row("`import`, nothing new", self.run("import", path, "--session", "large", store=store), cpu=0.05)
        adopt = {"store": f"{self.folder}/adopted", "home": f"{self.folder}/large-home"}
        self.row("`adopt` of this file alone", self.run("adopt", **adopt), memory=300 * MIB)
        add_line(words, path)
        self.row("`adopt`, one more line", self.run("adopt", **adopt), cpu=0.05)
        self.row("`import`, one more line", self.run("import", path, "--session", "large", store=store), cpu=0.05)
        for form, limit in (("source", 128), ("markdown", 256), ("html", 512)):
            done = self.run("export", "large", "--format", form, "-o", f"{self.folder}/exported", "--allow-secrets", store=store)
            self.row(f"`export --format {form}`", done, memory=limit * MIB)
            os.remove(f"{self.folder}/exported")


def add_line(words, path):
    """Adds a prompt to a transcript."""
    last = json.loads(subprocess.run(["tail", "-1", path], capture_output=True).stdout)
    last.update(parentUuid=last["uuid"], uuid=words.id(), timestamp=words.time(), type="user", message={"role": "user", "content": "one more"})
    with open(path, "a") as file:
        file.write(json.dumps(last, separators=(",", ":")) + "\n")


def ticks(pid):
    fields = open(f"/proc/{pid}/stat").read().split(") ")[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def du(path):
    return int(subprocess.run(["du", "-s", "--block-size=1", path], capture_output=True, text=True).stdout.split()[0])


def show(what, figure):
    if what.endswith("cpu") or what.endswith("wall"):
        return f"{figure:.2f} s"
    return f"{figure / MIB:.0f} MiB" if figure >= MIB else f"{figure:,.0f} bytes"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--gb", type=float, default=1.0, help="the size of the home; 6 is the whole one")
    parser.add_argument("--keep", help="the folder to work in, which stays")
    parser.add_argument("--only", default="", help="parts besides adopt: home, view, wide, files, large")
    options = parser.parse_args()
    folder = options.keep or tempfile.mkdtemp(prefix="power-user-")
    os.makedirs(folder, exist_ok=True)
    home = Home(os.path.abspath(options.program), folder, options.gb, [part for part in options.only.split(",") if part])
    try:
        home.measure()
    finally:
        if not options.keep:
            shutil.rmtree(folder, ignore_errors=True)
    print(f"\n{home.over} over budget")
    sys.exit(1 if home.over else 0)


if __name__ == "__main__":
    main()
