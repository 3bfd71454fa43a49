//! Location of the due time in records.

use std::fmt;
use std::str::FromStr;

use crate::value_schema::RecordFormat;

/// Source of a record's due time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum LatencySource {
    /// Headers of Weir's producers; the text of the value for records without them.
    #[default]
    Header,
    /// From the first 23 characters of the value.
    Text,
    /// Member of a JSON value; the text for values that are not objects.
    Json(String),
    /// Field of an Avro record.
    Avro(String),
    /// Field of a Protobuf message.
    Protobuf(String),
}

impl LatencySource {
    /// Returns the language of values that a schema describes.
    pub fn schema_format(&self) -> Option<RecordFormat> {
        match self {
            Self::Avro(_) => Some(RecordFormat::Avro),
            Self::Protobuf(_) => Some(RecordFormat::Protobuf),
            Self::Header | Self::Text | Self::Json(_) => None,
        }
    }
}

/// Error for an unknown source.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown source \"{0}\": use header, text, json:MEMBER, avro:FIELD or protobuf:FIELD, for \
     example json:timestamp"
)]
pub struct UnknownSource(String);

impl FromStr for LatencySource {
    type Err = UnknownSource;

    fn from_str(text: &str) -> Result<Self, UnknownSource> {
        let name = |name: &str| Some(name.to_owned()).filter(|name| !name.is_empty());
        let source = match text.split_once(':') {
            None if text == "header" => Some(Self::Header),
            None if text == "text" => Some(Self::Text),
            Some(("json", member)) if !member.contains(['"', '\\']) => name(member).map(Self::Json),
            Some(("avro", field)) => name(field).map(Self::Avro),
            Some(("protobuf", field)) => name(field).map(Self::Protobuf),
            _ => None,
        };
        source.ok_or_else(|| UnknownSource(text.to_owned()))
    }
}

impl fmt::Display for LatencySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header => f.write_str("header"),
            Self::Text => f.write_str("text"),
            Self::Json(member) => write!(f, "json:{member}"),
            Self::Avro(field) => write!(f, "avro:{field}"),
            Self::Protobuf(field) => write!(f, "protobuf:{field}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_names_round_trip() {
        for text in [
            "header",
            "text",
            "json:timestamp",
            "json:a.b",
            "avro:a.b",
            "protobuf:weir",
        ] {
            let source: LatencySource = text.parse().expect("a source");
            assert_eq!(source.to_string(), text);
        }
        for text in ["", "json", "json:", "avro:", "json:a\"b", "xml", "xml:a"] {
            let error = text.parse::<LatencySource>().expect_err("none");
            assert!(
                error
                    .to_string()
                    .contains("use header, text, json:MEMBER, avro:FIELD"),
                "{error}"
            );
        }
    }
}
