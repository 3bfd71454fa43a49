//! The table at the end of a run on the terminal: verdict, limits, then one block per client level.

use std::fmt::Write as _;

use weir_stats::run::{Outcome, Run};

use crate::escape::terminal;
use crate::format::{self, TimeUnit};
use crate::libraries::{self, Compared};
use crate::sweep_table::sweep_tables;
use crate::view::{self, Figures, Level, Row, State};

/// Renders the summary for a terminal of `width` columns; narrow terminals lose the less important columns.
///
/// With `color` the outcome and losses are coloured by ANSI sequences; text from the run never contains any.
pub fn render_table(run: &Run, width: usize, color: bool) -> String {
    let mut out = String::new();
    let paint = Paint { color };
    verdict(&mut out, run, width, paint);
    match sweep_tables(run) {
        Some(tables) => out.push_str(&tables),
        None => blocks(&mut out, run, width, paint),
    }
    if let Some(compared) = Compared::of(run) {
        libraries::terminal(&mut out, &compared, width, color);
    }
    if !run.warnings.is_empty() {
        out.push('\n');
        for warning in &run.warnings {
            wrapped(
                &mut out,
                &paint.yellow("warning: "),
                9,
                &terminal(warning),
                width,
            );
        }
    }
    out
}

fn blocks(out: &mut String, run: &Run, width: usize, paint: Paint) {
    let levels = view::levels(run);
    let unit = TimeUnit::for_values_us(
        levels
            .iter()
            .flat_map(Level::valid)
            .filter_map(|row| row.figures.p50_us),
    );
    let name_width = name_width(&levels, width);
    let columns = columns_within(&levels, unit, width.saturating_sub(name_width));
    let place = Place { width, name_width };
    for level in &levels {
        block(out, level, &columns, unit, place, paint);
    }
}

fn verdict(out: &mut String, run: &Run, width: usize, paint: Paint) {
    let (word, painted) = match run.outcome {
        Outcome::Passed => ("PASSED", paint.green("PASSED")),
        Outcome::ThresholdFailed => ("FAILED", paint.red("FAILED")),
        Outcome::Invalid => ("INVALID", paint.red("INVALID")),
        Outcome::Interrupted => ("INTERRUPTED", paint.yellow("INTERRUPTED")),
    };
    wrapped(
        out,
        &format!("{painted}  "),
        word.len() + 2,
        &terminal(&run.verdict),
        width,
    );
    for threshold in &run.thresholds {
        let mark = if threshold.passed {
            paint.green("✓")
        } else {
            paint.red("✗")
        };
        let actual = format::figure(threshold.actual);
        let text = format!(
            "{} ({}): measured {actual} {}",
            threshold.expression, threshold.scope, threshold.unit
        );
        wrapped(out, &format!("  {mark} "), 4, &terminal(&text), width);
    }
}

/// Columns of the terminal, and those of them that names have.
#[derive(Clone, Copy)]
struct Place {
    width: usize,
    name_width: usize,
}

/// As the longest name needs, within a quarter of the terminal.
fn name_width(levels: &[Level<'_>], width: usize) -> usize {
    let names = levels.iter().flat_map(|level| &level.rows);
    let longest = names.map(|row| length(&row.name)).max().unwrap_or(0);
    (longest + 1).clamp(NAME_WIDTH_MIN, NAME_WIDTH_MIN.max(width / 4))
}

fn block(
    out: &mut String,
    level: &Level<'_>,
    columns: &[Column],
    unit: TimeUnit,
    Place { width, name_width }: Place,
    paint: Paint,
) {
    let label = terminal(&level.label());
    let _ = writeln!(out, "\n{}", paint.bold(&label));
    let mut head = pad_right("", name_width);
    for column in columns {
        head.push_str(&pad_left(&column.heading(unit), column.width));
    }
    let _ = writeln!(out, "{}", paint.dim(head.trim_end()));
    for row in &level.rows {
        let name = pad_right(&clip(&terminal(&row.name), name_width - 1), name_width);
        match &row.state {
            State::Skipped(reason) => {
                wrapped(
                    out,
                    &format!("{name} skipped: "),
                    name_width + 10,
                    &terminal(reason),
                    width,
                );
            }
            State::Invalid(reasons) => {
                let label = paint.red("invalid:");
                let text = terminal(&reasons.join("; "));
                wrapped(
                    out,
                    &format!("{name} {label} "),
                    name_width + 10,
                    &text,
                    width,
                );
            }
            State::Valid => {
                let mut line = name;
                for column in columns {
                    let cell = pad_left(&column.show(row, unit), column.width);
                    let bad = column.kind.is_loss() && column.kind.is_nonzero(&row.figures);
                    line.push_str(&if bad { paint.red(&cell) } else { cell });
                }
                let _ = writeln!(out, "{line}");
                if let Some(unwanted) = row.unwanted() {
                    let lead = format!("{:name_width$}", "");
                    wrapped(out, &lead, name_width, &unwanted, width);
                }
                if let Some(limit) = row.limit() {
                    let lead = format!("{:name_width$}{} ", "", paint.yellow("not held:"));
                    wrapped(out, &lead, name_width + 10, &terminal(&limit), width);
                }
            }
        }
    }
}

const NAME_WIDTH_MIN: usize = 13;

/// What a column shows, most important first: a narrow terminal drops from the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    P50,
    P99,
    Cpu,
    CpuRatio,
    Lost,
    Delivered,
    Max,
    Mean,
    Duplicated,
    Reordered,
    Conflated,
    Memory,
    Stddev,
    Mbit,
}

const BY_IMPORTANCE: [Kind; 14] = [
    Kind::P50,
    Kind::P99,
    Kind::Cpu,
    Kind::CpuRatio,
    Kind::Lost,
    Kind::Delivered,
    Kind::Max,
    Kind::Mean,
    Kind::Duplicated,
    Kind::Reordered,
    Kind::Conflated,
    Kind::Memory,
    Kind::Stddev,
    Kind::Mbit,
];

const IN_READING_ORDER: [Kind; 14] = [
    Kind::Mean,
    Kind::Stddev,
    Kind::P50,
    Kind::P99,
    Kind::Max,
    Kind::Delivered,
    Kind::Mbit,
    Kind::Cpu,
    Kind::CpuRatio,
    Kind::Memory,
    Kind::Lost,
    Kind::Duplicated,
    Kind::Reordered,
    Kind::Conflated,
];

impl Kind {
    fn is_loss(self) -> bool {
        matches!(self, Self::Lost | Self::Duplicated | Self::Reordered)
    }

    fn is_nonzero(self, figures: &Figures) -> bool {
        let value = match self {
            Self::Lost => figures.lost,
            Self::Duplicated => figures.duplicated,
            Self::Reordered => figures.reordered,
            _ => None,
        };
        value.is_some_and(|value| value > 0)
    }
}

struct Column {
    kind: Kind,
    width: usize,
}

impl Column {
    fn heading(&self, unit: TimeUnit) -> String {
        let time = |name: &str| format!("{name} {}", unit.name());
        match self.kind {
            Kind::Mean => time("mean"),
            Kind::Stddev => time("sd"),
            Kind::P50 => time("p50"),
            Kind::P99 => time("p99"),
            Kind::Max => time("max"),
            Kind::Delivered => "delivered/s".to_owned(),
            Kind::Mbit => "Mbit/s".to_owned(),
            Kind::Cpu => "CPU µs/msg".to_owned(),
            Kind::CpuRatio => "× floor".to_owned(),
            Kind::Memory => "kB/client".to_owned(),
            Kind::Lost => "lost".to_owned(),
            Kind::Duplicated => "dup".to_owned(),
            Kind::Reordered => "reord".to_owned(),
            Kind::Conflated => "confl".to_owned(),
        }
    }

    fn show(&self, row: &Row<'_>, unit: TimeUnit) -> String {
        let figures = &row.figures;
        match self.kind {
            Kind::Mean => unit.show(figures.mean_us),
            Kind::Stddev => unit.show(figures.stddev_us),
            Kind::P50 => unit.show(figures.p50_us),
            Kind::P99 => unit.show(figures.p99_us),
            Kind::Max => unit.show(figures.max_us),
            Kind::Delivered => format::number(figures.delivered_per_s),
            Kind::Mbit => format::number(figures.mbit_per_s),
            Kind::Cpu => format::number(figures.cpu_us_delivering),
            Kind::CpuRatio => format::factor(row.cpu_ratio.map(|ratio| ratio.value)),
            Kind::Memory => format::kilobytes(figures.memory_per_client_bytes),
            Kind::Lost => format::maybe_count(figures.lost),
            Kind::Duplicated => format::maybe_count(figures.duplicated),
            Kind::Reordered => format::maybe_count(figures.reordered),
            Kind::Conflated => format::maybe_count(figures.conflated),
        }
    }
}

/// As many columns as fit, wide enough for every block so that the blocks align.
fn columns_within(levels: &[Level<'_>], unit: TimeUnit, mut left: usize) -> Vec<Column> {
    let mut chosen = Vec::new();
    for kind in BY_IMPORTANCE {
        let mut column = Column { kind, width: 0 };
        let rows = levels.iter().flat_map(Level::valid);
        let widest = rows
            .map(|row| length(&column.show(row, unit)))
            .max()
            .unwrap_or(0);
        column.width = widest.max(length(&column.heading(unit))) + 2;
        if column.width > left {
            break;
        }
        left -= column.width;
        chosen.push(column);
    }
    chosen.sort_by_key(|column| {
        IN_READING_ORDER
            .iter()
            .position(|kind| *kind == column.kind)
    });
    chosen
}

fn length(text: &str) -> usize {
    text.chars().count()
}

fn pad_left(text: &str, width: usize) -> String {
    format!("{text:>width$}")
}

fn pad_right(text: &str, width: usize) -> String {
    format!("{text:<width$}")
}

fn clip(text: &str, width: usize) -> String {
    if length(text) <= width {
        return text.to_owned();
    }
    text.chars()
        .take(width.saturating_sub(1))
        .chain(['…'])
        .collect()
}

/// Writes `lead` (of `lead_width` visible columns) and the text, later lines indented below it.
fn wrapped(out: &mut String, lead: &str, lead_width: usize, text: &str, width: usize) {
    out.push_str(lead);
    let room = width.saturating_sub(lead_width).max(20);
    let mut used = 0;
    for word in text.split_whitespace() {
        let size = length(word);
        if used > 0 && used + 1 + size > room {
            let _ = write!(out, "\n{:lead_width$}", "");
            used = 0;
        }
        if used > 0 {
            out.push(' ');
            used += 1;
        }
        out.push_str(word);
        used += size;
    }
    out.push('\n');
}

#[derive(Clone, Copy)]
struct Paint {
    color: bool,
}

impl Paint {
    fn with(self, code: &str, text: &str) -> String {
        if self.color {
            format!("\u{1b}[{code}m{text}\u{1b}[0m")
        } else {
            text.to_owned()
        }
    }

    fn bold(self, text: &str) -> String {
        self.with("1", text)
    }

    fn dim(self, text: &str) -> String {
        self.with("2", text)
    }

    fn red(self, text: &str) -> String {
        self.with("31", text)
    }

    fn green(self, text: &str) -> String {
        self.with("32", text)
    }

    fn yellow(self, text: &str) -> String {
        self.with("33", text)
    }
}
