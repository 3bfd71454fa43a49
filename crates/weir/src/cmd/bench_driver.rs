//! `weir bench driver`.

use anyhow::Context as _;

use crate::exit::{Exit, Failure};

/// Answers commands until standard input ends.
pub(crate) fn run() -> Result<Exit, Failure> {
    weir_drivers::librdkafka::run()
        .context("standard output is gone")
        .map_err(|error| Failure::new(Exit::Instrument, error))?;
    Ok(Exit::Fine)
}
