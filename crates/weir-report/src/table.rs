//! The summary table of a run on the terminal: verdict, limits, then one block per level.

use std::fmt::Write as _;

use weir_stats::run::{Run, RunOutcome};

use crate::escape::terminal;
use crate::format::{self, TimeUnit};
use crate::libraries::{self, LibraryReport};
use crate::sweep_table::sweep_tables;
use crate::view::{self, Level, RowFigures, RowStatus, SubjectRow};

/// Renders the summary for a terminal of `width` columns; narrow terminals omit the less important
/// columns.
///
/// With `color`, outcome and losses are coloured with ANSI sequences; text from the run never
/// contains any.
pub fn render_table(run: &Run, width: usize, color: bool) -> String {
    let mut out = String::new();
    let paint = Paint { color };
    verdict(&mut out, run, width, paint);
    match sweep_tables(run) {
        Some(tables) => out.push_str(&tables),
        None => blocks(&mut out, run, width, paint),
    }
    if let Some(compared) = LibraryReport::of(run) {
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
    let place = TableLayout { width, name_width };
    for level in &levels {
        block(out, level, &columns, unit, place, paint);
    }
}

fn verdict(out: &mut String, run: &Run, width: usize, paint: Paint) {
    let (word, painted) = match run.outcome {
        RunOutcome::Passed => ("PASSED", paint.green("PASSED")),
        RunOutcome::ThresholdFailed => ("FAILED", paint.red("FAILED")),
        RunOutcome::Invalid => ("INVALID", paint.red("INVALID")),
        RunOutcome::Interrupted => ("INTERRUPTED", paint.yellow("INTERRUPTED")),
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

/// Width of the terminal and of the name column.
#[derive(Clone, Copy)]
struct TableLayout {
    width: usize,
    name_width: usize,
}

/// Returns the width of the longest name, at most a quarter of the terminal.
fn name_width(levels: &[Level<'_>], width: usize) -> usize {
    let names = levels.iter().flat_map(|level| &level.rows);
    let longest = names.map(|row| length(&row.name)).max().unwrap_or(0);
    (longest + 1).clamp(NAME_WIDTH_MIN, NAME_WIDTH_MIN.max(width / 4))
}

fn block(
    out: &mut String,
    level: &Level<'_>,
    columns: &[TableColumn],
    unit: TimeUnit,
    TableLayout { width, name_width }: TableLayout,
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
            RowStatus::Skipped(reason) => {
                wrapped(
                    out,
                    &format!("{name} skipped: "),
                    name_width + 10,
                    &terminal(reason),
                    width,
                );
            }
            RowStatus::Invalid(reasons) => {
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
            RowStatus::Valid => {
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
                    let lead = format!("{:name_width$}{} ", "", paint.yellow("not sustained:"));
                    wrapped(out, &lead, name_width + 10, &terminal(&limit), width);
                }
            }
        }
    }
}

const NAME_WIDTH_MIN: usize = 13;

/// The metric of a column, most important first: narrow terminals omit columns from the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ColumnId {
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

const BY_IMPORTANCE: [ColumnId; 14] = [
    ColumnId::P50,
    ColumnId::P99,
    ColumnId::Cpu,
    ColumnId::CpuRatio,
    ColumnId::Lost,
    ColumnId::Delivered,
    ColumnId::Max,
    ColumnId::Mean,
    ColumnId::Duplicated,
    ColumnId::Reordered,
    ColumnId::Conflated,
    ColumnId::Memory,
    ColumnId::Stddev,
    ColumnId::Mbit,
];

const IN_READING_ORDER: [ColumnId; 14] = [
    ColumnId::Mean,
    ColumnId::Stddev,
    ColumnId::P50,
    ColumnId::P99,
    ColumnId::Max,
    ColumnId::Delivered,
    ColumnId::Mbit,
    ColumnId::Cpu,
    ColumnId::CpuRatio,
    ColumnId::Memory,
    ColumnId::Lost,
    ColumnId::Duplicated,
    ColumnId::Reordered,
    ColumnId::Conflated,
];

impl ColumnId {
    fn is_loss(self) -> bool {
        matches!(self, Self::Lost | Self::Duplicated | Self::Reordered)
    }

    fn is_nonzero(self, figures: &RowFigures) -> bool {
        let value = match self {
            Self::Lost => figures.lost,
            Self::Duplicated => figures.duplicated,
            Self::Reordered => figures.reordered,
            _ => None,
        };
        value.is_some_and(|value| value > 0)
    }
}

struct TableColumn {
    kind: ColumnId,
    width: usize,
}

impl TableColumn {
    fn heading(&self, unit: TimeUnit) -> String {
        let time = |name: &str| format!("{name} {}", unit.name());
        match self.kind {
            ColumnId::Mean => time("mean"),
            ColumnId::Stddev => time("sd"),
            ColumnId::P50 => time("p50"),
            ColumnId::P99 => time("p99"),
            ColumnId::Max => time("max"),
            ColumnId::Delivered => "delivered/s".to_owned(),
            ColumnId::Mbit => "Mbit/s".to_owned(),
            ColumnId::Cpu => "CPU µs/rec".to_owned(),
            ColumnId::CpuRatio => "× floor".to_owned(),
            ColumnId::Memory => "kB/client".to_owned(),
            ColumnId::Lost => "lost".to_owned(),
            ColumnId::Duplicated => "dup".to_owned(),
            ColumnId::Reordered => "reord".to_owned(),
            ColumnId::Conflated => "confl".to_owned(),
        }
    }

    fn show(&self, row: &SubjectRow<'_>, unit: TimeUnit) -> String {
        let figures = &row.figures;
        match self.kind {
            ColumnId::Mean => unit.show(figures.mean_us),
            ColumnId::Stddev => unit.show(figures.stddev_us),
            ColumnId::P50 => unit.show(figures.p50_us),
            ColumnId::P99 => unit.show(figures.p99_us),
            ColumnId::Max => unit.show(figures.max_us),
            ColumnId::Delivered => format::number(figures.delivered_per_s),
            ColumnId::Mbit => format::number(figures.mbit_per_s),
            ColumnId::Cpu => format::number(figures.cpu_us_delivering),
            ColumnId::CpuRatio => format::factor(row.cpu_ratio.map(|ratio| ratio.value)),
            ColumnId::Memory => format::kilobytes(figures.memory_per_client_bytes),
            ColumnId::Lost => format::maybe_count(figures.lost),
            ColumnId::Duplicated => format::maybe_count(figures.duplicated),
            ColumnId::Reordered => format::maybe_count(figures.reordered),
            ColumnId::Conflated => format::maybe_count(figures.conflated),
        }
    }
}

/// Returns as many columns as fit, wide enough for every block, so that the blocks align.
fn columns_within(levels: &[Level<'_>], unit: TimeUnit, mut left: usize) -> Vec<TableColumn> {
    let mut chosen = Vec::new();
    for kind in BY_IMPORTANCE {
        let mut column = TableColumn { kind, width: 0 };
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

/// Writes `lead` (`lead_width` visible columns wide) and the text; further lines are indented.
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
