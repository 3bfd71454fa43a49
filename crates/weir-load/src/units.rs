//! Parses counts, sizes and durations of the command line: `10k`, `1.5m`; `500MB`; `30s`, `250ms`.

use std::time::Duration;

/// Parses a count: digits, optionally a fraction, optionally `k` (thousand) or `m` (million).
///
/// # Errors
/// Returns a message with the text and an example if it is not a count or not a whole number.
pub fn parse_count(text: &str) -> Result<u64, String> {
    let invalid = || format!("\"{text}\" is not a count, write for example 500, 10k or 1.5m");
    let (number, factor) = match text.char_indices().last() {
        Some((end, 'k' | 'K')) => (&text[..end], 1e3),
        Some((end, 'm' | 'M')) => (&text[..end], 1e6),
        _ => (text, 1.0),
    };
    let value = parse_decimal(number).ok_or_else(invalid)? * factor;
    // The bound keeps the conversion exact.
    if value.fract() != 0.0 || value > 9e15 {
        return Err(invalid());
    }
    Ok(value as u64)
}

/// Parses a number of bytes: digits, optionally a fraction, optionally `kB`, `MB` or `GB` (powers
/// of ten). The `B` is optional.
///
/// # Errors
/// Returns a message with the text and an example if it is not a size or not a whole number.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let invalid = || format!("\"{text}\" is not a size, write for example 500MB or 20GB");
    let number = text.trim_end_matches(['b', 'B']);
    let (number, factor) = match number.char_indices().last() {
        Some((end, 'k' | 'K')) => (&number[..end], 1e3),
        Some((end, 'm' | 'M')) => (&number[..end], 1e6),
        Some((end, 'g' | 'G')) => (&number[..end], 1e9),
        _ => (number, 1.0),
    };
    let value = parse_decimal(number).ok_or_else(invalid)? * factor;
    // The bound keeps the conversion exact.
    if value.fract() != 0.0 || value > 9e15 {
        return Err(invalid());
    }
    Ok(value as u64)
}

/// Parses a duration: digits, optionally a fraction, and `ms`, `s`, `m`, `min` or `h`.
///
/// # Errors
/// Returns a message with the text and an example if it is not a duration.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let invalid = || format!("\"{text}\" is not a duration, write for example 250ms, 30s or 5m");
    let unit_at = text
        .find(|c: char| c.is_ascii_alphabetic())
        .ok_or_else(invalid)?;
    let (number, unit) = text.split_at(unit_at);
    let seconds = match unit {
        "ms" => 1e-3,
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(invalid()),
    };
    let value = parse_decimal(number).ok_or_else(invalid)? * seconds;
    Duration::try_from_secs_f64(value).map_err(|_| invalid())
}

/// Parses digits with at most one point: no sign, no exponent, no blanks.
fn parse_decimal(text: &str) -> Option<f64> {
    let plain = text
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'.');
    if !plain {
        return None;
    }
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_parsed() {
        assert_eq!(parse_bytes("20GB"), Ok(20_000_000_000));
        assert_eq!(parse_bytes("1.5g"), Ok(1_500_000_000));
        assert_eq!(parse_bytes("500MB"), Ok(500_000_000));
        assert_eq!(parse_bytes("7"), Ok(7));
        for wrong in ["", "GB", "-1", "5TB", "1.0000000001k"] {
            assert!(parse_bytes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn counts_are_parsed() {
        for (text, count) in [("0", 0), ("500", 500), ("10k", 10_000), ("1.5M", 1_500_000)] {
            assert_eq!(parse_count(text), Ok(count), "{text}");
        }
        for text in [
            "",
            "k",
            "-1",
            "1.5",
            "1e3",
            "10kk",
            "ten",
            "99999999999999999999",
            "5é",
        ] {
            assert!(
                parse_count(text).unwrap_err().contains("is not a count"),
                "{text}"
            );
        }
    }

    #[test]
    fn durations_are_parsed() {
        for (text, ms) in [
            ("250ms", 250),
            ("30s", 30_000),
            ("1.5m", 90_000),
            ("2h", 7_200_000),
        ] {
            assert_eq!(
                parse_duration(text),
                Ok(Duration::from_millis(ms)),
                "{text}"
            );
        }
        for text in ["", "s", "30", "30 s", "-3s", "1d", "é"] {
            assert!(
                parse_duration(text)
                    .unwrap_err()
                    .contains("is not a duration"),
                "{text}"
            );
        }
    }
}
