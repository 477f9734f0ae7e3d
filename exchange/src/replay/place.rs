//! Paths of the recorded directory stand for paths of the current one.
//!
//! A client that replays a session in another directory must not write into the recorded one, and
//! its paths are no differences.

use std::borrow::Cow;

use serde_json::Value;

/// The recorded directory and the current one, if they differ.
#[derive(Debug, Clone, Default)]
pub(super) struct Place(Option<(String, String)>);

impl Place {
    pub(super) fn new(recorded: Option<&str>, here: Option<&str>) -> Self {
        let clean = |path: &str| path.trim_end_matches(['/', '\\']).to_owned();
        let pair = recorded.map(clean).zip(here.map(clean));
        Self(
            pair.filter(|(recorded, here)| {
                recorded != here && recorded.len() > 1 && !here.is_empty()
            }),
        )
    }

    /// The text with the current directory instead of the recorded one.
    pub(super) fn to_here<'t>(&self, text: &'t str) -> Cow<'t, str> {
        match &self.0 {
            Some((recorded, here)) => replace(text, recorded, here),
            None => text.into(),
        }
    }

    /// The text with the recorded directory instead of the current one.
    pub(super) fn to_recorded<'t>(&self, text: &'t str) -> Cow<'t, str> {
        match &self.0 {
            Some((recorded, here)) => replace(text, here, recorded),
            None => text.into(),
        }
    }

    /// Moves every text in a value to the current directory.
    pub(super) fn move_here(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let Cow::Owned(moved) = self.to_here(text) {
                    *text = moved;
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.move_here(item)),
            Value::Object(fields) => fields.values_mut().for_each(|field| self.move_here(field)),
            _ => {}
        }
    }

    /// The recorded directory, if there is another current one.
    pub(super) fn recorded(&self) -> Option<&str> {
        self.0.as_ref().map(|(recorded, _)| recorded.as_str())
    }
}

/// Replaces the directory `old` where it is a whole path or the start of one.
fn replace<'t>(text: &'t str, old: &str, new: &str) -> Cow<'t, str> {
    let mut moved = String::new();
    let mut kept = 0;
    for (at, _) in text.match_indices(old) {
        let (before, from) = text.split_at(at);
        let after = from.get(old.len()..).unwrap_or_default();
        if is_inside(before.chars().next_back(), after) {
            continue;
        }
        moved.push_str(text.get(kept..at).unwrap_or_default());
        moved.push_str(new);
        kept = at + old.len();
    }
    if kept == 0 {
        return text.into();
    }
    moved.push_str(text.get(kept..).unwrap_or_default());
    moved.into()
}

/// Returns true if a path goes on before or after a match: `/w/plan` in `/w/plan-1` or `/x/w/plan`.
fn is_inside(before: Option<char>, after: &str) -> bool {
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_');
    let mut after = after.chars();
    let goes_on = match after.next() {
        Some('.') => after.next().is_some_and(is_name),
        Some(c) => is_name(c),
        None => false,
    };
    goes_on || before.is_some_and(|c| is_name(c) || matches!(c, '/' | '.' | '~'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_paths_are_replaced_and_neighbours_stay() {
        let place = Place::new(Some("/w/plan/"), Some("/tmp/x"));
        for (recorded, here) in [
            ("cat /w/plan/src/a.rs", "cat /tmp/x/src/a.rs"),
            ("in /w/plan. Then '/w/plan'", "in /tmp/x. Then '/tmp/x'"),
            ("/w/plan", "/tmp/x"),
            (
                "/w/plan-1 /w/plan.old /x/w/plan ../w/plan",
                "/w/plan-1 /w/plan.old /x/w/plan ../w/plan",
            ),
            ("/w/plan:/w/plan2:/w/plan", "/tmp/x:/w/plan2:/tmp/x"),
        ] {
            assert_eq!(place.to_here(recorded), here);
            assert_eq!(place.to_recorded(here), recorded);
        }
    }

    #[test]
    fn equal_directories_and_roots_replace_nothing() {
        for (recorded, here) in [
            (Some("/w"), Some("/w/")),
            (Some("/"), Some("/w")),
            (None, Some("/w")),
            (Some("/w"), None),
        ] {
            assert_eq!(Place::new(recorded, here).to_here("/w/a"), "/w/a");
        }
    }
}
