//! The names of sections are spelled in one table: `core/src/context/sections.rs`.

use std::collections::BTreeSet;

use regex::Regex;

use super::tidy::files;

const TABLE: &str = "core/src/context/sections.rs";

/// Literals that are no section although they look like one: the namespace of a URI, a kind of
/// item, an operation, and a list of a document.
const OTHERS: [(&str, &str); 4] = [
    ("core/src/repo/vfs/uri.rs", "vfs"),
    ("exchange/src/formats/chat.rs", "reasoning"),
    ("cli/src/service/lessons.rs", "lessons"),
    ("exchange/src/formats/frameworks/codesign/document.rs", "snapshots"),
];

/// Methods that take a source of objects and then a section.
const METHODS: &str = "section|map|list|count|set|set_entry|push|clear|shape|has_entry|set_list\
    |set_blob|set_empty|set_as_in|splice|list_len";

/// Code of a file before its tests, without comments.
fn shipped(text: &str) -> String {
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.collect::<Vec<_>>().join("\n")
}

/// The names of the table.
fn names() -> BTreeSet<String> {
    let table = &files("core/src/context", "rs")[TABLE];
    let name = Regex::new(r#"const \w+: &str = "([^"]+)"|of_adapter\("([^"]+)"\)"#).unwrap();
    let code = shipped(table);
    let found = name.captures_iter(&code).filter_map(|found| found.get(1).or(found.get(2)));
    found.map(|name| name.as_str().to_owned()).collect()
}

#[test]
fn section_names_are_spelled_in_one_table() {
    let names = names();
    assert!(names.contains("files") && names.contains("adk-events"), "{names:?}");
    // A constant, the section of a call, and one side of a comparison.
    let places = [
        r#"const \w+: &(?:'static )?(?:str|\[u8\]) = b?"([^"]+)""#.to_owned(),
        r#"agent_section\([^"\n]*, "([^"]+)""#.to_owned(),
        format!(r#"\.(?:{METHODS})\((?:&mut |&)?[\w.]+(?:\(\))?, "([^"]+)""#),
        r#"\b(?:section|name|part) [!=]= "([^"]+)""#.to_owned(),
        r#"\.(?:strip_prefix|strip_suffix|starts_with|ends_with|prefix)\((?:\w+, )?b?"([^"]+)""#
            .to_owned(),
    ];
    let places = places.map(|place| Regex::new(&place).unwrap());
    let is_name = |word: &str| {
        names.contains(word) || word.starts_with("agents/") || word.ends_with("/messages")
    };
    for folder in ["core/src", "exchange/src", "cli/src"] {
        for (path, text) in files(folder, "rs") {
            if path == TABLE || path.ends_with("/tests.rs") || path.contains("/tests/") {
                continue;
            }
            let code = shipped(&text);
            for word in places.iter().flat_map(|place| place.captures_iter(&code)) {
                let word = &word[1];
                assert!(
                    !is_name(word) || OTHERS.contains(&(path.as_str(), word)),
                    "{path} spells the section \"{word}\": use its constant of {TABLE}"
                );
            }
        }
    }
}
