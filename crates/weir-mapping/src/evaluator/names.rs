//! Evaluator types and their names in configurations.

/// The type of a record's key or value, as `record.{key,value}.evaluator.type` names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Evaluator {
    /// UTF-8 text.
    #[default]
    String,
    /// UTF-8 JSON text.
    Json,
    /// Pairs of keys and values in UTF-8 text.
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
    /// The text of a UUID.
    Uuid,
    /// Any bytes; printable ASCII is shown as it is.
    Bytes,
    /// As [`Self::Bytes`]; the connector shows the identity of a Java object.
    ByteArray,
    /// As [`Self::Bytes`]; the connector shows the state of a Java object.
    ByteBuffer,
}

/// All names the connector knows, and what each is here.
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
    /// All names the connector knows, supported here or not.
    pub(crate) const NAMES: &'static [&'static str] = &{
        let mut names = [""; NAMES.len()];
        let mut i = 0;
        while i < NAMES.len() {
            names[i] = NAMES[i].0;
            i += 1;
        }
        names
    };

    /// The evaluator of that name, `None` if this version has none.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        let found = NAMES.iter().find(|(known, _)| *known == name);
        found.and_then(|(_, evaluator)| *evaluator)
    }

    /// The name in configurations.
    pub fn name(self) -> &'static str {
        let found = NAMES.iter().find(|(_, e)| *e == Some(self));
        found.map_or("", |(name, _)| name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_evaluators_belong_together() {
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
