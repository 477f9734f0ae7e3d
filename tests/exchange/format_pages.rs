//! The pages of the formats list exactly the record kinds that the readers know.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use turntree_exchange::formats::FORMATS;
use turntree_exchange::{FormatReader, KindRole};

/// Formats documented on the page of another format.
const PAGES: &[(&str, &str)] = &[("gemini-cli-log", "gemini-cli")];

/// Returns the rows of the first table of record kinds: the name and the role, with the reason if it is ignored.
fn rows_of(page: &str) -> BTreeMap<String, String> {
    let section = page.split("\n## Record kinds\n").nth(1).unwrap_or_default();
    let section = section.split("\n## ").next().unwrap_or_default();
    let row = |line: &str| {
        let mut cells = line.strip_prefix('|')?.split('|').map(str::trim);
        let name = cells.next()?.strip_prefix('`')?.strip_suffix('`')?.to_owned();
        Some((name, cells.next()?.to_owned()))
    };
    let lines = section.lines().skip_while(|line| !line.starts_with('|'));
    lines.take_while(|line| line.starts_with('|')).filter_map(row).collect()
}

#[test]
fn pages_list_the_record_kinds_that_readers_know() {
    let pages = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference/formats");
    let mut checked = 0;
    for format in FORMATS {
        let FormatReader::Records(records) = &format.reader else { continue };
        if records.kinds.is_empty() {
            continue;
        }
        let name = PAGES.iter().find(|(name, _)| *name == format.name);
        let name = name.map_or(format.name, |(_, page)| page);
        let page = fs::read_to_string(pages.join(format!("{name}.md"))).unwrap();
        let known: BTreeMap<String, String> = records
            .kinds
            .iter()
            .map(|kind| {
                let role = match kind.role {
                    KindRole::Ignored(reason) => format!("ignored: {reason}"),
                    role => role.name().to_owned(),
                };
                (kind.name.to_owned(), role)
            })
            .collect();
        assert_eq!(known.len(), records.kinds.len(), "{name} lists a kind twice");
        assert_eq!(rows_of(&page), known, "formats/{name}.md and the table of the reader");
        checked += 1;
    }
    assert!(checked > 0);
}
