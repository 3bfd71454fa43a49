//! Producers, consumers, simulated clients, baseline servers and the resource sampler.

pub mod child_environment;
pub mod clients;
pub mod clock;
pub mod consumer;
pub mod delivery;
mod due_text;
pub mod error;
pub mod floor;
#[doc(hidden)]
#[cfg(any(test, fuzzing))]
pub mod fuzz;
pub mod kafka;
pub mod keys;
pub mod local_time;
pub mod meter;
pub mod pacer;
pub mod payload;
pub mod producer;
pub mod published_report;
mod registry;
pub mod relay;
pub mod sampler;
pub mod share;
pub mod stamp;
pub mod tail;
pub mod topic;
pub mod units;
pub mod value_schema;
mod varint;
pub mod worker;
