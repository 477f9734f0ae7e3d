//! Finds and imports the sessions of the agents on a machine.
//!
//! Agents record their sessions as they work, each in a place and a format of its own, one file a
//! session, or one database for all. [`places`] returns the directories, [`find`] lists their
//! sessions, and [`adopt`] imports these: several concurrently, and only the new turns each time.
//! It writes nothing outside the store. [`resume_place`] returns where a session is laid out for an
//! agent to continue, and [`ResumedSession`] is its beginning in the store.
//!
//! | agent | where it keeps sessions |
//! |---|---|
//! | Claude Code | `$CLAUDE_CONFIG_DIR/projects`, else `~/.claude/projects`; `~/.config/claude/projects` |
//! | Codex | `sessions` and `archived_sessions` in `$CODEX_HOME`, else `~/.codex`; the older ones compressed |
//! | Gemini CLI | `.gemini/tmp/<project>/chats` in `$GEMINI_CLI_HOME`, else in the home directory |
//! | Copilot CLI | `$COPILOT_HOME/session-state`, else `~/.copilot/session-state` |
//! | opencode | `opencode/opencode*.db` in the XDG data directory and `$OPENCODE_DB`, and before version 1.2 `opencode/storage`, one file a message and part |
//! | pi | `$PI_CODING_AGENT_DIR/sessions`, else `~/.pi/agent/sessions` |
//! | Qwen Code | `$QWEN_HOME/projects/<project>/chats`, else `~/.qwen/projects/<project>/chats` |
//! | OpenHands | `$OPENHANDS_CONVERSATIONS_DIR`, else `conversations` in `$OPENHANDS_PERSISTENCE_DIR` or `~/.openhands`, a folder a session |
//! | Cline | `saoudrizwan.claude-dev/tasks` in the global storage of an editor; `tasks` and `sessions` in `$CLINE_DATA_DIR`, else in `~/.cline/data` |
//!
//! The format of a file follows from its content, as in an import, so a place may hold anything.

mod adopt;
mod beside;
mod copies;
mod find;
mod found;
mod gemini_project;
mod growing;
pub mod hook;
mod lineage;
mod name;
mod opencode;
mod openhands;
mod places;
mod resume;
mod sweep;

pub use crate::import::rollback::{RESUMED_FROM, RESUMED_PAST};
pub use adopt::{AdoptOptions, Adopted, Outcome, adopt, batch_bytes, batches, newest};
pub use beside::working_directory;
pub use copies::{Copies, SessionCopies};
pub use find::{FoundSessions, Odd, find, has_own_file};
pub use found::FoundSession;
pub use growing::import_growing;
pub use name::session_name;
pub use openhands::folder_document;
pub use places::{PLACE_VARIABLES, SessionPlace, WatchedFolder, places};
pub use resume::{ResumePlace, ResumedSession, resume_place};
pub use sweep::swept_after;
