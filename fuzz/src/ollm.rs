//! Fuzzes documents of OLLM CLI: context snapshots, mode transitions and intents.

use bytes::Bytes;
use turntree::ErrorKind;
use turntree::context::Builder;
use turntree::object::{Author, Commit, Memory, ObjectId, Time, Trigger};
use turntree::repo::watch::WatchState;
use turntree_exchange::formats::named;
use turntree_exchange::formats::ollm::{
    OllmCompat, SnapshotFacts, TransitionFacts, export_context, export_intent, export_mode,
    read_state_snapshot, state_snapshot,
};
use turntree_exchange::{DocumentFacts, FormatReader};

use crate::exchange::read_back;

const FORMATS: [&str; 3] = ["ollm-context", "ollm-mode", "ollm-intent"];

/// Reads `bytes` as each of the documents.
///
/// # Panics
/// If an export is not read as the same document.
pub fn ollm(bytes: &[u8]) {
    for format in FORMATS {
        let Some((first, told)) = exported(format, bytes) else { continue };
        for range in &told.records {
            assert!(bytes.get(range.clone()).is_some_and(|record| record.starts_with(b"{")));
        }
        let (second, again) = exported(format, &first).expect("an export is a document");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(
            first == second,
            "an export of an export differs: {} {}",
            text(&first),
            text(&second)
        );
        assert_eq!(told.messages, again.messages);
    }
    if let Ok(state) = WatchState::decode(bytes) {
        assert_eq!(WatchState::decode(&state.encode().unwrap()).unwrap(), state);
    }
    let _ = read_state_snapshot(&String::from_utf8_lossy(bytes));
}

/// Returns the document in `bytes` as exported, or `None` if it is refused.
fn exported(format: &str, bytes: &[u8]) -> Option<(Vec<u8>, DocumentFacts)> {
    let FormatReader::Document(read) = named(format).unwrap().reader else {
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
    let commit = Commit {
        tree,
        parents: Vec::new(),
        session: "work".to_owned(),
        turn: 1,
        author: Author { agent: format.to_owned(), model: told.model.clone() },
        time: told.time.unwrap_or(Time { micros: 1_769_000_000_000_000, offset_minutes: 0 }),
        trigger: told.trigger.unwrap_or(Trigger::Turn),
        message: told.title.clone(),
        metadata: told.metadata.clone(),
    };
    let id = ObjectId::from_bytes([7; 32]);
    let mut out = Vec::new();
    match format {
        "ollm-context" => {
            let facts = SnapshotFacts::of(&id, &commit);
            export_context(&objects, &context, &facts, OllmCompat::Sound, &mut out).unwrap();
            let state = state_snapshot(&objects, &context).unwrap();
            assert!(read_state_snapshot(&state.to_xml()).is_some());
        }
        "ollm-mode" => {
            export_mode(&objects, &context, &TransitionFacts::of(&id, &commit), &mut out).unwrap();
        }
        _ => export_intent(&objects, &context, None, &mut out).unwrap(),
    }
    Some((out, told))
}
