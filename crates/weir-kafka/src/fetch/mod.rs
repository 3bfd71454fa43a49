//! The fetch protocol as state machines: the partitions that are read and their leaders, fetch
//! sessions, and the records of responses. No sockets, no threads; time is an argument.

mod aborted;
mod buffers;
mod decode;
mod partitions;
mod plan;
mod session;

#[cfg(feature = "lean")]
pub(crate) use aborted::AbortedFilter;
pub(crate) use buffers::{Buffer, BufferPool};
pub(crate) use decode::{
    BatchRecord, DecodeFailure, FetchedRecords, RecordDecoder, ScannedRecords, scan,
};
pub(crate) use partitions::{EpochOutcome, PartitionProblem, PartitionTable};
pub(crate) use plan::{FetchPlan, PartitionKey, PlannedCheck, PlannedFetch};
pub(crate) use session::{FetchSession, SessionRequest};
