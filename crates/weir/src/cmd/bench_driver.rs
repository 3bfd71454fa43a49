//! `weir bench driver`: the built-in librdkafka driver.

use anyhow::Context as _;

use crate::exit::{Exit, Failure};

/// Executes driver commands until standard input ends.
pub(crate) fn run() -> Result<Exit, Failure> {
    weir_drivers::librdkafka::run()
        .context("cannot write to standard output")
        .map_err(|error| Failure::new(Exit::Instrument, error))?;
    Ok(Exit::Success)
}
