//! The records of `hook`.

use serde::Serialize;

/// `hook install` and `hook uninstall`.
#[derive(Serialize)]
pub(crate) struct HookSettings {
    pub(crate) client: &'static str,
    /// The file of settings, behind all links.
    pub(crate) path: String,
    /// Whether it is another one than before, or would be.
    pub(crate) changed: bool,
    pub(crate) dry_run: bool,
}

/// `hook log`, one record a line.
#[derive(Serialize)]
pub(crate) struct HookLog<'a> {
    pub(crate) time: &'a str,
    pub(crate) dialect: &'a str,
    pub(crate) event: &'a str,
    /// What was being done.
    pub(crate) doing: &'a str,
    /// What came of it.
    pub(crate) what: &'a str,
}
