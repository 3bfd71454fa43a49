//! Serializes a subscription mode as its TLCP name.

use serde::de::Error as _;
use serde::{Deserialize as _, Deserializer, Serializer};
use weir_tlcp::Mode;

pub(crate) fn serialize<S: Serializer>(mode: &Mode, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(mode.as_str())
}

/// Parses the TLCP name of a mode.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Mode, D::Error> {
    let name = String::deserialize(deserializer)?;
    Mode::from_word(&name)
        .ok_or_else(|| D::Error::custom(format!("\"{name}\" is not a subscription mode")))
}
