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

/// A restore of files under `strace`.
struct TracedRestore {
    sandbox: Sandbox,
    code: Option<i32>,
    /// The writes, syncs and renames, with the paths of their files in the folder of the sandbox.
    calls: Vec<(String, PathBuf)>,
}

/// A folder that a traced restore writes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Out {
    New,
    Existing,
}

impl TracedRestore {
    /// Restores files with these names into `out` by a process with few handles; `None` if this is
    /// not possible here.
    fn run(keys: &[String], out: Out, inject: &[&str]) -> Option<Self> {
        let sandbox = Sandbox::new();
        if out == Out::Existing {
            fs::create_dir(sandbox.folder().join("out")).unwrap();
        }
        let mut change = sandbox.repo.begin();
        let mut builder = Builder::new();
        for key in keys {
            let file = (FileMode::Regular, key.to_owned().into());
            builder.set_file(&mut change, key, Some(file)).unwrap();
        }
        let tree = builder.write(&mut change).unwrap();
        let branch = BranchName::main("work").unwrap();
        change.snapshot(&branch, SnapshotDraft::new(tree, "files", &stamp(1))).unwrap();
        change.commit(&stamp(1), "snapshot").unwrap();
        let trace = sandbox.folder().join("trace");
        let mut strace = Command::new("sh");
        strace.args(["-c", "ulimit -n 200; exec strace \"$@\"", "strace", "-f", "-y"]);
        strace.args(["-e", "trace=write,fsync,syncfs,renameat2", "-o"]).arg(&trace);
        strace.args(inject).arg(env!("CARGO_BIN_EXE_turntree-under-test"));
        strace.args(["restore", "work", "--to", "out", "--store", "store"]);
        strace.current_dir(sandbox.folder()).stdout(Stdio::null()).stderr(Stdio::null());
        let ended = strace.status().ok();
        let traced = fs::read_to_string(trace).unwrap_or_default();
        if !traced.contains("renameat2(") && !traced.contains("sync") {
            eprintln!("skipped: processes cannot be traced here");
            return None;
        }
        let folder = sandbox.folder().canonicalize().unwrap();
        let calls = traced.lines().filter_map(|line| call_of(line, &folder)).collect();
        Some(Self { sandbox, code: ended?.code(), calls })
    }

    /// The files and temporary files in `out`.
    fn restored(&self) -> Vec<PathBuf> {
        every_file(&self.sandbox.folder().join("out"))
    }

    fn count(&self, wanted: &str) -> usize {
        self.calls.iter().filter(|(call, _)| call == wanted).count()
    }

    /// Asserts that no file got its name before its content was synced, and that every folder was
    /// synced after the last of its files got its name.
    fn assert_order(&self) {
        let last_of = |what: &dyn Fn(&(String, PathBuf)) -> bool| self.calls.iter().rposition(what);
        let mut renames = 0;
        for (at, (call, part)) in self.calls.iter().enumerate() {
            if call != "renameat2" {
                continue;
            }
            renames += 1;
            let written = last_of(&|(call, path)| call == "write" && path == part).unwrap();
            let is_sync =
                |(call, path): &(String, _)| call == "syncfs" || call == "fsync" && path == part;
            assert!(self.calls[written..at].iter().any(is_sync), "{}", part.display());
            let folder = part.parent().unwrap();
            let is_folder_sync =
                |(call, path): &(String, _)| call == "syncfs" || call == "fsync" && path == folder;
            assert!(self.calls[at..].iter().any(is_folder_sync), "{}", folder.display());
        }
        assert!(renames > 0);
    }
}

/// Parses a line of `strace`, which prints the path of a handle in angle brackets. The caches of the
/// store are renamed without a sync, and are not calls of the restore.
fn call_of(line: &str, folder: &Path) -> Option<(String, PathBuf)> {
    let (call, rest) = line.split_once(' ')?.1.trim_start().split_once('(')?;
    let path = Path::new(rest.split_once('<')?.1.split_once('>')?.0);
    let path = match call {
        "renameat2" => path.join(rest.split('"').nth(1)?),
        _ => path.to_owned(),
    };
    let path = path.strip_prefix(folder).ok().filter(|path| !path.starts_with("store"))?;
    Some((call.to_owned(), path.to_owned()))
}

#[test]
fn files_are_synced_before_their_rename_and_folders_after() {
    let keys = ["a", "b", "deep/c", "deep/d", "deep/er/e"].map(str::to_owned);
    let Some(restore) = TracedRestore::run(&keys, Out::New, &[]) else { return };
    assert_eq!((restore.code, restore.count("syncfs")), (Some(0), 0));
    restore.assert_order();
    let last = restore.calls.iter().rposition(|(call, _)| call == "renameat2").unwrap();
    let mut synced: Vec<&str> =
        restore.calls[last + 1..].iter().map(|(_, folder)| folder.to_str().unwrap()).collect();
    synced.sort_unstable();
    assert_eq!(synced, ["", "out", "out/files", "out/files/deep", "out/files/deep/er"]);
}

/// Names of files in folders.
fn many_files() -> Vec<String> {
    (0..200).map(|n| format!("{}/{n}", n % 40)).collect()
}

#[test]
fn many_files_become_durable_together_before_the_first_gets_its_name() {
    let Some(restore) = TracedRestore::run(&many_files(), Out::Existing, &[]) else { return };
    assert_eq!(restore.code, Some(0));
    restore.assert_order();
    assert_eq!(restore.restored().len(), 200);
    match restore.count("syncfs") {
        0 => eprintln!("skipped: this file system cannot be synced as a whole"),
        // Four batches of 50 files, and their folders.
        syncs => assert!(syncs <= 6 && restore.count("fsync") < 20, "{:?}", restore.calls),
    }
}

#[test]
fn a_new_folder_becomes_durable_at_the_end() {
    let Some(restore) = TracedRestore::run(&many_files(), Out::New, &[]) else { return };
    assert_eq!((restore.code, restore.restored().len()), (Some(0), 200));
    let syncs = restore.count("syncfs");
    if syncs == 0 {
        return restore.assert_order();
    }
    assert!(syncs <= 4 && restore.count("fsync") < 20, "{:?}", restore.calls);
    let last_of = |call: &str| restore.calls.iter().rposition(|(other, _)| other == call);
    assert!(last_of("syncfs") > last_of("renameat2"), "{:?}", restore.calls);
    assert_eq!(restore.calls.last().unwrap(), &("fsync".to_owned(), PathBuf::new()));
}

#[test]
fn files_are_synced_one_by_one_if_the_kernel_cannot_sync_all() {
    let inject = ["-e", "inject=syncfs:error=ENOSYS"];
    let Some(restore) = TracedRestore::run(&many_files(), Out::Existing, &inject) else { return };
    assert_eq!(restore.code, Some(0));
    let calls = restore.calls.iter().filter(|(call, _)| call != "syncfs").cloned().collect();
    let restore = TracedRestore { calls, ..restore };
    restore.assert_order();
    assert!(restore.count("fsync") > 200);
    assert_eq!(restore.restored().len(), 200);
}

#[test]
fn no_file_gets_its_name_if_its_content_may_not_be_durable() {
    for call in ["syncfs", "fsync"] {
        let inject = format!("inject={call}:error=EIO");
        let one_by_one = ["-e", "inject=syncfs:error=ENOSYS", "-e", &*inject];
        let inject = if call == "syncfs" { &one_by_one[2..] } else { &one_by_one[..] };
        let Some(restore) = TracedRestore::run(&many_files(), Out::Existing, inject) else {
            return;
        };
        if restore.count(call) == 0 {
            eprintln!("skipped: this file system cannot be synced as a whole");
            continue;
        }
        assert_eq!((restore.code, restore.count("renameat2")), (Some(70), 0), "{call}");
        assert_eq!(restore.restored(), Vec::<PathBuf>::new(), "{call}");
    }
}

#[test]
fn more_files_than_a_process_may_open_are_restored() {
    let sandbox = Sandbox::new();
    let mut change = sandbox.repo.begin();
    let mut builder = Builder::new();
    for n in 0..400 {
        let file = (FileMode::Regular, n.to_string().into());
        builder.set_file(&mut change, &format!("{}/{n}", n % 90), Some(file)).unwrap();
    }
    let tree = builder.write(&mut change).unwrap();
    let branch = BranchName::main("work").unwrap();
    change.snapshot(&branch, SnapshotDraft::new(tree, "files", &stamp(1))).unwrap();
    change.commit(&stamp(1), "snapshot").unwrap();
    for most in [24, 64, 200] {
        let script = format!("ulimit -n {most}; exec \"$0\" \"$@\"");
        let out = format!("out-{most}");
        let mut shell = Command::new("sh");
        shell.args(["-c", &script, env!("CARGO_BIN_EXE_turntree-under-test")]);
        shell.args(["restore", "work", "--to", &out, "--store", "store"]);
        let ended = shell.current_dir(sandbox.folder()).stdout(Stdio::null()).status().unwrap();
        assert!(ended.success(), "{most}");
        assert_eq!(every_file(&sandbox.folder().join(out)).len(), 400, "{most}");
    }
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
        command
            .args(["restore", "work", "--to"])
            .arg(&target)
            .arg("--store")
            .arg(sandbox.store_dir());
        command.stdout(Stdio::null()).spawn().unwrap()
    };
    let is_part = |path: &PathBuf| path.to_string_lossy().contains(".turntree-part-");
    let files = || if target.exists() { every_file(&target) } else { Vec::new() };
    let whole = || files().into_iter().filter(|path| !is_part(path));
    for enough in [0, 1, 20, 60, 120, 199] {
        let mut process = restore();
        while whole().count() < enough && process.try_wait().unwrap().is_none() {}
        process.kill().unwrap();
        process.wait().unwrap();
        for path in whole() {
            let n = path.file_name().unwrap().to_string_lossy().parse().unwrap();
            assert_eq!(fs::read_to_string(target.join(&path)).unwrap(), content(n));
        }
    }
    assert!(restore().wait().unwrap().success());
    assert_eq!((files().len(), files().iter().any(is_part)), (200, false));
}
