#!/usr/bin/env python3
"""Counts the clicks and keys of common tasks in `turntree view`, each from the list of sessions.

    benches/clicks.py PROGRAM

makes a small store, does each task with mouse and keyboard in a headless Chromium, and prints a table. A word
that is typed counts as one. A task fails if its result is not on the screen. Needs Linux and a `chromium`.
"""

import argparse
import json
import os
import subprocess
import tempfile
import time

from view import Browser, Server, record, transcript

FAILED = "assertion failed: the lexer returned 41 of 42 tokens"
LIVE = "document.querySelector('#state')?.dataset.good === 'true'"


class Hand:
    """A mouse and a keyboard that count what they do."""

    def __init__(self, browser):
        self.browser, self.done = browser, []

    def click(self, selector, text=""):
        """Clicks on the first element that a selector finds, with some text, once it is there."""
        find = f"[...document.querySelectorAll({json.dumps(selector)})].find((one) => one.offsetWidth && one.innerText.includes({json.dumps(text)}))"
        self.browser.wait(f"{LIVE} && {find}")
        middle = f"(() => {{ const one = {find}; one?.scrollIntoView({{block: 'center'}}); const box = one?.getBoundingClientRect(); return box && [box.x + box.width / 2, box.y + box.height / 2]; }})()"
        at, before = self.browser.ask(middle), None
        while at is None or at != before:
            # What still comes may move it.
            time.sleep(0.3)
            at, before = self.browser.ask(middle), at
        x, y = at
        for kind in ("mousePressed", "mouseReleased"):
            self.browser.call("Input.dispatchMouseEvent", {"type": kind, "x": x, "y": y, "button": "left", "clickCount": 1})
        self.done.append(text or selector)

    def key(self, key, control=False):
        self.browser.wait(LIVE)
        event = {"key": key, "modifiers": 2 if control else 0, "windowsVirtualKeyCode": ord(key.upper()) if len(key) == 1 else 13}
        self.browser.call("Input.dispatchKeyEvent", {"type": "keyDown", **event, **({} if control or len(key) > 1 else {"text": key})})
        self.browser.call("Input.dispatchKeyEvent", {"type": "keyUp", **event})
        self.done.append(f"Ctrl-{key}" if control else key)

    def write(self, words):
        self.browser.call("Input.insertText", {"text": words})
        self.done.append("word")


def run(program, folder, *words):
    environment = {**os.environ, "TURNTREE_MAINTENANCE": "off"}
    command = [program, "--store", f"{folder}/store", *words]
    return subprocess.run(command, env=environment, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def make(program, folder):
    """A session that was imported, with a test that failed, and one with two strategies and a conflict."""
    path = f"{folder}/lexer.jsonl"
    transcript(path, "lexer", 40, "/project", "")
    with open(path, "a") as file:
        call = {"type": "tool_use", "id": "call-test", "name": "Bash", "input": {"command": "cargo test"}}
        file.write(record("lexer", 40, 0, "user", {"role": "user", "content": "Run the tests."}, "/project"))
        usage = {"input_tokens": 1000, "output_tokens": 500}
        file.write(record("lexer", 41, 0, "assistant", {"role": "assistant", "id": "m-test", "model": "claude-opus-4-5", "usage": usage, "content": [call]}, "/project"))
        output = "\n".join([f"test part_{number} ... ok" for number in range(60)] + [FAILED, "test result: FAILED. 60 passed; 1 failed; 0 ignored"])
        result = {"type": "tool_result", "tool_use_id": "call-test", "is_error": True, "content": output}
        file.write(record("lexer", 41, 1, "user", {"role": "user", "content": [result]}, "/project"))
    run(program, folder, "import", path, "--session", "lexer")
    run(program, folder, "session", "rename", "lexer", "The lexer")
    os.makedirs(f"{folder}/work", exist_ok=True)
    for branch, text in (("main", "a"), ("plan-a", "by hand"), ("plan-b", "a table")):
        if branch != "main":
            run(program, folder, "fork", branch, "plans/main")
        with open(f"{folder}/work/parser.txt", "w") as file:
            file.write(f"{text}\n")
        run(program, folder, "snapshot", "-m", text, "--session", "plans", "--branch", branch, "--append-message", f"user={text}", "--workspace", "work")
    run(program, folder, "session", "rename", "plans", "Two plans")


def difference(hand):
    hand.click(".session-line", "The lexer")
    hand.click(".overview .file-line .path")
    return "location.hash.startsWith('#diff') && document.querySelector('#view .row.add')"


def word(hand):
    hand.key("k", control=True)
    hand.browser.wait("document.querySelector('#palette')?.open")
    hand.write("part 36")
    hand.click("#palette .hit", "part 36")
    return "location.pathname === '/s/lexer' && CSS.highlights.get('found')?.size > 0"


def table(hand):
    hand.click(".session-line", "Two plans")
    hand.click("#bar a", "Compare")
    return "document.querySelectorAll('.compare tbody tr').length === 3"


def two(hand):
    table(hand)
    hand.click("[aria-label='Choose plan-a']")
    hand.click("[aria-label='Choose plan-b']")
    hand.click(".links a", "plan-a")
    return "location.hash.startsWith('#diff') && document.querySelector('#view .row.add')"


def resume(hand):
    hand.click(".session-line", "The lexer")
    hand.click(".doors .copy", "resume")
    return "document.querySelector('.copy[data-done]')"


def cost(hand):
    return "document.querySelector('[data-session=lexer] .cost').innerText.startsWith('$')"


def cost_of_all(hand):
    return "document.querySelector('.strip .tile b').innerText.startsWith('$')"


def failure(hand):
    hand.click(".session-line", "The lexer")
    hand.click(".overview .tile button", "failed")
    return f"document.querySelector('#view').innerText.includes({json.dumps(FAILED)})"


def back(hand):
    hand.click(".session-line", "The lexer")
    hand.click(".overview .doors .copy", "Roll back")
    hand.click("#change .main", "")
    return "document.querySelector('#outcome')?.offsetWidth > 0"


def neighbour(hand):
    hand.click(".session-line", "The lexer")
    before = len(hand.done)
    hand.key("[")
    hand.done = hand.done[before:]
    return "location.pathname === '/s/plans'"


TASKS = [
    ("find a session by a word", word), ("what changed in a file", difference), ("compare strategies", table), ("the difference of two strategies", two),
    ("copy resume", resume), ("cost of a session", cost), ("cost of all", cost_of_all), ("why a test failed", failure), ("from a session to its neighbour", neighbour),
    ("go back to a turn", back),
]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=os.path.abspath)
    program = parser.parse_args().program
    with tempfile.TemporaryDirectory() as folder:
        make(program, folder)
        server, browser = Server(program, f"{folder}/store", 0, ["--allow-changes"]), Browser(0)
        try:
            print("| to | clicks and keys | which |\n|---|---|---|")
            for name, task in TASKS:
                with browser.page(server.url("/"), {}):
                    browser.wait(f"{LIVE} && document.querySelectorAll('.session-line').length === 2")
                    hand = Hand(browser)
                    browser.wait(task(hand))
                    print(f"| {name} | {len(hand.done)} | {', '.join(hand.done)} |", flush=True)
        finally:
            browser.end()
            server.end()


if __name__ == "__main__":
    main()
