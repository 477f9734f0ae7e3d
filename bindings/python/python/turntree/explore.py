"""Explorations: a command for each of several strategies, side by side, and the best one kept.

    from turntree.explore import explore

    found = explore(
        store,
        {"cache": "add a cache", "pool": "use a pool"},
        ["claude", "-p", "{prompt}"],
        at="task",
        folder="../worktrees",
        check="cargo test",
    )
    print(found.state, found.ranked)
    found.keep()

Each strategy runs on a branch of its own, in a worktree with the files of the snapshot. When a command
has ended, its files are in a snapshot of the branch, and the check decides: exit code 0 means passed,
and a number at the end of its last line is the score.

An exploration is run by the program in the package, in a process of its own, and every step of it is in
the store: after an interruption, ``resume`` runs what has not ended. In the words of a command,
``{prompt}``, ``{name}``, ``{dir}``, ``{branch}``, ``{round}`` and ``{session}`` are replaced; no shell reads
them. An encrypted store needs its key where ``turntree.keys.unwrap`` looks for one.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal, NamedTuple, TypeAlias

import turntree
from turntree import Error, Snapshot, Store, Unsupported, _turntree

__all__ = ["Exploration", "Kept", "Search", "Step", "Trial", "exploration", "explore"]

#: How strategies follow each other: each runs once; each round continues the better half; each round
#: forks the best ones again, once for each strategy.
Search: TypeAlias = Literal["best-of", "halving", "beam"]

#: The program in the extension module, as its script runs it.
_PROGRAM = [sys.executable, "-c", "from turntree._program import main; main()"]

#: The exit code of "done, and the answer is no": no strategy passed, or there is a conflict.
_NO = 1

_KINDS = {
    one.kind: one
    for one in vars(turntree).values()
    if isinstance(one, type) and issubclass(one, Error) and one is not turntree.AlreadyExists
}


class Step(NamedTuple):
    """What was done last on the branch of a trial."""

    turn: int
    """The turn."""
    message: str
    """The message of its snapshot."""
    time: datetime
    """The time of it."""


@dataclass(frozen=True)
class Trial:
    """One run of the command for a strategy."""

    strategy: str
    """The name of the strategy."""
    branch: str
    """The branch, as ``session/branch``."""
    round: int
    """The round, from 1."""
    state: Literal["waiting", "running", "checking", "interrupted", "passed", "failed"]
    """The state."""
    start: str | None
    """The snapshot at which it began."""
    worktree: str | None
    """The directory with its files."""
    end: Literal["exit", "signal", "timeout", "budget", "not-started"] | None
    """How the command ended."""
    exit: int | None
    """The exit code of the command."""
    score: float | None
    """The number that the check printed last."""
    elapsed: timedelta | None
    """The time of the command and its check."""
    tokens: int | None
    """The tokens of its answers, as far as recorded."""
    cost: float | None
    """Their cost in US dollars, as far as known."""
    step: Step | None
    """What was done last on the branch; None for a trial that a later one continues."""


class Kept(NamedTuple):
    """What keeping a trial merged."""

    id: str | None
    """The newest snapshot of the branch ``into`` now."""
    kind: Literal["up-to-date", "fast-forward", "merged"]
    """How the branch moved."""
    conflicts: list[str]
    """Conflicting paths, for ``Store.resolve``; the worktrees stay then."""


@dataclass(frozen=True)
class Exploration:
    """An exploration, as it was when it was read."""

    name: str
    """Its name."""
    session: str
    """The session of its branches."""
    state: Literal["running", "over", "interrupted"]
    """Running in any process, over, or to be resumed."""
    at: str
    """The snapshot at which it began."""
    into: str
    """The branch into which ``keep`` merges."""
    search: Search
    """How strategies follow each other."""
    rounds: int
    """The number of rounds."""
    round: int
    """The current round."""
    trials: list[Trial]
    """The runs of the command."""
    ranked: list[str]
    """The branches of trials that have ended, the best first."""
    best: Trial | None
    """The best trial that passed."""
    tokens: int | None
    """The tokens of all trials, as far as recorded."""
    cost: float | None
    """Their cost in US dollars, as far as known."""
    _store: Store = field(repr=False, compare=False)

    def status(self) -> "Exploration":
        """Reads the exploration again."""
        return exploration(self._store, f"{self.session}/{self.name}")

    def resume(
        self,
        *,
        jobs: int | None = None,
        timeout: float | timedelta | None = None,
        budget: str | int | None = None,
    ) -> "Exploration":
        """Runs what has not ended, with other limits where given, and waits for it."""
        named = f"{self.session}/{self.name}"
        limits = _limits(jobs, timeout, budget)
        (record,) = _run(self._store, "explore", "continue", named, *limits)
        return _exploration(self._store, record)

    def keep(self, strategy: str | None = None) -> Kept:
        """Merges the branch of a strategy with its files into ``into``, and removes the worktrees
        whose files are in a snapshot; the best one that passed by default. All branches stay.
        Raises ``NotFound`` if there is none."""
        chosen = [] if strategy is None else [strategy]
        named = f"{self.session}/{self.name}"
        (record, *_) = _run(self._store, "explore", "keep", named, *chosen)
        paths = [conflict["path"] for conflict in record["conflicts"]]
        return Kept(record["id"], record["kind"], paths)


def explore(
    store: Store,
    strategies: Mapping[str, str],
    command: Sequence[str | os.PathLike[str]],
    *,
    at: str | Snapshot,
    folder: str | os.PathLike[str] | None = None,
    check: str | None = None,
    search: Search = "best-of",
    rounds: int | None = None,
    width: int | None = None,
    name: str | None = None,
    jobs: int | None = None,
    timeout: float | timedelta | None = None,
    budget: str | int | None = None,
) -> Exploration:
    """Runs a command for each strategy, a name with a prompt, from the snapshot ``at``, and waits for
    all of them.

    ``folder`` is for the worktrees; it is next to the project by default, if the snapshot names one.
    ``check`` is a line for the shell. ``jobs`` commands run at a time, one for each processor by
    default. ``timeout``, in seconds, ends a command or a check; ``budget`` ends all when they have
    spent it together: tokens such as ``400_000``, or money such as ``"$5"``.

    An exception such as ``KeyboardInterrupt`` interrupts it, and ``exploration(store).resume()`` goes
    on."""
    start = at.id if isinstance(at, Snapshot) else at
    arguments: list[object] = ["explore", "--from", start, "--search", search]
    for strategy, prompt in strategies.items():
        arguments += ["--strategy", f"{strategy}={prompt}"]
    options = {"folder": folder, "check": check, "rounds": rounds, "width": width, "name": name}
    for option, value in options.items():
        if value is not None:
            arguments += [f"--{option}", value]
    (record,) = _run(store, *arguments, *_limits(jobs, timeout, budget), "--", *command)
    return _exploration(store, record)


def exploration(store: Store, name: str | None = None) -> Exploration:
    """Reads an exploration, by its name or ``session/name``; the newest by default. It may run in
    another process or thread. Raises ``NotFound``."""
    (record,) = _run(store, "explore", "status", *([] if name is None else [name]))
    return _exploration(store, record)


def _limits(
    jobs: int | None, timeout: float | timedelta | None, budget: str | int | None
) -> list[object]:
    seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
    found: list[object] = []
    if jobs is not None:
        found += ["--jobs", jobs]
    if seconds is not None:
        found += ["--timeout", f"{max(1, round(seconds * 1000))}ms"]
    if budget is not None:
        found += ["--budget", budget]
    return found


def _run(store: Store, *arguments: object) -> list[dict[str, Any]]:
    """Runs the program on a store. Returns its records."""
    if not hasattr(_turntree, "run_program"):
        raise Unsupported("this package was built without the program (TURNTREE_PROGRAM=none)")
    command = [*_PROGRAM, "--store", os.fspath(store.path), "--json", *map(_word, arguments)]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        try:
            out, said = process.communicate()
        except BaseException:
            # It ends its commands, and writes down how far they came.
            process.send_signal(signal.SIGINT if os.name != "nt" else signal.SIGTERM)
            process.wait()
            raise
    if process.returncode not in (0, _NO):
        raise _error(said.decode(errors="replace"), process.returncode)
    return [json.loads(line) for line in out.splitlines()]


def _word(argument: object) -> str:
    return os.fsdecode(argument) if isinstance(argument, os.PathLike) else str(argument)


def _error(said: str, code: int) -> Error:
    """The exception for what the program wrote to stderr."""
    for line in reversed(said.splitlines()):
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if isinstance(found, dict) and "error" in found:
            hint = f" ({found['hint']})" if found.get("hint") else ""
            kind: type[Error] = _KINDS.get(found["error"], Error)
            return kind(f"{found['message']}{hint}")
    return Error(said.strip() or f"the program ended with {code}")


def _exploration(store: Store, record: dict[str, Any]) -> Exploration:
    session = record["session"]
    trials = [_trial(session, one) for one in record["trials"]]
    best = [trial for trial in trials if trial.branch == f"{session}/{record['best']}"]
    return Exploration(
        name=record["name"],
        session=session,
        state=record["state"],
        at=record["from"],
        into=record["into"],
        search=record["search"],
        rounds=record["rounds"],
        round=record["round"],
        trials=trials,
        ranked=[f"{session}/{branch}" for branch in record["ranked"]],
        best=best[-1] if best else None,
        tokens=record["tokens"],
        cost=record["cost_usd"],
        _store=store,
    )


def _trial(session: str, one: dict[str, Any]) -> Trial:
    step, elapsed = one["step"], one["elapsed_ms"]
    return Trial(
        strategy=one["strategy"],
        branch=f"{session}/{one['branch']}",
        round=one["round"],
        state=one["state"],
        start=one["start"],
        worktree=one["worktree"],
        end=one["end"],
        exit=one["exit"],
        score=one["score"],
        elapsed=None if elapsed is None else timedelta(milliseconds=elapsed),
        tokens=one["tokens"],
        cost=one["cost_usd"],
        step=step
        and Step(step["turn"], step["message"], _time(step["time"])),
    )


def _time(text: str) -> datetime:
    # Python 3.10 knows no Z, and no fraction but of three or six digits.
    whole, _, rest = text.partition(".")
    digits = rest[: len(rest) - len(rest.lstrip("0123456789"))]
    zone = (rest[len(digits) :] if rest else "").replace("Z", "+00:00")
    if not rest:
        return datetime.fromisoformat(text.replace("Z", "+00:00"))
    return datetime.fromisoformat(f"{whole}.{digits[:6]:0<6}{zone}")
