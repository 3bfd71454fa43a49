//! A subscription mode as the word it has on the wire.

use serde::de::Error as _;
use serde::{Deserialize as _, Deserializer, Serializer};
use weir_tlcp::Mode;

pub(crate) fn serialize<S: Serializer>(mode: &Mode, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(mode.as_str())
}

pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Mode, D::Error> {
    let word = String::deserialize(deserializer)?;
    Mode::from_word(&word).ok_or_else(|| D::Error::custom(format!("\"{word}\" is no mode")))
}
