//! Encodes sections, keys and list items as paths of a git tree, and decodes them.
//!
//! A key may contain anything, but git rejects some names: empty names and `..`, all names that a
//! file system may treat as `.git`, a `.gitmodules` that it cannot parse, and a link in place of
//! one of its files. Such a component is percent-encoded like in a restore. A component that looks
//! encoded is encoded, too, so every path decodes to exactly one key.

use std::borrow::Cow;

use percent_encoding::{percent_decode_str, percent_encode_byte};
use turntree::context::sections::AGENTS;
use turntree::context::{MessageEntry, Role};
use turntree::error::Result;
use turntree::object::{Kind, ObjectId, ObjectSource};
use turntree::workspace::is_reserved;

/// The name of a file inside of the folder that has the file's own name.
pub(super) const FOLDER_FILE: &str = "%";

/// Longest component that file systems support, in bytes.
const MAX_COMPONENT_BYTES: usize = 255;

/// Maximum length of a path, and maximum number of its components, that git can check out
/// everywhere.
const MAX_PATH_BYTES: usize = 4000;
const MAX_COMPONENTS: usize = 400;

/// Number of list items per folder, so that the trees that a new item changes stay small.
const FOLDER_ITEMS: u64 = 100;

/// Names that git interprets in any folder. The limits apply to the lines and the size of the first
/// two.
const GIT_FILES: [&str; 4] = [GIT_MODULES, GIT_ATTRIBUTES, ".gitignore", ".mailmap"];
const GIT_MODULES: &str = ".gitmodules";
const GIT_ATTRIBUTES: &str = ".gitattributes";
/// Prefixes of their short names in DOS file systems.
const GIT_FILES_SHORT: [&str; 8] =
    ["gitmod~", "gi7eba~", "gitatt~", "gi7d29~", "gitign~", "gi250a~", "mailma~", "maba30~"];
const MAX_LINE_BYTES: usize = 2000;
const MAX_GIT_FILE_BYTES: usize = 1 << 20;

/// Returns the path of a section.
pub(super) fn section_path(section: &str) -> Vec<String> {
    let parts: Vec<&str> = section.split('/').collect();
    match parts[..] {
        [AGENTS, agent, part] => {
            vec![AGENTS.to_owned(), encode_component(agent), encode_component(part)]
        }
        [AGENTS] => vec!["%61gents".to_owned()],
        _ if section.contains(['/', '%']) => {
            let flat = section.replace('%', "%25").replace('/', "%2F");
            vec![if needs_encoding(&flat) { percent_encode(&flat) } else { flat }]
        }
        _ => vec![encode_component(section)],
    }
}

/// Returns the path of the entry `key` of a map section. `None` if file systems do not support the
/// path. `blob` is the content of an entry that is not a link.
///
/// # Errors
/// The errors of reading `blob`.
pub(super) fn entry_path(
    source: &dyn ObjectSource,
    section: &str,
    key: &str,
    blob: Option<&ObjectId>,
) -> Result<Option<Vec<String>>> {
    let mut path = section_path(section);
    path.extend(key.split('/').map(encode_component));
    let name = key.rsplit('/').next().unwrap_or_default();
    if let (true, Some(blob), Some(last)) = (GIT_FILES.contains(&name), blob, path.last_mut())
        && is_accepted_by_fsck(name, &source.read_as(Kind::Blob, blob)?)
    {
        name.clone_into(last);
    }
    let bytes: usize = path.iter().map(|name| name.len() + 1).sum();
    let is_long = path.iter().any(|name| name.len() > MAX_COMPONENT_BYTES);
    let fits = !is_long && path.len() <= MAX_COMPONENTS && bytes <= MAX_PATH_BYTES;
    Ok(fits.then_some(path))
}

/// Returns the path of item `index` of a list section.
pub(super) fn item_path(section: &str, index: u64) -> Vec<String> {
    let mut path = section_path(section);
    path.extend([format!("{:04}", index / FOLDER_ITEMS), format!("{index:06}")]);
    path
}

/// Returns the path of message `index` of a conversation.
pub(super) fn message_path(section: &str, index: u64, message: &MessageEntry) -> Vec<String> {
    let mut path = item_path(section, index);
    if let Some(name) = path.last_mut() {
        let role = match message.role {
            Role::Other => "record",
            role => role.name(),
        };
        *name = format!("{name}-{role}.md");
    }
    path
}

/// Encodes a component.
pub(super) fn encode_component(name: &str) -> String {
    if needs_encoding(name) {
        return percent_encode(name);
    }
    let looks_encoded = percent_decode(name).is_some_and(|plain| encode_component(&plain) == name);
    if looks_encoded { name.replace('%', "%25") } else { name.to_owned() }
}

/// Decodes the component `name`.
pub(super) fn decode_component(name: &str) -> String {
    match percent_decode(name) {
        Some(plain) if encode_component(&plain) == name => plain,
        _ => name.to_owned(),
    }
}

/// Returns true if git or a file system would interpret `name`.
fn needs_encoding(name: &str) -> bool {
    let is_special = |part: &str| is_reserved(part) || is_git_file(part);
    matches!(name, "" | "." | ".." | FOLDER_FILE)
        || name.contains('\0')
        || name.split('\\').any(is_special)
}

/// Returns true if git, on some file system, treats `name` as one of its own files.
fn is_git_file(name: &str) -> bool {
    let plain: String = name.chars().filter(char::is_ascii).collect();
    let folded = plain.to_lowercase();
    let stem = folded.split(':').next().unwrap_or_default().trim_end_matches(['.', ' ']);
    GIT_FILES.contains(&stem) || GIT_FILES_SHORT.iter().any(|short| folded.starts_with(short))
}

fn percent_encode(name: &str) -> String {
    if name.is_empty() {
        return "%2F".to_owned();
    }
    let first = name.split('\\').next().unwrap_or_default();
    let encodes_first = matches!(name, "." | "..") || is_reserved(first) || is_git_file(first);
    let mut written = String::with_capacity(name.len() + 3);
    for (at, c) in name.chars().enumerate() {
        if matches!(c, '\0' | '%' | '\\') || (at == 0 && encodes_first) {
            written.extend(c.encode_utf8(&mut [0; 4]).bytes().map(percent_encode_byte));
        } else {
            written.push(c);
        }
    }
    written
}

/// Returns `name` with its percent codes decoded, if it has any.
fn percent_decode(name: &str) -> Option<String> {
    if name == "%2F" {
        return Some(String::new());
    }
    match Cow::from(percent_decode_str(name)) {
        Cow::Owned(plain) => String::from_utf8(plain).ok(),
        Cow::Borrowed(_) => None,
    }
}

/// Returns true if `git fsck` accepts a file with this name and content.
fn is_accepted_by_fsck(name: &str, content: &[u8]) -> bool {
    if ![GIT_MODULES, GIT_ATTRIBUTES].contains(&name) {
        return true;
    }
    let mut lines = content.split(|byte| *byte == b'\n');
    content.len() <= MAX_GIT_FILE_BYTES
        && lines.clone().all(|line| line.len() <= MAX_LINE_BYTES)
        && (name != GIT_MODULES || lines.all(is_plain_line))
}

/// Returns true for a common line of `.gitmodules`: a section with an ordinary name, or an ordinary
/// value.
fn is_plain_line(line: &[u8]) -> bool {
    let is_plain = |text: &str| {
        let ordinary = |c: char| c.is_ascii_alphanumeric() || "._/:@+-".contains(c);
        text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '.')
            && text.chars().all(ordinary)
    };
    let Ok(line) = std::str::from_utf8(line) else { return false };
    let line = line.trim();
    if line.is_empty() {
        return true;
    }
    let quoted = line.strip_prefix("[submodule \"").and_then(|rest| rest.strip_suffix("\"]"));
    if let Some(name) = quoted {
        return is_plain(name) && !name.contains("..");
    }
    let Some((key, value)) = line.split_once('=') else { return false };
    let value = value.trim();
    match key.trim() {
        "path" | "branch" | "ignore" | "shallow" => is_plain(value) && !value.contains(".."),
        "url" => is_plain(value) && !value.trim_start_matches("../").contains(".."),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use turntree::object::{Memory, ObjectSink};

    use super::*;

    #[test]
    fn names_that_git_rejects_are_encoded() {
        for (name, written) in [
            ("a.rs", "a.rs"),
            ("aux:b\\c d", "aux:b\\c d"),
            ("%41", "%41"),
            ("", "%2F"),
            ("..", "%2E."),
            (".git", "%2Egit"),
            (".GIT ", "%2EGIT "),
            ("git~1", "%67it~1"),
            ("a\\.git", "a%5C.git"),
            ("a\0b", "a%00b"),
            ("%", "%25"),
            ("%2Egit", "%252Egit"),
            ("%252Egit", "%25252Egit"),
            ("gitmod~1", "%67itmod~1"),
            (".Gitmodules. ", "%2EGitmodules. "),
            (".gitignored", ".gitignored"),
            (".gitignore", "%2Egitignore"),
            (".Mailmap", "%2EMailmap"),
        ] {
            assert_eq!(encode_component(name), written, "{name:?}");
            assert_eq!(decode_component(written), name);
        }
    }

    turntree_properties::properties! {
        #[test]
        fn encoded_components_decode_to_the_original(name in "[.%2E5FgitGIT~1\\\\a\0 ]{0,12}") {
            let written = encode_component(&name);
            prop_assert_eq!(decode_component(&written), name);
            prop_assert!(!needs_encoding(&written));
        }

        #[test]
        fn encoded_components_are_unique(a in "[.%25E0g\0]{0,6}", b in "[.%25E0g\0]{0,6}") {
            prop_assert_eq!(a == b, encode_component(&a) == encode_component(&b));
        }
    }

    #[test]
    fn sections_have_separate_paths() {
        assert_eq!(section_path("scratchpad"), ["scratchpad"]);
        assert_eq!(section_path("agents/a@b/state"), ["agents", "a@b", "state"]);
        assert_eq!(section_path("agents"), ["%61gents"]);
        assert_eq!(section_path("a/b"), ["a%2Fb"]);
        assert_eq!(section_path("a%2Fb"), ["a%252Fb"]);
    }

    #[test]
    fn git_files_keep_their_name_only_if_git_accepts_them() {
        let mut objects = Memory::new();
        let plain = "[submodule \"lib/a\"]\n\tpath = lib/a\n\turl = https://example.org/a.git\n";
        for (name, content, keeps) in [
            (".gitmodules", plain, true),
            (".gitmodules", "[submodule \"..\"]\n", false),
            (".gitmodules", "[submodule \"a\"]\nurl = --upload-pack=x\n", false),
            (".gitmodules", "[submodule \"a\"]\nupdate = !rm\n", false),
            (".gitmodules", "[open\n", false),
            (".gitattributes", "* text=auto\n", true),
            (".gitignore", "target/\n", true),
            (".mailmap", "A <a@example.org>\n", true),
        ] {
            let blob = objects.write(Kind::Blob, content.into()).unwrap();
            let path = entry_path(&objects, "files", name, Some(&blob)).unwrap().unwrap();
            assert_eq!(path[1] == name, keeps, "{content}");
        }
        let long = "x".repeat(3000);
        let blob = objects.write(Kind::Blob, long.into()).unwrap();
        let path = entry_path(&objects, "files", "a/.gitattributes", Some(&blob)).unwrap().unwrap();
        assert_eq!(path, ["files", "a", "%2Egitattributes"]);
        let link = entry_path(&objects, "files", ".gitignore", None).unwrap().unwrap();
        assert_eq!(link, ["files", "%2Egitignore"]);
    }

    #[test]
    fn unsupported_paths_are_skipped() {
        let objects = Memory::new();
        let fits = |key: &str| entry_path(&objects, "files", key, None).unwrap().is_some();
        assert!(fits(&"x".repeat(255)));
        assert!(!fits(&"x".repeat(256)));
        assert!(!fits(&"d/".repeat(500)));
    }
}
