//! The page as it is served: one document for all sessions, and the lines that it asks for.
//!
//! The document holds no data. It asks for the turns of a session, which name their texts and messages
//! by ids, and then for those that it shows: so it is there at once, whatever the session has.

use std::io::Write;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use turntree::error::{Error, Result};
use turntree::object::ObjectId;
use turntree::repo::Repository;

use super::data::Data;
use super::{Page, STYLE, Scripts, WantedTurns, code, hash, policy, rules, write_head};
use crate::render::escape::html;

/// Styles of what a file does not show.
const LIVE_STYLE: &str = include_str!("live.css");

/// The parts of the script of a page that is served.
const LIVE: Scripts<'_> = Scripts {
    source: &[include_str!("live.js")],
    end: &[include_str!("hits.js"), include_str!("grow.js")],
};

/// The parts of the script of all screens but the story of a session. Scripts of one document see each
/// other's names, so this one stands on the first.
const SCREENS: [&str; 8] = [
    include_str!("sessions.js"),
    include_str!("difference.js"),
    include_str!("compare.js"),
    include_str!("search.js"),
    include_str!("files.js"),
    include_str!("log.js"),
    include_str!("acts.js"),
    include_str!("conflicts.js"),
];

/// Where that script is.
pub const SCREENS_ADDRESS: &str = "/screens.js";

/// The picture of its tabs, which is not asked for.
const ICON: &str = "<link rel=\"icon\" href=\"data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' \
    viewBox='0 0 32 32' fill='%231f7a52'%3E%3Cpath d='M10 28V4M10 19c0-6 12-4 12-11' fill='none' \
    stroke='%231f7a52' stroke-width='3'/%3E%3Ccircle cx='10' cy='5' r='4'/%3E%3Ccircle cx='22' cy='8' \
    r='4'/%3E%3Ccircle cx='10' cy='27' r='4'/%3E%3C/svg%3E\">\n";

/// Styles of a page of words alone.
const NOTE_STYLE: &str = "body { font: 16px/1.6 system-ui, sans-serif; max-width: 36em; \
    margin: 18vh auto 0; padding: 0 1em; } h1 { font-size: 1.3em; }";

/// What a page that is served may do more: ask its own server. No page may show it inside of itself.
const POLICY: &str = "; connect-src 'self'; frame-ancestors 'none'";

/// The document of a server.
#[derive(Debug, Clone)]
pub struct LivePage {
    /// The document, the same for every address.
    pub html: String,
    /// The script at [`SCREENS_ADDRESS`], which the document asks for when it shows one of these
    /// screens, and knows by its hash.
    pub screens: String,
    /// Its content security policy, for the header of the answer.
    pub policy: String,
}

/// A page of words alone, in the place of one that is not there.
#[derive(Debug, Clone)]
pub struct NotePage {
    /// The document.
    pub html: String,
    /// Its content security policy, for the header of the answer.
    pub policy: String,
}

/// A text or a message that a page shows, by the name that it has in the lines of turns.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum PagePart {
    /// A text: the blob.
    Text(ObjectId),
    /// A message: the blob, and what its list says of it.
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

/// Returns the document of a server, which offers changes if the server makes them.
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

/// Returns the page that says why something is not shown, with the way to all sessions.
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
        html(words)
    );
    NotePage { html: document, policy }
}

/// Writes the head of a page and the turns of its branches that are wanted, newest first, each as soon as it
/// is read, so that the end of a long story is there at once; at the end a line `n` with the ids to go on
/// `from`, if there are more. Without the head where it goes on. Texts and messages are named, and
/// [`write_parts`] has them.
///
/// # Errors
/// `Io` when `out` refuses, else what reading reports.
pub fn write_turns(
    repo: &Repository,
    page: &Page<'_>,
    wanted: &WantedTurns<'_>,
    out: &mut dyn Write,
) -> Result<()> {
    Data::plain(repo, out).write_turns(page, wanted)
}

/// Writes a line for each text and message, in their order, which are all others. In the place of one
/// that cannot be read stands that it cannot.
///
/// # Errors
/// `Io` when `out` refuses.
pub fn write_parts(repo: &Repository, parts: &[PagePart], out: &mut dyn Write) -> Result<()> {
    let mut data = Data::plain(repo, out);
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
    use super::super::compressed::packed;
    use super::*;

    /// Bytes of the document at most, as they are and compressed, and lines of its scripts.
    const BYTES: usize = 150_000;
    const PACKED: usize = 45_000;
    const LINES: usize = 3000;

    #[test]
    fn the_document_is_small_and_its_scripts_need_no_framework() {
        let page = live_page(true);
        assert!(page.html.len() <= BYTES, "{} bytes", page.html.len());
        let packed = packed(page.html.as_bytes()).unwrap().len();
        assert!(packed <= PACKED, "{packed} bytes compressed");
        let lines = LIVE.join().lines().count() + page.screens.lines().count();
        assert!(lines <= LINES, "{lines} lines");
    }

    #[test]
    fn no_type_stands_in_a_script() {
        let page = live_page(true);
        assert!(!page.html.contains("@type") && !page.screens.contains("@type"));
        assert!(
            page.html.contains("requestAnimationFrame(") && page.screens.contains("compareView")
        );
    }
}
