//! Pacers, generators, load workers, plans and the resource sampler.

pub mod plan;
pub mod units;
