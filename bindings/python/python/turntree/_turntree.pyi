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
    """Runs the program with these arguments, of which the script that calls is the first. Returns the exit
    code, with which the script ends the process at once."""

class Error(Exception):
    """The base of every error of turntree."""

    kind: ClassVar[str]

class NotFound(Error, LookupError):
    """What was named does not exist."""

class Expired(Error, LookupError):
    """The snapshot was dropped by retention."""

class Redacted(Error, LookupError):
    """The content was erased on purpose."""

class Ambiguous(Error, ValueError):
    """An abbreviation names more than one thing."""

class Conflict(Error):
    """Somebody else was faster: read again, and retry."""

class Corrupt(Error):
    """Stored bytes do not verify."""

class Locked(Error):
    """Another process holds what is needed."""

class Unsupported(Error):
    """This build cannot do that."""

class LimitExceeded(Error, ValueError):
    """A stated limit is exceeded."""

class InvalidInput(Error, ValueError):
    """An argument is not what was asked for, or a store or transaction is closed."""

class Encrypted(Error, PermissionError):
    """The store is encrypted, with another key or none given."""

class StoreIOError(Error, OSError):
    """The operating system refused."""

@final
class Store:
    """The store in a directory, which is made if nothing is there.

    ``actor`` is named as the author of snapshots. With ``maintain``, what the journal has too much of
    is packed now and then, on a thread of its own. After a fork of the process the child opens the store
    anew by itself.

    An encrypted store is opened with its ``key``, which ``turntree.keys`` unwraps; without it, and with
    another one, ``Encrypted`` is raised."""

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
        """The directory."""
    @property
    def closed(self) -> bool:
        """Whether it was closed."""
    def close(self) -> None:
        """Closes the store. Everything that was committed is durable already. With ``maintain``, a journal of
        4 MiB and more is packed now, which takes some tenths of a second."""
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _value: BaseException | None,
        _traceback: TracebackType | None,
    ) -> Literal[False]: ...
    def sessions(self) -> list[str]:
        """The sessions that have a snapshot, in order of names."""
    def branches(self, session: str | None = None) -> list[str]:
        """The branches of a session or of all, as ``session/branch``, in order of names."""
    def tip(self, branch: str) -> str | None:
        """The id of the newest snapshot of a branch; None when it is not there. A session alone means its
        branch ``main``."""
    def newest(self, branch: str) -> Snapshot | None:
        """The newest snapshot of a branch; None when it is not there."""
    def snapshot(self, revision: str) -> Snapshot:
        """The snapshot at a revision, such as ``task``, ``task/plan-b``, ``task~1`` or an id."""
    def begin(
        self, branch: str, message: str = "", *, expect: str | None | EllipsisType = ...
    ) -> Transaction:
        """Begins a change of a branch, which waits in memory. With ``expect``, committing it raises
        ``Conflict`` unless the newest snapshot is that one, or None for a branch that is not there;
        otherwise it goes on top of whatever is newest then."""
    def fork(self, branch: str, revision: str) -> str:
        """Begins a branch, of any session, at a snapshot. Copies nothing. Returns the id."""
    def log(self, revision: str) -> Log:
        """The snapshots from a revision back, newest first, read as they are asked for."""
    def diff(self, old: str, new: str) -> list[tuple[str, Literal["added", "removed", "changed"]]]:
        """What changed between two revisions: paths of entries, and how."""
    def merge(self, into: str, theirs: str) -> MergeOutcome:
        """Merges the newest snapshot of one branch into another one."""
    def undo(self) -> str | None:
        """Takes back the newest operation of this store's actor. Returns what it was."""
    def redo(self) -> str | None:
        """Repeats the newest operation that was undone. Returns what it was."""
    def delete(self, session: str) -> bool:
        """Deletes a session with all of its branches. Returns whether it was there. An undo brings it back
        until a collection has let it go."""
    def retain(
        self,
        session: str | None = None,
        *,
        turns: int | None = None,
        seconds: float | None = None,
        budget_bytes: int | None = None,
    ) -> None:
        """Sets what a session keeps, or every session without rules of its own: the newest turns, those of
        the last seconds, as many as fit into so many bytes. Without a rule it keeps all again. Takes
        effect with collections."""
    def collect(self, *, repack: bool = False) -> dict[str, int]:
        """Applies retention and frees what nothing leads to; with ``repack``, also compresses everything
        anew. Others read and write meanwhile. A signal such as Ctrl-C ends the wait for it; what was begun
        goes on to its end, or stops with the process and harms nothing."""

@final
class Snapshot:
    """What an agent knew at a turn."""

    @property
    def id(self) -> str:
        """The id of its commit: 64 hex digits."""
    @property
    def turn(self) -> int:
        """The number of its turn, from 1."""
    @property
    def title(self) -> str:
        """Its title."""
    @property
    def session(self) -> str:
        """The session that it was made in."""
    @property
    def parents(self) -> builtins.list[str]:
        """The ids of the snapshots that it goes on from."""
    @property
    def time_micros(self) -> int:
        """When it was made, in microseconds since 1970, UTC."""
    @property
    def author(self) -> str:
        """The agent that made it."""
    @property
    def metadata(self) -> dict[str, str]:
        """Facts that were recorded about it."""
    def sections(self) -> dict[str, Literal["blob", "list", "map"]]:
        """Its sections by name, with their shapes."""
    def count(self, section: str) -> int:
        """How many entries or records a section has; 0 when it is not there."""
    def get(self, section: str, key: str) -> bytes | None:
        """An entry of a map section; None when it is not there."""
    def read(self, path: str) -> bytes:
        """The entry or blob at a path, such as ``scratchpad/plan``; raises ``NotFound``."""
    def scan(
        self,
        section: str,
        prefix: str = "",
        *,
        after: str | None = None,
        reverse: bool = False,
        limit: int | None = None,
    ) -> builtins.list[tuple[str, bytes]]:
        """Entries of a map section in order of keys, or the other way round. ``after`` is the key that they
        come after in that direction; it need not be there. Costs what is returned."""
    def keys(
        self,
        section: str,
        prefix: str = "",
        *,
        after: str | None = None,
        reverse: bool = False,
        limit: int | None = None,
    ) -> builtins.list[str]:
        """The keys that ``scan`` finds."""
    def list(self, section: str, start: int = 0, stop: int | None = None) -> builtins.list[bytes]:
        """The records of a list section at these places, as far as there are any."""
    def agents(self) -> builtins.list[str]:
        """The agents that have a conversation or state."""
    def messages(self, agent: str = "main") -> builtins.list[Message]:
        """The conversation of an agent, oldest message first."""
    def changes_since(
        self, older: Snapshot
    ) -> builtins.list[tuple[str, Literal["added", "removed", "changed"]]]:
        """What changed from an older snapshot to this one: paths of entries, and how."""
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
        """The branch that a merge took it from; None for a message of the branch itself."""
    @property
    def record(self) -> bytes:
        """The record, byte for byte."""

@final
class MergeOutcome:
    """The outcome of a merge."""

    @property
    def id(self) -> str:
        """The newest snapshot of the branch now."""
    @property
    def kind(self) -> str:
        """``up-to-date``, ``fast-forward`` or ``merged``."""
    @property
    def conflicts(self) -> list[str]:
        """Paths that both changed to something else; all versions are in the section ``conflicts``."""

@final
class Log:
    """Snapshots from a revision back, newest first. Those that expired are passed over."""

    def __iter__(self) -> Self: ...
    def __next__(self) -> Snapshot: ...

@final
class Transaction:
    """A change of a branch that waits in memory. Leaving its ``with`` block commits it; an exception drops
    it. A branch that would stay the same gets no snapshot."""

    @property
    def branch(self) -> str:
        """The branch, with its session."""
    def on(self, branch: str, *, expect: str | None | EllipsisType = ...) -> Transaction:
        """The part of the same change that is about another branch. All parts commit together."""
    def put(self, section: str, key: str, content: bytes) -> None:
        """Sets an entry of a map section; a new section begins with it."""
    def put_file(
        self,
        path: str,
        content: bytes,
        *,
        mode: Literal["regular", "executable", "link"] = "regular",
    ) -> None:
        """Sets a file of the workspace, which is an entry of the section ``files``. The content of a link is
        its target."""
    def put_new(self, section: str, key: str, content: bytes) -> None:
        """Sets an entry unless it is there when the change is committed."""
    def remove(self, section: str, key: str) -> None:
        """Removes an entry of a map section, if it is there."""
    def push(self, section: str, record: bytes) -> None:
        """Appends a record to a list section; a new section begins with it."""
    def push_message(
        self, role: str, record: bytes, *, agent: str = "main", format: str = "json"
    ) -> None:
        """Appends a record in a format to the conversation of an agent."""
    def cut(self, section: str, count: int) -> None:
        """Cuts a list section back to its first so many records."""
    def set_blob(self, section: str, content: bytes) -> None:
        """Makes a section one blob, whatever it was."""
    def drop_section(self, section: str) -> None:
        """Removes a section, if it is there."""
    def note(self, name: str, value: str) -> None:
        """Records a fact about the snapshot."""
    def title(self, title: str) -> None:
        """Gives the snapshot a title in the place of the message."""
    def go_on_from(self, revision: str) -> None:
        """Makes the branch go on from a snapshot of any session, which is not copied."""
    def start_over(self) -> None:
        """Makes the branch begin anew, without its history and its sections."""
    def delete(self) -> None:
        """Deletes the branch."""
    def commit(self, message: str | None = None) -> str | None:
        """Makes the change durable as one operation. Returns where the branch is now."""
    def rollback(self) -> None:
        """Drops the change."""
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        _value: BaseException | None,
        _traceback: TracebackType | None,
    ) -> Literal[False]: ...
