//! Numbers in sentences.

use crate::interval::Estimate;

/// Returns a ratio of `what` with its interval: `0.98 × the CPU (0.95 to 1.01)`.
pub(super) fn ratio(estimate: &Estimate, what: &str) -> String {
    let value = estimate.value;
    match estimate.bounds {
        Some((low, high)) => format!("{value:.2} × {what} ({low:.2} to {high:.2})"),
        None => format!("{value:.2} × {what}"),
    }
}

/// Returns a whole number with separators: `10,000`.
pub(super) fn count(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_have_separators() {
        let found = [0.0, 7.0, 999.0, 1000.0, 12_345.0, 1_234_567.0].map(count);
        assert_eq!(found, ["0", "7", "999", "1,000", "12,345", "1,234,567"]);
    }
}
