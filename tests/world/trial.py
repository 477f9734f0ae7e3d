"""One file through import, fsck, export, resume and usage: an answer for each question, empty if it is yes."""

import json
import re
from pathlib import Path

import counts
import shapes
from program import Failed, Program

QUESTIONS = ["import", "fsck", "source", "exports", "resume", "usage"]
AGENTS = ["claude-code", "codex", "gemini-cli", "opencode", "pi"]
OWN_AGENT = {"gemini-cli-log": "gemini-cli"} | {agent: agent for agent in AGENTS}
UNREAD = re.compile(r"a record of kind (.*?) is not read")
# Larger files are laid out for their own agent only.
FOR_EVERY_AGENT = 400_000
# Pages of larger ones are not written: they have the whole session in them.
FOR_PAGES = 1_000_000


class Trial:
    """What became of one file."""

    def __init__(self, program, patience, path, content, expected):
        self.program = Program(program, patience)
        self.content, self.expected = content, expected
        self.file = self.program.folder / path
        self.file.write_bytes(content)
        self.answers, self.format, self.unread, self.crashed = {}, None, {}, False

    def whole(self):
        try:
            self.ask("import", self.imported)
            if self.format:
                for question, answer in [("fsck", self.whole_store), ("source", self.source), ("exports", self.exports), ("resume", self.resume), ("usage", self.usage)]:
                    self.ask(question, answer)
        finally:
            self.program.close()
        return self

    def ask(self, question, answer):
        try:
            self.answers[question] = answer()
        except Failed as failure:
            self.crashed |= failure.is_crash
            self.answers[question] = str(failure)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as failure:
            self.answers[question] = f"{type(failure).__name__}: {failure}"

    def imported(self):
        """The format is the one of the list; a file that is none is refused with a reason and exit code 2."""
        self.program.run("store", "init")
        try:
            report, said = self.program.json("store", "import", self.file, "--session", "s")
        except Failed as failure:
            if self.expected == "none" and failure.code == 2:
                return ""
            raise
        self.format, self.unread = report["format"], report.get("unread", {})
        return "" if self.expected in ("any", self.format) else f"read as {self.format}, and not as {self.expected}"

    def whole_store(self):
        found, _ = self.program.json("store", "fsck")
        return "" if found["ok"] and not found["findings"] else json.dumps(found["findings"])[:300]

    def export(self, store, kind, *more):
        return self.program.run(store, "export", "s", "--format", kind, "--allow-secrets", *more)[0]

    def source(self):
        return "" if self.export("store", "source") == self.content else "not the bytes of the file"

    def exports(self):
        """Every form that reads in other tools, by its rules."""
        for name, check in [("openai", shapes.openai), ("anthropic", shapes.anthropic), ("atif", shapes.atif)]:
            wrong = check(json.loads(self.export("store", name)))
            if wrong:
                return f"{name}: {wrong}"
        for line in self.export("store", "jsonl").decode(errors="surrogateescape").splitlines():
            json.loads(line)
        document = json.loads(self.export("store", "json", "--no-content"))
        if document["schema"] != "turntree-context/1":
            return f"json: the schema is {document['schema']}"
        self.export("store", "markdown")
        if len(self.content) <= FOR_PAGES:
            page = self.program.folder / "page.html"
            self.export("store", "html", "-o", page)
            if not page.read_bytes().rstrip().endswith(b"</html>"):
                return "html: the page does not end"
        return ""

    def resume(self):
        """Laid out for an agent and read again, the conversation is the same."""
        expected = shapes.sent(json.loads(self.export("store", "openai")))
        own = OWN_AGENT.get(self.format)
        agents = AGENTS if len(self.content) <= FOR_EVERY_AGENT else [own or "claude-code"]
        for agent in agents:
            try:
                laid, _ = self.program.json("store", "resume", "--in", agent, "--cwd", self.program.work, "s")
            except Failed as failure:
                if not expected and failure.code == 2:
                    continue
                raise
            again, store = Path(laid["path"]), f"again-{agent}"
            self.program.run(store, "init")
            report, _ = self.program.json(store, "import", again, "--session", "s")
            if report["format"] not in (agent, f"{agent}-log"):
                return f"{agent}: read again as {report['format']}"
            if report.get("unread"):
                return f"{agent}: its own records are not read: {report['unread']}"
            found = shapes.sent(json.loads(self.export(store, "openai")))
            if found != expected:
                at = next((at for at, (a, b) in enumerate(zip(expected, found)) if a != b), min(len(expected), len(found)))
                return f"{agent}: {len(found)} messages of {len(expected)}, the first that differs is {at}"
        return ""

    def usage(self):
        """The sums are those of a count by another hand, where there is one."""
        found, _ = self.program.json("store", "usage", "s")
        count = counts.COUNTS.get(self.format)
        expected = count and count(self.content)
        if not expected:
            return ""
        sums = {name: found["total"][name] for name in counts.FIELDS}
        return "" if sums == expected else f"{sums}, and counted {expected}"
