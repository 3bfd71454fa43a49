//! Names of parameters and figures of a cell.

/// Name of the rate parameter in the cells of a grid.
pub(super) const RATE: &str = "rate_per_s";
/// Share of a core used by the gateway's busiest mapping thread.
pub(super) const MAPPING_SHARE: &str = "mapping_thread_busy_share";
/// CPU time of all mapping threads per record of the topic.
pub(super) const MAPPING_US_PER_RECORD: &str = "mapping_cpu_us_per_record";
/// Committed transactions of all producers.
pub(super) const TRANSACTIONS: &str = "transactions_committed";
/// Time that the commit of a transaction took.
pub(super) const COMMIT_P50_MS: &str = "transaction_commit_p50_ms";
/// 99th percentile of that time.
pub(super) const COMMIT_P99_MS: &str = "transaction_commit_p99_ms";
/// Records of the window that waited for space in the producer's queue.
pub(super) const QUEUE_FULL: &str = "producer_queue_full_records";
