//! Rules by which a capture ignores names: `.gitignore`, `.turntreeignore`, and git's other
//! sources.
//!
//! A folder has the rules of its own files and of its ancestors, and the nearest matching file
//! decides. Every `.turntreeignore`, at any level, takes precedence over every `.gitignore`. The
//! `info/exclude` of a repository and the file named by `core.excludesFile` follow its
//! `.gitignore`. Outer rules do not apply in a nested repository. A file that git both ignores and
//! tracks is not ignored; a file ignored by `.turntreeignore` is.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

use crate::object::{Kind, ObjectId};
use crate::platform::{canonical, path_bytes};
use crate::workspace::git::{DOT_GIT, GitRules, Patterns, Repositories};

/// The names of rule files.
pub(in crate::workspace) const GIT_RULES: &str = ".gitignore";
pub(in crate::workspace) const OWN_RULES: &str = ".turntreeignore";

/// Maximum bytes of a rule file.
pub(in crate::workspace) const MAX_RULES_BYTES: u64 = 1 << 20;

/// The rules that apply in one folder.
#[derive(Debug)]
pub(in crate::workspace) struct Rules {
    above: Option<Arc<Rules>>,
    place: RulesPlace,
    git: Patterns,
    own: Patterns,
    repository: Option<RepositoryLevel>,
    ignores_case: bool,
    digest: ObjectId,
}

/// The place of the folder of some rules, relative to the captured directory.
#[derive(Debug, Clone)]
pub(in crate::workspace) enum RulesPlace {
    /// Inside the directory: the length of its path, with a trailing slash.
    Inside(usize),
    /// Outside of the directory: the path from this folder to the directory, with a trailing slash.
    Around(Vec<u8>),
}

/// The rules of a repository besides those in its working tree.
#[derive(Debug)]
struct RepositoryLevel {
    git: Arc<GitRules>,
    exclude: Patterns,
    excludes: Patterns,
}

/// The rule texts of one folder.
#[derive(Debug, Default, Clone)]
pub(in crate::workspace) struct RuleTexts {
    pub(in crate::workspace) git: Vec<u8>,
    pub(in crate::workspace) own: Vec<u8>,
    /// Set if the folder is the working tree of a repository.
    pub(in crate::workspace) repository: Option<Arc<GitRules>>,
}

/// The verdict of rules on a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::workspace) enum Verdict {
    Included,
    /// A `.turntreeignore` ignores it.
    IgnoredByOwn,
    /// Git ignores it unless it is tracked.
    IgnoredByGit,
}

impl Rules {
    /// Returns the rules of a directory outside of any repository.
    pub(in crate::workspace) fn without_repository(git: GitRules) -> Arc<Self> {
        let repository = Some(Arc::new(git));
        Self::new(None, RulesPlace::Inside(0), &RuleTexts { repository, ..RuleTexts::default() })
    }

    /// Returns the rules that apply in `dir` from the repository around it, including rule files in
    /// the folders between. A repository that ignores the directory does not affect its content.
    pub(in crate::workspace) fn around(dir: &Path, repositories: &Repositories<'_>) -> Arc<Self> {
        Self::from_outer_repository(dir, repositories)
            .unwrap_or_else(|| Self::without_repository(repositories.without_repository()))
    }

    fn from_outer_repository(dir: &Path, repositories: &Repositories<'_>) -> Option<Arc<Self>> {
        let dir = canonical(dir).ok()?;
        if has_dot_git(&dir) {
            return None;
        }
        let top = dir.ancestors().skip(1).find(|above| has_dot_git(above))?;
        let (mut rules, mut folder) = (None, top.to_owned());
        for name in dir.strip_prefix(top).ok()? {
            let git = repositories.rules(&folder.join(GIT_RULES));
            let is_top = rules.is_none();
            let repository = is_top.then(|| Arc::new(repositories.of(top)));
            let texts = RuleTexts { git, repository, ..RuleTexts::default() };
            let mut lead = path_bytes(dir.strip_prefix(&folder).ok()?).into_owned();
            lead.push(b'/');
            let here = Self::new(rules, RulesPlace::Around(lead), &texts);
            // The folder itself is judged by the rules of its ancestors and its parent folder.
            folder.push(name);
            let inside = dir.strip_prefix(&folder).ok()?.as_os_str().len();
            if here.is_ancestor_ignored(inside) {
                return None;
            }
            rules = Some(here);
        }
        rules
    }

    /// Returns true if these rules ignore the ancestor of the directory that has `rest` bytes of
    /// the path after it.
    fn is_ancestor_ignored(&self, rest: usize) -> bool {
        let levels = std::iter::successors(Some(self), |rules| rules.above.as_deref());
        for rules in levels {
            let RulesPlace::Around(lead) = &rules.place else { break };
            let behind = if rest == 0 { 1 } else { rest + 2 };
            let path = lead.get(..lead.len().saturating_sub(behind)).unwrap_or_default();
            if let Some(verdict) = rules.git.verdict(path, true) {
                return verdict;
            }
            if let Some(verdict) = rules.repository_verdict(path, true) {
                return verdict;
            }
        }
        false
    }

    fn new(above: Option<Arc<Self>>, place: RulesPlace, texts: &RuleTexts) -> Arc<Self> {
        let inherited = above.as_ref().is_some_and(|above| above.ignores_case);
        let repository = texts.repository.as_ref();
        let ignores_case = repository.map_or(inherited, |git| git.ignores_case);
        let mut parts = Vec::new();
        if let Some(above) = &above {
            parts.extend_from_slice(above.digest.as_bytes());
        }
        parts.extend([u8::from(repository.is_some()), u8::from(ignores_case)]);
        let (is_around, depth) = match &place {
            RulesPlace::Inside(depth) => (0, *depth),
            RulesPlace::Around(lead) => (1, lead.len()),
        };
        parts.push(is_around);
        parts.extend_from_slice(&(depth as u64).to_le_bytes());
        if let RulesPlace::Around(lead) = &place {
            parts.extend_from_slice(lead);
        }
        let beside = repository.map(|git| [&git.exclude[..], &git.excludes[..]]);
        for text in [&texts.git[..], &texts.own[..]].into_iter().chain(beside.into_iter().flatten())
        {
            parts.extend_from_slice(&(text.len() as u64).to_le_bytes());
            parts.extend_from_slice(text);
        }
        let parse = |text: &[u8]| Patterns::parse(text, ignores_case);
        let level = repository.map(|git| RepositoryLevel {
            git: Arc::clone(git),
            exclude: parse(&git.exclude),
            excludes: parse(&git.excludes),
        });
        Arc::new(Self {
            above,
            place,
            git: parse(&texts.git),
            own: parse(&texts.own),
            repository: level,
            ignores_case,
            digest: ObjectId::of(Kind::Blob, &parts),
        })
    }

    /// Returns the rules of a subfolder whose path has `depth` bytes.
    pub(in crate::workspace) fn below(
        self: &Arc<Self>,
        depth: usize,
        texts: &RuleTexts,
    ) -> Arc<Self> {
        if texts.git.is_empty() && texts.own.is_empty() && texts.repository.is_none() {
            return Arc::clone(self);
        }
        Self::new(Some(Arc::clone(self)), RulesPlace::Inside(depth), texts)
    }

    /// Returns a digest of all rules except the tracked files of git. With equal digests the same
    /// paths of the same folder are ignored, apart from tracked ones.
    pub(in crate::workspace) fn digest(&self) -> ObjectId {
        self.digest
    }

    /// Returns the verdict on `path`, relative to the captured directory.
    pub(in crate::workspace) fn verdict(&self, path: &[u8], is_folder: bool) -> Verdict {
        if let Some(is_ignored) = self.own_verdict(path, is_folder) {
            return if is_ignored { Verdict::IgnoredByOwn } else { Verdict::Included };
        }
        for rules in self.levels() {
            let inside = rules.inside(path);
            let said = rules.git.verdict(&inside, is_folder);
            match said.or_else(|| rules.repository_verdict(&inside, is_folder)) {
                Some(true) => return Verdict::IgnoredByGit,
                Some(false) => return Verdict::Included,
                None if rules.repository.is_some() => break,
                None => {}
            }
        }
        Verdict::Included
    }

    /// Returns true if a `.turntreeignore` ignores `path`, false if it includes it; `None` if none
    /// matches.
    pub(in crate::workspace) fn own_verdict(&self, path: &[u8], is_folder: bool) -> Option<bool> {
        self.levels().find_map(|rules| rules.own.verdict(&rules.inside(path), is_folder))
    }

    /// Returns whether git tracks `path`, or, for a folder, anything in it.
    pub(in crate::workspace) fn tracked_part(
        &self,
        path: &[u8],
        is_folder: bool,
        repositories: &Repositories<'_>,
    ) -> TrackedPart {
        let repository = self.levels().find_map(|rules| Some((rules, rules.repository.as_ref()?)));
        let Some((rules, level)) = repository else { return TrackedPart::No };
        let (tracked, path) = (level.git.tracked_paths(repositories), rules.inside(path));
        if tracked.has(&path, is_folder) {
            return TrackedPart::Itself;
        }
        let below = || tracked.has_below(&[&*path, b"/"].concat());
        if is_folder && below() { TrackedPart::Below } else { TrackedPart::No }
    }

    fn levels(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |rules| rules.above.as_deref())
    }

    fn repository_verdict(&self, inside: &[u8], is_folder: bool) -> Option<bool> {
        let RepositoryLevel { exclude, excludes, .. } = self.repository.as_ref()?;
        exclude.verdict(inside, is_folder).or_else(|| excludes.verdict(inside, is_folder))
    }

    /// Returns a path relative to the folder of these rules.
    fn inside<'p>(&self, path: &'p [u8]) -> Cow<'p, [u8]> {
        match &self.place {
            RulesPlace::Inside(depth) => Cow::Borrowed(path.get(*depth..).unwrap_or_default()),
            RulesPlace::Around(lead) => Cow::Owned([lead, path].concat()),
        }
    }
}

/// The part of a path that git tracks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::workspace) enum TrackedPart {
    No,
    /// The file, or the repository in the folder.
    Itself,
    /// A path in the folder.
    Below,
}

fn has_dot_git(dir: &Path) -> bool {
    std::fs::symlink_metadata(dir.join(DOT_GIT)).is_ok()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use proptest::prelude::*;

    use super::*;
    use crate::context::{Builder, Context};
    use crate::object::Memory;
    use crate::workspace::{CaptureOptions, capture};

    fn captured(dir: &Path) -> BTreeSet<String> {
        let (mut objects, mut builder) = (Memory::new(), Builder::new());
        let (parent, options) = (Context::default(), CaptureOptions::default());
        capture(&mut objects, &parent, &mut builder, dir, &options).unwrap();
        let tree = builder.write(&mut objects).unwrap();
        let files = Context::open(&objects, &tree).unwrap().map(&objects, "files").unwrap();
        let key = |entry: crate::Result<(bytes::Bytes, _)>| entry.unwrap().0.to_vec();
        files.iter(&objects).map(|entry| String::from_utf8(key(entry)).unwrap()).collect()
    }

    /// Returns the files that the walker of the `ignore` crate finds by the same rules.
    fn walked(dir: &Path) -> BTreeSet<String> {
        let mut walk = ignore::WalkBuilder::new(dir);
        walk.hidden(false).ignore(false).git_global(false);
        walk.git_exclude(false).parents(false).add_custom_ignore_filename(OWN_RULES);
        walk.filter_entry(|entry| entry.file_name() != DOT_GIT);
        let files = walk.build().map(Result::unwrap).filter(|entry| !entry.path().is_dir());
        let name = |path: &Path| path.strip_prefix(dir).unwrap().to_str().unwrap().to_owned();
        files.map(|entry| name(entry.path())).collect()
    }

    const FOLDERS: [&str; 4] = ["", "a/", "a/b/", "c/"];
    const LINES: [&str; 14] = [
        "", "# a", "a", "/a", "a/", "b/", "*.x", "!*.x", "!a", "a/b", "**/f", "/c/f.x", "[", "!f ",
    ];

    fn rules() -> impl Strategy<Value = Vec<&'static str>> {
        prop::collection::vec(prop::sample::select(&LINES[..]), 0..4)
    }

    turntree_properties::properties! {
        cases = 100;

        #[test]
        fn what_is_left_out_is_what_the_walker_of_the_crate_leaves_out(
            git in prop::collection::vec(rules(), FOLDERS.len()),
            own in prop::collection::vec(rules(), FOLDERS.len()),
            repository in prop::option::of(0..FOLDERS.len()),
            end in prop::sample::select(&["\n", "\r\n"][..]),
        ) {
            let folder = tempfile::tempdir().unwrap();
            // The crate looks for repositories only if the top directory is one.
            fs::create_dir(folder.path().join(DOT_GIT)).unwrap();
            for (at, prefix) in FOLDERS.iter().enumerate() {
                let path = folder.path().join(prefix);
                fs::create_dir_all(&path).unwrap();
                for file in ["f", "f.x", "g.x", "b.x"] {
                    fs::write(path.join(file), file).unwrap();
                }
                for (name, rules) in [(GIT_RULES, &git[at]), (OWN_RULES, &own[at])] {
                    if !rules.is_empty() {
                        fs::write(path.join(name), rules.join(end)).unwrap();
                    }
                }
                if repository == Some(at) {
                    fs::create_dir_all(path.join(DOT_GIT)).unwrap();
                }
            }
            prop_assert_eq!(captured(folder.path()), walked(folder.path()));
        }
    }

    #[test]
    fn rules_have_another_name_wherever_they_say_something_else() {
        let texts = |git: &str, own: &str, repository: Option<GitRules>| RuleTexts {
            git: git.into(),
            own: own.into(),
            repository: repository.map(Arc::new),
        };
        let excluding = |text: &str| {
            let mut rules = GitRules::default();
            rules.exclude = text.into();
            rules
        };
        let named = |text: &str| {
            let mut rules = GitRules::default();
            rules.excludes = text.into();
            rules
        };
        let none = Rules::without_repository(GitRules::default());
        let mut digests = BTreeSet::from([*none.digest().as_bytes()]);
        for rules in [
            Rules::without_repository(named("a")),
            none.below(0, &texts("a", "", None)),
            none.below(2, &texts("a", "", None)),
            none.below(0, &texts("", "a", None)),
            none.below(0, &texts("a", "", Some(GitRules::default()))),
            none.below(0, &texts("a", "", Some(excluding("a")))),
            none.below(0, &texts("a", "", Some(named("a")))),
            none.below(0, &texts("a", "b", None)),
            none.below(0, &texts("ab", "", None)),
        ] {
            assert!(digests.insert(*rules.digest().as_bytes()), "{rules:?}");
        }
        assert!(Arc::ptr_eq(&none.below(5, &RuleTexts::default()), &none));
    }
}
