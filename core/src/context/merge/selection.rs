//! What of theirs is wanted: sections, folders of sections, and entries or folders of entries.

use super::Context;
use crate::context::split;
use crate::error::{Error, ErrorKind, Result};
use crate::object::ObjectSource;

/// Paths of what is wanted; none means everything.
#[derive(Debug, Clone, Copy)]
pub(super) struct Selection<'a>(pub(super) &'a [String]);

/// How much of a section is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    All,
    /// Some of its entries.
    Some,
    Nothing,
}

impl Selection<'_> {
    /// Whether everything is wanted.
    pub(super) fn is_all(self) -> bool {
        self.0.is_empty()
    }

    /// Refuses a path of which neither version has anything, so that nothing is there to take.
    ///
    /// # Errors
    /// `NotFound`, naming the path.
    pub(super) fn check(self, source: &dyn ObjectSource, versions: [&Context; 2]) -> Result<()> {
        for path in self.0 {
            let mut is_there = false;
            for version in versions {
                match version.lookup(source, path) {
                    Ok(_) => is_there = true,
                    Err(error) if error.kind() == ErrorKind::NotFound => {}
                    Err(error) => return Err(error),
                }
            }
            if !is_there {
                return Err(Error::not_found(format!("nothing to take is at '{path}'")));
            }
        }
        Ok(())
    }

    /// How much of a section is wanted.
    pub(super) fn of(self, section: &str) -> Wanted {
        if self.is_all() || self.0.iter().any(|path| is_below(section, path)) {
            return Wanted::All;
        }
        match self.0.iter().any(|path| split(path).0 == section) {
            true => Wanted::Some,
            false => Wanted::Nothing,
        }
    }

    /// Whether an entry of a section is wanted.
    pub(super) fn has(self, section: &str, key: &str) -> bool {
        self.is_all()
            || self.0.iter().any(|path| {
                let (name, below) = split(path);
                is_below(section, path) || name == section && is_below(key, below)
            })
    }
}

/// Whether `path` is `folder` or lies in it.
fn is_below(path: &str, folder: &str) -> bool {
    let folder = folder.trim_end_matches('/');
    path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_select_sections_folders_and_entries() {
        let only = ["files/src", "scratchpad", "agents/main"].map(str::to_owned);
        let selection = Selection(&only);
        for (section, wanted) in [
            ("files", Wanted::Some),
            ("scratchpad", Wanted::All),
            ("agents/main/messages", Wanted::All),
            ("agents/other/messages", Wanted::Nothing),
            ("memory", Wanted::Nothing),
        ] {
            assert_eq!(selection.of(section), wanted, "{section}");
        }
        assert!(selection.has("files", "src/a.rs") && selection.has("files", "src"));
        assert!(!selection.has("files", "srcs/a.rs") && !selection.has("memory", "src"));
        assert_eq!(Selection(&[]).of("anything"), Wanted::All);
    }
}
