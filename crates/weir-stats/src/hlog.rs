//! HdrHistogram interval logs (format 1.3): one line per interval and tag, readable by other tools.
//!
//! Values are in nanoseconds. The maximum in each line, which is for human readers, is in
//! milliseconds. Timestamps are seconds since `BaseTime` with three decimals, as in all writers.

use std::io::{self, Write};

use crate::{Histogram, HistogramError};

const VERSION_LINE: &str = "#[Histogram log format version 1.3]";
const LEGEND: &str =
    r#""StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram""#;
const MAX_UNIT_NS: f64 = 1e6;

/// A writer of interval logs. Every line is complete when the call returns.
#[derive(Debug)]
pub struct IntervalLogWriter<W: Write> {
    out: W,
    base_unix_ns: u64,
}

impl<W: Write> IntervalLogWriter<W> {
    /// Writes the header. Intervals are relative to `base_unix_ns`, truncated to milliseconds.
    pub fn new(mut out: W, base_unix_ns: u64, comments: &[&str]) -> io::Result<Self> {
        let base_unix_ms = base_unix_ns / 1_000_000;
        for line in comments.iter().flat_map(|comment| comment.lines()) {
            // Readers would treat a comment with a bracket as a header.
            writeln!(out, "# {line}")?;
        }
        let base_s = decimal_s(base_unix_ms);
        let civil = crate::utc::rfc3339(base_unix_ms / 1000);
        writeln!(out, "{VERSION_LINE}")?;
        writeln!(out, "#[BaseTime: {base_s} (seconds since epoch)]")?;
        writeln!(out, "#[StartTime: {base_s} (seconds since epoch), {civil}]")?;
        writeln!(out, "{LEGEND}")?;
        Ok(Self {
            out,
            base_unix_ns: base_unix_ms * 1_000_000,
        })
    }

    /// Writes the values that `histogram` contains for `from_unix_ns` to `until_unix_ns`.
    ///
    /// Replaces characters that would end the tag (comma, white space) by `_`.
    pub fn write(
        &mut self,
        tag: &str,
        from_unix_ns: u64,
        until_unix_ns: u64,
        histogram: &Histogram,
    ) -> io::Result<()> {
        let start_ms = from_unix_ns.saturating_sub(self.base_unix_ns) / 1_000_000;
        let length_ms = until_unix_ns.saturating_sub(from_unix_ns) / 1_000_000;
        let max_ms = histogram.max_ns().unwrap_or(0) as f64 / MAX_UNIT_NS;
        let line = format!(
            "Tag={},{},{},{max_ms:.3},{}\n",
            clean_tag(tag),
            decimal_s(start_ms),
            decimal_s(length_ms),
            histogram.to_base64()
        );
        self.out.write_all(line.as_bytes())
    }

    /// Returns the underlying writer, for example to flush it.
    pub fn into_inner(self) -> W {
        self.out
    }

    /// Flushes the underlying writer.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// One line of a log.
#[derive(Debug, Clone, PartialEq)]
pub struct LogInterval {
    /// Stage or role; empty if the line has no tag.
    pub tag: String,
    /// Start in Unix time, or as written if the log has neither `BaseTime` nor `StartTime`.
    pub start_s: f64,
    /// Length.
    pub length_s: f64,
    /// Values in nanoseconds.
    pub histogram: Histogram,
}

/// The reason why a line is not an interval.
#[derive(Debug, thiserror::Error)]
pub enum HlogError {
    /// A column that is missing or not a number.
    #[error("line {line} of the interval log has no valid {column}")]
    Column {
        /// Line number from 1.
        line: usize,
        /// Name of the column in the legend.
        column: &'static str,
    },
    /// A last column that is not a histogram.
    #[error("line {line} of the interval log: {source}")]
    Histogram {
        /// Line number from 1.
        line: usize,
        /// Cause.
        source: HistogramError,
    },
}

/// A reader of interval logs. A damaged line yields an error; the reader continues with the next
/// line.
#[derive(Debug)]
pub struct IntervalLogReader<'a> {
    lines: std::iter::Enumerate<std::str::Lines<'a>>,
    start_s: Option<f64>,
    base_s: Option<f64>,
}

impl<'a> IntervalLogReader<'a> {
    /// Creates a reader of the text of a log.
    pub fn new(text: &'a str) -> Self {
        Self {
            lines: text.lines().enumerate(),
            start_s: None,
            base_s: None,
        }
    }

    fn header(&mut self, line: &str) {
        let seconds = |name: &str| {
            let rest = line
                .strip_prefix("#[")?
                .strip_prefix(name)?
                .strip_prefix(": ")?;
            seconds(rest.split([' ', ']']).next()?)
        };
        self.base_s = seconds("BaseTime").or(self.base_s);
        self.start_s = seconds("StartTime").or(self.start_s);
    }

    fn interval(&self, line_number: usize, line: &str) -> Result<LogInterval, HlogError> {
        let column = |column| HlogError::Column {
            line: line_number,
            column,
        };
        let (tag, rest) = match line.strip_prefix("Tag=") {
            Some(rest) => rest
                .split_once(',')
                .ok_or_else(|| column("StartTimestamp"))?,
            None => ("", line),
        };
        let mut columns = rest.splitn(4, ',');
        let mut number = |name| columns.next().and_then(seconds).ok_or_else(|| column(name));
        let start_s = number("StartTimestamp")?;
        let length_s = number("Interval_Length")?;
        number("Interval_Max")?;
        let encoded = columns
            .next()
            .ok_or_else(|| column("Interval_Compressed_Histogram"))?;
        let histogram = Histogram::from_base64(encoded).map_err(|source| HlogError::Histogram {
            line: line_number,
            source,
        })?;
        Ok(LogInterval {
            tag: tag.to_owned(),
            start_s: self.unix_s(start_s),
            length_s,
            histogram,
        })
    }

    /// Converts a timestamp to Unix time. As in the Java reader, small timestamps without
    /// `BaseTime` are relative to `StartTime`.
    fn unix_s(&self, stamp_s: f64) -> f64 {
        const YEAR_S: f64 = 365.0 * 86_400.0;
        match (self.base_s, self.start_s) {
            (Some(base_s), _) => base_s + stamp_s,
            (None, Some(start_s)) if stamp_s < start_s - YEAR_S => start_s + stamp_s,
            _ => stamp_s,
        }
    }
}

impl Iterator for IntervalLogReader<'_> {
    type Item = Result<LogInterval, HlogError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let (index, line) = self.lines.next()?;
            if line.starts_with('#') {
                self.header(line);
            } else if !line.trim().is_empty() && !line.starts_with('"') {
                return Some(self.interval(index + 1, line));
            }
        }
    }
}

fn decimal_s(value_ms: u64) -> String {
    format!("{}.{:03}", value_ms / 1000, value_ms % 1000)
}

fn seconds(text: &str) -> Option<f64> {
    text.parse().ok().filter(|value: &f64| value.is_finite())
}

fn clean_tag(tag: &str) -> String {
    tag.replace(
        |c: char| c == ',' || c.is_whitespace() || c.is_control(),
        "_",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
    use proptest::prelude::*;

    const BASE_NS: u64 = 1_795_268_320_123_456_789;

    fn histogram(values_ns: &[u64]) -> Histogram {
        let mut histogram = Histogram::new();
        values_ns
            .iter()
            .for_each(|value_ns| histogram.record_ns(*value_ns));
        histogram
    }

    fn log(intervals: &[(&str, u64, Vec<u64>)]) -> String {
        let mut writer = IntervalLogWriter::new(Vec::new(), BASE_NS, &["two\nlines"]).unwrap();
        for (tag, start_ms, values_ns) in intervals {
            let from_ns = BASE_NS + start_ms * 1_000_000;
            writer
                .write(tag, from_ns, from_ns + 1_000_000_000, &histogram(values_ns))
                .unwrap();
        }
        String::from_utf8(writer.into_inner()).unwrap()
    }

    #[test]
    fn header_has_the_standard_format() {
        let text = log(&[("response", 0, vec![2_769_000])]);
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some("# two"));
        assert_eq!(lines.next(), Some("# lines"));
        assert_eq!(lines.next(), Some(VERSION_LINE));
        assert_eq!(
            lines.next(),
            Some("#[BaseTime: 1795268320.123 (seconds since epoch)]")
        );
        assert!(
            lines
                .next()
                .unwrap()
                .starts_with("#[StartTime: 1795268320.123 (seconds since")
        );
        assert_eq!(lines.next(), Some(LEGEND));
        assert!(
            lines
                .next()
                .unwrap()
                .starts_with("Tag=response,0.000,1.000,2.771,HISTFAAA")
        );
    }

    #[test]
    fn library_reader_reads_the_log() {
        let text = log(&[("response", 0, vec![5, 6]), ("a b,c", 1000, vec![7])]);
        let tags: Vec<String> = IntervalLogIterator::new(text.as_bytes())
            .filter_map(|entry| match entry.unwrap() {
                LogEntry::Interval(interval) => Some(interval.tag().unwrap().to_string()),
                _ => None,
            })
            .collect();
        assert_eq!(tags, ["response", "a_b_c"]);
    }

    #[test]
    fn log_of_another_tool_is_read() {
        let text = "#[Logged with jHiccup version 2.0.7-SNAPSHOT]\n\
            #[Histogram log format version 1.2]\n\
            #[StartTime: 1441812279.474 (seconds since epoch), Wed Sep 09 08:24:39 PDT 2015]\n\
            \"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\
            \"Interval_Compressed_Histogram\"\n\
            0.127,1.007,2.769,HISTFAAAAEV42pNpmSzMwMCgyAABTBDKT4GBgdnNYMcCBvsPEBEJISEuATEZMQ4uASkh\
            IR4nrxg9v2lMaxhvMekILGZkKmcCAEf2CsI=\n\
            Tag=A,1.134,0.999,0.442,HISTFAAAAEJ42pNpmSzMwMAgxwABTBDKT4GBgdnNYMcCBvsPEBEW\
            Lj45FTExAT4pBSEBKa6UkAgBi1uM7xjfMMlwMDABAC0CCjM=\n";
        let intervals: Vec<LogInterval> =
            IntervalLogReader::new(text).map(Result::unwrap).collect();
        assert_eq!(intervals.len(), 2);
        assert_eq!(intervals[1].tag, "A");
        assert!((intervals[0].start_s - 1_441_812_279.601).abs() < 1e-3);
    }

    #[test]
    fn damaged_line_is_reported_and_reading_continues() {
        let mut text = log(&[("response", 0, vec![5])]);
        text.push_str("Tag=response,0.1,1.0,1.0\nTag=response,x\nTag=response,1.0,1.0,1.0,HIST\n");
        text.push_str(&log(&[("response", 0, vec![9])]));
        let (good, damaged): (Vec<_>, Vec<_>) =
            IntervalLogReader::new(&text).partition(Result::is_ok);
        assert_eq!(good.len(), 2);
        let texts = damaged.into_iter().map(|it| it.unwrap_err().to_string());
        let texts: Vec<String> = texts.collect();
        assert!(
            texts[0].ends_with("has no valid Interval_Compressed_Histogram"),
            "{texts:?}"
        );
        assert!(
            texts[1].ends_with("has no valid StartTimestamp"),
            "{texts:?}"
        );
        assert_eq!(texts.len(), 3);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn write_then_read_is_identity(
            intervals in proptest::collection::vec(
                ("[a-z_]{1,9}", 0_u64..100_000, proptest::collection::vec(0_u64..1 << 42, 0..9)),
                0..6,
            )
        ) {
            let rows: Vec<_> = intervals
                .iter()
                .map(|(tag, at, values)| (tag.as_str(), *at, values.clone()))
                .collect();
            let read: Result<Vec<LogInterval>, _> = IntervalLogReader::new(&log(&rows)).collect();
            let read = read.unwrap();
            prop_assert_eq!(read.len(), rows.len());
            for (interval, (tag, start_ms, values_ns)) in read.iter().zip(rows) {
                prop_assert_eq!(interval.tag.as_str(), tag);
                prop_assert_eq!(&interval.histogram, &histogram(&values_ns));
                let expected_s = (BASE_NS / 1_000_000 + start_ms) as f64 / 1e3;
                prop_assert!((interval.start_s - expected_s).abs() < 2e-3);
            }
        }

        #[test]
        fn random_text_never_panics(text in "(\\PC|[\n,=#\\[]|Tag=|#\\[BaseTime: ){0,40}") {
            let _ = IntervalLogReader::new(&text).count();
        }
    }
}
