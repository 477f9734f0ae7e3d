//! A git repository as seen by a capture: its directory, its rule files outside of the working
//! tree, and its tracked paths.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use super::config::{ConfigScope, Settings};
use super::index::TrackedPaths;
use super::read::{read_file, read_line};
use super::{DOT_GIT, GitPlaces};
use crate::platform::canonical;

/// Maximum bytes of a rule file.
const MAX_RULES_BYTES: u64 = 1 << 20;

/// Bytes of an id.
const SHA1_BYTES: usize = 20;
const SHA256_BYTES: usize = 32;

/// Data of a repository besides the rule files in its working tree.
#[derive(Debug, Default)]
pub(in crate::workspace) struct GitRules {
    /// The text of `info/exclude`.
    pub(in crate::workspace) exclude: Vec<u8>,
    /// The text of the file that `core.excludesFile` names.
    pub(in crate::workspace) excludes: Vec<u8>,
    /// Names that differ only by case are equal.
    pub(in crate::workspace) ignores_case: bool,
    /// The directory with the index; `None` outside of any repository.
    git_dir: Option<PathBuf>,
    id_bytes: usize,
    tracked: OnceLock<TrackedPaths>,
}

impl GitRules {
    /// Returns the paths that the repository tracks. The first call reads the index.
    pub(in crate::workspace) fn tracked_paths(
        &self,
        repositories: &Repositories<'_>,
    ) -> &TrackedPaths {
        self.tracked.get_or_init(|| {
            let Some(git_dir) = &self.git_dir else { return TrackedPaths::default() };
            TrackedPaths::read(git_dir, self.id_bytes).unwrap_or_else(|warning| {
                repositories.warn(warning);
                TrackedPaths::default()
            })
        })
    }
}

/// The repositories that a capture finds, and warnings about their files.
#[derive(Debug)]
pub(in crate::workspace) struct Repositories<'a> {
    places: &'a GitPlaces,
    warnings: Mutex<Vec<String>>,
}

impl<'a> Repositories<'a> {
    pub(in crate::workspace) fn new(places: &'a GitPlaces) -> Self {
        Self { places, warnings: Mutex::default() }
    }

    /// Returns the rules in a directory outside of any repository.
    pub(in crate::workspace) fn without_repository(&self) -> GitRules {
        let settings = self.settings(&ConfigScope::default(), &[]);
        let excludes = self.excludes(settings.excludes, Path::new("/"));
        GitRules { excludes, ..GitRules::default() }
    }

    /// Returns the rules of the repository whose working tree is `dir`, which has a `.git`.
    pub(in crate::workspace) fn of(&self, dir: &Path) -> GitRules {
        let Some(git_dir) = self.git_dir(dir) else { return self.without_repository() };
        let whole = canonical(&git_dir).ok();
        let common = self.line(&git_dir.join("commondir"));
        let common = common.map_or_else(|| git_dir.clone(), |common| git_dir.join(common));
        let head = self.line(&git_dir.join("HEAD")).unwrap_or_default();
        let scope = ConfigScope {
            home: None,
            git_dir: Some(whole.as_deref().unwrap_or(&git_dir)),
            branch: head.strip_prefix("ref: refs/heads/"),
        };
        let own = [common.join("config"), git_dir.join("config.worktree")];
        let settings = self.settings(&scope, &own);
        let id_bytes = if settings.is_sha256 { SHA256_BYTES } else { SHA1_BYTES };
        GitRules {
            exclude: self.rules(&common.join("info").join("exclude")),
            excludes: self.excludes(settings.excludes, dir),
            ignores_case: settings.ignores_case,
            git_dir: Some(git_dir),
            id_bytes,
            tracked: OnceLock::new(),
        }
    }

    /// Returns the warnings about unreadable files.
    pub(in crate::workspace) fn into_warnings(self) -> Vec<String> {
        let mut warnings = self.warnings.into_inner().unwrap_or_else(PoisonError::into_inner);
        warnings.sort_unstable();
        warnings.dedup();
        warnings
    }

    fn warn(&self, warning: String) {
        self.warnings.lock().unwrap_or_else(PoisonError::into_inner).push(warning);
    }

    fn git_dir(&self, dir: &Path) -> Option<PathBuf> {
        let dot_git = dir.join(DOT_GIT);
        if fs::metadata(&dot_git).ok()?.is_dir() {
            return Some(dot_git);
        }
        let line = self.line(&dot_git)?;
        Some(dir.join(line.strip_prefix("gitdir:")?.trim_start()))
    }

    /// Reads the settings of the user, then those of a repository and its working tree.
    fn settings(&self, scope: &ConfigScope<'_>, own: &[PathBuf]) -> Settings {
        let scope = ConfigScope { home: self.places.home.as_deref(), ..*scope };
        let mut settings = Settings::default();
        for path in &self.places.config {
            settings.read(path, &scope);
        }
        for (at, path) in own.iter().enumerate() {
            if at == 0 || settings.has_worktree_config {
                settings.read(path, &scope);
            }
        }
        settings.warnings.drain(..).for_each(|warning| self.warn(warning));
        settings
    }

    /// Returns the rules in the file that a setting names, or else in the user's excludes file.
    fn excludes(&self, set: Option<PathBuf>, dir: &Path) -> Vec<u8> {
        match set.or_else(|| self.places.excludes.clone()) {
            Some(path) if path.as_os_str().is_empty() => Vec::new(),
            Some(path) => self.rules(&dir.join(path)),
            None => Vec::new(),
        }
    }

    /// Returns the text of a rule file; empty if it is missing or unreadable.
    pub(in crate::workspace) fn rules(&self, path: &Path) -> Vec<u8> {
        let read = read_file(path, MAX_RULES_BYTES);
        read.unwrap_or_else(|warning| {
            self.warn(warning);
            None
        })
        .unwrap_or_default()
    }

    fn line(&self, path: &Path) -> Option<String> {
        read_line(path).unwrap_or_else(|warning| {
            self.warn(warning);
            None
        })
    }
}
