//! The records of `hook`.

use serde::Serialize;

/// `hook install` and `hook uninstall`.
#[derive(Serialize)]
pub(crate) struct HookSettings<'a> {
    pub(crate) client: &'static str,
    /// The settings file, with all links resolved.
    pub(crate) path: String,
    /// True if it changed, or would change.
    pub(crate) changed: bool,
    pub(crate) dry_run: bool,
    /// The steps that the user must do in the client before it runs the hooks.
    pub(crate) next_steps: &'a [&'static str],
}

/// `hook check`, one record per line.
#[derive(Serialize)]
pub(crate) struct HookCheck {
    pub(crate) client: &'static str,
    /// The settings that have the hooks.
    pub(crate) installed: Vec<String>,
    /// The time of the client's last hook for this store; `null` for never.
    pub(crate) last_called: Option<String>,
    /// The event of that hook.
    pub(crate) last_event: Option<String>,
}

/// `hook log`, one record per line.
#[derive(Serialize)]
pub(crate) struct HookLog<'a> {
    pub(crate) time: &'a str,
    pub(crate) dialect: &'a str,
    pub(crate) event: &'a str,
    /// The step that failed.
    pub(crate) step: &'a str,
    /// The error.
    pub(crate) detail: &'a str,
}
