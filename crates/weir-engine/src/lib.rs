//! Machines of a test: which roles they run, which limits they have, how far their clocks differ.
//!
//! [`machines`] connects to them with ssh, [`session`] is what runs there.
//!
//! This crate knows no plans and no load. `weir-bench` computes what a plan needs.

pub mod clock;
pub mod gateways;
pub mod inventory;
pub mod limits;
pub mod machines;
pub mod session;
mod ssh;
