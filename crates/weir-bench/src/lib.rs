//! Runs plans: starts one process per role for each cell, measures, and writes the run directory.

mod cell;
mod cell_clocks;
mod child;
mod collect;
mod derived;
mod dry_run;
mod environment;
mod error;
mod experiment;
mod figure_names;
mod find_max;
mod gateway;
mod import;
mod kafka_tools;
mod level_history;
pub mod libraries;
mod observer;
pub mod overhead;
pub mod plan;
mod probe;
mod processes;
mod quality;
mod result;
mod role_group;
mod runner;
mod saturation;
mod serve;
mod settings;
mod shares;
mod stages;
pub mod sweep;
mod usage;
#[cfg(test)]
mod validation_tests;
mod verdict;
mod workers;

pub use dry_run::{DryRun, MachineNeeds};
pub use error::BenchError;
pub use experiment::plan_file::parse_rate;
pub use experiment::{BenchOptions, Finished};
pub use find_max::{FindMaxOptions, Variable};
pub use import::import;
pub use observer::{Live, Observer};
pub use runner::{find_max, run};
pub use serve::{LiveEndpoints, serve_until};
