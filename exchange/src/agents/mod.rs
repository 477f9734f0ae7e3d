//! Finds and imports the sessions of the agents on a machine.
//!
//! Agents record their sessions as they work, each in a place and a format of its own, one file a
//! session, or one database for all. [`places`] returns the directories, [`find`] lists their
//! sessions, and [`adopt`] imports these: several concurrently, and only the new turns each time.
//! It writes nothing outside the store. [`resume_place`] returns where a session is laid out for an
//! agent to continue, and [`ResumedSession`] is its beginning in the store.
//!
//! `table.rs` has the facts about each agent, one row an agent.
//!
//! The format of a file follows from its content, as in an import, so a place may hold anything.

mod adopt;
mod beside;
mod copies;
mod environment;
mod find;
mod found;
mod gemini_project;
mod growing;
pub mod hook;
mod layout;
mod lineage;
mod name;
mod opencode;
mod openhands;
mod places;
mod resume;
mod sweep;
mod table;
mod watched;

pub use crate::import::rollback::{RESUMED_FROM, RESUMED_PAST};
pub use adopt::{AdoptOptions, Adopted, Outcome, adopt, batch_bytes, batches, newest};
pub use beside::working_directory;
pub use copies::{Copies, SessionCopies};
pub use find::{FoundSessions, Odd, find, has_own_file};
pub use found::FoundSession;
pub use growing::import_growing;
pub use name::session_name;
pub use openhands::folder_document;
pub use places::{SessionPlace, place_variables, places, swept_after};
pub use resume::{ResumePlace, ResumedSession, resume_place, resuming_agent};
pub use table::agent_titles;
pub use watched::WatchedFolder;
