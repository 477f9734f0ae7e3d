//! The JSON schema of a type, as clients of every kind take it.

use schemars::generate::SchemaSettings;
use schemars::transform::transform_subschemas;
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value};

/// An object of JSON.
pub(crate) type SchemaObject = Map<String, Value>;

/// The schema of arguments. What may be left out need not be `null`, which some clients cannot say.
pub(super) fn of_arguments<T: JsonSchema>() -> SchemaObject {
    let mut schema = generate::<T>(SchemaSettings::draft2020_12().for_deserialize());
    drop_nulls(&mut schema);
    object(schema)
}

/// The schema of an answer.
pub(super) fn of_answer<T: JsonSchema>() -> SchemaObject {
    object(generate::<T>(SchemaSettings::draft2020_12().for_serialize()))
}

/// A schema that is whole in itself, since not every client follows references, and without formats of
/// numbers that no standard names.
fn generate<T: JsonSchema>(mut settings: SchemaSettings) -> Schema {
    settings.inline_subschemas = true;
    settings.meta_schema = None;
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    drop_formats(&mut schema);
    schema.remove("title");
    schema
}

fn object(schema: Schema) -> SchemaObject {
    match schema.to_value() {
        Value::Object(object) => object,
        _ => SchemaObject::new(),
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
