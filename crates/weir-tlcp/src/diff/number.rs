//! Which numbers survive being read and written by any client's JSON library.

/// Digits that a double keeps, whatever they are.
const DIGITS_MAX: usize = 15;
/// Digits before the point from which on some libraries write an exponent.
const WHOLE_DIGITS_MAX: usize = 7;
/// The largest whole number below which a double has all others.
const WHOLE_MAX: u64 = (1 << 53) - 1;

/// Whether JavaScript, Java and Python all write a number as it is written here after having read it
/// as a double (or as a whole number, where they have such).
///
/// A JSON number is expected. Not so are fractions that end in 0, exponents, whole numbers from 2^53
/// on, more than 15 digits, and fractions below 0.001 or from 10,000,000 on.
pub(super) fn reads_back(number: &[u8]) -> bool {
    let digits = number.strip_prefix(b"-").unwrap_or(number);
    if digits.iter().any(|byte| matches!(byte, b'e' | b'E')) {
        return false;
    }
    let Some(point) = digits.iter().position(|byte| *byte == b'.') else {
        return whole_reads_back(digits, digits.len() < number.len());
    };
    let (whole, fraction) = (&digits[..point], &digits[point + 1..]);
    if fraction.last() == Some(&b'0') || whole.len() > WHOLE_DIGITS_MAX {
        return false;
    }
    let small = whole == b"0" && fraction.starts_with(b"000");
    !small && whole.len() + fraction.len() <= DIGITS_MAX
}

fn whole_reads_back(digits: &[u8], negative: bool) -> bool {
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
    fn only_plain_numbers_read_back() {
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
            assert!(reads_back(number.as_bytes()), "{number}");
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
            assert!(!reads_back(number.as_bytes()), "{number}");
        }
    }

    proptest! {
        // Rust writes doubles as JavaScript and Python do, but never with an exponent.
        #[test]
        fn what_reads_back_is_what_a_double_says(number in "-?(0|[1-9][0-9]{0,16})(\\.[0-9]{1,16})?") {
            if reads_back(number.as_bytes()) {
                let double: f64 = number.parse().expect("a number");
                prop_assert_eq!(double.to_string(), number);
            }
        }
    }
}
