//! Per-client delivery check: lost, duplicated, reordered, conflated.
//!
//! A client holds one [`DeliveryChecker`], a few dozen bytes per key and producer it hears from.
//! At the end it is settled against the [`Ledger`] of what the broker acknowledged.

mod checker;
mod ledger;
mod summary;

pub use checker::{Conflation, DeliveryCheck, DeliveryChecker, GAPS_PER_STREAM_MAX};
pub use ledger::{Expected, Ledger};
pub use summary::{DeliveryCounts, DeliverySummary, Spread};
