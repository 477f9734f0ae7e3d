//! The change of a ref, for people.

use turntree::object::{RefChange, RefValue};

use super::ID_DIGITS;
use crate::view::output::{FAINT, ID, NAME, Palette};

/// Describes the change of a ref for people.
pub(crate) fn line(paint: Palette, change: &RefChange) -> String {
    let value = |value: &Option<RefValue>| match value {
        None => paint.paint(FAINT, "nothing").to_string(),
        Some(RefValue::Object(id)) => paint.paint(ID, id.short(ID_DIGITS)).to_string(),
        Some(RefValue::Symbolic(target)) => {
            let name = target.strip_prefix("refs/heads/").unwrap_or(target);
            paint.paint(NAME, name).to_string()
        }
    };
    let name = change.name.strip_prefix("refs/").unwrap_or(&change.name);
    format!("  {} {} -> {}", paint.paint(NAME, name), value(&change.old), value(&change.new))
}
