//! Machines of a test: which roles they run, which limits they have, how far their clocks differ.
//!
//! [`machines`] connects to them with ssh or waits for their [`agents`], [`session`] is what runs
//! there.
//!
//! [`client_agents`] distributes the simulated clients of a single command over processes. This
//! crate knows no plans: `weir-bench` computes what one needs.

pub mod agents;
pub mod archive;
pub mod client_agents;
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
