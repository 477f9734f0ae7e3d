//! One self-contained HTML file: the branches of a session with their turns, to look at offline.
//!
//! The file holds a page, hand-written in `shell.html`, `page.css` and the scripts beside it, and its
//! data in blocks that no browser runs. The page is small and knows nothing; all that stands in
//! transcripts is data, reaches the document as text nodes only, and a policy in the file forbids
//! every script but this one and every connection. It has no `style` attribute and no handler in its
//! markup, so the policy can name its script and its style by their hashes.
//!
//! The same page is served (`live`): then it has no data of its own and fetches what it shows.

mod blocks;
mod compressed;
mod data;
mod live;

use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};
use turntree::error::{Error, Result};
use turntree::object::ObjectId;
use turntree::repo::Repository;

pub use self::compressed::compress_page;
use self::data::Data;
pub use self::live::{
    LivePage, NotePage, PagePart, SCREENS_ADDRESS, live_page, note_page, write_parts, write_turns,
};
use super::ShowTime;
use super::escape::html;
use crate::insight::prices::PriceTable;

const SHELL: &str = include_str!("shell.html");
const STYLE: &str = include_str!("page.css");

/// The parts of the script of a file, in the order in which they need each other.
const EMBEDDED: Scripts<'_> = Scripts {
    source: &[include_str!("source.js")],
    end: &[
        include_str!("difference.js"),
        include_str!("compare.js"),
        include_str!("search.js"),
        include_str!("scan.js"),
        include_str!("embedded.js"),
    ],
};

/// The parts of the script that are the same wherever the data comes from.
const SHARED: [&str; 16] = [
    include_str!("data.js"),
    include_str!("story.js"),
    include_str!("code.js"),
    include_str!("prose.js"),
    include_str!("diff.js"),
    include_str!("cards.js"),
    include_str!("changes.js"),
    include_str!("talk.js"),
    include_str!("turn.js"),
    include_str!("reader.js"),
    include_str!("map.js"),
    include_str!("outline.js"),
    include_str!("overview.js"),
    include_str!("marks.js"),
    include_str!("route.js"),
    include_str!("app.js"),
];

/// The beginning of a type in a line of a script.
const TYPE: &str = "/** @";

/// The parts of a script that say where the data comes from, and begin.
struct Scripts<'s> {
    source: &'s [&'s str],
    end: &'s [&'s str],
}

/// The subject of a page.
#[derive(Clone, Copy)]
pub struct Page<'a> {
    /// The title.
    pub title: &'a str,
    /// The labels of its session, for the overview.
    pub labels: &'a [String],
    /// The lines that it shows, the one that is opened first.
    pub branches: &'a [PageBranch],
    /// The branches side by side as JSON, the record that `compare --json` prints; no table without.
    pub comparison: Option<&'a str>,
    /// The program and its version, for the foot of the page.
    pub made_by: &'a str,
    /// What models cost whose answers say no cost.
    pub prices: &'a PriceTable,
    /// Writes moments.
    pub show_time: ShowTime<'a>,
}

/// Turns that a page goes on from at most.
pub const MAX_STARTS: usize = 64;

/// The turns of a story that a page asks for, newest first.
#[derive(Debug, Clone, Copy)]
pub struct WantedTurns<'a> {
    /// Turns that the page has, with all that they go back to.
    pub known: &'a [ObjectId],
    /// Where an answer before this one has ended; nothing for the newest turns.
    pub from: &'a [ObjectId],
    /// Most turns of an answer, unless more than [`MAX_STARTS`] lines would have to go on.
    pub most: usize,
}

/// A line of snapshots in a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageBranch {
    /// The name for people.
    pub name: String,
    /// Its newest snapshot.
    pub tip: ObjectId,
}

/// Writes a page about branches to `out`: everything that they go back to, each message and each file
/// content once.
///
/// The same snapshots give the same bytes. Memory is bounded by the ids of what was written and by
/// what one snapshot changed.
///
/// # Errors
/// `InvalidInput` without a branch, `Io` when `out` refuses, else what reading reports.
pub fn export_page(repo: &Repository, page: &Page<'_>, out: &mut dyn Write) -> Result<()> {
    if page.branches.is_empty() {
        return Err(Error::invalid("a page is about at least one branch"));
    }
    // In a scope of its own, so that no name of it is one of the window.
    let script = format!("(() => {{\n{}}})();\n", EMBEDDED.join());
    let written =
        |result: std::io::Result<()>| result.map_err(|error| Error::io("write the page", error));
    let style = rules(&[STYLE]);
    written(write_head((page.title, ""), &style, &policy(&script, &style, ""), out))?;
    Data::new(repo, out).write(page)?;
    written(write!(out, "<script>{script}</script>\n</body>\n</html>\n"))
}

/// What a page may do: run its own script, have its own style, show pictures that it holds.
fn policy(script: &str, style: &str, more: &str) -> String {
    let (script, style) = (hash(script), hash(style));
    format!(
        "default-src 'none'; script-src 'sha256-{script}'; style-src 'sha256-{style}'; \
         img-src data:; base-uri 'none'; form-action 'none'{more}"
    )
}

/// Writes what comes before the script: with the title there may be more for the head, as markup.
fn write_head(
    (title, more): (&str, &str),
    style: &str,
    policy: &str,
    out: &mut dyn Write,
) -> std::io::Result<()> {
    write!(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
         <meta name=\"referrer\" content=\"no-referrer\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{}</title>\n{more}<style>{style}</style>\n</head>\n{SHELL}",
        html(title),
    )
}

impl Scripts<'_> {
    /// All parts, one behind the other.
    fn join(&self) -> String {
        let first = [include_str!("dom.js"), include_str!("pace.js")];
        let parts: [&[&str]; 4] = [&first, self.source, &SHARED, self.end];
        code(parts.into_iter().flatten())
    }
}

/// The code of some parts of a script, without indents, lines of comments and types.
fn code<'s>(parts: impl Iterator<Item = &'s &'s str>) -> String {
    // Types first: what stands behind one at the beginning of a line is code.
    let lines = parts.flat_map(|part| part.lines()).map(|line| without_types(line.trim_start()));
    let is_code = |line: &String| {
        !line.is_empty() && !["//", "/**", "*"].iter().any(|sign| line.starts_with(sign))
    };
    let code: Vec<String> = lines.filter(is_code).collect();
    format!("\"use strict\";\n{}\n", code.join("\n"))
}

/// The rules of some style sheets, without indents and lines of comments.
fn rules(sheets: &[&str]) -> String {
    let lines = sheets.iter().flat_map(|sheet| sheet.lines()).map(str::trim_start);
    let rules: Vec<&str> =
        lines.filter(|line| !line.is_empty() && !line.starts_with("/*")).collect();
    rules.join("\n")
}

/// A line without the types that stand in it as comments.
fn without_types(line: &str) -> String {
    let mut rest = line;
    let mut kept = String::with_capacity(line.len());
    while let Some((before, (_, after))) =
        rest.split_once(TYPE).and_then(|(before, type_)| Some((before, type_.split_once("*/")?)))
    {
        kept.push_str(before);
        rest = after.strip_prefix(' ').unwrap_or(after);
    }
    kept + rest
}

/// Returns the hash of a script or style in a policy.
fn hash(text: &str) -> String {
    STANDARD.encode(Sha256::digest(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_loses_its_comments_and_no_code() {
        let part = "// First.\n\n/** @type {any} */\nlet a;\n  /** @type {any} */ (a)?.b(/** @type {c} */ (d));\n\
                    /**\n * @param {any} e\n */\nconst e = \"// no\";\n";
        let expected = "\"use strict\";\nlet a;\n(a)?.b((d));\nconst e = \"// no\";\n";
        assert_eq!(code([&part].into_iter()), expected);
    }
}
