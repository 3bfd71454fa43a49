//! Registration of schemas.

use serde::{Deserialize, Serialize};

use super::instance::Registry;
use crate::error::{LabError, Result};

/// Reference from one schema to another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SchemaReference {
    /// Name by which the schema refers to the other: a type in Avro, an import in Protobuf.
    pub name: String,
    /// Subject of the other schema.
    pub subject: String,
    /// Version of the other schema, from 1.
    pub version: i32,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Registration<'a> {
    schema_type: &'a str,
    schema: &'a str,
    references: &'a [SchemaReference],
}

#[derive(Debug, Deserialize)]
struct Registered {
    id: i32,
}

impl Registry {
    /// Registers a schema, as an Avro, Protobuf or JSON Schema text, and returns its id.
    ///
    /// `schema_type` is `AVRO`, `PROTOBUF` or `JSON`.
    pub fn register(
        &self,
        subject: &str,
        schema_type: &str,
        schema: &str,
        references: &[SchemaReference],
    ) -> Result<i32> {
        let registration = Registration {
            schema_type,
            schema,
            references,
        };
        let failed = |error| LabError::io(format!("register a schema of {subject}"), error);
        let body = serde_json::to_string(&registration).map_err(|error| failed(error.into()))?;
        let path = format!("/apis/ccompat/v7/subjects/{}/versions", encode(subject));
        let response = self.server.request("POST", &path, &body).map_err(failed)?;
        if response.status != 200 {
            let name = self.server.name();
            return Err(LabError::Rejected(name, response.status, response.body));
        }
        let registered: Registered =
            serde_json::from_str(&response.body).map_err(|error| failed(error.into()))?;
        Ok(registered.id)
    }
}

/// Returns `text` as one segment of a path.
fn encode(text: &str) -> String {
    let encode = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
            char::from(byte).to_string()
        }
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(encode).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_are_one_segment() {
        assert_eq!(encode("orders-value"), "orders-value");
        assert_eq!(encode("a/b ü"), "a%2Fb%20%C3%BC");
    }
}
