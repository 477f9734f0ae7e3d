//! Imports and exports transcripts, framework documents, git repositories and pages for a
//! [`turntree`] store.
//!
//! ```text
//! file -> split into pieces -> parsed into events -> turns -> commits
//!         text                 formats/<name>        import
//!
//! commits -> the file again, byte for byte; messages, pages and git at any revision
//!            turntree::context              render, git
//! ```
//!
//! | module | content |
//! |---|---|
//! | `text` | splits files: JSON lines, JSON documents, zstd, SQLite |
//! | `model` | the output of formats: events, views of messages, reports |
//! | `secrets` | finds and masks known formats of secrets |
//! | `import` | turns pieces and events into commits; compares a file with sessions |
//! | [`formats`] | one file for each transcript format, a folder for each framework; [`detect`] |
//! | `insight` | analyses of a history: loops, lessons, comparisons, usage |
//! | `search` | ranked word search with an incremental index (feature `sqlite`) |
//! | [`render`] | pages, Markdown and chats from a history |
//! | [`replay`] | a recorded conversation, served again to a client |
//! | [`agents`] | the places of agents' sessions, and the events of their hooks |
//! | `git` | histories as git repositories, and back (feature `git`) |
//!
//! Each module uses only those above it; `git` and [`agents`] do not use each other.

pub mod agents;
pub mod formats;
#[cfg(feature = "git")]
pub mod git;
mod import;
mod insight;
mod model;
pub mod render;
pub mod replay;
mod search;
mod secrets;
mod text;

pub use formats::any::{follow, import, import_from};
pub use formats::detect::detect;
pub use formats::frameworks::OLLM_TOKENS;
pub use formats::frameworks::read_tree::{FoldersOf, StoredTree, read_files, read_tree};
pub use formats::session::{GIT_REMOTE, without_credentials};
pub use formats::state::apply_state;
pub use formats::state_edits::apply_edits;
pub use formats::{MESSAGE_FORMATS, is_prompt, is_section_name, listed_sections};
pub use import::follow::{
    FollowOptions, FollowReport, TurnFiles, followed_branch, followed_bytes, has_call,
};
pub use import::gap_limit::{MAX_GAP_BYTES, MAX_GAP_PIECES};
pub use import::rollback::{
    ClientBranch, RolledBackBranch, client_branch, is_client_branch_of, rolled_back_branch,
};
pub use insight::align::{
    AlignedRun, AlignedStep, Alignment, Decision, Meeting, RunChoice, RunPair, Split, align,
};
pub use insight::brief::{SessionBrief, TurnKind, session_brief};
pub use insight::compare::{
    CHECK_PREFIX, Comparison, FAILED, PASSED, Strategy, compare, compare_aligned,
};
pub use insight::contributions::{Contribution, contributions};
pub use insight::edit::{
    Cut, EditedConversation, EditedMessage, edit_conversation, expand_compaction,
};
pub use insight::effects::{
    CallOutcome, Ledger, LedgerEntry, Outside, Return, ledger, return_before,
};
pub use insight::intent::{
    MAX_ROLLBACK_STEPS, RollbackIntent, rollback_intent, rollback_language, rollback_request,
};
pub use insight::language::Language;
pub use insight::lessons;
pub use insight::offload::{OffloadOptions, Placeholder, Tail, offload};
pub use insight::origin::{GIT_BRANCH, Origin, origin};
pub use insight::outline::{ChangedFile, OutlinePart, TurnFacts, outline, turn_facts};
pub use insight::prices::PriceTable;
pub use insight::reads::{ReadCheck, StaleFile, StaleReason, check_reads};
pub use insight::search::MessageText;
pub use insight::secrets::{SecretFinding, SecretPlace, SecretScan, known_secrets, scan_secrets};
pub use insight::sessions::{
    KnownSessions, SessionRow, SessionSummary, SessionTable, TitleSource, find_session, sessions,
};
pub use insight::spending::{
    Spending, UsageBy, UsageGaps, UsageQuery, UsageReport, UsageScope, usage_gaps, usage_report,
};
pub use insight::spiral::{
    SPIRAL_TURNS, SPIRAL_WINDOW, Sign, SignKind, SpiralReport, SpiralStep, SpiralVerdict, Streak,
    find_spiral, read_steps,
};
pub use insight::test_runs::TestRuns;
pub use insight::usage::{RecordedUsage, TOKENS, TokenUsage, context_tokens, usage};
pub use model::event::{Content, Event, MessageEvent, Parser};
pub use model::format::{
    ArchiveImporter, DocumentFacts, DocumentReader, Format, FormatRank, FormatReader,
    ImportOptions, Lineage, RecordOrigin, Records, Splitter,
};
pub use model::headline::{CallHeadline, Headline};
pub use model::payload_name::{NameCheck, check_name, named_by_content};
pub use model::picture::{Picture, PictureContent};
pub use model::record_kind::{KindRole, RecordKind};
pub use model::report::{ImportNote, ImportReport, ImportedBranch};
pub use model::unread::UnreadRecords;
pub use model::view::{MessageView, ToolCall, ToolResult};
pub use search::{
    IndexPlace, MemoryIndex, SearchAnswer, SearchHit, SearchQuery, Snippet, fill_search_index,
    search, search_with_index,
};
pub use secrets::{
    FoundSecret, NewSecrets, RULES, SecretFilter, SecretRule, find_secrets, mask_of, mask_secrets,
};
pub use text::enumeration::enumeration;
pub use text::piece::{Piece, PieceKind, Pieces};
pub use text::shape::JsonShape;
pub use text::unpack::{HEAD_BYTES, decompress, read_head};
pub use text::{document, lines, spelling};
