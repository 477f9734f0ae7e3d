//! Fuzzes snapshots of ContextChef, offloaded texts, and the URIs that replace them.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use turntree::ErrorKind;
use turntree::context::Builder;
use turntree::object::{Kind, Memory, ObjectSource};
use turntree::repo::Repository;
use turntree::repo::vfs::VfsUri;
use turntree::store::{Durability, OpenOptions};
use turntree_exchange::formats::context_chef::{ChefOptions, expired, export_chef};
use turntree_exchange::formats::named;
use turntree_exchange::{
    DocumentFacts, FormatReader, NameCheck, OffloadOptions, Tail, check_name, named_by_content,
    offload as replace,
};
use turntree_tests::oracle::{DIR, options as open_options};
use turntree_tests::sim::{Keep, SimDisk};
use turntree_tests::stamp;

use crate::exchange::read_back;
use crate::store::new_repository;

/// Reads `bytes` as a snapshot of ContextChef.
///
/// # Panics
/// If an export is not read as the same snapshot.
pub fn context_chef(bytes: &[u8]) {
    let Some((first, told)) = exported(bytes) else { return };
    for range in &told.records {
        assert!(bytes.get(range.clone()).is_some_and(|record| record.starts_with(b"{")));
    }
    let (second, again) = exported(&first).expect("an export is a snapshot");
    assert!(first == second, "an export of an export differs");
    assert_eq!(told.messages, again.messages);
}

/// Returns the snapshot in `bytes` as exported, or `None` if it is refused.
fn exported(bytes: &[u8]) -> Option<(Vec<u8>, DocumentFacts)> {
    let FormatReader::Document(read) = named("context-chef").unwrap().reader else {
        unreachable!("it is a format of documents")
    };
    let (mut objects, mut builder) = (Memory::new(), Builder::new());
    let told = match read(&mut objects, &mut builder, &Bytes::copy_from_slice(bytes)) {
        Ok(told) => told,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
            return None;
        }
    };
    let tree = builder.write(&mut objects).unwrap();
    let context = read_back(&objects, &tree);
    let _ = expired(&objects, &context, 1_772_442_061_000).unwrap();
    let label = told.metadata.get("context-chef/label").cloned();
    let created = told.metadata.get("context-chef/createdAt").cloned();
    let created = created.unwrap_or_else(|| "1".to_owned());
    let mut out = Vec::new();
    export_chef(&objects, &context, &ChefOptions { label, created, swept_at: None }, &mut out)
        .unwrap();
    Some((out, told))
}

/// Offloads a text; the first bytes define how much of it is shown.
///
/// # Panics
/// If the shown part is not from the text, or the URI resolves to another text.
pub fn offload(bytes: &[u8]) {
    let (head, text) = bytes.split_at(bytes.len().min(4));
    let number = |at: usize| u64::from(head.get(at).copied().unwrap_or_default());
    let text = String::from_utf8_lossy(text).into_owned();
    let tail = match number(3) % 2 {
        0 => Tail::Chars(number(2)),
        _ => Tail::Lines(number(2) % 8),
    };
    let whole_characters = number(3) & 2 != 0;
    let options =
        OffloadOptions { threshold: number(0), head_chars: number(1), tail, whole_characters };
    let content = Bytes::from(text.clone());
    let new = named_by_content(content.clone());
    let uri = new.uri.clone();
    let total = text.encode_utf16().count() as u64;
    match replace(&text, &options, uri.as_str(), None) {
        None => assert!(
            total <= options.threshold || matches!(tail, Tail::Lines(_)) || {
                options.head_chars + number(2) >= total
            }
        ),
        Some(shown) => {
            assert!(total > options.threshold);
            let shown_chars = shown.units().len() as u64;
            assert!(shown_chars <= total + 400, "{shown_chars} units for {total}");
            assert!(shown.to_text().contains(uri.as_str()));
            if whole_characters {
                assert!(String::from_utf16(shown.units()).is_ok());
            }
        }
    }
    static EMPTY: OnceLock<SimDisk> = OnceLock::new();
    let disk = EMPTY.get_or_init(|| new_repository().0).crash(Keep::All);
    let open = OpenOptions { durability: Durability::None, ..open_options(2) };
    let repo = Repository::open(Arc::new(disk), Path::new(DIR), open).unwrap();
    let stored = repo.put_payload(&new, &stamp(1)).unwrap();
    assert_eq!(stored.payload.uri, uri);
    let found = repo.find_payload(&uri).unwrap();
    assert_eq!(repo.read_as(Kind::Blob, &found.blob).unwrap(), content);
}

/// Reads `bytes` as a URI, and as a text that cites URIs.
///
/// # Panics
/// If a form of a URI is read as another URI, or leaves its namespace.
pub fn vfs_uri(bytes: &[u8]) {
    let check = |uri: &VfsUri| {
        assert_eq!(uri.as_str().parse::<VfsUri>().unwrap(), *uri);
        assert!(!uri.namespace().contains('/') && !uri.path().is_empty());
        assert!(uri.path().split('/').all(|part| !matches!(part, "" | "." | "..")));
        assert_eq!(VfsUri::new(uri.namespace(), uri.path()).unwrap(), *uri);
        let _ = (uri.created_millis(), check_name(uri, bytes));
    };
    if let Ok(uri) = String::from_utf8_lossy(bytes).parse::<VfsUri>() {
        check(&uri);
    }
    for (uri, range) in VfsUri::cited(bytes) {
        assert!(bytes.get(range).is_some());
        check(&uri);
    }
    let new = named_by_content(Bytes::copy_from_slice(bytes));
    for uri in [Some(new.uri), new.otherwise].into_iter().flatten() {
        assert_eq!(check_name(&uri, bytes), NameCheck::Matches);
    }
}
