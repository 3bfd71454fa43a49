//! Logins of Kafka connections (SASL) as state machines without sockets: mechanisms, and the
//! requests that carry them.

pub mod client;
#[doc(hidden)]
#[cfg(any(test, fuzzing))]
pub mod fuzz;
pub mod random;
mod scram;
pub mod server;
pub mod users;
