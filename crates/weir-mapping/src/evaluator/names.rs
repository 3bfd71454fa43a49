//! Evaluator types and their names in configurations.

use strum::{Display, EnumString};

/// Type of a record's key or value, set by `record.{key,value}.evaluator.type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Display, EnumString)]
#[strum(serialize_all = "SCREAMING_SNAKE_CASE")]
pub(crate) enum Evaluator {
    #[default]
    String,
    Json,
    Avro,
    Protobuf,
    Kvp,
    Integer,
    Short,
    Long,
    Float,
    Double,
    Boolean,
    Uuid,
    Bytes,
    /// As [`Self::Bytes`]. The connector shows the identity of a Java object instead.
    ByteArray,
    /// As [`Self::Bytes`]. The connector shows the state of a Java object instead.
    ByteBuffer,
}

impl Evaluator {
    /// Returns `true` if payloads are documents, into which paths lead.
    pub(crate) fn is_document(self) -> bool {
        matches!(self, Self::Json | Self::Avro | Self::Protobuf)
    }
}

#[cfg(test)]
mod tests {
    use super::Evaluator;

    #[test]
    fn names_match_connector() {
        for (name, evaluator) in [
            ("STRING", Evaluator::default()),
            ("JSON", Evaluator::Json),
            ("AVRO", Evaluator::Avro),
            ("PROTOBUF", Evaluator::Protobuf),
            ("BYTE_ARRAY", Evaluator::ByteArray),
            ("UUID", Evaluator::Uuid),
        ] {
            assert_eq!(name.parse(), Ok(evaluator));
            assert_eq!(evaluator.to_string(), name);
        }
        assert!("json".parse::<Evaluator>().is_err());
    }
}
