//! Paths of entries as users type them: `files/` may be omitted, and an error about an unknown
//! path names similar ones.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use turntree::context::sections::{CONVERSATION, FILES_PREFIX, SOURCE};
use turntree::context::{Context, Shape, split};
use turntree::object::ObjectId;
use turntree::platform::{canonical, path_text};
use turntree::repo::Repository;
use turntree::{Error, ErrorKind};
use turntree_exchange::is_section_name;
use turntree_exchange::spelling::{Distance, distance};

use crate::program::here::workspace_of;
use crate::view::advice::Advice;
use crate::view::error::{Failure, Hint, Result};
use crate::view::render::{ID_DIGITS, harmless};

/// Maximum number of starts of a history in which paths are looked up.
const MAX_STARTS: usize = 16;

/// Maximum number of entries of a section that are compared with an unknown path.
const MAX_COMPARED: usize = 50_000;

/// Maximum number of similar paths to name.
const MAX_SIMILAR: usize = 3;

/// The shortest names that may have one typing error, and two.
const MIN_TYPO_CHARS: usize = 3;
const MIN_TYPOS_CHARS: usize = 6;

/// Resolves paths in some snapshots. Reads nothing until a path is to be resolved.
pub(crate) struct Paths<'r> {
    repo: &'r Repository,
    snapshots: Vec<ObjectId>,
    /// True to look in the newest snapshot of HEAD, too.
    with_head: bool,
    contexts: OnceCell<Vec<(ObjectId, Context)>>,
    /// The workspace of HEAD's branch, and the working directory.
    place: OnceCell<Option<(PathBuf, PathBuf)>>,
}

impl<'r> Paths<'r> {
    /// Paths in any of these snapshots.
    pub(crate) fn of(repo: &'r Repository, snapshots: &[ObjectId]) -> Self {
        let (contexts, place) = (OnceCell::new(), OnceCell::new());
        Self { repo, snapshots: snapshots.to_vec(), with_head: false, contexts, place }
    }

    /// Paths in the history of some snapshots: in the first of them, and the newest of HEAD.
    pub(crate) fn over(repo: &'r Repository, starts: impl IntoIterator<Item = ObjectId>) -> Self {
        let starts: Vec<ObjectId> = starts.into_iter().take(MAX_STARTS).collect();
        Self { with_head: true, ..Self::of(repo, &starts) }
    }

    /// Paths in the newest snapshot of HEAD.
    pub(crate) fn of_head(repo: &'r Repository) -> Self {
        Self::over(repo, None)
    }

    /// The contexts of the snapshots; those that were dropped are skipped.
    fn contexts(&self) -> &[(ObjectId, Context)] {
        self.contexts.get_or_init(|| {
            let head = || self.repo.head_if_any().ok().flatten()?.commit;
            let head = if self.with_head { head() } else { None };
            let open = |id: &ObjectId| Some((*id, self.repo.context(id).ok()?));
            self.snapshots.iter().chain(&head).filter_map(open).collect()
        })
    }

    /// Returns the path that `word` names: an entry, folder or section of this exact path, a path
    /// relative to the working directory in the workspace, or a path below `files`.
    pub(crate) fn find(&self, word: &str) -> Option<String> {
        self.forms(word).find(|path| self.has(path))
    }

    /// [`Paths::find`] for a word that may also be a name: a section alone is none.
    pub(crate) fn find_entry(&self, word: &str) -> Option<String> {
        let typed = typed(word);
        let is_entry = |path: &String| path.contains('/') || Some(path) != typed.as_ref();
        self.forms(word).filter(is_entry).find(|path| self.has(path))
    }

    /// Returns the parts that words name, each of which must exist.
    ///
    /// # Errors
    /// `NotFound` with similar paths.
    pub(crate) fn parts(&self, words: &[String]) -> Result<Vec<String>> {
        let part = |word: &String| match self.find(word) {
            Some(path) => Ok(path),
            None if is_section(word) || self.contexts().is_empty() => Ok(word.clone()),
            None => {
                let missing = Error::not_found(format!("there is nothing at {word}"));
                Err(Failure::hinted(missing, self.advice(word)))
            }
        };
        words.iter().map(part).collect()
    }

    /// Returns the parts that words name; one that is in none of the snapshots is in `files`.
    pub(crate) fn parts_or_files(&self, words: &[String]) -> Vec<String> {
        let part = |word: &String| match self.find(word) {
            None if !is_section(word) => {
                format!("{FILES_PREFIX}{}", typed(word).unwrap_or_default())
            }
            found => found.unwrap_or_else(|| word.clone()),
        };
        words.iter().map(part).collect()
    }

    /// Returns paths that select entries of a history: one that is in none of the snapshots may
    /// have been deleted from `files`, or from another section.
    pub(crate) fn selecting(&self, words: &[String]) -> Vec<String> {
        let is_exact =
            |word: &str| word == CONVERSATION || format!("{word}/").starts_with(FILES_PREFIX);
        let paths = |word: &String| match self.find(word) {
            Some(path) => vec![path],
            None if is_exact(word) => vec![word.clone()],
            None => {
                let file = typed(word).map(|path| format!("{FILES_PREFIX}{path}"));
                [Some(word.clone()), file].into_iter().flatten().collect()
            }
        };
        words.iter().flat_map(paths).collect()
    }

    /// A note about the words that name nothing in these snapshots, for a history in which nothing
    /// was found.
    pub(crate) fn unknown(&self, words: &[String]) -> Option<String> {
        let word = words.iter().find(|word| !is_section(word) && self.find(word).is_none())?;
        let similar = self.similar(word).map(|similar| format!("; {similar}")).unwrap_or_default();
        Some(format!("there is nothing at {}{similar}", harmless(word)))
    }

    /// The advice on an unknown path.
    pub(crate) fn advice(&self, word: &str) -> Advice {
        let id =
            self.contexts().first().map_or_else(|| "REV".to_owned(), |(id, _)| id.short(ID_DIGITS));
        let similar = self.similar(word).map(|similar| format!("{similar}; ")).unwrap_or_default();
        Advice::new(
            format!("{similar}'turntree ls {id}' lists the content of the snapshot"),
            format!("{similar}show lists the content of a snapshot"),
        )
    }

    /// Returns true if any of the snapshots has an entry, folder or section of this exact path.
    pub(crate) fn has(&self, path: &str) -> bool {
        let path = path.trim_matches('/');
        let source = self.repo.store();
        !path.is_empty() && self.contexts().iter().any(|(_, it)| it.lookup(source, path).is_ok())
    }

    /// The paths that a word may mean; the first one that exists wins.
    fn forms<'a>(&'a self, word: &'a str) -> impl Iterator<Item = String> + 'a {
        let typed = typed(word);
        let file = typed.as_ref().map(|path| format!("{FILES_PREFIX}{path}"));
        let inside = std::iter::once_with(move || self.inside(word)).flatten();
        let forms = typed.into_iter().chain(inside).chain(file);
        forms.map(|path| path.trim_end_matches('/').to_owned())
    }

    /// The path of a file relative to the working directory, if that is in the workspace.
    fn inside(&self, word: &str) -> Option<String> {
        let (workspace, here) = self.place.get_or_init(|| place(self.repo)).as_ref()?;
        let full = plain(&here.join(word))?;
        let below = full.strip_prefix(workspace).ok()?;
        Some(format!("{FILES_PREFIX}{}", path_text(below)?))
    }

    /// Names the paths that are most like an unknown one.
    pub(crate) fn similar(&self, word: &str) -> Option<String> {
        let word = typed(word)?;
        let mut found: BTreeSet<(u8, String)> = BTreeSet::new();
        for (_, context) in self.contexts() {
            for path in paths_of(self.repo, context) {
                found.extend(likeness(&word, &path).map(|rank| (rank, path)));
            }
        }
        let best = found.first()?.0;
        let named = found.iter().take_while(|(rank, _)| *rank == best || *rank < 2);
        let named: Vec<_> = named.take(MAX_SIMILAR).map(|(_, path)| harmless(path)).collect();
        Some(format!("similar: {}", named.join(", ")))
    }
}

/// Resolves the path of a revision in its context: exact, or below `files`.
pub(crate) fn path_in(repo: &Repository, id: &ObjectId, path: &str) -> Result<String> {
    let context = repo.context(id)?;
    let has = |path: &str| context.lookup(repo.store(), path.trim_matches('/')).is_ok();
    let file = format!("{FILES_PREFIX}{}", path.trim_start_matches("./"));
    Ok(if !has(path) && has(&file) { file } else { path.to_owned() })
}

/// Adds similar paths to the error about a path that a snapshot does not have.
pub(crate) fn with_similar<T>(
    repo: &Repository,
    id: &ObjectId,
    path: &str,
    result: Result<T>,
) -> Result<T> {
    match result {
        Err(failure) if failure.is_not_found() => {
            let paths = Paths::of(repo, &[*id]);
            match paths.has(path) {
                true => Err(failure),
                false => Err(failure).hint(ErrorKind::NotFound, paths.advice(path)),
            }
        }
        result => result,
    }
}

/// The workspace of HEAD's branch, and the working directory.
fn place(repo: &Repository) -> Option<(PathBuf, PathBuf)> {
    let head = repo.head_if_any().ok()??;
    let workspace = workspace_of(repo, &head.branch, &head.commit?).ok()??;
    Some((workspace, canonical(&std::env::current_dir().ok()?).ok()?))
}

/// A typed path without `.` and `..`; `None` if it is not relative.
fn typed(word: &str) -> Option<String> {
    let path = path_text(&plain(Path::new(word))?)?.into_owned();
    Some(path).filter(|path| !path.is_empty() && !path.starts_with('/'))
}

/// Returns true if a path begins with the name of a section, or is that of all conversations.
fn is_section(word: &str) -> bool {
    let first = split(word).0.split('/').next().unwrap_or_default();
    word == CONVERSATION || first == SOURCE || is_section_name(first)
}

/// The paths of the entries of a context, and of their folders, as far as they have names.
fn paths_of(repo: &Repository, context: &Context) -> BTreeSet<String> {
    let source = repo.store();
    let mut paths = BTreeSet::new();
    for (name, section) in context.sections(source).unwrap_or_default() {
        let keys = (section.shape == Shape::Map).then(|| context.map(source, &name).ok()).flatten();
        for entry in keys.iter().flat_map(|map| map.iter(source)).take(MAX_COMPARED) {
            let Ok((key, _)) = entry else { break };
            let path = format!("{name}/{}", String::from_utf8_lossy(&key));
            let mut folder = path.as_str();
            while let Some((above, _)) = folder.rsplit_once('/')
                && above.len() > name.len()
                && paths.insert(above.to_owned())
            {
                folder = above;
            }
            paths.insert(path);
        }
        paths.insert(name);
    }
    paths
}

/// Ranks how much a path is like an unknown one, 0 for the most; `None` if it is not.
fn likeness(word: &str, path: &str) -> Option<u8> {
    let (word, path) = (word.to_lowercase(), path.to_lowercase());
    let plain = |path: &str| path.strip_prefix(FILES_PREFIX).unwrap_or(path).to_owned();
    let (word, path) = (plain(&word), plain(&path));
    let name = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
    let (of_word, of_path) = (name(&word), name(&path));
    let errors = |one: &str, other: &str| match distance(one, other, Distance::Two)? {
        Distance::One => (one.chars().count() >= MIN_TYPO_CHARS).then_some(2),
        Distance::Two => (one.chars().count() >= MIN_TYPOS_CHARS).then_some(3),
    };
    match () {
        () if word == path || path.ends_with(&format!("/{word}")) => Some(0),
        () if of_word == of_path => Some(1),
        () => errors(&word, &path).or_else(|| errors(&of_word, &of_path)),
    }
}

/// Resolves `.` and `..` in a path without reading the disk, if possible.
fn plain(path: &Path) -> Option<PathBuf> {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop().then_some(())?;
            }
            part => plain.push(part),
        }
    }
    Some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_alike_by_their_end_their_name_or_a_typing_error() {
        for (word, path, expected) in [
            ("Src/main.rs", "files/src/main.rs", Some(0)),
            ("main.rs", "files/src/main.rs", Some(0)),
            ("lib/main.rs", "files/src/main.rs", Some(1)),
            ("src/mian.rs", "files/src/main.rs", Some(2)),
            ("files/scr/lib.rs", "files/src/lib.rs", Some(1)),
            ("scr", "files/src", Some(2)),
            ("other.rs", "files/src/main.rs", None),
            ("a", "files/b", None),
        ] {
            assert_eq!(likeness(word, path), expected, "{word} {path}");
        }
    }
}
