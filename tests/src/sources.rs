//! Reads Rust sources as text: the dependencies between the files of a crate, and cycles among
//! them.
//!
//! Names in `use` statements and paths in the code are followed through re-exports to the file that
//! defines them. Modules under `#[cfg(test)]` are left out. There is no macro expansion and no
//! scope below a file: an import inside a function counts for the whole file.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

/// The files that each file uses, by their paths in the crate.
pub type Arrows = BTreeMap<String, BTreeSet<String>>;

/// Names of modules, from the root of the crate.
type Path = Vec<String>;

/// The most re-exports that are followed for one name.
const MAX_STEPS: usize = 16;

/// Finds the files that each file uses. `files` are those of one crate, by their paths below its
/// `src`.
#[must_use]
pub fn arrows(files: &BTreeMap<String, String>) -> Arrows {
    let parsed = files.iter().map(|(path, text)| (module_of(path), File::parse(path, text)));
    let mut krate = Crate { files: parsed.collect() };
    let tests = krate.files.iter().flat_map(|(module, file)| {
        file.tests.iter().map(|name| [module.as_slice(), std::slice::from_ref(name)].concat())
    });
    let tests: Vec<Path> = tests.collect();
    krate.files.retain(|module, _| !tests.iter().any(|test| module.starts_with(test)));
    let used = krate.files.iter().map(|(module, file)| {
        let names = file.imports.values().chain(&file.paths);
        let found = names.filter_map(|path| krate.file_of(krate.absolute(module, path)?));
        let others = found.filter(|other| *other != file.path).map(str::to_owned);
        (file.path.clone(), others.collect())
    });
    used.collect()
}

/// The shortest cycle of files, in the order of its dependencies, or `None`. Dependencies between a
/// module and its submodules are left out.
#[must_use]
pub fn circle(arrows: &Arrows) -> Option<Vec<String>> {
    let circles = arrows.keys().filter_map(|start| {
        let mut came_from: HashMap<&str, &str> = HashMap::new();
        let mut open = VecDeque::from([start.as_str()]);
        while let Some(at) = open.pop_front() {
            for next in arrows.get(at).into_iter().flatten().filter(|next| !is_inside(at, next)) {
                if !came_from.contains_key(next.as_str()) {
                    came_from.insert(next, at);
                    open.push_back(next);
                }
            }
        }
        let mut circle = vec![start.clone()];
        let mut at = *came_from.get(start.as_str())?;
        while at != start {
            circle.push(at.to_owned());
            at = came_from[at];
        }
        circle.push(start.clone());
        circle.reverse();
        Some(circle)
    });
    circles.min_by_key(Vec::len)
}

/// True if one of two files is a module that contains the other.
fn is_inside(a: &str, b: &str) -> bool {
    let (a, b) = (module_of(a), module_of(b));
    a.starts_with(&b) || b.starts_with(&a)
}

fn module_of(path: &str) -> Path {
    let mut names: Path = path.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
    if names.last().is_some_and(|name| matches!(name.as_str(), "mod" | "lib")) {
        names.pop();
    }
    names
}

struct Crate {
    files: BTreeMap<Path, File>,
}

impl Crate {
    /// Resolves a path in `module` from the root of the crate. `None` if it is outside the crate.
    fn absolute(&self, module: &[String], path: &[String]) -> Option<Path> {
        let (first, rest) = path.split_first()?;
        let mut at = module.to_vec();
        match first.as_str() {
            "crate" => Some(rest.to_vec()),
            "self" => Some([at.as_slice(), rest].concat()),
            "super" => {
                at.pop()?;
                if rest.first().is_some_and(|name| name == "super") {
                    return self.absolute(&at, rest);
                }
                Some([at.as_slice(), rest].concat())
            }
            name => {
                at.push(name.to_owned());
                if self.files.contains_key(&at) {
                    return Some([at.as_slice(), rest].concat());
                }
                let import = self.files.get(module)?.imports.get(name)?;
                // An import by the name of a crate would resolve to itself.
                let is_own = import.first().is_some_and(|first| first != name);
                let import = is_own.then(|| self.absolute(module, import))??;
                Some([import.as_slice(), rest].concat())
            }
        }
    }

    /// The file that defines `path`.
    fn file_of(&self, mut path: Path) -> Option<&str> {
        for _ in 0..MAX_STEPS {
            let known =
                (0..=path.len()).rev().find(|end| self.files.contains_key(&path[..*end]))?;
            let (module, rest) = path.split_at(known);
            let file = &self.files[module];
            let Some(import) = rest.first().and_then(|name| file.imports.get(name)) else {
                return Some(&file.path);
            };
            path = [self.absolute(module, import)?.as_slice(), &rest[1..]].concat();
        }
        None
    }
}

/// The imports and paths of a file.
#[derive(Default)]
struct File {
    path: String,
    /// The paths that `use` imports, by their local names.
    imports: HashMap<String, Path>,
    /// Other paths in its code.
    paths: Vec<Path>,
    /// Modules in their own files that exist only for tests.
    tests: Vec<String>,
}

impl File {
    fn parse(path: &str, text: &str) -> Self {
        let tokens = tokens(text);
        let tokens: Vec<&str> = tokens.iter().map(String::as_str).collect();
        let mut file = Self { path: path.to_owned(), ..Self::default() };
        let mut at = 0;
        while at < tokens.len() {
            at = match &tokens[at..] {
                ["#", "[", "cfg", "(", "test", ")", "]", ..] => file.test_module(&tokens, at + 7),
                ["pub", "(", ..] => behind(&tokens, at + 1),
                ["use", next, ..] if *next != "<" => file.import(&tokens, at + 1, &[]) + 1,
                [first, "::", ..] if is_name(first) && !is_continued(&tokens, at) => {
                    file.path_at(&tokens, at)
                }
                _ => at + 1,
            };
        }
        file
    }

    /// Skips a test module. Returns the position after it, or of the next item.
    fn test_module(&mut self, tokens: &[&str], mut at: usize) -> usize {
        while let ["#", "[", ..] = &tokens[at..] {
            at = behind(tokens, at + 1);
        }
        match &tokens[at..] {
            ["mod", _, "{", ..] => behind(tokens, at + 2),
            ["mod", name, ";", ..] => {
                self.tests.push((*name).to_owned());
                at + 3
            }
            _ => at,
        }
    }

    /// Adds the imports of a `use` tree below `prefix`. Returns the position after it.
    fn import(&mut self, tokens: &[&str], mut at: usize, prefix: &[String]) -> usize {
        let mut path = prefix.to_vec();
        loop {
            match &tokens[at..] {
                ["{", ..] => {
                    at += 1;
                    while tokens[at] != "}" {
                        at = self.import(tokens, at, &path);
                        at += usize::from(tokens[at] == ",");
                    }
                    return at + 1;
                }
                ["as", name, ..] => {
                    self.imports.insert((*name).to_owned(), path);
                    return at + 2;
                }
                // Another crate.
                ["::", ..] if path.is_empty() => path.push("::".to_owned()),
                ["::", ..] => {}
                ["self", ..] if !prefix.is_empty() => {}
                ["*", ..] => {
                    self.paths.push(path);
                    return at + 1;
                }
                [name, ..] if is_name(name) => path.push((*name).to_owned()),
                _ => {
                    let name = path.last().cloned().unwrap_or_default();
                    self.imports.insert(name, path);
                    return at;
                }
            }
            at += 1;
        }
    }

    /// Adds the path at `at`. Returns the position after it.
    fn path_at(&mut self, tokens: &[&str], mut at: usize) -> usize {
        let mut path = vec![tokens[at].to_owned()];
        while let ["::", name, ..] = &tokens[at + 1..]
            && is_name(name)
        {
            path.push((*name).to_owned());
            at += 2;
        }
        self.paths.push(path);
        at + 1
    }
}

/// True if a name continues an earlier token: a path or a value.
fn is_continued(tokens: &[&str], at: usize) -> bool {
    at.checked_sub(1).is_some_and(|before| matches!(tokens[before], "::" | "." | "$"))
}

fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// The position after the bracket that closes the one at `at`.
fn behind(tokens: &[&str], at: usize) -> usize {
    let mut depth = 0;
    for (number, token) in tokens.iter().enumerate().skip(at) {
        match *token {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return number + 1;
        }
    }
    tokens.len()
}

/// The words and symbols of a text, without comments, strings, characters and lifetimes.
fn tokens(text: &str) -> Vec<String> {
    let text: Vec<char> = text.chars().collect();
    let is = |at: usize, sign: &str| text[at..].iter().copied().take(sign.len()).eq(sign.chars());
    let find = |at: usize, sign: &str| (at..text.len()).find(|at| is(*at, sign));
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < text.len() {
        at = match text[at] {
            '/' if is(at, "//") => find(at, "\n").unwrap_or(text.len()),
            '/' if is(at, "/*") => find(at, "*/").map_or(text.len(), |end| end + 2),
            '"' => string_end(&text, at + 1),
            '\'' if is(at + 1, "\\") => find(at + 3, "'").map_or(text.len(), |end| end + 1),
            '\'' if text.get(at + 2) == Some(&'\'') => at + 3,
            '\'' => word_end(&text, at + 1),
            ':' if is(at, "::") => {
                tokens.push("::".to_owned());
                at + 2
            }
            c if c.is_alphanumeric() || c == '_' => {
                let end = word_end(&text, at);
                let word: String = text[at..end].iter().collect();
                let hashes = text[end..].iter().take_while(|c| **c == '#').count();
                if matches!(word.as_str(), "r" | "br" | "cr") && is(end + hashes, "\"") {
                    let close = format!("\"{}", "#".repeat(hashes));
                    find(end + hashes + 1, &close).map_or(text.len(), |at| at + close.len())
                } else {
                    tokens.push(word);
                    end
                }
            }
            c if c.is_whitespace() => at + 1,
            c => {
                tokens.push(c.to_string());
                at + 1
            }
        };
    }
    tokens
}

fn word_end(text: &[char], from: usize) -> usize {
    let rest = text[from..].iter();
    from + rest.take_while(|c| c.is_alphanumeric() || **c == '_').count()
}

fn string_end(text: &[char], mut at: usize) -> usize {
    while at < text.len() {
        match text[at] {
            '"' => return at + 1,
            '\\' => at += 2,
            _ => at += 1,
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crate_of(files: &[(&str, &str)]) -> Arrows {
        let files = files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned()));
        arrows(&files.collect())
    }

    fn used(files: &[(&str, &str)], path: &str) -> Vec<String> {
        crate_of(files)[path].iter().cloned().collect()
    }

    const BELOW: [(&str, &str); 4] = [
        ("lib.rs", "mod a; mod b; pub use b::{Inner, own as renamed};"),
        ("b/mod.rs", "mod inner; mod own; pub(crate) use self::inner::Inner; pub use own::own;"),
        ("b/inner.rs", "pub struct Inner;"),
        ("b/own.rs", "pub fn own() {}"),
    ];

    fn used_by(text: &str) -> Vec<String> {
        let files: Vec<_> = BELOW.into_iter().chain([("a.rs", text)]).collect();
        used(&files, "a.rs")
    }

    #[test]
    fn names_are_followed_to_the_file_that_defines_them() {
        assert_eq!(used_by("use crate::b::Inner;"), ["b/inner.rs"]);
        assert_eq!(used_by("use super::{Inner as Other, renamed};"), ["b/inner.rs", "b/own.rs"]);
        assert_eq!(
            used_by("use crate::{self as root, b::{own::{self}, Inner}};"),
            ["b/inner.rs", "b/own.rs", "lib.rs"]
        );
        assert_eq!(used_by("fn f() { crate::b::own(); }"), ["b/own.rs"]);
        assert_eq!(used_by("use crate::b; fn f(_: b::Inner) {}"), ["b/inner.rs", "b/mod.rs"]);
        assert_eq!(used_by("use super::b::*;"), ["b/mod.rs"]);
    }

    #[test]
    fn what_is_no_path_of_the_crate_is_nothing() {
        let quoted = r##"const A: &str = "crate::b::Inner"; const B: &[u8] = br#""crate::b"#;"##;
        assert!(used_by(quoted).is_empty());
        assert!(used_by("// crate::b::Inner\n/* crate::b */ /// [`crate::b::own`]").is_empty());
        assert!(used_by("const Q: char = '\"'; fn f<'b>(a: &'b str) {} // \" crate::b").is_empty());
        assert!(used_by("use ::b::Inner; use std::b; pub(in crate::b) struct A;").is_empty());
        assert!(used_by("#[cfg(test)]\n#[allow(x)]\nmod t { use crate::b::own; }").is_empty());
    }

    #[test]
    fn modules_for_tests_are_left_out() {
        let files = [
            ("lib.rs", "mod a; #[cfg(test)] mod t;"),
            ("a.rs", ""),
            ("t/mod.rs", "mod u; use crate::a::A;"),
            ("t/u.rs", "use crate::a::A;"),
        ];
        assert_eq!(crate_of(&files).into_keys().collect::<Vec<_>>(), ["a.rs", "lib.rs"]);
    }

    #[test]
    fn circles_are_found_but_for_those_with_a_parent() {
        let mut files = vec![
            ("lib.rs", "mod a; use crate::a::A; pub struct L;"),
            ("a/mod.rs", "mod b; mod c; mod d; pub(crate) use b::A; use c::C;"),
            ("a/b.rs", "use super::C; use crate::L; pub(crate) struct A;"),
            ("a/c.rs", "use super::d::D; pub(crate) struct C;"),
            ("a/d.rs", ""),
        ];
        assert_eq!(circle(&crate_of(&files)), None);
        files[4].1 = "use crate::a::A;";
        let circle = circle(&crate_of(&files)).unwrap();
        assert_eq!(circle, ["a/b.rs", "a/c.rs", "a/d.rs", "a/b.rs"]);
    }
}
