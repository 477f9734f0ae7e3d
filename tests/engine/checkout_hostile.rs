//! Restores a hostile context into a hostile directory while other processes change it: nothing
//! outside is touched, no link is followed, and no file is partial.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use proptest::prelude::*;
use turntree::context::{Builder, Context, FileMode};
use turntree::object::{Kind, Memory, Object, ObjectId, ObjectSource};
use turntree::workspace::{CheckoutReport, FileAction, plan_checkout};
use turntree::{Error, ErrorKind};

/// A context with this section `files`.
fn files(entries: &[(&str, FileMode, &str)]) -> (Memory, Context) {
    let (mut objects, mut builder) = (Memory::new(), Builder::new());
    for (key, mode, content) in entries {
        let file = (*mode, content.to_string().into());
        builder.set_file(&mut objects, key, Some(file)).unwrap();
    }
    let tree = builder.write(&mut objects).unwrap();
    let context = Context::open(&objects, &tree).unwrap();
    (objects, context)
}

fn regular(entries: &[(&str, &str)]) -> (Memory, Context) {
    let entries: Vec<_> =
        entries.iter().map(|(key, text)| (*key, FileMode::Regular, *text)).collect();
    files(&entries)
}

fn restore(
    (objects, context): &(Memory, Context),
    target: &Path,
    overwrite: bool,
) -> Result<CheckoutReport, Error> {
    plan_checkout(objects, context, target, &[])?.apply(objects, overwrite)
}

/// A folder with a target, and a canary next to it that must not change.
struct Place {
    folder: tempfile::TempDir,
    before: Vec<(PathBuf, Entry)>,
}

/// The properties of an entry that a restore could change.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    mode: u32,
    modified: (i64, i64),
    content: Vec<u8>,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let canary = folder.path().join("canary");
        fs::create_dir_all(canary.join("inner")).unwrap();
        fs::write(canary.join("file"), "alive").unwrap();
        fs::write(canary.join("inner/file"), "alive").unwrap();
        fs::create_dir_all(folder.path().join("target/files")).unwrap();
        let before = entries(&canary);
        Self { folder, before }
    }

    fn canary(&self) -> PathBuf {
        self.folder.path().join("canary")
    }

    fn target(&self) -> PathBuf {
        self.folder.path().join("target")
    }

    /// A path in the workspace of the target.
    fn file(&self, path: &str) -> PathBuf {
        self.target().join("files").join(path)
    }

    fn assert_untouched(&self) {
        assert_eq!(entries(&self.canary()), self.before);
        let beside = fs::read_dir(self.folder.path()).unwrap().count();
        assert_eq!(beside, 2, "nothing new beside the target");
    }
}

/// Every entry below `folder`. Follows no link.
fn entries(folder: &Path) -> Vec<(PathBuf, Entry)> {
    let (mut found, mut left) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(path) = left.pop() {
        let meta = fs::symlink_metadata(&path).unwrap();
        let content = match meta.file_type() {
            kind if kind.is_dir() => {
                left.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
                Vec::new()
            }
            kind if kind.is_symlink() => {
                fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes()
            }
            kind if kind.is_file() => fs::read(&path).unwrap(),
            _ => b"special".to_vec(),
        };
        let modified = (meta.mtime(), meta.mtime_nsec());
        found.push((path, Entry { mode: meta.mode(), modified, content }));
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found
}

/// Temporary names below `folder`.
fn parts(folder: &Path) -> Vec<PathBuf> {
    let is_part = |path: &PathBuf| path.to_string_lossy().contains("/.turntree-part-");
    entries(folder).into_iter().map(|(path, _)| path).filter(is_part).collect()
}

/// The temporary name of the file `name`.
fn part_of(name: &str) -> String {
    format!(".turntree-part-{}", ObjectId::of(Kind::Blob, name.as_bytes()).short(16))
}

/// An object source that changes the directory when a certain object is read: the checks are done
/// by then, and the file still has its temporary name.
struct Ambush<'a> {
    objects: &'a Memory,
    content: &'a str,
    strike: Mutex<Option<Box<dyn FnOnce() + Send + 'a>>>,
}

impl<'a> Ambush<'a> {
    /// Returns the strike once. The lock is free again when it runs.
    fn take(&self) -> Option<Box<dyn FnOnce() + Send + 'a>> {
        self.strike.lock().unwrap().take()
    }
}

impl ObjectSource for Ambush<'_> {
    fn read(&self, id: &ObjectId) -> Result<Option<Object>, Error> {
        if *id == ObjectId::of(Kind::Blob, self.content.as_bytes())
            && let Some(strike) = self.take()
        {
            strike();
        }
        self.objects.read(id)
    }

    fn contains(&self, id: &ObjectId) -> Result<bool, Error> {
        self.objects.contains(id)
    }
}

/// Restores, and runs the ambush when `content` is about to be written.
fn ambushed(
    (objects, context): &(Memory, Context),
    target: &Path,
    content: &str,
    strike: impl FnOnce() + Send,
) -> Result<CheckoutReport, Error> {
    let planned = plan_checkout(objects, context, target, &[]).unwrap();
    let strike: Box<dyn FnOnce() + Send + '_> = Box::new(strike);
    let ambush = Ambush { objects, content, strike: Mutex::new(Some(strike)) };
    let result = planned.apply(&ambush, true);
    assert!(ambush.take().is_none(), "it was read");
    result
}

#[test]
fn escaping_keys_are_written_inside_the_target() {
    let place = Place::new();
    let canary = place.canary().join("file");
    let tree = regular(&[
        ("../../canary/file", "x"),
        ("../canary/new", "x"),
        (canary.to_str().unwrap(), "x"),
        ("a/../../b", "x"),
        ("dot/..", "x"),
        ("//", "x"),
        ("nul\0", "x"),
    ]);
    assert_eq!(restore(&tree, &place.target(), true).unwrap().written, 7);
    place.assert_untouched();
}

#[test]
fn git_folders_are_never_written() {
    let place = Place::new();
    fs::create_dir(place.file(".git")).unwrap();
    fs::write(place.file(".git/config"), "[core]").unwrap();
    let before = entries(&place.file(".git"));
    let keys = [".git/config", ".git/hooks/post-checkout", ".GIT/x", "git~1/x"];
    for key in keys {
        restore(&regular(&[(key, "hook")]), &place.target(), true).unwrap();
    }
    assert_eq!(entries(&place.file(".git")), before);
    let mut names: Vec<_> = fs::read_dir(place.target().join("files")).unwrap().collect();
    names.retain(|name| {
        let name = name.as_ref().unwrap().file_name().to_string_lossy().to_lowercase();
        name != ".git" && !name.starts_with('%')
    });
    assert!(names.is_empty(), "{names:?}");
}

#[test]
fn stores_are_never_overwritten() {
    let place = Place::new();
    for store in ["knowledge", ".turntree"] {
        fs::create_dir_all(place.file(store).join("journal")).unwrap();
        fs::write(place.file(store).join("superblock"), "store").unwrap();
    }
    let before = [entries(&place.file("knowledge")), entries(&place.file(".turntree"))];
    let error =
        restore(&regular(&[("knowledge/packs/x", "x")]), &place.target(), true).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains("is a store"), "{error}");
    restore(&regular(&[(".turntree/superblock", "x")]), &place.target(), true).unwrap();
    for target in ["knowledge", "knowledge/journal"] {
        let error = restore(&regular(&[("a", "x")]), &place.file(target), true).unwrap_err();
        assert!(error.to_string().contains("belongs to the store"), "{error}");
    }
    assert_eq!([entries(&place.file("knowledge")), entries(&place.file(".turntree"))], before);
}

#[test]
fn existing_links_are_not_followed() {
    let place = Place::new();
    symlink(place.canary(), place.file("out")).unwrap();
    symlink("../../canary", place.file("near")).unwrap();
    for key in ["out/new", "out/inner/file", "near/file"] {
        let error = restore(&regular(&[(key, "x")]), &place.target(), true).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{key}");
        assert!(error.to_string().contains("is not a directory"), "{error}");
    }
    place.assert_untouched();
}

#[test]
fn links_from_the_context_are_not_followed() {
    let place = Place::new();
    let canary = place.canary();
    let tree = files(&[
        ("a", FileMode::Symlink, canary.to_str().unwrap()),
        ("b/c", FileMode::Symlink, "../../../canary/file"),
    ]);
    restore(&tree, &place.target(), false).unwrap();
    // A second context writes through the links of the first.
    assert!(restore(&regular(&[("a/new", "x")]), &place.target(), true).is_err());
    restore(&regular(&[("b/c", "x")]), &place.target(), true).unwrap();
    assert_eq!(fs::read_to_string(place.file("b/c")).unwrap(), "x");
    place.assert_untouched();
}

#[test]
fn folders_replaced_by_links_are_not_written_through() {
    let place = Place::new();
    let tree = regular(&[("d/1", "first"), ("d/2", "second"), ("d/e/3", "third")]);
    let error = ambushed(&tree, &place.target(), "first", || {
        fs::rename(place.file("d"), place.file("moved")).unwrap();
        symlink(place.canary(), place.file("d")).unwrap();
    })
    .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains("is not a directory"), "{error}");
    place.assert_untouched();
    assert!(parts(&place.target()).is_empty());
}

#[test]
fn restores_fail_if_a_folder_was_moved_away() {
    let place = Place::new();
    let error = ambushed(&regular(&[("d/last", "last")]), &place.target(), "last", || {
        fs::rename(place.file("d"), place.file("moved")).unwrap();
    })
    .unwrap_err();
    assert!(error.to_string().contains("was deleted"), "{error}");
}

#[test]
fn concurrently_created_or_changed_files_are_kept() {
    let place = Place::new();
    let tree = regular(&[("new", "from the snapshot")]);
    let come = || fs::write(place.file("new"), "precious").unwrap();
    let error = ambushed(&tree, &place.target(), "from the snapshot", come).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(error.to_string().contains("0 of 1 files were written"), "{error}");
    assert_eq!(fs::read_to_string(place.file("new")).unwrap(), "precious");

    let change = || fs::write(place.file("new"), "changed!").unwrap();
    let planned = plan_checkout(&tree.0, &tree.1, &place.target(), &[]).unwrap();
    assert_eq!(planned.files[0].action, FileAction::Overwrite);
    change();
    let error = planned.apply(&tree.0, true).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(error.to_string().contains("changed since"), "{error}");
    assert_eq!(fs::read_to_string(place.file("new")).unwrap(), "changed!");
    assert!(parts(&place.target()).is_empty());
    // The second restore checks the directory again and overwrites the file.
    restore(&tree, &place.target(), true).unwrap();
    assert_eq!(fs::read_to_string(place.file("new")).unwrap(), "from the snapshot");
}

#[test]
fn links_are_restored_as_safely_as_files() {
    let place = Place::new();
    let tree = files(&[("link", FileMode::Symlink, "somewhere")]);
    let come = || fs::write(place.file("link"), "precious").unwrap();
    let error = ambushed(&tree, &place.target(), "somewhere", come).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert_eq!(fs::read_to_string(place.file("link")).unwrap(), "precious");
    restore(&tree, &place.target(), true).unwrap();
    assert_eq!(fs::read_link(place.file("link")).unwrap(), Path::new("somewhere"));
    assert!(parts(&place.target()).is_empty());
}

#[test]
fn files_that_do_not_verify_are_not_renamed_into_place() {
    let place = Place::new();
    fs::write(place.file("a"), "before").unwrap();
    let spoil = || {
        let part = place.file(&part_of("a"));
        fs::write(part, "longer than the new content").unwrap();
    };
    let error = ambushed(&regular(&[("a", "short")]), &place.target(), "short", spoil).unwrap_err();
    // A file system of the kernel answers a read from memory, so the size and the times show it.
    let said = error.to_string();
    let is_seen = said.contains("do not read back") || said.contains("another process changed");
    assert!(is_seen, "{error}");
    assert_eq!(fs::read_to_string(place.file("a")).unwrap(), "before");
    assert!(parts(&place.target()).is_empty());
}

#[test]
fn special_files_are_neither_replaced_nor_opened() {
    let place = Place::new();
    fs::create_dir(place.file("folder")).unwrap();
    let _socket = UnixListener::bind(place.file("socket")).unwrap();
    assert!(Command::new("mkfifo").arg(place.file("pipe")).status().unwrap().success());
    symlink("/dev/null", place.file("device")).unwrap();
    for (key, expected) in [("folder", "directory"), ("socket", "socket"), ("pipe", "pipe")] {
        let error =
            restore(&regular(&[("a", "x"), (key, "x")]), &place.target(), true).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{key}");
        let message = error.to_string();
        assert!(message.contains(key) && message.contains(expected), "{message}");
    }
    // A link to a device is a link.
    restore(&regular(&[("device", "x")]), &place.target(), true).unwrap();
    assert!(fs::symlink_metadata(place.file("device")).unwrap().is_file());
    fs::write(place.file("plain"), "x").unwrap();
    let error = restore(&regular(&[("plain/below", "x")]), &place.target(), true).unwrap_err();
    assert!(error.to_string().contains("is not a directory"), "{error}");
    assert!(!place.file("a").exists(), "nothing was written");
}

#[test]
fn hard_links_of_a_replaced_file_keep_the_old_content() {
    let place = Place::new();
    fs::hard_link(place.canary().join("file"), place.file("a")).unwrap();
    fs::hard_link(place.canary().join("file"), place.file("b")).unwrap();
    restore(&regular(&[("a", "x"), ("b", "y")]), &place.target(), true).unwrap();
    place.assert_untouched();
}

#[test]
fn names_that_fold_to_one_file_do_not_overwrite_each_other() {
    let place = Place::new();
    let tree = regular(&[("README", "upper"), ("Readme", "lower")]);
    // On a file system that distinguishes case, both files are restored.
    restore(&tree, &place.target(), false).unwrap();
    let same = fs::metadata(place.file("README")).unwrap().ino()
        == fs::metadata(place.file("Readme")).unwrap().ino();
    assert!(!same, "this file system folds case, and one has replaced the other");
    // On a file system that folds case, both names are one file, as with these hard links.
    fs::remove_file(place.file("Readme")).unwrap();
    fs::hard_link(place.file("README"), place.file("Readme")).unwrap();
    let error = restore(&tree, &place.target(), true).unwrap_err();
    assert!(error.to_string().contains("cannot both be files here"), "{error}");
    assert_eq!(fs::read_to_string(place.file("Readme")).unwrap(), "upper");
}

#[test]
fn the_next_restore_removes_leftovers_of_a_killed_one() {
    let place = Place::new();
    let [a, b, other] =
        [part_of("a"), part_of("b"), part_of("other")].map(|name| place.file(&name));
    fs::write(&a, "half").unwrap();
    symlink(place.canary().join("file"), &b).unwrap();
    fs::write(&other, "of a file that is not restored").unwrap();
    restore(&regular(&[("a", "whole"), ("b", "whole")]), &place.target(), false).unwrap();
    assert_eq!(fs::read_to_string(place.file("a")).unwrap(), "whole");
    assert_eq!(parts(&place.target()), [other]);
    place.assert_untouched();
}

#[test]
fn running_restores_are_not_disturbed() {
    let place = Place::new();
    let tree = regular(&[("a", "content")]);
    let part = place.file(&part_of("a"));
    let second = || {
        let error = restore(&tree, &place.target(), false).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Locked, "{error}");
        assert!(part.exists());
    };
    ambushed(&tree, &place.target(), "content", second).unwrap();
    assert_eq!(fs::read_to_string(place.file("a")).unwrap(), "content");
}

#[test]
fn failed_restores_report_progress_and_leave_no_partial_files() {
    let place = Place::new();
    let (mut objects, context) = regular(&[("a", "first"), ("b", "second"), ("c", "third")]);
    let planned = plan_checkout(&objects, &context, &place.target(), &[]).unwrap();
    objects = {
        let mut fewer = Memory::new();
        turntree::object::ObjectSink::write(&mut fewer, Kind::Blob, "first".into()).unwrap();
        fewer
    };
    let error = planned.apply(&objects, false).unwrap_err();
    assert!(error.to_string().contains("1 of 3 files were written, then"), "{error}");
    assert!(error.to_string().contains("files/b"), "{error}");
    assert_eq!(fs::read_to_string(place.file("a")).unwrap(), "first");
    assert!(!place.file("b").exists() && parts(&place.target()).is_empty());
}

#[test]
fn the_longest_name_and_deepest_path_are_restored() {
    let place = Place::new();
    let long = "n".repeat(255);
    let deep = format!("{}end", "d/".repeat(2030));
    let tree = regular(&[(&long, "long"), (&deep, "deep")]);
    assert_eq!(restore(&tree, &place.target(), false).unwrap().written, 2);
    assert_eq!(restore(&tree, &place.target(), false).unwrap().kept, 2);
    for key in ["x".repeat(256), "d/".repeat(2045), "€".repeat(100)] {
        let error =
            restore(&regular(&[("a", "x"), (&key, "x")]), &place.target(), true).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::LimitExceeded);
        assert!(error.to_string().len() < 300, "{error}");
    }
    assert!(!place.file("a").exists(), "nothing was written");
}

#[test]
fn unwritable_files_are_reported() {
    let place = Place::new();
    fs::write(place.file("fixed"), "before").unwrap();
    let attribute = |change: &str| {
        Command::new("chattr")
            .arg(change)
            .arg(place.file("fixed"))
            .output()
            .is_ok_and(|output| output.status.success())
    };
    if !attribute("+i") {
        eprintln!("skipped: files cannot be made immutable here");
        return;
    }
    let result = restore(&regular(&[("fixed", "after")]), &place.target(), true);
    attribute("-i");
    let error = result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert!(error.to_string().contains("files/fixed"), "{error}");
    assert_eq!(fs::read_to_string(place.file("fixed")).unwrap(), "before");
    assert!(parts(&place.target()).is_empty());
}

#[test]
fn restored_files_get_default_permissions() {
    let place = Place::new();
    let umask = {
        let probe = place.target().join("probe");
        fs::File::create(&probe).unwrap();
        !fs::metadata(probe).unwrap().mode() & 0o666
    };
    for (name, mode) in [("private", 0o600), ("fixed", 0o444), ("setuid", 0o4755), ("wide", 0o666)]
    {
        fs::write(place.file(name), "before").unwrap();
        fs::set_permissions(place.file(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    let names = ["new", "private", "fixed", "wide"].map(|name| (name, FileMode::Regular, "after"));
    let programs = ["tool", "setuid"].map(|name| (name, FileMode::Executable, "after"));
    restore(&files(&[&names[..], &programs[..]].concat()), &place.target(), true).unwrap();
    let mode = |name: &str| fs::metadata(place.file(name)).unwrap().mode() & 0o7777;
    for (name, wanted) in [
        ("new", 0o666),
        ("tool", 0o777),
        ("private", 0o600),
        ("fixed", 0o644),
        ("setuid", 0o755),
        ("wide", 0o666),
    ] {
        assert_eq!(mode(name), wanted & !umask, "{name}: {:o}", mode(name));
    }
}

/// Another process constantly swaps a folder with a link to the canary.
#[test]
fn racing_link_swaps_never_escape_the_target() {
    let place = Place::new();
    let names: Vec<String> = (0..4).map(|n| format!("d/e/{n}")).collect();
    let entries: Vec<(&str, &str)> = names.iter().map(|name| (&**name, "content")).collect();
    let tree = regular(&entries);
    let (over, swaps) = (AtomicBool::new(false), std::sync::atomic::AtomicU64::new(0));
    let (mut through, mut refused) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (real, aside) = (place.file("d/e"), place.file("d/aside"));
            while !over.load(Ordering::Relaxed) {
                if fs::rename(&real, &aside).is_ok() {
                    let _ = symlink(place.canary(), &real);
                    let _ = fs::remove_file(&real);
                    // If the restore made a new folder in between, it stays.
                    if fs::rename(&aside, &real).is_err() {
                        let _ = fs::remove_dir_all(&aside);
                    }
                    swaps.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        for _ in 0..400 {
            match restore(&tree, &place.target(), true) {
                Ok(_) => through += 1,
                Err(_) => refused += 1,
            }
            let _ = fs::remove_file(place.file("d/e/1"));
            let _ = fs::remove_file(place.file("d/e/3"));
        }
        over.store(true, Ordering::Relaxed);
    });
    place.assert_untouched();
    assert!(swaps.into_inner() > 0 && through + refused == 400);
}

/// An entry in the directory before the restore.
#[derive(Debug, Clone, Copy)]
enum Obstacle {
    File,
    Folder,
    LinkToFolder,
    LinkToFile,
    HardLink,
    Socket,
    Git,
}

fn component() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => prop::sample::select(vec!["a", "b", "A", "d"]),
        6 => prop::sample::select(vec![
            "", ".", "..", "...", " ", "a ", "a.", "~", "-", "*", "\n", "\u{1b}[2J", "\\", "..\\..", "c:", "a:b",
            "nul", "CON.txt", "aux", "%2E", "%2F", "nul\0", "é", "e\u{301}", "\u{202e}txt",
            ".git", ".GIT", ".git.", "git~1", ".git::$INDEX_ALLOCATION", ".g\u{200c}it", ".gitmodules",
            ".turntree", ".TURNTREE", "superblock", "journal", ".turntree-part-0000000000000000",
        ]),
    ]
    .prop_map(str::to_owned)
}

fn path() -> impl Strategy<Value = String> {
    let components = prop::collection::vec(component(), 1..5);
    components
        .prop_map(|components| components.join("/"))
        .prop_filter("a key", |key| !key.is_empty())
}

fn obstacle() -> impl Strategy<Value = Obstacle> {
    prop::sample::select(vec![
        Obstacle::File,
        Obstacle::Folder,
        Obstacle::LinkToFolder,
        Obstacle::LinkToFile,
        Obstacle::HardLink,
        Obstacle::Socket,
        Obstacle::Git,
    ])
}

/// Creates an obstacle at a path, if the path is free and its name is possible.
fn put(place: &Place, path: &str, obstacle: Obstacle) {
    let harmless = |name: &&str| !matches!(*name, "" | "." | "..") && !name.contains('\0');
    let path: PathBuf = path.split('/').filter(harmless).collect();
    let (files, canary) = (place.target().join("files"), place.canary());
    let full = files.join(&path);
    // Links of earlier obstacles are not followed here either.
    let crosses = full.ancestors().take_while(|folder| *folder != files);
    if path == Path::new("") || crosses.into_iter().any(Path::is_symlink) {
        return;
    }
    if full.parent().is_none_or(|parent| fs::create_dir_all(parent).is_err()) {
        return;
    }
    let _ = match obstacle {
        Obstacle::File => fs::OpenOptions::new().write(true).create_new(true).open(&full).map(drop),
        Obstacle::Folder => fs::create_dir(&full),
        Obstacle::LinkToFolder => symlink(&canary, &full),
        Obstacle::LinkToFile => symlink(canary.join("file"), &full),
        Obstacle::HardLink => fs::hard_link(canary.join("file"), &full),
        Obstacle::Socket => UnixListener::bind(&full).map(drop),
        Obstacle::Git => fs::create_dir_all(full.join(".git")),
    };
}

turntree_properties::properties! {
    cases = 256;

    /// For any keys and any directory: nothing outside changes, git folders stay as they were, and
    /// every file has either its old or its new content.
    #[test]
    fn any_context_is_restored_only_inside_the_target(
        keys in prop::collection::btree_map(path(), (0..3_u8, any::<bool>()), 1..8),
        obstacles in prop::collection::vec((path(), obstacle()), 0..6),
        overwrite in any::<bool>(),
    ) {
        let place = Place::new();
        let canary = place.canary();
        for (path, obstacle) in &obstacles {
            put(&place, path, *obstacle);
        }
        let modes = [FileMode::Regular, FileMode::Executable, FileMode::Symlink];
        let links = [canary.to_str().unwrap(), "../../canary/file"];
        let tree: Vec<_> = keys.iter().map(|(key, (mode, far))| {
            let mode = modes[usize::from(*mode)];
            let content = if mode == FileMode::Symlink { links[usize::from(*far)] } else { &**key };
            (&**key, mode, content)
        }).collect();
        let (objects, context) = files(&tree);
        let before: BTreeMap<_, _> = entries(&place.target()).into_iter().collect();
        let planned = plan_checkout(&objects, &context, &place.target(), &[]);
        prop_assert!(entries(&place.target()).into_iter().eq(before.clone()), "a plan wrote something");
        let Ok(planned) = planned else { return Ok(()) };
        prop_assert_eq!(planned.files.len(), keys.len());
        let applied = planned.apply(&objects, overwrite);
        place.assert_untouched();
        let after: BTreeMap<_, _> = entries(&place.target()).into_iter().collect();
        let meant: Vec<PathBuf> =
            planned.files.iter().map(|file| place.target().join(&file.path)).collect();
        for (path, entry) in &after {
            let is_folder = fs::symlink_metadata(path).unwrap().is_dir();
            let same = before.get(path).is_some_and(|old| old.content == entry.content);
            prop_assert!(is_folder || same || meant.contains(path), "{}", path.display());
            let in_git = path.components().any(|name| name.as_os_str() == ".git");
            prop_assert!(!in_git || before.contains_key(path), "{}", path.display());
        }
        prop_assert!(before.keys().all(|path| after.contains_key(path)), "something is gone");
        prop_assert!(parts(&place.target()).iter().all(|part| before.contains_key(part)));
        if applied.is_ok() {
            let again = plan_checkout(&objects, &context, &place.target(), &[]).unwrap();
            prop_assert!(again.files.iter().all(|file| file.action == FileAction::Keep));
        } else if !overwrite && planned.files.iter().any(|file| file.action == FileAction::Overwrite) {
            prop_assert_eq!(after, before);
        }
    }
}
