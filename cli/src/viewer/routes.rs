//! Parses addresses into questions, and checks their arguments.

use std::collections::HashSet;
use std::str::FromStr;

use hyper::header::{ACCEPT, HeaderMap};
use hyper::{StatusCode, Uri};
use turntree::object::ObjectId;
use turntree_exchange::UsageBy;
use turntree_exchange::render::{MAX_STARTS, PagePart, SCREENS_ADDRESS};

use crate::loopback::Refusal;

/// The default and the maximum number of sessions of an answer.
const SESSIONS: usize = 100;
const MAX_SESSIONS: usize = 500;

/// The maximum number of briefs in an answer.
const MAX_BRIEFS: usize = 100;

/// The maximum number of texts and messages of an answer.
const MAX_PARTS: usize = 64;

/// The maximum number of known turns that a page may name.
const MAX_KNOWN: usize = 200;

/// The default and the maximum number of operations of an answer.
const OPERATIONS: usize = 100;
const MAX_OPERATIONS: usize = 1000;

/// Addresses of the document, besides those of sessions.
const PAGES: [&str; 4] = ["/", "/usage", "/operations", "/storage"];

/// The target of an address.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// The document, which is the same for all sessions and contains no data.
    Page,
    /// The script of the other screens, which is also the same for all sessions.
    Screens,
    /// A question about the store.
    Question(Question),
}

/// A question about the store.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Question {
    /// Changes of the store, as they happen.
    Events,
    /// Sessions, newest first.
    Sessions(WantedSessions),
    /// Briefs of sessions.
    Briefs { sessions: Vec<String> },
    /// Turns of a session.
    Story(StoryPart),
    /// Texts and messages by id.
    Parts(Vec<PagePart>),
    /// A search for words in all sessions, best first, from a hit on.
    Words { words: String, from: usize },
    /// A search for literal text, in one session or in all.
    Search { text: String, session: Option<String> },
    /// The branches of a session, side by side; also step by step, if they are to be aligned.
    Compare { session: String, is_aligned: bool },
    /// The explorations of a session, newest first.
    Explorations { session: String },
    /// The entries of a directory in a turn, from an offset on.
    Files { at: ObjectId, path: String, from: usize },
    /// The author of each part of a file in a turn.
    Blame { at: ObjectId, path: String },
    /// Tokens and costs of all sessions, in rows of these.
    Usage { by: UsageBy },
    /// Storage use, and pins.
    Storage,
    /// Operations before a number, newest first.
    Operations { before: Option<u64>, most: usize },
    /// The open conflicts of a branch.
    Conflicts { branch: String },
    /// The title and the labels that the user gave a session.
    Labels { session: String },
}

/// The wanted turns of a session, newest first.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct StoryPart {
    pub(super) session: String,
    /// Turns that the page has, with all of their ancestors.
    pub(super) known: Vec<ObjectId>,
    /// Where the previous answer ended; empty for the newest turns.
    pub(super) from: Vec<ObjectId>,
    pub(super) most: usize,
}

/// A filter of sessions.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct WantedSessions {
    /// Words in the title, name, project, directory or agent; all must match.
    pub(super) words: Vec<String>,
    pub(super) agent: Option<String>,
    pub(super) label: Option<String>,
    pub(super) live: bool,
    /// True for sessions with open conflicts.
    pub(super) undecided: bool,
    /// True for sessions that retention forgets soon.
    pub(super) expiring: bool,
    /// True for sessions in which a scan found secrets.
    pub(super) secrets: bool,
    /// A session in the middle of the answer, instead of `from`.
    pub(super) around: Option<String>,
    pub(super) from: usize,
    pub(super) most: usize,
    /// True for the first question of a page for all sessions, which must be fast: agents and
    /// labels are not counted before all sessions have been read.
    pub(super) is_first: bool,
}

impl Question {
    /// Returns true if the answer is sent line by line.
    pub(super) fn is_of_lines(&self) -> bool {
        matches!(
            self,
            Self::Events
                | Self::Briefs { .. }
                | Self::Story(_)
                | Self::Parts(_)
                | Self::Words { .. }
                | Self::Search { .. }
                | Self::Blame { .. }
                | Self::Operations { .. }
        )
    }
}

/// A step of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChangeStep {
    /// Plan the change.
    Plan,
    /// Carry out the plan.
    Do,
}

/// Returns the step of a change for a path.
pub(super) fn change_step(path: &str) -> Option<ChangeStep> {
    match path {
        "/api/plan" => Some(ChangeStep::Plan),
        "/api/do" => Some(ChangeStep::Do),
        _ => None,
    }
}

/// Returns true if a person opened the address in a browser, rather than a page or a program.
pub(super) fn is_opened(headers: &HeaderMap) -> bool {
    let accepted = headers.get(ACCEPT).and_then(|accepted| accepted.to_str().ok());
    accepted.is_some_and(|accepted| accepted.contains("text/html"))
}

/// Parses an address.
pub(super) fn route(uri: &Uri) -> Result<Route, Refusal> {
    let path = uri.path();
    let arguments = Arguments::parse(uri.query().unwrap_or_default())?;
    if PAGES.contains(&path) || path.strip_prefix("/s/").is_some_and(|name| !name.contains('/')) {
        return Ok(Route::Page);
    }
    if path == SCREENS_ADDRESS {
        return Ok(Route::Screens);
    }
    let question = match path {
        "/api/events" => Question::Events,
        "/api/sessions" => Question::Sessions(arguments.sessions()?),
        "/api/briefs" => Question::Briefs { sessions: arguments.briefs()? },
        "/api/story" => Question::Story(StoryPart {
            session: arguments.needed("session")?,
            known: arguments.list("known", MAX_KNOWN)?,
            from: arguments.list("from", MAX_STARTS)?,
            most: arguments.number("n", usize::MAX)?.max(1),
        }),
        "/api/parts" => Question::Parts(arguments.parts()?),
        "/api/words" => {
            Question::Words { words: arguments.needed("q")?, from: arguments.number("from", 0)? }
        }
        "/api/search" => {
            Question::Search { text: arguments.needed("q")?, session: arguments.text("session") }
        }
        "/api/compare" => Question::Compare {
            session: arguments.needed("session")?,
            is_aligned: arguments.text("align").is_some(),
        },
        "/api/explorations" => Question::Explorations { session: arguments.needed("session")? },
        "/api/files" => Question::Files {
            at: arguments.turn()?,
            path: arguments.needed("path")?,
            from: arguments.number("from", 0)?,
        },
        "/api/blame" => Question::Blame { at: arguments.turn()?, path: arguments.needed("path")? },
        "/api/usage" => Question::Usage { by: arguments.rows()? },
        "/api/storage" => Question::Storage,
        "/api/operations" => arguments.operations()?,
        "/api/labels" => Question::Labels { session: arguments.needed("session")? },
        "/api/conflicts" => Question::Conflicts { branch: arguments.needed("branch")? },
        _ => return Err(Refusal::new(StatusCode::NOT_FOUND, "there is nothing at this address")),
    };
    Ok(Route::Question(question))
}

/// The query of an address.
struct Arguments(Vec<(String, String)>);

impl Arguments {
    fn parse(query: &str) -> Result<Self, Refusal> {
        let pairs = query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Ok((decoded(name)?, decoded(value)?))
        });
        pairs.collect::<Result<_, _>>().map(Self)
    }

    /// The value of an argument, if not empty.
    fn text(&self, name: &str) -> Option<String> {
        let found = self.0.iter().find(|(key, value)| key == name && !value.is_empty());
        found.map(|(_, value)| value.clone())
    }

    fn needed(&self, name: &str) -> Result<String, Refusal> {
        self.text(name).ok_or_else(|| malformed(format!("expected {name}")))
    }

    fn number(&self, name: &str, default: usize) -> Result<usize, Refusal> {
        let expected = |_| malformed(format!("{name}: expected a number"));
        self.text(name).map_or(Ok(default), |text| text.parse().map_err(expected))
    }

    /// A comma-separated list of at most `most` values.
    fn list<T: FromStr>(&self, name: &str, most: usize) -> Result<Vec<T>, Refusal> {
        let text = self.text(name).unwrap_or_default();
        let words: Vec<&str> = text.split(',').filter(|word| !word.is_empty()).collect();
        if words.len() > most {
            return Err(malformed(format!("{name}: expected at most {most}")));
        }
        let expected = |_| malformed(format!("{name}: expected names that this server has given"));
        words.into_iter().map(|word| word.parse().map_err(expected)).collect()
    }

    /// The id of a turn, from the argument `at`.
    fn turn(&self) -> Result<ObjectId, Refusal> {
        let expected = |_| malformed("at: expected the id of a turn".to_owned());
        self.needed("at")?.parse().map_err(expected)
    }

    /// The grouping of usage, from the argument `by`.
    fn rows(&self) -> Result<UsageBy, Refusal> {
        let name = self.needed("by")?;
        let found = UsageBy::ALL.into_iter().find(|by| by.name() == name);
        found.ok_or_else(|| malformed("by: expected rows of usage, such as day".to_owned()))
    }

    /// The sessions of briefs: each argument `session`.
    fn briefs(&self) -> Result<Vec<String>, Refusal> {
        let named = self.0.iter().filter(|(key, value)| key == "session" && !value.is_empty());
        let sessions: Vec<String> = named.map(|(_, value)| value.clone()).collect();
        if sessions.is_empty() || sessions.len() > MAX_BRIEFS {
            return Err(malformed(format!("session: expected 1 to {MAX_BRIEFS}")));
        }
        Ok(sessions)
    }

    fn operations(&self) -> Result<Question, Refusal> {
        let expected = |_| malformed("before: expected a number".to_owned());
        let before = self.text("before").map(|text| text.parse().map_err(expected)).transpose()?;
        let most = self.number("n", OPERATIONS)?.clamp(1, MAX_OPERATIONS);
        Ok(Question::Operations { before, most })
    }

    fn parts(&self) -> Result<Vec<PagePart>, Refusal> {
        let parts: Vec<PagePart> = self.list("names", MAX_PARTS)?;
        let distinct: HashSet<&PagePart> = parts.iter().collect();
        if distinct.len() < parts.len() {
            return Err(malformed("names: expected each once".to_owned()));
        }
        Ok(parts)
    }

    fn sessions(&self) -> Result<WantedSessions, Refusal> {
        let words = self.text("q").unwrap_or_default().to_lowercase();
        let mut wanted = WantedSessions {
            words: words.split_whitespace().map(str::to_owned).collect(),
            agent: self.text("agent"),
            label: self.text("label"),
            live: self.text("live").is_some(),
            undecided: self.text("undecided").is_some(),
            expiring: self.text("expiring").is_some(),
            secrets: self.text("secrets").is_some(),
            around: self.text("around"),
            ..WantedSessions::default()
        };
        wanted.is_first = self.text("first").is_some() && wanted == WantedSessions::default();
        wanted.from = self.number("from", 0)?;
        wanted.most = self.number("n", SESSIONS)?.clamp(1, MAX_SESSIONS);
        Ok(wanted)
    }
}

fn malformed(message: String) -> Refusal {
    Refusal::new(StatusCode::BAD_REQUEST, message)
}

/// Decodes percent-encoded text, as forms and `encodeURIComponent` write it.
fn decoded(text: &str) -> Result<String, Refusal> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digits: String = rest.by_ref().take(2).map(char::from).collect();
                let is_hex =
                    digits.len() == 2 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
                let expected = || malformed("expected two digits behind %".to_owned());
                let byte = is_hex.then(|| u8::from_str_radix(&digits, 16).ok()).flatten();
                byte.ok_or_else(expected)?
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).map_err(|_| malformed("expected UTF-8".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(address: &str) -> Result<Route, u16> {
        route(&address.parse().unwrap()).map_err(|refused| refused.status.as_u16())
    }

    #[test]
    fn addresses_lead_to_what_they_say_and_nothing_else_is_there() {
        assert_eq!(asked("/"), Ok(Route::Page));
        assert_eq!(asked("/s/a%2Fb..c"), Ok(Route::Page));
        assert_eq!(asked("/operations"), Ok(Route::Page));
        assert_eq!(asked("/storage"), Ok(Route::Page));
        assert_eq!(asked("/usage"), Ok(Route::Page));
        assert_eq!(asked("/screens.js"), Ok(Route::Screens));
        let search =
            Question::Search { text: "a b+ä".into(), session: Some("../../etc/passwd".into()) };
        let address = "/api/search?q=a+b%2B%C3%A4&session=..%2F..%2Fetc%2Fpasswd";
        assert_eq!(asked(address), Ok(Route::Question(search)));
        let nowhere = ["/s/../etc/passwd", "/s/a/b", "/api", "/api/", "/api/sessions/", "//", "/x"];
        for address in nowhere {
            assert_eq!(asked(address), Err(404), "{address}");
        }
    }

    #[test]
    fn arguments_that_are_none_are_refused() {
        let id = "0".repeat(64);
        let malformed = [
            "/api/story".to_owned(),
            "/api/story?session=".to_owned(),
            "/api/story?session=a&known=xyz".to_owned(),
            format!("/api/story?session=a&known={}", vec![id.as_str(); MAX_KNOWN + 1].join(",")),
            format!("/api/story?session=a&from={}", vec![id.as_str(); MAX_STARTS + 1].join(",")),
            "/api/story?session=a&n=all".to_owned(),
            format!("/api/parts?names={id},{id}"),
            format!("/api/parts?names={id}.%20"),
            "/api/parts?names=../../superblock".to_owned(),
            "/api/sessions?from=-1".to_owned(),
            "/api/briefs?session=".to_owned(),
            format!("/api/briefs?{}", "session=a&".repeat(MAX_BRIEFS + 1)),
            "/api/search?q=%f".to_owned(),
            "/api/files?path=files".to_owned(),
            "/api/files?at=HEAD&path=files".to_owned(),
            format!("/api/blame?at={id}"),
            format!("/api/blame?at={}&path=files/a", &id[1..]),
            "/api/operations?before=-1".to_owned(),
            "/api/operations?n=many".to_owned(),
            "/api/conflicts".to_owned(),
            "/api/usage".to_owned(),
            "/api/usage?by=moon".to_owned(),
            "/api/search?q=%ff".to_owned(),
            "/api/words?q=a&from=last".to_owned(),
        ];
        for address in &malformed {
            assert_eq!(asked(address), Err(400), "{address}");
        }
    }
}
