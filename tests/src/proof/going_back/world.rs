//! A workspace on the real disk that the walk changes and reads, with a git repository around or
//! inside it.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use turntree::workspace::GitPlaces;

use super::rule::{Disk, Files};

/// The directory, and the git files that the walk has written next to its files.
pub(super) struct World {
    pub(super) dir: PathBuf,
    pub(super) git: GitPlaces,
    tracked: BTreeSet<String>,
    exclude: String,
    global: String,
}

impl World {
    pub(super) fn new(folder: &Path) -> Self {
        let (dir, excludes) = (folder.join("work"), folder.join("ignore"));
        fs::create_dir(&dir).expect("a directory");
        fs::write(&excludes, "").expect("a file of rules");
        let git = GitPlaces { excludes: Some(excludes), ..GitPlaces::default() };
        let (tracked, exclude, global) = (BTreeSet::new(), String::new(), String::new());
        Self { dir, git, tracked, exclude, global }
    }

    /// Returns the files and repositories on disk.
    pub(super) fn look(&self) -> Disk {
        let (mut files, mut repositories) = (Files::new(), BTreeSet::new());
        let (mut folders, mut next) = (BTreeSet::new(), vec![String::new()]);
        while let Some(folder) = next.pop() {
            for entry in fs::read_dir(self.dir.join(&folder)).expect("a folder") {
                let entry = entry.expect("an entry");
                let name = entry.file_name().into_string().expect("a name");
                let (path, kind) = (format!("{folder}{name}"), entry.file_type().expect("a kind"));
                if name == ".git" {
                    repositories.insert(folder.clone());
                } else if kind.is_dir() {
                    next.push(format!("{path}/"));
                    folders.insert(path);
                } else {
                    files.insert(path, content(&entry.path()));
                }
            }
        }
        let is_repository = repositories.contains("");
        Disk {
            files,
            folders,
            repositories,
            tracked: if is_repository { self.tracked.clone() } else { BTreeSet::new() },
            exclude: self.exclude.clone(),
            global: self.global.clone(),
        }
    }

    /// Writes `content` to `path`, and removes anything that blocks it.
    pub(super) fn write(&self, path: &str, content: &str) {
        let full = self.dir.join(path);
        for above in Path::new(path).ancestors().skip(1) {
            let above = self.dir.join(above);
            if fs::symlink_metadata(&above).is_ok_and(|found| !found.is_dir()) {
                fs::remove_file(&above).expect("it goes away");
            }
        }
        self.remove(path);
        fs::create_dir_all(full.parent().expect("a parent")).expect("a folder");
        match content.strip_prefix("->") {
            Some(target) => symlink(target, &full).expect("a link"),
            None => {
                fs::write(&full, content).expect("a file");
                let mode = if content.starts_with("x:") { 0o755 } else { 0o644 };
                fs::set_permissions(&full, fs::Permissions::from_mode(mode)).expect("a mode");
            }
        }
    }

    pub(super) fn remove(&self, path: &str) {
        let full = self.dir.join(path);
        match fs::symlink_metadata(&full) {
            Ok(found) if found.is_dir() => fs::remove_dir_all(&full).expect("it goes away"),
            Ok(_) => fs::remove_file(&full).expect("it goes away"),
            Err(_) => {}
        }
        // Remove the folders that are now empty.
        for above in Path::new(path).ancestors().skip(1).filter(|above| *above != Path::new("")) {
            let _ = fs::remove_dir(self.dir.join(above));
        }
    }

    /// Creates a repository in a folder, or removes it. The one at the top has an index.
    pub(super) fn toggle_repository(&self, folder: &str) {
        let git = self.dir.join(folder).join(".git");
        if git.exists() {
            fs::remove_dir_all(&git).expect("it goes away");
            return;
        }
        if fs::symlink_metadata(self.dir.join(folder)).is_ok_and(|found| !found.is_dir()) {
            self.remove(folder.trim_end_matches('/'));
        }
        fs::create_dir_all(git.join("info")).expect("a repository");
        fs::write(git.join("HEAD"), "ref: refs/heads/main\n").expect("a repository");
        if folder.is_empty() {
            self.write_git();
        }
    }

    /// Tracks a path, or untracks it.
    pub(super) fn toggle_tracked(&mut self, path: &str) {
        if !self.tracked.remove(path) {
            self.tracked.insert(path.to_owned());
        }
        self.write_git();
    }

    pub(super) fn exclude(&mut self, text: &str) {
        text.clone_into(&mut self.exclude);
        self.write_git();
    }

    pub(super) fn ignore_globally(&mut self, text: &str) {
        text.clone_into(&mut self.global);
        fs::write(self.git.excludes.as_ref().expect("a file"), text).expect("it is written");
    }

    fn write_git(&self) {
        let git = self.dir.join(".git");
        if git.exists() {
            fs::write(git.join("info/exclude"), &self.exclude).expect("it is written");
            fs::write(git.join("index"), index(&self.tracked)).expect("it is written");
        }
    }
}

fn content(path: &Path) -> String {
    let found = fs::symlink_metadata(path).expect("it is there");
    if found.is_symlink() {
        return format!("->{}", fs::read_link(path).expect("a link").display());
    }
    let text = fs::read_to_string(path).expect("text");
    let is_program = found.permissions().mode() & 0o100 != 0;
    assert_eq!(is_program, text.starts_with("x:"), "the mode of {}", path.display());
    text
}

/// An index of version 2 with these paths, as documented by git.
fn index(paths: &BTreeSet<String>) -> Vec<u8> {
    let count = u32::try_from(paths.len()).expect("few paths");
    let mut bytes = [b"DIRC", &2_u32.to_be_bytes()[..], &count.to_be_bytes()].concat();
    for path in paths {
        let start = bytes.len();
        bytes.extend([0; 60]);
        bytes.extend(u16::try_from(path.len()).expect("a short path").to_be_bytes());
        bytes.extend(path.as_bytes());
        let length = bytes.len() - start;
        bytes.resize(start + (length + 8) / 8 * 8, 0);
    }
    bytes.extend([0; 20]);
    bytes
}
