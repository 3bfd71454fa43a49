//! Pacers, generators, load workers, plans and the resource sampler.

pub mod clients;
pub mod clock;
pub mod delivery;
pub mod keys;
pub mod local_time;
pub mod stamp;
pub mod worker;
