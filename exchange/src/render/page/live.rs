//! The served page: one document for all sessions, which requests lines of data.
//!
//! The document has no data. It requests the turns of a session, which reference their texts and
//! messages by id, and then the texts and messages that it shows. It therefore appears immediately
//! for a session of any size.

use std::io::Write;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use turntree::error::{Error, Result};
use turntree::object::ObjectId;
use turntree::repo::Repository;

use super::data::PageData;
use super::{ICON, Page, STYLE, Scripts, WantedTurns, code, hash, policy, rules, write_head};
use crate::render::escape::escape_html;

/// The styles of elements that a page file does not have.
const LIVE_STYLE: &str = include_str!("live.css");

/// The script parts of a served page.
const LIVE: Scripts<'_> = Scripts {
    source: &[include_str!("live.js")],
    end: &[include_str!("hits.js"), include_str!("grow.js")],
};

/// The script parts of all screens except for the session screen. Scripts of one document share
/// their names, so this script uses names of the first one.
const SCREENS: [&str; 14] = [
    include_str!("sessions.js"),
    include_str!("beside.js"),
    include_str!("charts.js"),
    include_str!("keys.js"),
    include_str!("difference.js"),
    include_str!("compare.js"),
    include_str!("search.js"),
    include_str!("files.js"),
    include_str!("log.js"),
    include_str!("usage.js"),
    include_str!("acts.js"),
    include_str!("conflicts.js"),
    include_str!("explore.js"),
    include_str!("align.js"),
];

/// The address of that script.
pub const SCREENS_ADDRESS: &str = "/screens.js";

/// The styles of a note page.
const NOTE_STYLE: &str = "body { font: 16px/1.6 system-ui, sans-serif; max-width: 36em; \
    margin: 18vh auto 0; padding: 0 1em; } h1 { font-size: 1.3em; }";

/// The additional policy of a served page: it may connect to its own server, and no page may frame
/// it.
const POLICY: &str = "; connect-src 'self'; frame-ancestors 'none'";

/// The page of a server.
#[derive(Debug, Clone)]
pub struct LivePage {
    /// The document. It is the same for all addresses.
    pub html: String,
    /// The script at [`SCREENS_ADDRESS`]. The document loads it to show one of its screens, and
    /// verifies its hash.
    pub screens: String,
    /// The content security policy for the response header.
    pub policy: String,
}

/// A page with a message, returned if a page does not exist.
#[derive(Debug, Clone)]
pub struct NotePage {
    /// The document.
    pub html: String,
    /// The content security policy for the response header.
    pub policy: String,
}

/// A text or message that a page requests, by its name in the lines of turns.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum PagePart {
    /// A text: the blob.
    Text(ObjectId),
    /// A message: the blob, and the metadata of its list item.
    Message(ObjectId, Bytes),
}

impl FromStr for PagePart {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let malformed = || Error::invalid("the name of a text or message: expected one of a turn");
        match name.split_once('.') {
            None => Ok(Self::Text(name.parse()?)),
            Some((id, meta)) => {
                let meta = URL_SAFE_NO_PAD.decode(meta).map_err(|_| malformed())?;
                Ok(Self::Message(id.parse()?, meta.into()))
            }
        }
    }
}

/// Returns the page of a server. It offers changes if the server allows them.
#[must_use]
pub fn live_page(allows_changes: bool) -> LivePage {
    let (script, screens, style) = (LIVE.join(), code(SCREENS.iter()), rules(&[STYLE, LIVE_STYLE]));
    let hash_of_screens = hash(&screens);
    let policy = |more: &str| {
        let scripts = format!("script-src 'sha256-{hash_of_screens}' ");
        policy(&script, &style, more).replacen("script-src ", &scripts, 1)
    };
    let changes = if allows_changes { "allowed" } else { "none" };
    let head = format!(
        "{ICON}<meta name=\"changes\" content=\"{changes}\">\n\
         <meta name=\"screens\" content=\"sha256-{hash_of_screens}\">\n"
    );
    let mut document = Vec::new();
    // Writing to memory never fails.
    let _ = write_head(("turntree", &head), &style, &policy("; connect-src 'self'"), &mut document);
    let _ = writeln!(document, "<script>{script}</script>\n</body>\n</html>");
    let html = String::from_utf8_lossy(&document).into_owned();
    LivePage { html, policy: policy(POLICY), screens }
}

/// Returns a page that explains an error and links to the list of sessions.
#[must_use]
pub fn note_page(words: &str) -> NotePage {
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{}'; img-src data:; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'",
        hash(NOTE_STYLE)
    );
    let document = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>turntree</title>\n{ICON}<style>{NOTE_STYLE}</style>\n</head>\n<body>\n<main>\n\
         <h1>This cannot be shown</h1>\n<p>{}</p>\n<p><a href=\"/\">All sessions</a></p>\n\
         </main>\n</body>\n</html>\n",
        escape_html(words)
    );
    NotePage { html: document, policy }
}

/// Writes the head of a page and the wanted turns of its branches, newest first, each as soon as it
/// is read, so that the newest turns of a long history appear immediately. If there are more turns,
/// ends with a line `n` with the ids to continue `from`. A continuation has no head. Texts and
/// messages are only named; [`write_parts`] writes them.
///
/// # Errors
/// `Io` if `out` fails, and the errors of reading.
pub fn write_turns(
    repo: &Repository,
    page: &Page<'_>,
    wanted: &WantedTurns<'_>,
    out: &mut dyn Write,
) -> Result<()> {
    PageData::plain(repo, out).write_turns(page, wanted)
}

/// Writes one line for each text and message, in order. An unreadable one becomes a line with the
/// error.
///
/// # Errors
/// `Io` if `out` fails.
pub fn write_parts(repo: &Repository, parts: &[PagePart], out: &mut dyn Write) -> Result<()> {
    let mut data = PageData::plain(repo, out);
    for part in parts {
        match part {
            PagePart::Text(id) => data.write_text(id)?,
            PagePart::Message(id, meta) => data.write_message(id, meta)?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::SHARED;
    use super::super::compress::compress_lines;
    use super::*;

    /// Maximum size of the document, plain and compressed, and maximum number of lines of its
    /// scripts, of which a third is loaded with the first screen that needs it. The list beside a
    /// session, the search from everywhere and the columns of the list took the document over
    /// 160 KB; the ways to an exploration and to the charts took it over 48,500 bytes compressed.
    /// Charts and the picture of aligned branches took the scripts over 3,600 lines.
    const BYTES: usize = 168_000;
    const PACKED: usize = 48_600;
    const LINES: usize = 4000;

    #[test]
    fn the_document_is_small_and_has_no_framework() {
        let page = live_page(true);
        assert!(page.html.len() <= BYTES, "{} bytes", page.html.len());
        let packed = compress_lines(page.html.as_bytes()).unwrap().len();
        assert!(packed <= PACKED, "{packed} bytes compressed");
        let lines = LIVE.join().lines().count() + page.screens.lines().count();
        assert!(lines <= LINES, "{lines} lines");
    }

    #[test]
    fn no_two_scripts_of_a_document_declare_the_same_name() {
        // A later function would replace the first one without an error.
        const STARTS: [&str; 7] = [
            "const ",
            "let ",
            "class ",
            "function ",
            "function* ",
            "async function ",
            "async function* ",
        ];
        let first = [include_str!("dom.js"), include_str!("pace.js")];
        let parts: [&[&str]; 5] = [&first, LIVE.source, &SHARED, LIVE.end, &SCREENS];
        let lines = parts.into_iter().flatten().flat_map(|part| part.lines());
        let names = lines.filter_map(|line| {
            let rest = STARTS.iter().find_map(|start| line.strip_prefix(start))?;
            let is_name = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '$');
            Some(rest.split(|letter| !is_name(letter)).next()?.to_owned())
        });
        let mut known = std::collections::HashSet::new();
        let twice: Vec<String> =
            names.filter(|name| !name.is_empty() && !known.insert(name.clone())).collect();
        assert_eq!(twice, Vec::<String>::new());
    }

    #[test]
    fn scripts_contain_no_type_comments() {
        let page = live_page(true);
        assert!(!page.html.contains("@type") && !page.screens.contains("@type"));
        assert!(
            page.html.contains("requestAnimationFrame(") && page.screens.contains("compareView")
        );
    }
}
