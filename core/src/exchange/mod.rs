//! In and out: recorded sessions and state documents, one file a format.
//!
//! ```text
//! file -> cut into pieces -> parsed into events -> turns -> commits
//!         lines, document    formats/<name>       turns    import
//!
//! commits -> the file again, byte for byte, or the messages at any revision
//! ```

mod base64;
mod between;
pub mod bundle;
mod captures;
mod compare;
mod detect;
pub mod document;
mod event;
mod export;
mod follow;
mod fork;
mod format;
pub mod formats;
mod import;
mod intent;
mod json;
pub mod lessons;
pub mod lines;
mod offload;
mod picture;
mod piece;
mod redacted;
mod rejoin;
pub mod render;
mod rewind;
mod search;
mod shape;
mod source;
mod spiral;
#[cfg(feature = "sqlite")]
pub(crate) mod sqlite;
mod state;
mod taken_back;
mod turns;
mod unpack;
mod unread;
mod usage;
mod view;
mod whole;

pub use between::{MAX_BYTES_BETWEEN, MAX_PIECES_BETWEEN};
pub use compare::{CHECK_PREFIX, Comparison, FAILED, PASSED, Strategy, compare};
pub(crate) use detect::DATABASE_MAGIC;
pub use detect::{HEAD_BYTES, detect};
pub use event::{Content, Event, MessageEvent, Parser};
pub use export::export_messages;
pub use follow::{
    FollowOptions, Followed, TurnFiles, follow, followed_branch, followed_bytes, holds_call,
};
pub(crate) use fork::{forked_from, is_named};
pub use format::{Format, Lineage, Told};
pub use import::{ImportNote, ImportOptions, ImportReport, ImportedBranch, import, import_from};
pub use intent::{MAX_ROLLBACK_STEPS, RollbackIntent, rollback_intent};
pub use offload::{OffloadOptions, Replacement, Tail, offload};
pub use picture::{Picture, PictureContent};
pub use piece::{Piece, PieceKind, Pieces};
pub use search::MessageText;
pub use shape::Shape;
pub use source::export_source;
pub use spiral::{
    SPIRAL_TURNS, SPIRAL_WINDOW, Sign, SignKind, Spiral, Step, Streak, Verdict, find_spiral, steps,
};
pub use state::{JSON_MEDIA, apply_state};
pub use unpack::read_head;
pub use usage::{TOKENS, Usage, context_tokens, usage};
pub use view::{MessageView, ToolCall, ToolResult};
pub use whole::{Archive, Whole, WholeDocument};
