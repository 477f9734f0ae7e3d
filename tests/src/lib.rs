//! The test kit.
//!
//! | what | job |
//! |---|---|
//! | [`sim`] | a disk that crashes and fails on demand, by seed |
//! | [`counting`] | the real disk, and how often it was called |
//! | [`oracle`] | what a store must be after that, whatever happened |
//! | [`schedule`] | processes on one disk, one step at a time, in an order by seed |
//! | [`sample`] | small stores with some of everything |
//! | [`random_history`] | histories that fork and merge at random, with what each turn has |
//! | [`checksums`] | makes the checksums of changed files good |
//! | [`proof`] | the layers of proof: each makes another kind of trouble |
//! | [`every_command`] | the whole command line, with a secret in all it is given |
//! | [`browser`] | a headless Chromium to look at pages with |
//! | [`pictures`] | how a page looks, beside what was kept of it |
//! | [`model`] | manifests, segments, sealing and collection in a few bits, looked at whole |
//! | [`mutants`] | promises that are taken out of the code, to see that tests notice |
//! | [`bounded`] | long sessions under policies, and what they take in the end |
//! | [`git`] | git itself, as a judge |
//! | [`client`] | a client whose events run hooks |
//! | [`server_process`] | a command alone in a folder, and servers that are talked to in lines |
//! | [`terminal`] | a pseudo-terminal, and the screen that a program draws there |
//! | [`schema`] | JSON against a schema |
//! | [`remote`] | buckets, with the trouble that networks make |
//! | [`sources`] | which file of a crate uses which, by its text |
//! | [`workspace_fixture`] | a directory beside a store, and snapshots of it |
//! | [`Sandbox`] | a store of its own for a test |
//! | [`claude_code`], [`recorded_sessions`] | transcripts: made here, and real ones where they are |

pub mod bounded;
pub mod browser;
pub mod chat;
pub mod checksums;
pub mod client;
pub mod counting;
pub mod every_command;
pub mod git;
pub mod independent_reader;
pub mod model;
pub mod mutants;
pub mod ollm;
pub mod oracle;
pub mod pictures;
pub mod proof;
pub mod random_history;
pub mod remote;
pub mod sample;
mod sandbox;
pub mod schedule;
pub mod schema;
pub mod server_process;
pub mod sim;
pub mod sources;
#[cfg(target_os = "linux")]
pub mod terminal;
mod transcripts;
pub mod workspace_fixture;

pub use sandbox::{
    Sandbox, commit_note, commit_turn, new_store, open_store, recorded_sessions, stamp,
};
pub use transcripts::{claude_code, claude_code_of_noise, claude_code_turn, github_token};
