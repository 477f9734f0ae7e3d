//! Finds and replaces long texts in the output of a tool, which has another shape for every tool.

use serde_json::Value;

/// Fields with the output of tools.
const FIELDS: &[&str] = &["stdout", "stderr", "output", "content", "result", "text", "llmContent"];

/// The depth of such fields: an array of blocks in a field.
const MAX_DEPTH: usize = 4;

/// Replaces every text for which `shorten` returns a different text. Returns true if it replaced any.
pub(super) fn replace(said: &mut Value, shorten: &mut dyn FnMut(&str) -> Option<String>) -> bool {
    replace_in(said, shorten, 0)
}

fn replace_in(
    said: &mut Value,
    shorten: &mut dyn FnMut(&str) -> Option<String>,
    depth: usize,
) -> bool {
    match said {
        Value::String(text) => match shorten(text) {
            Some(short) => {
                *text = short;
                true
            }
            None => false,
        },
        Value::Array(items) if depth < MAX_DEPTH => {
            let blocks = items.iter_mut().filter(|item| item.is_object());
            // Every one of them, not only the first.
            blocks.filter_map(|item| replace_in(item, shorten, depth + 1).then_some(())).count() > 0
        }
        Value::Object(fields) if depth < MAX_DEPTH => {
            let known = fields.iter_mut().filter(|(name, _)| FIELDS.contains(&name.as_str()));
            known.filter_map(|(_, said)| replace_in(said, shorten, depth + 1).then_some(())).count()
                > 0
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_was_said_is_replaced_and_the_shape_stays() {
        let mut shorten = |text: &str| (text.len() > 4).then(|| "short".to_owned());
        for (mut said, expected) in [
            (json!("a long text"), Some(json!("short"))),
            (
                json!({"stdout": "a long text", "stderr": "", "interrupted": false, "path": "long path"}),
                Some(
                    json!({"stdout": "short", "stderr": "", "interrupted": false, "path": "long path"}),
                ),
            ),
            (
                json!([{"type": "text", "text": "a long text"}, {"type": "image", "data": "a long one"}]),
                Some(
                    json!([{"type": "text", "text": "short"}, {"type": "image", "data": "a long one"}]),
                ),
            ),
            (json!({"stdout": "ok"}), None),
            (json!(17), None),
        ] {
            let before = said.clone();
            assert_eq!(replace(&mut said, &mut shorten), expected.is_some());
            assert_eq!(said, expected.unwrap_or(before));
        }
    }
}
