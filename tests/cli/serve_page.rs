//! The methods in `docs/reference/serve.md` match those that the program describes. `UPDATE_STORIES=1`
//! rewrites the page.

use std::fmt::Write;
use std::path::Path;

use serde_json::{Value, json};
use turntree_tests::server_process::Place;

const PROGRAM: &str = env!("CARGO_BIN_EXE_turntree-under-test");

/// The start of the generated part of the page.
const MARK: &str = "<!-- methods -->\n";

/// Describes a schema in words.
fn in_words(schema: &Value) -> String {
    let words = |key: &str| schema[key].as_array().into_iter().flatten();
    if schema.get("enum").is_some() {
        return words("enum").map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    }
    for key in ["oneOf", "anyOf"] {
        if schema.get(key).is_some() {
            return words(key).map(one_of).collect::<Vec<_>>().join(" or ");
        }
    }
    match &schema["type"] {
        Value::Array(types) => {
            let one = |name: &Value| {
                let mut only = schema.clone();
                only["type"] = name.clone();
                in_words(&only)
            };
            types.iter().map(one).collect::<Vec<_>>().join(" or ")
        }
        Value::String(name) if name == "array" => {
            format!("array of {}", in_words(&schema["items"]))
        }
        Value::String(name) if name == "object" => object(schema),
        Value::String(name) => name.clone(),
        _ => "anything".to_owned(),
    }
}

fn one_of(schema: &Value) -> String {
    schema.get("const").map_or_else(|| in_words(schema), |value| format!("`{value}`"))
}

fn object(schema: &Value) -> String {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        let values = &schema["additionalProperties"];
        return if values.is_object() {
            format!("object of {}", in_words(values))
        } else {
            "object".to_owned()
        };
    };
    let field = |(name, schema): (&String, &Value)| match in_words(schema).as_str() {
        "string" | "integer" | "boolean" => format!("`{name}`"),
        words => format!("`{name}`: {words}"),
    };
    format!("{{{}}}", properties.iter().map(field).collect::<Vec<_>>().join(", "))
}

/// The rows of a table of properties.
fn table(page: &mut String, title: &str, schema: &Value) {
    let properties = schema["properties"].as_object().into_iter().flatten();
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let mut rows = properties.peekable();
    if rows.peek().is_none() {
        return;
    }
    writeln!(page, "| {title} | type | |\n|---|---|---|").unwrap();
    for (name, property) in rows {
        let about = property["description"].as_str().unwrap_or_default();
        let needed = match required.contains(&json!(name)) {
            true if title == "takes" => "**needed**. ",
            false if title == "answers" => "*optional*. ",
            _ => "",
        };
        let row = format!("{needed}{about}").replace('\n', " ").replace('|', "\\|");
        let words = in_words(property).replace('|', "\\|");
        writeln!(page, "| `{name}` | {words} | {} |", row.trim()).unwrap();
    }
    page.push('\n');
}

#[test]
fn the_page_describes_every_method_as_it_is() {
    let place = Place::new(PROGRAM);
    let mut server = place.server(&["serve", "--stdio", "--", "true"]);
    let described = server.call("describe", &json!({})).unwrap();
    let mut methods = String::new();
    for method in described["methods"].as_array().unwrap() {
        let text = |key: &str| method[key].as_str().unwrap();
        writeln!(methods, "\n## `{}`\n\n{}\n", text("name"), text("description")).unwrap();
        table(&mut methods, "takes", &method["params"]);
        table(&mut methods, "answers", &method["result"]);
        methods.pop();
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference/serve.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (front, found) = page.split_once(MARK).expect("the mark");
    if std::env::var_os("UPDATE_STORIES").is_some() {
        std::fs::write(&path, format!("{front}{MARK}{methods}")).unwrap();
        return;
    }
    assert!(
        found == methods,
        "serve.md is behind: UPDATE_STORIES=1 cargo test --workspace --test cli serve_page"
    );
}
