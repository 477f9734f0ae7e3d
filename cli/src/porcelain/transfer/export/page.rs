//! The HTML page of an export: its content, and the comparison of branches.

use std::collections::BTreeSet;
use std::io::Write;
use std::sync::Arc;

use turntree::Error;
use turntree::repo::Repository;
use turntree::store::Steps;
use turntree_exchange::render::{Page, PageBranch, export_page};
use turntree_exchange::{KnownSessions, PriceTable};

use crate::porcelain::read::comparison::{Compared, Line, lines_of};
use crate::porcelain::read::prices::Prices;
use crate::view::clock;
use crate::view::error::Result;
use crate::view::progress::Working;
use crate::view::render::count;

/// The text at the foot of a page.
const MADE_BY: &str = concat!("turntree ", env!("CARGO_PKG_VERSION"));

/// How a page introduces itself: as its session, or as what was asked for.
struct About {
    title: String,
    description: String,
    labels: Vec<String>,
}

impl About {
    fn of(repo: &Repository, revisions: &[String], sessions: &BTreeSet<String>) -> Result<Self> {
        let names = sessions.iter().map(String::as_str).collect();
        let found = KnownSessions::default().named(repo, &names)?;
        let asked = revisions.join(", ");
        let (Some(session), 1) = (found.values().next(), sessions.len()) else {
            return Ok(Self { title: asked, description: String::new(), labels: Vec::new() });
        };
        let title = session.title().map_or_else(|| asked.clone(), |(title, _)| title.to_owned());
        let counts = [count(session.prompts, "prompt"), count(session.turns, "turn")];
        let first = session.first_prompt.as_deref().filter(|first| *first != title);
        let told = [Some(session.agent.as_str()), Some(&counts[0]), Some(&counts[1]), first];
        let told: Vec<&str> = told.into_iter().flatten().filter(|it| !it.is_empty()).collect();
        let labels = session.labels.labels.iter().cloned().collect();
        Ok(Self { title, description: told.join(", "), labels })
    }
}

/// A page ready to be written.
pub(super) struct Prepared {
    title: String,
    description: String,
    labels: Vec<String>,
    branches: Vec<PageBranch>,
    comparison: Option<String>,
    prices: PriceTable,
}

impl Prepared {
    /// Prepares the page of some revisions; a session includes all of its branches.
    pub(super) fn of(repo: &Repository, revisions: &[String]) -> Result<Self> {
        let (mut lines, mut sessions) = (Vec::new(), BTreeSet::new());
        for revision in revisions {
            let mut line = Line::named(repo, revision)?;
            let session = line.branch.as_ref().map(|branch| branch.session().to_owned());
            sessions.extend(session.clone());
            let others = match session.filter(|session| session == revision) {
                Some(session) => lines_of(repo, &session),
                None => Vec::new(),
            };
            if let Some(main) = line.branch.as_ref().filter(|_| !others.is_empty()) {
                line.name = main.branch().to_owned();
            }
            let branch = line.branch.clone();
            lines.push(line);
            lines.extend(others.into_iter().filter(|other| other.branch != branch));
        }
        let prices = Prices::of(None)?.table;
        let page_branch = |line: &Line| PageBranch { name: line.name.clone(), tip: line.tip };
        let branches = lines.iter().map(page_branch).collect();
        let comparison = match lines.len() {
            0 | 1 => None,
            _ => Some(json_of(&Compared::of(repo, lines, &prices)?.record())?),
        };
        let about = About::of(repo, revisions, &sessions)?;
        let About { title, description, labels } = about;
        Ok(Self { title, description, labels, branches, comparison, prices })
    }

    /// Writes the page.
    pub(super) fn write(&self, repo: &Repository, out: &mut dyn Write) -> turntree::Result<()> {
        let steps = Arc::new(Steps::default());
        let _working = Working::counting("exporting", "turns", &steps);
        let page = Page {
            title: &self.title,
            description: &self.description,
            labels: &self.labels,
            branches: &self.branches,
            more: 0,
            comparison: self.comparison.as_deref(),
            made_by: MADE_BY,
            prices: &self.prices,
            show_time: &clock::rfc3339,
            steps: Some(&steps),
        };
        export_page(repo, &page, out)
    }
}

fn json_of(record: &impl serde::Serialize) -> Result<String> {
    let json = serde_json::to_string(record);
    Ok(json.map_err(|error| Error::invalid("the comparison").with_source(error))?)
}
