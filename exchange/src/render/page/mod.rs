//! Exports one self-contained HTML file with the branches of a session and their turns, for offline
//! use.
//!
//! The file holds a page, hand-written in `shell.html`, `page.css` and the scripts next to it, and
//! its data in blocks that no browser executes. All recorded content is data and enters the
//! document only as text nodes. A content security policy in the file forbids other scripts and all
//! connections. The markup has no `style` attributes and no event handlers, so the policy can list
//! the script and the style by their hashes.
//!
//! A server sends the same page (`live`) without data, and the page requests the data that it
//! shows.

mod blocks;
mod compress;
mod data;
mod live;
#[cfg(feature = "share")]
mod seal;

use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};
use turntree::error::{Error, Result};
use turntree::object::ObjectId;
use turntree::repo::Repository;
use turntree::store::Steps;

pub use self::compress::PageCompressor;
use self::data::PageData;
pub use self::live::{
    LivePage, NotePage, PagePart, SCREENS_ADDRESS, live_page, note_page, write_parts, write_turns,
};
#[cfg(feature = "share")]
pub use self::seal::{PAGE_KEY_BYTES, PageKey, PageSealer};
use super::ShowTime;
use super::escape::escape_html;
use crate::insight::prices::PriceTable;

const SHELL: &str = include_str!("shell.html");
const STYLE: &str = include_str!("page.css");

/// The script parts of a page file, in dependency order.
const EMBEDDED: Scripts<'_> = Scripts {
    source: &[include_str!("source.js")],
    end: &[
        include_str!("charts.js"),
        include_str!("keys.js"),
        include_str!("difference.js"),
        include_str!("compare.js"),
        include_str!("search.js"),
        include_str!("scan.js"),
        include_str!("embedded.js"),
    ],
};

/// The script part that starts an encrypted page, in place of the last part of [`EMBEDDED`].
#[cfg(feature = "share")]
const SEALED: &str = include_str!("sealed.js");

/// The script parts that do not depend on the source of the data.
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

/// The icon of the page, embedded so that it needs no request.
const ICON: &str = "<link rel=\"icon\" href=\"data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' \
    viewBox='0 0 32 32' fill='%231f7a52'%3E%3Cpath d='M10 28V4M10 19c0-6 12-4 12-11' fill='none' \
    stroke='%231f7a52' stroke-width='3'/%3E%3Ccircle cx='10' cy='5' r='4'/%3E%3Ccircle cx='22' cy='8' \
    r='4'/%3E%3Ccircle cx='10' cy='27' r='4'/%3E%3C/svg%3E\">\n";

/// The start of a type comment in a script.
const TYPE: &str = "/** @";

/// The script parts that access the data source, and that start the page.
struct Scripts<'s> {
    source: &'s [&'s str],
    end: &'s [&'s str],
}

/// The content of a page.
#[derive(Clone, Copy)]
pub struct Page<'a> {
    /// The title.
    pub title: &'a str,
    /// One sentence about the page, which link previews show.
    pub description: &'a str,
    /// The labels of the session, for the overview.
    pub labels: &'a [String],
    /// The lines to show. The page opens the first one.
    pub branches: &'a [PageBranch],
    /// The number of further branches, which the page does not show.
    pub more: usize,
    /// The comparison of the branches as JSON, the output of `compare --json`. `None` for no table.
    pub comparison: Option<&'a str>,
    /// The program and its version, for the footer.
    pub made_by: &'a str,
    /// The prices for answers without a recorded cost.
    pub prices: &'a PriceTable,
    /// Formats times.
    pub show_time: ShowTime<'a>,
    /// Counts the turns that are written; `None` for no count.
    pub steps: Option<&'a Steps>,
}

/// Maximum number of turns that a request continues from.
pub const MAX_STARTS: usize = 64;

/// The turns that a page requests, newest first.
#[derive(Debug, Clone, Copy)]
pub struct WantedTurns<'a> {
    /// Turns that the page already has, with all their ancestors.
    pub known: &'a [ObjectId],
    /// The turns that the previous answer ended at. Empty for the newest turns.
    pub from: &'a [ObjectId],
    /// Maximum number of turns in an answer. Exceeded if more than [`MAX_STARTS`] lines would
    /// continue.
    pub most: usize,
}

/// A branch in a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageBranch {
    /// The display name.
    pub name: String,
    /// The newest snapshot.
    pub tip: ObjectId,
}

/// Writes a page about branches to `out`: all their history, each message and file content once.
///
/// Equal snapshots give equal bytes. Memory is bounded by the ids of the written objects and by the
/// changes of one snapshot.
///
/// # Errors
/// `InvalidInput` without a branch, `Io` if `out` fails, and the errors of reading.
pub fn export_page(repo: &Repository, page: &Page<'_>, out: &mut dyn Write) -> Result<()> {
    if page.branches.is_empty() {
        return Err(Error::invalid("a page is about at least one branch"));
    }
    let script = EMBEDDED.scoped(EMBEDDED.end);
    let written =
        |result: std::io::Result<()>| result.map_err(|error| Error::io("write the page", error));
    let head = format!("{ICON}{}", card(page));
    written(write_file_head((page.title, &head), &script, out))?;
    PageData::new(repo, out).write(page)?;
    written(write!(out, "<script>{script}</script>\n</body>\n</html>\n"))
}

/// Returns the elements that describe a page to programs that show a link to it.
fn card(page: &Page<'_>) -> String {
    let (title, description) = (escape_html(page.title), escape_html(page.description));
    format!(
        "<meta name=\"description\" content=\"{description}\">\n\
         <meta property=\"og:type\" content=\"article\">\n\
         <meta property=\"og:title\" content=\"{title}\">\n\
         <meta property=\"og:description\" content=\"{description}\">\n"
    )
}

/// Returns the content security policy of a page: it may run its own script, use its own style, and
/// show embedded pictures.
fn policy(script: &str, style: &str, more: &str) -> String {
    let (script, style) = (hash(script), hash(style));
    format!(
        "default-src 'none'; script-src 'sha256-{script}'; style-src 'sha256-{style}'; \
         img-src data:; base-uri 'none'; form-action 'none'{more}"
    )
}

/// Writes the part of a file before its script.
fn write_file_head(titled: (&str, &str), script: &str, out: &mut dyn Write) -> std::io::Result<()> {
    let style = rules(&[STYLE]);
    write_head(titled, &style, &policy(script, &style, ""), out)
}

/// Writes the part before the script. `more` is additional markup for the head.
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
        escape_html(title),
    )
}

impl Scripts<'_> {
    /// Returns all parts, concatenated.
    fn join(&self) -> String {
        self.join_with(self.end)
    }

    fn join_with(&self, end: &[&str]) -> String {
        let first = [include_str!("dom.js"), include_str!("pace.js")];
        let parts: [&[&str]; 4] = [&first, self.source, &SHARED, end];
        code(parts.into_iter().flatten())
    }

    /// Returns the parts with another end, in the scope of a function, so that no name becomes
    /// global.
    fn scoped(&self, end: &[&str]) -> String {
        format!("(() => {{\n{}}})();\n", self.join_with(end))
    }
}

/// Returns the code of script parts without indentation, comment lines and types.
fn code<'s>(parts: impl Iterator<Item = &'s &'s str>) -> String {
    // Remove types first: code may follow a type at the start of a line.
    let lines = parts.flat_map(|part| part.lines()).map(|line| without_types(line.trim_start()));
    let is_code = |line: &String| {
        !line.is_empty() && !["//", "/**", "*"].iter().any(|sign| line.starts_with(sign))
    };
    let code: Vec<String> = lines.filter(is_code).collect();
    format!("\"use strict\";\n{}\n", code.join("\n"))
}

/// Returns the rules of style sheets without indentation and comment lines.
fn rules(sheets: &[&str]) -> String {
    let lines = sheets.iter().flat_map(|sheet| sheet.lines()).map(str::trim_start);
    let rules: Vec<&str> =
        lines.filter(|line| !line.is_empty() && !line.starts_with("/*")).collect();
    rules.join("\n")
}

/// Removes the type comments from a line.
fn without_types(line: &str) -> String {
    let mut rest = line;
    let mut plain = String::with_capacity(line.len());
    while let Some((before, (_, after))) =
        rest.split_once(TYPE).and_then(|(before, type_)| Some((before, type_.split_once("*/")?)))
    {
        plain.push_str(before);
        rest = after.strip_prefix(' ').unwrap_or(after);
    }
    plain + rest
}

/// Returns the hash of a script or style for a policy.
fn hash(text: &str) -> String {
    STANDARD.encode(Sha256::digest(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_lose_comments_but_no_code() {
        let part = "// First.\n\n/** @type {any} */\nlet a;\n  /** @type {any} */ (a)?.b(/** @type {c} */ (d));\n\
                    /**\n * @param {any} e\n */\nconst e = \"// no\";\n";
        let expected = "\"use strict\";\nlet a;\n(a)?.b((d));\nconst e = \"// no\";\n";
        assert_eq!(code([&part].into_iter()), expected);
    }
}
