//! Conversion of Unix time to UTC text, for file names and headings. The caller reads the clock.

use jiff::Timestamp;

/// Returns a text such as `2026-11-21T13:38:40Z`. Times beyond the year 9999 are its end.
pub fn rfc3339(unix_s: u64) -> String {
    let second = i64::try_from(unix_s).unwrap_or(i64::MAX);
    let time = Timestamp::from_second(second).unwrap_or(Timestamp::MAX);
    format!("{time:.0}")
}

/// Returns a text such as `20261121T133840Z`, which sorts by time and is valid in every file name.
pub fn compact(unix_s: u64) -> String {
    rfc3339(unix_s).replace(['-', ':'], "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_times_are_converted() {
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00Z");
        assert_eq!(rfc3339(951_782_399), "2000-02-28T23:59:59Z");
        assert_eq!(rfc3339(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(rfc3339(1_795_268_320), "2026-11-21T13:38:40Z");
        assert_eq!(compact(1_795_268_320), "20261121T133840Z");
    }
}
