//! The data types of formats and imports: events, views, reports.

pub(crate) mod event;
pub(crate) mod format;
pub(crate) mod headline;
pub(crate) mod payload_name;
pub(crate) mod picture;
pub(crate) mod record_kind;
pub(crate) mod report;
pub(crate) mod unread;
pub(crate) mod view;
pub(crate) mod words;
