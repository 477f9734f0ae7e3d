//! Windows.

mod calls;
pub(super) mod errors;
pub(super) mod file;
pub(super) mod folder;
pub(super) mod mapping;
pub(super) mod process;
pub(super) mod stat;

use super::NameRules;

pub(super) const NAME_RULES: NameRules = NameRules::Windows;

/// Whether a file is a program follows from its name. A snapshot keeps the bit that it has.
pub(super) const HAS_EXECUTABLE_BIT: bool = false;
