//! Fuzzes keys that become paths: no file is written outside the directory, and all files have the
//! planned content.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

use turntree::ErrorKind;
use turntree::context::{Builder, Context, FileMode};
use turntree::object::Memory;
use turntree::workspace::{FileAction, plan_checkout};

/// Checks a context out into a directory. Each line of `bytes` is a section, a key, a mode (`x`
/// executable, `l` link, else regular) and a content, separated by tabs.
///
/// # Panics
/// If anything outside the directory changes, or the directory differs from the plan.
pub fn layout(bytes: &[u8]) {
    let mut objects = Memory::new();
    let mut builder = Builder::new();
    let text = String::from_utf8_lossy(bytes);
    for line in text.split('\n').take(64) {
        let mut fields = line.splitn(4, '\t').chain(std::iter::repeat(""));
        let [section, key, mode, content] = std::array::from_fn(|_| fields.next().unwrap_or(""));
        let content = content.to_owned().into();
        let _ = match (section, mode) {
            ("files", "x") => {
                builder.set_file(&mut objects, key, Some((FileMode::Executable, content)))
            }
            ("files", "l") => {
                builder.set_file(&mut objects, key, Some((FileMode::Symlink, content)))
            }
            ("files", _) => builder.set_file(&mut objects, key, Some((FileMode::Regular, content))),
            _ => builder.set_entry(&mut objects, section, key, Some(content)),
        };
    }
    let Ok(tree) = builder.write(&mut objects) else { return };
    let context = Context::open(&objects, &tree).unwrap();
    lay_out(&objects, &context);
}

fn lay_out(objects: &Memory, context: &Context) {
    let around = tempfile::tempdir().unwrap();
    let target = around.path().join("target");
    let beside = around.path().join("beside");
    fs::write(&beside, "untouched").unwrap();
    let planned = match plan_checkout(objects, context, &target, &[]) {
        Ok(planned) => planned,
        Err(error) => {
            let kinds = [ErrorKind::InvalidInput, ErrorKind::LimitExceeded];
            // The whole path may be too long for the file system.
            assert!(kinds.contains(&error.kind()) || error.kind() == ErrorKind::Io, "{error}");
            assert!(!target.exists(), "a plan wrote something");
            return;
        }
    };
    for file in &planned.files {
        let inside = file.path.components().all(|part| matches!(part, Component::Normal(_)));
        assert!(inside, "{} leads out", file.path.display());
        assert_eq!(file.action, FileAction::Create);
    }
    let applied = planned.apply(objects, false);
    let mut names: Vec<_> =
        fs::read_dir(around.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    let expected: &[&str] = if target.exists() { &["beside", "target"] } else { &["beside"] };
    assert_eq!(names, expected);
    assert_eq!(fs::read(&beside).unwrap(), b"untouched");
    if let Err(error) = applied {
        assert_eq!(error.kind(), ErrorKind::Io, "{error}");
        return;
    }
    let meant: BTreeSet<PathBuf> = planned.files.iter().map(|file| file.path.clone()).collect();
    let mut found = BTreeSet::new();
    walk(&target, Path::new(""), &mut found);
    assert_eq!(found, meant);
    let again = plan_checkout(objects, context, &target, &[]).unwrap();
    assert!(again.files.iter().all(|file| file.action == FileAction::Keep), "{:?}", again.files);
}

fn walk(target: &Path, folder: &Path, found: &mut BTreeSet<PathBuf>) {
    for entry in fs::read_dir(target.join(folder)).into_iter().flatten() {
        let entry = entry.unwrap();
        let path = folder.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            walk(target, &path, found);
        } else {
            found.insert(path);
        }
    }
}
