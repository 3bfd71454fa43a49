//! Reads records again for clients that have missed them.
//!
//! One thread per Kafka connection reads, after the first request. It serves all waiting requests
//! together: each range of a partition is read once for all clients that need records of it.

mod batch;
mod pace;
mod thread;

pub(crate) use self::thread::ReadBackThread;
