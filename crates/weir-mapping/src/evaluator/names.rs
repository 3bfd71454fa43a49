//! Evaluator types and their names in configurations.

/// Type of a record's key or value, set by `record.{key,value}.evaluator.type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Evaluator {
    /// UTF-8 text.
    #[default]
    String,
    /// UTF-8 JSON text.
    Json,
    /// Key-value pairs in UTF-8 text.
    Kvp,
    /// Four bytes, big-endian.
    Integer,
    /// Two bytes, big-endian.
    Short,
    /// Eight bytes, big-endian.
    Long,
    /// Four bytes, IEEE 754, big-endian.
    Float,
    /// Eight bytes, IEEE 754, big-endian.
    Double,
    /// One byte, 0 or 1.
    Boolean,
    /// Text of a UUID.
    Uuid,
    /// Any bytes; printable ASCII is unchanged.
    Bytes,
    /// As [`Self::Bytes`]. The connector shows the identity of a Java object instead.
    ByteArray,
    /// As [`Self::Bytes`]. The connector shows the state of a Java object instead.
    ByteBuffer,
}

/// All names that the connector accepts, with the evaluator if it is supported.
const NAMES: [(&str, Option<Evaluator>); 15] = [
    ("AVRO", None),
    ("JSON", Some(Evaluator::Json)),
    ("PROTOBUF", None),
    ("KVP", Some(Evaluator::Kvp)),
    ("STRING", Some(Evaluator::String)),
    ("INTEGER", Some(Evaluator::Integer)),
    ("BOOLEAN", Some(Evaluator::Boolean)),
    ("BYTE_ARRAY", Some(Evaluator::ByteArray)),
    ("BYTE_BUFFER", Some(Evaluator::ByteBuffer)),
    ("BYTES", Some(Evaluator::Bytes)),
    ("DOUBLE", Some(Evaluator::Double)),
    ("FLOAT", Some(Evaluator::Float)),
    ("LONG", Some(Evaluator::Long)),
    ("SHORT", Some(Evaluator::Short)),
    ("UUID", Some(Evaluator::Uuid)),
];

impl Evaluator {
    /// All names that the connector accepts, supported or not.
    pub(crate) const NAMES: &'static [&'static str] = &{
        let mut names = [""; NAMES.len()];
        let mut i = 0;
        while i < NAMES.len() {
            names[i] = NAMES[i].0;
            i += 1;
        }
        names
    };

    /// Returns the evaluator with that name, `None` if it is not supported.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        let found = NAMES.iter().find(|(known, _)| *known == name);
        found.and_then(|(_, evaluator)| *evaluator)
    }

    /// Returns the name used in configurations.
    pub fn name(self) -> &'static str {
        let found = NAMES.iter().find(|(_, e)| *e == Some(self));
        found.map_or("", |(name, _)| name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_evaluators_convert_both_ways() {
        for name in Evaluator::NAMES {
            if let Some(evaluator) = Evaluator::from_name(name) {
                assert_eq!(evaluator.name(), *name);
            }
        }
        assert_eq!(Evaluator::from_name("AVRO"), None);
        assert_eq!(Evaluator::from_name("json"), None);
        assert_eq!(Evaluator::default().name(), "STRING");
    }
}
