"""The primitives of turntree."""

import builtins
import os
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from types import EllipsisType, TracebackType
from typing import Any, ClassVar, Literal, TypeAlias, final

from typing_extensions import Buffer, Self

from turntree._results import (
    Blamed,
    Change,
    Collected,
    Comparison,
    ExportFormat,
    Fetched,
    FileAction,
    FsckReport,
    Hit,
    Imported,
    Match,
    OpenConflict,
    Pin,
    Pulled,
    Pushed,
    Resolved,
    Retention,
    Role,
    RolledBack,
    SessionLabels,
    Stats,
    Tag,
)

__all__ = [
    "AlreadyExists",
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

_Content: TypeAlias = Buffer | str
_Revision: TypeAlias = str | Snapshot
# Roles, and the names that chat formats have for them.
_RoleName: TypeAlias = Role | Literal["ai", "developer", "function", "human", "model", "toolResult"]

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

class AlreadyExists(Conflict, FileExistsError):
    """The name is taken: choose another name."""

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
        key: Buffer | None = None,
    ) -> Self: ...
    @property
    def path(self) -> Path:
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
    def get(self, revision: _Revision) -> Snapshot | None:
        """Returns the snapshot at a revision, such as ``task``, ``task/plan-b``, ``task~1`` or an id;
        None if it does not exist. ``store[revision]`` raises ``NotFound`` then."""
    def __getitem__(self, revision: _Revision, /) -> Snapshot:
        """Returns the snapshot at a revision, such as ``task``, ``task/plan-b``, ``task~1`` or an id;
        raises ``NotFound``."""
    def __contains__(self, revision: _Revision, /) -> bool:
        """Returns True if there is a snapshot at this revision."""
    def __iter__(self) -> Iterator[str]:
        """Iterates over the sessions that have a snapshot, ordered by name."""
    def newest(self, branch: str) -> Snapshot | None:
        """Returns the newest snapshot of a branch; None if the branch is missing. Unlike ``get``, it
        accepts the name of a session or branch only, so a tag of that name does not hide it."""
    def begin(
        self, branch: str, message: str = "", *, expect: _Revision | None | EllipsisType = ...
    ) -> Transaction:
        """Begins a change of a branch, buffered in memory. With ``expect``, committing it raises
        ``Conflict`` unless the newest snapshot is that one, or the branch is missing for
        None; otherwise it is applied on top of the newest snapshot."""
    def fork(self, branch: str, *, at: _Revision) -> Snapshot:
        """Creates a branch, of any session, at a snapshot, without a copy. Returns the snapshot.
        Raises ``AlreadyExists`` if there is a branch of this name."""
    def log(
        self,
        revision: _Revision,
        *,
        limit: int | None = None,
        since: datetime | None = None,
        path: str | None = None,
    ) -> Log:
        """Iterates over the snapshots backwards from a revision, read on demand: at most ``limit``,
        only those later than ``since``, and only those that changed something at or below
        ``path``."""
    def diff(self, old: _Revision, new: _Revision) -> list[Change]:
        """Returns the changes between two revisions, ordered by path."""
    def merge(self, into: str, theirs: str) -> MergeOutcome:
        """Merges the newest snapshot of one branch into another branch."""
    def cherry_pick(
        self, into: str, *revisions: _Revision, only: Sequence[str] = ...
    ) -> list[MergeOutcome]:
        """Applies the changes of single snapshots to a branch, each as a new snapshot. A revision can
        also be a range: ``task..task/plan-b`` are the snapshots of the second that the first does not
        have, oldest first. With ``only``, the changes at and below these paths. One ``undo`` reverts
        all."""
    def conflicts(self, branch: str) -> list[OpenConflict]:
        """Returns the conflicts of merges that are open on a branch, ordered by path."""
    def resolve(
        self,
        branch: str,
        *paths: str,
        take: Literal["ours", "theirs", "base", "current"] | None = None,
        content: _Content | None = None,
        message: str | None = None,
    ) -> Resolved:
        """Resolves open conflicts of a branch in a new snapshot: those at ``paths``, or all. ``take`` is
        ``ours``, ``theirs``, ``base``, or ``current`` for the entry as it is now; ``content`` is for
        one path. Raises ``NotFound`` if there is no such conflict."""
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
    def collect(self, *, repack: bool = False, dry_run: bool = False) -> Collected:
        """Applies retention and frees unreachable content; with ``repack``, also recompresses
        everything. Other processes can read and write concurrently. A signal such as Ctrl-C
        ends the wait; the collection continues, or stops safely with the process. With
        ``dry_run``, nothing changes, and the bytes are estimates."""
    def retention(self, session: str | None = None) -> Retention | None:
        """Returns the retention rules of a session, or those of sessions without their own; None if
        there are none."""
    def restore(
        self,
        revision: _Revision,
        directory: str | os.PathLike[str],
        *,
        only: Sequence[str] = ...,
        overwrite: bool = False,
        allow_broad: bool = False,
        dry_run: bool = False,
    ) -> list[FileAction]:
        """Writes a snapshot as files into a directory, which is created if it is missing: everything,
        or the entries at and below the paths ``only``. Existing files are replaced only with
        ``overwrite``, and no file is deleted. The home directory and those above it require
        ``allow_broad``. Returns the files; with ``dry_run``, nothing is written."""
    def rollback(
        self,
        branch: str,
        *,
        to: _Revision | None = None,
        turn: int | None = None,
        workspace: str | os.PathLike[str] | None = None,
        only: Sequence[str] = ...,
        allow_broad: bool = False,
        dry_run: bool = False,
    ) -> RolledBack:
        """Rolls a branch back to the snapshot ``to`` or to its turn ``turn``, as a new snapshot: all
        of it, or the entries at and below the paths ``only``. With ``workspace``, the files of that
        directory follow, and are saved before; ``undo`` restores both. With ``dry_run``, nothing
        changes."""
    def blame(self, revision: _Revision, path: str) -> list[Blamed]:
        """Returns the parts of the entry or section at a path, each with the turn that wrote it: the
        lines of a text, the entries of a map, or the records of a list."""
    def grep(
        self,
        pattern: str,
        *,
        session: str | None = None,
        at: _Revision | None = None,
        paths: Sequence[str] = ...,
        fixed: bool = False,
        ignore_case: bool = False,
        word: bool = False,
    ) -> list[Match]:
        """Searches the lines of every message, entry and file in the history of a session, of the
        revision ``at``, or of all sessions, for a regular expression, or with ``fixed`` for a text.
        Returns each distinct entry once, in the first turn that has it."""
    def bisect(
        self, good: _Revision, bad: _Revision, is_bad: Callable[[Snapshot], object]
    ) -> Snapshot:
        """Finds the first snapshot on the way from ``good`` to ``bad`` for which ``is_bad`` returns
        True, with as few calls as possible; as in a binary search, all later ones must be bad, too.
        ``good`` is an ancestor of ``bad`` by first parents. Expired snapshots are skipped."""
    def tags(self) -> list[Tag]:
        """Returns every tag, ordered by name."""
    def tag(self, name: str, *, at: _Revision, message: str = "") -> None:
        """Gives a snapshot a fixed name, which is also a revision, and protects it from retention.
        Raises ``AlreadyExists`` if there is a tag of this name."""
    def untag(self, name: str) -> None:
        """Deletes a tag; raises ``NotFound``."""
    def pins(self) -> list[Pin]:
        """Returns every pin, including expired ones, ordered by name."""
    def pin(
        self,
        at: _Revision,
        *,
        name: str | None = None,
        reason: str = "",
        expires: datetime | None = None,
    ) -> Pin:
        """Protects a snapshot from retention, until ``expires``. The name is the beginning of its id
        by default. A pin of this name on the same snapshot is replaced; on another snapshot it raises
        ``AlreadyExists``."""
    def unpin(self, name: str) -> None:
        """Removes a pin; raises ``NotFound``."""
    def labels(self, session: str) -> SessionLabels:
        """Returns the title and the labels that people gave a session."""
    def label(self, session: str, *labels: str, remove: Sequence[str] = ...) -> SessionLabels:
        """Adds labels to a session, and removes the labels ``remove``. A label is one word. Returns
        the result."""
    def rename(self, session: str, title: str | None) -> None:
        """Gives a session a title that replaces that of its client; None removes it. Its name stays."""
    def fsck(self, *, quick: bool = False) -> FsckReport:
        """Examines the store: every byte, or with ``quick`` only its structure. Changes nothing."""
    def stats(self, session: str | None = None) -> Stats:
        """Measures the sessions of the store, or one of them."""
    def export(
        self,
        revision: _Revision,
        format: ExportFormat,
        *,
        agent: str = "main",
        allow_secrets: bool = False,
    ) -> bytes:
        """Returns a snapshot as text in UTF-8: ``source`` is the imported transcript byte for byte,
        ``jsonl``, ``openai``, ``anthropic`` and ``atif`` are the conversation of an agent,
        ``markdown`` is the history to read, and ``json`` the whole context. Raises
        ``InvalidInput`` if it contains a secret, unless ``allow_secrets``."""
    def import_file(
        self,
        path: str | os.PathLike[str],
        *,
        session: str | None = None,
        format: str | None = None,
    ) -> Imported:
        """Imports the transcript in a file into a session, which is named after the file by default.
        The format is recognised by default. A repeated import adds only new turns."""
    def search(
        self,
        text: str,
        *,
        session: str | None = None,
        paths: Sequence[str] = ...,
        all_words: bool = False,
        limit: int = 20,
    ) -> list[Hit]:
        """Finds messages, notes and files of all branches by words, the best first: words,
        ``"phrases"`` and beginnings of words, ``wor*``. With ``all_words``, a hit has every word as
        it is written. The first search builds an index, and later ones add new turns to it."""
    def compare(
        self, revision: _Revision, *others: _Revision, align: bool = False
    ) -> Comparison:
        """Compares branches since they parted: the turns, messages, calls of tools, tokens, files,
        checks and test runs of each. One name of a session or branch means all branches of its
        session. With ``align``, also their steps, one by one: where they part, where their files are
        equal again, and the step that separates those that passed from those that failed."""
    def remotes(self) -> dict[str, str]:
        """Returns the URLs of the remotes by name."""
    def add_remote(
        self,
        name: str,
        url: str | os.PathLike[str],
        *,
        encrypt: bool = False,
        members: Sequence[str] = ...,
    ) -> None:
        """Adds the remote at a URL, and creates it if it is missing: a folder, ``ssh://``, ``s3://``,
        ``gs://``, ``az://`` or ``postgres://``. A new one is encrypted with ``encrypt``, for your own
        key and the public keys of ``members``; an encrypted one is recognised. Raises
        ``AlreadyExists`` if there is a remote of this name, ``Encrypted`` without a key of a member,
        and ``Unsupported`` for a kind that this package was built without."""
    def remove_remote(self, name: str) -> None:
        """Removes a remote from the store; the remote itself does not change. Raises ``NotFound``."""
    @staticmethod
    def clone(
        url: str | os.PathLike[str],
        path: str | os.PathLike[str],
        *,
        name: str = "origin",
        actor: str = "python",
    ) -> Store:
        """Creates the store in the directory ``path``, which is missing or empty, with every session of
        the remote at a URL, and opens it. The remote is called ``name`` there."""
    def push(
        self, *sessions: str, remote: str | None = None, allow_secrets: bool = False
    ) -> list[Pushed]:
        """Pushes new turns of sessions, or of all, to a remote, which is optional if there is only
        one. Raises ``Conflict`` if the remote has turns that this store lacks, and
        ``InvalidInput`` if the turns contain a secret, unless ``allow_secrets``; sessions pushed
        before stay pushed."""
    def fetch(self, *sessions: str, remote: str | None = None) -> list[Fetched]:
        """Fetches sessions, or all that changed, from a remote, which is optional if there is only
        one. Branches of this store do not move: fetched ones are revisions such as
        ``origin/task/main``."""
    def pull(self, *sessions: str, remote: str | None = None) -> list[Pulled]:
        """Fetches as ``fetch`` does, and then creates, fast-forwards or merges the branches of this
        store. Returns the branches that moved."""

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
    def time(self) -> datetime:
        """The time of the snapshot, in UTC."""
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
    def __getitem__(self, path: str, /) -> bytes:
        """Returns the entry or blob at a path, such as ``scratchpad/plan``; raises ``NotFound``."""
    def __contains__(self, path: str, /) -> bool:
        """Returns True if there is an entry or a blob at this path."""
    def __iter__(self) -> Iterator[str]:
        """Iterates over the paths of all blobs and of all entries of map sections."""
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
    def changes_since(self, older: Snapshot) -> builtins.list[Change]:
        """Returns the changes from an older snapshot to this one, ordered by path."""
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class Message:
    """A message of a conversation."""

    @property
    def role(self) -> Role:
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
    @property
    def text(self) -> str:
        """The text that its format finds in the record, or else the record. Formats of transcripts
        need the program."""
    def json(self) -> Any:
        """Returns the record as the value of its JSON; raises ``ValueError`` if it is none."""

@final
class MergeOutcome:
    """The result of a merge."""

    @property
    def id(self) -> str:
        """The newest snapshot of the branch now."""
    @property
    def kind(self) -> Literal["up-to-date", "fast-forward", "merged"]:
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
    def on(self, branch: str, *, expect: _Revision | None | EllipsisType = ...) -> Transaction:
        """Returns the part of the same change for another branch. All parts commit together."""
    def get(self, section: str, key: str) -> bytes | None:
        """Returns an entry of a map section as this change will leave it; None if it is missing.

        The first read reads the newest snapshot of the branch, and ``commit`` raises ``Conflict``
        if the branch has another snapshot then; so the change never depends on stale content."""
    def __getitem__(self, path: str, /) -> bytes:
        """Returns the entry or blob at a path, such as ``scratchpad/plan``, as ``get`` does; raises
        ``NotFound``."""
    def __contains__(self, path: str, /) -> bool:
        """Returns True if there is an entry or a blob at this path, as ``get`` does."""
    def __setitem__(self, path: str, content: _Content, /) -> None:
        """Sets the entry at a path of a map section, such as ``scratchpad/plan``."""
    def count(self, section: str) -> int:
        """Returns the number of entries or records of a section, as ``get`` does; 0 if it is missing."""
    def scan(
        self,
        section: str,
        prefix: str = "",
        *,
        after: str | None = None,
        reverse: bool = False,
        limit: int | None = None,
    ) -> builtins.list[tuple[str, bytes]]:
        """Returns entries of a map section ordered by key, or in reverse, as ``get`` and
        ``Snapshot.scan`` do."""
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
        """Returns the records of a list section at these places, as far as they exist, as ``get``
        does."""
    def put(self, section: str, key: str, content: _Content) -> None:
        """Sets an entry of a map section; creates the section if needed."""
    def put_file(
        self,
        path: str,
        content: _Content,
        *,
        mode: Literal["regular", "executable", "link"] = "regular",
    ) -> None:
        """Sets a file of the workspace, which is an entry of the section ``files``. The content
        of a link is its target."""
    def put_new(self, section: str, key: str, content: _Content) -> None:
        """Sets an entry unless it exists at commit."""
    def remove(self, section: str, key: str) -> None:
        """Removes an entry of a map section, if it exists."""
    def push(self, section: str, record: _Content) -> None:
        """Appends a record to a list section; creates the section if needed."""
    def push_message(
        self, role: _RoleName, record: _Content, *, agent: str = "main", format: str = "json"
    ) -> None:
        """Appends a record in a format to the conversation of an agent. A role is one of those of
        ``Message``, or its name in a chat format, such as ``developer`` or ``model``."""
    def message(
        self,
        message: Any,
        *,
        role: _RoleName | None = None,
        agent: str = "main",
        format: str = "json",
    ) -> None:
        """Appends a message, which is stored as JSON, to the conversation of an agent. Without
        ``role``, it is the message's own."""
    def say(self, role: _RoleName, text: str, *, agent: str = "main") -> None:
        """Appends what ``role`` says to the conversation of an agent: a message with this role and
        this text as its content."""
    def cut(self, section: str, count: int) -> None:
        """Truncates a list section to its first ``count`` records."""
    def set_blob(self, section: str, content: _Content) -> None:
        """Replaces a section of any shape with one blob."""
    def drop_section(self, section: str) -> None:
        """Removes a section, if it exists."""
    def note(self, name: str, value: str) -> None:
        """Adds metadata to the snapshot."""
    def title(self, title: str) -> None:
        """Sets a title for the snapshot instead of the message."""
    def go_on_from(self, revision: _Revision) -> None:
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
