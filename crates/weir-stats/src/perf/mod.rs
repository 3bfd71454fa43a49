//! Output of Apache Kafka's `kafka-producer-perf-test` and `kafka-consumer-perf-test`: parsed and
//! written, so that scripts for these tools can read Weir's output, and Weir's reports can include
//! the tools' results.
//!
//! Their MB is 2^20 bytes.

mod consumer;
mod producer;

pub use consumer::{ConsumerPerf, HEADER as CONSUMER_HEADER, parse_consumer};
pub use producer::{PerfTail, ProducerPerf, ProducerReport, parse_producer};

/// Bytes of an MB in these tools.
pub const MIB: f64 = 1_048_576.0;

/// The parameters in the file name of a sweep: `test-producer-<record size>-<throughput>.txt` or
/// `test-consumer-<fetch size>.txt`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SweepFile {
    /// A producer sweep.
    Producer {
        /// Bytes of each record's value.
        record_size_bytes: u64,
        /// Target rate in records per second; `None` for -1, unlimited.
        target_per_s: Option<u64>,
    },
    /// A consumer sweep.
    Consumer {
        /// Maximum bytes per fetch request and partition.
        fetch_size_bytes: u64,
    },
}

impl SweepFile {
    /// Parses a file name without its directory.
    pub fn of_name(name: &str) -> Option<Self> {
        let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
        if let Some(rest) = stem.strip_prefix("test-consumer-") {
            let fetch_size_bytes = rest.parse().ok()?;
            return Some(Self::Consumer { fetch_size_bytes });
        }
        let rest = stem.strip_prefix("test-producer-")?;
        let (size, throughput) = rest.split_once('-')?;
        let target_per_s = match throughput {
            "-1" => None,
            number => Some(number.parse().ok()?),
        };
        Some(Self::Producer {
            record_size_bytes: size.parse().ok()?,
            target_per_s,
        })
    }

    /// Returns the file name for the results with these parameters.
    pub fn name(&self) -> String {
        match self {
            Self::Producer {
                record_size_bytes,
                target_per_s,
            } => {
                let target = target_per_s.map_or_else(|| "-1".to_owned(), |n| n.to_string());
                format!("test-producer-{record_size_bytes}-{target}.txt")
            }
            Self::Consumer { fetch_size_bytes } => format!("test-consumer-{fetch_size_bytes}.txt"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_contain_the_parameters() {
        for name in [
            "test-producer-100-5000.txt",
            "test-producer-1024--1.txt",
            "test-consumer-30000.txt",
        ] {
            let read = SweepFile::of_name(name).expect(name);
            assert_eq!(read.name(), name);
        }
        for other in [
            "producer.txt",
            "test-producer-x-1.txt",
            "test-consumer-.txt",
            "",
        ] {
            assert_eq!(SweepFile::of_name(other), None, "{other}");
        }
    }
}
