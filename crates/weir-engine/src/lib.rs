//! Machines of a test: which roles they run, which limits they have, how far their clocks differ.
//!
//! This crate knows no plans and no load. `weir-bench` computes what a plan needs.

pub mod clock;
pub mod inventory;
pub mod limits;
