//! Secrets: known formats of tokens and assignments that look like one, found, told and masked.
//!
//! ```text
//! bytes, decoded ── keywords of all rules ── expressions around them ── placeholders out ── FoundSecret
//! bytes ── FoundSecret ── every form of its value ── bytes with `[secret: rule]` in their places
//! ```
//!
//! Where a history has them is for `insight::secrets` to say.

mod filter;
mod keyword_table;
#[cfg(test)]
mod keywords;
mod mask;
mod rules;
mod scanner;
mod value;

pub(crate) use filter::Allowances;
pub use filter::{SecretFilter, SeenSecrets};
pub(crate) use mask::has_mask;
pub use mask::{mask_of, masked};
pub use rules::{RULES, SecretRule};
pub(crate) use scanner::stands_in;
pub use scanner::{FoundSecret, find_secrets};
