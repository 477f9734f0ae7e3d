"""The named results of the primitives, and the words in them."""

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from turntree._turntree import Snapshot

#: Who a message is from.
Role: TypeAlias = Literal["system", "user", "assistant", "tool", "other"]

#: How an entry differs between two snapshots.
ChangeKind: TypeAlias = Literal["added", "removed", "changed"]

#: What an export writes.
ExportFormat: TypeAlias = Literal[
    "source", "jsonl", "markdown", "json", "openai", "anthropic", "atif"
]


class Change(NamedTuple):
    """An entry that differs between two snapshots."""

    path: str
    """The path: section and key. A message is named by its index."""
    kind: ChangeKind
    """How it differs from the older snapshot."""


class Collected(NamedTuple):
    """What a collection did."""

    expired_turns: int
    """The turns whose contexts were dropped."""
    freed_objects: int
    """The objects that were deleted."""
    freed_bytes: int
    """The bytes that they had in files of the store."""
    written_bytes: int
    """The bytes of new packs."""


class Blamed(NamedTuple):
    """A part of an entry or section, and the turn that wrote it."""

    name: str
    """The number of the line from 1, the index of a record, or the key of an entry."""
    text: str | None
    """The line, the text of the message, or the content of the entry; None if it is not text."""
    turn: int
    """The turn that wrote it."""
    id: str
    """The snapshot of that turn."""
    session: str
    """The session of that turn."""
    time: datetime
    """The time of that turn, in UTC."""
    author: str
    """The agent that made the snapshot."""
    model: str
    """The model of the agent, if it is known."""
    before: bool
    """True if an earlier turn, which retention has dropped, may have written it."""


class MatchedLine(NamedTuple):
    """A line that matches a search."""

    number: int
    """The number of the line, from 1."""
    text: str
    """The line; of a long one the part around the match."""


class Match(NamedTuple):
    """An entry of history that matches a search, in the first turn that has it."""

    session: str
    """The session of the turn."""
    branch: str | None
    """A branch from which the turn is reachable, if the search began at branches."""
    turn: int
    """The first turn that has the entry."""
    id: str
    """The snapshot of that turn."""
    path: str
    """The path: section and key. A message is named by its index."""
    role: Role | None
    """The role of a message."""
    lines: list[MatchedLine]
    """The matching lines."""


class FileAction(NamedTuple):
    """A file of a directory, and what a restore or a rollback does to it."""

    path: Path
    """The path, relative to the directory."""
    action: Literal["create", "overwrite", "keep", "delete"]
    """The action; ``keep`` for a file that is up to date."""


class RolledBack(NamedTuple):
    """What a rollback changed, or would change."""

    snapshot: Snapshot | None
    """The new snapshot of the branch; None if nothing was changed, because of ``dry_run``."""
    sections: list[str]
    """The sections that differ."""
    files: list[FileAction]
    """The files of the workspace that are written or deleted."""


class Tag(NamedTuple):
    """A fixed name of a snapshot."""

    name: str
    """The name."""
    id: str
    """The snapshot."""
    message: str
    """What its author says about it."""
    actor: str
    """Who made it."""
    time: datetime | None
    """When it was made, in UTC, if that is known."""


class Pin(NamedTuple):
    """A protection of a snapshot from retention."""

    name: str
    """The name."""
    id: str
    """The snapshot."""
    reason: str
    """The reason."""
    actor: str
    """Who made it."""
    time: datetime
    """When it was made, in UTC."""
    expires: datetime | None
    """When it ends, in UTC; None for a pin that does not."""


class SessionLabels(NamedTuple):
    """What people call a session."""

    title: str | None
    """The title that replaces that of the client; None if it has none."""
    labels: frozenset[str]
    """The labels, each one word."""


class Finding(NamedTuple):
    """What an examination of a store found."""

    kind: str
    """The kind, as in ``turntree fsck --json``."""
    is_damage: bool
    """True for damage; False for a note that affects nothing that was acknowledged."""
    place: str
    """A file and an offset, a ref, or a session with turn and section."""
    message: str
    """What was found."""


class FsckReport(NamedTuple):
    """The result of an examination of a store."""

    ok: bool
    """True if nothing is damaged or lost."""
    findings: list[Finding]
    """The damage and the notes."""
    objects: int
    """The objects that were verified."""
    snapshots: int
    """The snapshots among them."""
    operations: int
    """The operations among them."""
    bytes: int
    """The bytes of all files."""


class SessionStats(NamedTuple):
    """The size of a session."""

    session: str
    """The name."""
    turns: int
    """The turns with a context."""
    expired: int
    """The turns whose contexts retention dropped."""
    branches: int
    """The branches."""
    pins: int
    """The pins on its snapshots."""
    oldest: datetime | None
    """The time of the oldest turn with a context, in UTC."""
    content_bytes: int
    """The bytes of its content, each distinct object once."""
    stored_bytes: int
    """The bytes of that in files of the store."""
    full_copies_bytes: int
    """The bytes of a full copy of the context for each turn."""


class Stats(NamedTuple):
    """The size of a store."""

    sessions: list[SessionStats]
    """The sessions, ordered by name."""
    objects: int
    """The objects."""
    content_bytes: int
    """The bytes of their content."""
    stored_bytes: int
    """The bytes of that in files of the store."""
    garbage_bytes: int
    """The bytes that a collection would free now."""


class Retention(NamedTuple):
    """The retention rules of a session or of a store."""

    turns: int | None
    """The number of newest turns to keep."""
    seconds: float | None
    """The age up to which turns are kept."""
    budget_bytes: int | None
    """The maximum size of the kept content."""


class Imported(NamedTuple):
    """What an import added."""

    branch: str
    """The branch that has the transcript now."""
    id: str
    """The newest snapshot of the branch."""
    format: str
    """The format that the file was read as."""
    turns: int
    """The snapshots that were added."""
    messages: int
    """The messages in them."""
    new_bytes: int
    """The bytes that the store grew by."""
    notes: list[str]
    """What was kept but not understood, at most 1,000 notes."""


class Hit(NamedTuple):
    """A message, note or file that a word search found."""

    session: str
    """The session of the oldest turn that has it."""
    turn: int
    """The number of that turn."""
    id: str
    """The snapshot of that turn."""
    time: datetime
    """The time of that turn, in UTC."""
    path: str
    """The path: section and key. A message is named by its index."""
    role: Role | None
    """The role of a message."""
    text: str
    """The part of the text around the words, on one line."""
    missing: list[str]
    """The words of the query that it lacks."""


class Pushed(NamedTuple):
    """What a push uploaded of a session."""

    session: str
    """The session."""
    branches: list[str]
    """The branches with new turns."""
    bytes: int
    """The bytes that were uploaded; 0 if the remote had every turn."""


class Fetched(NamedTuple):
    """What a fetch downloaded of a session."""

    session: str
    """The session."""
    branches: list[str]
    """The branches that moved, are new, or were deleted on the remote."""
    bytes: int
    """The bytes that were downloaded."""
    is_deleted: bool
    """True if the session was deleted on the remote since the last fetch."""


class Pulled(NamedTuple):
    """How a pull changed a branch of this store."""

    branch: str
    """The branch."""
    id: str
    """The newest snapshot of the branch now."""
    kind: Literal["created", "fast-forward", "merged"]
    """How the branch moved."""
    conflicts: list[str]
    """Conflicting paths; all versions are in the section ``conflicts``."""


class OpenConflict(NamedTuple):
    """A conflict of a merge that nobody has resolved yet. A side is None if it lacks the entry, or if
    a whole section conflicts."""

    path: str
    """The path: section and key, or a section."""
    kind: Literal[
        "both-changed", "both-added", "removed-in-ours", "removed-in-theirs", "in-the-way"
    ]
    """What the sides did."""
    base: bytes | None
    """The entry before both."""
    ours: bytes | None
    """The entry of the branch before the merge."""
    theirs: bytes | None
    """The entry of the merged branch."""


class Resolved(NamedTuple):
    """What a resolution did."""

    id: str
    """The newest snapshot of the branch now."""
    resolved: list[str]
    """The paths of the conflicts that it closed."""
    removed: list[str]
    """Files that were deleted because they were in the way of the content that was taken."""
    open: list[str]
    """The paths of the conflicts that are left."""


class Spending(NamedTuple):
    """What the answers of a model used."""

    answers: int
    """The answers."""
    input: int
    """The input tokens, including those of caches."""
    output: int
    """The output tokens, including reasoning."""
    cost: float | None
    """US dollars, as far as known."""


class FoundRuns(NamedTuple):
    """The runs of a test runner that a transcript shows."""

    passed: bool
    """True if the newest passed."""
    turn: int
    """The turn with its output."""
    runs: int
    """The runs."""
    failed: int
    """Those of them that failed."""


class Compared(NamedTuple):
    """What a branch did since it parted from the others."""

    name: str
    """Its name in the call, or the name of the branch in its session."""
    id: str
    """Its newest snapshot."""
    turn: int
    """The turn of that."""
    turns: int
    """Its own snapshots."""
    messages: int
    """The messages in them."""
    tool_calls: int
    """The calls of tools."""
    tool_errors: int
    """Those of them that failed."""
    spending: Spending | None
    """What its answers used; None if no answer reports it."""
    files: int
    """The files that differ from the fork point."""
    lines_added: int
    """The lines that were added to them."""
    lines_removed: int
    """The lines that were removed from them."""
    elapsed: timedelta
    """The time since it parted."""
    checks: dict[str, bool]
    """The newest result of each recorded check: True if it passed."""
    test_runs: dict[str, FoundRuns]
    """The test runs in its messages, by runner."""
    expired: int
    """Its snapshots that retention dropped, whose messages are not counted."""


class AlignedChoice(NamedTuple):
    """What some branches did at a step."""

    label: str | None
    """The call of a tool; None if they have no such step."""
    turn: int | None
    """Its turn."""
    names: list[str]
    """The branches."""
    passed: int
    """Those of them that passed their checks."""
    failed: int
    """Those of them that failed one."""


class AlignedSplit(NamedTuple):
    """A step where branches part."""

    step: int
    """The number of the step, from 1."""
    by: Literal["call", "result"]
    """``result`` if the same call had other results."""
    parent: int | None
    """The position of the split from which these branches come."""
    choices: list[AlignedChoice]
    """What they did."""


class AlignedPair(NamedTuple):
    """Two branches, step by step."""

    names: tuple[str, str]
    """The branches."""
    parted: int | None
    """The first step that differs; None if none does."""
    met: tuple[int, int] | None
    """The turns with the same files after they parted; None if there are none."""


class AlignedDecision(NamedTuple):
    """The step whose choice tells best which branches pass."""

    step: int
    """The number of the step."""
    separates: bool
    """True if no choice has both outcomes."""
    choices: list[AlignedChoice]
    """The choices."""


class Alignment(NamedTuple):
    """Branches step by step. A step is a call of a tool with its result; ids, times and directories
    of their own do not count."""

    shared_steps: int
    """The steps that all share."""
    splits: list[AlignedSplit]
    """The steps where they part."""
    pairs: list[AlignedPair]
    """Every two of them."""
    decision: AlignedDecision | None
    """None unless some passed and some failed."""


class Comparison(NamedTuple):
    """Branches side by side."""

    fork: str | None
    """The newest snapshot that all share; None if they share nothing."""
    branches: list[Compared]
    """What each did since then."""
    alignment: Alignment | None
    """Their steps, with ``align=True``."""


def comparison(text: str) -> Comparison:
    """The comparison in a JSON record of the program."""
    record: dict[str, Any] = json.loads(text)
    fork, aligned = record["fork"], record.get("alignment")
    return Comparison(
        fork["id"] if fork else None,
        [_compared(one) for one in record["strategies"]],
        _alignment(aligned) if aligned else None,
    )


def _compared(one: dict[str, Any]) -> Compared:
    used = one["usage"]
    return Compared(
        name=one["name"],
        id=one["id"],
        turn=one["turn"],
        turns=one["turns"],
        messages=one["messages"],
        tool_calls=one["tool_calls"],
        tool_errors=one["tool_errors"],
        spending=used
        and Spending(used["answers"], used["input"], used["output"], used["cost_usd"]),
        files=one["files_changed"],
        lines_added=one["lines_added"],
        lines_removed=one["lines_removed"],
        elapsed=timedelta(milliseconds=one["elapsed_ms"]),
        checks=one["checks"],
        test_runs={name: FoundRuns(**found) for name, found in one["test_runs"].items()},
        expired=one["expired_turns"],
    )


def _alignment(found: dict[str, Any]) -> Alignment:
    def choices(one: dict[str, Any]) -> list[AlignedChoice]:
        return [
            AlignedChoice(each["label"], each["turn"], each["runs"], each["passed"], each["failed"])
            for each in one["choices"]
        ]

    def pair(one: dict[str, Any]) -> AlignedPair:
        first, second = one["runs"]
        met = one["met"]
        return AlignedPair((first, second), one["parted"], met and (met["turns"][0], met["turns"][1]))

    decision = found["decision"]
    return Alignment(
        found["shared_steps"],
        [AlignedSplit(one["step"], one["by"], one["parent"], choices(one)) for one in found["splits"]],
        [pair(one) for one in found["pairs"]],
        decision and AlignedDecision(decision["step"], decision["separates"], choices(decision)),
    )
