//! Evaluator types and their names in configurations.

use strum::{Display, EnumString};

/// Type of a record's key or value, set by `record.{key,value}.evaluator.type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Display, EnumString)]
#[strum(serialize_all = "SCREAMING_SNAKE_CASE")]
pub(crate) enum Evaluator {
    #[default]
    String,
    Json,
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

#[cfg(test)]
mod tests {
    use super::Evaluator;

    #[test]
    fn names_are_those_of_connector() {
        for (name, evaluator) in [
            ("STRING", Evaluator::default()),
            ("JSON", Evaluator::Json),
            ("BYTE_ARRAY", Evaluator::ByteArray),
            ("UUID", Evaluator::Uuid),
        ] {
            assert_eq!(name.parse(), Ok(evaluator));
            assert_eq!(evaluator.to_string(), name);
        }
        assert!("AVRO".parse::<Evaluator>().is_err());
        assert!("json".parse::<Evaluator>().is_err());
    }
}
