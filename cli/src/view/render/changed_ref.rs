//! The change of a ref, for people.

use turntree::object::{RefChange, RefValue};

use super::ID_DIGITS;
use crate::view::output::{FAINT, ID, NAME, Palette};
use crate::view::short_names::ShortNames;

/// Describes the change of a ref for people, with the short names of sessions.
pub(crate) fn line(paint: Palette, change: &RefChange, names: &ShortNames) -> String {
    let value = |value: &Option<RefValue>| match value {
        None => paint.paint(FAINT, "nothing").to_string(),
        Some(RefValue::Object(id)) => paint.paint(ID, id.short(ID_DIGITS)).to_string(),
        Some(RefValue::Symbolic(target)) => {
            let name = target.strip_prefix("refs/heads/").unwrap_or(target);
            paint.paint(NAME, names.in_text(name)).to_string()
        }
    };
    let name = change.name.strip_prefix("refs/").unwrap_or(&change.name);
    let name = match name.strip_prefix("heads/") {
        Some(branch) => format!("heads/{}", names.in_text(branch)),
        None => name.to_owned(),
    };
    format!("  {} {} -> {}", paint.paint(NAME, name), value(&change.old), value(&change.new))
}
