//! A proxy for Kafka's protocol: clients connect here instead of to the brokers, and notice nothing
//! but the filters that were asked for.
//!
//! Frames that nobody wants to see pass unopened. Addresses of brokers in answers are replaced by
//! the proxy's own.

pub mod filter;
