//! Finds and masks secrets: known token formats, and assignments that look like secrets.
//!
//! ```text
//! bytes, decoded ── keywords of all rules ── expressions around them ── placeholders out ── FoundSecret
//! bytes ── FoundSecret ── every form of its value ── bytes with `[secret: rule]` in their places
//! ```
//!
//! `insight::secrets` finds their places in a history.

mod filter;
mod keyword_table;
#[cfg(test)]
mod keywords;
mod mask;
mod rules;
mod scanner;
mod value;

pub(crate) use filter::Allowances;
pub use filter::{NewSecrets, SecretFilter};
pub(crate) use mask::has_mask;
pub use mask::{mask_of, mask_secrets};
pub(crate) use rules::rules_id;
pub use rules::{RULES, SecretRule};
pub(crate) use scanner::has_value;
pub use scanner::{FoundSecret, find_secrets};
