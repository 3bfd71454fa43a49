//! Pacers, generators, load workers, plans and the resource sampler.
