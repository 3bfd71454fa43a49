//! `weir bench compare`: two run folders beside each other.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use weir_stats::compare::{self, NamedRun, Options};
use weir_stats::metric;
use weir_stats::run::{Comparison, Run};

use crate::exit::{Exit, Failure};

/// What to compare, and what counts.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  weir bench compare weir-runs/before weir-runs/after\n  weir bench compare before after --aa before-again --fail-on worse --markdown comment.md"
)]
pub(crate) struct CompareArgs {
    /// Folder of the run that the other is held against.
    base: PathBuf,
    /// Folder of the run that is judged.
    other: PathBuf,
    #[command(flatten)]
    judging: CompareOptions,
    /// Show metrics that do not decide as well.
    #[arg(long)]
    all: bool,
    /// Print the comparison as JSON.
    #[arg(long)]
    json: bool,
    /// Write the comparison as Markdown, for a comment on a change.
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
}

/// What counts as a difference; shared with `weir bench run --baseline`.
#[derive(Debug, Clone, Args)]
pub(crate) struct CompareOptions {
    /// Another run of what the base is: differences no larger than between those two are not called. May be given
    /// several times.
    #[arg(long, value_name = "DIR")]
    aa: Vec<PathBuf>,
    /// Differences up to this many percent do not matter.
    #[arg(long, value_name = "PERCENT", default_value = "3", value_parser = parse_percent)]
    margin: f64,
    /// Metrics that decide, in place of the usual ones.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    metrics: Vec<String>,
    /// End with exit code 1 if a metric that decides is surely worse, with 4 if none could be compared.
    #[arg(long, value_name = "VERDICT")]
    fail_on: Option<FailOn>,
}

/// Verdicts that can end a command with exit code 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FailOn {
    /// Beyond the margin, with all metrics taken into account.
    Worse,
}

impl CompareOptions {
    /// Holds `other` against the run in the folder `base`.
    pub(crate) fn against(&self, base: &Path, other: NamedRun<'_>) -> Result<Comparison, Failure> {
        self.check()?;
        let (run, label) = (read(base)?, base.display().to_string());
        let again: Vec<Run> = self
            .aa
            .iter()
            .map(|dir| read(dir))
            .collect::<Result<_, _>>()?;
        let again: Vec<&Run> = again.iter().collect();
        let named = NamedRun {
            label: &label,
            run: &run,
        };
        let options = Options {
            margin_share: self.margin,
            headline: self.metrics.clone(),
        };
        Ok(compare::runs(named, other, &again, &options))
    }

    /// Whether the comparison is to end the command with exit code 1.
    pub(crate) fn fails(&self, comparison: &Comparison) -> bool {
        let mut metrics = comparison.subjects.iter().flat_map(|s| &s.metrics);
        self.fail_on == Some(FailOn::Worse) && metrics.any(|metric| metric.is_surely_worse)
    }

    /// Whether something has no meaning without a base.
    pub(crate) fn is_given(&self) -> bool {
        self.fail_on.is_some() || !self.aa.is_empty() || !self.metrics.is_empty()
    }

    fn check(&self) -> Result<(), Failure> {
        // Figures of a plan's own may have any name with a unit.
        let known = |name: &String| metric::Metric::named(name).is_some() || name.contains('_');
        match self.metrics.iter().find(|name| !known(name)) {
            None => Ok(()),
            Some(name) => {
                let all: Vec<&str> = metric::METRICS.iter().map(|metric| metric.name).collect();
                let text = format!("--metrics {name}: unknown, there are {}", all.join(", "));
                Err(Failure::new(Exit::Usage, anyhow::anyhow!(text)))
            }
        }
    }
}

/// Compares and tells.
pub(crate) fn run(args: &CompareArgs) -> Result<Exit, Failure> {
    let (other, label) = (read(&args.other)?, args.other.display().to_string());
    let named = NamedRun {
        label: &label,
        run: &other,
    };
    let comparison = args.judging.against(&args.base, named)?;
    if let Some(path) = &args.markdown {
        std::fs::write(path, weir_report::comparison_markdown(&comparison))
            .with_context(|| format!("cannot write {}", path.display()))
            .map_err(|error| Failure::new(Exit::Usage, error))?;
    }
    match args.json {
        true => {
            let text = serde_json::to_string_pretty(&comparison).context("comparison not written");
            let text = text.map_err(|error| Failure::new(Exit::Instrument, error))?;
            println!("{text}");
        }
        false => show(&comparison, args.all),
    }
    Ok(exit(&args.judging, &comparison))
}

/// Prints a comparison.
pub(crate) fn show(comparison: &Comparison, all: bool) {
    let color = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    print!("{}", weir_report::render_comparison(comparison, all, color));
}

/// The code that a comparison stands for.
///
/// With `--fail-on` a comparison that could not have found anything worse is no pass.
pub(crate) fn exit(judging: &CompareOptions, comparison: &Comparison) -> Exit {
    if judging.fails(comparison) {
        return Exit::Threshold;
    }
    if judging.fail_on.is_some() && !comparison.has_decided() {
        eprintln!(
            "weir: --fail-on: nothing could be compared: {}",
            comparison.summary
        );
        return Exit::Instrument;
    }
    Exit::Fine
}

fn read(dir: &Path) -> Result<Run, Failure> {
    let data = weir_report::RunData::read(dir).map_err(|error| Failure::new(Exit::Usage, error))?;
    Ok(data.run)
}

fn parse_percent(text: &str) -> Result<f64, String> {
    let number = text.trim_end_matches('%').trim().parse::<f64>();
    let percent = number.map_err(|error| format!("{error}, give for example 3"))?;
    match (0.0..=1000.0).contains(&percent) {
        true => Ok(percent / 100.0),
        false => Err("give 0 to 1000".to_owned()),
    }
}
