//! JSON Schema, against which the connector checks JSON payloads of a file schema or of Azure.

use thiserror::Error;

/// A compiled JSON Schema.
#[derive(Debug)]
pub(crate) struct JsonSchema(jsonschema::Validator);

/// Maximum length of the text about a document that does not match.
const REASON_CHARS_MAX: usize = 200;

/// Reason why a document does not match.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum JsonMismatch {
    #[error("not JSON")]
    Malformed,
    #[error("does not match its JSON schema: {0}")]
    Schema(String),
}

/// Reason why a text is not a JSON Schema.
#[derive(Debug, Error)]
pub(crate) enum JsonSchemaError {
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    #[error(transparent)]
    Schema(#[from] jsonschema::ValidationError<'static>),
}

impl JsonSchema {
    pub(crate) fn parse(text: &str) -> Result<Self, JsonSchemaError> {
        let schema: serde_json::Value = serde_json::from_str(text)?;
        Ok(Self(jsonschema::validator_for(&schema)?))
    }

    /// Checks a document.
    pub(crate) fn check(&self, document: &[u8]) -> Result<(), JsonMismatch> {
        let document = document.strip_prefix(b"\xef\xbb\xbf").unwrap_or(document);
        // As in the connector, text after the first value is ignored.
        let mut values = serde_json::Deserializer::from_slice(document).into_iter();
        let value: serde_json::Value = match values.next() {
            Some(Ok(value)) => value,
            Some(Err(_)) | None => return Err(JsonMismatch::Malformed),
        };
        self.0.validate(&value).map_err(|error| {
            // The masked form does not contain values of the record.
            let text = error.masked().to_string();
            JsonMismatch::Schema(text.chars().take(REASON_CHARS_MAX).collect())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_checked() {
        let text = r#"{"type": "object", "properties": {"a": {"type": "integer"}}}"#;
        let schema = JsonSchema::parse(text).expect("a valid schema");
        assert_eq!(schema.check(br#"{"a": 1} rest"#), Ok(()));
        assert_eq!(schema.check(b"\xef\xbb\xbf{}"), Ok(()));
        let error = schema.check(br#"{"a": "secret"}"#).unwrap_err().to_string();
        assert!(
            error.contains("integer") && !error.contains("secret"),
            "{error}"
        );
        assert_eq!(schema.check(b"{"), Err(JsonMismatch::Malformed));
        assert_eq!(schema.check(b""), Err(JsonMismatch::Malformed));
        assert!(JsonSchema::parse(r#"{"type": 5}"#).is_err());
        assert!(JsonSchema::parse("[").is_err());
    }
}
