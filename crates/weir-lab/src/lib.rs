//! Starts and stops Apache Kafka brokers on this machine, and installs client SDKs and tools.
//!
//! [`Lab`] is one small cluster (KRaft, 1 to 3 nodes) in one directory, optionally with TLS, logins
//! and a schema registry. It takes no measurements, and its only Kafka request is the one for the
//! list of brokers. Linux only: processes are identified with `/proc`.

#![deny(missing_docs)]

mod broker;
pub mod cache;
mod class_archive;
pub mod collector;
mod config;
pub mod derived_file;
mod diagnose;
mod disk;
mod disk_space;
pub mod error;
mod guarded;
pub mod host_tools;
mod http;
pub mod identity;
mod java;
mod kafka;
mod lab;
pub mod maven;
pub mod operation;
mod port_owner;
pub mod ports;
mod process;
mod ready;
pub mod registry;
pub mod sdk;
pub mod security;
mod server;
mod state;
mod status;
mod storage;
mod tokens;

pub use config::SecondListener;
pub use error::{ErrorClass, LabError};
pub use host_tools::java_version_found as java_version;
pub use kafka::KafkaTools;
pub use lab::{Broker, Lab, LabOptions, TokenRequest};
pub use registry::{Registry, RegistryOptions, RegistrySecurity};
pub use security::{ClientFault, ClientSettings, LabSecurity, StoreFormat};
pub use state::LabState;
pub use status::{BrokerStatus, DownReport, LabStatus, ServerStatus, default_dir, down, status};

/// Default release of Apache Kafka.
pub const KAFKA_VERSION: &str = "4.3.1";
