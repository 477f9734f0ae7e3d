//! Rules by which a capture ignores names: `.gitignore` and `.turntreeignore`. The only user of
//! `ignore`.
//!
//! A folder has the rules of its own files and of those above it, and the nearest file that says
//! anything of a name decides. What a `.turntreeignore` says, at whatever height, goes before every
//! `.gitignore`. In a repository inside another one the outer `.gitignore` says nothing.

use std::path::Path;
use std::sync::Arc;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::object::{Kind, ObjectId};

/// The files that rules stand in.
pub(in crate::workspace) const GIT_RULES: &str = ".gitignore";
pub(in crate::workspace) const OWN_RULES: &str = ".turntreeignore";

/// The name that makes a folder a repository of its own.
pub(in crate::workspace) const REPOSITORY: &str = ".git";

/// The byte order mark, which editors put before the first line.
const MARK: &str = "\u{feff}";

/// The rules that hold in one folder.
#[derive(Debug)]
pub(in crate::workspace) struct Rules {
    above: Option<Arc<Rules>>,
    /// Bytes of the path of the folder, with the slash at its end.
    depth: usize,
    git: Gitignore,
    own: Gitignore,
    is_repository: bool,
    digest: ObjectId,
}

/// The rules of the folder itself.
#[derive(Debug, Default)]
pub(in crate::workspace) struct RuleVerdict {
    pub(in crate::workspace) git: Vec<u8>,
    pub(in crate::workspace) own: Vec<u8>,
    pub(in crate::workspace) is_repository: bool,
}

impl Rules {
    /// No rules.
    pub(in crate::workspace) fn none() -> Arc<Self> {
        let (git, own) = (Gitignore::empty(), Gitignore::empty());
        let digest = ObjectId::of(Kind::Blob, b"");
        Arc::new(Self { above: None, depth: 0, git, own, is_repository: false, digest })
    }

    /// The rules of a folder whose path has `depth` bytes, below these.
    pub(in crate::workspace) fn below(
        self: &Arc<Self>,
        depth: usize,
        said: &RuleVerdict,
    ) -> Arc<Self> {
        if said.git.is_empty() && said.own.is_empty() && !said.is_repository {
            return Arc::clone(self);
        }
        let mut parts = self.digest.as_bytes().to_vec();
        parts.push(u8::from(said.is_repository));
        for number in [depth, said.git.len(), said.own.len()] {
            parts.extend_from_slice(&(number as u64).to_le_bytes());
        }
        parts.extend_from_slice(&said.git);
        parts.extend_from_slice(&said.own);
        Arc::new(Self {
            above: Some(Arc::clone(self)),
            depth,
            git: parse(&said.git),
            own: parse(&said.own),
            is_repository: said.is_repository,
            digest: ObjectId::of(Kind::Blob, &parts),
        })
    }

    /// Names all the rules: where it is the same, the same is left out of the same folder.
    pub(in crate::workspace) fn digest(&self) -> ObjectId {
        self.digest
    }

    /// Returns whether `path`, relative to the captured directory, is ignored.
    pub(in crate::workspace) fn leave_out(&self, path: &[u8], is_folder: bool) -> bool {
        let levels = || std::iter::successors(Some(self), |rules| rules.above.as_deref());
        let own = levels().find_map(|rules| rules.verdict(&rules.own, path, is_folder));
        if let Some(verdict) = own {
            return verdict;
        }
        for rules in levels() {
            if let Some(verdict) = rules.verdict(&rules.git, path, is_folder) {
                return verdict;
            }
            if rules.is_repository {
                break;
            }
        }
        false
    }

    fn verdict(&self, rules: &Gitignore, path: &[u8], is_folder: bool) -> Option<bool> {
        if rules.is_empty() {
            return None;
        }
        let inside = path.get(self.depth..).unwrap_or_default();
        match rules.matched(as_path(inside), is_folder) {
            Match::None => None,
            Match::Ignore(_) => Some(true),
            Match::Whitelist(_) => Some(false),
        }
    }
}

fn as_path(bytes: &[u8]) -> &Path {
    use std::os::unix::ffi::OsStrExt;
    Path::new(std::ffi::OsStr::from_bytes(bytes))
}

/// Lines that are no rules are passed over, as git does.
fn parse(text: &[u8]) -> Gitignore {
    let mut builder = GitignoreBuilder::new("");
    for (at, line) in text.split(|byte| *byte == b'\n').enumerate() {
        let Ok(line) = std::str::from_utf8(line) else { continue };
        let line = if at == 0 { line.strip_prefix(MARK).unwrap_or(line) } else { line };
        let _ = builder.add_line(None, line.strip_suffix('\r').unwrap_or(line));
    }
    builder.build().unwrap_or_else(|_| Gitignore::empty())
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

    /// The files that the walker of the crate finds by the same rules.
    fn walked(dir: &Path) -> BTreeSet<String> {
        let mut walk = ignore::WalkBuilder::new(dir);
        walk.hidden(false).ignore(false).git_global(false);
        walk.git_exclude(false).parents(false).add_custom_ignore_filename(OWN_RULES);
        walk.filter_entry(|entry| entry.file_name() != REPOSITORY);
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
            // The crate looks for repositories only where there is one at the top.
            fs::create_dir(folder.path().join(REPOSITORY)).unwrap();
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
                    fs::create_dir_all(path.join(REPOSITORY)).unwrap();
                }
            }
            prop_assert_eq!(captured(folder.path()), walked(folder.path()));
        }
    }

    #[test]
    fn rules_have_another_name_wherever_they_say_something_else() {
        let said = |git: &str, own: &str, is_repository| RuleVerdict {
            git: git.into(),
            own: own.into(),
            is_repository,
        };
        let none = Rules::none();
        let mut digests = BTreeSet::from([*none.digest().as_bytes()]);
        for (depth, said) in [
            (0, said("a", "", false)),
            (2, said("a", "", false)),
            (0, said("", "a", false)),
            (0, said("a", "", true)),
            (0, said("a", "b", false)),
            (0, said("ab", "", false)),
        ] {
            assert!(digests.insert(*none.below(depth, &said).digest().as_bytes()), "{said:?}");
        }
        assert!(Arc::ptr_eq(&none.below(5, &RuleVerdict::default()), &none));
    }
}
