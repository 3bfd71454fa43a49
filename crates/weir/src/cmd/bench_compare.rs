//! `weir bench compare`: compares two runs metric by metric.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use weir_stats::compare::{self, CompareOptions, NamedRun};
use weir_stats::metric;
use weir_stats::run::{Comparison, Run};

use crate::exit::{Exit, Failure, OrExit as _};

const AFTER_HELP: &str = "\
Examples:
  weir bench compare weir-runs/before weir-runs/after
  weir bench compare before after --aa before-again --fail-on worse \\
    --markdown comment.md";

#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct CompareArgs {
    /// Directory of the baseline run
    base: PathBuf,
    /// Directory of the run to compare with the baseline
    other: PathBuf,
    #[command(flatten)]
    options: ComparisonArgs,
    /// Show all metrics, not only the deciding ones
    #[arg(long)]
    all: bool,
    /// Print the comparison as JSON
    #[arg(long)]
    json: bool,
    /// Markdown file to write the comparison to, for example for a review comment
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Page to write the comparison to, with tables and charts of both runs
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Options that define a relevant difference; shared with `weir bench run --baseline`.
#[derive(Debug, Clone, Args)]
pub(crate) struct ComparisonArgs {
    /// Repeated baseline run (A/A test); repeatable
    ///
    /// Differences that are not larger than those between the baseline and its repetitions are not
    /// reported.
    #[arg(long, value_name = "DIR")]
    aa: Vec<PathBuf>,
    /// Margin in percent; smaller differences count as equivalent
    #[arg(long, value_name = "PERCENT", default_value = "3", value_parser = parse_percent)]
    margin: f64,
    /// Deciding metrics, instead of the default ones
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = parse_metric)]
    metrics: Vec<String>,
    /// Verdict that ends the command with exit code 1
    ///
    /// worse: a deciding metric is significantly worse. If no deciding metric could be compared,
    /// the exit code is 4.
    #[arg(long, value_name = "VERDICT")]
    fail_on: Option<FailOn>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FailOn {
    /// Worse by more than the margin, corrected for the number of metrics
    Worse,
}

impl ComparisonArgs {
    /// Compares `other` with the run in the directory `base`.
    pub(crate) fn with_baseline(
        &self,
        base: &Path,
        other: NamedRun<'_>,
    ) -> Result<Comparison, Failure> {
        let (run, label) = (read(base)?, base.display().to_string());
        let repeated: Vec<Run> = self
            .aa
            .iter()
            .map(|dir| read(dir))
            .collect::<Result<_, _>>()?;
        let repeated: Vec<&Run> = repeated.iter().collect();
        let named = NamedRun {
            label: &label,
            run: &run,
        };
        let options = CompareOptions {
            margin_share: self.margin,
            headline: self.metrics.clone(),
        };
        Ok(compare::runs(named, other, &repeated, &options))
    }

    pub(crate) fn is_failed_by(&self, comparison: &Comparison) -> bool {
        let mut metrics = comparison.subjects.iter().flat_map(|s| &s.metrics);
        self.fail_on == Some(FailOn::Worse) && metrics.any(|metric| metric.is_significantly_worse)
    }

    pub(crate) fn needs_baseline(&self) -> bool {
        self.fail_on.is_some() || !self.aa.is_empty() || !self.metrics.is_empty()
    }
}

pub(crate) fn run(args: &CompareArgs) -> Result<Exit, Failure> {
    let (other, label) = (read(&args.other)?, args.other.display().to_string());
    let named = NamedRun {
        label: &label,
        run: &other,
    };
    let comparison = args.options.with_baseline(&args.base, named)?;
    if let Some(path) = &args.markdown {
        std::fs::write(path, weir_report::comparison_markdown(&comparison))
            .with_context(|| format!("cannot write {}", path.display()))
            .or_exit(Exit::Usage)?;
    }
    if let Some(path) = &args.html {
        let dirs = [args.base.as_path(), args.other.as_path()];
        let data = weir_report::compared_pair(dirs, comparison.clone()).or_exit(Exit::Usage)?;
        std::fs::write(path, weir_report::render_html(&data))
            .with_context(|| format!("cannot write {}", path.display()))
            .or_exit(Exit::Usage)?;
    }
    match args.json {
        true => {
            let text = serde_json::to_string_pretty(&comparison).context("comparison not written");
            let text = text.or_exit(Exit::Tool)?;
            println!("{text}");
        }
        false => show(&comparison, args.all),
    }
    Ok(exit(&args.options, &comparison))
}

/// Prints a comparison; with `all` also the metrics that do not decide.
pub(crate) fn show(comparison: &Comparison, all: bool) {
    let color = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    print!("{}", weir_report::render_comparison(comparison, all, color));
}

/// Returns the exit code for a comparison.
///
/// With `--fail-on`, a comparison without any comparable deciding metric is an error.
pub(crate) fn exit(options: &ComparisonArgs, comparison: &Comparison) -> Exit {
    if options.is_failed_by(comparison) {
        return Exit::Threshold;
    }
    if options.fail_on.is_some() && !comparison.has_decided() {
        eprintln!(
            "weir: --fail-on: no deciding metric could be compared: {}",
            comparison.summary
        );
        return Exit::Tool;
    }
    Exit::Success
}

fn read(dir: &Path) -> Result<Run, Failure> {
    let data = weir_report::RunData::read(dir).or_exit(Exit::Usage)?;
    Ok(data.run)
}

fn parse_metric(name: &str) -> anyhow::Result<String> {
    // Metrics defined by a plan have arbitrary names that contain a unit.
    if metric::Metric::named(name).is_some() || name.contains('_') {
        return Ok(name.to_owned());
    }
    let all: Vec<&str> = metric::METRICS.iter().map(|metric| metric.name).collect();
    anyhow::bail!("unknown metric \"{name}\"; use {}", all.join(", "))
}

fn parse_percent(text: &str) -> anyhow::Result<f64> {
    let number = text.trim_end_matches('%').trim().parse::<f64>();
    let percent = number.context("use a number such as 3")?;
    anyhow::ensure!((0.0..=1000.0).contains(&percent), "must be from 0 to 1000");
    Ok(percent / 100.0)
}
