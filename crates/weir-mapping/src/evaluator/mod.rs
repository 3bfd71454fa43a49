//! Converts key and value bytes to text.

mod kvp;
mod scalar;
mod string;

use strum::{Display, EnumString};

use crate::error::PayloadProblem;
use crate::number::{append_double, append_float, append_integer};
pub(crate) use kvp::{Separators, append_kvp, kvp_value};
pub(crate) use string::append_text;

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

impl Evaluator {
    /// Appends the text of a scalar payload; numbers are big-endian.
    pub(crate) fn append(self, payload: &[u8], out: &mut String) -> Result<(), PayloadProblem> {
        match self {
            Self::String | Self::Json | Self::Kvp => append_text(payload, out),
            Self::Integer => {
                let number = i32::from_be_bytes(scalar::fixed(payload)?);
                append_integer(number.into(), out);
            }
            Self::Short => {
                let number = i16::from_be_bytes(scalar::fixed(payload)?);
                append_integer(number.into(), out);
            }
            Self::Long => append_integer(i64::from_be_bytes(scalar::fixed(payload)?), out),
            Self::Float => append_float(f32::from_be_bytes(scalar::fixed(payload)?), out),
            Self::Double => append_double(f64::from_be_bytes(scalar::fixed(payload)?), out),
            Self::Boolean => scalar::append_boolean(payload, out)?,
            Self::Uuid => scalar::append_uuid(payload, out)?,
            Self::Bytes | Self::ByteArray | Self::ByteBuffer => scalar::append_bytes(payload, out),
        }
        Ok(())
    }
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
