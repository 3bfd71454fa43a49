//! Validates run files with the schema of `run.json`. Stricter than the schema: undescribed fields
//! are findings.

use std::sync::LazyLock;

use jsonschema::Validator;
use serde_json::{Value, json};
use weir_stats::run::Run;

/// Returns the schema derived from the types.
pub(crate) fn derived() -> Value {
    let mut schema = schemars::schema_for!(Run).into();
    join_lines(&mut schema);
    schema
}

/// Joins the lines of descriptions, which end at 100 columns in the sources.
fn join_lines(schema: &mut Value) {
    match schema {
        Value::Object(keywords) => {
            for (keyword, value) in keywords {
                match value {
                    Value::String(text) if keyword == "description" => {
                        *text = text.replace("\n\n", " ").replace('\n', " ");
                    }
                    value => join_lines(value),
                }
            }
        }
        Value::Array(schemas) => schemas.iter_mut().for_each(join_lines),
        _ => {}
    }
}

/// Returns all violations of the schema in `run`, each with its path.
pub(crate) fn findings(run: &Value) -> Vec<String> {
    static VALIDATOR: LazyLock<Validator> = LazyLock::new(|| {
        let mut schema = derived();
        reject_other_fields(&mut schema);
        jsonschema::validator_for(&schema).unwrap()
    });
    let errors = VALIDATOR.iter_errors(run);
    let errors = errors.map(|error| format!("{}: {error}", error.instance_path()));
    errors.collect()
}

fn reject_other_fields(schema: &mut Value) {
    match schema {
        Value::Object(keywords) => {
            if keywords.contains_key("properties") {
                keywords.insert("additionalProperties".to_owned(), json!(false));
            }
            keywords.values_mut().for_each(reject_other_fields);
        }
        Value::Array(schemas) => schemas.iter_mut().for_each(reject_other_fields),
        _ => {}
    }
}
