//! Exact decimals: the text of Java's `BigDecimal.toString` for a JSON number.

use std::fmt::Write;

/// Text of numbers with a fraction or an exponent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NumberForm {
    /// The text of the nearest double.
    #[default]
    Double,
    /// All digits, as decoders for a schema registry keep them.
    Exact,
}

/// Smallest exponent of the first digit that is written without `E`.
const PLAIN_EXPONENT_MIN: i64 = -6;

/// Appends a JSON number with a fraction or an exponent. An exponent that does not fit into 32
/// bits, which `BigDecimal` rejects, stays as written.
pub(super) fn append_exact(text: &str, out: &mut String) {
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let Ok(exponent) = exponent.parse::<i32>() else {
        return out.push_str(text);
    };
    let (sign, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", mantissa),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let significant = digits.trim_start_matches('0');
    // Zero has one digit and no sign.
    let (sign, digits) = match significant {
        "" => ("", "0"),
        some => (sign, some),
    };
    let scale = fraction.len() as i64 - i64::from(exponent);
    out.push_str(sign);
    append_scaled(digits, scale, out);
}

/// Appends `digits` times 10 to the power of -`scale`.
fn append_scaled(digits: &str, scale: i64, out: &mut String) {
    let count = digits.len() as i64;
    let first = count - 1 - scale;
    if scale < 0 || first < PLAIN_EXPONENT_MIN {
        let (head, tail) = digits.split_at(1);
        out.push_str(head);
        if !tail.is_empty() {
            out.push('.');
            out.push_str(tail);
        }
        if first != 0 {
            // Writing to a string cannot fail.
            let _ = write!(out, "E{first:+}");
        }
        return;
    }
    if scale == 0 {
        return out.push_str(digits);
    }
    let before_point = count - scale;
    match usize::try_from(before_point) {
        Ok(point @ 1..) => {
            out.push_str(&digits[..point]);
            out.push('.');
            out.push_str(&digits[point..]);
        }
        // At most five zeros, because of the smallest plain exponent.
        Ok(_) | Err(_) => {
            out.push_str("0.");
            out.extend((before_point..0).map(|_| '0'));
            out.push_str(digits);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected texts are those of OpenJDK's `new BigDecimal(text).toString()`.
    #[test]
    fn decimals_are_written_as_in_java() {
        let rows = [
            ("1.10", "1.10"),
            ("1e2", "1E+2"),
            ("-0.0", "0.0"),
            ("12345678.9", "12345678.9"),
            ("0.00001", "0.00001"),
            ("0.000001", "0.000001"),
            ("0.0000001", "1E-7"),
            ("0.00000010", "1.0E-7"),
            ("1.5e3", "1.5E+3"),
            ("1.500e3", "1500"),
            ("1.500e2", "150.0"),
            ("-12.5E-1", "-1.25"),
            ("100e-2", "1.00"),
            ("0e5", "0E+5"),
            ("0.00e0", "0.00"),
            ("0e-7", "0E-7"),
            ("0e-6", "0.000000"),
            ("1e400", "1E+400"),
            ("1E-2147483647", "1E-2147483647"),
            ("123e-5", "0.00123"),
            ("5e0", "5"),
            ("1e99999999999", "1e99999999999"),
        ];
        for (text, expected) in rows {
            let mut out = String::new();
            append_exact(text, &mut out);
            assert_eq!(out, expected, "{text}");
        }
    }
}
