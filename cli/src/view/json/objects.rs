//! Records of stored objects and refs.

use serde::Serialize;

/// `hash-object` and `cat-object`.
#[derive(Serialize)]
pub(crate) struct ObjectInfo {
    pub(crate) id: String,
    pub(crate) kind: &'static str,
    pub(crate) size: u64,
}

/// `ls-tree`.
#[derive(Serialize)]
pub(crate) struct Tree {
    pub(crate) id: String,
    /// `map` or `list`.
    pub(crate) shape: &'static str,
    pub(crate) entries: Vec<TreeEntry>,
}

/// One item of a tree.
#[derive(Serialize)]
pub(crate) struct TreeEntry {
    /// Key, or index in a list.
    pub(crate) key: String,
    pub(crate) kind: &'static str,
    pub(crate) id: String,
    /// Metadata of the link, in hex.
    pub(crate) meta: String,
}

/// `rev-parse`.
#[derive(Serialize)]
pub(crate) struct Parsed {
    pub(crate) revisions: Vec<ParsedRevision>,
}

/// One revision of `rev-parse`; both sides of a range.
#[derive(Serialize)]
pub(crate) struct ParsedRevision {
    pub(crate) revision: String,
    pub(crate) id: String,
    /// True for the left side of a range.
    pub(crate) exclude: bool,
}

/// `show-ref`.
#[derive(Serialize)]
pub(crate) struct Refs {
    pub(crate) refs: Vec<Ref>,
}

/// One ref: it holds an id, or the name of another ref.
#[derive(Serialize)]
pub(crate) struct Ref {
    pub(crate) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) target: Option<String>,
}
