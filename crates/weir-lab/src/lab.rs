//! A Kafka cluster on this machine: starting it, restarting its brokers, stopping it.

mod cluster;
mod existing;
mod options;
mod start;

pub use cluster::{Broker, Lab};
pub use options::LabOptions;
