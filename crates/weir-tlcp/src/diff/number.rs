//! Checks that JSON libraries of all clients preserve a number.

/// Number of digits that a double always preserves.
const DIGITS_MAX: usize = 15;
/// Number of digits before the point from which some libraries write an exponent.
const WHOLE_DIGITS_MAX: usize = 7;
/// Largest integer up to which a double represents all integers.
const WHOLE_MAX: u64 = (1 << 53) - 1;

/// Returns `true` if JavaScript, Java and Python parse a number as a double (or integer) and write
/// it in the same way.
///
/// The input must be a JSON number. Not preserved are fractions that end with 0, exponents,
/// integers from 2^53, more than 15 digits, and fractions below 0.001 or from 10,000,000.
pub(super) fn is_preserved(number: &[u8]) -> bool {
    let digits = number.strip_prefix(b"-").unwrap_or(number);
    if digits.iter().any(|byte| matches!(byte, b'e' | b'E')) {
        return false;
    }
    let Some(point) = digits.iter().position(|byte| *byte == b'.') else {
        return is_integer_preserved(digits, digits.len() < number.len());
    };
    let (whole, fraction) = (&digits[..point], &digits[point + 1..]);
    if fraction.last() == Some(&b'0') || whole.len() > WHOLE_DIGITS_MAX {
        return false;
    }
    let small = whole == b"0" && fraction.starts_with(b"000");
    !small && whole.len() + fraction.len() <= DIGITS_MAX
}

fn is_integer_preserved(digits: &[u8], negative: bool) -> bool {
    if digits == b"0" {
        return !negative;
    }
    let value = std::str::from_utf8(digits).map(str::parse::<u64>);
    matches!(value, Ok(Ok(value)) if value <= WHOLE_MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_plain_numbers_are_preserved() {
        for number in [
            "0",
            "7",
            "-7",
            "2147483647",
            "9007199254740991",
            "-9007199254740991",
            "0.5",
            "-0.5",
            "10.25",
            "0.001",
            "9999999.9",
            "1234567.12345678",
            "0.00123",
        ] {
            assert!(is_preserved(number.as_bytes()), "{number}");
        }
        for number in [
            "-0",
            "1.0",
            "1.50",
            "1e5",
            "1E-5",
            "0.0",
            "-0.0",
            "0.0001",
            "12345678.5",
            "9007199254740992",
            "123456789012345678901234567890",
            "1.123456789012345678",
            "0.1234567890123456",
        ] {
            assert!(!is_preserved(number.as_bytes()), "{number}");
        }
    }

    proptest! {
        // Rust writes doubles as JavaScript and Python do, but never with an exponent.
        #[test]
        fn preserved_numbers_match_double(number in "-?(0|[1-9][0-9]{0,16})(\\.[0-9]{1,16})?") {
            if is_preserved(number.as_bytes()) {
                let double: f64 = number.parse().expect("a number");
                prop_assert_eq!(double.to_string(), number);
            }
        }
    }
}
