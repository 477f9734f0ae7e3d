//! Masks, which replace secrets.

use turntree::error::{Error, ErrorKind, Result};
use turntree::maintenance::Pattern;

use super::scanner::{FoundSecret, find_secrets};

/// Maximum number of masking rounds. Masking can turn neighboring text into a new match.
const MAX_ROUNDS: usize = 8;

/// The start of every mask.
pub(crate) const MASK: &str = "[secret: ";

/// Returns true if the bytes contain a mask.
pub(crate) fn has_mask(bytes: &[u8]) -> bool {
    memchr::memmem::find(bytes, MASK.as_bytes()).is_some()
}

/// Returns the mask of a rule.
#[must_use]
pub fn mask_of(rule: &str) -> String {
    format!("{MASK}{rule}]")
}

/// Replaces the secrets that `is_masked` selects by masks, in every encoded form that occurs.
/// `None` if there are none. Equal bytes get equal masks. No selected secret remains in the result.
///
/// # Errors
/// `LimitExceeded` for a value that is too long to search for, and `InvalidInput` if secrets remain
/// after masking.
pub fn mask_secrets(
    bytes: &[u8],
    is_masked: &dyn Fn(&FoundSecret) -> bool,
) -> Result<Option<Vec<u8>>> {
    let mut masked: Option<Vec<u8>> = None;
    for _ in 0..MAX_ROUNDS {
        let text = masked.as_deref().unwrap_or(bytes);
        let mut secrets = find_secrets(text);
        secrets.retain(|secret| is_masked(secret));
        if secrets.is_empty() {
            return Ok(masked);
        }
        let masks = secrets.iter().map(|secret| (secret.value.as_str(), mask_of(secret.rule)));
        let replaced = Pattern::literals(masks)?.replace(text)?;
        // A value in an unknown form is masked at the position of the match.
        let replaced = if replaced == text { mask_positions(text, &secrets) } else { replaced };
        masked = Some(replaced);
    }
    let text = masked.as_deref().unwrap_or(bytes);
    let left = find_secrets(text);
    match left.iter().find(|secret| is_masked(secret)) {
        None => Ok(masked),
        Some(left) => {
            let (rule, offset) = (left.rule, left.offset);
            let message = format!(
                "a secret is still found at byte {offset} after masking ({rule}): remove it from the source"
            );
            Err(Error::new(ErrorKind::InvalidInput, message))
        }
    }
}

/// Replaces the matched positions by masks.
fn mask_positions(bytes: &[u8], secrets: &[FoundSecret]) -> Vec<u8> {
    let (mut masked, mut end) = (Vec::with_capacity(bytes.len()), 0);
    for secret in secrets {
        if secret.offset >= end {
            masked.extend_from_slice(bytes.get(end..secret.offset).unwrap_or_default());
            masked.extend_from_slice(mask_of(secret.rule).as_bytes());
        }
        end = end.max(secret.end);
    }
    masked.extend_from_slice(bytes.get(end..).unwrap_or_default());
    masked
}
