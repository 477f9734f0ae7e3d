//! Redacted content does not return from copies that still have it.

use std::fs;
use std::io::Cursor;
use std::sync::Arc;

use turntree::ErrorKind;
use turntree::context::{Builder, FileMode, Selection};
use turntree::maintenance::{Pattern, Purpose, collect, fsck, plan_redaction, redact};
use turntree::object::{Kind, ObjectId, ObjectSink, ObjectSource, RefValue};
use turntree::repo::{BranchName, REDACTIONS_REF, SnapshotDraft};
use turntree::store::{Access, Expected, Io, RealIo, Thoroughness, Tier};
use turntree::transfer::bundle::{
    Bundle, BundleRequest, RefFate, UnbundleOptions, Unbundled, plan_bundle, unbundle,
};
use turntree::workspace::{CaptureOptions, RewindRequest, prepare_rewind};
use turntree_exchange::{FollowOptions, FollowReport, follow};
use turntree_tests::workspace_fixture::{WorkspaceFixture, reasons};
use turntree_tests::{Sandbox, claude_code, claude_code_turn, stamp};

/// Part of a prompt, and so of the message of its turn.
const SECRET: &str = "part 8 of the parser";

fn hide(text: &str) -> Pattern {
    Pattern::literal(text, "[redacted]").unwrap()
}

fn take_out(sandbox: &Sandbox, secret: &str) {
    let redacted = redact(&sandbox.repo, &hide(secret), &stamp(9)).unwrap();
    assert!(redacted.redacted_ids > 0, "{secret} was never there");
}

/// Checks that no object has the secret, and that the store is whole.
fn assert_out(sandbox: &Sandbox, secret: &str) {
    let repo = sandbox.reopened();
    assert_eq!(plan_redaction(&repo, &hide(secret)).unwrap().matches, 0, "{secret} is back");
    let report = fsck(&repo, Thoroughness::Full, stamp(60).time, &mut |_, _| {}).unwrap();
    assert_eq!(report.findings, []);
}

fn branches(sandbox: &Sandbox) -> Vec<String> {
    sandbox.reopened().branches().into_iter().map(|(name, _)| name.to_string()).collect()
}

#[test]
fn reimported_transcripts_stay_redacted() {
    let sandbox = Sandbox::new();
    let text = claude_code(20);
    sandbox.import("task", text.as_bytes()).unwrap();
    take_out(&sandbox, SECRET);
    let again = sandbox.import("task", text.as_bytes()).unwrap();
    assert_eq!((again.turns, again.branch.to_string().as_str()), (0, "task/main"));
    assert_out(&sandbox, SECRET);

    // A longer version of the transcript continues the same branch.
    let longer = claude_code(40);
    let report = sandbox.import("task", longer.as_bytes()).unwrap();
    assert!(report.turns > 0);
    assert_eq!(branches(&sandbox), ["task/main"]);
    assert_out(&sandbox, SECRET);
    let source = String::from_utf8(sandbox.source(&report.head)).unwrap();
    assert_eq!(source, longer.replace(SECRET, "[redacted]"));
    let late = "part 28 of the parser";
    take_out(&sandbox, late);
    assert_eq!(sandbox.import("task", longer.as_bytes()).unwrap().turns, 0);
    assert_eq!(branches(&sandbox), ["task/main"]);
    for secret in [SECRET, late] {
        assert_out(&sandbox, secret);
    }
}

#[test]
fn collections_keep_the_list_of_redactions() {
    let sandbox = Sandbox::new();
    let text = claude_code(20);
    sandbox.import("task", text.as_bytes()).unwrap();
    take_out(&sandbox, SECRET);
    for purpose in [Purpose::Repack(Tier::Archive), Purpose::Gc, Purpose::Repack(Tier::Compacted)] {
        collect(&sandbox.repo, purpose, &stamp(10), &mut |_| {}).unwrap();
        assert_eq!(sandbox.import("task", text.as_bytes()).unwrap().turns, 0);
        assert_out(&sandbox, SECRET);
    }
}

#[test]
fn reimported_deleted_sessions_stay_redacted() {
    let sandbox = Sandbox::new();
    let text = claude_code(20);
    for deleted_first in [true, false] {
        sandbox.import("task", text.as_bytes()).unwrap();
        let delete = || {
            let mut change = sandbox.repo.begin();
            change.delete_branch(&BranchName::main("task").unwrap());
            change.commit(&stamp(5), "delete").unwrap();
        };
        if deleted_first {
            delete();
        }
        let secret = if deleted_first { SECRET } else { "part 4 of the parser" };
        take_out(&sandbox, secret);
        if !deleted_first {
            delete();
        }
        let back = sandbox.import("task", text.as_bytes()).unwrap();
        assert!(back.turns > 0);
        assert_out(&sandbox, secret);
        let other = sandbox.import(&secret.replace(' ', "-"), text.as_bytes()).unwrap();
        assert!(other.turns > 0);
        assert_out(&sandbox, secret);
    }
}

#[test]
fn replacements_can_be_redacted() {
    let sandbox = Sandbox::new();
    let text = claude_code(20);
    sandbox.import("task", text.as_bytes()).unwrap();
    take_out(&sandbox, SECRET);
    take_out(&sandbox, "Please look at [redacted]");
    assert_eq!(sandbox.import("task", text.as_bytes()).unwrap().turns, 0);
    assert_eq!(branches(&sandbox), ["task/main"]);
    assert_out(&sandbox, SECRET);
}

#[test]
fn records_that_are_no_longer_json_are_recognized() {
    let sandbox = Sandbox::new();
    // A tab and "he", which looks like the word in the record.
    let text = claude_code(12).replace("part 4", r"\the part 4");
    sandbox.import("task", text.as_bytes()).unwrap();
    take_out(&sandbox, "the ");
    assert_eq!(sandbox.import("task", text.as_bytes()).unwrap().turns, 0);
    assert_eq!(branches(&sandbox), ["task/main"]);
    assert_out(&sandbox, "the ");
}

#[test]
fn patterns_matching_every_id_terminate() {
    let sandbox = Sandbox::new();
    let text = claude_code(12);
    sandbox.import("task", text.as_bytes()).unwrap();
    let digit = Pattern::regex("[0-9a-f]{4}", "REST").unwrap();
    for _ in 0..2 {
        redact(&sandbox.repo, &digit, &stamp(9)).unwrap();
        assert!(plan_redaction(&sandbox.reopened(), &digit).unwrap().is_empty());
    }
    take_out(&sandbox, "parser");
    assert_out(&sandbox, "parser");
}

/// Handles one event of a hook.
fn step(sandbox: &Sandbox, text: &str, notes: Option<&[u8]>) -> FollowReport {
    let options = FollowOptions {
        before: vec![("src/before.rs".to_owned(), "before".into())],
        ..FollowOptions::new("task", stamp(1))
    };
    follow(&sandbox.repo, Cursor::new(text.as_bytes()), notes, options).unwrap().unwrap()
}

#[test]
fn followed_transcripts_continue_incrementally_after_a_redaction() {
    let sandbox = Sandbox::new();
    let mut text = claude_code(9);
    let notes = step(&sandbox, &text, None).notes;
    take_out(&sandbox, SECRET);
    let (mut notes, mut is_incremental) = (notes, false);
    for turn in 9..60 {
        for record in claude_code_turn(turn) {
            text += &record;
            text.push('\n');
            let followed = step(&sandbox, &text, notes.as_deref());
            assert_eq!(followed.branch.to_string(), "task/main");
            (notes, is_incremental) = (followed.notes, followed.is_incremental);
        }
        if turn % 10 == 0 {
            assert_out(&sandbox, SECRET);
        }
    }
    assert!(is_incremental, "once it lies far behind");
    assert_eq!(branches(&sandbox), ["task/main"]);
    let head = sandbox.repo.tip(&BranchName::main("task").unwrap()).unwrap();
    let source = String::from_utf8(sandbox.source(&head)).unwrap();
    assert_eq!(source, text.replace(SECRET, "[redacted]"));
    assert_out(&sandbox, SECRET);
}

#[test]
fn reimported_documents_stay_redacted() {
    let chat = r#"{"model": "m", "messages": [{"role": "user", "content": "the key is k-1234"},
        {"role": "assistant", "content": "thanks"}], "note": "k-1234 again"}"#;
    let list = r#"[{"role": "user", "content": "the key is k-1234"}, {"role": "assistant", "content": "thanks"}]"#;
    let swarm = include_str!("../vectors/swarmsdk/snapshot-2.1.0-swarm.json");
    let is_plain =
        |word: &&str| word.len() > 12 && word.chars().all(|c| c.is_alphabetic() || c == ' ');
    let word = swarm.split('"').find(|word| is_plain(word) && word.contains(' ')).unwrap();
    for (document, format, secret) in [
        (chat, Some("openai-chat"), "k-1234"),
        (list, Some("openai-chat"), "k-1234"),
        (swarm, None, word),
    ] {
        let sandbox = Sandbox::new();
        let import = || match format {
            Some(format) => sandbox.import_as("task", format, document.as_bytes()),
            None => sandbox.import("task", document.as_bytes()),
        };
        import().unwrap();
        take_out(&sandbox, secret);
        let again = import().unwrap();
        assert_eq!(again.turns, 0, "{format:?}");
        assert_out(&sandbox, secret);
        assert_eq!(branches(&sandbox).len(), 1);
    }
}

#[test]
fn snapshots_skip_files_with_redacted_content() {
    let fixture = WorkspaceFixture::new();
    fixture.write("key.env", "KEY=k-1234\n");
    fixture.write("a.rs", "fn a() {}\n");
    fixture.snapshot();
    take_out(&fixture.sandbox, "k-1234");
    fixture.write("a.rs", "fn b() {}\n");
    let captured = fixture.snapshot_with(&CaptureOptions::default());
    assert_eq!(reasons(&captured)["key.env"], "its content was redacted from the store");
    assert_eq!(fixture.files()["key.env"].1, "KEY=[redacted]\n", "its record stays");
    assert_eq!(fs::read_to_string(fixture.path("key.env")).unwrap(), "KEY=k-1234\n");
    assert_out(&fixture.sandbox, "k-1234");
    // A rewind leaves the file unchanged too, since it could not restore it later.
    let repo = &fixture.sandbox.repo;
    let branch = BranchName::new("fixture", "main").unwrap();
    let restore = RewindRequest {
        from: repo.commit(&repo.tip(&branch).unwrap()).unwrap().parents[0],
        branch,
        only: Selection::default(),
        workspace: Some(fixture.work.clone()),
        is_rollback: false,
        keep_lessons: false,
        audit: false,
        message: "back".into(),
    };
    let prepared = prepare_rewind(repo, &restore, &CaptureOptions::default(), &stamp(2)).unwrap();
    prepared.apply(&stamp(3), "back").unwrap();
    assert_eq!(fs::read_to_string(fixture.path("a.rs")).unwrap(), "fn a() {}\n");
    assert_eq!(fs::read_to_string(fixture.path("key.env")).unwrap(), "KEY=k-1234\n");
    // The same file with other content is captured.
    fixture.write("key.env", "KEY=from the environment\n");
    fixture.snapshot();
    assert_eq!(fixture.files()["key.env"].1, "KEY=from the environment\n");
}

#[test]
fn damaged_redaction_lists_do_not_restore_content() {
    let fixture = WorkspaceFixture::new();
    let (sandbox, text) = (&fixture.sandbox, claude_code(20));
    sandbox.import("task", text.as_bytes()).unwrap();
    fixture.write("key.env", "KEY=k-1234\n");
    fixture.snapshot();
    take_out(sandbox, SECRET);
    take_out(sandbox, "k-1234");
    let mut change = sandbox.repo.begin();
    let other = change.write(Kind::Blob, "the content of a damaged list".into()).unwrap();
    change.set_ref(REDACTIONS_REF, Expected::Any, Some(RefValue::Object(other)));
    change.commit(&stamp(10), "lose the list").unwrap();

    fixture.write("a.rs", "fn a() {}\n");
    let captured = fixture.snapshot_with(&CaptureOptions::default());
    assert_eq!(reasons(&captured)["key.env"], "its content was redacted from the store");
    assert_eq!(fixture.files()["a.rs"].1, "fn a() {}\n");
    let refused = sandbox.import("task", text.as_bytes()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Redacted);
    for secret in [SECRET, "k-1234"] {
        let stored = sandbox.reopened();
        let inventory = stored.store().inventory().unwrap();
        let positions = (0..inventory.positions()).filter_map(|at| inventory.entry(at));
        let blobs = positions.filter(|entry| entry.kind == Kind::Blob);
        let has = |id: &ObjectId| {
            let bytes = stored.read_as(Kind::Blob, id).unwrap();
            bytes.windows(secret.len()).any(|part| part == secret.as_bytes())
        };
        assert!(!blobs.into_iter().any(|entry| has(&entry.id)), "{secret} is back");
    }
}

#[test]
fn changes_with_redacted_content_are_rejected() {
    let sandbox = Sandbox::new();
    let branch = BranchName::main("task").unwrap();
    let take = |content: &str| {
        let mut change = sandbox.repo.begin();
        let mut builder = Builder::new();
        let file = Some((FileMode::Regular, content.to_owned().into()));
        builder.set_file(&mut change, "key.env", file).unwrap();
        let tree = builder.write(&mut change).unwrap();
        change.snapshot(&branch, SnapshotDraft::new(tree, "a turn", &stamp(1))).unwrap();
        change.commit(&stamp(1), "snapshot")
    };
    take("KEY=k-1234").unwrap();
    take_out(&sandbox, "k-1234");
    let tip = sandbox.repo.tip(&branch);
    let error = take("KEY=k-1234").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Redacted);
    assert!(!error.to_string().contains("k-1234"), "{error}");
    assert_eq!(sandbox.repo.tip(&branch), tip);
    let mut change = sandbox.repo.begin();
    change.write(Kind::Blob, "KEY=k-1234".into()).unwrap();
    assert_eq!(change.flush().unwrap_err().kind(), ErrorKind::Redacted);
    take("KEY=other").unwrap();
    assert_out(&sandbox, "k-1234");
    let id = ObjectId::of(Kind::Blob, b"KEY=k-1234");
    assert!(
        !sandbox
            .reopened()
            .store()
            .find(&id.to_string().parse().unwrap(), 1)
            .iter()
            .any(|(found, _)| *found == id)
    );
}

/// Makes a bundle of the session `task`.
fn bundle_of(sandbox: &Sandbox, without: &[ObjectId]) -> Bundle {
    let path = sandbox.folder().join("task.bundle");
    let wanted = [BundleRequest::Session("task".to_owned())];
    let plan = plan_bundle(&sandbox.repo, &wanted, without).unwrap();
    plan.write(&sandbox.repo, Tier::Hot, &RealIo.create(&path).unwrap()).unwrap();
    Bundle::open(Arc::new(RealIo.open(&path, Access::Read).unwrap())).unwrap()
}

fn take_in(sandbox: &Sandbox, bundle: &Bundle) -> Unbundled {
    unbundle(&sandbox.repo, bundle, &UnbundleOptions::default(), &stamp(50)).unwrap()
}

/// The turns of `task`, newest first: their ids and words.
fn turns_of(sandbox: &Sandbox) -> Vec<(ObjectId, String)> {
    let repo = sandbox.reopened();
    let tip = repo.tip(&BranchName::main("task").unwrap()).unwrap();
    let turns = repo.history(&[tip], &[]).unwrap().map(Result::unwrap);
    turns.map(|entry| (entry.id, entry.commit.message.clone())).collect()
}

#[test]
fn bundles_from_before_a_redaction_map_to_the_redacted_turns() {
    let sandbox = Sandbox::new();
    sandbox.import("task", claude_code(20).as_bytes()).unwrap();
    let bundle = bundle_of(&sandbox, &[]);
    take_out(&sandbox, SECRET);
    let turns = turns_of(&sandbox);
    let done = take_in(&sandbox, &bundle);
    assert!(done.plan.redacted > 0);
    assert!(done.plan.refs.iter().all(|planned| planned.fate == RefFate::Known));
    assert_eq!((done.operation, turns_of(&sandbox)), (None, turns));
    // If the branch was deleted since, the bundle restores it without the secret.
    let mut change = sandbox.repo.begin();
    change.delete_branch(&BranchName::main("task").unwrap());
    change.commit(&stamp(20), "delete").unwrap();
    assert!(take_in(&sandbox, &bundle).operation.is_some());
    assert_out(&sandbox, SECRET);
}

#[test]
fn bundles_of_other_stores_are_redacted_on_import() {
    let theirs = Sandbox::new();
    let text = claude_code(20);
    theirs.import("task", text.as_bytes()).unwrap();
    let bundle = bundle_of(&theirs, &[]);
    let ours = Sandbox::new();
    ours.import("other", text.as_bytes()).unwrap();
    take_out(&ours, SECRET);
    let done = take_in(&ours, &bundle);
    assert!(done.plan.redacted > 0 && done.operation.is_some());
    assert_out(&ours, SECRET);

    // All turns exist, and those before the secret have the same ids.
    let (there, here) = (turns_of(&theirs), turns_of(&ours));
    assert_eq!(there.len(), here.len());
    let at = there.iter().position(|(_, words)| words.contains(SECRET)).unwrap();
    assert_eq!(there[at + 1..], here[at + 1..]);
    assert_eq!(here[at].1, "[redacted]");
    assert!(!here.iter().any(|(_, words)| words.contains(SECRET)));
    let source = String::from_utf8(ours.source(&here[0].0)).unwrap();
    assert_eq!(source, text.replace(SECRET, "[redacted]"));

    // A second import adds nothing.
    let again = take_in(&ours, &bundle);
    assert_eq!((again.operation, again.plan.redacted), (None, done.plan.redacted));
    assert_eq!(branches(&ours), ["other/main", "task/main"]);
}

#[test]
fn imported_bundles_update_the_sizes_of_redacted_files() {
    let theirs = WorkspaceFixture::new();
    theirs.write("key.env", "KEY=k-1234\n");
    theirs.write("a.rs", "fn a() {}\n");
    theirs.snapshot();
    let path = theirs.sandbox.folder().join("fixture.bundle");
    let wanted = [BundleRequest::Session("fixture".to_owned())];
    let plan = plan_bundle(&theirs.sandbox.repo, &wanted, &[]).unwrap();
    plan.write(&theirs.sandbox.repo, Tier::Hot, &RealIo.create(&path).unwrap()).unwrap();
    let bundle = Bundle::open(Arc::new(RealIo.open(&path, Access::Read).unwrap())).unwrap();
    take_out(&theirs.sandbox, "k-1234");
    let tip = || theirs.sandbox.repo.tip(&BranchName::main("fixture").unwrap()).unwrap();
    let redacted = tip();
    assert_eq!(take_in(&theirs.sandbox, &bundle).operation, None);
    assert_eq!(tip(), redacted);
    assert_eq!(theirs.files()["key.env"].1, "KEY=[redacted]\n");
}
