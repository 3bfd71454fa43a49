//! Registers schemas.

use serde::Serialize;

use super::{RegistryClient, encoded};
use crate::registry::error::RegistryError;
use crate::registry::response::parse_registered;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Registration<'a> {
    schema: &'a str,
    schema_type: &'a str,
}

impl RegistryClient {
    /// Registers a schema without references under a subject of a Confluent registry. Returns its
    /// id, which is that of an equal schema if the subject has one. `kind` is `AVRO`, `PROTOBUF` or
    /// `JSON`.
    ///
    /// # Errors
    /// The registry does not accept the schema.
    pub fn register(&self, subject: &str, kind: &str, text: &str) -> Result<i32, RegistryError> {
        let path = format!("/subjects/{}/versions", encoded(subject));
        let registration = Registration {
            schema: text,
            schema_type: kind,
        };
        let invalid = |reason: String| self.invalid(&path, reason);
        let body = serde_json::to_vec(&registration).map_err(|error| invalid(error.to_string()))?;
        let response = self.exchange(&path, Some(&body))?;
        parse_registered(&response.body).map_err(|error| invalid(error.to_string()))
    }
}
