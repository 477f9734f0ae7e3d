"""What turntree knows of a client: the record kinds of its page, and the hook events."""

import json
import re
from pathlib import Path

DOCS = Path(__file__).resolve().parents[3] / "docs"
PAGES = {"cline-cli": "cline"}
# What the page of the hooks calls a client, and the settings in which `hook install` puts its events.
HOOKS = {
    "claude-code": ("Claude Code", ".claude/settings.json"),
    "codex": ("Codex", ".codex/hooks.json"),
    "gemini-cli": ("Gemini CLI", ".gemini/settings.json"),
}


def kinds(client):
    """The names in the tables of record kinds. A kind within a kind has the name of that one before it."""
    page = (DOCS / "reference" / "formats" / f"{PAGES.get(client, client)}.md").read_text()
    found, within = set(), ""
    for cells in rows(page, "## Record kinds"):
        if cells[1] == "role":
            within = "" if cells[0] == "kind" else cells[0].strip("`") + "/"
        elif not cells[0].startswith("-"):
            found |= {within + name for name in names(cells[0])}
    return found


def events_not_asked_for(client):
    """The hook events of a client that `hook install` leaves out, by the page of the hooks."""
    page = (DOCS / "guides" / "hooks.md").read_text()
    title, _ = HOOKS[client]
    listed = [cells[1] for cells in rows(page, "## Events that are not asked for") if cells[0] == title]
    return set(re.findall(r"`(\w+)`", " ".join(listed)))


def events_asked_for(client, home):
    """The hook events that `hook install` has put into the settings of a client."""
    _, settings = HOOKS[client]
    return set(json.loads((home / settings).read_text())["hooks"])


def rows(page, heading):
    """The cells of all tables of a section."""
    section = page.partition(f"\n{heading}\n")[2].partition("\n## ")[0]
    for line in section.splitlines():
        if line.startswith("|"):
            yield [cell.strip() for cell in line.strip("|").split("|")]


def names(cell):
    """The names in a cell; none in one that describes a record which has no name."""
    if "`" not in cell:
        return {cell}
    return set(re.findall(r"`([^`]+)`", cell)) if cell.startswith("`") else set()
