//! Tags of git repositories become tags: their messages, skipped tags, and hostile ones.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use turntree::ErrorKind;
use turntree::object::Tag;
use turntree::repo::{BranchName, Repository};
use turntree_exchange::git::{GitExportOptions, GitImport, GitImportOptions, export, import};
use turntree_tests::git::{Git, is_installed};
use turntree_tests::{Sandbox, stamp};

fn try_import(
    repo: &Repository,
    dir: &Path,
    session: &str,
    revisions: &[&str],
) -> turntree::Result<GitImport> {
    let options = GitImportOptions {
        revisions: revisions.iter().map(|name| (*name).to_owned()).collect(),
        session: session.to_owned(),
        stamp: stamp(1),
        max_file_bytes: 1 << 20,
        switch: false,
    };
    import(repo, dir, &options, &mut |_, _| {})
}

fn import_all(repo: &Repository, dir: &Path) -> GitImport {
    try_import(repo, dir, "s", &[]).unwrap()
}

/// A repository with commits `one` and `two` on its main branch.
fn project(dir: &Path) -> Git {
    let git = Git::init(dir);
    for name in ["one", "two"] {
        fs::write(dir.join(name), name).unwrap();
        git.run(&["add", "-A"]);
        git.run(&["commit", "-q", "-m", name]);
    }
    git
}

fn tags(repo: &Repository) -> BTreeMap<String, Tag> {
    repo.tags().unwrap().into_iter().map(|named| (named.name, named.tag)).collect()
}

/// The tags, each with the message of its commit.
fn on(repo: &Repository) -> Vec<(String, String)> {
    let message = |tag: &Tag| repo.commit(&tag.target).unwrap().message;
    tags(repo).into_iter().map(|(name, tag)| (name, message(&tag))).collect()
}

fn made(report: &GitImport) -> Vec<&str> {
    report.tags.iter().filter(|found| found.is_new).map(|found| found.tag.as_str()).collect()
}

/// The skipped tags and their reasons.
fn left_out(report: &GitImport) -> BTreeMap<&str, &str> {
    report.notes.iter().map(|note| (note.place.as_str(), note.what.as_str())).collect()
}

#[test]
fn git_tags_are_imported_once_with_their_messages() {
    if !is_installed() {
        return;
    }
    let sandbox = Sandbox::new();
    let (repo, git) = (&sandbox.repo, project(&sandbox.folder().join("project")));
    git.run(&["tag", "light", "main~1"]);
    git.run(&["tag", "-a", "-m", "the first\n\nthat worked", "v1", "main"]);
    git.run(&["tag", "-a", "-m", "of a tag", "release/v1", "v1"]);
    let report = import_all(repo, &git.dir);
    assert_eq!(report.notes, []);
    assert_eq!(made(&report), ["light", "release/v1", "v1"]);
    let pair = |(name, message): (&str, &str)| (name.to_owned(), message.to_owned());
    assert_eq!(on(repo), [("light", "one"), ("release/v1", "two"), ("v1", "two")].map(pair));
    let found = tags(repo);
    assert_eq!(found["v1"].message, "the first\n\nthat worked");
    assert_eq!(found["v1"].tagger, "Ada");
    assert_eq!(found["v1"].time_micros, 1_700_000_000_000_000);
    assert_eq!(found["release/v1"].message, "of a tag");
    assert_eq!((&*found["light"].message, &*found["light"].tagger), ("", ""));
    assert_eq!(repo.resolve("light").unwrap().commit, found["light"].target);

    let refs = repo.refs();
    let again = import_all(repo, &git.dir);
    assert_eq!((again.commits, again.new_bytes, again.tags.len()), (0, 0, 3));
    assert_eq!((made(&again).len(), repo.refs()), (0, refs));

    git.run(&["tag", "later", "main~1"]);
    let again = import_all(repo, &git.dir);
    assert_eq!((again.commits, made(&again)), (0, vec!["later"]));
}

#[test]
fn git_tags_that_cannot_be_imported_are_reported() {
    if !is_installed() {
        return;
    }
    let sandbox = Sandbox::new();
    let (repo, git) = (&sandbox.repo, project(&sandbox.folder().join("project")));
    sandbox.import("talk", turntree_tests::claude_code(3).as_bytes()).unwrap();
    let talk = repo.tip(&BranchName::main("talk").unwrap()).unwrap();
    let mut change = repo.begin();
    change.tag("v1", &talk, "of the talk".into(), &stamp(1)).unwrap();
    change.commit(&stamp(1), "tag").unwrap();
    let aside = git.run(&["commit-tree", "main^{tree}", "-m", "on no branch"]);
    for (name, target) in [
        ("v1", "main"),
        ("moved", "main"),
        ("main", "main~1"),
        ("talk/main", "main"),
        ("s", "main"),
        ("-x", "main"),
        ("tree", "main^{tree}"),
        ("aside", &aside),
    ] {
        let id = git.run(&["rev-parse", target]);
        git.run(&["update-ref", &format!("refs/tags/{name}"), &id]);
    }
    let report = import_all(repo, &git.dir);
    assert_eq!((report.commits, made(&report)), (2, vec!["moved"]));
    let told = left_out(&report);
    for (name, why) in [
        ("v1", "another tag of this name"),
        ("main", "a branch or session has this name"),
        ("talk/main", "a branch or session has this name"),
        ("s", "a branch or session has this name"),
        ("-x", "no tag can have its name"),
        ("tree", "is not a commit or a tag of one"),
        ("aside", "its commit was not imported"),
    ] {
        assert!(told[&*format!("refs/tags/{name}")].contains(why), "{told:?}");
    }
    assert_eq!(told.len(), 7, "{told:?}");
    assert_eq!(tags(repo)["v1"].message, "of the talk");

    git.run(&["tag", "-f", "moved", "heads/main~1"]);
    let refs = repo.refs();
    let again = import_all(repo, &git.dir);
    assert!(left_out(&again)["refs/tags/moved"].contains("another tag"), "{:?}", again.notes);
    assert_eq!(repo.refs(), refs, "a tag does not move");
}

#[test]
fn git_branches_import_their_tags_and_named_tags_become_branches() {
    if !is_installed() {
        return;
    }
    let sandbox = Sandbox::new();
    let (repo, git) = (&sandbox.repo, project(&sandbox.folder().join("project")));
    git.run(&["branch", "old", "main~1"]);
    git.run(&["tag", "v1", "main~1"]);
    git.run(&["tag", "v2", "main"]);
    let report = try_import(repo, &git.dir, "s", &["old"]).unwrap();
    assert_eq!((report.commits, made(&report)), (1, vec!["v1"]));
    assert_eq!(report.notes, []);
    let report = try_import(repo, &git.dir, "s", &["v2"]).unwrap();
    assert_eq!((report.commits, made(&report).len()), (1, 0));
    assert_eq!(report.branches[0].branch.to_string(), "s/v2");
    assert_eq!(report.notes, []);
}

#[test]
fn exported_git_tags_reimport_unchanged() {
    if !is_installed() {
        return;
    }
    let sandbox = Sandbox::new();
    let repo = &sandbox.repo;
    sandbox.import("talk", turntree_tests::claude_code(3).as_bytes()).unwrap();
    let talk = repo.tip(&BranchName::main("talk").unwrap()).unwrap();
    let mut change = repo.begin();
    for (name, message) in
        [("a%", "why\n\nTurntree-Tagger: me"), ("b", ""), ("b/c", "two\nlines"), ("d", "\n x")]
    {
        change.tag(name, &talk, message.into(), &stamp(7)).unwrap();
    }
    change.commit(&stamp(7), "tag").unwrap();
    let dir = sandbox.folder().join("out.git");
    export(repo, &dir, &GitExportOptions::default(), &mut |_, _| {}).unwrap();
    let copy = Sandbox::new();
    let report = import_all(&copy.repo, &dir);
    assert_eq!(report.notes, []);
    let (before, after) = (tags(repo), tags(&copy.repo));
    assert_eq!(before.keys().collect::<Vec<_>>(), after.keys().collect::<Vec<_>>());
    for (name, tag) in &after {
        let was = &before[name];
        assert_eq!((&tag.message, &tag.tagger), (&was.message, &was.tagger), "{name}");
        assert_eq!(tag.time_micros, was.time_micros);
        let commit = copy.repo.commit(&tag.target).unwrap();
        assert_eq!(commit.metadata["git-snapshot"], was.target.to_string());
    }
}

#[test]
fn damaged_or_cyclic_git_tags_do_not_affect_other_refs() {
    if !is_installed() {
        return;
    }
    let sandbox = Sandbox::new();
    let (repo, git) = (&sandbox.repo, project(&sandbox.folder().join("project")));
    let hash = ["hash-object", "-t", "tag", "-w", "--stdin", "--literally"];
    let broken = String::from_utf8(git.bytes(&hash, b"object 12\n")).unwrap();
    let round = git.tag_that_leads_to_itself();
    for (name, id) in [("broken", broken.trim()), ("round", &round), ("gone", &"3".repeat(40))] {
        fs::write(git.dir.join(".git/refs/tags").join(name), format!("{id}\n")).unwrap();
    }
    for asked in ["broken", "round", "gone", broken.trim(), &round] {
        let error = try_import(repo, &git.dir, "s", &[asked]).unwrap_err();
        let kinds = [ErrorKind::Corrupt, ErrorKind::NotFound];
        assert!(kinds.contains(&error.kind()), "{asked}: {:?}: {error}", error.kind());
    }
    assert_eq!(repo.refs().sequence, 0);
    let report = import_all(repo, &git.dir);
    assert_eq!((report.commits, report.tags.len()), (2, 0));
    let told = left_out(&report);
    assert_eq!(
        told.keys().collect::<Vec<_>>(),
        [&"refs/tags/broken", &"refs/tags/gone", &"refs/tags/round"]
    );
    fs::write(git.dir.join(".git/refs/heads/round"), format!("{round}\n")).unwrap();
    let error = try_import(repo, &git.dir, "other", &[]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
}
