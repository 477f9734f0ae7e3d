//! Finds explorations by name.

use turntree::repo::{Exploration, Repository};
use turntree::{Error, ErrorKind};

use crate::view::error::{Failure, Result};

/// The exploration called `name`, or the newest one of all sessions.
///
/// # Errors
/// `NotFound` if there is none, `Ambiguous` if several sessions have one of this name.
pub(crate) fn named(repo: &Repository, name: Option<&str>) -> Result<Exploration> {
    let mut found = repo.explorations(None)?;
    if let Some(name) = name {
        found.retain(|exploration| {
            exploration.name == name
                || format!("{}/{}", exploration.session, exploration.name) == name
        });
        if let [one, other, ..] = &*found {
            let both = format!("{}/{name} and {}/{name}", one.session, other.session);
            let error = Error::new(ErrorKind::Ambiguous, format!("'{name}' is {both}"));
            return Err(Failure::hinted(error, "name it with its session, as SESSION/NAME"));
        }
    }
    let hint = "'turntree explore --strategy NAME=PROMPT -- COMMAND' begins one";
    found.into_iter().next().ok_or_else(|| {
        let what = name.map_or_else(
            || "there is no exploration".to_owned(),
            |name| format!("there is no exploration {name}"),
        );
        Failure::hinted(Error::not_found(what), hint)
    })
}
