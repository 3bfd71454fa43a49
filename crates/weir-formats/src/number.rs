//! Formats numbers as Java does.
//!
//! Floating point numbers follow `Double.toString` and `Float.toString` as specified since JDK 19:
//! the shortest decimal that reads back as the same number, with at least two digits. Earlier JDKs
//! print some numbers with unnecessary digits, such as 2e23 as `1.9999999999999998E23`.

use std::fmt::{self, LowerExp, Write};

/// Appends an integer.
#[inline]
pub fn append_integer(number: i64, out: &mut String) {
    out.push_str(itoa::Buffer::new().format(number));
}

/// Appends a number as `Double.toString` does.
pub fn append_double(number: f64, out: &mut String) {
    append_float_text(number, f64::MIN_POSITIVE, out);
}

/// Appends a number as `Float.toString` does.
pub fn append_float(number: f32, out: &mut String) {
    append_float_text(number, f32::MIN_POSITIVE, out);
}

fn append_float_text<F>(number: F, least_normal: F, out: &mut String)
where
    F: Copy + LowerExp + Into<f64>,
{
    let wide: f64 = number.into();
    if wide.is_nan() {
        return out.push_str("NaN");
    }
    if wide.is_sign_negative() {
        out.push('-');
    }
    if wide.is_infinite() {
        return out.push_str("Infinity");
    }
    let mut text = scientific(format_args!("{number:e}"), out);
    if text.count == 1 && wide.abs() < least_normal.into() {
        // Java shows at least two digits, and two may be nearer to a subnormal number.
        text = scientific(format_args!("{number:.1e}"), out);
    }
    text.append(out);
}

/// Returns the digits of a formatted number; `out` is only used as memory.
fn scientific(number: fmt::Arguments<'_>, out: &mut String) -> Decimal {
    let start = out.len();
    // Writing to a string cannot fail, and the longest text has 17 digits.
    let _ = out.write_fmt(number);
    let decimal = Decimal::parse(&out[start..]).unwrap_or_default();
    out.truncate(start);
    decimal
}

/// Number of significant digits that always survive conversion to a double and back.
const EXACT_DIGITS: usize = 15;
/// Decimal exponent that is far from the limits of a double.
const SAFE_EXPONENT: i64 = 290;

/// Appends the text of the double denoted by a JSON number with a fraction or an exponent.
///
/// `text` must be a valid JSON number.
pub(crate) fn append_json_double(text: &str, out: &mut String) {
    if let Some(decimal) = Decimal::parse(text).filter(Decimal::is_exact) {
        if text.starts_with('-') {
            out.push('-');
        }
        return decimal.append(out);
    }
    // Rust parses every JSON number; out of range the result is infinite, as in Java.
    append_double(text.parse().unwrap_or(f64::NAN), out);
}

/// Significant digits, and the power of ten of the first of them.
#[derive(Default)]
struct Decimal {
    digits: [u8; 20],
    count: usize,
    /// Number of zeros after the last significant digit, added if another digit follows.
    zeros: usize,
    exponent: i64,
}

impl Decimal {
    /// Parses a JSON number, or a number in the format `{:e}`. Returns `None` if it has too many
    /// digits.
    fn parse(text: &str) -> Option<Self> {
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().ok()?),
            None => (text, 0),
        };
        let mantissa = mantissa.strip_prefix('-').unwrap_or(mantissa);
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let mut decimal = Self::default();
        let mut power = whole.len() as i64 - 1;
        for &digit in whole.as_bytes().iter().chain(fraction.as_bytes()) {
            if !decimal.push_digit(digit, power) {
                return None;
            }
            power -= 1;
        }
        if decimal.count == 0 {
            return Some(decimal);
        }
        decimal.exponent = decimal.exponent.checked_add(exponent)?;
        Some(decimal)
    }

    /// Returns `true` if the shortest text of the nearest double has the same digits.
    fn is_exact(&self) -> bool {
        self.count <= EXACT_DIGITS && self.exponent.abs() <= SAFE_EXPONENT
    }

    /// Adds the digit at the given power of ten. Returns `false` if there are too many digits.
    fn push_digit(&mut self, digit: u8, power: i64) -> bool {
        if digit == b'0' {
            self.zeros += usize::from(self.count > 0);
            return true;
        }
        if self.count == 0 {
            self.exponent = power;
        }
        if self.count + self.zeros >= self.digits.len() {
            return false;
        }
        self.digits[self.count..self.count + self.zeros].fill(b'0');
        self.count += self.zeros;
        self.zeros = 0;
        self.digits[self.count] = digit;
        self.count += 1;
        true
    }

    /// Appends the digits with the point and the exponent where Java puts them.
    fn append(&self, out: &mut String) {
        let digits = &self.digits[..self.count];
        if digits.is_empty() {
            return out.push_str("0.0");
        }
        let mut push = |digits: &[u8]| out.extend(digits.iter().map(|&digit| char::from(digit)));
        match self.exponent {
            exponent @ -3..=-1 => {
                push(b"0.");
                push(&b"00"[..(-1 - exponent) as usize]);
                push(digits);
            }
            exponent @ 0..=6 => {
                let whole = exponent as usize + 1;
                let (before, after) = digits.split_at(whole.min(digits.len()));
                push(before);
                push(&b"000000"[..whole - before.len()]);
                push(b".");
                push(if after.is_empty() { b"0" } else { after });
            }
            exponent => {
                push(&digits[..1]);
                push(b".");
                push(if digits.len() == 1 {
                    b"0"
                } else {
                    &digits[1..]
                });
                push(b"E");
                append_integer(exponent, out);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(append: impl FnOnce(&mut String)) -> String {
        let mut out = String::new();
        append(&mut out);
        out
    }

    fn double(number: f64) -> String {
        text(|out| append_double(number, out))
    }

    fn json(number: &str) -> String {
        text(|out| append_json_double(number, out))
    }

    #[test]
    fn integers_of_any_size_are_formatted() {
        for number in [0, 7, -7, 10, i64::MAX, i64::MIN] {
            assert_eq!(text(|out| append_integer(number, out)), number.to_string());
        }
    }

    /// The expected texts are those of `Double.toString`.
    #[test]
    fn doubles_are_formatted_as_in_java() {
        let rows = [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (-1.5, "-1.5"),
            (100.0, "100.0"),
            (0.001, "0.001"),
            (0.0123, "0.0123"),
            (0.000_999, "9.99E-4"),
            (1e-5, "1.0E-5"),
            (9_999_999.0, "9999999.0"),
            (1e7, "1.0E7"),
            (12_345_678.9, "1.23456789E7"),
            (1_234_567.0, "1234567.0"),
            (123_456.789, "123456.789"),
            (1.7976931348623157e308, "1.7976931348623157E308"),
            (2.2250738585072014e-308, "2.2250738585072014E-308"),
            (5e-324, "4.9E-324"),
            (1e-323, "9.9E-324"),
            (1e23, "1.0E23"),
            (2e23, "2.0E23"),
            (2e-3, "0.002"),
            (f64::INFINITY, "Infinity"),
            (f64::NEG_INFINITY, "-Infinity"),
            (f64::NAN, "NaN"),
        ];
        for (number, expected) in rows {
            assert_eq!(double(number), expected, "{number:e}");
        }
    }

    #[test]
    fn floats_are_formatted_as_in_java() {
        let rows = [
            (1.1_f32, "1.1"),
            (0.1, "0.1"),
            (16_777_216.0, "1.6777216E7"),
            (1e10, "1.0E10"),
            (f32::MAX, "3.4028235E38"),
            (f32::MIN_POSITIVE, "1.1754944E-38"),
            (1e-45, "1.4E-45"),
            (f32::NAN, "NaN"),
            (-f32::INFINITY, "-Infinity"),
            (-0.0, "-0.0"),
        ];
        for (number, expected) in rows {
            assert_eq!(
                text(|out| append_float(number, out)),
                expected,
                "{number:e}"
            );
        }
    }

    #[test]
    fn json_numbers_are_formatted_as_doubles() {
        let rows = [
            ("1.10", "1.1"),
            ("1e2", "100.0"),
            ("0.00001", "1.0E-5"),
            ("12345678.9", "1.23456789E7"),
            ("-0.0", "-0.0"),
            ("0e9", "0.0"),
            ("-0E-999999999999999999999", "-0.0"),
            ("1E+2", "100.0"),
            ("100e-2", "1.0"),
            ("0.1e1", "1.0"),
            ("1e400", "Infinity"),
            ("-1e400", "-Infinity"),
            ("1e-400", "0.0"),
            ("1e99999999999999999999", "Infinity"),
            ("4.35", "4.35"),
            ("123456789012345678.5", "1.2345678901234568E17"),
            ("0.1000000000000000055511151231257827", "0.1"),
            ("1000000000000000000000000.0", "1.0E24"),
        ];
        for (number, expected) in rows {
            assert_eq!(json(number), expected, "{number}");
        }
    }

    proptest! {
        #[test]
        fn formatted_double_reads_back(bits in any::<u64>()) {
            let number = f64::from_bits(bits);
            let text = double(number);
            let again: f64 = text.parse().unwrap();
            prop_assert!(again == number || again.is_nan() && number.is_nan(), "{text}");
        }

        #[test]
        fn both_json_number_paths_agree(
            number in "-?(0|[1-9][0-9]{0,17})\\.[0-9]{1,18}([eE][+-]?[0-9]{1,3})?",
        ) {
            prop_assert_eq!(json(&number), double(number.parse().unwrap()));
        }
    }
}
