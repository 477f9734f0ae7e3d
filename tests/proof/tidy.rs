//! The house rules: layers, no dependency cycles, crates with one user, sizes, first lines, links.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use turntree_tests::sources::{Arrows, arrows, circle};

/// The modules that each layer of the engine may use, besides itself and `error`.
const LAYERS: Table = &[
    ("platform", &[]),
    ("object", &[]),
    ("tree", &["object"]),
    ("context", &["object", "tree"]),
    ("store", &["object", "platform"]),
    ("repo", &["object", "tree", "context", "store"]),
    ("maintenance", &["object", "tree", "context", "store", "repo"]),
    ("workspace", &["platform", "object", "tree", "context", "store", "repo"]),
    ("transfer", &["platform", "object", "tree", "context", "store", "repo"]),
    (
        "local",
        &["platform", "object", "tree", "context", "store", "repo", "maintenance", "workspace"],
    ),
];

/// The modules that each room of the exchange may use, besides itself.
const ROOMS: Table = &[
    ("text", &[]),
    ("model", &["text"]),
    ("secrets", &["text"]),
    ("import", &["text", "model", "secrets"]),
    ("formats", &["text", "model", "secrets", "import"]),
    ("insight", &["text", "model", "secrets", "import", "formats"]),
    ("search", &["text", "model", "formats"]),
    ("render", &["text", "model", "secrets", "import", "formats", "insight"]),
    ("git", &["text", "model", "secrets", "import", "formats", "insight", "render"]),
    ("replay", &["text", "model", "import", "formats", "insight", "render"]),
    ("agents", &["text", "model", "secrets", "import", "formats", "insight", "render"]),
];

/// The modules that each room of the command line may use, besides itself.
const CLI: Table = &[
    ("platform", &[]),
    ("view", &["platform"]),
    ("loopback", &[]),
    ("program", &["platform", "view"]),
    ("porcelain", &["platform", "view", "program"]),
    ("hook", &["platform", "view", "program", "porcelain"]),
    ("explore", &["platform", "view", "program", "porcelain", "hook"]),
    ("service", &["platform", "view", "program", "porcelain", "explore"]),
    ("viewer", &["platform", "view", "loopback", "program", "porcelain"]),
    ("replay", &["view", "loopback", "program"]),
    ("terminal", &["platform", "view", "program", "porcelain"]),
    (
        "commands",
        &[
            "platform",
            "view",
            "loopback",
            "program",
            "porcelain",
            "hook",
            "explore",
            "viewer",
            "replay",
            "terminal",
        ],
    ),
];

/// The commands that start the service.
const SERVERS: [&str; 2] = ["cli/src/commands/mcp.rs", "cli/src/commands/serve.rs"];

type Table = &'static [(&'static str, &'static [&'static str])];

/// Crates that determine a format or need care, with the files or folders that may use each.
const FENCES: &[(&str, &[&str])] = &[
    ("blake3", &["core/src/object/id.rs", "core/src/object/lanes.rs"]),
    ("chacha20poly1305", &["core/src/transfer/remote/sealed.rs"]),
    ("ciborium_ll", &["core/src/object/codec.rs"]),
    ("chacha20", &["core/src/store/encryption/cipher.rs"]),
    ("aes", &["core/src/store/encryption/cipher.rs"]),
    ("ctr", &["core/src/store/encryption/cipher.rs"]),
    ("zstd", &["core/src/store/format/codec.rs", "exchange/src/text/zstd.rs"]),
    (
        "rusqlite",
        &[
            "exchange/src/text/sqlite/",
            "exchange/src/search/index/",
            "exchange/src/search/tests.rs",
        ],
    ),
    (
        "unicode_normalization",
        &["core/src/workspace/disk/clash.rs", "exchange/src/search/words.rs"],
    ),
    ("memmap2", &["core/src/platform/unix/mapping.rs"]),
    ("windows_sys", &["core/src/platform/windows/"]),
    ("ignore", &["core/src/workspace/git/patterns.rs", "core/src/workspace/capture/rules.rs"]),
    ("reed_solomon_simd", &["core/src/store/parity/code.rs"]),
    ("imara_diff", &["core/src/context/merge/align.rs"]),
    ("basic_toml", &["exchange/src/insight/prices.rs", "cli/src/explore/plan.rs"]),
    ("gix", &["exchange/src/git/"]),
    ("ring", &["exchange/src/render/page/seal.rs"]),
    ("object_store", &["cli/src/program/storage/"]),
    ("hyper", &["cli/src/loopback/", "cli/src/viewer/", "cli/src/replay/"]),
    ("hyper_util", &["cli/src/loopback/"]),
    ("ratatui_core", &["cli/src/terminal/"]),
    ("ureq", &["cli/src/program/storage/http.rs", "cli/src/program/storage/relay.rs"]),
    ("rustls", &["cli/src/program/storage/http.rs", "cli/src/program/database/tls.rs"]),
    ("postgres", &["cli/src/program/database/"]),
    ("gix_pack", &["exchange/src/git/pack.rs"]),
];

const MAX_LINES: usize = 700;

/// The maximum number of packages in the lock file: every new one is a decision. A hundred are for
/// git, fifty for encrypted bundles, thirty for the Model Context Protocol, sixty for object
/// storage, twenty for PostgreSQL, ten for the cells of a terminal; a third are for other systems.
const MAX_PACKAGES: usize = 513;

pub(super) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Files of the project with `extension` below `folder`, by their path from the root.
pub(super) fn files(folder: &str, extension: &str) -> BTreeMap<String, String> {
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

/// The files of a crate that each file uses, by their paths below `folder`.
fn arrows_in(folder: &str) -> Arrows {
    let inner = |path: String| path[folder.len() + 1..].to_owned();
    arrows(&files(folder, "rs").into_iter().map(|(path, text)| (inner(path), text)).collect())
}

/// True if code has a path that begins with the name of this crate.
fn uses_crate(code: &str, name: &str) -> bool {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let name = format!("{name}::");
    let mut places = code.match_indices(&name).map(|(at, _)| &code[..at]);
    places.any(|before| !before.trim_end_matches("::").ends_with(is_name))
}

/// The modules of the crate that a file names, tests included: the words after `crate::`.
fn words_of_crate(code: &str) -> Vec<String> {
    let word = |rest: &str| {
        rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>()
    };
    code.split("crate::").skip(1).map(word).collect()
}

#[test]
fn arrows_between_layers_never_point_back() {
    for (folder, table) in [("core/src", LAYERS), ("exchange/src", ROOMS), ("cli/src", CLI)] {
        let check = |path: &str, used: &str| {
            let inner = path.strip_prefix(folder).unwrap().trim_start_matches('/');
            let Some((layer, _)) = inner.split_once('/') else { return };
            let (_, allowed) = table.iter().find(|(name, _)| *name == layer).expect(layer);
            let is_layer = table.iter().any(|(name, _)| *name == used);
            if used == "service" && SERVERS.contains(&path) {
                return;
            }
            assert!(
                !is_layer || used == layer || allowed.contains(&used),
                "{path} uses {used}: {layer} may use {allowed:?}"
            );
        };
        for (path, used) in arrows_in(folder) {
            used.iter().for_each(|used| {
                check(&format!("{folder}/{path}"), used.split('/').next().unwrap());
            });
        }
        for (path, text) in files(folder, "rs") {
            words_of_crate(&code(&text)).iter().for_each(|used| check(&path, used));
        }
    }
}

#[test]
fn no_circle_of_files_but_parent_and_child() {
    for folder in ["core/src", "exchange/src", "cli/src"] {
        let arrows = arrows_in(folder);
        assert!(arrows.values().any(|used| !used.is_empty()), "{folder} has no arrows");
        let circle = circle(&arrows).map(|files| files.join(" -> "));
        assert_eq!(circle, None, "files of {folder} use each other");
    }
}

#[test]
fn the_engine_knows_nothing_of_the_exchange() {
    for (path, text) in files("core", "rs") {
        assert!(!code(&text).contains("turntree_exchange"), "{path} uses the exchange");
    }
}

#[test]
fn crates_that_shape_a_format_have_one_user() {
    for folder in ["core/src", "exchange/src", "cli/src"] {
        for (path, text) in files(folder, "rs") {
            let code = code(&text);
            for (name, users) in FENCES {
                let is_user = users.iter().any(|user| path.starts_with(user));
                assert!(
                    is_user || !uses_crate(&code, name),
                    "{path} uses {name}, which belongs to {users:?}"
                );
            }
        }
    }
}

#[test]
fn every_file_says_its_job_first_and_stays_small() {
    for folder in ["core", "exchange", "cli", "bindings", "tests", "benches", "fuzz"] {
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
fn every_file_of_a_test_binary_is_a_module_of_it() {
    for binary in ["engine", "exchange", "cli", "proof"] {
        let files = files(&format!("tests/{binary}"), "rs");
        let main = &files[&format!("tests/{binary}/main.rs")];
        for path in files.keys() {
            let module = Path::new(path).file_stem().unwrap().to_string_lossy();
            let is_module = main.lines().any(|line| line == format!("mod {module};"));
            assert!(module == "main" || is_module, "{path} is not tested: name it in main.rs");
        }
    }
}

#[test]
fn tests_try_the_same_in_every_run() {
    for folder in ["core", "exchange", "cli", "bindings", "tests", "benches", "fuzz"] {
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
    assert!(check.contains(&format!("{command} ")), ".ci/run calls the README's command");
    assert!(!check.contains("SEED"), ".ci/run sets no seed that the README does not set");
}

#[test]
fn every_property_is_a_test() {
    for folder in ["core", "exchange", "cli", "bindings", "tests", "benches", "fuzz"] {
        for (path, text) in files(folder, "rs") {
            let (mut depth, mut is_test) = (None, false);
            for line in text.lines() {
                let (indent, code) = (line.len() - line.trim_start().len(), line.trim());
                match depth {
                    None if code == "turntree_properties::properties! {" => depth = Some(indent),
                    Some(of_block) if code == "}" && indent == of_block => depth = None,
                    Some(of_block) if code.starts_with("fn ") && indent == of_block + 4 => {
                        assert!(is_test, "{path}: no test runs this property: {code}");
                        is_test = false;
                    }
                    _ => is_test |= code == "#[test]",
                }
            }
        }
    }
}

#[test]
fn nothing_is_left_for_later() {
    let marks = ["todo!(", "unimplemented!(", "dbg!(", concat!("FIX", "ME")];
    for folder in ["core", "exchange", "cli", "bindings", "benches", "fuzz"] {
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
    for source in ["core/src", "exchange/src"] {
        for path in files(source, "rs").keys() {
            let folder = Path::new(path).parent().unwrap().to_string_lossy().into_owned();
            assert!(
                folder == source || map.contains(&format!("`{folder}`")),
                "{folder} is missing"
            );
        }
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
fn only_the_front_door_asks_the_system_for_clock_and_randomness() {
    for folder in ["core/src", "exchange/src"] {
        for (path, text) in files(folder, "rs") {
            let code = code(&text);
            for asked in ["SystemTime::now", "RandomState", "Utc::now", "env::var("] {
                let is_the_place = path == "core/src/local/system.rs";
                assert!(is_the_place || !code.contains(asked), "{path} asks for {asked}");
            }
        }
    }
}

#[test]
fn a_new_dependency_is_a_decision() {
    let lock = std::fs::read_to_string(root().join("Cargo.lock")).unwrap();
    let packages = lock.matches("[[package]]").count();
    assert!(packages <= MAX_PACKAGES, "{packages} packages are over the budget of {MAX_PACKAGES}");
}
