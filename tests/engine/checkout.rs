//! Checkout and capture: files that are restored, overwritten and captured.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use turntree::ErrorKind;
use turntree::context::{Builder, Context, FileMode};
use turntree::object::Memory;
use turntree::repo::{BranchName, SnapshotDraft};
use turntree::workspace::{CaptureOptions, FileAction, capture, plan_checkout};
use turntree_exchange::apply_state;
use turntree_tests::{Sandbox, claude_code, stamp};

fn context(document: &str) -> (Memory, Context) {
    let (mut objects, mut builder) = (Memory::new(), Builder::new());
    apply_state(&mut objects, &mut builder, document.as_bytes()).unwrap();
    let tree = builder.write(&mut objects).unwrap();
    let context = Context::open(&objects, &tree).unwrap();
    (objects, context)
}

fn every_file(folder: &Path) -> Vec<PathBuf> {
    let (mut found, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap().map(Result::unwrap) {
            let path = entry.path();
            if entry.file_type().unwrap().is_dir() {
                folders.push(path);
            } else {
                found.push(path.strip_prefix(folder).unwrap().to_owned());
            }
        }
    }
    found.sort();
    found
}

#[test]
fn checkout_writes_a_context_as_files() {
    let folder = tempfile::tempdir().unwrap();
    let (objects, context) = context(
        r#"{"agents":{"main":{"messages":[{"role":"user","content":"hi"},{"n": 2}],"system-prompt":"be brief","state":{"mode":"plan"}}},
            "scratchpad":{"todo":"read"},"reasoning":["first","second"],
            "files":{"src/a.rs":"fn main() {}","run.sh":{"content":"x","mode":"executable"},"link":{"content":"src/a.rs","mode":"symlink"}}}"#,
    );
    let target = folder.path().join("out");
    let restored =
        plan_checkout(&objects, &context, &target, &[]).unwrap().apply(&objects, false).unwrap();
    assert_eq!(restored.written, 9);
    let read = |path: &str| fs::read_to_string(target.join(path)).unwrap();
    assert_eq!(
        read("agents/main/messages.jsonl"),
        "{\"role\":\"user\",\"content\":\"hi\"}\n{\"n\": 2}\n"
    );
    assert_eq!(read("agents/main/system-prompt"), "be brief");
    assert_eq!(read("agents/main/state/mode"), "plan");
    assert_eq!(read("scratchpad/todo"), "read");
    assert_eq!(read("reasoning/000001"), "second");
    assert_eq!(read("files/src/a.rs"), "fn main() {}");
    assert_eq!(fs::read_link(target.join("files/link")).unwrap(), Path::new("src/a.rs"));
    assert!(capture_mode(&target.join("files/run.sh")));

    let again = plan_checkout(&objects, &context, &target, &[]).unwrap();
    assert!(again.files.iter().all(|file| file.action == FileAction::Keep));
}

fn capture_mode(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(path).unwrap().permissions().mode() & 0o100 != 0
}

#[test]
fn checkout_writes_the_source_of_a_transcript() {
    let sandbox = Sandbox::new();
    let text = claude_code(12);
    let head = sandbox.import("task", text.as_bytes()).unwrap().head;
    let context = sandbox.repo.context(&head).unwrap();
    let target = sandbox.folder().join("out");
    let store = sandbox.repo.store();
    plan_checkout(store, &context, &target, &[]).unwrap().apply(store, false).unwrap();
    assert_eq!(fs::read_to_string(target.join("source")).unwrap(), text);
    assert_eq!(fs::read_to_string(target.join("agents/main/messages.jsonl")).unwrap(), text);
    assert!(target.join("files/src/part_1.rs").exists());
}

#[test]
fn checkout_restores_only_selected_paths() {
    let (objects, context) = context(
        r#"{"memory":{"a":1},"files":{"src/a.rs":"a","src/b.rs":"b","srcs/c":"c"},"agents":{"main":{"messages":[{}]},"mainly":{"messages":[{}]}}}"#,
    );
    for (only, expected) in [
        (&["files/src"][..], &["files/src/a.rs", "files/src/b.rs"][..]),
        (&["files/src/a.rs", "memory"], &["files/src/a.rs", "memory/a"]),
        (&["agents/main"], &["agents/main/messages.jsonl"]),
        (&["files/"], &["files/src/a.rs", "files/src/b.rs", "files/srcs/c"]),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let only: Vec<String> = only.iter().map(|path| (*path).to_owned()).collect();
        plan_checkout(&objects, &context, folder.path(), &only)
            .unwrap()
            .apply(&objects, false)
            .unwrap();
        let expected: Vec<PathBuf> = expected.iter().map(PathBuf::from).collect();
        assert_eq!(every_file(folder.path()), expected, "{only:?}");
    }
    let nothing = plan_checkout(&objects, &context, Path::new("unused"), &["nothing".to_owned()]);
    assert_eq!(nothing.unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn a_changed_file_is_not_overwritten_unless_allowed() {
    let folder = tempfile::tempdir().unwrap();
    let (objects, context) = context(r#"{"files":{"a":"new","b":"new"}}"#);
    fs::create_dir(folder.path().join("files")).unwrap();
    fs::write(folder.path().join("files/b"), "mine").unwrap();
    let plan = plan_checkout(&objects, &context, folder.path(), &[]).unwrap();
    let actions: Vec<FileAction> = plan.files.iter().map(|file| file.action).collect();
    assert_eq!(actions, [FileAction::Create, FileAction::Overwrite]);
    let error = plan.apply(&objects, false).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains("files/b"), "{error}");
    assert_eq!(every_file(folder.path()), [PathBuf::from("files/b")], "nothing was written");
    plan.apply(&objects, true).unwrap();
    assert_eq!(fs::read_to_string(folder.path().join("files/b")).unwrap(), "new");
}

#[test]
fn checkout_restores_the_executable_bit() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let (objects, context) = context(r#"{"files":{"run":{"content":"x","mode":"executable"}}}"#);
    let restore = |overwrite| {
        let plan = plan_checkout(&objects, &context, folder.path(), &[]).unwrap();
        (plan.files[0].action, plan.apply(&objects, overwrite).is_ok())
    };
    assert_eq!(restore(false), (FileAction::Create, true));
    let run = folder.path().join("files/run");
    fs::set_permissions(&run, fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(restore(false), (FileAction::Overwrite, false));
    assert_eq!(restore(true), (FileAction::Overwrite, true));
    assert!(capture_mode(&run));
    assert_eq!(restore(false), (FileAction::Keep, true));
}

#[test]
fn checkout_reports_conflicting_file_paths() {
    for document in [
        r#"{"files":{"a":"x","a/b":"x"}}"#,
        r#"{"files":{"dir":{"content":"/etc","mode":"symlink"},"dir/passwd":"x"}}"#,
    ] {
        let (objects, context) = context(document);
        let folder = tempfile::tempdir().unwrap();
        let error = plan_checkout(&objects, &context, folder.path(), &[]).unwrap_err();
        assert!(error.to_string().contains("cannot both be files"), "{document}: {error}");
    }
}

#[test]
fn workspaces_round_trip_under_their_ignore_rules() {
    let folder = tempfile::tempdir().unwrap();
    let workspace = folder.path().join("work");
    for (path, content) in [
        ("src/a.rs", "a"),
        (".hidden", "h"),
        (".gitignore", "*.log\n"),
        ("big.log", "ignored"),
        (".turntreeignore", "secret\n"),
        ("secret", "ignored"),
        (".git/HEAD", "never"),
        (".turntree/superblock", "never"),
        ("knowledge/superblock", "never"),
        ("knowledge/journal/a.seg", "never"),
        (".turntree-part-0123456789abcdef", "never"),
    ] {
        let path = workspace.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    let (mut objects, mut builder) = (Memory::new(), Builder::new());
    let captured = capture(
        &mut objects,
        &Context::default(),
        &mut builder,
        &workspace,
        &CaptureOptions::default(),
    )
    .unwrap();
    assert_eq!((captured.files, captured.skipped.len()), (4, 0));
    let tree = builder.write(&mut objects).unwrap();
    let first = Context::open(&objects, &tree).unwrap();

    fs::remove_file(workspace.join("src/a.rs")).unwrap();
    fs::write(workspace.join("src/b.rs"), "b").unwrap();
    let mut builder = Builder::from(first.clone());
    capture(&mut objects, &first, &mut builder, &workspace, &CaptureOptions::default()).unwrap();
    let tree = builder.write(&mut objects).unwrap();
    let second = Context::open(&objects, &tree).unwrap();
    let changes = turntree::context::diff(&objects, &first, &second).unwrap();
    let keys: Vec<&str> = changes["files"].changes.iter().map(|c| c.key.as_str()).collect();
    assert_eq!(keys, ["src/a.rs", "src/b.rs"]);
}

#[test]
fn unreadable_files_are_reported_and_keep_their_content() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let closed = folder.path().join("closed");
    fs::create_dir(&closed).unwrap();
    fs::write(closed.join("inside"), "kept").unwrap();
    fs::write(folder.path().join("beside"), "first").unwrap();
    let (mut objects, mut builder) = (Memory::new(), Builder::new());
    capture(
        &mut objects,
        &Context::default(),
        &mut builder,
        folder.path(),
        &CaptureOptions::default(),
    )
    .unwrap();
    let tree = builder.write(&mut objects).unwrap();
    let first = Context::open(&objects, &tree).unwrap();

    fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
    let readable = fs::read_dir(&closed).is_ok();
    fs::write(folder.path().join("beside"), "second").unwrap();
    let mut builder = Builder::from(first.clone());
    let captured =
        capture(&mut objects, &first, &mut builder, folder.path(), &CaptureOptions::default());
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
    let captured = captured.unwrap();
    let tree = builder.write(&mut objects).unwrap();
    let second = Context::open(&objects, &tree).unwrap();
    let changes = turntree::context::diff(&objects, &first, &second).unwrap();
    let keys: Vec<&str> = changes["files"].changes.iter().map(|c| c.key.as_str()).collect();
    assert_eq!(keys, ["beside"]);
    // Root may read every file.
    assert!(readable || captured.skipped.iter().any(|skipped| skipped.path == Path::new("closed")));
}

/// A file is synced before it is renamed to its final name, and each folder is synced once, at the
/// end.
#[test]
fn files_are_synced_before_their_rename_and_folders_after() {
    let sandbox = Sandbox::new();
    let mut change = sandbox.repo.begin();
    let mut builder = Builder::new();
    for key in ["a", "b", "deep/c", "deep/d", "deep/er/e"] {
        let file = (FileMode::Regular, key.to_owned().into());
        builder.set_file(&mut change, key, Some(file)).unwrap();
    }
    let tree = builder.write(&mut change).unwrap();
    let branch = BranchName::main("work").unwrap();
    change.snapshot(&branch, SnapshotDraft::new(tree, "files", &stamp(1))).unwrap();
    change.commit(&stamp(1), "snapshot").unwrap();
    let trace = sandbox.folder().join("trace");
    let mut strace = Command::new("strace");
    strace.args(["-f", "-y", "-e", "trace=fsync,renameat2", "-o"]).arg(&trace);
    strace.arg(env!("CARGO_BIN_EXE_turntree-under-test"));
    strace.args(["restore", "work", "--to", "out", "--store", "store"]);
    strace.current_dir(sandbox.folder()).stdout(Stdio::null()).stderr(Stdio::null());
    if !strace.status().is_ok_and(|status| status.success()) {
        eprintln!("skipped: nobody may trace a process here");
        return;
    }
    let trace = fs::read_to_string(trace).unwrap();
    let out = sandbox.folder().canonicalize().unwrap();
    // `strace` prints the path of a handle in angle brackets.
    let calls: Vec<(&str, PathBuf)> = trace
        .lines()
        .filter_map(|line| {
            let (call, rest) = line.split_once(' ')?.1.trim_start().split_once('(')?;
            let path = Path::new(rest.split_once('<')?.1.split_once('>')?.0);
            Some((call, path.strip_prefix(&out).ok()?.to_owned()))
        })
        .collect();
    let last = calls.iter().rposition(|(call, _)| *call == "renameat2").unwrap();
    let (files, mut folders) = calls.split_at(last + 1);
    for pair in files.chunks(2) {
        let [("fsync", part), ("renameat2", folder)] = pair else { panic!("{files:?}") };
        assert_eq!(part.parent().unwrap(), folder);
    }
    assert_eq!(files.len(), 10);
    let mut synced: Vec<_> = std::iter::from_fn(|| {
        let ((call, folder), rest) = folders.split_first()?;
        assert_eq!(*call, "fsync");
        folders = rest;
        Some(folder.to_str().unwrap())
    })
    .collect();
    synced.sort_unstable();
    assert_eq!(synced, ["", "out", "out/files", "out/files/deep", "out/files/deep/er"]);
}

/// Kills a restore after a number of files. A second restore finishes it.
#[test]
fn killed_restores_leave_complete_files_and_can_be_repeated() {
    let sandbox = Sandbox::new();
    let content = |n: usize| format!("file {n}\n").repeat(2000);
    let mut change = sandbox.repo.begin();
    let mut builder = Builder::new();
    for n in 0..200 {
        let file = (FileMode::Regular, content(n).into());
        builder.set_file(&mut change, &format!("{}/{n}", n % 7), Some(file)).unwrap();
    }
    let tree = builder.write(&mut change).unwrap();
    let branch = BranchName::main("work").unwrap();
    change.snapshot(&branch, SnapshotDraft::new(tree, "many files", &stamp(1))).unwrap();
    change.commit(&stamp(1), "snapshot").unwrap();
    let target = sandbox.folder().join("out");
    let restore = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_turntree-under-test"));
        command.args(["restore", "work", "--to"]).arg(&target).arg("--store").arg(sandbox.store());
        command.stdout(Stdio::null()).spawn().unwrap()
    };
    let is_part = |path: &PathBuf| path.to_string_lossy().contains(".turntree-part-");
    let files = || if target.exists() { every_file(&target) } else { Vec::new() };
    for enough in [1, 20, 60, 120, 199] {
        let mut process = restore();
        while files().len() < enough && process.try_wait().unwrap().is_none() {}
        process.kill().unwrap();
        process.wait().unwrap();
        let (parts, whole): (Vec<_>, Vec<_>) = files().into_iter().partition(is_part);
        assert!(parts.len() <= 1, "{parts:?}");
        for path in whole {
            let n = path.file_name().unwrap().to_string_lossy().parse().unwrap();
            assert_eq!(fs::read_to_string(target.join(&path)).unwrap(), content(n));
        }
    }
    assert!(restore().wait().unwrap().success());
    assert_eq!((files().len(), files().iter().any(is_part)), (200, false));
}
