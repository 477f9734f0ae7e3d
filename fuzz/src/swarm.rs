//! Fuzzes snapshots and event logs of SwarmSDK.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use serde_json::Value;
use turntree::ErrorKind;
use turntree::context::export_source;
use turntree::object::ObjectId;
use turntree::repo::Repository;
use turntree::store::{Durability, OpenOptions};
use turntree_exchange::formats::named;
use turntree_exchange::formats::swarm::{
    Configuration, Reconstruction, ReconstructionOptions, SnapshotOptions, SnapshotVersion,
    SwarmCompat, export_snapshot, reconstruct, restore_swarm,
};
use turntree_exchange::{ImportOptions, ImportReport, import};
use turntree_tests::oracle::{DIR, options};
use turntree_tests::sim::{Keep, SimDisk};
use turntree_tests::stamp;

use crate::exchange::is_packed;
use crate::store::new_repository;

fn repository() -> Repository {
    static EMPTY: OnceLock<SimDisk> = OnceLock::new();
    let disk = EMPTY.get_or_init(|| new_repository().0).crash(Keep::All);
    let options = OpenOptions { durability: Durability::None, ..options(2) };
    Repository::open(Arc::new(disk), Path::new(DIR), options).unwrap()
}

fn import_as(repo: &Repository, session: &str, format: &str, bytes: &[u8]) -> Option<ImportReport> {
    let options = ImportOptions {
        format: Some(named(format).unwrap()),
        session: session.to_owned(),
        stamp: stamp(1),
        switch: false,
        adoption: None,
        branch: None,
    };
    let before = repo.refs();
    match import(repo, bytes, &options) {
        Ok(report) => Some(report).filter(|_| !is_packed(bytes)),
        Err(error) => {
            let kinds = [ErrorKind::InvalidInput, ErrorKind::LimitExceeded];
            assert!(kinds.contains(&error.kind()), "{error}");
            assert_eq!(repo.refs(), before, "a trace of an error: {error}");
            None
        }
    }
}

fn exported(repo: &Repository, id: &ObjectId, version: Option<SnapshotVersion>) -> Vec<u8> {
    let context = repo.context(id).unwrap();
    let options = SnapshotOptions { version, moment: "now".into(), ..Default::default() };
    let mut out = Vec::new();
    export_snapshot(repo, &context, &options, &mut out).unwrap();
    out
}

fn value(document: &[u8]) -> Option<Value> {
    serde_json::from_slice(document).ok()
}

/// Imports `bytes` as a snapshot, and imports the export again.
///
/// # Panics
/// If the export differs from the input, or a second export is refused or differs.
pub fn swarm_snapshot(bytes: &[u8]) {
    let repo = repository();
    let Some(report) = import_as(&repo, "first", "swarm-snapshot", bytes) else { return };
    let context = repo.context(&report.head).unwrap();
    let mut source = Vec::new();
    export_source(&repo, &context, &mut source).unwrap();
    assert!(source == bytes, "another file comes out");
    let configured = br#"{"agents": {"lead": {"system_prompt": "x"}}}"#;
    let configured = Configuration::parse(configured).unwrap();
    let _ = restore_swarm(&repo, &context, &configured, false, SwarmCompat::Sound);
    let versions = [
        ("as-it-is", None),
        ("old", Some(SnapshotVersion::V1_0)),
        ("new", Some(SnapshotVersion::V2_1)),
    ];
    for (session, version) in versions {
        let document = exported(&repo, &report.head, version);
        let again = import_as(&repo, session, "swarm-snapshot", &document);
        let again = again.expect("an export can be imported");
        assert!(exported(&repo, &again.head, None) == document, "an export is not stable");
    }
}

/// Reconstructs the state of the events in `bytes`, in every mode, and through a store.
///
/// # Panics
/// If the result is not a snapshot, or the store disagrees.
pub fn swarm_events(bytes: &[u8]) {
    let options =
        |compat| ReconstructionOptions { now: "now".into(), compat, ..Default::default() };
    let written = |state: &Reconstruction| {
        let mut out = Vec::new();
        state.write(true, &mut out).unwrap();
        out
    };
    for compat in [SwarmCompat::Upstream, SwarmCompat::StringKeys] {
        if let Ok(state) = reconstruct(bytes, &options(compat)) {
            written(&state);
        }
    }
    let state = reconstruct(bytes, &options(SwarmCompat::Sound)).unwrap();
    let document = written(&state);
    let repo = repository();
    let base = import_as(&repo, "base", "swarm-snapshot", &document);
    let Some(report) = import_as(&repo, "log", "swarm-events", bytes) else { return };
    // Content that a store cannot hold, such as an agent without a name, is reported.
    if report.notes.is_empty() && state.events > 0 {
        // A document deeper than the parser's limit cannot be compared or reimported.
        let Some(told) = value(&document) else { return };
        let stored = value(&exported(&repo, &report.head, None));
        assert_eq!(stored, Some(told), "the store says something else");
        // Ids that are not strings survive in a log, but not in a document.
        if base.is_none() {
            return;
        }
        let further = import_as(&repo, "base", "swarm-events", bytes).unwrap();
        let options =
            ReconstructionOptions { base: Some(&document), ..options(SwarmCompat::Sound) };
        let told = written(&reconstruct(bytes, &options).unwrap());
        let stored = value(&exported(&repo, &further.head, None));
        assert_eq!(stored, value(&told), "the log does not continue its base");
    }
}
