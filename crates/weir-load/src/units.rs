//! Parses counts, sizes and durations of the command line: `10k`, `1.5m`; `500MB`; `30s`, `250ms`.

use std::time::Duration;

use thiserror::Error;

/// Invalid text of a quantity.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("\"{0}\" is not a {1}, write for example {2}")]
pub struct UnitError(String, &'static str, &'static str);

/// Parses a count: digits, optionally a fraction, optionally `k` (thousand) or `m` (million).
pub fn parse_count(text: &str) -> Result<u64, UnitError> {
    parse_scaled(text, "kKmM").ok_or_else(|| invalid(text, "count", "500, 10k or 1.5m"))
}

/// Parses a number of bytes: digits, optionally a fraction, optionally `kB`, `MB` or `GB` (powers
/// of ten). The `B` is optional.
pub fn parse_bytes(text: &str) -> Result<u64, UnitError> {
    let number = text.trim_end_matches(['b', 'B']);
    parse_scaled(number, "kKmMgG").ok_or_else(|| invalid(text, "size", "500MB or 20GB"))
}

/// Parses `KEY=VALUE`.
pub fn parse_key_value(text: &str) -> Result<(String, String), &'static str> {
    let (key, value) = text.split_once('=').ok_or("must be KEY=VALUE")?;
    Ok((key.trim().to_owned(), value.trim().to_owned()))
}

/// Parses a duration: digits, optionally a fraction, and `ms`, `s`, `m`, `min` or `h`.
pub fn parse_duration(text: &str) -> Result<Duration, UnitError> {
    let parse = || {
        let (number, unit) = text.split_at(text.find(|c: char| c.is_ascii_alphabetic())?);
        let seconds = match unit {
            "ms" => 1e-3,
            "s" => 1.0,
            "m" | "min" => 60.0,
            "h" => 3600.0,
            _ => return None,
        };
        Duration::try_from_secs_f64(parse_decimal(number)? * seconds).ok()
    };
    parse().ok_or_else(|| invalid(text, "duration", "250ms, 30s or 5m"))
}

/// Parses a whole number with one of the `suffixes`: thousand, million, ... in both cases.
fn parse_scaled(text: &str, suffixes: &str) -> Option<u64> {
    let suffix = text.chars().last().and_then(|last| suffixes.find(last));
    let (number, factor) = match suffix {
        // Two letters for each power of a thousand.
        Some(at) => (&text[..text.len() - 1], 1000_f64.powi(at as i32 / 2 + 1)),
        None => (text, 1.0),
    };
    let value = parse_decimal(number)? * factor;
    // The bound keeps the conversion exact.
    (value.fract() == 0.0 && value <= 9e15).then_some(value as u64)
}

fn invalid(text: &str, quantity: &'static str, example: &'static str) -> UnitError {
    UnitError(text.to_owned(), quantity, example)
}

/// Parses digits with at most one point: no sign, no exponent, no blanks.
fn parse_decimal(text: &str) -> Option<f64> {
    let is_plain = |byte: u8| byte.is_ascii_digit() || byte == b'.';
    text.parse().ok().filter(|_| text.bytes().all(is_plain))
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
                parse_count(text)
                    .unwrap_err()
                    .to_string()
                    .contains("is not a count"),
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
                    .to_string()
                    .contains("is not a duration"),
                "{text}"
            );
        }
    }
}
