//! Refuses to carry out a plan that is outdated or was not shown.

use turntree::{Error, ErrorKind};

use crate::view::advice::Advice;
use crate::view::error::{Failure, Result};

/// Refuses the id of another plan, and with `takes_id` a missing id.
pub(super) fn check(asked: Option<&str>, id: &str, takes_id: bool) -> Result<()> {
    match asked {
        Some(asked) if asked != id => {
            let error = Error::new(
                ErrorKind::Conflict,
                "this plan_id belongs to an older plan: nothing was done",
            );
            let advice = "look at the plan again: call it without plan_id";
            Err(Failure::hinted(error, Advice::calls(advice)))
        }
        None if takes_id => {
            let error = Error::invalid("this overwrites or deletes files, so it takes a plan_id");
            Err(Failure::hinted(error, Advice::calls("call it without dry_run first")))
        }
        _ => Ok(()),
    }
}
