//! Fuzzes objects of special refs: grafts, policies, pins and tags; and redactions.

use std::sync::OnceLock;

use turntree::ErrorKind;
use turntree::maintenance::{
    Pattern, Policies, Purpose, collect, fsck, plan_collection, plan_redaction, redact, stats,
};
use turntree::object::{Kind, ObjectSink, ObjectSource, RefValue};
use turntree::repo::GRAFTS_REF;
use turntree::store::{Expected, Thoroughness};
use turntree_tests::sample::{Sample, try_open};
use turntree_tests::stamp;

/// Refs with special objects, and the kind of object that each points to.
const NAMES: [(&str, Kind); 6] = [
    (GRAFTS_REF, Kind::Blob),
    ("refs/retention-default", Kind::Blob),
    ("refs/retention/one", Kind::Blob),
    ("refs/pins/fuzzed", Kind::Tag),
    ("refs/tags/fuzzed", Kind::Tag),
    ("refs/heads/one/main", Kind::Commit),
];

fn sample() -> &'static Sample {
    static SAMPLE: OnceLock<Sample> = OnceLock::new();
    SAMPLE.get_or_init(|| Sample::small(6))
}

/// Points the ref chosen by the first byte at an object of the other bytes, and runs everything
/// that reads it.
///
/// # Panics
/// If wrong content is read, or a collection deletes objects reachable from other refs.
pub fn refs(bytes: &[u8]) {
    let Some((first, object)) = bytes.split_first() else { return };
    let (name, kind) = NAMES[usize::from(*first) % NAMES.len()];
    let disk = sample().copy();
    let repo = try_open(&disk, 60).unwrap();
    let mut change = repo.begin();
    let Ok(id) = change.write(kind, object.to_vec().into()) else { return };
    change.set_ref(name, Expected::Any, Some(RefValue::Object(id)));
    if change.commit(&stamp(60), "fuzz").is_err() {
        return;
    }
    let now = stamp(61).time;
    let _ = (repo.grafts(), repo.pins(), repo.resolve("one~2"), repo.resolve("fuzzed"));
    let _ = Policies::load(&repo, &repo.refs());
    let _ = plan_collection(&repo, Purpose::Gc, now);
    let _ = stats(&repo, None, now);
    fsck(&repo, Thoroughness::Full, now, &mut |_, _| {}).unwrap();
    let _ = collect(&repo, Purpose::Gc, &stamp(61), &mut |_| {});
    drop(repo);
    let again = try_open(&disk, 61).unwrap();
    let refs = &sample().refs.values;
    for (other, value) in refs.iter().filter(|(other, _)| *other != name) {
        let RefValue::Object(id) = value else { continue };
        assert_eq!(again.refs().value(other), Some(value), "{other} was moved");
        assert!(matches!(again.read(id), Ok(Some(_))), "the target of {other} is missing");
    }
    // Panics if an object is returned that does not match its id.
    let _ = sample().missing(&again);
}

/// Runs a redaction: the first byte selects text or expression, a zero ends the pattern, and the
/// replacement follows.
///
/// # Panics
/// If the pattern is found again, or the store is damaged afterwards.
pub fn patterns(bytes: &[u8]) {
    let Some((first, rest)) = bytes.split_first() else { return };
    let text = String::from_utf8_lossy(rest);
    let (searched, replacement) = text.split_once('\0').unwrap_or((&text, "[redacted]"));
    let pattern = match *first {
        // Counted repetitions are expanded at compilation, up to a limit that takes a second to
        // reach.
        b'~' if searched.contains('{') => return,
        b'~' => Pattern::regex(searched, replacement),
        _ => Pattern::literal(searched, replacement),
    };
    let Ok(pattern) = pattern else { return };
    let disk = sample().copy();
    let repo = try_open(&disk, 60).unwrap();
    let before = repo.refs();
    match redact(&repo, &pattern, &stamp(60)) {
        Ok(_) => {
            let left = plan_redaction(&repo, &pattern).unwrap();
            assert_eq!(left.matches, 0, "it is still there: {:?}", left.places);
        }
        Err(error) => {
            let kinds = [ErrorKind::InvalidInput, ErrorKind::LimitExceeded];
            assert!(kinds.contains(&error.kind()), "{error}");
            assert_eq!(repo.refs().values, before.values, "a trace of an error: {error}");
        }
    }
    drop(repo);
    let again = try_open(&disk, 61).unwrap();
    let now = stamp(61).time;
    let report = fsck(&again, Thoroughness::Full, now, &mut |_, _| {}).unwrap();
    assert!(report.is_ok(), "{:#?}", report.findings);
}
