//! Captures a directory into a snapshot: the files that are read, the files that are skipped, and
//! the report.

use std::fs::{self, File, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use turntree::ErrorKind;
use turntree::context::{Builder, Context};
use turntree::object::Memory;
use turntree::workspace::{CaptureOptions, capture};
use turntree_tests::workspace_fixture::{WorkspaceFixture, pipe, reasons};

#[test]
fn captures_skip_repositories_stores_and_special_files() {
    let fixture = WorkspaceFixture::new();
    fixture.write("kept", "kept");
    fixture.write("sub/.git/HEAD", "never");
    fixture.write("sub/inner", "a file of a nested repository");
    fixture.write("module/.git", "gitdir: ../.git/modules/module");
    fixture.write("module/inner", "a file of a submodule");
    fixture.write(".turntree/superblock", "never");
    fixture.write("knowledge/superblock", "never");
    fixture.write("knowledge/journal/a", "never");
    fixture.write("named/whatever", "never");
    symlink("/etc", fixture.path("out")).unwrap();
    symlink("nowhere", fixture.path("dangling")).unwrap();
    symlink(".", fixture.path("loop")).unwrap();
    pipe(&fixture.path("pipe"));
    let never = [fixture.path("named")];
    let options = CaptureOptions { never: &never, ..CaptureOptions::default() };
    let captured = fixture.snapshot_with(&options);
    let expected = ["dangling", "kept", "loop", "module/inner", "out", "sub/inner"];
    assert_eq!(fixture.names(), expected);
    assert_eq!(fixture.files()["out"].1, "/etc");
    assert_eq!(reasons(&captured).into_keys().collect::<Vec<_>>(), ["pipe"]);
    // A store is never captured, neither by its parent directory nor from inside.
    for inside in [fixture.sandbox.store_dir(), fixture.sandbox.store_dir().join("journal")] {
        let (mut objects, mut builder) = (Memory::new(), Builder::new());
        let (parent, options) = (Context::default(), CaptureOptions::default());
        let refused = capture(&mut objects, &parent, &mut builder, &inside, &options);
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidInput);
    }
    let gone = capture(
        &mut Memory::new(),
        &Context::default(),
        &mut Builder::new(),
        &fixture.path("kept"),
        &CaptureOptions::default(),
    );
    assert_eq!(gone.unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn captures_keep_unusual_names_and_report_unsupported_ones() {
    let fixture = WorkspaceFixture::new();
    let long = "x".repeat(255);
    let names = ["line\nend", "back\\slash", "-rf", " ", "ä", "A", "a", "..a", "a:b", "%2F", &long];
    for name in names {
        fixture.write(name, name);
    }
    let odd = std::ffi::OsStr::from_bytes(b"odd\xff");
    fs::write(fixture.work.join(odd), "odd").unwrap();
    fs::create_dir(fixture.work.join(std::ffi::OsStr::from_bytes(b"folder\xff"))).unwrap();
    let captured = fixture.snapshot();
    assert_eq!(captured.skipped.len(), 2);
    assert!(captured.skipped.iter().all(|skipped| skipped.reason.contains("UTF-8")));
    for name in names {
        assert_eq!(fixture.files()[name].1, name);
    }
    assert_eq!(fixture.files().len(), names.len());
}

#[test]
fn captures_release_file_contents_from_memory() {
    let fixture = WorkspaceFixture::new();
    for at in 0..6_u8 {
        fs::write(fixture.path(&at.to_string()), vec![at; 6 << 20]).unwrap();
    }
    let (mut change, mut builder) = (fixture.sandbox.repo.begin(), Builder::new());
    let (parent, options) = (Context::default(), CaptureOptions::default());
    let captured = capture(&mut change, &parent, &mut builder, &fixture.work, &options).unwrap();
    assert_eq!(captured.bytes, 36 << 20);
    assert!(change.staged_bytes() < 16 << 20, "{} bytes", change.staged_bytes());
    drop(change);
    fixture.snapshot();
    fixture.expect_truth();
}

/// Folders nested deeper than the limit of open handles, and than the longest key.
#[test]
fn captures_support_deeply_nested_folders() {
    let fixture = WorkspaceFixture::new();
    let mut path = fixture.work.clone();
    let home = std::env::current_dir().unwrap();
    for depth in 0..600 {
        path.push("d");
        fs::create_dir(&path).unwrap();
        fs::write(path.join("f"), depth.to_string()).unwrap();
    }
    assert_eq!(std::env::current_dir().unwrap(), home);
    let captured = fixture.snapshot();
    assert_eq!((captured.files, captured.skipped.len()), (600, 0));
    fixture.expect_truth();
}

#[test]
fn a_limit_above_that_of_a_store_is_refused_and_not_reduced() {
    let fixture = WorkspaceFixture::new();
    fixture.write("small", "12345");
    let (mut objects, mut builder) = (Memory::new(), Builder::new());
    let options = CaptureOptions { max_file_bytes: (2 << 30) + 1, ..CaptureOptions::default() };
    let dir = fixture.path("");
    let refused = capture(&mut objects, &Context::default(), &mut builder, &dir, &options);
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::LimitExceeded);
}

#[test]
fn large_files_are_skipped_without_reading() {
    let fixture = WorkspaceFixture::new();
    fixture.write("small", "12345");
    fixture.write("grows", "1");
    fixture.snapshot();
    // A sparse file: reading it would take unreasonably long.
    File::create(fixture.path("huge")).unwrap().set_len(1 << 42).unwrap();
    fixture.write("grows", "123456");
    let options = CaptureOptions { max_file_bytes: 5, ..CaptureOptions::default() };
    let captured = fixture.snapshot_with(&options);
    assert_eq!(captured.files, 1);
    assert_eq!(reasons(&captured).into_keys().collect::<Vec<_>>(), ["grows", "huge"]);
    // A skipped file keeps its last captured content.
    assert_eq!(fixture.files()["grows"].1, "1");
    assert_eq!(fixture.names(), ["grows", "small"]);
    fs::remove_file(fixture.path("huge")).unwrap();
    assert_eq!(fixture.snapshot().skipped, []);
    fixture.expect_truth();
}

#[test]
fn captures_out_of_time_keep_known_files_and_resume_later() {
    let fixture = WorkspaceFixture::new();
    for file in 0..50 {
        fixture.write(&format!("folder-{}/file-{file}", file % 5), "old");
    }
    fixture.let_the_clock_go_on();
    fixture.snapshot();
    for file in 0..50 {
        fixture.write(&format!("folder-{}/file-{file}", file % 5), "new");
    }
    fixture.write("added/one", "added");
    fs::remove_file(fixture.path("folder-0/file-0")).unwrap();
    fixture.let_the_clock_go_on();
    // Without any time, the capture looks at no file and loses none.
    let options = CaptureOptions { over_budget: &|| true, ..CaptureOptions::default() };
    let captured = fixture.snapshot_with(&options);
    assert!(captured.unfinished && captured.changed == 0 && captured.removed == 0);
    assert_eq!(reasons(&captured).into_keys().collect::<Vec<_>>(), [""]);
    assert!(fixture.files().values().all(|(_, content)| content == "old"));
    assert_eq!(fixture.files().len(), 50);
    // With little time, each capture continues where the last one stopped, until one finishes.
    let mut captures = 0;
    loop {
        let asked = AtomicUsize::new(0);
        let is_over = || asked.fetch_add(1, Ordering::Relaxed) >= 20;
        let options = CaptureOptions { over_budget: &is_over, ..CaptureOptions::default() };
        let captured = fixture.snapshot_with(&options);
        captures += 1;
        let old = fixture.files().values().filter(|(_, content)| content == "old").count();
        assert!(captured.unfinished || old == 0);
        let names = reasons(&captured);
        let left = fixture.files().into_iter().filter(|(_, (_, content))| content == "old");
        assert!(left.into_iter().all(|(name, _)| names.contains_key(&name)));
        if !captured.unfinished {
            break;
        }
        assert!(captures < 50, "{old} files are left");
    }
    assert!(captures > 1);
    fixture.expect_truth();
    assert_eq!(fixture.snapshot().read, 0);
}

#[test]
fn unreadable_files_keep_their_captured_content() {
    let fixture = WorkspaceFixture::new();
    for name in ["closed/a", "closed/deep/b", "open/c", "shut"] {
        fixture.write(name, "old");
    }
    fixture.snapshot();
    for name in ["closed/a", "closed/deep/b", "open/c", "shut"] {
        fixture.write(name, "new");
    }
    let lock = |mode| {
        fs::set_permissions(fixture.path("closed"), Permissions::from_mode(mode)).unwrap();
        fs::set_permissions(fixture.path("shut"), Permissions::from_mode(mode & 0o600)).unwrap();
    };
    lock(0);
    let is_master = fs::read_dir(fixture.path("closed")).is_ok();
    let captured = fixture.snapshot();
    lock(0o700);
    // Root may read every file.
    if !is_master {
        assert_eq!(reasons(&captured).into_keys().collect::<Vec<_>>(), ["closed", "shut"]);
        assert_eq!(fixture.files()["closed/deep/b"].1, "old");
        assert_eq!(fixture.files()["shut"].1, "old");
    }
    assert_eq!(fixture.files()["open/c"].1, "new");
    fixture.snapshot();
    fixture.expect_truth();
}

/// Files in `/proc` report a length of zero but return bytes, like files that change constantly.
#[test]
fn files_that_change_during_a_read_keep_their_captured_content() {
    let kernel = Path::new("/proc/sys/kernel/random");
    if !kernel.is_dir() {
        return;
    }
    let (mut objects, mut builder) = (Memory::new(), Builder::new());
    let (parent, options) = (Context::default(), CaptureOptions::default());
    let captured = capture(&mut objects, &parent, &mut builder, kernel, &options).unwrap();
    assert_eq!(captured.files, 0);
    assert!(reasons(&captured)["uuid"].contains("changed while it was read"));
}

#[test]
fn captured_files_are_consistent_or_skipped() {
    let fixture = WorkspaceFixture::new();
    let (stop, versions) = (AtomicBool::new(false), ["a".repeat(1 << 16), "b".repeat(1 << 15)]);
    fixture.write("busy", &versions[0]);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                for version in &versions {
                    fs::write(fixture.path("new"), version).unwrap();
                    fs::rename(fixture.path("new"), fixture.path("busy")).unwrap();
                    let _ = fs::create_dir_all(fixture.path("comes/and/goes"));
                    let _ = fs::write(fixture.path("comes/and/goes/file"), version);
                    let _ = fs::remove_dir_all(fixture.path("comes"));
                }
            }
        });
        for _ in 0..30 {
            fixture.snapshot();
            let files = fixture.files();
            assert!(files.get("busy").is_none_or(|(_, content)| versions.contains(content)));
        }
        stop.store(true, Ordering::Relaxed);
    });
    fixture.snapshot();
    fixture.expect_truth();
}
