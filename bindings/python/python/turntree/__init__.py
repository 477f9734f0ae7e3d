"""A content-addressed, versioned store for agent sessions: git for what an agent knows.

A store holds sessions. A session has branches, and a branch is a chain of snapshots, each one
everything an agent would be given next: conversations, and maps, lists and blobs by name.

    with turntree.Store("agents.turntree") as store:
        with store.begin("task", "first turn") as turn:
            turn.push_message("user", b'{"role":"user","content":"Split the parser"}')
            turn.put("scratchpad", "plan", b"read the tests")
        snapshot = store.snapshot("task")
        assert snapshot.get("scratchpad", "plan") == b"read the tests"

Threads and processes may use one store at once. Adapters for frameworks are modules of their own:
``turntree.langgraph``, ``turntree.claude`` and so on; each wants its framework installed.
"""

from turntree._turntree import (
    Ambiguous,
    Conflict,
    Corrupt,
    Encrypted,
    Error,
    Expired,
    InvalidInput,
    LimitExceeded,
    Locked,
    Log,
    MergeOutcome,
    Message,
    NotFound,
    Redacted,
    Snapshot,
    Store,
    StoreIOError,
    Transaction,
    Unsupported,
    __version__,
)

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
]
