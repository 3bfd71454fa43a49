//! Formats numbers for display: one unit per block, three significant digits, grouped thousands.

pub(crate) const NONE: &str = "–";

/// A unit of time for a block of latencies.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct TimeUnit {
    name: &'static str,
    us: f64,
}

impl TimeUnit {
    const MICRO: Self = Self::new("µs", 1.0);
    const MILLI: Self = Self::new("ms", 1e3);
    const SECOND: Self = Self::new("s", 1e6);

    const fn new(name: &'static str, us: f64) -> Self {
        Self { name, us }
    }

    /// Returns the unit in which the smallest positive value still has two digits.
    pub(crate) fn for_values_us(values_us: impl Iterator<Item = f64>) -> Self {
        let positive = values_us.filter(|value| *value > 0.0);
        match positive.fold(f64::INFINITY, f64::min) {
            us if us < 100.0 => Self::MICRO,
            us if us < 1e6 || !us.is_finite() => Self::MILLI,
            _ => Self::SECOND,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        self.name
    }

    pub(crate) fn show(self, value_us: Option<f64>) -> String {
        number(value_us.map(|us| us / self.us))
    }
}

/// Formats with three significant digits below 1,000, as a whole number above.
pub(crate) fn number(value: Option<f64>) -> String {
    let Some(value) = value.filter(|value| value.is_finite()) else {
        return NONE.to_owned();
    };
    match value.abs() {
        0.0 => "0".to_owned(),
        size if size < 0.0005 => "<0.001".to_owned(),
        size if size < 0.0095 => format!("{value:.3}"),
        size if size < 9.995 => format!("{value:.2}"),
        size if size < 99.95 => format!("{value:.1}"),
        _ => grouped(&format!("{value:.0}")),
    }
}

/// Formats a value that may be a count: whole numbers without decimals.
pub(crate) fn figure(value: Option<f64>) -> String {
    match value {
        Some(whole) if whole.fract() == 0.0 && whole.abs() < 1e15 => {
            grouped(&format!("{whole:.0}"))
        }
        other => number(other),
    }
}

pub(crate) fn count(value: u64) -> String {
    grouped(&value.to_string())
}

pub(crate) fn maybe_count(value: Option<u64>) -> String {
    value.map_or_else(|| NONE.to_owned(), count)
}

/// Formats a factor as `1.12×`; without decimals from 100.
pub(crate) fn factor(value: Option<f64>) -> String {
    match value.filter(|value| value.is_finite()) {
        Some(value) if value < 99.5 => format!("{value:.2}×"),
        Some(value) => format!("{}×", number(Some(value))),
        None => NONE.to_owned(),
    }
}

/// Formats bytes as a number of kB (1,000 bytes), without unit.
pub(crate) fn kilobytes(value_bytes: Option<f64>) -> String {
    number(value_bytes.map(|bytes| bytes / 1e3))
}

/// Formats bytes as a number of MB, without unit.
pub(crate) fn megabytes(value_bytes: Option<u64>) -> String {
    number(value_bytes.map(|bytes| bytes as f64 / 1e6))
}

pub(crate) fn bytes(value_bytes: f64) -> String {
    let units = [(1e9, "GB"), (1e6, "MB"), (1e3, "kB")];
    let unit = units.into_iter().find(|(size, _)| value_bytes >= *size);
    let (size, name) = unit.unwrap_or((1.0, "bytes"));
    format!("{} {name}", number(Some(value_bytes / size)))
}

/// Formats a coordinate of a grid in words; `name` contains its unit.
pub(crate) fn parameter(name: &str, value: f64) -> String {
    let words = |name: &str| name.replace('_', " ");
    if let Some(what) = name.strip_suffix("_bytes") {
        return format!("{} {}", words(what), binary_bytes(value));
    }
    match name.strip_suffix("_per_s") {
        Some("rate") => format!("{} records/s", figure(Some(value))),
        Some(what) => format!("{} {}/s", words(what), figure(Some(value))),
        None => format!("{} {}", words(name), figure(Some(value))),
    }
}

/// Formats a size: multiples of 1,024 in binary units.
pub(crate) fn binary_bytes(value: f64) -> String {
    let units = [(1_048_576.0, "MiB"), (1_024.0, "KiB")];
    let unit = units
        .into_iter()
        .find(|(size, _)| value >= *size && value % size == 0.0);
    match unit {
        Some((size, name)) => format!("{} {name}", figure(Some(value / size))),
        None => format!("{} B", figure(Some(value))),
    }
}

pub(crate) fn duration_us(value_us: f64) -> String {
    let unit = TimeUnit::for_values_us(std::iter::once(value_us));
    format!("{} {}", unit.show(Some(value_us)), unit.name())
}

pub(crate) fn maybe_duration_us(value_us: Option<f64>) -> String {
    value_us.map_or_else(|| NONE.to_owned(), duration_us)
}

fn grouped(digits: &str) -> String {
    let (sign, digits) = digits
        .strip_prefix('-')
        .map_or(("", digits), |rest| ("-", rest));
    let mut out = String::from(sign);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits() {
        let shown = |value| number(Some(value));
        assert_eq!(shown(0.0), "0");
        assert_eq!(shown(0.0012), "0.001");
        assert_eq!(shown(0.0002), "<0.001");
        assert_eq!(shown(9.994), "9.99");
        assert_eq!(shown(9.996), "10.0");
        assert_eq!(shown(99.96), "100");
        assert_eq!(shown(1_234_567.4), "1,234,567");
        assert_eq!(shown(-1234.0), "-1,234");
        assert_eq!(number(Some(f64::NAN)), NONE);
        assert_eq!(number(None), NONE);
    }

    #[test]
    fn unit_follows_smallest_value() {
        let unit = |values: &[f64]| TimeUnit::for_values_us(values.iter().copied());
        assert_eq!(unit(&[45.0, 900_000.0]), TimeUnit::MICRO);
        assert_eq!(unit(&[0.0, 450.0, 9e6]), TimeUnit::MILLI);
        assert_eq!(unit(&[2e6]), TimeUnit::SECOND);
        assert_eq!(unit(&[]), TimeUnit::MILLI);
        assert_eq!(TimeUnit::MILLI.show(Some(3_400.0)), "3.40");
    }

    #[test]
    fn parameters_become_words_with_unit() {
        assert_eq!(parameter("rate_per_s", 500.0), "500 records/s");
        assert_eq!(parameter("target_per_s", 2_500.0), "target 2,500/s");
        assert_eq!(parameter("record_size_bytes", 4_096.0), "record size 4 KiB");
        assert_eq!(parameter("fetch_size_bytes", 1_000.0), "fetch size 1,000 B");
        assert_eq!(parameter("threads", 4.0), "threads 4");
    }

    #[test]
    fn factors_and_sizes_are_rounded() {
        assert_eq!(factor(Some(1.118)), "1.12×");
        assert_eq!(factor(Some(250.0)), "250×");
        assert_eq!(bytes(1_025.0), "1.02 kB");
        assert_eq!(bytes(12.0), "12.0 bytes");
        assert_eq!(duration_us(20_000.0), "20.0 ms");
    }
}
