//! Between contexts and folders: nothing outside, nothing overwritten unasked, nothing lost.

use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use turntree::ErrorKind;
use turntree::context::{Builder, Context, FileMode};
use turntree::exchange::apply_state;
use turntree::object::Memory;
use turntree::workspace::{Action, capture, plan};
use turntree_tests::{Sandbox, claude_code};

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
fn a_context_is_laid_out_as_files() {
    let folder = tempfile::tempdir().unwrap();
    let (objects, context) = context(
        r#"{"agents":{"main":{"messages":[{"role":"user","content":"hi"},{"n": 2}],"system-prompt":"be brief","state":{"mode":"plan"}}},
            "scratchpad":{"todo":"read"},"reasoning":["first","second"],
            "files":{"src/a.rs":"fn main() {}","run.sh":{"content":"x","mode":"executable"},"link":{"content":"src/a.rs","mode":"symlink"}}}"#,
    );
    let target = folder.path().join("out");
    let restored = plan(&objects, &context, &target, &[]).unwrap().apply(&objects, false).unwrap();
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

    let again = plan(&objects, &context, &target, &[]).unwrap();
    assert!(again.files.iter().all(|file| file.action == Action::Keep));
}

fn capture_mode(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(path).unwrap().permissions().mode() & 0o100 != 0
}

#[test]
fn a_transcript_is_laid_out_with_its_source() {
    let sandbox = Sandbox::new();
    let text = claude_code(12);
    let head = sandbox.import("task", text.as_bytes()).unwrap().head;
    let context = sandbox.repo.context(&head).unwrap();
    let target = sandbox.folder().join("out");
    let store = sandbox.repo.store();
    plan(store, &context, &target, &[]).unwrap().apply(store, false).unwrap();
    assert_eq!(fs::read_to_string(target.join("source")).unwrap(), text);
    assert_eq!(fs::read_to_string(target.join("agents/main/messages.jsonl")).unwrap(), text);
    assert!(target.join("files/src/part_1.rs").exists());
}

#[test]
fn only_what_is_named_is_restored() {
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
        plan(&objects, &context, folder.path(), &only).unwrap().apply(&objects, false).unwrap();
        let expected: Vec<PathBuf> = expected.iter().map(PathBuf::from).collect();
        assert_eq!(every_file(folder.path()), expected, "{only:?}");
    }
    let nothing = plan(&objects, &context, Path::new("unused"), &["nothing".to_owned()]);
    assert_eq!(nothing.unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn a_changed_file_is_not_overwritten_unless_allowed() {
    let folder = tempfile::tempdir().unwrap();
    let (objects, context) = context(r#"{"files":{"a":"new","b":"new"}}"#);
    fs::create_dir(folder.path().join("files")).unwrap();
    fs::write(folder.path().join("files/b"), "mine").unwrap();
    let plan = plan(&objects, &context, folder.path(), &[]).unwrap();
    let actions: Vec<Action> = plan.files.iter().map(|file| file.action).collect();
    assert_eq!(actions, [Action::Create, Action::Overwrite]);
    let error = plan.apply(&objects, false).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains("files/b"), "{error}");
    assert_eq!(every_file(folder.path()), [PathBuf::from("files/b")], "nothing was written");
    plan.apply(&objects, true).unwrap();
    assert_eq!(fs::read_to_string(folder.path().join("files/b")).unwrap(), "new");
}

#[test]
fn what_a_killed_restore_left_is_in_nobodys_way() {
    let folder = tempfile::tempdir().unwrap();
    let (objects, context) = context(r#"{"files":{"a":"new"}}"#);
    let elsewhere = folder.path().join("elsewhere");
    fs::write(&elsewhere, "mine").unwrap();
    fs::create_dir(folder.path().join("files")).unwrap();
    let left = folder.path().join("files/a.turntree-part");
    std::os::unix::fs::symlink(&elsewhere, &left).unwrap();
    plan(&objects, &context, folder.path(), &[]).unwrap().apply(&objects, false).unwrap();
    assert_eq!(fs::read_to_string(folder.path().join("files/a")).unwrap(), "new");
    assert_eq!(fs::read_to_string(&elsewhere).unwrap(), "mine");
    assert!(!left.exists());
}

#[test]
fn nothing_is_written_outside_or_through_links() {
    let (objects, context) = context(
        r#"{"files":{"../../up":"x","/etc/absolute":"x","a/../../b":"x","dot/..":"x","c:\\d":"x"},"..":{"k":"x"}}"#,
    );
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("deep/target");
    plan(&objects, &context, &target, &[]).unwrap().apply(&objects, false).unwrap();
    assert_eq!(every_file(folder.path()).len(), 6);
    assert!(every_file(folder.path()).iter().all(|path| path.starts_with("deep/target")));

    let (objects, context) = self::context(r#"{"files":{"inner/x":"x"}}"#);
    let (target, elsewhere) = (folder.path().join("linked"), folder.path().join("elsewhere"));
    fs::create_dir_all(target.join("files")).unwrap();
    fs::create_dir(&elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, target.join("files/inner")).unwrap();
    let error = plan(&objects, &context, &target, &[]).unwrap_err();
    assert!(error.to_string().contains("not a directory"), "{error}");
    assert!(every_file(&elsewhere).is_empty());
}

#[test]
fn entries_that_cannot_both_be_files_are_named() {
    for document in [
        r#"{"files":{"a":"x","a/b":"x"}}"#,
        r#"{"files":{"Readme":"x","README":"x"}}"#,
        r#"{"files":{"dir":{"content":"/etc","mode":"symlink"},"dir/passwd":"x"}}"#,
    ] {
        let (objects, context) = context(document);
        let folder = tempfile::tempdir().unwrap();
        let error = plan(&objects, &context, folder.path(), &[]).unwrap_err();
        assert!(error.to_string().contains("cannot both be files"), "{document}: {error}");
    }
}

#[test]
fn a_workspace_goes_in_by_its_rules_and_comes_back() {
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
    ] {
        let path = workspace.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    let (mut objects, mut builder) = (Memory::new(), Builder::new());
    let captured = capture(&mut objects, &Context::default(), &mut builder, &workspace).unwrap();
    assert_eq!((captured.files, captured.skipped.len()), (4, 0));
    let tree = builder.write(&mut objects).unwrap();
    let first = Context::open(&objects, &tree).unwrap();

    fs::remove_file(workspace.join("src/a.rs")).unwrap();
    fs::write(workspace.join("src/b.rs"), "b").unwrap();
    let mut builder = Builder::from(first.clone());
    capture(&mut objects, &first, &mut builder, &workspace).unwrap();
    let tree = builder.write(&mut objects).unwrap();
    let second = Context::open(&objects, &tree).unwrap();
    let changes = turntree::context::diff(&objects, &first, &second).unwrap();
    let keys: Vec<&str> = changes["files"].changes.iter().map(|c| c.key.as_str()).collect();
    assert_eq!(keys, ["src/a.rs", "src/b.rs"]);
}

#[test]
fn what_cannot_be_read_is_reported_and_keeps_its_last_content() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let closed = folder.path().join("closed");
    fs::create_dir(&closed).unwrap();
    fs::write(closed.join("inside"), "kept").unwrap();
    fs::write(folder.path().join("beside"), "first").unwrap();
    let (mut objects, mut builder) = (Memory::new(), Builder::new());
    capture(&mut objects, &Context::default(), &mut builder, folder.path()).unwrap();
    let tree = builder.write(&mut objects).unwrap();
    let first = Context::open(&objects, &tree).unwrap();

    fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
    let readable = fs::read_dir(&closed).is_ok();
    fs::write(folder.path().join("beside"), "second").unwrap();
    let mut builder = Builder::from(first.clone());
    let captured = capture(&mut objects, &first, &mut builder, folder.path());
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
    let captured = captured.unwrap();
    let tree = builder.write(&mut objects).unwrap();
    let second = Context::open(&objects, &tree).unwrap();
    let changes = turntree::context::diff(&objects, &first, &second).unwrap();
    let keys: Vec<&str> = changes["files"].changes.iter().map(|c| c.key.as_str()).collect();
    assert_eq!(keys, ["beside"]);
    // Whoever may read everything is refused nothing.
    assert!(readable || captured.skipped.iter().any(|skipped| skipped.path == Path::new("closed")));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever the keys, restoring stays inside, and what was restored is read back as it was.
    #[test]
    fn any_keys_stay_inside(keys in prop::collection::btree_set("[a-cA./\\\\: ~%-]{1,12}", 1..8)) {
        let (mut objects, mut builder) = (Memory::new(), Builder::new());
        for key in &keys {
            let file = (FileMode::Regular, key.clone().into());
            builder.set_file(&mut objects, key, Some(file)).unwrap();
        }
        let tree = builder.write(&mut objects).unwrap();
        let context = Context::open(&objects, &tree).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("a/b/target");
        let Ok(plan) = plan(&objects, &context, &target, &[]) else { return Ok(()) };
        plan.apply(&objects, false).unwrap();
        let written = every_file(folder.path());
        prop_assert_eq!(written.len(), keys.len());
        prop_assert!(written.iter().all(|path| path.starts_with("a/b/target/files")));
    }
}
