//! Hooks of agents: an event comes in, a turn goes into the store, and the agent is never in the way of it.
//!
//! | file | job |
//! |---|---|
//! | `event.rs` | reads an event, within its time, and never fails |
//! | `steps.rs` | what an event becomes in the store, step by step |
//! | `turn.rs` | its transcript, and the files that go with it |
//! | `files.rs` | which files go along |
//! | `back.rs` | prompts that ask to go back, and what comes after one |
//! | `lessons.rs` | what was learned on a branch that went back, on the one with which its client goes on |
//! | `agents.rs` | sub-agents, whose transcripts end after their last event |
//! | `ending.rs` | the end of a turn or session, once the client has written it |
//! | `wait.rs` | what the client has not written yet |
//! | `pins.rs` | what is kept before it may be lost |
//! | `running.rs` | calls that have begun and not ended |
//! | `calls.rs` | when a client has last run a hook |
//! | `advice.rs` | what the agent is told |
//! | `watch.rs` | the end of a hook that takes too long |
//! | `git.rs` | the hook of git, which names turns in commits |
//! | `log.rs` | what went wrong, for people |
//! | `program.rs` | this program, as settings name it |
//! | `settings.rs` | where clients keep their settings, and what is put into them |
//! | `plugins.rs` | plugins of clients that bring hooks |
//! | `edit.rs` | JSON that people wrote, changed in one place |

mod advice;
mod agents;
mod back;
pub(crate) mod calls;
mod edit;
mod ending;
pub(crate) mod event;
mod files;
pub(crate) mod git;
mod lessons;
pub(crate) mod log;
mod pins;
pub(crate) mod plugins;
pub(crate) mod program;
mod running;
pub(crate) mod settings;
mod steps;
mod turn;
mod wait;
mod watch;
