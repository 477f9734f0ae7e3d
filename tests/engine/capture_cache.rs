//! The cache of a capture is invisible: a capture with a cache equals one without, and reads fewer
//! files.

use std::fs::{self, File, FileTimes, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, SystemTime};

use proptest::prelude::*;
use turntree::context::{Builder, Context};
use turntree::maintenance::{Pattern, fsck, redact};
use turntree::store::Thoroughness;
use turntree::workspace::{CaptureOptions, StatCache, capture};
use turntree_tests::stamp;
use turntree_tests::workspace_fixture::{WorkspaceFixture, pipe, snapshot_on, take, tip};

#[test]
fn unchanged_files_are_not_read_and_only_what_changed_is_written() {
    let fixture = WorkspaceFixture::new();
    for file in 0..40 {
        fixture.write(&format!("folder-{}/file-{file}", file % 4), &format!("content {file}"));
    }
    fixture.let_the_clock_go_on();
    let first = fixture.snapshot();
    assert_eq!((first.files, first.read, first.changed, first.removed), (40, 40, 40, 0));
    let before = tip(&fixture.sandbox.repo, "main");
    let second = fixture.snapshot();
    assert_eq!((second.files, second.bytes), (first.files, first.bytes));
    assert_eq!((second.read, second.changed, second.removed), (0, 0, 0));
    let (store, after) = (&fixture.sandbox.repo, tip(&fixture.sandbox.repo, "main"));
    assert_eq!(before.section(store, "files").unwrap(), after.section(store, "files").unwrap());

    fixture.write("folder-1/file-1", "other");
    fixture.write("folder-2/new", "new");
    fs::remove_file(fixture.path("folder-3/file-3")).unwrap();
    fs::remove_dir_all(fixture.path("folder-0")).unwrap();
    let third = fixture.snapshot();
    assert_eq!((third.files, third.read, third.changed, third.removed), (30, 2, 2, 11));
    fixture.expect_truth();
    assert_eq!(fixture.files()["folder-1/file-1"].1, "other");
}

#[test]
fn touched_files_with_equal_content_cause_no_change() {
    let fixture = WorkspaceFixture::new();
    fixture.write("a", "a");
    fixture.write("b", "b");
    fixture.let_the_clock_go_on();
    fixture.snapshot();
    fs::set_permissions(fixture.path("a"), Permissions::from_mode(0o600)).unwrap();
    let touched = fixture.snapshot();
    assert_eq!((touched.read, touched.changed), (1, 0));
    fs::set_permissions(fixture.path("a"), Permissions::from_mode(0o755)).unwrap();
    let executable = fixture.snapshot();
    assert_eq!((executable.read, executable.changed), (1, 1));
    fixture.expect_truth();
}

/// After a switch of branches or a rewind, the cache belongs to another snapshot.
#[test]
fn caches_are_valid_for_any_parent_snapshot() {
    let fixture = WorkspaceFixture::new();
    for file in 0..30 {
        fixture.write(&format!("f/{file}"), "first");
    }
    fixture.let_the_clock_go_on();
    fixture.snapshot();
    let first = tip(&fixture.sandbox.repo, "main");
    fixture.write("f/7", "second");
    fixture.write("new", "new");
    fixture.let_the_clock_go_on();
    fixture.snapshot();
    let cache = StatCache::open(&fixture.sandbox.repo, &fixture.work).unwrap();
    let options = CaptureOptions::default();
    let repo = &fixture.sandbox.repo;
    let (captured, tree) = snapshot_on(repo, "main", &first, &fixture.work, &cache, &options);
    assert_eq!((captured.files, captured.read, captured.changed), (31, 2, 2));
    fixture.expect_truth();
    cache.save(&captured, repo, &tree).unwrap();
    assert_eq!(fixture.snapshot().read, 0);
    // The same, without any parent snapshot.
    let cache = StatCache::open(repo, &fixture.work).unwrap();
    let nothing = Context::default();
    let (captured, _) = snapshot_on(repo, "main", &nothing, &fixture.work, &cache, &options);
    assert_eq!((captured.read, captured.changed), (31, 31));
    fixture.expect_truth();
}

#[test]
fn captures_overwrite_the_section_with_the_directory() {
    let fixture = WorkspaceFixture::new();
    fixture.write("a", "a");
    fixture.let_the_clock_go_on();
    fixture.snapshot();
    let (repo, parent) = (&fixture.sandbox.repo, tip(&fixture.sandbox.repo, "main"));
    let (mut change, mut builder) = (repo.begin(), Builder::from(parent.clone()));
    let other = (turntree::context::FileMode::Regular, "other".into());
    builder.set_file(&mut change, "a", Some(other.clone())).unwrap();
    builder.set_file(&mut change, "b", Some(other)).unwrap();
    let cache = StatCache::open(repo, &fixture.work).unwrap();
    let options = CaptureOptions { cache: Some(&cache), ..CaptureOptions::default() };
    capture(&mut change, &parent, &mut builder, &fixture.work, &options).unwrap();
    let tree = builder.write(&mut change).unwrap();
    let context = Context::open(&change, &tree).unwrap();
    let id = |context: &Context| context.section(&change, "files").unwrap();
    assert_eq!(id(&context), id(&parent));
}

#[test]
fn damaged_caches_are_ignored() {
    let fixture = WorkspaceFixture::new();
    fixture.write("a", "1");
    fixture.write("b/c", "22");
    fixture.let_the_clock_go_on();
    fixture.snapshot();
    let (cache, repo) = (fixture.cache(), &fixture.sandbox.repo);
    let whole = fs::read(&cache).unwrap();
    let parent = tip(repo, "main");
    let root = parent.section(repo, "files").unwrap();
    // Captures with these bytes as the cache, and returns the number of files read. The snapshot is
    // right for any bytes; only the intact cache saves reads.
    let read_with = |bytes: &[u8]| {
        fs::write(&cache, bytes).unwrap();
        let opened = StatCache::open(repo, &fixture.work).unwrap();
        let (mut change, mut builder) = (repo.begin(), Builder::from(parent.clone()));
        let options = CaptureOptions { cache: Some(&opened), ..CaptureOptions::default() };
        let found = capture(&mut change, &parent, &mut builder, &fixture.work, &options).unwrap();
        let tree = builder.write(&mut change).unwrap();
        let context = Context::open(&change, &tree).unwrap();
        assert_eq!(context.section(&change, "files").unwrap(), root);
        assert_eq!((found.files, found.changed, found.removed), (2, 0, 0));
        found.read
    };
    assert_eq!(read_with(&whole), 0);
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        assert_eq!(read_with(&bytes), 2, "byte {at}");
        assert_eq!(read_with(&whole[..at]), 2, "{at} bytes");
    }
    assert_eq!(read_with(&[&whole[..], b"x"].concat()), 2);
    assert_eq!(read_with(b""), 2);
    // A directory or a pipe at the path of the cache is neither read nor waited for.
    fs::remove_file(&cache).unwrap();
    fs::create_dir(&cache).unwrap();
    assert_eq!(fixture.snapshot_without_saving().read, 2);
    fs::remove_dir(&cache).unwrap();
    pipe(&cache);
    assert_eq!(fixture.snapshot_without_saving().read, 2);
}

/// A cache whose snapshot was never committed names a section that the store does not have.
#[test]
fn caches_of_unstored_snapshots_are_ignored() {
    let fixture = WorkspaceFixture::new();
    fixture.write("a", "a");
    fixture.let_the_clock_go_on();
    fixture.snapshot();
    fixture.write("a", "b");
    fixture.let_the_clock_go_on();
    let repo = &fixture.sandbox.repo;
    let cache = StatCache::open(repo, &fixture.work).unwrap();
    let parent = tip(repo, "main");
    let (mut change, mut builder) = (repo.begin(), Builder::from(parent.clone()));
    let options = CaptureOptions { cache: Some(&cache), ..CaptureOptions::default() };
    let captured = capture(&mut change, &parent, &mut builder, &fixture.work, &options).unwrap();
    let tree = builder.write(&mut change).unwrap();
    cache.save(&captured, &change, &tree).unwrap();
    drop(change);
    assert_eq!(fixture.snapshot().read, 1);
    fixture.expect_truth();
    assert_eq!(fixture.files()["a"].1, "b");
    // A cache is not saved for a context other than the captured one.
    let stranger = Builder::new().write(&mut repo.begin()).unwrap();
    assert!(cache.save(&captured, repo, &stranger).is_err());
}

#[test]
fn stores_keep_few_private_caches_and_work_without_them() {
    let fixture = WorkspaceFixture::new();
    let repo = &fixture.sandbox.repo;
    for at in 0..20 {
        let work = fixture.sandbox.folder().join(format!("work-{at}"));
        fs::create_dir(&work).unwrap();
        fs::write(work.join("file"), "content").unwrap();
        take(repo, &format!("branch-{at}"), &work, &CaptureOptions::default());
    }
    let folder = fixture.sandbox.store_dir().join("workspaces");
    let files: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    // Plus one file that lists the captured directories.
    assert_eq!(files.len(), 16 + 1);
    assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o777, 0o700);
    for file in files {
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
    }
    let (repo, time) = (fixture.sandbox.reopened(), stamp(2).time);
    let report = fsck(&repo, Thoroughness::Full, time, &mut |_, _| ()).unwrap();
    assert!(report.findings.is_empty());
}

#[test]
fn concurrent_captures_are_all_correct() {
    let fixture = WorkspaceFixture::new();
    for file in 0..60 {
        fixture.write(&format!("f-{}/{file}", file % 6), "0");
    }
    std::thread::scope(|scope| {
        for branch in ["one", "two", "three"] {
            let (fixture, repo) = (&fixture, fixture.sandbox.reopened());
            scope.spawn(move || {
                for _ in 0..8 {
                    take(&repo, branch, &fixture.work, &CaptureOptions::default());
                }
            });
        }
        for edit in 0..200 {
            fixture.write(&format!("f-{}/{}", edit % 6, edit % 60), &(edit % 10).to_string());
        }
    });
    // The last capture wrote the cache. Each branch continues from its own newest snapshot.
    for branch in ["one", "two", "three", "main"] {
        let repo = fixture.sandbox.reopened();
        take(&repo, branch, &fixture.work, &CaptureOptions::default());
        let roots = |branch: &str| tip(&repo, branch).section(&repo, "files").unwrap();
        assert_eq!(roots(branch), roots("one"));
    }
    fixture.sandbox.repo.refresh().unwrap();
    fixture.expect_truth();
}

#[test]
fn caches_detect_edits_after_the_stat() {
    let fixture = WorkspaceFixture::new();
    fixture.write("a", "1");
    fixture.let_the_clock_go_on();
    let repo = &fixture.sandbox.repo;
    // The file changes after its stat and before the cache is saved.
    let cache = StatCache::open(repo, &fixture.work).unwrap();
    let options = CaptureOptions::default();
    let parent = tip(repo, "main");
    let (captured, tree) = snapshot_on(repo, "main", &parent, &fixture.work, &cache, &options);
    fixture.write("a", "2");
    cache.save(&captured, repo, &tree).unwrap();
    fixture.snapshot();
    fixture.expect_truth();
    assert_eq!(fixture.files()["a"].1, "2");
}

/// A cache contains file names, and a redacted file name may be in it, even if nothing else has it.
#[test]
fn redactions_delete_caches() {
    let fixture = WorkspaceFixture::new();
    fixture.write("secret-name", "a");
    fixture.let_the_clock_go_on();
    fixture.snapshot();
    let repo = &fixture.sandbox.repo;
    let holds =
        |path: &Path| fs::read(path).unwrap().windows(11).any(|part| part == b"secret-name");
    assert!(holds(&fixture.cache()));
    redact(repo, &Pattern::literal("secret-name", "hidden").unwrap(), &stamp(9)).unwrap();
    let left = fs::read_dir(fixture.sandbox.store_dir().join("workspaces")).unwrap();
    assert_eq!(left.count(), 0);
    assert_eq!(fixture.names(), ["hidden"]);
    fs::rename(fixture.path("secret-name"), fixture.path("public")).unwrap();
    fixture.snapshot();
    fixture.expect_truth();
}

#[derive(Debug, Clone)]
enum Edit {
    Write(usize, u8),
    /// The same length and the old timestamps.
    Forge(usize, u8),
    Remove(usize),
    Folder(usize),
    Link(usize, u8),
    Mode(usize, bool),
    Swap(usize, usize),
    Age(usize, i64),
    Rules(u8),
    Settle,
    /// Returns to an earlier snapshot, regardless of the content of the directory.
    Back(usize),
}

const NAMES: [&str; 8] = ["a", "b", "d/a", "d/b", "d/e/a", "d-a", "x.log", "d/x.log"];

fn edit() -> impl Strategy<Value = Edit> {
    let name = || 0..NAMES.len();
    let content = || b'a'..b'e';
    prop_oneof![
        5 => (name(), content()).prop_map(|(name, content)| Edit::Write(name, content)),
        3 => (name(), content()).prop_map(|(name, content)| Edit::Forge(name, content)),
        2 => name().prop_map(Edit::Remove),
        1 => name().prop_map(Edit::Folder),
        1 => (name(), content()).prop_map(|(name, content)| Edit::Link(name, content)),
        2 => (name(), any::<bool>()).prop_map(|(name, on)| Edit::Mode(name, on)),
        2 => (name(), name()).prop_map(|(one, other)| Edit::Swap(one, other)),
        1 => (name(), -1_000_000_i64..4_000_000_000).prop_map(|(name, at)| Edit::Age(name, at)),
        1 => (0_u8..4).prop_map(Edit::Rules),
        3 => Just(Edit::Settle),
        1 => (0_usize..4).prop_map(Edit::Back),
    ]
}

/// Removes anything that blocks `path`.
fn clear(fixture: &WorkspaceFixture, path: &Path) {
    for above in path.ancestors().skip(1).take_while(|above| *above != fixture.work) {
        if fs::symlink_metadata(above).is_ok_and(|found| !found.is_dir()) {
            fs::remove_file(above).unwrap();
        }
    }
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path).unwrap(),
        Ok(_) => fs::remove_file(path).unwrap(),
        Err(_) => {}
    }
}

/// Applies the edit, or returns the context that the next snapshot continues from.
fn apply(fixture: &WorkspaceFixture, edit: &Edit, history: &[Context]) -> Option<Context> {
    let path = |name: &usize| fixture.path(NAMES[*name]);
    let is_file = |path: &Path| fs::symlink_metadata(path).is_ok_and(|found| found.is_file());
    let text = |content: &u8| char::from(*content).to_string().repeat(3);
    match edit {
        // Writes in place if the file exists: the same inode, other content.
        Edit::Write(name, content) if is_file(&path(name)) => {
            fs::write(path(name), text(content)).unwrap();
        }
        Edit::Write(name, content) => {
            clear(fixture, &path(name));
            fs::write(path(name), text(content)).unwrap();
        }
        Edit::Forge(name, content) if is_file(&path(name)) => {
            let found = fs::metadata(path(name)).unwrap();
            let file = File::options().write(true).open(path(name)).unwrap();
            std::io::Write::write_all(&mut &file, text(content).as_bytes()).unwrap();
            let (read, written) = (found.accessed().unwrap(), found.modified().unwrap());
            let times = FileTimes::new().set_accessed(read).set_modified(written);
            file.set_times(times).unwrap();
        }
        Edit::Remove(name) => clear(fixture, &path(name)),
        Edit::Folder(name) => {
            clear(fixture, &path(name));
            fs::create_dir(path(name)).unwrap();
            fs::write(path(name).join("inside"), "i").unwrap();
        }
        Edit::Link(name, content) => {
            clear(fixture, &path(name));
            symlink(text(content), path(name)).unwrap();
        }
        Edit::Mode(name, on) if is_file(&path(name)) => {
            let mode = if *on { 0o755 } else { 0o644 };
            fs::set_permissions(path(name), Permissions::from_mode(mode)).unwrap();
        }
        Edit::Swap(one, other) if is_file(&path(one)) && is_file(&path(other)) => {
            let between = fixture.sandbox.folder().join("between");
            fs::rename(path(one), &between).unwrap();
            fs::rename(path(other), path(one)).unwrap_or_default();
            fs::rename(&between, path(other)).unwrap();
        }
        Edit::Age(name, at) if is_file(&path(name)) => {
            let epoch = SystemTime::UNIX_EPOCH;
            let by = Duration::from_secs(at.unsigned_abs());
            let time = if *at < 0 { epoch - by } else { epoch + by };
            let file = File::options().write(true).open(path(name)).unwrap();
            file.set_modified(time).unwrap();
        }
        Edit::Rules(which) => {
            let git = ["", "*.log\n", "/d/\n!d/e\n", "a\n"][usize::from(*which)];
            let own = ["", "!x.log\n", "", "b\n"][usize::from(*which)];
            fs::write(fixture.path(".gitignore"), git).unwrap();
            fs::write(fixture.path(".turntreeignore"), own).unwrap();
        }
        Edit::Settle => fixture.let_the_clock_go_on(),
        Edit::Back(steps) => return history.iter().rev().nth(*steps).cloned(),
        _ => {}
    }
    None
}

turntree_properties::properties! {
    cases = 48;

    /// After any edits of a directory, a capture with a cache equals one without.
    #[test]
    fn captures_with_and_without_a_cache_are_equal(edits in prop::collection::vec((edit(), any::<bool>()), 1..16)) {
        let fixture = WorkspaceFixture::new();
        let mut history = vec![Context::default()];
        for (edit, is_taken) in &edits {
            let back = apply(&fixture, edit, &history);
            // Several edits may happen between two snapshots.
            if !is_taken && back.is_none() {
                continue;
            }
            let repo = &fixture.sandbox.repo;
            let parent = back.unwrap_or_else(|| tip(repo, "main"));
            let cache = StatCache::open(repo, &fixture.work).unwrap();
            let options = CaptureOptions::default();
            let (captured, tree) = snapshot_on(repo, "main", &parent, &fixture.work, &cache, &options);
            cache.save(&captured, repo, &tree).unwrap();
            prop_assert_eq!(&captured.skipped, &[]);
            fixture.expect_truth();
            history.push(tip(repo, "main"));
        }
    }
}
