//! The vectors of OLLM CLI, and the messages that it restores from a file.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use turntree::object::ObjectId;
use turntree::repo::Repository;
use turntree_exchange::formats::ollm::{
    OllmCompat, SnapshotFacts, TransitionFacts, export_context, export_intent, export_mode,
};

use crate::Sandbox;

/// The folder of the vectors.
#[must_use]
pub fn vectors() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors/ollm-cli")
}

/// A file of the vectors.
///
/// # Panics
/// If the file cannot be read.
#[must_use]
pub fn vector(path: &str) -> String {
    fs::read_to_string(vectors().join(path)).unwrap()
}

/// Returns every file below a folder of the vectors whose name begins with `prefix`, in order.
///
/// # Panics
/// If the folder cannot be read.
#[must_use]
pub fn files(folder: &str, prefix: &str) -> Vec<PathBuf> {
    let (mut found, mut open) = (Vec::new(), vec![vectors().join(folder)]);
    while let Some(folder) = open.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() {
                open.push(path);
            } else if name.starts_with(prefix)
                && !matches!(&*name, "snapshots-index.json" | "snapshot-map.json")
            {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// A snapshot file of version 1.0.
///
/// # Panics
/// If the file cannot be read.
#[must_use]
pub fn one_snapshot() -> Value {
    let files = files("context-snapshots", "snapshot-4ec");
    serde_json::from_slice(&fs::read(&files[0]).unwrap()).unwrap()
}

/// Exports a commit in the format that it was imported from.
///
/// # Panics
/// If the commit cannot be read.
#[must_use]
pub fn exported(repo: &Repository, commit: &ObjectId) -> String {
    let (context, told) = (repo.context(commit).unwrap(), repo.commit(commit).unwrap());
    let mut out = Vec::new();
    match told.author.agent.as_str() {
        "ollm-mode" => {
            let facts = TransitionFacts::of(commit, &told);
            export_mode(repo, &context, &facts, &mut out).unwrap();
        }
        "ollm-intent" => export_intent(repo, &context, None, &mut out).unwrap(),
        _ => {
            let facts = SnapshotFacts::of(commit, &told);
            export_context(repo, &context, &facts, OllmCompat::Sound, &mut out).unwrap();
        }
    }
    String::from_utf8(out).unwrap()
}

/// The id, role and content of the messages that OLLM CLI restores from a file.
///
/// # Panics
/// If the messages cannot be read.
#[must_use]
pub fn restored_upstream(file: &Value) -> Vec<Value> {
    let list = |name: &str| file[name].as_array().cloned().unwrap_or_default();
    let users = list("userMessages").into_iter().map(|mut message| {
        message["role"] = json!("user");
        message
    });
    let mut all: Vec<Value> = users.chain(list("messages")).collect();
    all.sort_by_key(|message| message["timestamp"].as_str().unwrap().to_owned());
    all.iter().map(|m| json!([m["id"], m["role"], m["content"]])).collect()
}

/// The id, role and content of the messages at a commit.
///
/// # Panics
/// If the messages cannot be read.
#[must_use]
pub fn restored(sandbox: &Sandbox, commit: &ObjectId) -> Vec<Value> {
    let messages = sandbox.messages(commit);
    messages
        .iter()
        .map(|text| serde_json::from_str::<Value>(text).unwrap())
        .map(|m| json!([m["id"], m["role"], m["content"]]))
        .collect()
}
