//! Fuzzes files of lessons, and messages that may ask for a rollback.

use turntree::ErrorKind;
use turntree_exchange::lessons::{
    Call, Lessons, LessonsDocument, MAX_SELECTED, MergedLessons, PROMPT_BYTES, prompt, select,
};
use turntree_exchange::{RollbackIntent, rollback_intent};

/// Reads `bytes` as a file of lessons and applies it twice; then reads them as a message.
///
/// # Panics
/// If a file is written differently than it was read, a second application changes anything, or a
/// prompt exceeds its budget.
pub fn lessons(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match rollback_intent(text) {
        Some(RollbackIntent::Steps(steps)) => assert!(steps > 0),
        Some(RollbackIntent::Turn(turn)) => assert!(turn > 0),
        None => {}
    }
    let document = match LessonsDocument::parse(text) {
        Ok(document) => document,
        Err(error) => {
            let kinds = [ErrorKind::InvalidInput, ErrorKind::LimitExceeded];
            return assert!(kinds.contains(&error.kind()), "{error}");
        }
    };
    let written = document.to_text().unwrap();
    let again = LessonsDocument::parse(&written).unwrap();
    assert_eq!(again.to_text().unwrap(), written, "a file that was read is written differently");

    let (mut found, nothing) = (Lessons::default(), Lessons::default());
    if document.merge_into(&mut found, &nothing, 7, 1_000).is_err() {
        return;
    }
    let call = Call { tool: Some("edit"), turn: 7, now_millis: 90_000_000 };
    let selected = select(&found, &call);
    let unpinned = selected.iter().filter(|(_, lesson)| !lesson.pinned).count();
    assert!(unpinned <= MAX_SELECTED, "{unpinned} lessons");
    let block = prompt(&selected);
    assert!(block.text.len() <= PROMPT_BYTES, "{} bytes", block.text.len());
    assert_eq!(block.included.len() + block.left_out.len(), selected.len());

    let document = LessonsDocument::of(&found);
    let read = LessonsDocument::parse(&document.to_text().unwrap()).unwrap();
    let mut same = found.clone();
    let merged = read.merge_into(&mut same, &found, 8, 2_000).unwrap();
    assert_eq!((merged, same), (MergedLessons::default(), found), "it changes something again");
}
