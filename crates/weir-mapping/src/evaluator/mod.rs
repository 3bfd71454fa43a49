//! Converts key and value bytes to text.

mod kvp;
mod names;
mod scalar;

use weir_formats::number::{append_double, append_float, append_integer};
use weir_formats::utf8::append_text;

use crate::error::PayloadProblem;
pub(crate) use kvp::{Separators, append_kvp, kvp_value, pairs};
pub(crate) use names::Evaluator;

impl Evaluator {
    /// Appends the text of a scalar payload; numbers are big-endian.
    pub(crate) fn append(self, payload: &[u8], out: &mut String) -> Result<(), PayloadProblem> {
        match self {
            Self::String | Self::Json | Self::Avro | Self::Protobuf | Self::Kvp => {
                append_text(payload, out)
            }
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
