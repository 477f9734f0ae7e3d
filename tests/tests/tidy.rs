//! The house rules: layers, crates with one user, sizes, first lines, links.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What each layer of the library may use, besides itself and `error`.
const LAYERS: &[(&str, &[&str])] = &[
    ("object", &[]),
    ("tree", &["object"]),
    ("context", &["object", "tree"]),
    ("store", &["object"]),
    ("repo", &["object", "tree", "context", "store"]),
    ("maintenance", &["object", "tree", "context", "store", "repo"]),
    ("exchange", &["object", "tree", "context", "store", "repo"]),
    ("workspace", &["object", "tree", "context", "store", "repo", "exchange"]),
    ("agents", &["object", "tree", "context", "store", "repo", "exchange", "workspace"]),
    ("git", &["object", "tree", "context", "store", "repo", "exchange", "workspace"]),
];

/// Crates that shape a format or need care, and the one file or folder that uses each.
const FENCES: &[(&str, &str)] = &[
    ("blake3", "object/id.rs"),
    ("ciborium_ll", "object/codec.rs"),
    ("zstd", "store/format/codec.rs"),
    ("rusqlite", "exchange/sqlite/"),
    ("memmap2", "store/io.rs"),
    ("ignore", "workspace/rules.rs"),
    ("imara_diff", "context/merge/align.rs"),
    ("gix", "git/"),
    ("gix_pack", "git/pack.rs"),
];

const MAX_LINES: usize = 700;

/// Packages in the lock file: every new one is a decision. A hundred are for git, fifty for encrypted
/// bundles, thirty for the Model Context Protocol; a third are for other systems.
const MAX_PACKAGES: usize = 400;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Files of the project with `extension` below `folder`, by their path from the root.
fn files(folder: &str, extension: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let (path, name) = (entry.path(), entry.file_name());
            let hidden = name.to_string_lossy().starts_with('.');
            if path.is_dir() && !hidden && name != "target" {
                folders.push(path);
            } else if path.extension().is_some_and(|found| found == extension) {
                let relative = path.strip_prefix(root()).unwrap().to_string_lossy().into_owned();
                found.insert(relative, std::fs::read_to_string(&path).unwrap());
            }
        }
    }
    assert!(!found.is_empty(), "{folder} has no .{extension} files");
    found
}

/// The code of a file, without comments.
fn code(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.collect::<Vec<_>>().join("\n")
}

/// What a file uses of the library itself: the words after `crate::`.
fn used_layers(code: &str) -> Vec<String> {
    let word = |rest: &str| {
        rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>()
    };
    code.split("crate::").skip(1).map(word).collect()
}

#[test]
fn arrows_between_layers_never_point_back() {
    for (path, text) in files("core/src", "rs") {
        let inner = path.strip_prefix("core/src/").unwrap();
        let Some((layer, _)) = inner.split_once('/') else { continue };
        let (_, allowed) = LAYERS.iter().find(|(name, _)| *name == layer).expect(layer);
        for used in used_layers(&code(&text)) {
            let is_layer = LAYERS.iter().any(|(name, _)| *name == used);
            assert!(
                !is_layer || used == layer || allowed.contains(&used.as_str()),
                "{path} uses {used}: {layer} may use {allowed:?}"
            );
        }
    }
}

#[test]
fn crates_that_shape_a_format_have_one_user() {
    for (path, text) in files("core/src", "rs") {
        let code = code(&text);
        for (name, user) in FENCES {
            let uses = code.contains(&format!("{name}::"));
            let is_user = path.ends_with(user) || path.starts_with(&format!("core/src/{user}"));
            assert!(!uses || is_user, "{path} uses {name}, which belongs to {user}");
        }
    }
}

#[test]
fn every_file_says_its_job_first_and_stays_small() {
    for folder in ["core", "cli", "tests", "benches", "fuzz"] {
        for (path, text) in files(folder, "rs") {
            let first = text.lines().next().unwrap_or_default();
            assert!(
                first.starts_with("//! ") || first.starts_with("#!["),
                "{path} begins: {first}"
            );
            let lines = text.lines().count();
            assert!(lines <= MAX_LINES, "{path} has {lines} lines");
            assert!(!text.contains('\t'), "{path} has tabs");
        }
    }
}

#[test]
fn tests_try_the_same_in_every_run() {
    for folder in ["core", "cli", "tests", "benches", "fuzz"] {
        for (path, text) in files(folder, "rs") {
            let is_the_place = path == "tests/properties/src/lib.rs";
            let own_way = [concat!("proptest", "! {"), concat!("proptest", "_config(")];
            let has_own = own_way.iter().any(|way| text.contains(way));
            assert!(is_the_place || !has_own, "{path}: properties are stated with properties!");
        }
    }
    let check = std::fs::read_to_string(root().join(".ci/run")).unwrap();
    let page = std::fs::read_to_string(root().join("README.md")).unwrap();
    let command = "cargo test --workspace";
    assert!(page.lines().any(|line| line.split('#').next().unwrap().trim() == command));
    assert!(check.lines().any(|line| line == command), ".ci/run calls the README's command");
    assert!(!check.contains("SEED"), ".ci/run sets no seed that the README does not set");
}

#[test]
fn nothing_is_left_for_later() {
    let marks = ["todo!(", "unimplemented!(", "dbg!(", concat!("FIX", "ME")];
    for folder in ["core", "cli", "benches", "fuzz"] {
        for (path, text) in files(folder, "rs") {
            for mark in marks {
                assert!(!text.contains(mark), "{path} has {mark}");
            }
        }
    }
}

#[test]
fn the_map_names_every_folder_of_the_library() {
    let map = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    for path in files("core/src", "rs").keys() {
        let folder = Path::new(path).parent().unwrap().to_string_lossy().into_owned();
        assert!(
            folder == "core/src" || map.contains(&format!("`{folder}`")),
            "{folder} is missing"
        );
    }
}

#[test]
fn links_between_pages_lead_somewhere() {
    let mut pages = files("format-spec", "md");
    pages.extend(files("docs", "md"));
    for page in ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"] {
        pages.insert(page.to_owned(), std::fs::read_to_string(root().join(page)).unwrap());
    }
    for (page, text) in pages {
        for link in text.split("](").skip(1) {
            let target = link.split([')', '#']).next().unwrap_or_default();
            if target.is_empty() || target.contains("://") {
                continue;
            }
            let folder = root().join(&page).parent().unwrap().to_owned();
            assert!(folder.join(target).exists(), "{page} links to {target}");
        }
    }
}

#[test]
fn a_new_dependency_is_a_decision() {
    let lock = std::fs::read_to_string(root().join("Cargo.lock")).unwrap();
    let packages = lock.matches("[[package]]").count();
    assert!(packages <= MAX_PACKAGES, "{packages} packages are over the budget of {MAX_PACKAGES}");
}
