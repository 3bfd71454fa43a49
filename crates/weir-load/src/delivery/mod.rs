//! Delivery check per client: lost, duplicated, reordered, conflated.
//!
//! A client has one [`DeliveryChecker`] with a few dozen bytes per key and producer that it
//! receives. At the end it is compared with the [`Ledger`] of acknowledged records.

mod checker;
mod ledger;
mod summary;

pub use checker::{Conflation, DeliveryCheck, DeliveryChecker};
pub use ledger::{Expected, Ledger};
pub(crate) use summary::count_error;
pub use summary::{BacklogSummary, DeliveryCounts, DeliverySummary, Spread};
