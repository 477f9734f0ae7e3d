//! Checks the store on an image of a power cut against its promise.

use std::path::Path;
use std::sync::Arc;

use turntree::ErrorKind;
use turntree::context::MessageEntry;
use turntree::maintenance::{FsckFinding, fsck, plan_redaction};
use turntree::object::{Kind, ObjectId, ObjectSource, RefValue};
use turntree::repo::{BranchName, Repository};
use turntree::store::{Expected, FindingKind, NewStore, OpenOptions, RealIo, Thoroughness};

use super::workload::{Attempt, Content, EXPIRING, History, KEPT_TURNS, Secret};
use crate::stamp;

/// Asserts that the store in `dir` keeps the promises of `history` after a cut at `moment`. Returns
/// the number of acknowledged changes found.
pub(super) fn check(dir: &Path, history: &History, moment: usize) -> u64 {
    let open = |seed| Repository::open(Arc::new(RealIo), dir, OpenOptions::new([seed; 16]));
    let repo = match open(201) {
        Ok(repo) => repo,
        Err(error) if history.created <= moment => panic!("the store does not open: {error}"),
        Err(_) => {
            let (new, options) = (NewStore { id: [8; 16] }, OpenOptions::new([202; 16]));
            Repository::init(Arc::new(RealIo), dir, &new, options).expect("a store can be made");
            return 0;
        }
    };
    let damage = repo.findings().into_iter().find(|f| f.kind == FindingKind::Damage);
    assert_eq!(damage, None, "nothing was damaged");
    let mut found = 0;
    for (name, attempts) in &history.refs {
        found += check_ref(&repo, name, attempts, moment);
    }
    for secret in &history.secrets {
        check_secret(&repo, secret, moment);
    }
    assert_clean(&repo);

    let again = open(203).expect("the store opens again");
    assert_eq!(again.refs(), repo.refs());
    assert_eq!(again.findings(), repo.findings());
    go_on(&again);
    let last = open(204).expect("the store opens a third time");
    assert_eq!(last.refs().value("after"), again.refs().value("after"));
    assert_clean(&last);
    found
}

/// Checks that a ref is at its last acknowledged value or a later one, and that everything up to
/// there is whole.
fn check_ref(repo: &Repository, name: &str, attempts: &[Attempt], moment: usize) -> u64 {
    let acknowledged = attempts.iter().take_while(|attempt| attempt.acknowledged <= moment);
    let acknowledged = acknowledged.count();
    let at = match repo.refs().value(name) {
        None => 0,
        Some(RefValue::Symbolic(other)) => panic!("{name} refers to {other}"),
        Some(RefValue::Object(id)) => {
            let found = attempts.iter().rposition(|attempt| attempt.value == *id);
            found.unwrap_or_else(|| panic!("{name} is at {id}, which was never its value")) + 1
        }
    };
    assert!(at >= acknowledged, "lost: {name} is at {at}, and {acknowledged} were acknowledged");
    let there = &attempts[..at];
    if let Some(last) = there.last() {
        assert!(last.begun <= moment, "{name} is at an unwritten commit");
        assert!(last.sequence <= repo.refs().sequence, "{name}: operations are missing");
    }
    let expiring = BranchName::from_full(name).is_some_and(|name| name.session() == EXPIRING);
    let kept = if expiring { KEPT_TURNS } else { usize::MAX };
    for (back, attempt) in there.iter().rev().enumerate() {
        match content(repo, &attempt.value) {
            Ok(found) => assert!(found == *attempt.content, "{name}: wrong bytes, {back} back"),
            Err(error) => {
                let allowed = back >= kept && error.kind() == ErrorKind::Expired;
                assert!(allowed, "{name}, {back} back from {at} of {acknowledged}: {error}");
            }
        }
    }
    acknowledged as u64
}

/// The whole context of a commit, or of the commit that a tag points to.
fn content(repo: &Repository, id: &ObjectId) -> turntree::Result<Content> {
    let (store, context) = (repo, repo.context(&repo.peel(id)?)?);
    let mut content = Content::new();
    for section in ["scratchpad", "files"] {
        for entry in context.map(store, section)?.iter(store) {
            let (key, item) = entry?;
            let path = format!("{section}/{}", String::from_utf8_lossy(&key));
            content.insert(path, store.read_as(Kind::Blob, &item.link.id)?);
        }
    }
    let messages = context.messages(store, "main")?;
    for (number, item) in messages.iter(store, 0..messages.len()).enumerate() {
        let entry = MessageEntry::from_item(&item?)?;
        content.insert(format!("messages/{number}"), store.read_as(Kind::Blob, &entry.blob)?);
    }
    Ok(content)
}

/// Checks that a secret exists until its redaction begins, and is deleted when that is
/// acknowledged.
fn check_secret(repo: &Repository, secret: &Secret, moment: usize) {
    let tip = BranchName::from_full(&secret.branch).and_then(|branch| repo.tip(&branch));
    let Some(tip) = tip else {
        assert!(moment < secret.written, "lost: {}", secret.branch);
        return;
    };
    let note = content(repo, &tip).expect("a context")["scratchpad/key"].clone();
    let is_secret = note == secret.note;
    assert_eq!(tip, if is_secret { secret.old } else { secret.new });
    assert!(is_secret || secret.begun <= moment, "content is redacted without a redaction");
    if secret.redacted <= moment {
        assert!(!is_secret, "{} is as it was before its redaction", secret.branch);
        let plan = plan_redaction(repo, &secret.pattern).expect("a search");
        assert_eq!(plan.matches, 0, "redacted and still there");
        // After that, a collection may have begun to write a file.
        if moment < secret.resumed {
            assert_eq!(plan.leftovers, Vec::<String>::new(), "files that it removed still exist");
        }
        let gone = repo.commit(&secret.old).map_err(|error| error.kind());
        assert_eq!(gone, Err(ErrorKind::Redacted));
    }
}

fn assert_clean(repo: &Repository) {
    let report = fsck(repo, Thoroughness::Full, stamp(0).time, &mut |_, _| {});
    let report = report.expect("the store can be examined");
    let damage: Vec<&FsckFinding> = report.findings.iter().filter(|f| f.kind.is_damage()).collect();
    assert!(damage.is_empty(), "{damage:#?}");
}

/// A new commit succeeds.
fn go_on(repo: &Repository) {
    let (id, object) = crate::oracle::blob(b"the commit after".to_vec());
    let draft = crate::oracle::set("after", Expected::Absent, id);
    repo.store().commit(vec![(id, object)], &draft).expect("a new commit succeeds");
}
