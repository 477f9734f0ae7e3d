#!/usr/bin/env python3
"""Writes TURNS turns with automatic maintenance on, and samples processes, zombies and bytes throughout.

usage: maintenance.py PROGRAM serve|commands|hooks none|budget|keep-last|ttl|encrypted TURNS

Prints one row of the table in benches/README.md. Each 300 turns the conversation is compacted; with hooks a new
session begins, since a session keeps its whole transcript. A budget is 3 MB, with hooks 12 MB.
"""
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import threading
import time

# Turns after which the conversation is compacted, so that the newest turn alone stays within the budget.
COMPACTION = 300
WORDS = "the parser fails on nested brackets because token stream lost its position when lookahead crosses newline fix test retry cache index schema user order total invoice deploy config error".split()


class Bench:
    def __init__(self, program, mode, policy):
        self.program, self.mode, self.policy = program, mode, policy
        self.folder = tempfile.mkdtemp(prefix="maintenance-")
        self.store = os.path.join(self.folder, "store")
        self.random = random.Random(3)
        self.files = {f"f{n:02}": [self.text(6) for _ in range(60)] for n in range(30)}
        self.env = dict(os.environ, HOME=self.folder, TURNTREE_ACTOR="writer", TURNTREE_STORE=self.store)
        self.env.pop("TURNTREE_MAINTENANCE", None)
        self.server, self.calls, self.session = None, 0, "long"
        self.most, self.zombies, self.fullest, self.by_time = 0, 0, 0, []
        self.cpu = {}
        self.is_ended = False

    def text(self, words):
        return " ".join(self.random.choices(WORDS, k=words)) + f" {self.random.getrandbits(40)}"

    def run(self, *words, **more):
        done = subprocess.run([self.program, *words], capture_output=True, text=True, env=self.env, cwd=self.folder, **more)
        if done.returncode:
            print("failed:", words[:3], done.returncode, done.stderr[:300], file=sys.stderr)
        return done

    def begin(self):
        self.run("init", *(["--encrypt"] if self.policy == "encrypted" else []))
        rules = {"budget": ["--budget", "12MB" if self.mode == "hooks" else "3MB"], "keep-last": ["--keep-last", "100"], "ttl": ["--keep-within", "10s", "--expire-session", "1h"]}
        if self.policy in rules:
            self.run("retention", "set", "--default", *rules[self.policy])
        if self.mode == "serve":
            command = [self.program, "serve", "--stdio", "--session", "long"]
            self.server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=self.env, text=True, cwd=self.folder)
        if self.mode == "hooks":
            self.workspace = os.path.join(self.folder, "project")
            os.makedirs(self.workspace)

    def request(self, method, **params):
        self.calls += 1
        self.server.stdin.write(json.dumps({"jsonrpc": "2.0", "id": self.calls, "method": method, "params": params}) + "\n")
        self.server.stdin.flush()
        answer = json.loads(self.server.stdout.readline())
        if "error" in answer:
            print("failed:", answer["error"], file=sys.stderr)

    def compact(self):
        state = {"agents": {"main": {"messages": [{"role": "user", "content": "Summary so far: " + self.text(300)}]}}}
        if self.mode == "serve":
            self.request("snapshot", message="compaction", state=state, trigger="compaction")
        else:
            self.run("snapshot", "--state", "-", "-m", "compaction", "--session", "long", "--trigger", "compaction", input=json.dumps(state))

    def turn(self, number):
        if self.mode != "hooks" and number % COMPACTION == 0:
            self.compact()
        messages = [{"role": "user", "content": f"prompt {number} " + self.text(30)}] if number % 8 == 1 else []
        call = {"id": f"c{number}", "type": "function", "function": {"name": "bash", "arguments": json.dumps({"command": self.text(6)})}}
        messages.append({"role": "assistant", "content": self.text(40), "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": self.text(250)})
        name = self.random.choice(list(self.files))
        for _ in range(3):
            self.files[name][self.random.randrange(60)] = self.text(6)
        notes = {"scratchpad/plan": self.text(20), "x-files/" + name: "\n".join(self.files[name])}
        message = f"turn {number}"
        if self.mode == "serve":
            self.request("snapshot", message=message, append={"agents": {"main": messages}}, set=notes)
        elif self.mode == "commands":
            sets = [f"--set={key}={value}" for key, value in notes.items()]
            self.run("snapshot", "--append", "-", "-m", message, "--session", "long", *sets, input=json.dumps(messages))
        else:
            self.hook(number, name)

    def record(self, kind, content):
        identity = f"{self.random.getrandbits(128):032x}"
        record = {"type": kind, "uuid": identity, "parentUuid": self.parent, "sessionId": self.session, "cwd": self.workspace, "timestamp": "2026-11-28T10:00:00.000Z", "version": "2.1.0", "isSidechain": False, "userType": "external", "message": {"role": kind, "content": content}}
        self.parent = identity
        with open(self.transcript, "a") as file:
            file.write(json.dumps(record) + "\n")

    def hook(self, number, name):
        if number % COMPACTION == 1:
            self.session, self.parent = f"session-{number}", None
            self.transcript = os.path.join(self.folder, f"{self.session}.jsonl")
        with open(os.path.join(self.workspace, name), "w") as file:
            file.write("\n".join(self.files[name]))
        self.record("user", f"prompt {number} " + self.text(30))
        self.record("assistant", [{"type": "text", "text": self.text(290)}])
        event = {"session_id": self.session, "transcript_path": self.transcript, "cwd": self.workspace, "hook_event_name": "Stop", "stop_hook_active": False}
        self.run("hook", "--dialect", "claude-code", input=json.dumps(event))

    def processes(self):
        found, zombies = 0, 0
        for name in os.listdir("/proc"):
            if not name.isdigit():
                continue
            try:
                with open(f"/proc/{name}/stat") as file:
                    fields = file.read().rsplit(")", 1)[1].split()
                with open(f"/proc/{name}/cmdline") as file:
                    command = file.read()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if self.server and fields[0] == "Z" and int(fields[1]) == self.server.pid:
                zombies += 1
            if "--auto" in command and self.store in command:
                found += 1
                self.cpu[int(name)] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        return found, zombies

    def bytes(self):
        total = 0
        for folder, _, names in os.walk(self.store):
            for name in names:
                try:
                    total += os.path.getsize(os.path.join(folder, name))
                except FileNotFoundError:
                    pass
        return total

    def sample(self):
        while not self.is_ended:
            found, zombies = self.processes()
            self.most, self.zombies = max(found, self.most), max(zombies, self.zombies)
            self.fullest = max(self.bytes(), self.fullest)
            time.sleep(0.02)


def main():
    program, mode, policy, turns = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
    bench = Bench(os.path.abspath(program), mode, policy)
    bench.begin()
    sampler = threading.Thread(target=bench.sample)
    sampler.start()
    began, at = time.time(), []
    for number in range(1, turns + 1):
        bench.turn(number)
        if number % (turns // 4) == 0:
            at.append(bench.bytes())
    took = time.time() - began
    last = bench.bytes()
    if bench.server:
        with open(f"/proc/{bench.server.pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        writers = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        bench.server.stdin.close()
        bench.server.wait()
    else:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        writers = usage.ru_utime + usage.ru_stime
    ended = time.time()
    while time.time() - ended < 60 and bench.processes()[0]:
        time.sleep(0.5)
    settled, after = time.time() - ended, bench.bytes()
    bench.is_ended = True
    sampler.join()
    log = os.path.join(bench.store, "maintenance.log")
    lines = len(open(log).readlines()) if os.path.exists(log) else 0
    fsck = bench.run("fsck").stdout.strip().splitlines()
    mega = lambda value: f"{value / 1e6:.1f}"
    print(f"| {mode}, {policy}, {turns} | {bench.most} | {bench.zombies} | {' '.join(map(mega, at))} | {mega(bench.fullest)} | {mega(after)} after {settled:.0f} s | {writers:.1f} | {sum(bench.cpu.values()):.1f} | {took:.0f} | {lines} | {fsck[-1] if fsck else '-'} |", flush=True)


if __name__ == "__main__":
    main()
