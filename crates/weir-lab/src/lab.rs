//! A Kafka cluster on this machine: starting it, restarting its brokers, stopping it.

mod clients;
mod cluster;
mod companions;
mod existing;
mod options;
mod start;

pub use clients::TokenRequest;
pub use cluster::{Broker, Lab};
pub use options::LabOptions;
