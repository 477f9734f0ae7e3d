//! Fuzz targets: functions of bytes that panic if a guarantee of the library is violated.
//!
//! Each reads untrusted input: objects, files of a store, revisions, transcripts, state documents,
//! keys that become paths. Any result is allowed except a panic, a wrong answer, or a store that
//! changed in spite of an error. The targets are ordinary code: `cargo test` replays the committed
//! corpora and mutations of them, and libFuzzer searches further (see `README.md`).
//!
//! ```
//! let target = turntree_fuzz::TARGETS.iter().find(|target| target.name == "revision").unwrap();
//! (target.run)(b"work/main~2:files/src/a.rs");
//! ```

mod bundle;
mod codesign;
mod exchange;
mod folder;
mod git;
pub mod git_files;
pub mod history;
mod hooks;
mod lessons;
mod model;
pub mod mutation;
mod object;
mod ollm;
pub mod opencode;
mod pack;
mod payloads;
mod refs;
mod remote;
mod remote_objects;
mod repo;
#[cfg(feature = "program")]
mod requests;
pub mod store;
mod swarm;
pub mod tree;
mod workspace;

pub use bundle::bundle;
pub use codesign::{codesign_database, codesign_session, codesign_store};
pub use exchange::{state, transcript};
pub use git::git_repository;
pub use history::history_index;
pub use hooks::hook_events;
pub use lessons::lessons;
pub use model::model;
pub use object::{objects, policies};
pub use ollm::ollm;
pub use opencode::opencode_database;
pub use pack::{mended_pack, pack};
pub use payloads::{context_chef, offload, vfs_uri};
pub use refs::{patterns, refs};
pub use remote::remote_frames;
pub use remote_objects::{remote_head, remote_keys, remote_sealed};
pub use repo::revision;
#[cfg(feature = "program")]
pub use requests::requests;
pub use store::{active_segment, manifest, sealed_segment, superblock};
pub use swarm::{swarm_events, swarm_snapshot};
pub use tree::{edits, nodes};
pub use workspace::layout;

/// A target, and the folder of its corpus.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// The name, also of its folder in `corpus`.
    pub name: &'static str,
    /// Runs the target once.
    pub run: fn(&[u8]),
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target { name: "objects", run: objects },
    Target { name: "nodes", run: nodes },
    Target { name: "edits", run: edits },
    Target { name: "superblock", run: superblock },
    Target { name: "manifest", run: manifest },
    Target { name: "active_segment", run: active_segment },
    Target { name: "sealed_segment", run: sealed_segment },
    Target { name: "pack", run: pack },
    Target { name: "mended_pack", run: mended_pack },
    Target { name: "history_index", run: history_index },
    Target { name: "bundle", run: bundle },
    Target { name: "remote_head", run: remote_head },
    Target { name: "remote_keys", run: remote_keys },
    Target { name: "remote_sealed", run: remote_sealed },
    Target { name: "model", run: model },
    Target { name: "refs", run: refs },
    Target { name: "patterns", run: patterns },
    Target { name: "policies", run: policies },
    Target { name: "remote_frames", run: remote_frames },
    Target { name: "revision", run: revision },
    Target { name: "transcript", run: transcript },
    Target { name: "swarm_snapshot", run: swarm_snapshot },
    Target { name: "swarm_events", run: swarm_events },
    Target { name: "state", run: state },
    Target { name: "lessons", run: lessons },
    Target { name: "layout", run: layout },
    Target { name: "context_chef", run: context_chef },
    Target { name: "codesign_store", run: codesign_store },
    Target { name: "codesign_database", run: codesign_database },
    Target { name: "codesign_session", run: codesign_session },
    Target { name: "opencode_database", run: opencode_database },
    Target { name: "git_repository", run: git_repository },
    Target { name: "ollm", run: ollm },
    Target { name: "offload", run: offload },
    Target { name: "vfs_uri", run: vfs_uri },
    Target { name: "hook_events", run: hook_events },
    #[cfg(feature = "program")]
    Target { name: "requests", run: requests },
];
