//! JSON schemas of types, in a form that all clients accept.

use schemars::generate::SchemaSettings;
use schemars::transform::transform_subschemas;
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value};

/// A JSON object.
pub(crate) type SchemaObject = Map<String, Value>;

/// The schema of arguments. Optional arguments are not nullable, because some clients cannot handle
/// that.
pub(super) fn of_arguments<T: JsonSchema>() -> SchemaObject {
    let mut schema = generate::<T>(SchemaSettings::draft2020_12().for_deserialize());
    drop_nulls(&mut schema);
    object(schema)
}

/// The schema of an answer.
pub(super) fn of_answer<T: JsonSchema>() -> SchemaObject {
    object(generate::<T>(SchemaSettings::draft2020_12().for_serialize()))
}

/// A self-contained schema, since not every client follows references, and without non-standard
/// number formats.
fn generate<T: JsonSchema>(mut settings: SchemaSettings) -> Schema {
    settings.inline_subschemas = true;
    settings.meta_schema = None;
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    drop_formats(&mut schema);
    // The operation has its own title and description.
    schema.remove("title");
    schema.remove("description");
    schema
}

fn object(schema: Schema) -> SchemaObject {
    match schema.to_value() {
        Value::Object(object) => object,
        _ => SchemaObject::new(),
    }
}

/// The outline of an answer's schema: its members with their types, without nested members.
pub(super) fn outline(mut schema: SchemaObject) -> SchemaObject {
    let members = schema.get_mut("properties").and_then(Value::as_object_mut);
    for member in members.into_iter().flat_map(Map::values_mut).filter_map(Value::as_object_mut) {
        let types = match types_of(member).as_slice() {
            [] => continue,
            [only] => only.clone(),
            several => several.to_vec().into(),
        };
        member.retain(|key, _| key == "description");
        member.insert("type".to_owned(), types);
    }
    schema
}

/// The types that a schema allows.
fn types_of(schema: &SchemaObject) -> Vec<Value> {
    match (schema.get("type"), schema.get("anyOf").or_else(|| schema.get("oneOf"))) {
        (Some(Value::Array(types)), _) => types.clone(),
        (Some(only), _) => vec![only.clone()],
        (None, Some(Value::Array(any))) => {
            any.iter().filter_map(Value::as_object).flat_map(types_of).collect()
        }
        _ => Vec::new(),
    }
}

fn drop_formats(schema: &mut Schema) {
    schema.remove("format");
    transform_subschemas(&mut drop_formats, schema);
}

fn drop_nulls(schema: &mut Schema) {
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            schema.insert("type".to_owned(), only);
        }
    }
    transform_subschemas(&mut drop_nulls, schema);
}
