"""Installs the plugins of `packaging/agents` in real clients, and plays a turn and a rollback with each.

    plugins.py [--only CLIENT]... [--pinned] [--offline-ok] [--program PATH] [--folder DIR] [--patience SECONDS]

Exits with 1 when a plugin does not do its work. A client that does not install is skipped with the reason.
"""

import argparse
import json
import shutil
import tempfile
import time
from pathlib import Path

from clients import CLIENTS
from install import Skipped, choose, program_is, programs
from place import Failed, Place
from play import DRIFT
from standin import StandIn
from wire import Answer

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
AGENTS = ROOT / "packaging" / "agents"
DEADLINE = 30.0
FIRST, SECOND = "Write the file.", "Write another file."


def claude_code(client):
    for told in [["marketplace", "add", str(ROOT)], ["install", "turntree@turntree"]]:
        succeed(client.place.run(["claude", "plugin", *told], **client.variables()))


def codex(client):
    for told in [["marketplace", "add", str(ROOT)], ["add", "turntree@turntree"]]:
        succeed(client.place.run(["codex", "plugin", *told]))


def gemini(client):
    install = ["gemini", "extensions", "install", "--consent", str(AGENTS / "gemini")]
    succeed(client.place.run(install, b"y\n", GEMINI_API_KEY=client.model_key))


def copied(name, into):
    """A plugin that is one file."""

    def install(client):
        folder = client.place.home / into
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(AGENTS / name, folder)

    return install


# How a plugin is installed, and how one goes back by it, if one does.
PLUGINS = {
    "claude-code": (claude_code, "/turntree:rollback"),
    "codex": (codex, "undo that"),
    "gemini-cli": (gemini, "/turntree:rollback"),
    "opencode": (copied("opencode/turntree.js", ".config/opencode/plugin"), None),
    "pi": (copied("pi/turntree.ts", ".pi/agent/extensions"), None),
}


def succeed(ran):
    if ran.code:
        raise Failed(f"exit code {ran.code}: {(ran.text() + ran.err).strip()[-300:]}")


def eventually(holds):
    """Waits for the work of a background process."""
    until = time.monotonic() + DEADLINE
    while not (found := holds()) and time.monotonic() < until:
        time.sleep(0.2)
    return found


def said(client, stand_in, prompt, name, session=None):
    stand_in.play([Answer("", [client.write(name, f"{name}\n")]), Answer("Done.")])
    return client.say(prompt, session)


def played(name, place):
    """Plays a client with its plugin; returns the fault, or None."""
    stand_in = StandIn(place.work)
    try:
        client = CLIENTS[name](place, stand_in.port)
        install, wish = PLUGINS[name]
        place.turntree("init")
        install(client)
        session = said(client, stand_in, FIRST, "first.txt")
        prompts = lambda: b"Write the file" in place.turntree("outline", client.stored_as(session))  # noqa: E731
        if not eventually(lambda: place.turntree("sessions") and prompts()):
            return "the turn is not in the store"
        if wish is None:
            return None
        said(client, stand_in, SECOND, "second.txt", session)
        if b"second.txt" not in eventually(lambda: place.turntree("ls", "HEAD:files")):
            return "the file is not in the store"
        client.say(wish, session)
        left = {path.name for path in place.work.glob("*.txt")}
        return None if left == {"first.txt"} else f"after '{wish}' there are {sorted(left)}"
    except DRIFT as failure:
        return f"{type(failure).__name__}: {failure}"
    finally:
        stand_in.close()
        place.end_processes()


def main():
    parser = argparse.ArgumentParser(description="Plays the plugins with real agent clients.")
    parser.add_argument("--only", action="append", choices=list(PLUGINS))
    parser.add_argument("--pinned", action="store_true")
    parser.add_argument("--offline-ok", action="store_true")
    parser.add_argument("--program", default="target/debug/turntree")
    parser.add_argument("--folder", default="target/clients")
    parser.add_argument("--patience", type=float, default=240.0)
    chosen = parser.parse_args()
    program, folder, worse = program_is(chosen.program), Path(chosen.folder).resolve(), 0
    table = json.loads((HERE / "clients.json").read_text())
    for name in chosen.only or PLUGINS:
        try:
            version = choose(folder, table[name], chosen.pinned, chosen.offline_ok)
            tools = programs(folder, table[name]["package"], version)
        except Skipped as reason:
            print(f"{name:<12} skipped: {reason}", flush=True)
            continue
        with tempfile.TemporaryDirectory(prefix=f"turntree-{name}-", ignore_cleanup_errors=True) as scratch:
            # The plugins run plain `turntree`.
            plain = Path(scratch) / "bin"
            plain.mkdir()
            (plain / "turntree").symlink_to(program)
            place = Place(Path(scratch) / "place", [plain, *tools], program, chosen.patience)
            wrong = played(name, place)
        worse += wrong is not None
        print(f"{name:<12} {version:<10} {wrong or 'its plugin works'}", flush=True)
    raise SystemExit(1 if worse else 0)


if __name__ == "__main__":
    main()
