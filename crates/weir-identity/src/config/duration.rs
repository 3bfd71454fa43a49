//! Durations in configurations: `30s`, `10m`, `8h`, `2d`.

/// Longest duration, in milliseconds: a year.
const MS_MAX: u64 = 366 * 24 * 3_600_000;

/// Parses a duration to milliseconds.
pub(super) fn parse_ms(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit_ms: u64 = match &text[digits.len()..] {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 24 * 3_600_000,
        _ => return None,
    };
    let is_number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    let number: u64 = is_number.then(|| digits.parse().ok()).flatten()?;
    number.checked_mul(unit_ms).filter(|ms| *ms <= MS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_need_a_unit() {
        assert_eq!(parse_ms("30s"), Some(30_000));
        assert_eq!(parse_ms("8h"), Some(28_800_000));
        assert_eq!(parse_ms("250ms"), Some(250));
        assert_eq!(parse_ms("2d"), Some(172_800_000));
        for text in [
            "",
            "s",
            "5",
            "-1s",
            "+1s",
            "1.5h",
            "1 s",
            "1w",
            "400d",
            "99999999999999999999s",
        ] {
            assert_eq!(parse_ms(text), None, "{text}");
        }
    }
}
