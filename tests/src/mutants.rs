//! Parses the list of seeded mutants in `tests/mutants.md`.

use std::path::{Path, PathBuf};

/// A guarantee that is removed from the code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mutant {
    /// The name at the command line.
    pub name: String,
    /// The removed guarantee, in a sentence.
    pub removed: String,
    /// The changed file, relative to the project.
    pub file: PathBuf,
    /// The text in it that is replaced.
    pub find: String,
    /// The replacement text.
    pub replace: String,
    /// The tests that must detect it, each as arguments of `cargo test`. One of them suffices.
    pub tests: Vec<String>,
}

/// The folder of the project.
#[must_use]
pub fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests are in a folder").to_owned()
}

/// Returns every mutant, in the order of the list.
///
/// # Panics
/// If the list does not have its documented format.
#[must_use]
pub fn list() -> Vec<Mutant> {
    let text = include_str!("../mutants.md");
    text.split("\n### ").skip(1).map(parse).collect()
}

fn parse(entry: &str) -> Mutant {
    // The heading of the next group may follow the last code block.
    let mut parts = entry.split("```");
    let mut next = || parts.next().unwrap_or_else(|| panic!("a mutant that is cut off: {entry}"));
    let (head, find, _, replace) = (next(), next(), next(), next());
    let code = |block: &str| {
        let text = block.strip_prefix("rust\n").expect("a block of Rust");
        text.strip_suffix('\n').unwrap_or(text).to_owned()
    };
    let mut lines = head.lines().filter(|line| !line.is_empty());
    let mut line = || lines.next().map(str::to_owned).expect("a name and a sentence");
    let (name, removed) = (line(), line());
    let field = |prefix: &'static str| {
        let quoted = head.lines().filter_map(move |line| line.strip_prefix(prefix));
        quoted.map(|text| text.trim_matches('`').to_owned())
    };
    let file = field("- file: ").next().expect("the file of a mutant").into();
    let tests = field("- test: ").collect();
    Mutant { name, removed, file, find: code(find), replace: code(replace), tests }
}
