//! The file of `--summary-json`.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use serde::Serialize;

use crate::exit::{Exit, Failure, OrExit as _};

#[derive(Debug, Default, Args)]
pub(crate) struct SummaryArgs {
    /// File to write the result to as JSON, next to what is printed
    #[arg(long, value_name = "FILE")]
    pub(crate) summary_json: Option<PathBuf>,
}

impl SummaryArgs {
    /// Writes the summary if a file is given.
    pub(crate) fn write(&self, summary: &impl Serialize) -> Result<(), Failure> {
        let Some(path) = &self.summary_json else {
            return Ok(());
        };
        let text = serde_json::to_string_pretty(summary).context("summary not written");
        let text = text.or_exit(Exit::Tool)?;
        std::fs::write(path, text + "\n")
            .with_context(|| format!("--summary-json {}: cannot write file", path.display()))
            .or_exit(Exit::Usage)
    }
}
