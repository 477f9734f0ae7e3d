//! Hooks of agents: stores a turn for each event, without ever blocking the agent.
//!
//! | file | job |
//! |---|---|
//! | `event.rs` | handles an event within its deadline, and never fails |
//! | `steps.rs` | the steps that store an event |
//! | `turn.rs` | follows the transcript of an event, with its files |
//! | `files.rs` | the files of a turn |
//! | `back.rs` | rollback prompts, and the first prompt after a rollback |
//! | `effects.rs` | effects of rolled-back turns that were not undone |
//! | `lessons.rs` | copies lessons of a rolled-back branch to the branch of its client |
//! | `agents.rs` | sub-agents, whose transcripts end after their last event |
//! | `ending.rs` | the end of a turn or session, once the client has written it |
//! | `wait.rs` | waits for records that the client has not written yet |
//! | `pins.rs` | pins before a compaction or a destructive command |
//! | `running.rs` | calls that have begun and not ended |
//! | `calls.rs` | the last hook of each client |
//! | `advice.rs` | advice for the agent |
//! | `watch.rs` | ends a hook that takes too long |
//! | `git.rs` | the git hook, which names turns in commits |
//! | `log.rs` | the log of errors |
//! | `program.rs` | the path of this program for settings |
//! | `settings.rs` | the settings of clients, and our hooks in them |
//! | `plugins.rs` | the hook files of plugins |
//! | `worktree.rs` | hooks in new worktrees |
//! | `edit.rs` | edits JSON that people wrote, in one place |

mod advice;
mod agents;
mod back;
pub(crate) mod calls;
mod contributions;
mod edit;
mod effects;
mod ending;
pub(crate) mod event;
mod files;
pub(crate) mod git;
mod lessons;
pub(crate) mod log;
mod pins;
pub(crate) mod plugins;
pub(crate) mod program;
pub(crate) mod recording;
mod running;
pub(crate) mod settings;
mod steps;
mod turn;
mod wait;
mod watch;
pub(crate) mod worktree;
