//! Fuzzes revisions: every text gets an answer, and resolved commits exist.

use std::sync::OnceLock;

use turntree::ErrorKind;
use turntree::context::{Builder, Context};
use turntree::object::{Kind, ObjectId, ObjectSink, RefValue, Tag};
use turntree::repo::{BranchName, Repository, Resolver, SnapshotDraft, tag_ref};
use turntree::store::Expected;
use turntree_tests::stamp;

use crate::store::new_repository;

/// Resolves `bytes` as a revision, a range and the name of a branch.
///
/// # Panics
/// If a resolved commit does not exist, or an error reports damage.
pub fn revision(bytes: &[u8]) {
    static REPOSITORY: OnceLock<Repository> = OnceLock::new();
    let repo = REPOSITORY.get_or_init(repository);
    let text = String::from_utf8_lossy(bytes);
    let parse_time = |time: &str| time.parse().ok();
    let resolver = Resolver::new(repo).with_times(&parse_time);
    match resolver.resolve(&text) {
        Ok(revision) => {
            repo.commit(&revision.commit).unwrap();
            if let Some(path) = &revision.path {
                assert!(text.ends_with(path.as_str()));
                let context = repo.context(&revision.commit).unwrap();
                let _ = context.lookup(repo, path);
            }
            if let Some(branch) = &revision.branch {
                assert!(repo.tip(branch).is_some(), "{branch} is named and not there");
            }
        }
        Err(error) => refuse_damage(&error),
    }
    match resolver.resolve_range(&text) {
        Ok(range) => {
            for entry in repo.history(&range.include, &range.exclude).unwrap() {
                entry.unwrap();
            }
        }
        Err(error) => refuse_damage(&error),
    }
    if let Err(error) = resolver.branch(&text) {
        refuse_damage(&error);
    }
}

/// Checks that an error does not report damage.
fn refuse_damage(error: &turntree::Error) {
    assert!(!matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Io), "{error}");
}

/// Returns a repository with two sessions, three branches, a merge, a tag and a tag of a tag.
fn repository() -> Repository {
    let (_, repo) = new_repository();
    let main = BranchName::main("work").unwrap();
    let side = BranchName::new("work", "try/a").unwrap();
    let mut last = Vec::new();
    for second in 1..6 {
        last.push(snapshot(&repo, &main, second));
    }
    let mut fork = repo.begin();
    fork.move_branch(&side, Some(last[2]));
    fork.commit(&stamp(7), "fork").unwrap();
    let tip = snapshot(&repo, &side, 8);
    snapshot(&repo, &BranchName::main("other").unwrap(), 9);
    merge(&repo, &main, tip);

    let mut tags = repo.begin();
    let inner = tag(&mut tags, "v1", Kind::Commit, last[4]);
    let outer = tag(&mut tags, "v2", Kind::Tag, inner);
    tags.set_ref(&tag_ref("v2").unwrap(), Expected::Absent, Some(RefValue::Object(outer)));
    tags.switch(&main);
    tags.commit(&stamp(11), "tag").unwrap();
    repo
}

fn snapshot(repo: &Repository, branch: &BranchName, second: i64) -> ObjectId {
    let mut change = repo.begin();
    let mut builder = match repo.tip(branch) {
        Some(tip) => Builder::from(repo.context(&tip).unwrap()),
        None => Builder::from(Context::default()),
    };
    let key = format!("note/{second}");
    builder.set_entry(&mut change, "scratchpad", &key, Some("text".into())).unwrap();
    let tree = builder.write(&mut change).unwrap();
    let id = change.snapshot(branch, SnapshotDraft::new(tree, "a turn", &stamp(second))).unwrap();
    change.commit(&stamp(second), "snapshot").unwrap();
    id
}

fn merge(repo: &Repository, branch: &BranchName, other: ObjectId) {
    let mut change = repo.begin();
    let tip = repo.tip(branch).unwrap();
    let mut commit = repo.commit(&tip).unwrap();
    (commit.parents, commit.turn) = (vec![tip, other], commit.turn + 1);
    let id = change.write(Kind::Commit, commit.encode().into()).unwrap();
    change.move_branch(branch, Some(id));
    change.commit(&stamp(10), "merge").unwrap();
}

fn tag(sink: &mut dyn ObjectSink, name: &str, target_kind: Kind, target: ObjectId) -> ObjectId {
    let (name, tagger, message) = (name.to_owned(), String::new(), String::new());
    let tag =
        Tag { target, target_kind, name, tagger, time_micros: 0, message, expires_micros: None };
    sink.write(Kind::Tag, tag.encode().into()).unwrap()
}
