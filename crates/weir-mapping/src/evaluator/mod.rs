//! Converts key and value bytes to text.

mod kvp;
mod names;
mod scalar;
mod string;

use crate::error::PayloadProblem;
pub(crate) use kvp::{Separators, append_kvp, kvp_value};
pub use names::Evaluator;
pub(crate) use string::append_text;

impl Evaluator {
    /// Appends the text of a scalar payload.
    pub(crate) fn append(self, payload: &[u8], out: &mut String) -> Result<(), PayloadProblem> {
        match self {
            Self::String | Self::Json | Self::Kvp => append_text(payload, out),
            Self::Integer => scalar::append_integer(payload, out)?,
            Self::Short => scalar::append_short(payload, out)?,
            Self::Long => scalar::append_long(payload, out)?,
            Self::Float => scalar::append_float(payload, out)?,
            Self::Double => scalar::append_double(payload, out)?,
            Self::Boolean => scalar::append_boolean(payload, out)?,
            Self::Uuid => scalar::append_uuid(payload, out)?,
            Self::Bytes | Self::ByteArray | Self::ByteBuffer => scalar::append_bytes(payload, out),
        }
        Ok(())
    }
}
