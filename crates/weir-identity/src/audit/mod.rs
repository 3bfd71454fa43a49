//! Audit log: records as JSON lines, the queue before the writer, and the limit of rejections.

mod queue;
mod rate;
mod record;

pub use queue::{AuditDropped, AuditQueue};
pub use rate::{RejectionLimiter, RejectionLimits, RejectionSummary};
pub use record::{AuditAuth, AuditEvent, AuditOutcome, AuditRecord, timestamp};
