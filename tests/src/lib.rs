//! The test kit.
//!
//! | module | job |
//! |---|---|
//! | [`sim`] | a disk that crashes and fails on demand, by seed |
//! | [`watched`] | a disk whose calls a test watches |
//! | [`counting`] | the real disk with counters of its calls |
//! | [`oracle`] | the promises of a store, checked after any failure |
//! | [`schedule`] | processes on one disk, one step at a time, in an order by seed |
//! | [`sample`] | small stores with objects of every kind |
//! | [`random_history`] | histories that fork and merge at random, with the content of each turn |
//! | [`checksums`] | recomputes the checksums of changed files |
//! | [`proof`] | the layers of proof: each causes another kind of failure |
//! | [`every_command`] | the whole command line, with a secret in all its input |
//! | [`browser`] | a headless Chromium for tests of pages |
//! | [`firefox`] | a headless Firefox for a few tests of pages |
//! | [`webkit`] | the browser of WebKitGTK for a test of pages |
//! | [`pictures`] | compares pages with stored pictures |
//! | [`model`] | manifests, segments, sealing and collection in a few bits, explored completely |
//! | [`mutants`] | guarantees that are removed from the code to check that tests fail |
//! | [`bounded`] | long sessions under policies, and their final size |
//! | [`git`] | runs git to check repositories |
//! | [`client`] | a client whose events run hooks |
//! | [`server_process`] | a command alone in a folder, and servers with a line protocol |
//! | [`terminal`] | a pseudo-terminal, and the screen that a program draws there |
//! | [`schema`] | JSON against a schema |
//! | [`remote`] | buckets with the failures of networks |
//! | [`sources`] | the dependencies between the files of a crate, from their text |
//! | [`workspace_fixture`] | a directory next to a store, and snapshots of it |
//! | [`Sandbox`] | a new store for each test |
//! | [`claude_code`], [`recorded_sessions`] | generated transcripts, and real ones if available |

pub mod bounded;
pub mod browser;
#[cfg(feature = "exchange")]
pub mod chat;
pub mod checksums;
pub mod client;
pub mod counting;
pub mod every_command;
pub mod firefox;
pub mod git;
pub mod independent_reader;
pub mod model;
pub mod mutants;
#[cfg(feature = "exchange")]
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
pub mod watched;
pub mod webkit;
pub mod workspace_fixture;

pub use sandbox::{
    Sandbox, commit_note, commit_turn, new_store, no_tools, open_store, recorded_sessions, stamp,
};
pub use transcripts::{claude_code, claude_code_of_noise, claude_code_turn, github_token};
