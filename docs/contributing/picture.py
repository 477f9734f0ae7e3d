#!/usr/bin/env python3
"""Makes docs/view.png, the picture of the README: the first screen of `turntree view`, in Chromium.

    docs/contributing/picture.py [PROGRAM]

The sessions are the one that `demo` shows and variations of it: other beginnings, projects and days.
"""

import base64
import os
import subprocess
import sys
import tempfile

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))
sys.path.insert(0, f"{ROOT}/benches")
from view import Browser, Server  # noqa: E402

FIRST = "Clients get twice their limit when they call around the full minute. Find out why and fix it."

# Name, day, number of records, project, first prompt.
SESSIONS = [
    ("limiter", "2026-10-20", 37, "limiter", FIRST),
    ("retry", "2026-10-20", 24, "gateway", "Retry requests that time out, with a growing pause and a limit"),
    ("cache", "2026-10-19", 31, "gateway", "Why does the cache answer with prices of yesterday?"),
    ("import", "2026-10-16", 12, "ledger", "Import bank statements in two formats"),
    ("slow", "2026-10-13", 37, "ledger", "The report of a month takes forty seconds: find the slow query"),
    ("login", "2026-09-28", 18, "gateway", "Sessions end while people are typing"),
    ("flaky", "2026-09-22", 29, "limiter", "One test fails about every tenth run. Make it reliable"),
    ("docs", "2026-09-21", 9, "limiter", "Write the page about limits"),
]


def main():
    program = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else f"{ROOT}/target/debug/turntree")
    with open(f"{ROOT}/cli/assets/demo.jsonl") as file:
        records = file.read().splitlines(keepends=True)
    with tempfile.TemporaryDirectory() as folder:
        os.makedirs(f"{folder}/work")

        def turntree(*words):
            command = [program, "--store", f"{folder}/store", "--no-maintenance", *words]
            return subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

        for number, (name, day, many, project, prompt) in enumerate(SESSIONS):
            told = "".join(records[:many]).replace(FIRST, prompt).replace("2026-11-20", day).replace("/home/ada/limiter", f"/home/ada/{project}")
            # Ids of other sessions would make it a copy.
            for known in ("5d1c7a52", "_01demo", '"uuid":"', '"parentUuid":"'):
                told = told.replace(known, f"{known[:-1]}{number}" if known in ("5d1c7a52", "_01demo") else f"{known}{number}")
            with open(f"{folder}/{name}.jsonl", "w") as file:
                file.write(told)
            turntree("import", f"{name}.jsonl", "--session", name)
        # Two strategies that do not agree about a file, one of them with a check.
        for branch, text in (("main", "before"), ("table", "a table"), ("tree", "a tree")):
            if branch != "main":
                turntree("fork", branch, "cache/main")
            with open(f"{folder}/work/cache.py", "w") as file:
                file.write(text)
            turntree("snapshot", "--session", "cache", "--branch", branch, "-m", text, "--append-message", f"user={text}", "--workspace", "work", "--check", "tests=passed")
        turntree("merge", "cache/tree", "--into", "cache/table")
        turntree("session", "label", "limiter", "release")
        server, browser = Server(program, f"{folder}/store", 0, []), Browser(0)
        try:
            with browser.page(server.url("/"), {}):
                browser.call("Emulation.setDeviceMetricsOverride", {"width": 1280, "height": 560, "deviceScaleFactor": 1, "mobile": False})
                done = "[...document.querySelectorAll('.session-line')].every((one) => one.querySelector('.spark svg'))"
                browser.wait(f"document.querySelectorAll('.session-line').length === {len(SESSIONS)} && {done} && document.querySelector('.strip .tile')")
                picture = browser.call("Page.captureScreenshot", {"format": "png"})["data"]
        finally:
            browser.end()
            server.end()
    with open(f"{ROOT}/docs/view.png", "wb") as file:
        file.write(base64.b64decode(picture))


if __name__ == "__main__":
    main()
