//! Filters, which read and change records in frames. The files `text`, `header_filters`, `mask`,
//! `require` and `delay` contain them. The others select filters by topic and direction, and keep
//! frames and batches valid.

mod batch;
mod buffers;
mod chain;
mod config;
mod delay;
#[cfg(any(test, fuzzing))]
#[cfg_attr(
    not(fuzzing),
    expect(unreachable_pub, reason = "reachable for fuzz targets only")
)]
pub mod fuzz;
mod header_filters;
mod headers;
mod mask;
mod pattern;
mod record;
mod rejected;
mod require;
mod run;
mod text;
mod topic_names;
mod work;

use std::borrow::Cow;
use std::fmt::Debug;
use std::time::Duration;

use serde::Deserialize;
use thiserror::Error;

pub(crate) use buffers::{FilterBuffers, FilterLimits, WorkMeter};
pub(crate) use chain::FilterChain;
pub(crate) use config::FilterConfig;
pub(crate) use record::RecordEdit;
pub(crate) use rejected::RejectedPartitions;
pub(crate) use topic_names::TopicNames;
pub(crate) use work::{FilterResult, FilterWork, FrameOutput, WorkProgress};

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
pub(crate) trait Filter: Debug + Send + Sync {
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

/// The reason why a record must not pass, reported to its producer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RecordRejection(pub Cow<'static, str>);

/// Direction in which records travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Direction {
    /// From a producer to the broker.
    Produce,
    /// From the broker to a consumer.
    Fetch,
}

impl Direction {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Produce => "produce",
            Self::Fetch => "fetch",
        }
    }
}

/// An invalid filter configuration.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("filter {filter}: {key} = {value}: {remedy}")]
pub(crate) struct FilterError {
    pub(crate) filter: String,
    pub(crate) key: &'static str,
    pub(crate) value: String,
    pub(crate) remedy: &'static str,
}

/// A key of a filter that cannot be used: key, value and remedy.
#[derive(Debug)]
struct InvalidKey(&'static str, String, &'static str);

type BuildResult = Result<Box<dyn Filter>, InvalidKey>;

#[cfg(test)]
mod tests;
