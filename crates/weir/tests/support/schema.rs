//! Validates a value with `docs/run.schema.json`, for the keywords used there. Stricter than the
//! schema: undescribed fields and unknown keywords are findings.

use serde_json::{Map, Value};

/// The published schema.
pub(crate) fn schema() -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/run.schema.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Returns all violations of the schema in `run`, each with its path.
pub(crate) fn findings(run: &Value) -> Vec<String> {
    let root = schema();
    let mut found = Vec::new();
    Checker { root: &root }.check(run, &root, "run", &mut found);
    found
}

struct Checker<'a> {
    root: &'a Value,
}

impl Checker<'_> {
    fn check(&self, value: &Value, schema: &Value, at: &str, found: &mut Vec<String>) {
        let keywords = schema.as_object().expect("a schema is an object");
        for (keyword, wanted) in keywords {
            match keyword.as_str() {
                "$schema" | "$defs" | "title" | "description" => {}
                "$ref" => self.check(value, self.definition(wanted), at, found),
                "anyOf" => self.any_of(value, wanted, at, found),
                "type" if !has_type(value, wanted) => {
                    found.push(format!("{at}: {value} is no {wanted}"))
                }
                "const" if value != wanted => found.push(format!("{at}: {value} is not {wanted}")),
                "enum" if !wanted.as_array().is_some_and(|all| all.contains(value)) => {
                    found.push(format!("{at}: {value} is none of {wanted}"));
                }
                "minimum" if value.as_f64() < wanted.as_f64() && value.is_number() => {
                    found.push(format!("{at}: {value} is below {wanted}"));
                }
                "required" => required(value, wanted, at, found),
                "type" | "const" | "enum" | "minimum" => {}
                "properties" | "additionalProperties" => {}
                "items" => {
                    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                        self.check(item, wanted, &format!("{at}[{index}]"), found);
                    }
                }
                other => found.push(format!("{at}: keyword {other} is not known here")),
            }
        }
        if let Some(fields) = value.as_object() {
            self.fields(fields, keywords, at, found);
        }
    }

    fn fields(
        &self,
        fields: &Map<String, Value>,
        keywords: &Map<String, Value>,
        at: &str,
        found: &mut Vec<String>,
    ) {
        let described = keywords.get("properties").and_then(Value::as_object);
        let others = keywords.get("additionalProperties");
        if described.is_none() && others.is_none() {
            return;
        }
        for (name, value) in fields {
            let at = format!("{at}.{name}");
            let own = described.and_then(|described| described.get(name));
            match own.or(others) {
                Some(schema) => self.check(value, schema, &at, found),
                None => found.push(format!("{at} is not described")),
            }
        }
    }

    fn any_of(&self, value: &Value, wanted: &Value, at: &str, found: &mut Vec<String>) {
        let mut nearest: Option<Vec<String>> = None;
        for schema in wanted.as_array().into_iter().flatten() {
            let mut own = Vec::new();
            self.check(value, schema, at, &mut own);
            if nearest
                .as_ref()
                .is_none_or(|nearest| own.len() < nearest.len())
            {
                nearest = Some(own);
            }
        }
        found.extend(nearest.unwrap_or_default());
    }

    fn definition(&self, reference: &Value) -> &Value {
        let path = reference.as_str().and_then(|text| text.strip_prefix('#'));
        let found = path.and_then(|path| self.root.pointer(path));
        found.unwrap_or_else(|| panic!("{reference} is not there"))
    }
}

fn required(value: &Value, wanted: &Value, at: &str, found: &mut Vec<String>) {
    for name in wanted
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
    {
        if value
            .as_object()
            .is_some_and(|fields| !fields.contains_key(name))
        {
            found.push(format!("{at}.{name} is missing"));
        }
    }
}

fn has_type(value: &Value, wanted: &Value) -> bool {
    let is = |name: &Value| match name.as_str() {
        Some("null") => value.is_null(),
        Some("boolean") => value.is_boolean(),
        Some("string") => value.is_string(),
        Some("number") => value.is_number(),
        Some("integer") => value.is_u64() || value.is_i64(),
        Some("array") => value.is_array(),
        Some("object") => value.is_object(),
        _ => false,
    };
    match wanted {
        Value::Array(names) => names.iter().any(is),
        name => is(name),
    }
}
