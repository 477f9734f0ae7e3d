//! The public names of the engine, as a list in `public_names.txt`, so that a review sees each change
//! of the interface. `UPDATE_GOLDENS=1` rewrites the list.

use std::collections::{BTreeMap, BTreeSet};

use regex::Regex;

use super::tidy::{files, root};

const LIST: &str = "tests/proof/public_names.txt";

/// Collects names from the source files of a crate.
struct Names {
    files: BTreeMap<String, String>,
    reexport: Regex,
    item: Regex,
    found: BTreeSet<String>,
}

impl Names {
    /// Adds the public names of the module in `folder`, as names below `path`.
    fn add_module(&mut self, folder: &str, path: &str) {
        let file = [format!("{folder}/lib.rs"), format!("{folder}/mod.rs"), format!("{folder}.rs")];
        let file = file.iter().find_map(|file| self.files.get(file));
        let text = file.unwrap_or_else(|| panic!("the file of module {folder}")).clone();
        let (reexport, item) = (self.reexport.clone(), self.item.clone());
        for found in item.captures_iter(&text) {
            let name = format!("{path}::{}", &found[2]);
            if found.get(1).is_some_and(|kind| kind.as_str() == "mod") {
                self.add_module(&format!("{folder}/{}", &found[2]), &name);
            }
            self.found.insert(name);
        }
        for found in reexport.captures_iter(&text) {
            let names = found[2].trim_matches(['{', '}']).split(',').map(str::trim);
            for name in names.filter(|name| !name.is_empty()) {
                let name = name.rsplit(' ').next().unwrap_or(name);
                let source = format!("{folder}/{}{name}", found[1].replace("::", "/"));
                if self.is_module(&source) {
                    self.add_module(&source, &format!("{path}::{name}"));
                }
                self.found.insert(format!("{path}::{name}"));
            }
        }
    }

    fn is_module(&self, folder: &str) -> bool {
        ["/mod.rs", ".rs"].iter().any(|end| self.files.contains_key(&format!("{folder}{end}")))
    }
}

#[test]
fn public_names_of_the_engine_are_those_in_the_list() {
    let mut names = Names {
        files: files("core/src", "rs"),
        reexport: Regex::new(r"(?m)^pub use (?:self::)?((?:\w+::)+)(\{[^}]*\}|[\w ]+);").unwrap(),
        item: Regex::new(r"(?m)^pub (?:const fn|(fn|struct|enum|trait|type|const|mod)) (\w+)")
            .unwrap(),
        found: BTreeSet::new(),
    };
    names.add_module("core/src", "turntree");
    let found: String = names.found.iter().map(|name| format!("{name}\n")).collect();
    let path = root().join(LIST);
    if std::env::var_os("UPDATE_GOLDENS").is_some() {
        std::fs::write(&path, &found).unwrap();
    }
    let known = std::fs::read_to_string(&path).unwrap_or_default();
    let is_listed = |list: &str, name: &str| list.lines().any(|line| line == name);
    let added: Vec<&str> = found.lines().filter(|name| !is_listed(&known, name)).collect();
    let removed: Vec<&str> = known.lines().filter(|name| !is_listed(&found, name)).collect();
    assert!(
        added.is_empty() && removed.is_empty(),
        "the public names of the engine changed: UPDATE_GOLDENS=1 rewrites {LIST}; \
         added: {added:?}, removed: {removed:?}"
    );
}
