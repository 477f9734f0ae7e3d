//! The git settings that affect ignoring: `core.excludesFile`, `core.ignoreCase`,
//! `extensions.objectFormat`, `extensions.worktreeConfig`, and included files.

use std::path::{Path, PathBuf};

use super::patterns::matches_path;
use super::read::read_file;

/// Maximum bytes of a settings file.
const MAX_CONFIG_BYTES: u64 = 1 << 20;

/// Maximum depth of nested includes, as in git.
const MAX_DEPTH: usize = 10;

/// Settings of git; a later one wins.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Settings {
    /// The excludes file; an empty path for none.
    pub(super) excludes: Option<PathBuf>,
    /// Names that differ only by case are equal.
    pub(super) ignores_case: bool,
    /// The repository uses SHA-256 ids.
    pub(super) is_sha256: bool,
    /// The working tree has its own settings.
    pub(super) has_worktree_config: bool,
    /// Unreadable files and unsupported settings.
    pub(super) warnings: Vec<String>,
}

/// The values that conditional includes test.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ConfigScope<'a> {
    pub(super) home: Option<&'a Path>,
    /// The canonical directory of the repository.
    pub(super) git_dir: Option<&'a Path>,
    /// The branch that is checked out.
    pub(super) branch: Option<&'a str>,
}

impl Settings {
    /// Reads a settings file on top of the known settings.
    pub(super) fn read(&mut self, path: &Path, scope: &ConfigScope<'_>) {
        self.read_file(path, scope, 0);
    }

    fn read_file(&mut self, path: &Path, scope: &ConfigScope<'_>, depth: usize) {
        let bytes = match read_file(path, MAX_CONFIG_BYTES) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return,
            Err(warning) => return self.warnings.push(warning),
        };
        let Some(entries) = entries(&String::from_utf8_lossy(&bytes)) else {
            let broken = format!("{} is not a git config file", path.display());
            return self.warnings.push(broken);
        };
        for Entry { section, name, key, value } in entries {
            match (section.as_str(), key.as_str()) {
                ("core" | "extensions", _) if !name.is_empty() => {}
                ("core", "excludesfile") => {
                    if let Some(file) = expand_path(&value, scope.home) {
                        self.excludes = Some(file);
                    }
                }
                ("core", "ignorecase") => self.ignores_case = is_true(&value),
                ("extensions", "objectformat") => {
                    self.is_sha256 = value.eq_ignore_ascii_case("sha256");
                }
                ("extensions", "worktreeconfig") => {
                    self.has_worktree_config = is_true(&value);
                }
                ("include" | "includeif", "path") => {
                    let holds = section == "include" || scope.is_condition_true(&name, path);
                    if let Some(file) = expand_path(&value, scope.home).filter(|_| holds) {
                        let file = path.parent().unwrap_or(path).join(file);
                        if depth < MAX_DEPTH {
                            self.read_file(&file, scope, depth + 1);
                        }
                    }
                }
                _ => {}
            }
        }
    }
}

impl ConfigScope<'_> {
    /// Returns true if the condition of an `includeIf` in the file `from` holds.
    fn is_condition_true(&self, condition: &str, from: &Path) -> bool {
        let Some((kind, pattern)) = condition.split_once(':') else { return false };
        match kind {
            "gitdir" | "gitdir/i" => {
                let Some(dir) = self.git_dir else { return false };
                let mut pattern = match pattern.strip_prefix("./") {
                    Some(inside) => {
                        let folder = from.parent().unwrap_or(from);
                        format!("{}/{inside}", folder.display())
                    }
                    None => match expand_path(pattern, self.home) {
                        Some(path) => path.to_string_lossy().into_owned(),
                        None => return false,
                    },
                };
                if pattern.ends_with('/') || condition.ends_with('/') {
                    pattern = format!("{}/**", pattern.trim_end_matches('/'));
                }
                if !pattern.starts_with('/') {
                    pattern = format!("**/{pattern}");
                }
                matches_path(&pattern, dir, kind == "gitdir/i")
            }
            "onbranch" => {
                let Some(branch) = self.branch else { return false };
                let all = if pattern.ends_with('/') { "**" } else { "" };
                matches_path(&format!("/{pattern}{all}"), Path::new(branch), false)
            }
            _ => false,
        }
    }
}

fn is_true(value: &str) -> bool {
    ["true", "yes", "on", "1"].iter().any(|yes| value.eq_ignore_ascii_case(yes))
}

/// Expands a path in settings: `~/` is the home directory. `None` for paths that depend on git's
/// installation, or on other users.
fn expand_path(value: &str, home: Option<&Path>) -> Option<PathBuf> {
    if let Some(inside) = value.strip_prefix("~/") {
        return home.map(|home| home.join(inside));
    }
    if value.starts_with('~') || value.starts_with("%(") {
        return None;
    }
    Some(PathBuf::from(value))
}

/// A setting: its section and key in lower case, and the name of a subsection unchanged.
#[derive(Debug, PartialEq, Eq)]
struct Entry {
    section: String,
    name: String,
    key: String,
    value: String,
}

/// Parses the settings in a file; `None` if it is not a settings file.
fn entries(text: &str) -> Option<Vec<Entry>> {
    let (mut found, mut section, mut name) = (Vec::new(), String::new(), String::new());
    let mut rest = text.strip_prefix('\u{feff}').unwrap_or(text);
    loop {
        rest = rest.trim_start();
        let Some(first) = rest.chars().next() else { return Some(found) };
        match first {
            '#' | ';' => rest = rest.split_once('\n').map_or("", |(_, rest)| rest),
            '[' => {
                (section, name, rest) = header(rest.get(1..)?)?;
            }
            first if first.is_ascii_alphabetic() => {
                let is_key = |c: char| c.is_ascii_alphanumeric() || c == '-';
                let end = rest.find(|c| !is_key(c)).unwrap_or(rest.len());
                let (key, after) = rest.split_at(end);
                let after = after.trim_start_matches([' ', '\t']);
                let (value, after) = match after.strip_prefix('=') {
                    Some(after) => value(after)?,
                    // A key without a value is true.
                    None => ("true".to_owned(), after.split_once('\n').map_or("", |(_, it)| it)),
                };
                let (section, name) = (section.clone(), name.clone());
                found.push(Entry { section, name, key: key.to_ascii_lowercase(), value });
                rest = after;
            }
            _ => return None,
        }
    }
}

/// Parses section and subsection of a header after its bracket; also returns the remaining text.
fn header(text: &str) -> Option<(String, String, &str)> {
    let end = text.find([']', '"', '\n'])?;
    let section = text.get(..end)?.trim_end();
    let mut rest = text.get(end..)?;
    if let Some(after) = rest.strip_prefix(']') {
        // The old spelling of a subsection.
        let (section, name) = section.split_once('.').unwrap_or((section, ""));
        return Some((section.to_ascii_lowercase(), name.to_owned(), after));
    }
    rest = rest.strip_prefix('"')?;
    let mut name = String::new();
    loop {
        let mut chars = rest.chars();
        match chars.next()? {
            '"' => break rest = chars.as_str(),
            '\n' => return None,
            '\\' => name.push(chars.next()?),
            c => name.push(c),
        }
        rest = chars.as_str();
    }
    Some((section.to_ascii_lowercase(), name, rest.strip_prefix(']')?))
}

/// Parses a value after the equals sign; also returns the text after its line.
fn value(text: &str) -> Option<(String, &str)> {
    let (mut value, mut quoted, mut kept) = (String::new(), false, 0);
    let mut chars = text.trim_start_matches([' ', '\t']).chars();
    loop {
        match chars.next() {
            None if quoted => return None,
            None | Some('\n') if !quoted => break,
            Some('\n') => return None,
            Some('#' | ';') if !quoted => {
                let rest = chars.as_str();
                value.truncate(kept);
                return Some((value, rest.split_once('\n').map_or("", |(_, rest)| rest)));
            }
            Some('"') => {
                quoted = !quoted;
                kept = value.len();
            }
            Some('\\') => match chars.next()? {
                '\n' => {}
                '\r' if chars.as_str().starts_with('\n') => drop(chars.next()),
                'n' => value.push('\n'),
                't' => value.push('\t'),
                'b' => drop(value.pop()),
                c @ ('"' | '\\') => value.push(c),
                _ => return None,
            },
            Some(c) => value.push(c),
            None => break,
        }
        // Trailing space counts only inside of quotes.
        if quoted || !value.ends_with([' ', '\t', '\r']) {
            kept = value.len();
        }
    }
    value.truncate(kept);
    Some((value, chars.as_str()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn read(files: &[(&str, &str)], scope: &ConfigScope<'_>) -> Settings {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(folder.path().join(name), text).unwrap();
        }
        let mut settings = Settings::default();
        settings.read(&folder.path().join("config"), scope);
        settings
    }

    fn excludes(text: &str) -> Option<PathBuf> {
        let scope = ConfigScope { home: Some(Path::new("/home/ann")), ..ConfigScope::default() };
        let settings = read(&[("config", text)], &scope);
        assert_eq!(settings.warnings, [""; 0]);
        settings.excludes
    }

    #[test]
    fn the_file_of_rules_is_found_in_every_spelling_that_git_reads() {
        for text in [
            "[core]\n\texcludesFile = ~/rules\n",
            "[CORE]\n excludesfile=~/rules # mine",
            "\u{feff}# a\n; b\n[user]\nname = \"x\"\n[core] excludesFile = \"~/rules\"",
            "[core]\r\nexcludesFile = ~/ru\\\nles\r\n",
            "[core]\nbare\nexcludesFile = /other\nexcludesFile = ~/rules  ",
            "[alias]\n a = \"!f() { x; }; f\"\n[core]\nexcludesFile=~/rules",
        ] {
            assert_eq!(excludes(text), Some("/home/ann/rules".into()), "{text}");
        }
        assert_eq!(excludes("[core]\nexcludesFile = ~bob/rules"), None);
        assert_eq!(excludes("[core]\nexcludesFile ="), Some(PathBuf::new()));
        assert_eq!(excludes("[core \"x\"]\nexcludesFile = a"), None);
        assert_eq!(excludes("[other]\nexcludesFile = a"), None);
    }

    #[test]
    fn included_files_count_where_their_condition_holds() {
        let included = ("more", "[core]\nexcludesFile = /more");
        let dir = Path::new("/work/Client/project/.git");
        let scope = ConfigScope { home: None, git_dir: Some(dir), branch: Some("topic/x") };
        for (condition, holds) in [
            ("include", true),
            ("includeIf \"gitdir:/work/\"", true),
            ("includeIf \"gitdir:Client/\"", true),
            ("includeIf \"gitdir:client/\"", false),
            ("includeIf \"gitdir/i:client/\"", true),
            ("includeIf \"gitdir:**/project/.git\"", true),
            ("includeIf \"gitdir:~/\"", false),
            ("includeIf \"onbranch:topic/\"", true),
            ("includeIf \"onbranch:main\"", false),
            ("includeIf \"hasconfig:remote.*.url:x\"", false),
        ] {
            let text = format!("[{condition}]\npath = more\n");
            let found = read(&[("config", &text), included], &scope).excludes;
            assert_eq!(found.is_some(), holds, "{condition}");
        }
    }

    #[test]
    fn settings_that_are_broken_or_include_themselves_end_with_a_warning_at_most() {
        let itself = read(&[("config", "[include]\npath = config\n")], &ConfigScope::default());
        assert_eq!(itself, Settings::default());
        for text in ["[core", "[core]\nexcludesFile = \"a", "=", "[core]\nexcludesFile = \\q"] {
            let settings = read(&[("config", text)], &ConfigScope::default());
            assert_eq!((settings.warnings.len(), settings.excludes), (1, None), "{text}");
        }
    }
}
