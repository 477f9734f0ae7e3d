//! The records of `hook`.

use serde::Serialize;

/// `hook install` and `hook uninstall`.
#[derive(Serialize)]
pub(crate) struct HookSettings<'a> {
    pub(crate) client: &'static str,
    /// The file of settings, behind all links.
    pub(crate) path: String,
    /// True when it changed, or would change.
    pub(crate) changed: bool,
    pub(crate) dry_run: bool,
    /// The steps left to do in the client before it runs them.
    pub(crate) next_steps: &'a [&'static str],
}

/// `hook check`, one record a line.
#[derive(Serialize)]
pub(crate) struct HookCheck {
    pub(crate) client: &'static str,
    /// The settings that have the hooks.
    pub(crate) installed: Vec<String>,
    /// When the client has last run one for this store; `null` for never.
    pub(crate) last_called: Option<String>,
    /// The event of that.
    pub(crate) last_event: Option<String>,
}

/// `hook log`, one record a line.
#[derive(Serialize)]
pub(crate) struct HookLog<'a> {
    pub(crate) time: &'a str,
    pub(crate) dialect: &'a str,
    pub(crate) event: &'a str,
    /// The work at hand.
    pub(crate) step: &'a str,
    /// The error.
    pub(crate) detail: &'a str,
}
