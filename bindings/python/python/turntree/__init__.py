"""A content-addressed, versioned store for agent sessions: git for what an agent knows.

A store holds sessions. A session has branches, and a branch is a chain of snapshots, each one
everything an agent would be given next: conversations, and maps, lists and blobs by name.

    with turntree.Store("agents.turntree") as store:
        with store.begin("task", "first turn") as turn:
            turn.say("user", "Split the parser")
            turn["scratchpad/plan"] = "read the tests"
        assert store["task"]["scratchpad/plan"] == b"read the tests"

Threads and processes may use one store at once. Adapters for frameworks are modules of their own:
``turntree.langgraph``, ``turntree.claude`` and so on; each wants its framework installed.
"""

from turntree._turntree import (
    AlreadyExists,
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

TYPE_CHECKING = False
if TYPE_CHECKING:
    from turntree._names import parts_of, session_name
    from turntree._results import (
        AlignedChoice,
        AlignedDecision,
        AlignedPair,
        AlignedSplit,
        Alignment,
        Blamed,
        Change,
        ChangeKind,
        Collected,
        Compared,
        Comparison,
        ExportFormat,
        Fetched,
        FileAction,
        Finding,
        FoundRuns,
        FsckReport,
        Hit,
        Imported,
        Match,
        MatchedLine,
        OpenConflict,
        Pin,
        Pulled,
        Pushed,
        Resolved,
        Retention,
        Role,
        RolledBack,
        SessionLabels,
        SessionStats,
        Spending,
        Stats,
        Tag,
    )

__all__ = [
    "AlignedChoice",
    "AlignedDecision",
    "AlignedPair",
    "AlignedSplit",
    "Alignment",
    "AlreadyExists",
    "Ambiguous",
    "Blamed",
    "Change",
    "ChangeKind",
    "Collected",
    "Compared",
    "Comparison",
    "Conflict",
    "Corrupt",
    "Encrypted",
    "Error",
    "Expired",
    "ExportFormat",
    "Fetched",
    "FileAction",
    "Finding",
    "FoundRuns",
    "FsckReport",
    "Hit",
    "Imported",
    "InvalidInput",
    "LimitExceeded",
    "Locked",
    "Log",
    "Match",
    "MatchedLine",
    "MergeOutcome",
    "Message",
    "NotFound",
    "OpenConflict",
    "Pin",
    "Pulled",
    "Pushed",
    "Redacted",
    "Resolved",
    "Retention",
    "Role",
    "RolledBack",
    "SessionLabels",
    "SessionStats",
    "Snapshot",
    "Spending",
    "Stats",
    "Store",
    "StoreIOError",
    "Tag",
    "Transaction",
    "Unsupported",
    "__version__",
    "parts_of",
    "session_name",
]

# Where the other names are. They are read when they are used: the program, which hooks of agents
# start at every step, needs none of them, nor what they import.
_LATER = {
    **dict.fromkeys(
        (
            "AlignedChoice",
            "AlignedDecision",
            "AlignedPair",
            "AlignedSplit",
            "Alignment",
            "Blamed",
            "Change",
            "ChangeKind",
            "Collected",
            "Compared",
            "Comparison",
            "ExportFormat",
            "Fetched",
            "FileAction",
            "Finding",
            "FoundRuns",
            "FsckReport",
            "Hit",
            "Imported",
            "Match",
            "MatchedLine",
            "OpenConflict",
            "Pin",
            "Pulled",
            "Pushed",
            "Resolved",
            "Retention",
            "Role",
            "RolledBack",
            "SessionLabels",
            "SessionStats",
            "Spending",
            "Stats",
            "Tag",
        ),
        "_results",
    ),
    "parts_of": "_names",
    "session_name": "_names",
}


def __getattr__(name: str) -> object:
    module = _LATER.get(name)
    if module is None:
        raise AttributeError(f"module 'turntree' has no attribute {name!r}")
    found: object = getattr(__import__(f"turntree.{module}", fromlist=[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})
