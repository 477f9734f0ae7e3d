//! Checks JSON against a schema, for the keywords used here. An unknown keyword is an error, so
//! that none is ignored.

use serde_json::{Map, Value};

/// Checks that `value` conforms to `schema`.
///
/// # Errors
/// The first place where it does not.
pub fn check(schema: &Value, value: &Value) -> Result<(), String> {
    at(schema, value, "")
}

fn at(schema: &Value, value: &Value, place: &str) -> Result<(), String> {
    let Value::Object(schema) = schema else {
        return if *schema == Value::Bool(true) {
            Ok(())
        } else {
            Err(format!("{place}: is there"))
        };
    };
    for (keyword, rule) in schema {
        let holds = match keyword.as_str() {
            "description" | "title" | "default" | "$schema" => true,
            "type" => match rule {
                Value::Array(names) => names.iter().any(|name| is(name, value)),
                name => is(name, value),
            },
            "minimum" => value.as_f64().is_none_or(|number| number >= rule.as_f64().unwrap()),
            "const" => value == rule,
            "enum" => rule.as_array().unwrap().contains(value),
            "anyOf" => rule.as_array().unwrap().iter().any(|rule| check(rule, value).is_ok()),
            "oneOf" => {
                rule.as_array().unwrap().iter().filter(|rule| check(rule, value).is_ok()).count()
                    == 1
            }
            "required" => {
                let names = rule.as_array().unwrap().iter().map(|name| name.as_str().unwrap());
                let missing = names.into_iter().find(|name| !has(value, name));
                match missing {
                    Some(name) => return Err(format!("{place}/{name} is missing")),
                    None => true,
                }
            }
            "items" => {
                for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                    at(rule, item, &format!("{place}/{index}"))?;
                }
                true
            }
            "properties" => {
                for (name, rule) in rule.as_object().unwrap() {
                    if let Some(value) = value.get(name) {
                        at(rule, value, &format!("{place}/{name}"))?;
                    }
                }
                true
            }
            "additionalProperties" => {
                let known = schema.get("properties").and_then(Value::as_object);
                for (name, value) in others(value, known) {
                    at(rule, value, &format!("{place}/{name}"))?;
                }
                true
            }
            other => return Err(format!("{place}: the keyword {other} is not known here")),
        };
        if !holds {
            return Err(format!("{place}: {value} against {keyword} {rule}"));
        }
    }
    Ok(())
}

fn has(value: &Value, name: &str) -> bool {
    value.as_object().is_none_or(|object| object.contains_key(name))
}

/// The properties that no rule names.
fn others<'v>(
    value: &'v Value,
    known: Option<&Map<String, Value>>,
) -> Vec<(&'v String, &'v Value)> {
    let properties = value.as_object().into_iter().flatten();
    properties.filter(|(name, _)| known.is_none_or(|known| !known.contains_key(*name))).collect()
}

fn is(name: &Value, value: &Value) -> bool {
    match name.as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("null") => value.is_null(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("number") => value.is_number(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_does_not_fit_is_told_with_its_place() {
        let schema = json!({
            "type": "object",
            "properties": {"a": {"type": ["integer", "null"], "minimum": 0}},
            "additionalProperties": {"type": "array", "items": {"enum": ["x", "y"]}},
            "required": ["a"],
        });
        for good in [json!({"a": 1}), json!({"a": null, "b": ["x"]})] {
            check(&schema, &good).unwrap();
        }
        for (bad, place) in [
            (json!([]), ": "),
            (json!({}), "/a is missing"),
            (json!({"a": -1}), "/a: "),
            (json!({"a": 1.5}), "/a: "),
            (json!({"a": 1, "b": ["z"]}), "/b/0: "),
        ] {
            assert!(check(&schema, &bad).unwrap_err().starts_with(place), "{bad}");
        }
        assert!(check(&json!({"pattern": "x"}), &json!("x")).is_err());
    }
}
