//! Text forms that several token sources use.

use std::time::{SystemTime, UNIX_EPOCH};

use jiff::Timestamp;

use super::error::TokenError;

/// Encodes all bytes but letters, digits and `-._~`.
pub(super) fn percent(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                result.push(char::from(byte));
            }
            other => result.push_str(&format!("%{other:02X}")),
        }
    }
    result
}

/// Encodes pairs as a query or form, in their order.
pub(super) fn form(pairs: &[(&str, &str)]) -> String {
    let pairs = pairs.iter();
    let pairs = pairs.map(|(name, value)| format!("{}={}", percent(name), percent(value)));
    pairs.collect::<Vec<_>>().join("&")
}

/// Returns a time in whole seconds.
pub(super) fn timestamp(time: SystemTime) -> Result<Timestamp, TokenError> {
    let seconds = time
        .duration_since(UNIX_EPOCH)
        .map_err(|_| TokenError::Clock)?;
    let seconds = i64::try_from(seconds.as_secs()).map_err(|_| TokenError::Clock)?;
    Timestamp::from_second(seconds).map_err(|_| TokenError::Clock)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_characters_are_encoded() {
        assert_eq!(percent("kafka-cluster:Connect"), "kafka-cluster%3AConnect");
        assert_eq!(percent("a b/é~"), "a%20b%2F%C3%A9~");
        assert_eq!(form(&[("a", "1"), ("b c", "&")]), "a=1&b%20c=%26");
    }
}
