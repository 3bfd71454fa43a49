//! Output of the consumer tool: a header and one row of comma-separated values.

use std::fmt;

/// The tool's header.
pub const HEADER: &str = "start.time, end.time, data.consumed.in.MB, MB.sec, \
                          data.consumed.in.nMsg, nMsg.sec, rebalance.time.ms, \
                          fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec";

/// One row of `kafka-consumer-perf-test`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ConsumerPerf {
    /// Start as text, `yyyy-MM-dd HH:mm:ss:SSS` in local time.
    pub start: String,
    /// End in the same format.
    pub end: String,
    /// MB (2^20 bytes) of keys and values consumed.
    pub data_mib: f64,
    /// MB per second.
    pub mib_per_s: f64,
    /// Records consumed.
    pub messages: u64,
    /// Records per second.
    pub messages_per_s: f64,
    /// Time until partitions were assigned.
    pub rebalance_ms: u64,
    /// Remaining time.
    pub fetch_ms: u64,
    /// MB per second of the remaining time.
    pub fetch_mib_per_s: f64,
    /// Records per second of the remaining time.
    pub fetch_messages_per_s: f64,
}

impl ConsumerPerf {
    /// Creates the row of a consumer that read `messages` records of `bytes` bytes in `total_ms`,
    /// of which it had no partitions for `rebalance_ms`.
    pub fn of(
        (start, end): (String, String),
        (messages, bytes): (u64, u64),
        total_ms: f64,
        rebalance_ms: f64,
    ) -> Self {
        let data_mib = bytes as f64 / super::MIB;
        let fetch_ms = (total_ms - rebalance_ms).max(0.0);
        let per_s = |count: f64, ms: f64| if ms > 0.0 { count * 1e3 / ms } else { 0.0 };
        Self {
            start,
            end,
            data_mib,
            mib_per_s: per_s(data_mib, total_ms),
            messages,
            messages_per_s: per_s(messages as f64, total_ms),
            rebalance_ms: rebalance_ms.round() as u64,
            fetch_ms: fetch_ms.round() as u64,
            fetch_mib_per_s: per_s(data_mib, fetch_ms),
            fetch_messages_per_s: per_s(messages as f64, fetch_ms),
        }
    }
}

impl fmt::Display for ConsumerPerf {
    /// Writes the row as the tool prints it, without the line feed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}, {}, {:.4}, {:.4}, {}, {:.4}, {}, {}, {:.4}, {:.4}",
            self.start,
            self.end,
            self.data_mib,
            self.mib_per_s,
            self.messages,
            self.messages_per_s,
            self.rebalance_ms,
            self.fetch_ms,
            self.fetch_mib_per_s,
            self.fetch_messages_per_s
        )
    }
}

/// Parses the rows in the tool's output. Skips other lines.
pub fn parse_consumer(text: &str) -> Vec<ConsumerPerf> {
    text.lines().filter_map(parse_row).collect()
}

fn parse_row(line: &str) -> Option<ConsumerPerf> {
    let cells: [&str; 10] = line
        .split(',')
        .map(str::trim)
        .collect::<Vec<_>>()
        .try_into()
        .ok()?;
    let [start, end, numbers @ ..] = cells;
    let number = |index: usize| numbers[index].parse::<f64>().ok();
    // Old versions printed impossible times, even negative ones.
    let time_ms = |index: usize| {
        numbers[index]
            .parse::<i64>()
            .ok()
            .map(|ms| ms.max(0) as u64)
    };
    Some(ConsumerPerf {
        start: start.to_owned(),
        end: end.to_owned(),
        data_mib: number(0)?,
        mib_per_s: number(1)?,
        messages: numbers[2].parse().ok()?,
        messages_per_s: number(3)?,
        rebalance_ms: time_ms(4)?,
        fetch_ms: time_ms(5)?,
        fetch_mib_per_s: number(6)?,
        fetch_messages_per_s: number(7)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parsed_rows_print_the_same() {
        let row = "2026-11-21 10:00:00:000, 2026-11-21 10:00:02:500, 95.3674, 38.1470, 100000, \
                   40000.0000, 500, 2000, 47.6837, 50000.0000";
        let read = parse_consumer(&format!("{HEADER}\n{row}\n"));
        assert_eq!(read.len(), 1);
        assert_eq!((read[0].messages, read[0].rebalance_ms), (100_000, 500));
        assert_eq!(read[0].to_string(), row);
        let (start, end) = (read[0].start.clone(), read[0].end.clone());
        let made = ConsumerPerf::of((start, end), (100_000, 100_000_000), 2500.0, 500.0);
        assert_eq!(made.to_string(), row);
    }

    #[test]
    fn headers_and_other_lines_are_skipped() {
        assert!(parse_consumer(HEADER).is_empty());
        assert!(parse_consumer("a, b\n\n1,2,3,4,5,6,7,8,9,x").is_empty());
        let negative = "a, b, 1.0, 1.0, 5, 5.0, 1763700000000, -1763699999000, -1.0, -1.0";
        assert_eq!(parse_consumer(negative)[0].fetch_ms, 0);
    }

    #[test]
    fn zero_time_gives_zero_rate() {
        let none = ConsumerPerf::of((String::new(), String::new()), (0, 0), 0.0, 0.0);
        assert_eq!((none.mib_per_s, none.fetch_messages_per_s), (0.0, 0.0));
    }
}
