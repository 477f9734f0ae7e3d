//! A selected part of a context: some sections, or some of their entries.

use std::collections::BTreeSet;

use super::diff::diff_section;
use super::sections::{AGENTS, CONVERSATION, FILES, SOURCE, is_transcript_section};
use super::{Builder, Context, Section, Shape, text_key};
use crate::error::{Error, Result};
use crate::object::{ObjectSink, ObjectSource};
use crate::tree::Map;

/// The sections that [`CONVERSATION`] represents in [`Selection::parse`].
const OF_CONVERSATION: [&str; 2] = [AGENTS, SOURCE];

/// Returns the section name used for selection: all sections of a transcript are selected as one.
fn selection_name(section: &str) -> &str {
    if is_transcript_section(section) { SOURCE } else { section }
}

/// Some sections and entries, given by paths above them; everything by default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// Paths without a trailing slash; empty for everything.
    paths: BTreeSet<String>,
}

impl Selection {
    /// Selects everything at or below these paths (`files`, `agents/main`, `files/src`); everything
    /// if there are none.
    #[must_use]
    pub fn below(paths: &[String]) -> Self {
        let paths = paths.iter().map(|path| path.trim_matches('/').to_owned());
        Self { paths: paths.filter(|path| !path.is_empty()).collect() }
    }

    /// Selects like [`Selection::below`]; `conversation` also selects the sections of all agents,
    /// and the transcript.
    #[must_use]
    pub fn parse(words: &[String]) -> Self {
        let mut selection = Self::below(words);
        if selection.paths.remove(CONVERSATION) {
            selection.paths.extend(OF_CONVERSATION.map(str::to_owned));
        }
        selection
    }

    /// Returns true if everything is selected.
    #[must_use]
    pub fn is_all(&self) -> bool {
        self.paths.is_empty()
    }

    /// Returns true if any part of the section may be selected.
    #[must_use]
    pub fn reaches(&self, section: &str) -> bool {
        let section = selection_name(section);
        let related = |path: &String| is_below(section, path) || is_below(path, section);
        self.is_all() || self.paths.iter().any(related)
    }

    /// Returns true if the whole section is selected.
    #[must_use]
    pub fn has_whole_section(&self, section: &str) -> bool {
        let section = selection_name(section);
        self.is_all() || self.paths.iter().any(|path| is_below(section, path))
    }

    /// Returns true if the entry `key` of the section is selected.
    #[must_use]
    pub fn has(&self, section: &str, key: &str) -> bool {
        self.has_whole_section(section) || self.has_path(&format!("{section}/{key}"))
    }

    fn has_path(&self, full: &str) -> bool {
        self.paths.iter().any(|path| is_below(full, path))
    }

    /// Returns the selected paths below the section, relative to it.
    #[must_use]
    pub fn keys_of(&self, section: &str) -> Vec<String> {
        let below = |path: &String| Some(path.strip_prefix(section)?.strip_prefix('/')?.to_owned());
        self.paths.iter().filter_map(below).collect()
    }

    /// Refuses a selection that matches nothing, such as a mistyped name. `contexts` are those to
    /// search.
    ///
    /// # Errors
    /// `NotFound`, naming the paths, and errors of reading.
    pub fn check(&self, source: &dyn ObjectSource, contexts: [&Context; 2]) -> Result<()> {
        if self.is_all() {
            return Ok(());
        }
        for context in contexts {
            for (name, section) in context.sections(source)? {
                if self.has_whole_section(&name) {
                    return Ok(());
                }
                if self.has_entry_of(source, &name, section)? {
                    return Ok(());
                }
            }
        }
        Err(Error::not_found(format!("there is nothing at {}", self.to_text().replace('\n', ", "))))
    }

    fn has_entry_of(
        &self,
        source: &dyn ObjectSource,
        name: &str,
        section: Section,
    ) -> Result<bool> {
        if self.reaches(name) && section.shape == Shape::Map {
            for entry in Map::open(source, &section.id)?.iter(source) {
                if self.has(name, &text_key(&entry?.0)?) {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Returns true if any file of the workspace may be selected.
    #[must_use]
    pub fn reaches_files(&self) -> bool {
        self.reaches(FILES)
    }

    /// Returns true if it includes all of `other`.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        self.is_all() || (!other.is_all() && other.paths.iter().all(|path| self.has_path(path)))
    }

    /// Returns true if both are disjoint.
    #[must_use]
    pub fn is_disjoint(&self, other: &Self) -> bool {
        let is_apart = |path: &String| !other.reaches(path);
        !self.is_all() && !other.is_all() && self.paths.iter().all(is_apart)
    }

    /// Returns the paths, one a line, for the metadata of a commit; empty for everything.
    /// [`Selection::from_text`] reads it.
    #[must_use]
    pub fn to_text(&self) -> String {
        self.paths.iter().map(String::as_str).collect::<Vec<_>>().join("\n")
    }

    /// Parses the text of [`Selection::to_text`].
    #[must_use]
    pub fn from_text(text: &str) -> Self {
        Self { paths: text.lines().map(str::to_owned).collect() }
    }
}

impl Builder {
    /// Sets the selected parts as in `other`. Costs in proportion to the differences. Returns the
    /// names of the changed sections.
    ///
    /// The builder must not have pending changes in those sections.
    ///
    /// # Errors
    /// `InvalidInput` if single entries of a list are selected, and errors of the sink.
    pub fn copy_selection(
        &mut self,
        sink: &mut dyn ObjectSink,
        other: &Context,
        selection: &Selection,
    ) -> Result<Vec<String>> {
        let (mine, theirs) = (self.context.sections(sink)?, other.sections(sink)?);
        let names: BTreeSet<&String> = mine.keys().chain(theirs.keys()).collect();
        let mut changed = Vec::new();
        for name in names {
            let (old, new) = (mine.get(name).copied(), theirs.get(name).copied());
            if old == new || !selection.reaches(name) {
                continue;
            }
            if selection.has_whole_section(name) {
                self.context.set_sections(sink, [(name.clone(), new)])?;
                changed.push(name.clone());
                continue;
            }
            let is_map = |section: Section| section.shape == Shape::Map;
            if !old.is_none_or(is_map) || !new.is_none_or(is_map) {
                return Err(Error::invalid(format!(
                    "section {name} can only be restored as a whole: single entries can be restored only from maps"
                )));
            }
            let mut changes = diff_section(sink, old, new)?;
            changes.retain(|change| selection.has(name, &change.key));
            if !changes.is_empty() {
                changed.push(name.clone());
            }
            for change in changes {
                self.set(sink, name, &change.key, change.new)?;
            }
        }
        Ok(changed)
    }
}

fn is_below(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::Memory;

    fn selection(words: &[&str]) -> Selection {
        Selection::parse(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn a_selection_is_what_is_below_its_paths() {
        let all = selection(&[]);
        assert!(all.is_all() && all.has_whole_section("meta") && all.has("files", "a"));
        let some = selection(&["files/src/", "memory", "conversation"]);
        assert!(some.reaches("files") && !some.has_whole_section("files") && some.reaches_files());
        assert!(
            some.has("files", "src/a") && some.has("files", "src") && !some.has("files", "srcs")
        );
        assert!(some.has_whole_section("agents/main/messages") && some.has_whole_section("source"));
        assert!(some.has("memory", "x") && !some.reaches("scratchpad"));
        for one in [&all, &some] {
            assert_eq!(&Selection::from_text(&one.to_text()), one);
        }
    }

    #[test]
    fn selections_cover_each_other_or_are_apart() {
        let (all, files) = (selection(&[]), selection(&["files"]));
        let (talk, source) = (selection(&["conversation"]), selection(&["files/src"]));
        assert!(all.covers(&files) && !files.covers(&all) && all.covers(&all));
        assert!(files.covers(&source) && !source.covers(&files) && !talk.covers(&files));
        assert!(files.is_disjoint(&talk) && !files.is_disjoint(&source));
        assert!(!source.is_disjoint(&files) && !all.is_disjoint(&files));
    }

    #[test]
    fn a_builder_takes_what_is_selected_and_nothing_else() {
        let mut objects = Memory::new();
        let mut context = |entries: &[(&str, &str, &str)]| {
            let mut builder = Builder::new();
            for (section, key, text) in entries {
                let text = Some((*text).to_owned().into());
                builder.set_entry(&mut objects, section, key, text).unwrap();
            }
            let tree = builder.write(&mut objects).unwrap();
            Context::open(&objects, &tree).unwrap()
        };
        let old = context(&[("memory", "a", "1"), ("memory", "b", "1"), ("scratchpad", "x", "1")]);
        let new = context(&[("memory", "a", "2"), ("memory", "b", "2"), ("goals", "g", "2")]);
        let mixed =
            context(&[("memory", "a", "1"), ("memory", "b", "2"), ("scratchpad", "x", "1")]);
        let mut take = |words: &[&str]| {
            let mut builder = Builder::from(old.clone());
            let changed = builder.copy_selection(&mut objects, &new, &selection(words)).unwrap();
            let tree = builder.write(&mut objects).unwrap();
            (Context::open(&objects, &tree).unwrap(), changed)
        };
        let (all, changed) = take(&[]);
        assert_eq!(changed, ["goals", "memory", "scratchpad"]);
        let (some, changed) = take(&["memory/b", "goals/none"]);
        assert_eq!(changed, ["memory"]);
        let (objects, sections) = (&objects, |c: &Context| c.sections(&objects.clone()).unwrap());
        assert_eq!(sections(&all), sections(&new), "{objects:?}");
        assert_eq!(sections(&some), sections(&mixed));
    }
}
