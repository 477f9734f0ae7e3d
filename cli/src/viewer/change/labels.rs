//! Plans a change of the title and the labels of a session.

use turntree::repo::{Repository, SessionLabels};

use super::{Plan, Prepared, Work};
use crate::porcelain::read::sessions::stage_labels;
use crate::view::error::Result;

/// Describes a session without its own title.
const NO_TITLE: &str = "the title of its client";

/// The state of an existing label.
const THERE: &str = "on it";

/// Plans to set a title and labels; they replace all existing ones.
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
