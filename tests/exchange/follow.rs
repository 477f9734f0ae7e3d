//! Following a growing transcript gives the same commits as importing the whole file.

use std::io::Cursor;

use proptest::prelude::*;
use turntree::object::ObjectId;
use turntree_exchange::{FollowOptions, FollowReport, follow};
use turntree_tests::{Sandbox, claude_code, recorded_sessions, stamp};

/// Follows `text` once.
fn step(sandbox: &Sandbox, text: &[u8], notes: Option<&[u8]>) -> Option<FollowReport> {
    let options = FollowOptions::new("work", stamp(1));
    follow(&sandbox.repo, Cursor::new(text), notes, options).unwrap()
}

/// The commits of a branch, oldest first.
fn commits(sandbox: &Sandbox, head: &ObjectId) -> Vec<ObjectId> {
    let history = sandbox.repo.history(&[*head], &[]).unwrap().first_parent();
    let mut commits: Vec<ObjectId> = history.map(|entry| entry.unwrap().id).collect();
    commits.reverse();
    commits
}

/// Follows `text` as it grows to each of `ends`, and compares each with an import of the same
/// prefix.
fn compare(text: &[u8], ends: impl Iterator<Item = usize>, keeps_notes: impl Fn(usize) -> bool) {
    let (followed, imported) = (Sandbox::new(), Sandbox::new());
    let (mut notes, mut last) = (None, None);
    for (number, end) in ends.chain([text.len()]).enumerate() {
        let known = notes.as_deref().filter(|_| keeps_notes(number));
        let Some(now) = step(&followed, &text[..end], known) else { continue };
        notes.clone_from(&now.notes);
        last = Some(now.head);
    }
    let head = last.unwrap();
    let whole = imported.import("work", text).unwrap().head;
    let (followed_commits, whole_commits) = (commits(&followed, &head), commits(&imported, &whole));
    for (at, (a, b)) in followed_commits.iter().zip(&whole_commits).enumerate() {
        let sections = |sandbox: &Sandbox, id| {
            sandbox.repo.context(id).unwrap().sections(&sandbox.repo).unwrap()
        };
        let (here, there) = (sections(&followed, a), sections(&imported, b));
        for (name, section) in &there {
            assert!(here.get(name) == Some(section), "turn {}: {name}", at + 1);
        }
        let (a, b) = (followed.repo.commit(a).unwrap(), imported.repo.commit(b).unwrap());
        assert!(a == b, "turn {}: {a:?} and {b:?}", at + 1);
    }
    assert_eq!(followed_commits.len(), whole_commits.len());
    assert_eq!(head, whole);
    assert!(followed.source(&head) == text, "the export equals the file");
}

#[test]
fn following_line_by_line_equals_one_import() {
    let text = claude_code(30);
    let ends = text.match_indices('\n').map(|(at, _)| at + 1);
    compare(text.as_bytes(), ends.clone(), |_| true);
    compare(text.as_bytes(), ends.clone(), |_| false);
    compare(text.as_bytes(), ends, |number| number % 3 > 0);
}

#[test]
fn following_recorded_sessions_equals_one_import() {
    let mut seen = 0;
    for path in recorded_sessions() {
        let name = path.to_string_lossy().into_owned();
        if !name.contains("/claude-code/") && !name.contains("/codex/") {
            continue;
        }
        let text = std::fs::read(&path).unwrap();
        // Whole lines only. The first part of a long transcript suffices.
        let lines = text.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
        let ends: Vec<usize> = lines.map(|(at, _)| at + 1).take(400).collect();
        let Some(end) = ends.last() else { continue };
        compare(&text[..*end], ends.iter().copied().step_by(3), |_| true);
        seen += 1;
    }
    if seen == 0 {
        eprintln!("no recorded sessions here: this test had nothing to compare");
    }
}

#[test]
fn following_reads_only_the_end_while_the_notes_are_valid() {
    let sandbox = Sandbox::new();
    let text = claude_code(20);
    let lines: Vec<usize> = text.match_indices('\n').map(|(at, _)| at + 1).collect();
    let first = step(&sandbox, &text.as_bytes()[..lines[9]], None).unwrap();
    assert!(!first.is_incremental);
    let second = step(&sandbox, &text.as_bytes()[..lines[12] + 7], first.notes.as_deref()).unwrap();
    assert!(second.is_incremental && second.moved);
    let same = step(&sandbox, &text.as_bytes()[..lines[12]], second.notes.as_deref()).unwrap();
    assert!(same.is_incremental && !same.moved);

    // Notes for another branch tip, for a file with another end, and invalid notes are ignored.
    let old = step(&sandbox, text.as_bytes(), first.notes.as_deref()).unwrap();
    assert!(!old.is_incremental);
    let rewritten = text.replace("part_3", "part_9");
    let other = step(&sandbox, rewritten.as_bytes(), old.notes.as_deref()).unwrap();
    assert!(!other.is_incremental);
    assert_eq!(other.branch.branch(), "main");
    let nonsense = step(&sandbox, text.as_bytes(), Some(b"{}")).unwrap();
    assert!(!nonsense.is_incremental && !nonsense.moved);
}

#[test]
fn files_without_a_complete_record_are_not_imported() {
    let sandbox = Sandbox::new();
    assert!(step(&sandbox, b"", None).is_none());
    assert!(step(&sandbox, br#"{"type":"user","uuid":"u"#, None).is_none());
    assert!(sandbox.repo.branches().is_empty());
}

#[test]
fn the_first_record_is_imported_once_its_line_ends() {
    let text = claude_code(3);
    let end = text.find('\n').unwrap();
    assert!(step(&Sandbox::new(), &text.as_bytes()[..end], None).is_none());
    compare(text.as_bytes(), [end].into_iter(), |_| true);
    compare(text.as_bytes(), [end].into_iter(), |_| false);
}

turntree_properties::properties! {
    cases = 24;

    #[test]
    fn following_equals_one_import_at_any_cut_and_with_lost_notes(
        mut ends in proptest::collection::vec(0_usize..20_000, 1..12),
        forgets in any::<u16>(),
        turns in 3_usize..14,
    ) {
        let text = claude_code(turns);
        ends.retain(|end| *end < text.len());
        ends.sort_unstable();
        compare(text.as_bytes(), ends.into_iter(), |number| forgets >> (number % 16) & 1 == 0);
    }
}
