//! Strict JSON: objects without duplicate members.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// Parses an object. Returns `None` for invalid JSON, another value, or a duplicate member, also in
/// nested objects. The parser limits the depth to 128.
pub(crate) fn parse_object(bytes: &[u8]) -> Option<Map<String, Value>> {
    match serde_json::from_slice(bytes) {
        Ok(StrictValue(Value::Object(members))) => Some(members),
        _ => None,
    }
}

/// A JSON value without duplicate members.
struct StrictValue(Value);

impl<'de> Deserialize<'de> for StrictValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StrictVisitor).map(Self)
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value without duplicate members")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(StrictValue(value)) = sequence.next_element()? {
            values.push(value);
        }
        Ok(values.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Value, A::Error> {
        let mut members = Map::new();
        while let Some((name, StrictValue(value))) = object.next_entry::<String, _>()? {
            if members.insert(name, value).is_some() {
                return Err(A::Error::custom("duplicate member"));
            }
        }
        Ok(members.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicate_members_are_rejected_at_any_depth() {
        for text in [
            r#"{"a":1,"a":1}"#,
            r#"{"a":1,"\u0061":2}"#,
            r#"{"x":[{"a":1,"a":2}]}"#,
            "[]",
            "1",
            "",
            r#"{"a":1e400}"#,
            r#"{"a":NaN}"#,
            r#"{"a":1} x"#,
        ] {
            assert_eq!(parse_object(text.as_bytes()), None, "{text}");
        }
        assert_eq!(parse_object(b"{\"a\":\"\xff\"}"), None, "not UTF-8");
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(200), "]".repeat(200));
        assert_eq!(parse_object(deep.as_bytes()), None);
    }

    #[test]
    fn values_match_serde_json() {
        let text = r#"{"a":[1,-2,3.5,null,true,"x"],"b":{"c":{},"d":18446744073709551615}}"#;
        let expected: Value = serde_json::from_str(text).unwrap();
        assert_eq!(
            parse_object(text.as_bytes()).map(Value::Object),
            Some(expected)
        );
    }
}
