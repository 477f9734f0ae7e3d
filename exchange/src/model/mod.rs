//! What a format says and what an import answers: types that everything else here speaks in.

pub(crate) mod event;
pub(crate) mod format;
pub(crate) mod picture;
pub(crate) mod report;
pub(crate) mod view;
