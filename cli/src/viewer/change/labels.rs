//! Title and labels of a session: what a change of them would do.

use turntree::repo::{Repository, SessionLabels};

use super::{Plan, Prepared, Work};
use crate::porcelain::sessions::stage_labels;
use crate::view::error::Result;

/// What a session without a title of its own is called by.
const NO_TITLE: &str = "the title of its client";

/// What stands for a label that is there.
const THERE: &str = "on it";

/// Looks at a title and labels, which are all that a session would have.
pub(super) fn prepare(
    repo: &Repository,
    session: String,
    title: Option<String>,
    labels: Vec<String>,
) -> Result<Prepared<'_>> {
    let before = repo.session_labels(&session)?;
    let after = SessionLabels { title, labels: labels.into_iter().collect() };
    stage_labels(repo, &session, &after)?;
    let mut plan = Plan::new(format!("Title and labels of {session}"));
    if before.title != after.title {
        let told = |title: &Option<String>| Some(title.as_deref().unwrap_or(NO_TITLE).to_owned());
        plan = plan.moving("title".to_owned(), told(&before.title), told(&after.title));
    }
    for label in before.labels.symmetric_difference(&after.labels) {
        let told = |said: &SessionLabels| said.labels.contains(label).then(|| THERE.to_owned());
        plan = plan.moving(format!("label {label}"), told(&before), told(&after));
    }
    plan.is_idle = before == after;
    let state = format!("labels\0{session}\0{before:?}\0{after:?}");
    Ok(Prepared { plan, state, work: Work::Label(session, after) })
}
