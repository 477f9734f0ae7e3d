//! Transcripts and state documents.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use turntree::ErrorKind;
use turntree::context::{Builder, Context, MessageEntry, Shape};
use turntree::context::{export_messages, export_source};
use turntree::object::{Kind, Memory, ObjectId, ObjectSource};
use turntree::repo::Repository;
use turntree::store::{Durability, OpenOptions};
use turntree_exchange::formats::{FORMATS, view};
use turntree_exchange::{Format, HEAD_BYTES, detect};
use turntree_exchange::{ImportOptions, apply_state, import};
use turntree_tests::oracle::{DIR, options};
use turntree_tests::sim::{Keep, SimDisk};
use turntree_tests::stamp;

use crate::store::new_repository;

/// Imports `bytes` with the detected format, and with every format.
///
/// # Panics
/// If the export differs from the input, a second import changes anything, or an error leaves a
/// trace.
pub fn transcript(bytes: &[u8]) {
    static EMPTY: OnceLock<SimDisk> = OnceLock::new();
    let disk = EMPTY.get_or_init(|| new_repository().0).crash(Keep::All);
    let options = OpenOptions { durability: Durability::None, ..options(2) };
    let repo = Repository::open(Arc::new(disk), Path::new(DIR), options).unwrap();
    let detected = detect(&bytes[..bytes.len().min(HEAD_BYTES)]).ok();
    import_as(&repo, None, bytes);
    for format in FORMATS {
        if detected.is_none_or(|detected| detected.name != format.name) {
            import_as(&repo, Some(format), bytes);
        }
    }
}

/// Returns true if `bytes` are imported as their unpacked content, which is then exported instead.
pub(crate) fn is_packed(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0x28, 0xb5, 0x2f, 0xfd])
}

fn import_as(repo: &Repository, format: Option<&'static Format>, bytes: &[u8]) {
    let session = format.map_or("detected", |format| format.name).to_owned();
    let options = ImportOptions {
        format,
        session,
        stamp: stamp(1),
        switch: false,
        adoption: None,
        branch: None,
    };
    let before = repo.refs();
    let report = match import(repo, bytes, &options) {
        Ok(report) => report,
        Err(error) => {
            let kinds = [ErrorKind::InvalidInput, ErrorKind::LimitExceeded];
            assert!(kinds.contains(&error.kind()), "{}: {error}", options.session);
            assert_eq!(repo.refs(), before, "{}: a trace of an error: {error}", options.session);
            return;
        }
    };
    if is_packed(bytes) {
        return;
    }
    assert_eq!(report.input_bytes, bytes.len() as u64);
    let context = repo.context(&report.head).unwrap();
    let mut out = Vec::new();
    export_source(repo, &context, &mut out).unwrap();
    assert!(out == bytes, "{}: another file comes out", options.session);
    for agent in context.agents(repo).unwrap() {
        read_messages(repo, &context, &agent);
    }
    let again = import(repo, bytes, &options).unwrap();
    assert_eq!(
        (again.turns, again.new_bytes, &again.branch, again.head),
        (0, 0, &report.branch, report.head),
        "{}: a known file adds something",
        options.session
    );
}

fn read_messages(repo: &Repository, context: &Context, agent: &str) {
    let list = context.messages(repo, agent).unwrap();
    for item in list.iter(repo, 0..list.len()) {
        let entry = MessageEntry::from_item(&item.unwrap()).unwrap();
        let bytes = repo.read_as(Kind::Blob, &entry.blob).unwrap();
        let _ = view(&entry.media, &bytes);
    }
    let mut out = Vec::new();
    assert_eq!(export_messages(repo, context, agent, &|_| true, &mut out).unwrap(), list.len());
}

/// Applies `bytes` as a state document to an empty context and to one with every kind of section.
///
/// # Panics
/// If a context cannot be read back, or a second application of the document changes it.
pub fn state(bytes: &[u8]) {
    let before = br#"{"agents":{"main":{"messages":[{"role":"user"}],"state":{"mode":1}}},
        "files":{"a":"x"},"scratchpad":{"k":"v"},"lessons":[1],"x-note":"text"}"#;
    for first in [b"{}".as_slice(), before] {
        let mut objects = Memory::new();
        let mut builder = Builder::new();
        apply_state(&mut objects, &mut builder, first).unwrap();
        if let Err(error) = apply_state(&mut objects, &mut builder, bytes) {
            let kinds = [ErrorKind::InvalidInput, ErrorKind::LimitExceeded];
            assert!(kinds.contains(&error.kind()), "{error}");
            continue;
        }
        let tree = builder.write(&mut objects).unwrap();
        let context = read_back(&objects, &tree);
        let mut builder = Builder::from(context);
        apply_state(&mut objects, &mut builder, bytes).unwrap();
        let again = builder.write(&mut objects).unwrap();
        assert_eq!(again, tree, "the same document gives another context");
    }
}

/// Returns the context of `tree` after reading every section.
pub(crate) fn read_back(objects: &dyn ObjectSource, tree: &ObjectId) -> Context {
    let context = Context::open(objects, tree).unwrap();
    for (name, section) in context.sections(objects).unwrap() {
        let mut blobs = Vec::new();
        match section.shape {
            Shape::Blob => blobs.push(section.id),
            Shape::List => {
                let list = context.list(objects, &name).unwrap();
                blobs.extend(list.iter(objects, 0..list.len()).map(|item| item.unwrap().link.id));
            }
            Shape::Map => {
                let map = context.map(objects, &name).unwrap();
                blobs.extend(map.iter(objects).map(|entry| entry.unwrap().1.link.id));
            }
        }
        for id in blobs {
            objects.read_as(Kind::Blob, &id).unwrap();
        }
        context.count(objects, &name).unwrap();
    }
    context.message_count(objects).unwrap();
    if context.section(objects, "source").unwrap().is_some() {
        export_source(objects, &context, &mut Vec::new()).unwrap();
    }
    for agent in context.agents(objects).unwrap() {
        export_messages(objects, &context, &agent, &|_| true, &mut Vec::new()).unwrap();
    }
    context
}
