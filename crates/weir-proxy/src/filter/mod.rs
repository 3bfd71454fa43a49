//! What may look into record batches on their way, and change them: one file per filter, chains by
//! topic and direction, and the work on frames and batches that keeps them valid.

mod batch;
mod buffers;
mod chain;
mod config;
mod delay;
#[doc(hidden)]
pub mod fuzz;
mod headers;
mod lower_case;
mod mask;
mod pattern;
mod record;
mod rejected;
mod remove_header;
mod require;
mod set_header;
mod text;
mod upper_case;
mod work;

use std::borrow::Cow;
use std::fmt::Debug;
use std::time::Duration;

pub(crate) use buffers::MemoryMeter;
pub use buffers::{FilterBuffers, FilterCounts, FilterLimits};
pub use chain::{FilterChain, FilterResult, FrameOutput};
pub use config::{Direction, FilterConfig, FilterError};
pub use record::RecordEdit;
pub use rejected::RejectedPartitions;
pub use work::{BudgetStep, FilterBudget};

/// Looks at records one by one, and changes their values and headers.
///
/// What holds for every filter, and what the rest of the proxy relies on:
///
/// 1. **The number and order of records never change.** There is no way to add, drop, split or move one:
///    producers count them in sequence numbers, and brokers check that. A record that must not pass is
///    refused, and with it its batch, because a producer can be told of batches only.
/// 2. **Only value and headers change.** Key, timestamp, offset, producer id, epoch and sequence stay: the key
///    has decided the partition already.
/// 3. **A tombstone stays one**, and an empty value is not null.
/// 4. **A filter keeps nothing from record to record**: it is shared by all connections and threads. What a
///    record becomes depends on the record and the settings alone, so that a retry becomes the same again.
/// 5. **An unchanged record is left alone.** A batch in which no filter changed anything goes on bit by bit as
///    it came, checksum and compression included.
/// 6. **A value that a filter can not read is no reason to fail**, unless refusing is what the filter is for.
///
/// Transaction markers are never shown to filters. Lengths, checksums and compression are not their business.
pub trait Filter: Debug + Send + Sync {
    /// What becomes of one record.
    ///
    /// # Errors
    /// [`RecordRejection`] if it must not pass.
    fn record(&self, record: &mut RecordEdit<'_>) -> Result<(), RecordRejection>;

    /// Whether records need to be read for it at all.
    fn reads_records(&self) -> bool {
        true
    }

    /// How long frames with such topics are held before they go on.
    fn hold(&self) -> Duration {
        Duration::ZERO
    }
}

/// Why a record must not pass; told to its producer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordRejection(pub Cow<'static, str>);

#[cfg(test)]
mod tests;
