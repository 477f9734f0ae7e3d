//! Directories, mode transitions and intents of OLLM CLI.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use turntree::ErrorKind;
use turntree::context::Builder;
use turntree::object::ObjectId;
use turntree::repo::SnapshotDraft;
use turntree_exchange::ImportOptions;
use turntree_exchange::formats::FolderFile;
use turntree_exchange::formats::ollm::{
    OllmReport, Transition, TransitionFacts, export_intent, export_mode, folders_of, import_folder,
    latest, read_state_snapshot, state_snapshot,
};
use turntree_exchange::read_tree;
use turntree_tests::ollm::{exported, files, one_snapshot, restored, vector, vectors};
use turntree_tests::{Sandbox, claude_code, stamp};

fn import(sandbox: &Sandbox, document: &str) -> ObjectId {
    sandbox.import("work", document.as_bytes()).unwrap().head
}

fn value(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

fn import_dir(
    sandbox: &Sandbox,
    dir: &Path,
    session: Option<&str>,
) -> turntree::Result<OllmReport> {
    let found = read_tree(dir, folders_of).unwrap();
    import_files(sandbox, &found.name, &found.files, session)
}

fn import_files(
    sandbox: &Sandbox,
    name: &str,
    files: &[FolderFile],
    session: Option<&str>,
) -> turntree::Result<OllmReport> {
    let options = ImportOptions {
        format: None,
        session: String::new(),
        stamp: stamp(1),
        switch: false,
        adoption: None,
        branch: None,
    };
    import_folder(&sandbox.repo, name, files, session, false, &options)
}

#[test]
fn directories_import_sessions_in_chronological_order() {
    let sandbox = Sandbox::new();
    let report = import_dir(&sandbox, &vectors().join("context-snapshots"), None).unwrap();
    assert_eq!(report.odd, []);
    let [branch] = report.branches.as_slice() else { panic!("{report:?}") };
    assert_eq!(
        (branch.branch.to_string().as_str(), branch.turns),
        ("session-1769000000000/main", 6)
    );
    let times: Vec<i64> = sandbox
        .repo
        .history(&[branch.head], &[])
        .unwrap()
        .map(|entry| entry.unwrap().commit.time.micros)
        .collect();
    assert!(times.is_sorted_by(|a, b| a > b), "newest first: {times:?}");
    assert_eq!(sandbox.repo.operations().count(), 1, "one operation, which can be undone");
    let again = import_dir(&sandbox, &vectors().join("context-snapshots"), None).unwrap();
    assert_eq!((again.branches[0].turns, again.branches[0].head), (0, branch.head));
    assert_eq!(sandbox.repo.operations().count(), 1);
    // Only a session's folder, and only its folder of snapshots.
    for below in ["session-1769000000000", "session-1769000000000/snapshots"] {
        let sandbox = Sandbox::new();
        let report =
            import_dir(&sandbox, &vectors().join("context-snapshots").join(below), Some("mine"))
                .unwrap();
        assert_eq!((report.branches[0].turns, report.branches[0].branch.session()), (6, "mine"));
    }
}

#[test]
fn damaged_directories_are_imported_partially() {
    let root = vectors().join("context-snapshots");
    let mut found = read_tree(&root, folders_of).unwrap();
    let place = |name: &str, files: &[FolderFile]| {
        files.iter().position(|file| file.path.contains(name)).unwrap()
    };
    let at = place("snapshots-index", &found.files);
    let index = String::from_utf8(found.files[at].bytes.to_vec()).unwrap();
    found.files[at].bytes = "{\"version\":\"1.0\",\"snap".into();
    let bad = place("snapshot-4ec", &found.files);
    found.files[bad].bytes = "{\"id\":\"x\",\"sessionId\":\"y\"}".into();
    let sandbox = Sandbox::new();
    let report = import_files(&sandbox, "context-snapshots", &found.files, None).unwrap();
    assert_eq!(
        report.branches[0].turns, 5,
        "the index is not needed, and the bad file is left out"
    );
    let odd: Vec<&str> = report.odd.iter().map(|note| note.what.as_str()).collect();
    assert_eq!(
        odd,
        [
            "left out: messages is missing: expected an array of messages",
            "is not an index: rebuilt from the files next to it",
            "names 4ecdb4f3-ec53-45ad-8296-c903049f2154, which is missing or cannot be read",
        ]
    );
    // A readable index with a wrong entry, an invalid map, and a map of another session.
    found.files[at].bytes = index.replace("7931fdf0", "0000fdf0").into();
    let map = place("snapshot-map", &found.files);
    found.files[map].bytes = "[]".into();
    let report = import_files(&Sandbox::new(), "context-snapshots", &found.files, None).unwrap();
    let odd: Vec<&str> = report.odd.iter().map(|note| note.what.as_str()).collect();
    assert!(
        odd.contains(&"is not a map of snapshots: the documents name their sessions"),
        "{odd:?}"
    );
    assert!(odd.contains(&"is not in the index; imported anyway"), "{odd:?}");
    assert_eq!(odd.iter().filter(|what| what.contains("which is missing")).count(), 2, "{odd:?}");
    found.files[map].bytes = r#"{"7931fdf0-08cd-45d8-a61a-5049ade6e196":"another"}"#.into();
    let report = import_files(&Sandbox::new(), "context-snapshots", &found.files, None).unwrap();
    assert!(
        report.odd.iter().any(|note| note.what.contains("a different session than the document"))
    );
}

#[test]
fn unreadable_directories_are_rejected() {
    let sandbox = Sandbox::new();
    let file = |path: &str| FolderFile { path: path.to_owned(), bytes: "{\"torn\":".into() };
    let files = ["snapshots/session-a/transition-1.json", "snapshots/session-a/transition-2.json"];
    let error = import_files(&sandbox, ".ollm", &files.map(file), None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(
        error.to_string().starts_with("none of its files can be read: 2 are invalid, "),
        "{error}"
    );
    assert!(sandbox.repo.branches().is_empty());
}

#[test]
fn the_whole_dot_ollm_directory_is_imported_together() {
    let folder = tempfile::tempdir().unwrap();
    let ollm = folder.path().join(".ollm");
    let copy = |from: &Path, to: &str| {
        let to = ollm.join(to).join(from.file_name().unwrap());
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(from, to).unwrap();
    };
    for path in files("context-snapshots", "snapshot-") {
        copy(&path, "context-snapshots/session-1769000000000/snapshots");
    }
    for path in files("real/mode-transition", "transition-") {
        copy(&path, "snapshots/session-default");
    }
    copy(&vectors().join("intent-0001.json"), "intent-snapshots");
    fs::write(ollm.join("notes.json"), "{}").unwrap();
    for root in [folder.path(), &ollm] {
        let sandbox = Sandbox::new();
        let report = import_dir(&sandbox, root, None).unwrap();
        let told: Vec<(String, &str, u64)> = report
            .branches
            .iter()
            .map(|branch| (branch.branch.to_string(), branch.format, branch.turns))
            .collect();
        assert_eq!(
            told,
            [
                ("ollm/main".to_owned(), "ollm-intent", 1),
                ("session-1769000000000/main".to_owned(), "ollm-context", 6),
                ("session-default.modes/main".to_owned(), "ollm-mode", 20),
            ]
        );
        // Several sessions cannot be imported as one.
        let error = import_dir(&Sandbox::new(), root, Some("one")).unwrap_err();
        assert!(
            error.to_string().contains("the documents are of the sessions ollm, session-1769"),
            "{error}"
        );
    }
    let nothing = tempfile::tempdir().unwrap();
    let error = import_dir(&Sandbox::new(), nothing.path(), None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

#[test]
fn transitions_have_a_separate_session_and_equal_times_stay_distinct() {
    let sandbox = Sandbox::new();
    let main = import(&sandbox, &one_snapshot().to_string());
    let first = vector("transition-1769000000123.json");
    let second =
        first.replace("k3j9x0a1b", "zzzzzzzzz").replace("Fix login hang", "Something else");
    for document in [&first, &second] {
        let report = sandbox.import("work", document.as_bytes()).unwrap();
        assert_eq!((report.branch.to_string().as_str(), report.turns), ("work.modes/main", 1));
    }
    let repo = sandbox.reopened();
    assert_eq!(repo.tip(&"work".parse().unwrap()), Some(main), "the conversation is as it was");
    let tip = repo.tip(&"work.modes".parse().unwrap()).unwrap();
    let found: Vec<ObjectId> =
        repo.history(&[tip], &[]).unwrap().map(|entry| entry.unwrap().id).collect();
    let out: Vec<String> = found.iter().map(|id| exported(&repo, id)).collect();
    assert_eq!(out, [second.trim_end(), first.trim_end()]);
    assert_eq!(latest(&repo, "work", "developer", "debugger").unwrap(), Some(tip));
    assert_eq!(latest(&repo, "work", "debugger", "developer").unwrap(), None);
    assert_eq!(latest(&repo, "missing", "a", "b").unwrap(), None);
}

#[test]
fn transitions_share_the_messages_of_the_conversation() {
    let sandbox = Sandbox::new();
    let head = sandbox.import("work", claude_code(40).as_bytes()).unwrap().head;
    let repo = &sandbox.repo;
    let transition = Transition {
        from: "developer".to_owned(),
        to: "debugger".to_owned(),
        skills: Some(vec!["rust".to_owned()]),
        ..Transition::default()
    };
    let more = br#"{"findings": {"debugger": {"errors": ["E1"], "rootCause": null, "fixes": []}}}"#;
    let mut change = repo.begin();
    let mut builder = Builder::new();
    transition.apply(&mut change, &mut builder, &repo.context(&head).unwrap(), Some(more)).unwrap();
    let tree = builder.write(&mut change).unwrap();
    let id = change
        .snapshot(
            &"work.modes".parse().unwrap(),
            SnapshotDraft::new(tree, transition.title(), &stamp(9)),
        )
        .unwrap();
    let written = change.commit(&stamp(9), "transition").unwrap().written.stored_bytes;
    assert!(written < 4096, "{written} bytes: messages are shared");
    let context = repo.context(&id).unwrap();
    let mut out = Vec::new();
    let facts = TransitionFacts::of(&id, &repo.commit(&id).unwrap());
    export_mode(repo, &context, &facts, &mut out).unwrap();
    let out = value(std::str::from_utf8(&out).unwrap());
    assert_eq!(out["recentMessages"].as_array().unwrap().len(), 5);
    assert_eq!(
        (&out["activeSkills"], &out["activeTools"], &out["currentTask"]),
        (&json!(["rust"]), &json!([]), &Value::Null)
    );
    assert_eq!(out["findings"]["debugger"]["errors"], json!(["E1"]));
    assert_eq!(out.get("reasoningTraces"), None, "absent is not null");
    let report = sandbox.import_as("other", "ollm-mode", out.to_string().as_bytes()).unwrap();
    assert_eq!((report.messages, report.notes), (5, Vec::new()));
    let text = state_snapshot(repo, &repo.context(&head).unwrap()).unwrap();
    assert_eq!(read_state_snapshot(&text.to_xml()), Some(text));
}

#[test]
fn intents_do_not_change_the_conversation() {
    let sandbox = Sandbox::new();
    let main = import(&sandbox, &one_snapshot().to_string());
    let intent = vector("intent-0001.json");
    import(&sandbox, &intent);
    let later = intent
        .replace("0001", "0002")
        .replace("12:00:01", "12:00:02")
        .replace("Fix the lexer", "Fix it all");
    let head = import(&sandbox, &later);
    assert_eq!(restored(&sandbox, &head), restored(&sandbox, &main), "nothing else is touched");
    let (repo, context) = (&sandbox.repo, sandbox.repo.context(&head).unwrap());
    assert_eq!(context.count(repo, "intents").unwrap(), 2);
    for (id, expected) in
        [(None, &later), (Some("intent-0001"), &intent), (Some("intent-0002"), &later)]
    {
        let mut out = Vec::new();
        export_intent(repo, &context, id, &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), expected.trim_end());
    }
    let error = export_intent(repo, &context, Some("nope"), &mut Vec::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

#[test]
fn directories_skip_forgotten_sessions() {
    let sandbox = Sandbox::new();
    let dir = vectors().join("context-snapshots");
    let report = import_dir(&sandbox, &dir, None).unwrap();
    let session = report.branches[0].branch.session().to_owned();
    let mut change = sandbox.repo.begin();
    change.forget_session(&sandbox.repo, &session, &stamp(2), None).unwrap();
    change.commit(&stamp(2), "forget").unwrap();
    let report = import_dir(&sandbox, &dir, None).unwrap();
    assert_eq!((report.branches.len(), report.forgotten), (0, [session.clone()].into()));
    assert_eq!(sandbox.repo.branches(), []);
    // A named session is imported.
    let report = import_dir(&sandbox, &dir, Some(&session)).unwrap();
    assert_eq!(report.branches[0].turns, 6);
}
