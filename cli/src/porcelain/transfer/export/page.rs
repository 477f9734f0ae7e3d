//! The HTML page of an export: its content, and the comparison of branches.

use std::io::Write;

use turntree::Error;
use turntree::repo::Repository;
use turntree_exchange::PriceTable;
use turntree_exchange::render::{Page, PageBranch, export_page};

use crate::porcelain::read::comparison::{Compared, Line, lines_of};
use crate::porcelain::read::prices::Prices;
use crate::view::clock;
use crate::view::error::Result;

/// The text at the foot of a page.
const MADE_BY: &str = concat!("turntree ", env!("CARGO_PKG_VERSION"));

/// A page ready to be written.
pub(super) struct Prepared {
    title: String,
    branches: Vec<PageBranch>,
    comparison: Option<String>,
    prices: PriceTable,
}

impl Prepared {
    /// Prepares the page of some revisions; a session includes all of its branches.
    pub(super) fn of(repo: &Repository, revisions: &[String]) -> Result<Self> {
        let mut lines = Vec::new();
        for revision in revisions {
            let mut line = Line::named(repo, revision)?;
            let session = line.branch.as_ref().map(|branch| branch.session().to_owned());
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
        Ok(Self { title: revisions.join(", "), branches, comparison, prices })
    }

    /// Writes the page.
    pub(super) fn write(&self, repo: &Repository, out: &mut dyn Write) -> turntree::Result<()> {
        let page = Page {
            title: &self.title,
            labels: &[],
            branches: &self.branches,
            more: 0,
            comparison: self.comparison.as_deref(),
            made_by: MADE_BY,
            prices: &self.prices,
            show_time: &clock::rfc3339,
        };
        export_page(repo, &page, out)
    }
}

fn json_of(record: &impl serde::Serialize) -> Result<String> {
    let json = serde_json::to_string(record);
    Ok(json.map_err(|error| Error::invalid("the comparison").with_source(error))?)
}
