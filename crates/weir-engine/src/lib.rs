//! Machines of a test: which roles they run, which limits they have, how far their clocks differ.
//!
//! [`machines`] connects to them with ssh or waits for their [`agents`], [`session`] is what runs
//! there.
//!
//! This crate knows no plans and no load. `weir-bench` computes what a plan needs.

pub mod agents;
pub mod archive;
pub mod clock;
pub mod gateways;
pub mod inventory;
pub mod kubernetes;
pub mod limits;
mod machine_clock;
pub mod machines;
mod role_session;
pub mod session;
mod ssh;
