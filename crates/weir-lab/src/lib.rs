//! Start, wait for and stop Apache Kafka brokers on this machine, and have client SDKs and drivers of
//! Kafka client libraries at hand.
//!
//! [`Lab`] is one small cluster (KRaft, 1 to 3 nodes) in one directory. It never measures and never
//! speaks more Kafka than the one question "which brokers are there". Linux only: processes are
//! told apart by `/proc`.

#![deny(missing_docs)]

mod broker;
pub mod cache;
mod class_archive;
mod config;
mod diagnose;
mod disk;
pub mod error;
pub mod host_tools;
mod kafka;
mod kafka_tools;
mod lab;
pub mod maven;
pub mod ports;
mod process;
mod ready;
pub mod sdk;
mod state;
mod status;

pub use error::{ErrorClass, LabError};
pub use host_tools::java_version_found as java_version;
pub use kafka_tools::KafkaTools;
pub use lab::{Broker, Lab, LabOptions, SecondListener};
pub use state::LabState;
pub use status::{BrokerStatus, DownReport, LabStatus, default_dir, down, status};

/// The release of Apache Kafka that a lab starts unless told otherwise.
pub const KAFKA_VERSION: &str = "4.3.1";
