"""The primitives of turntree."""

import builtins
import os
from types import EllipsisType, TracebackType
from typing import ClassVar, Literal, final

from typing_extensions import Self

__all__ = [
    "Ambiguous",
    "Conflict",
    "Corrupt",
    "Encrypted",
    "Error",
    "Expired",
    "InvalidInput",
    "LimitExceeded",
    "Locked",
    "Log",
    "MergeOutcome",
    "Message",
    "NotFound",
    "Redacted",
    "Snapshot",
    "Store",
    "StoreIOError",
    "Transaction",
    "Unsupported",
    "__version__",
    "run_program",
]

__version__: str

def run_program(arguments: list[str]) -> int:
    """Runs the program with these arguments; the first is the calling script. Returns the exit
    code, with which the script ends the process immediately."""

class Error(Exception):
    """The base of every error of turntree."""

    kind: ClassVar[str]

class NotFound(Error, LookupError):
    """The named thing does not exist."""

class Expired(Error, LookupError):
    """The snapshot was dropped by retention."""

class Redacted(Error, LookupError):
    """The content was erased on purpose."""

class Ambiguous(Error, ValueError):
    """An abbreviation names more than one thing."""

class Conflict(Error):
    """Another process committed first: read again, and retry."""

class Corrupt(Error):
    """Stored bytes do not verify."""

class Locked(Error):
    """Another process holds the lock."""

class Unsupported(Error):
    """This build cannot do that."""

class LimitExceeded(Error, ValueError):
    """A stated limit is exceeded."""

class InvalidInput(Error, ValueError):
    """An argument is invalid, or a store or transaction is closed."""

class Encrypted(Error, PermissionError):
    """The store is encrypted, with another key or none given."""

class StoreIOError(Error, OSError):
    """The operating system refused."""

@final
class Store:
    """The store in a directory, which is created if it is missing.

    ``actor`` is the author of snapshots. With ``maintain``, a background thread packs a large
    journal regularly. After a fork the child process reopens the store automatically.

    An encrypted store is opened with its ``key``, which ``turntree.keys`` unwraps; a missing
    or wrong key raises ``Encrypted``."""

    def __new__(
        cls,
        path: str | os.PathLike[str],
        *,
        actor: str = "python",
        create: bool = True,
        maintain: bool = True,
        key: bytes | None = None,
    ) -> Self: ...
    @property
    def path(self) -> os.PathLike[str]:
        """The directory of the store."""
    @property
    def closed(self) -> bool:
        """True after the store was closed."""
    def close(self) -> None:
        """Closes the store. Everything committed is already durable. With ``maintain``, a
        journal of 4 MiB or more is packed now, which takes some tenths of a second."""
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _value: BaseException | None,
        _traceback: TracebackType | None,
    ) -> Literal[False]: ...
    def sessions(self) -> list[str]:
        """Returns the sessions that have a snapshot, ordered by name."""
    def branches(self, session: str | None = None) -> list[str]:
        """Returns the branches of a session, or of all sessions, as ``session/branch``, ordered
        by name."""
    def tip(self, branch: str) -> str | None:
        """Returns the id of the newest snapshot of a branch; None if the branch is missing. A
        session name means its branch ``main``."""
    def newest(self, branch: str) -> Snapshot | None:
        """Returns the newest snapshot of a branch; None if the branch is missing."""
    def snapshot(self, revision: str) -> Snapshot:
        """Returns the snapshot at a revision, such as ``task``, ``task/plan-b``, ``task~1`` or
        an id."""
    def begin(
        self, branch: str, message: str = "", *, expect: str | None | EllipsisType = ...
    ) -> Transaction:
        """Begins a change of a branch, buffered in memory. With ``expect``, committing it raises
        ``Conflict`` unless the newest snapshot is that one, or the branch is missing for
        None; otherwise it is applied on top of the newest snapshot."""
    def fork(self, branch: str, revision: str) -> str:
        """Creates a branch, of any session, at a snapshot, without a copy. Returns the id."""
    def log(self, revision: str) -> Log:
        """Iterates over the snapshots backwards from a revision, read on demand."""
    def diff(self, old: str, new: str) -> list[tuple[str, Literal["added", "removed", "changed"]]]:
        """Returns the changes between two revisions: paths of entries, and the kind of each
        change."""
    def merge(self, into: str, theirs: str) -> MergeOutcome:
        """Merges the newest snapshot of one branch into another branch."""
    def undo(self) -> str | None:
        """Undoes the newest operation of this store's actor. Returns its description."""
    def redo(self) -> str | None:
        """Redoes the operation that was undone last. Returns its description."""
    def delete(self, session: str) -> bool:
        """Deletes a session with all of its branches. Returns True if it existed. An undo
        restores it until a collection frees its content."""
    def retain(
        self,
        session: str | None = None,
        *,
        turns: int | None = None,
        seconds: float | None = None,
        budget_bytes: int | None = None,
    ) -> None:
        """Sets the retention rules of a session, or of every session without its own rules: the
        newest turns, turns of the last seconds, and a budget in bytes. Without a rule
        everything is kept again. Collections apply the rules."""
    def collect(self, *, repack: bool = False) -> dict[str, int]:
        """Applies retention and frees unreachable content; with ``repack``, also recompresses
        everything. Other processes can read and write concurrently. A signal such as Ctrl-C
        ends the wait; the collection continues, or stops safely with the process."""

@final
class Snapshot:
    """An agent's context at a turn."""

    @property
    def id(self) -> str:
        """The id of the commit: 64 hex digits."""
    @property
    def turn(self) -> int:
        """The number of the turn, from 1."""
    @property
    def title(self) -> str:
        """The title."""
    @property
    def session(self) -> str:
        """The session of the snapshot."""
    @property
    def parents(self) -> builtins.list[str]:
        """The ids of the parent snapshots."""
    @property
    def time_micros(self) -> int:
        """The time of the snapshot, in microseconds since 1970, UTC."""
    @property
    def author(self) -> str:
        """The agent that made the snapshot."""
    @property
    def metadata(self) -> dict[str, str]:
        """The metadata of the snapshot."""
    def sections(self) -> dict[str, Literal["blob", "list", "map"]]:
        """Returns the sections by name, with their shapes."""
    def count(self, section: str) -> int:
        """Returns the number of entries or records of a section; 0 if it is missing."""
    def get(self, section: str, key: str) -> bytes | None:
        """Returns an entry of a map section; None if it is missing."""
    def read(self, path: str) -> bytes:
        """Returns the entry or blob at a path, such as ``scratchpad/plan``; raises ``NotFound``."""
    def scan(
        self,
        section: str,
        prefix: str = "",
        *,
        after: str | None = None,
        reverse: bool = False,
        limit: int | None = None,
    ) -> builtins.list[tuple[str, bytes]]:
        """Returns entries of a map section ordered by key, or in reverse. Reading begins after
        the key ``after`` in that direction; it need not exist. Costs in proportion to the
        returned entries."""
    def keys(
        self,
        section: str,
        prefix: str = "",
        *,
        after: str | None = None,
        reverse: bool = False,
        limit: int | None = None,
    ) -> builtins.list[str]:
        """Returns the keys that ``scan`` finds."""
    def list(self, section: str, start: int = 0, stop: int | None = None) -> builtins.list[bytes]:
        """Returns the records of a list section at these places, as far as they exist."""
    def agents(self) -> builtins.list[str]:
        """Returns the agents that have a conversation or state."""
    def messages(self, agent: str = "main") -> builtins.list[Message]:
        """Returns the conversation of an agent, oldest message first."""
    def changes_since(
        self, older: Snapshot
    ) -> builtins.list[tuple[str, Literal["added", "removed", "changed"]]]:
        """Returns the changes from an older snapshot to this one: paths of entries, and the kind
        of each change."""
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class Message:
    """A message of a conversation."""

    @property
    def role(self) -> str:
        """``system``, ``user``, ``assistant``, ``tool`` or ``other``."""
    @property
    def format(self) -> str:
        """The format of the record."""
    @property
    def origin(self) -> str | None:
        """The branch that a merge took the message from; None for a message of this branch."""
    @property
    def record(self) -> bytes:
        """The record, byte for byte."""

@final
class MergeOutcome:
    """The result of a merge."""

    @property
    def id(self) -> str:
        """The newest snapshot of the branch now."""
    @property
    def kind(self) -> str:
        """``up-to-date``, ``fast-forward`` or ``merged``."""
    @property
    def conflicts(self) -> list[str]:
        """Conflicting paths; all versions are in the section ``conflicts``."""

@final
class Log:
    """Iterates over snapshots backwards from a revision. Skips expired ones."""

    def __iter__(self) -> Self: ...
    def __next__(self) -> Snapshot: ...

@final
class Transaction:
    """A change of a branch, buffered in memory. Leaving its ``with`` block commits it; an
    exception drops it. An unchanged branch gets no snapshot."""

    @property
    def branch(self) -> str:
        """The branch, with its session."""
    def on(self, branch: str, *, expect: str | None | EllipsisType = ...) -> Transaction:
        """Returns the part of the same change for another branch. All parts commit together."""
    def put(self, section: str, key: str, content: bytes) -> None:
        """Sets an entry of a map section; creates the section if needed."""
    def put_file(
        self,
        path: str,
        content: bytes,
        *,
        mode: Literal["regular", "executable", "link"] = "regular",
    ) -> None:
        """Sets a file of the workspace, which is an entry of the section ``files``. The content
        of a link is its target."""
    def put_new(self, section: str, key: str, content: bytes) -> None:
        """Sets an entry unless it exists at commit."""
    def remove(self, section: str, key: str) -> None:
        """Removes an entry of a map section, if it exists."""
    def push(self, section: str, record: bytes) -> None:
        """Appends a record to a list section; creates the section if needed."""
    def push_message(
        self, role: str, record: bytes, *, agent: str = "main", format: str = "json"
    ) -> None:
        """Appends a record in a format to the conversation of an agent."""
    def cut(self, section: str, count: int) -> None:
        """Truncates a list section to its first ``count`` records."""
    def set_blob(self, section: str, content: bytes) -> None:
        """Replaces a section of any shape with one blob."""
    def drop_section(self, section: str) -> None:
        """Removes a section, if it exists."""
    def note(self, name: str, value: str) -> None:
        """Adds metadata to the snapshot."""
    def title(self, title: str) -> None:
        """Sets a title for the snapshot instead of the message."""
    def go_on_from(self, revision: str) -> None:
        """Continues the branch from a snapshot of any session, without a copy."""
    def start_over(self) -> None:
        """Restarts the branch without its history and its sections."""
    def delete(self) -> None:
        """Deletes the branch."""
    def commit(self, message: str | None = None) -> str | None:
        """Commits the change durably as one operation. Returns the new tip of the branch."""
    def rollback(self) -> None:
        """Drops the change."""
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        _value: BaseException | None,
        _traceback: TracebackType | None,
    ) -> Literal[False]: ...
