#!/usr/bin/env python3
"""Adopts what clients copy, and prints what is left of it: the table "Copied histories" of benches/README.md.

usage: copies.py PROGRAM [--scale N] [--only NAME[,NAME...]] [--keep FOLDER] [--sessions FOLDER]

Each corpus is made by a generator of its own, seeded, in the shapes in which clients write copied histories. It is
adopted into a new store in a home of its own, repacked, archived, sent to a second store as a bundle, and its files are
removed by `shrink`. Every file is compared with `export --format source` after each step. `--sessions` adds a folder of
recorded sessions as a corpus. Sizes are those of `du --block-size=1`, in MB of 1,000,000 bytes; N multiplies the turns.
"""
import argparse
import base64
import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import uuid


class Words:
    """Text, ids and times of one corpus, from its seed."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        letters = "abcdefghijklmnopqrstuvwxyz"
        self.words = ["".join(self.random.choices(letters, k=self.random.randint(3, 9))) for _ in range(4000)]
        self.millis = 0

    def text(self, words):
        return " ".join(self.random.choices(self.words, k=words))

    def id(self):
        return str(uuid.UUID(int=self.random.getrandbits(128), version=4))

    def time(self):
        self.millis += 37
        seconds, millis = divmod(self.millis, 1000)
        return f"2026-08-{3 + seconds // 86400:02}T{seconds // 3600 % 24:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{millis:03}Z"


def write(path, records):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        for record in records:
            file.write(json.dumps(record, separators=(",", ":")) + "\n")
    # Old enough for `shrink`.
    old = time.time() - 30 * 24 * 3600
    os.utime(path, (old, old))


def codex_forks(home, scale):
    """Codex before 0.153: each child has the records of its parent, with the times of the copy."""
    words, kids, turns = Words(7), 20, 200 * scale
    pictures = ["data:image/png;base64," + base64.b64encode(b"\x89PNG\r\n\x1a\n" + words.random.randbytes(30000)).decode() for _ in range(6)]
    records, history = [], []

    def message(role, parts):
        return {"type": "message", "role": role, "content": parts}

    for turn in range(turns):
        parts = [{"type": "input_text", "text": words.text(60)}]
        if turn % 20 == 5:
            parts.append({"type": "input_image", "image_url": pictures[turn // 20 % 6]})
        prompt = message("user", parts)
        records += [("response_item", prompt), ("event_msg", {"type": "user_message", "message": parts[0]["text"]})]
        history.append(prompt)
        for step in range(3):
            call = f"c{turn}_{step}"
            records.append(("response_item", {"type": "function_call", "name": "shell", "arguments": json.dumps({"command": words.text(10)}), "call_id": call}))
            records.append(("response_item", {"type": "function_call_output", "call_id": call, "output": words.text(200)}))
            records.append(("event_msg", {"type": "token_count", "info": {"total_token_usage": {"input_tokens": turn * 1000 + step, "output_tokens": turn * 10}}}))
        answer = message("assistant", [{"type": "output_text", "text": words.text(80)}])
        records.append(("response_item", answer))
        history.append(answer)
        if turn % 25 == 24:
            records.append(("compacted", {"message": "", "replacement_history": history[-120:]}))

    def rollout(number, items, parent):
        name = f"019f{number:04x}-0000-7000-8000-{number:012x}"
        meta = {"id": name, "timestamp": words.time(), "cwd": "/w/p", "originator": "codex_cli_rs", "cli_version": "0.145.0", "source": "cli"}
        if parent:
            meta["source"] = {"subagent": {"thread_spawn": {"parent_thread_id": parent, "depth": 1}}}
            meta["forked_from_id"] = parent
        lines = [("session_meta", meta), *items]
        path = f"{home}/.codex/sessions/2026/08/03/rollout-2026-08-03T10-00-{number:02}-{name}.jsonl"
        write(path, ({"timestamp": words.time(), "type": kind, "payload": payload} for kind, payload in lines))
        return name

    parent = rollout(1, records, None)
    for kid in range(kids):
        own = [message("user", [{"type": "input_text", "text": f"sub task {kid} {words.text(40)}"}]), message("assistant", [{"type": "output_text", "text": words.text(120)}])]
        rollout(2 + kid, records + [("response_item", item) for item in own], parent)
    return turns * 5 + kids * 2


def claude(home, scale, forks=20, origin=False, progress=False):
    """Claude Code: forks whose records differ in the session, and records of progress that repeat a sub-agent."""
    words, turns = Words(9), 200 * scale
    session, records, parent, steps = words.id(), [], None, []

    def add(kind, **more):
        nonlocal parent
        record = {"parentUuid": parent, "isSidechain": False, "userType": "external", "cwd": "/w/p", "sessionId": session, "version": "2.1.332" if origin else "2.1.222", "gitBranch": "main", "type": kind, "uuid": words.id(), "timestamp": words.time(), **more}
        if kind == "assistant" and origin:
            record["requestSessionId"] = session
        records.append(record)
        if kind != "progress":
            parent = record["uuid"]

    def answer(name, content, sent, received):
        message = {"id": name, "type": "message", "role": "assistant", "model": "claude-opus", "content": [content], "usage": {"input_tokens": sent, "output_tokens": received}}
        add("assistant", message=message)

    for turn in range(turns):
        add("user", message={"role": "user", "content": words.text(60)})
        for step in range(3):
            call = f"toolu_{turn}_{step}"
            answer(f"msg_{turn}_{step}", {"type": "tool_use", "id": call, "name": "Bash", "input": {"command": words.text(10)}}, turn, step)
            add("user", message={"role": "user", "content": [{"type": "tool_result", "tool_use_id": call, "content": words.text(200)}]})
        if progress and turn % 2 == 0:
            steps.append({"type": "assistant", "message": {"role": "assistant", "content": [{"type": "text", "text": words.text(150)}]}})
            for _ in range(2):
                add("progress", data={"type": "agent_progress", "agentId": "a9b4d10", "prompt": words.text(20), "normalizedMessages": list(steps)}, toolUseID=f"toolu_{turn}")
        answer(f"msg_{turn}", {"type": "text", "text": words.text(80)}, turn, 80)
    folder = f"{home}/.claude/projects/-w-p"
    write(f"{folder}/{session}.jsonl", records)
    shared, last = list(records), parent
    for fork in range(0 if progress else forks):
        session, parent = words.id(), last
        records[:] = [dict(record, sessionId=session) for record in shared]
        add("user", message={"role": "user", "content": words.text(40)})
        answer(f"msg_f{fork}", {"type": "text", "text": words.text(90)}, 1, 80)
        write(f"{folder}/{session}.jsonl", records)
    return turns * 5 + (0 if progress else forks * 2)


def journal(home, scale):
    """As the journal of Grok: each line repeats the whole state. In the shape of Claude Code, which reads here."""
    words, turns, state, parent, records = Words(11), 120 * scale, [], None, []
    session = words.id()
    for turn in range(turns):
        for role, length in (("user", 60), ("assistant", 250)):
            identity = words.id()
            text = words.text(length)
            content = text if role == "user" else [{"type": "text", "text": text}]
            message = {"role": role, "content": content} if role == "user" else {"id": f"msg_{turn}", "type": "message", "role": role, "model": "m", "content": content}
            records.append({"parentUuid": parent, "isSidechain": False, "userType": "external", "cwd": "/w/p", "sessionId": session, "version": "2.1.222", "type": role, "uuid": identity, "timestamp": words.time(), "message": message})
            state.append({"role": role, "content": text, "time": words.time()})
            parent = identity
        state_now = {"revision": turn, "updated": words.time(), "messages": list(state)}
        records.append({"type": "system", "subtype": "state", "parentUuid": parent, "isSidechain": False, "sessionId": session, "cwd": "/w/p", "version": "2.1.222", "uuid": words.id(), "timestamp": words.time(), "content": json.dumps(state_now)})
        parent = records[-1]["uuid"]
    write(f"{home}/.claude/projects/-w-p/{session}.jsonl", records)
    return turns * 2


def recorded(folder):
    """A copy of recorded sessions, with the age that `shrink` asks for."""
    def generate(home, _):
        shutil.copytree(folder, f"{home}/sessions")
        old = time.time() - 30 * 24 * 3600
        for at, _, names in os.walk(home):
            for name in names:
                os.utime(os.path.join(at, name), (old, old))
        return 0
    return generate


CORPORA = {
    "codex-forks": ("Codex forks, new timestamps", codex_forks),
    "claude-forks": ("Claude Code forks, other `sessionId`", claude),
    "claude-origin": ("Claude Code forks, `requestSessionId`", lambda home, scale: claude(home, scale, origin=True)),
    "claude-progress": ("Claude Code `progress`", lambda home, scale: claude(home, scale, progress=True)),
    "journal": ("journal that repeats its state", journal),
}


def du(path):
    """Bytes on the disk, without files that are deleted during the count."""
    done = subprocess.run(["du", "-s", "--block-size=1", path], capture_output=True, text=True)
    return int(done.stdout.split()[0]) if done.stdout else 0


def digest(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").digest()


class Sampler:
    """The most that a folder takes while something runs."""

    def __init__(self, path):
        self.path, self.most, self.is_ended = path, 0, False
        self.thread = threading.Thread(target=self.sample)

    def sample(self):
        while not self.is_ended:
            self.most = max(self.most, du(self.path))
            time.sleep(0.02)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.is_ended = True
        self.thread.join()


class Bench:
    def __init__(self, program, folder, generate, scale):
        self.program, self.folder = program, folder
        self.home, self.store = f"{folder}/home", f"{folder}/store"
        self.turns_there = generate(self.home, scale)
        self.env = {"HOME": self.home, "PATH": os.environ["PATH"], "TURNTREE_STORE": self.store, "TURNTREE_ACTOR": "bench"}
        self.places = [f"{self.home}/sessions"] if os.path.exists(f"{self.home}/sessions") else []
        files = [os.path.join(at, name) for at, _, names in os.walk(self.home) for name in names]
        self.files = {path: digest(path) for path in sorted(files)}
        self.bytes = sum(map(os.path.getsize, self.files))
        self.revisions = {}

    def run(self, *words, **env):
        done = subprocess.run([self.program, *words], capture_output=True, env={**self.env, **env}, cwd=self.folder)
        if done.returncode:
            sys.exit(f"{words}: exit {done.returncode}: {done.stderr.decode()[:500]}")
        return done.stdout

    def find_revisions(self):
        """Asks the store which branch has each file; names the files that no session has."""
        told = json.loads(self.run("adopt", *self.places, "--reclaim", "--older-than", "1h", "--json"))
        for file in told["originals"]:
            self.revisions[file["path"]] = f"{file['session']}/{file['branch']}"
        kept = {file["path"]: file["reason"] for file in told["kept"]}
        for path in self.files.keys() - self.revisions.keys():
            print(f"not compared: {os.path.basename(path)}: {kept.get(path, 'no session of an agent')}", file=sys.stderr)

    def compare(self, when, store=None):
        env = {"TURNTREE_STORE": store} if store else {}
        for path, revision in self.revisions.items():
            text = self.run("export", revision, "--format", "source", "--allow-secrets", **env)
            if hashlib.sha256(text).digest() != self.files[path]:
                sys.exit(f"{when}: {path} differs")

    def adopt(self):
        before = os.times()
        with Sampler(self.store) as sampler:
            since = time.monotonic()
            # Its measured process alone: what packs beside it would not be its own work.
            peak = self.memory("adopt", *self.places)
            took = time.monotonic() - since
        cpu = sum(os.times()[2:4]) - sum(before[2:4])
        return took, cpu, sampler.most, peak

    def memory(self, *words):
        """Runs it, and returns the most memory that it took, in bytes."""
        child = subprocess.Popen([self.program, *words], env=self.env, cwd=self.folder, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)
        if status:
            sys.exit(f"{words}: status {status}")
        return usage.ru_maxrss * 1024

    def turns(self):
        commits = set()
        for line in self.run("log", "--all", "--json").splitlines():
            commits.add(json.loads(line).get("id"))
        return len(commits)

    def others(self):
        sizes = {}
        for level in ("3", "19"):
            command = f"tar -C {self.home} -cf - . | zstd -q -{level} --long=27 -T2 | wc -c"
            done = subprocess.run(command, shell=True, capture_output=True, text=True)
            sizes[f"zstd-{level}"] = int(done.stdout)
        env = {**os.environ, "RESTIC_PASSWORD": "x", "RESTIC_CACHE_DIR": f"{self.folder}/cache", "BORG_BASE_DIR": f"{self.folder}/borg-base", "BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK": "yes"}
        tools = {
            "restic": [["restic", "init", "-q", "-r", f"{self.folder}/restic"], ["restic", "backup", "-q", "--compression", "max", "-r", f"{self.folder}/restic", self.home]],
            "borg": [["borg", "init", "-e", "none", f"{self.folder}/borg"], ["borg", "create", "-C", "zstd,10", f"{self.folder}/borg::a", self.home]],
        }
        for name, commands in tools.items():
            if shutil.which(name):
                for command in commands:
                    subprocess.run(command, check=True, env=env, capture_output=True)
                sizes[name] = du(f"{self.folder}/{name}")
        return sizes

    def measure(self):
        estimate = json.loads(self.run("adopt", *self.places, "--dry-run", "--json")).get("projects", [])
        took, cpu, most, memory = self.adopt()
        row = {"originals": self.bytes, "adopted": du(self.store)}
        row["copied"] = sum(project["copied_bytes"] for project in estimate)
        row["estimate"] = sum(project["estimated_bytes"] for project in estimate)
        row["spare"] = max(0, most - row["adopted"])
        row["speed"], row["cpu"], row["memory"] = self.bytes / took / 1e6, cpu, memory
        self.env["TURNTREE_MAINTENANCE"] = "off"
        self.find_revisions()
        self.compare("adopted")
        row["turns"] = self.turns()
        self.run("repack")
        row["packed"] = du(self.store)
        self.compare("packed")
        self.run("repack", "--archive")
        row["archived"] = du(self.store)
        self.compare("archived")
        others = self.others()
        bundle, second = f"{self.folder}/all.bundle", f"{self.folder}/second"
        self.run("bundle", "create", "--all", "-o", bundle, "--allow-secrets")
        row["bundle"] = du(bundle)
        self.run("bundle", "unbundle", bundle, TURNTREE_STORE=second)
        self.compare("sent as a bundle", second)
        self.run("shrink", *self.places, "--yes", "--older-than", "1h")
        left = [path for path in self.revisions if os.path.exists(path)]
        if left:
            sys.exit(f"shrink left {left}")
        self.compare("removed by shrink")
        return {**row, **others}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--scale", type=int, default=1)
    parser.add_argument("--only", default=",".join(CORPORA))
    parser.add_argument("--keep")
    parser.add_argument("--sessions")
    options = parser.parse_args()
    program = os.path.abspath(options.program)
    if options.sessions:
        CORPORA["recorded"] = ("recorded sessions", recorded(os.path.abspath(options.sessions)))
        options.only += ",recorded"
    columns = ["originals", "copies", "estimate", "after `adopt`", "`repack`", "`--archive`", "bundle", "spare", "MB/s", "memory", "turns (there)", "zstd -3", "zstd -19", "restic", "borg"]
    print("| corpus | " + " | ".join(columns) + " |")
    print("|---" * (len(columns) + 1) + "|", flush=True)
    for name in options.only.split(","):
        title, generate = CORPORA[name]
        folder = options.keep and os.path.join(options.keep, name) or tempfile.mkdtemp(prefix="copies-")
        os.makedirs(folder, exist_ok=True)
        bench = Bench(program, folder, generate, options.scale)
        row = bench.measure()

        def size(key):
            return f"{row[key] / 1e6:.2f}" if key in row else "-"

        def part(key, whole="originals"):
            return f"{size(key)} ({row[key] / row[whole]:.2f}x)"

        cells = [size("originals"), f"{100 * row['copied'] / row['originals']:.0f} %", size("estimate"), part("adopted"), part("packed", "zstd-3"), part("archived", "zstd-3"), size("bundle"), f"{100 * row['spare'] / row['originals']:.0f} %", f"{row['speed']:.0f}", f"{row['memory'] / 1e6:.0f}", f"{row['turns']} ({bench.turns_there})", size("zstd-3"), size("zstd-19"), size("restic"), size("borg")]
        print(f"| {title} | " + " | ".join(cells) + " |", flush=True)
        if not options.keep:
            shutil.rmtree(folder)
    print("\nEvery file came back byte for byte after each step, from a bundle, and after `shrink` had removed it. After `adopt` and spare are beside the originals, packed and archived beside zstd -3.")


if __name__ == "__main__":
    main()
