#!/usr/bin/env python3
"""The figures of `turntree view` in a Chromium: paint, first turn, search, what others commit, memory.

    benches/view.py PROGRAM FOLDER [--turns 100000] [--sessions 10000] [--runs 5] [--nice 0]

makes a store in FOLDER if there is none, serves it, and prints a table. Beside the clock stands processor
time, which others at work change less: of the main thread of the page until that moment, by the browser's
trace, and of the server from the question to that moment. Needs Linux and a `chromium`.
"""

import argparse
import contextlib
import json
import os
import queue
import shutil
import signal
import statistics
import subprocess
import tempfile
import threading
import time
import urllib.request

PATIENCE = 600
WORDS = "lexer parser budget retry timeout token store journal pack merge branch cursor".split()

# In every page: what is awaited is looked at before each frame, and the frame after it is true is noted.
# Names are of the window, since those of the page's own scripts are not.
WATCH = """
window.noted = {};
window.lookAgain = () => {
  for (const [name, isThere] of Object.entries(window.awaited ?? {})) {
    let is = false;
    try { is = !(name in noted) && isThere(); } catch {}
    if (!is) continue;
    noted[name] = 0;
    requestAnimationFrame(() => setTimeout(() => { noted[name] = performance.now(); performance.mark(`noted-${name}`); }));
  }
  requestAnimationFrame(lookAgain);
};
requestAnimationFrame(lookAgain);
"""


class Browser:
    """A headless Chromium, driven over the pipe of its developer tools, with one page at a time."""

    def __init__(self, nice):
        self.profile = tempfile.mkdtemp()
        (read_in, write_in), (read_out, write_out) = os.pipe(), os.pipe()

        def prepare():
            for fd, to in ((read_in, 13), (write_out, 14), (13, 3), (14, 4)):
                os.dup2(fd, to)
            os.setsid()
            os.nice(nice)

        words = "--headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run"
        words += " --remote-debugging-pipe --hide-scrollbars --window-size=1440,900"
        silent = dict(stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        environment = {**os.environ, "HOME": self.profile, "TZ": "UTC"}
        command = ["chromium", *words.split(), f"--user-data-dir={self.profile}"]
        self.process = subprocess.Popen(command, env=environment, preexec_fn=prepare, close_fds=False, **silent)
        os.close(read_in)
        os.close(write_out)
        self.input, self.output = os.fdopen(write_in, "wb", 0), os.fdopen(read_out, "rb")
        self.number, self.session, self.events, self.messages = 0, None, [], queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        rest = b""
        while part := self.output.read1(1 << 20):
            *whole, rest = (rest + part).split(b"\0")
            for message in whole:
                self.messages.put(json.loads(message))

    def call(self, method, params=None):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params or {}}
        if self.session and not method.startswith(("Target.", "Tracing.")):
            message["sessionId"] = self.session
        self.input.write(json.dumps(message).encode() + b"\0")
        while (answer := self.messages.get(timeout=PATIENCE)).get("id") != self.number:
            self.events.append(answer)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    @contextlib.contextmanager
    def page(self, url, wanted):
        """A page that notes when each of some expressions is true first."""
        target = self.call("Target.createTarget", {"url": "about:blank"})["targetId"]
        self.session = self.call("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
        looks = ",".join(f"{name}: () => {expression}" for name, expression in wanted.items())
        self.call("Page.enable")
        self.call("Page.addScriptToEvaluateOnNewDocument", {"source": f"{WATCH} window.awaited = {{{looks}}};"})
        self.call("Page.navigate", {"url": url})
        yield
        self.call("Target.closeTarget", {"targetId": target})
        self.session = None

    def ask(self, expression):
        asked = {"expression": expression, "awaitPromise": True, "returnByValue": True}
        answer = self.call("Runtime.evaluate", asked)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def wait(self, expression):
        until = time.monotonic() + PATIENCE
        while not self.ask(f"(() => {{ try {{ return Boolean({expression}); }} catch {{ return false; }} }})()"):
            if time.monotonic() > until:
                raise RuntimeError(f"never true: {expression}")
            time.sleep(0.01)

    def begin_trace(self):
        self.events = []
        categories = ["toplevel", "loading", "blink.user_timing", "__metadata"]
        config = {"includedCategories": categories, "excludedCategories": ["*"]}
        self.call("Tracing.start", {"traceConfig": config, "transferMode": "ReportEvents"})

    def end_trace(self):
        """The events of the trace."""
        self.call("Tracing.end")
        events, told = [], self.events
        while True:
            for message in told:
                if message.get("method") == "Tracing.dataCollected":
                    events += message["params"]["value"]
                if message.get("method") == "Tracing.tracingComplete":
                    return events
            told = [self.messages.get(timeout=PATIENCE)]

    def end(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        shutil.rmtree(self.profile, ignore_errors=True)


class Server:
    """`turntree view` of a store."""

    def __init__(self, program, store, nice, options=()):
        command = [program, "--store", store, "--json", "view", *options]
        environment = {**os.environ, "TURNTREE_MAINTENANCE": "off"}
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, preexec_fn=lambda: os.nice(nice))
        told = json.loads(self.process.stdout.readline())
        self.base, self.key = f"http://127.0.0.1:{told['port']}", told["url"].split("#key=")[1][:64]

    def url(self, path, place=""):
        return f"{self.base}{path}#key={self.key}{place}"

    def get(self, path):
        asked = urllib.request.Request(self.base + path, headers={"authorization": f"Bearer {self.key}"})
        return urllib.request.urlopen(asked).read()

    def processor(self):
        """Processor time of all of its threads so far, also of those that have ended, in ms."""
        return time.clock_gettime((~self.process.pid << 3) | 2) * 1e3

    def end(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait()


def record(session, turn, part, kind, message, cwd, more=None):
    second = turn % 86400
    at = f"2026-11-{1 + turn // 86400 % 27:02}T{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}.000Z"
    told = {"type": kind, "uuid": f"u-{session}-{turn}-{part}", "sessionId": session, "cwd": cwd, "version": "2.1.0", "timestamp": at, "message": message}
    return json.dumps({**told, **(more or {})}) + "\n"


def transcript(path, session, turns, cwd, words):
    """Writes a transcript of Claude Code: a prompt, then three files that are written, and again."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        for turn in range(turns):
            if turn % 4 == 0:
                said = f"Please look at part {turn} of the parser and say what you find. {words if turn == 0 else ''}"
                file.write(record(session, turn, 0, "user", {"role": "user", "content": said}, cwd))
                continue
            name, content = f"{cwd}/src/part_{turn % 5}.rs", f"fn part_{turn}() -> usize {{\n    {turn}\n}}\n" * 8
            call = {"type": "tool_use", "id": f"call-{turn}", "name": "Write", "input": {"file_path": name, "content": content}}
            answer = {"role": "assistant", "id": f"msg-{turn}", "model": "model-1", "content": [call]}
            result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": f"call-{turn}", "content": "written"}]}
            written = {"type": "create", "filePath": name, "content": content, "originalFile": None, "structuredPatch": []}
            file.write(record(session, turn, 1, "assistant", answer, cwd))
            file.write(record(session, turn, 2, "user", result, cwd, {"toolUseResult": written}))


def make(program, folder, turns, sessions):
    """Makes a store with one session of many turns, and many sessions of eight."""
    store, home = f"{folder}/store", f"{folder}/home"
    if os.path.exists(store):
        return store
    transcript(f"{folder}/long.jsonl", "00000000-0000-4000-8000-000000000000", turns, "/project", "")
    for number in range(sessions):
        session = f"{number:08x}-0000-4000-8000-{number * 7919 % (1 << 48):012x}"
        words = f"Session {number} is about the {WORDS[number % 12]} and its {WORDS[number // 12 % 12]}; case{number}."
        place = f"project-{number % 97}"
        transcript(f"{home}/.claude/projects/-{place}/{session}.jsonl", session, 8, f"/{place}", words)
    environment = {**os.environ, "TURNTREE_MAINTENANCE": "off", "HOME": home}
    for words in (["import", f"{folder}/long.jsonl", "--session", "long"], ["adopt"], ["repack"]):
        subprocess.run([program, "--store", store, *words], env=environment, check=True, stdout=subprocess.DEVNULL)
    return store


def load():
    with open("/proc/loadavg") as file:
        return float(file.read().split()[0])


def row(name, aim, runs):
    """Prints the medians of some runs: by the clock, of the page, of the server, and the load."""
    middle = lambda at: statistics.median(run[at] for run in runs)
    page = f"{middle(1):.0f} ms" if runs[0][1] is not None else ""
    loads = [run[3] for run in runs]
    print(f"| {name} | {aim} | {middle(0):.0f} ms | {page} | {middle(2):.0f} ms | {min(loads):.0f} to {max(loads):.0f} |", flush=True)


def opened(browser, server, path, place, wanted):
    """Opens a page: the moment of its first paint, and that at which something is there, each as (clock, page, server, load)."""
    before = server.processor()
    browser.begin_trace()
    with browser.page(server.url(path, place), {"there": wanted}):
        browser.wait("noted.there")
        taken = server.processor() - before
        paint = browser.ask("performance.getEntriesByName('first-paint')[0].startTime")
        there = browser.ask("noted.there")
        trace = browser.end_trace()
    mark = next(event for event in trace if event["name"] == "noted-there")
    mine = [event for event in trace if (event["pid"], event["tid"]) == (mark["pid"], mark["tid"])]
    painted = next((event["ts"] for event in trace if event["name"] == "firstPaint" and event["pid"] == mark["pid"]), mark["ts"])
    until = lambda moment: sum(event.get("tdur", 0) for event in mine if event["name"].endswith("RunTask") and event["ts"] <= moment) / 1e3
    return (paint, until(painted), 0, load()), (there, until(mark["ts"]), taken, load())


def pages(browser, server, runs, short):
    overview = "document.querySelector('#view .overview') && !document.querySelector('#view [aria-busy]')"
    newest = "[...document.querySelectorAll('#view article.turn')].at(-1)?.querySelector('.turn-head')"
    for name, aim, path, place, wanted in (
        ("the list of sessions", 200, "/", "", "document.querySelector('.session-line')"),
        ("overview of a short session", 200, f"/s/{short}", "", overview),
        ("overview of the long session", 200, "/s/long", "", overview),
        ("its reader, at the newest turn", 200, "/s/long", "&read", newest),
    ):
        measured = [opened(browser, server, path, place, wanted) for _ in range(runs)]
        row(f"first paint of {name}", "100 ms", [paint for paint, _ in measured])
        row(name, f"{aim} ms", [there for _, there in measured])
    row("first paint of a session, opened from the list", "100 ms", [walked(browser, server, short) for _ in range(runs)])


def walked(browser, server, short):
    """The first paint of a session that is opened from the list, in the process of that page."""
    with browser.page(server.url("/"), {}):
        browser.wait("document.querySelector('.session-line')")
        before = server.processor()
        browser.ask(f"location.href = '/s/{short}'; 0")
        browser.wait("location.pathname !== '/' && performance.getEntriesByName('first-paint').length")
        return browser.ask("performance.getEntriesByName('first-paint')[0].startTime"), None, server.processor() - before, load()


def searches(browser, server, runs):
    server.get("/api/words?q=lexer")
    for words in ("case0", "lexer budget", "written"):
        measured = []
        for _ in range(runs):
            with browser.page(server.url("/"), {"there": "document.querySelector('.session-line')", "hit": "document.querySelector('.hits .hit')"}):
                browser.wait("noted.there && document.querySelector('#state').dataset.good === 'true'")
                browser.ask("document.querySelector('#query').focus()")
                before = server.processor()
                browser.call("Input.insertText", {"text": words})
                browser.wait("noted.hit")
                taken = server.processor() - before
                asked = browser.ask("performance.getEntriesByType('resource').find((one) => one.name.includes('/api/words')).startTime")
                measured.append((browser.ask("noted.hit") - asked, None, taken, load()))
        row(f"first hit of '{words}', from the question on", "100 ms", measured)


def growth(browser, server, program, store, runs, short):
    """A commit of another process, until it is on screen."""
    environment = {**os.environ, "TURNTREE_MAINTENANCE": "off"}
    writer = subprocess.Popen([program, "--store", store, "serve", "--stdio"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
    for name, path, session, shown in (
        ("in the session", f"/s/{short}", short, "document.querySelector('#view').innerText"),
        ("in the list", "/", None, "document.querySelector('.session-line').innerText"),
        ("in the long session", "/s/long", "long", "document.querySelector('#view').innerText"),
    ):
        measured = []
        with browser.page(server.url(path, "&read" if session else ""), {}):
            browser.wait("document.querySelector('#state').dataset.good === 'true'")
            for number in range(runs):
                words = f"what is new {time.time_ns()}"
                browser.ask(f"window.noted = {{}}; window.awaited = {{told: () => {shown}.includes('{words}')}}")
                time.sleep(1)
                said = {"append": {"agents": {"main": [{"role": "user", "content": words}]}}, "message": words, "session": session or f"new-{time.time_ns()}"}
                question = {"jsonrpc": "2.0", "id": number, "method": "snapshot", "params": said}
                before = server.processor()
                writer.stdin.write(json.dumps(question).encode() + b"\n")
                writer.stdin.flush()
                answer = json.loads(writer.stdout.readline())
                if "error" in answer:
                    raise RuntimeError(answer["error"])
                done = time.time()
                browser.wait("noted.told")
                there = browser.ask("performance.timeOrigin + noted.told") / 1e3
                measured.append(((there - done) * 1e3, None, server.processor() - before, load()))
        row(f"a commit of another process {name}", "200 ms", measured)
    writer.stdin.close()
    writer.wait()


def memory(browser, server):
    with browser.page(server.url("/s/long"), {}):
        begun, before = time.monotonic(), server.processor()
        browser.wait("document.querySelector('#state').dataset.good === 'true'")
        seconds, taken = time.monotonic() - begun, server.processor() - before
        browser.call("HeapProfiler.collectGarbage")
        heap = browser.call("Runtime.getHeapUsage")["usedSize"] / 1e6
    with open(f"/proc/{server.process.pid}/status") as file:
        held = next(line.split()[1] for line in file if line.startswith("RssAnon"))
    print(f"all turns after {seconds:.1f} s, {taken / 1e3:.1f} s of the server; heap of the page {heap:.0f} MB (aim 150), memory of the server {int(held) / 1e3:.0f} MB")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("folder")
    for name, default in (("turns", 100_000), ("sessions", 10_000), ("runs", 5), ("nice", 0)):
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    store = make(given.program, given.folder, given.turns, given.sessions)
    server, browser = Server(given.program, store, given.nice), Browser(given.nice)
    try:
        named = [one["session"] for one in json.loads(server.get("/api/sessions?q=project"))["sessions"]]
        short = next(name for name in named if name != "long")
        print("| | aim | by the clock | page | server | load |\n|---|---|---|---|---|---|")
        pages(browser, server, given.runs, short)
        searches(browser, server, given.runs)
        growth(browser, server, given.program, store, given.runs, short)
        memory(browser, server)
    finally:
        browser.end()
        server.end()


if __name__ == "__main__":
    main()
