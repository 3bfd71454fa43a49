//! Filters, which read and change records in frames. The files `text`, `header_filters`, `mask`,
//! `require` and `delay` contain them. The others select filters by topic and direction, and keep
//! frames and batches valid.

mod batch;
mod buffers;
mod chain;
mod config;
mod counters;
mod delay;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod header_filters;
mod headers;
mod mask;
mod pattern;
mod record;
mod rejected;
mod rejection;
mod require;
mod run;
mod text;
mod topic_names;
mod work;

use std::fmt::Debug;
use std::time::Duration;

use serde::Deserialize;
use thiserror::Error;

pub use buffers::{FilterBuffers, FilterLimits, WorkMeter};
pub use chain::FilterChain;
pub use config::FilterConfig;
pub use counters::FilterCounts;
use record::RecordEdit;
pub use rejected::RejectedPartitions;
use rejection::RecordRejection;
pub use topic_names::TopicNames;
pub use work::{FilterResult, FilterWork, FrameOutput, WorkProgress};

/// Reads records one by one, and changes their values and headers.
///
/// Invariants of every filter:
///
/// 1. **The number and order of records do not change.** A filter cannot add, remove, split or move
///    records: producers count them in sequence numbers, and brokers check these. A record that
///    must not pass is rejected together with its batch, because responses report errors per batch.
/// 2. **Only value and headers change.** Key, timestamp, offset, producer id, epoch and sequence
///    number stay the same. The key has already determined the partition.
/// 3. **A tombstone stays a tombstone**, and an empty value does not become null.
/// 4. **A filter has no state between records.** All connections and threads share it. The result
///    depends only on the record and the configuration, so that a retry has the same result.
/// 5. **Unchanged batches keep their bytes.** If no filter changes a record of a batch, the batch
///    is forwarded with its checksum and compression.
/// 6. **A value that a filter cannot decode is not an error**, unless rejecting it is the purpose
///    of the filter.
///
/// Filters do not see transaction markers. They do not handle lengths, checksums and compression.
trait Filter: Debug + Send + Sync {
    /// Filters one record.
    fn record(&self, record: &mut RecordEdit<'_>) -> Result<(), RecordRejection>;

    /// Returns `true` if the filter needs to read records.
    fn reads_records(&self) -> bool {
        true
    }

    fn delay(&self) -> Duration {
        Duration::ZERO
    }
}

/// Direction in which records travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// From a producer to the broker.
    Produce,
    /// From the broker to a consumer.
    Fetch,
}

impl Direction {
    /// Returns the name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Produce => "produce",
            Self::Fetch => "fetch",
        }
    }
}

/// An invalid filter configuration.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("filter {filter}: {key} = {value}: {remedy}")]
pub struct FilterError {
    /// Type of the filter.
    pub filter: String,
    /// Key of its table.
    pub key: &'static str,
    /// Value as written.
    pub value: String,
    /// An unusable key of a filter: key, value and remedy.
    pub remedy: &'static str,
}

/// Key, value and remedy of a key of a filter that cannot be used.
#[derive(Debug)]
struct InvalidKey(&'static str, String, &'static str);

type BuildResult = Result<Box<dyn Filter>, InvalidKey>;

#[cfg(test)]
mod tests;
