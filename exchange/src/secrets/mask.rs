//! Masks: what stands in the place of a secret.

use turntree::error::Result;
use turntree::maintenance::Pattern;

use super::scanner::{FoundSecret, find_secrets};

/// Times that masking is repeated: what stood beside a secret may be one without it.
const MAX_ROUNDS: usize = 4;

/// The beginning of every mask.
pub(crate) const MASK: &str = "[secret: ";

/// Returns whether a mask stands in some bytes.
pub(crate) fn has_mask(bytes: &[u8]) -> bool {
    memchr::memmem::find(bytes, MASK.as_bytes()).is_some()
}

/// The mask of a rule.
#[must_use]
pub fn mask_of(rule: &str) -> String {
    format!("{MASK}{rule}]")
}

/// The bytes with masks in the place of the secrets that `is_masked` chooses, in every form that is in
/// them; `None` where there are none. The same bytes have the same masks.
///
/// # Errors
/// `LimitExceeded` for a value that is too long to be searched for.
pub fn masked(bytes: &[u8], is_masked: &dyn Fn(&FoundSecret) -> bool) -> Result<Option<Vec<u8>>> {
    let mut masked: Option<Vec<u8>> = None;
    for _ in 0..MAX_ROUNDS {
        let text = masked.as_deref().unwrap_or(bytes);
        let mut secrets = find_secrets(text);
        secrets.retain(|secret| is_masked(secret));
        if secrets.is_empty() {
            break;
        }
        let masks = secrets.iter().map(|secret| (secret.value.as_str(), mask_of(secret.rule)));
        masked = Some(Pattern::literals(masks)?.replace(text)?);
    }
    Ok(masked)
}
