"""How each client is driven headless: its settings, its command line, its tools, its transcripts."""

import json
import re
from itertools import groupby

from acp import Agent
from place import Failed
from wire import Answer, Anthropic, Call, Chat


A_LONG_ONE = Answer("A long answer.", tokens=10_000_000)


class Client:
    """What all clients have. `hooks` is their name for `turntree hook install`, if they have hooks, and
    `resumes` the one for `turntree resume`, if they take up what that lays out."""

    hooks = None
    deep = "deep/inner.txt"
    export = ("anthropic", Anthropic())
    forks = False
    # A fork in the store shares its turns with the session that it came from.
    relates = False
    rewinds = False
    compacts = False
    helps = False
    tries = False
    interrupts = False
    learns = False
    # Each session is a file of its own, which `turntree shrink` may remove.
    shrinks = False
    # `turntree explore` runs it with `command` and `variables`.
    explores = False
    # `turntree replay` runs it with `command` and `variables`, which the gateway's address replaces.
    replays = False
    resumes = None
    before_compaction = []
    model_key = "nothing-to-keep"
    # Prompts that ask to go back; a command only where a file makes it known.
    wishes = ["undo that"]

    def __init__(self, place, port):
        self.place = place
        self.url = f"http://127.0.0.1:{port}"
        self.prepare()

    def prepare(self):
        """Writes the settings into the home."""

    def setting(self, name, text):
        path = self.place.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def in_work(self, name):
        return str(self.place.work / name)

    def transcript(self, session):
        """The file of a session."""
        found = sorted(self.place.home.rglob(f"*{session}*.jsonl"))
        if not found:
            raise Failed(f"there is no transcript of session {session}")
        return found[0]

    def recorded(self, session):
        """What the client keeps of a session, which `export --format source` has to give again."""
        return self.transcript(session).read_bytes()

    def stored_as(self, session):
        """The name of a session in the store: that of its file."""
        return self.transcript(session).stem

    def as_recorded(self, parts):
        """What was sent, without what this client injects and does not record."""
        return parts

    def as_exported(self, parts):
        """What the store has, in the form in which it is sent."""
        return parts

    def history(self):
        """What `adopt` is pointed at."""
        return self.place.home


class ClaudeCode(Client):
    hooks = "claude-code"
    forks = relates = rewinds = compacts = tries = interrupts = learns = shrinks = explores = True
    replays = True
    resumes = "claude-code"
    tools = ["Write", "Edit", "Bash", "Read"]
    wishes = ["undo that", "/rollback"]

    def write(self, name, text):
        return Call("Write", {"file_path": self.in_work(name), "content": text})

    def shell(self, command):
        return Call("Bash", {"command": command, "description": "run it"})

    def command(self, prompt, session=None, *options):
        resume = ["--resume", session] if session else []
        flags = ["-p", "--output-format", "json", *resume, *options, "--allowedTools", *self.tools]
        return ["claude", *flags, "--", prompt]

    def variables(self):
        return {
            "ANTHROPIC_BASE_URL": self.url,
            "ANTHROPIC_API_KEY": self.model_key,
            "DISABLE_TELEMETRY": "1",
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_ERROR_REPORTING": "1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        }

    def interrupted(self, prompt, session, is_begun):
        """Says something, and is interrupted once something has begun."""
        process = self.place.start(self.command(prompt, session), **self.variables())
        self.place.interrupt(process, is_begun)

    def say(self, prompt, session=None, *options):
        ran = self.place.run(self.command(prompt, session, *options), **self.variables())
        try:
            told = json.loads(ran.out)
        except ValueError:
            raise Failed(f"claude: exit code {ran.code}, {ran.err.strip()[-300:]}") from None
        return (told[-1] if isinstance(told, list) else told)["session_id"]

    def fork(self, prompt, session):
        return self.say(prompt, session, "--fork-session")

    def mark_of_now(self, session):
        """The place in a session that a rewind can go back to."""
        lines = map(json.loads, self.recorded(session).splitlines())
        return [line["uuid"] for line in lines if line.get("type") == "assistant"][-1]

    def rewind(self, prompt, session, mark):
        return self.say(prompt, session, "--resume-session-at", mark)

    def compact(self, session):
        return self.say("/compact", session)


class Codex(Client):
    hooks = resumes = "codex"
    export = ("openai", Chat())
    forks = relates = compacts = tries = shrinks = explores = True
    config = """model = "gpt-5.5-codex"
model_provider = "stand-in"
[model_providers.stand-in]
name = "stand-in"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "STAND_IN_KEY"
"""

    def prepare(self):
        self.setting(".codex/config.toml", self.config.format(url=self.url))

    def write(self, name, text):
        lines = "".join(f"+{line}\n" for line in text.splitlines())
        patch = f"*** Begin Patch\n*** Add File: {name}\n{lines}*** End Patch\n"
        return Call("apply_patch", patch)

    def shell(self, command):
        return Call("exec_command", {"cmd": command})

    def command(self, prompt, session=None, verb="resume"):
        # Hooks run only when they are trusted, and no user is present to trust them.
        flags = ["--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"]
        flags += ["--dangerously-bypass-hook-trust", "--json"]
        return ["codex", "exec", *([verb] if session else []), *flags, *([session] if session else []), prompt]

    def variables(self):
        return {"STAND_IN_KEY": self.model_key}

    def say(self, prompt, session=None, verb="resume"):
        ran = self.place.run(self.command(prompt, session, verb), **self.variables())
        for told in json_lines(ran.text()):
            if told.get("type") == "thread.started":
                return told["thread_id"]
        raise Failed(f"codex: exit code {ran.code}, {ran.err.strip()[-300:]}")

    def fork(self, prompt, session):
        return self.say(prompt, session, "fork")

    # It compacts by itself, before the prompt that follows an answer to a long request.
    before_compaction = [A_LONG_ONE]

    def compact(self, session):
        return self.say("Say much.", session)

    def as_recorded(self, parts):
        """The summary of a compaction is recorded as an answer, behind the last one; `export` joins both."""
        joined = []
        for role, kind, value in parts:
            if joined and joined[-1][:2] == (role, kind) == ("assistant", "text"):
                value = f"{joined.pop()[2]}\n{value}"
            joined.append((role, kind, value))
        return joined


class GeminiCli(Client):
    hooks = "gemini"
    wishes = ["undo that", "/rollback"]
    resumes = "gemini-cli"
    compacts = True
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
        "privacy": {"usageStatisticsEnabled": False},
        # Its sweep takes the file that each resume leaves for broken, and deletes the whole session with it.
        "general": {"enableAutoUpdate": False, "sessionRetention": {"enabled": False}},
        "telemetry": {"enabled": False},
    }

    def prepare(self):
        self.setting(".gemini/settings.json", json.dumps(self.settings))

    def write(self, name, text):
        return Call("write_file", {"file_path": self.in_work(name), "content": text})

    def shell(self, command):
        return Call("run_shell_command", {"command": command})

    def say(self, prompt, session=None):
        resume = ["--resume", session] if session else []
        ran = self.place.run(
            ["gemini", "-p", prompt, "--yolo", "--output-format", "json", *resume],
            GEMINI_API_KEY=self.model_key,
            GOOGLE_GEMINI_BASE_URL=self.url,
        )
        found = re.search(r'"session_id": "([^"]+)"', ran.text())
        if not found:
            raise Failed(f"gemini: exit code {ran.code}, {ran.err.strip()[-300:]}")
        return found[1]

    @property
    def before_compaction(self):
        """It compresses in the middle of a prompt, once it knows how long the request was. `/compress`
        is a prompt to it when no user is present."""
        return [Answer("", [self.shell("ls")], tokens=A_LONG_ONE.tokens), Answer("Listed.")]

    def compact(self, session):
        return self.say("List the files.", session)

    def transcript(self, session):
        found = sorted(self.place.home.rglob(f"session-*{session[:8]}*.json*"))
        if not found:
            raise Failed(f"there is no transcript of session {session}")
        return found[0]  # Each resume leaves a file beside it that says nothing.

    def as_recorded(self, parts):
        """After a resume the client sends each result twice, and says that an answer is missing where
        the session ends with results."""
        parts = [part for part in parts if not part[2].startswith("[The previous response was interrupted")]
        kept = []
        for is_result, run in runs_of_results(self.as_exported(parts)):
            is_twice = is_result and run[::2] == run[1::2]
            kept += run[::2] if is_twice else run
        return kept

    def as_exported(self, parts):
        """Results of one step come in the order in which they were done, and are written in either.
        The session context is made anew by each resume."""
        parts = [part for part in parts if not part[2].startswith("<session_context>")]
        return [part for _, run in runs_of_results(parts) for part in run]


class OpenCode(Client):
    export = ("openai", Chat())
    resumes = "opencode"
    forks = True
    settings = {
        "model": "stand-in/stand-in",
        "small_model": "stand-in/stand-in",
        "autoupdate": False,
        "share": "disabled",
        "permission": {"edit": "allow", "bash": "allow", "webfetch": "deny"},
    }

    def prepare(self):
        limits = {"context": 200000, "output": 8000}
        models = {"stand-in": {"name": "stand-in", "limit": limits, "tool_call": True}}
        provider = {"npm": "@ai-sdk/openai-compatible", "name": "stand-in", "models": models}
        provider["options"] = {"baseURL": f"{self.url}/v1", "apiKey": self.model_key}
        settings = {**self.settings, "provider": {"stand-in": provider}}
        self.setting(".config/opencode/opencode.json", json.dumps(settings))

    def run(self, *arguments, given=None):
        return self.place.run(
            ["opencode", *arguments],
            given,
            OPENCODE_DISABLE_MODELS_FETCH="1",
            OPENCODE_DISABLE_AUTOUPDATE="1",
            OPENCODE_DISABLE_LSP_DOWNLOAD="1",
        )

    def write(self, name, text):
        return Call("write", {"filePath": self.in_work(name), "content": text})

    def shell(self, command):
        return Call("bash", {"command": command, "description": "run it"})

    def say(self, prompt, session=None, *options):
        resume = ["--session", session] if session else []
        flags = ["-m", "stand-in/stand-in", "--format", "json", *resume, *options]
        ran = self.run("run", *flags, given=prompt.encode())
        for told in json_lines(ran.text()):
            if told.get("sessionID"):
                return told["sessionID"]
        raise Failed(f"opencode: exit code {ran.code}, {ran.err.strip()[-300:]}")

    def fork(self, prompt, session):
        return self.say(prompt, session, "--fork")

    def stored_as(self, session):
        return session

    # It compacts by itself behind an answer to a long request, and goes on.
    compacts = True
    before_compaction = [A_LONG_ONE, Answer("Nothing is left.")]

    def compact(self, session):
        return self.say("Say much.", session)

    def recorded(self, session):
        return self.run("export", session).out


class Pi(Client):
    export = ("openai", Chat())
    resumes = "pi"
    around_summary = re.compile(r"^The conversation history before .*<summary>(.*)</summary>$", re.DOTALL)
    forks = relates = compacts = True
    before_compaction = [A_LONG_ONE]

    def prepare(self):
        model = {"id": "stand-in", "name": "stand-in", "contextWindow": 200000, "maxTokens": 8000}
        provider = {"baseUrl": f"{self.url}/v1", "apiKey": self.model_key, "models": [model]}
        provider["api"] = "openai-completions"
        self.setting(".pi/agent/models.json", json.dumps({"providers": {"stand-in": provider}}))
        # It keeps the newest part of a conversation as it is, and a short one would have nothing else.
        self.setting(".pi/agent/settings.json", json.dumps({"compaction": {"keepRecentTokens": 20}}))

    def write(self, name, text):
        return Call("write", {"path": name, "content": text})

    def shell(self, command):
        return Call("bash", {"command": command})

    def say(self, prompt, session=None, option="--session"):
        flags = ["--mode", "json", "--offline", "--provider", "stand-in", "--model", "stand-in"]
        resume = [option, session] if session else []
        ran = self.place.run(["pi", *flags, *resume, "-p", prompt])
        for told in json_lines(ran.text()):
            if told.get("type") == "session":
                return told["id"]
        raise Failed(f"pi: exit code {ran.code}, {ran.err.strip()[-300:]}")

    def fork(self, prompt, session):
        return self.say(prompt, session, "--fork")

    def compact(self, session):
        return self.say("Say much.", session)

    def as_recorded(self, parts):
        """The sentence before a summary is not recorded."""
        return [(role, kind, self.around_summary.sub(r"\1", value)) for role, kind, value in parts]


class CopilotCli(Client):
    export = ("openai", Chat())
    compacts = helps = True
    deep = "inner.txt"  # Its tool makes no folders.
    moment = re.compile(r"^<current_datetime>[^<]*</current_datetime>\s*")
    around_summary = re.compile(r"^Some of the conversation history has .*<summary>\n(.*)\n</summary>$", re.DOTALL)

    def write(self, name, text):
        return Call("create", {"path": self.in_work(name), "file_text": text})

    def shell(self, command):
        return Call("bash", {"command": command, "description": "run it"})

    def helper(self, prompt):
        """A call of a sub-agent that works in the session of its caller."""
        wanted = {"description": "help", "agent_type": "general-purpose", "name": "helper"}
        return Call("task", {**wanted, "prompt": prompt})

    def say(self, prompt, session=None):
        resume = [f"--resume={session}"] if session else []
        ran = self.place.run(
            ["copilot", "-p", prompt, "--allow-all-tools", "--allow-all-paths", *resume],
            COPILOT_OFFLINE="true",
            COPILOT_PROVIDER_BASE_URL=f"{self.url}/v1",
            COPILOT_PROVIDER_API_KEY=self.model_key,
            COPILOT_MODEL="gpt-4.1",
        )
        found = re.search(r"--resume=(\S+)", ran.text() + ran.err)
        if not found:
            raise Failed(f"copilot: exit code {ran.code}, {ran.err.strip()[-300:]}")
        return found[1]

    def compact(self, session):
        return self.say("/compact", session)

    def transcript(self, session):
        return self.place.home / ".copilot" / "session-state" / session / "events.jsonl"

    def stored_as(self, session):
        return session

    def as_recorded(self, parts):
        """Neither the moment before a prompt nor the text around a summary is taken over."""
        parts = [(role, kind, self.moment.sub("", value)) for role, kind, value in parts]
        return [(role, kind, self.around_summary.sub(r"\1", value)) for role, kind, value in parts]


class ClineCli(Client):
    provider, model = "anthropic", "claude-sonnet-4-6"

    def prepare(self):
        settings = {"provider": self.provider, "model": self.model, "baseUrl": f"{self.url}/v1"}
        settings["apiKey"] = self.model_key
        chosen = {"settings": settings, "updatedAt": "2026-01-01T00:00:00.000Z", "tokenSource": "manual"}
        known = {"version": 1, "lastUsedProvider": self.provider, "modes": {}}
        known["providers"] = {self.provider: chosen}
        self.setting(".cline/data/settings/providers.json", json.dumps(known))

    def write(self, name, text):
        return Call("editor", {"path": self.in_work(name), "new_text": text})

    def shell(self, command):
        return Call("run_commands", {"commands": [command]})

    def say(self, prompt, session=None):
        if session:
            return self.go_on(prompt, session)
        flags = ["--json", "-P", self.provider, "-m", self.model, "-c", self.place.work]
        ran = self.place.run(["cline", *flags, prompt])
        sessions = list(self.sessions().glob("*"))
        if ran.code or len(sessions) != 1:
            raise Failed(f"cline: exit code {ran.code}, {ran.err.strip()[-300:]}")
        return sessions[0].name

    def go_on(self, prompt, session):
        """Its command line resumes in a window only; headless it does so for an editor."""
        settings = {"CLINE_API_KEY": self.model_key, "CLINE_PROVIDER": self.provider}
        settings["CLINE_MODEL"] = self.model
        with Agent(self.place, ["cline", "--acp", "--auto-approve", "true"], **settings) as agent:
            agent.call("session/load", sessionId=session, cwd=str(self.place.work), mcpServers=[])
            said = [{"type": "text", "text": prompt}]
            agent.call("session/prompt", sessionId=session, prompt=said)
        return session

    def sessions(self):
        return self.place.home / ".cline" / "data" / "sessions"

    def transcript(self, session):
        return self.sessions() / session / f"{session}.messages.json"

    def stored_as(self, session):
        return session


def runs_of_results(parts):
    """The parts cut where results begin and end, the results of each run sorted."""
    for is_result, group in groupby(parts, lambda part: part[1] == "result"):
        yield is_result, sorted(group) if is_result else list(group)


def json_lines(text):
    """The JSON objects among the lines of a client's output."""
    for line in text.splitlines():
        if line.startswith("{"):
            yield json.loads(line)


CLIENTS = {
    "claude-code": ClaudeCode,
    "codex": Codex,
    "gemini-cli": GeminiCli,
    "opencode": OpenCode,
    "pi": Pi,
    "copilot-cli": CopilotCli,
    "cline-cli": ClineCli,
}
