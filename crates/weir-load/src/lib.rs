//! Pacers, generators, load workers, plans, the resource sampler, and the driver of librdkafka.

pub mod agent;
pub mod bench;
pub mod clients;
pub mod clock;
pub mod consumer;
pub mod delivery;
pub mod driver;
mod due_text;
pub mod error;
pub mod floor;
pub mod keys;
pub mod local_time;
pub mod pacer;
pub mod payload;
pub mod plan;
pub mod producer;
pub mod published_report;
pub mod relay;
pub mod sampler;
pub mod stamp;
mod topic;
pub mod units;
pub mod worker;
