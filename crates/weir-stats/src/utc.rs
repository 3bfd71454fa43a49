//! Conversion of Unix time to UTC text, for file names and headings. The caller reads the clock.

/// Returns a text such as `2026-11-21T13:38:40Z`.
pub fn rfc3339(unix_s: u64) -> String {
    let (year, month, day) = civil_day(unix_s / 86_400);
    let (hour, minute, second) = clock(unix_s);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Returns a text such as `20261121T133840Z`, which sorts by time and is valid in every file name.
pub fn compact(unix_s: u64) -> String {
    rfc3339(unix_s).replace(['-', ':'], "")
}

fn clock(unix_s: u64) -> (u64, u64, u64) {
    (unix_s / 3600 % 24, unix_s / 60 % 60, unix_s % 60)
}

/// Converts days since 1970-01-01 to year, month and day. Years begin in March so that the leap day
/// is last.
fn civil_day(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let era = days / 146_097;
    let day_of_era = days % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    (year, month, day)
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
