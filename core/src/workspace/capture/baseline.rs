//! The baseline of a capture: the files of the parent context, and the stat of each when its
//! content was captured.
//!
//! The context alone determines the files. A table adds stats where its section equals the section
//! of the context; files that differ between the two get no stat, so they are read. So a table
//! never causes a wrong result, only more or less work.

use std::collections::{BTreeMap, BTreeSet};

use super::table::{Table, TableBlock};
use crate::context::sections::FILES;
use crate::context::{Context, Section, Shape, text_key};
use crate::error::Result;
use crate::object::ObjectSource;
use crate::tree::{Map, diff_maps};
use crate::workspace::disk::stat::Stat;

/// Files without a stat, by folder and name, that a table lacks or has wrongly: false if the
/// context does not have the file.
type Corrections = BTreeMap<String, BTreeMap<String, bool>>;

/// The files of a context, with the known stats.
#[derive(Debug, Default)]
pub(in crate::workspace) struct Baseline<'t> {
    table: Option<&'t Table>,
    corrections: Corrections,
}

/// A file of the context, in a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::workspace) struct BaselineFile<'k> {
    pub(in crate::workspace) name: &'k str,
    pub(in crate::workspace) stat: Option<Stat>,
}

impl<'t> Baseline<'t> {
    /// Reads the files of `context`. With a table of the same section it reads only the root; with
    /// a table of another section only the differences; without a table all files.
    ///
    /// # Errors
    /// Errors of reading the context.
    pub(in crate::workspace) fn new(
        source: &dyn ObjectSource,
        context: &Context,
        table: Option<&'t Table>,
    ) -> Result<Self> {
        let section = context.section(source, FILES)?;
        let files = context.map(source, FILES)?;
        if let Some(table) = table
            && let Ok(Some(corrections)) = compare(source, table, section, &files)
        {
            return Ok(Self { table: Some(table), corrections });
        }
        let mut corrections = Corrections::new();
        for entry in files.iter(source) {
            correct(&mut corrections, &text_key(&entry?.0)?, true);
        }
        Ok(Self { table: None, corrections })
    }

    /// Returns the files in a folder, sorted by name.
    pub(in crate::workspace) fn folder<'k>(&'k self, prefix: &str) -> Vec<BaselineFile<'k>> {
        let found = self.table.and_then(|table| Some((table, table.find(prefix)?)));
        let files = found.into_iter().flat_map(|(table, block)| table.files(block));
        let Some(corrections) = self.corrections.get(prefix) else {
            return files.map(|(name, stat)| BaselineFile { name, stat }).collect();
        };
        let mut all: BTreeMap<&str, Option<Stat>> = files.collect();
        for (name, is_there) in corrections {
            if *is_there {
                all.insert(name, None);
            } else {
                all.remove(name.as_str());
            }
        }
        all.into_iter().map(|(name, stat)| BaselineFile { name, stat }).collect()
    }

    /// Returns the paths of all files with one of these names.
    pub(in crate::workspace) fn paths_named<'k>(
        &'k self,
        names: &'k [&str],
    ) -> impl Iterator<Item = String> + 'k {
        self.folders().into_iter().flat_map(move |prefix| {
            let files = self.folder(prefix).into_iter();
            let named = files.filter(move |file| names.contains(&file.name));
            named.map(move |file| format!("{prefix}{}", file.name))
        })
    }

    /// Returns a folder of the table if every file and stat in it is valid.
    pub(in crate::workspace) fn block(&self, prefix: &str) -> Option<(&'t Table, &'t TableBlock)> {
        let table = self.table.filter(|_| !self.corrections.contains_key(prefix))?;
        Some((table, table.find(prefix)?))
    }

    /// Returns every folder that has a file, in order.
    pub(in crate::workspace) fn folders(&self) -> BTreeSet<&str> {
        // The context may have no file left in a folder of the table.
        let has_files = |prefix: &&str| {
            !self.corrections.contains_key(*prefix) || !self.folder(prefix).is_empty()
        };
        let blocks = self
            .table
            .into_iter()
            .flat_map(|table| table.blocks().iter().map(|block| table.prefix(block)));
        blocks.chain(self.corrections.keys().map(String::as_str)).filter(has_files).collect()
    }

    /// Returns true if the table alone is the baseline.
    pub(in crate::workspace) fn is_table_complete(&self) -> bool {
        self.table.is_some() && self.corrections.is_empty()
    }
}

/// Returns the corrections of a table; `None` if the table does not match its section.
fn compare(
    source: &dyn ObjectSource,
    table: &Table,
    section: Option<Section>,
    files: &Map,
) -> Result<Option<Corrections>> {
    let mut corrections = Corrections::new();
    if section == Some(Section { shape: Shape::Map, id: table.root }) {
        return Ok((files.len() == table.files).then_some(corrections));
    }
    let before = Map::open(source, &table.root)?;
    if before.len() != table.files {
        return Ok(None);
    }
    for change in diff_maps(&before, files, source) {
        let change = change?;
        correct(&mut corrections, &text_key(&change.key)?, change.new.is_some());
    }
    Ok(Some(corrections))
}

fn correct(corrections: &mut Corrections, key: &str, is_there: bool) {
    let (prefix, name) = split(key);
    corrections.entry(prefix.to_owned()).or_default().insert(name.to_owned(), is_there);
}

/// Splits a key into its folder, empty or with a trailing slash, and its name.
fn split(key: &str) -> (&str, &str) {
    key.split_at(key.rfind('/').map_or(0, |slash| slash + 1))
}
