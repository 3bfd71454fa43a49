//! Responses of a schema registry.

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Maximum length of text that the registry sends about an error.
const MESSAGE_CHARS_MAX: usize = 200;

/// A schema with everything it refers to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegisteredSchema {
    /// `AVRO`, `PROTOBUF` or `JSON`.
    pub kind: String,
    /// Text of the schema.
    pub text: String,
    /// Referenced schemas, each once and before the schemas that refer to it.
    pub references: Vec<SchemaText>,
}

/// A referenced schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SchemaText {
    /// Name under which other schemas refer to it: a type, or the path of an import.
    pub name: String,
    /// Text of the schema.
    pub text: String,
}

/// A version of a subject.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubjectVersion {
    /// Schema id.
    pub id: i32,
    /// Number of the version.
    pub version: i32,
    /// `AVRO`, `PROTOBUF` or `JSON`.
    pub kind: String,
}

/// A schema as the registry sends it, with references by subject and version.
#[derive(Debug, Deserialize)]
pub(crate) struct RawSchema {
    pub(super) schema: String,
    #[serde(rename = "schemaType")]
    kind: Option<String>,
    references: Option<Vec<RawReference>>,
    id: Option<i32>,
    version: Option<i32>,
}

/// A reference as the registry sends it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct RawReference {
    pub(super) name: String,
    pub(super) subject: String,
    pub(super) version: i32,
}

impl RawSchema {
    /// Returns the language; a registry that names none means Avro.
    pub(super) fn kind(&self) -> &str {
        self.kind.as_deref().unwrap_or("AVRO")
    }

    pub(super) fn references(&self) -> &[RawReference] {
        self.references.as_deref().unwrap_or_default()
    }
}

/// Reason why the body of a response cannot be used.
#[derive(Debug, Error)]
pub(crate) enum ResponseBodyError {
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    #[error("no id and version of the subject")]
    NoVersion,
    #[error("schema id {0}")]
    Id(i32),
}

/// Parses the response to a request for a schema.
pub(crate) fn parse_schema(body: &[u8]) -> Result<RawSchema, ResponseBodyError> {
    Ok(serde_json::from_slice(body)?)
}

/// Parses the response to a request for a version of a subject.
pub(crate) fn parse_subject(body: &[u8]) -> Result<SubjectVersion, ResponseBodyError> {
    let schema = parse_schema(body)?;
    let (Some(id), Some(version)) = (schema.id, schema.version) else {
        return Err(ResponseBodyError::NoVersion);
    };
    Ok(SubjectVersion {
        id,
        version,
        kind: schema.kind().to_owned(),
    })
}

/// Parses the response to a registration.
pub(crate) fn parse_registered(body: &[u8]) -> Result<i32, ResponseBodyError> {
    #[derive(Deserialize)]
    struct RawRegistration {
        id: i32,
    }
    let registration: RawRegistration = serde_json::from_slice(body)?;
    match registration.id {
        id @ 0.. => Ok(id),
        id => Err(ResponseBodyError::Id(id)),
    }
}

/// Returns the text of an error response after a colon, or an empty text.
pub(super) fn error_text(body: &[u8]) -> String {
    #[derive(Deserialize)]
    struct RawError {
        message: Option<String>,
    }
    let error = serde_json::from_slice::<RawError>(body).ok();
    let Some(message) = error.and_then(|error| error.message) else {
        return String::new();
    };
    let printable = message.chars().filter(|c| !c.is_control());
    let text: String = printable.take(MESSAGE_CHARS_MAX).collect();
    format!(": {text}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schema_responses_are_parsed() {
        let schema = parse_schema(br#"{"schema": "\"int\"", "maxId": 9}"#).expect("valid");
        assert_eq!((schema.kind(), schema.schema.as_str()), ("AVRO", "\"int\""));
        assert!(schema.references().is_empty());
        let schema = parse_schema(
            br#"{"schema": "x", "schemaType": "PROTOBUF",
                "references": [{"name": "a.proto", "subject": "a", "version": 2}]}"#,
        );
        let schema = schema.expect("valid");
        let reference = RawReference {
            name: "a.proto".to_owned(),
            subject: "a".to_owned(),
            version: 2,
        };
        assert_eq!(schema.kind(), "PROTOBUF");
        assert_eq!(schema.references(), [reference]);
        for garbage in [
            &b""[..],
            b"<html>",
            b"{}",
            b"[]",
            br#"{"schema": 5}"#,
            b"\xff",
        ] {
            assert!(parse_schema(garbage).is_err(), "{garbage:?}");
        }
    }

    #[test]
    fn subject_responses_are_parsed() {
        let version =
            parse_subject(br#"{"subject": "t-value", "version": 3, "id": 7, "schema": ""}"#);
        let expected = SubjectVersion {
            id: 7,
            version: 3,
            kind: "AVRO".to_owned(),
        };
        assert_eq!(version.unwrap(), expected);
        assert!(parse_subject(br#"{"schema": ""}"#).is_err());
    }

    #[test]
    fn error_texts_are_printable_and_short() {
        let text = error_text(br#"{"error_code": 40403, "message": "Schema 5\nnot found"}"#);
        assert_eq!(text, ": Schema 5not found");
        assert_eq!(error_text(b"<html>"), "");
        let long = format!(r#"{{"message": "{}"}}"#, "x".repeat(5_000));
        assert_eq!(error_text(long.as_bytes()).len(), MESSAGE_CHARS_MAX + 2);
    }
}
