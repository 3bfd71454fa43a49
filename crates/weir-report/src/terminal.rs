//! The summary table of a run on the terminal: verdict, limits, then one block per level.

use std::fmt::Write as _;

use weir_stats::run::{Run, RunOutcome};

use crate::columns::{COLUMNS, Column, NOT_ON_TERMINALS};
use crate::escape::terminal;
use crate::format::{self, TimeUnit};
use crate::libraries::{self, LibraryReport};
use crate::sweep_table;
use crate::view::{self, Level, RowStatus};

/// Renders the summary for a terminal of `width` columns; narrow terminals omit the less important
/// columns.
///
/// With `color`, outcome and losses are coloured with ANSI sequences; text from the run never
/// contains any.
pub fn render_table(run: &Run, width: usize, color: bool) -> String {
    let mut screen = Screen {
        out: String::new(),
        width,
        color,
    };
    screen.verdict(run);
    let sweeps = sweep_table::tables(run);
    if sweeps.is_empty() {
        screen.levels(run);
    }
    for (title, table) in sweeps {
        let _ = write!(screen.out, "\n{title}\n{}", table.text("", color));
    }
    if let Some(compared) = LibraryReport::of(run) {
        libraries::terminal(&mut screen.out, &compared, width, color);
    }
    if !run.warnings.is_empty() {
        screen.out.push('\n');
    }
    for warning in &run.warnings {
        let lead = screen.paint(YELLOW, "warning: ");
        screen.wrapped(&lead, 9, warning);
    }
    screen.out
}

const NAME_WIDTH_MIN: usize = 13;
const BOLD: u8 = 1;
const DIM: u8 = 2;
const RED: u8 = 31;
const GREEN: u8 = 32;
const YELLOW: u8 = 33;

struct Screen {
    out: String,
    width: usize,
    color: bool,
}

impl Screen {
    fn verdict(&mut self, run: &Run) {
        let (word, code) = match run.outcome {
            RunOutcome::Passed => ("PASSED", GREEN),
            RunOutcome::ThresholdFailed => ("FAILED", RED),
            RunOutcome::Invalid => ("INVALID", RED),
            RunOutcome::Interrupted => ("INTERRUPTED", YELLOW),
        };
        let lead = format!("{}  ", self.paint(code, word));
        self.wrapped(&lead, word.len() + 2, &run.verdict);
        for it in &run.thresholds {
            let mark = match it.passed {
                true => self.paint(GREEN, "✓"),
                false => self.paint(RED, "✗"),
            };
            let actual = format::figure(it.actual);
            let (limit, scope, unit) = (&it.expression, &it.scope, &it.unit);
            let text = format!("{limit} ({scope}): measured {actual} {unit}");
            self.wrapped(&format!("  {mark} "), 4, &text);
        }
    }

    fn levels(&mut self, run: &Run) {
        let levels = view::levels(run);
        let unit = view::median_unit(&levels);
        let names = levels.iter().flat_map(|level| &level.rows);
        let longest = names.map(|row| length(&row.name)).max().unwrap_or(0);
        // At most a quarter of the terminal.
        let name_width = (longest + 1).clamp(NAME_WIDTH_MIN, NAME_WIDTH_MIN.max(self.width / 4));
        let columns = columns_within(&levels, unit, self.width.saturating_sub(name_width));
        for level in &levels {
            let label = self.paint(BOLD, &terminal(&level.label()));
            let mut head = " ".repeat(name_width);
            for (column, width) in &columns {
                let _ = write!(head, "{:>width$}", column.heading_with_unit(unit));
            }
            let head = self.paint(DIM, head.trim_end());
            let _ = writeln!(self.out, "\n{label}\n{head}");
            self.rows(level, &columns, unit, name_width);
        }
    }

    fn rows(
        &mut self,
        level: &Level<'_>,
        columns: &[(&Column, usize)],
        unit: TimeUnit,
        name_width: usize,
    ) {
        for row in &level.rows {
            let name = clip(&terminal(&row.name), name_width - 1);
            let name = format!("{name:name_width$}");
            match &row.state {
                RowStatus::Skipped(reason) => {
                    self.wrapped(&format!("{name} skipped: "), name_width + 10, reason);
                    continue;
                }
                RowStatus::Invalid(reasons) => {
                    let lead = format!("{name} {} ", self.paint(RED, "invalid:"));
                    self.wrapped(&lead, name_width + 10, &reasons.join("; "));
                    continue;
                }
                RowStatus::Valid => self.out.push_str(&name),
            }
            for (column, width) in columns {
                let text = (column.show)(row, unit);
                let code = if column.is_fault(&text) { RED } else { 0 };
                self.out
                    .push_str(&self.paint(code, &format!("{text:>width$}")));
            }
            self.out.push('\n');
            let lead = " ".repeat(name_width);
            if let Some(unwanted) = row.unwanted() {
                self.wrapped(&lead, name_width, &unwanted);
            }
            if let Some(limit) = row.limit() {
                let lead = format!("{lead}{} ", self.paint(YELLOW, "not sustained:"));
                self.wrapped(&lead, name_width + 10, &limit);
            }
        }
    }

    /// Returns the text with an ANSI sequence; 0 means no colour.
    fn paint(&self, code: u8, text: &str) -> String {
        match self.color && code > 0 {
            true => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
            false => text.to_owned(),
        }
    }

    /// Writes `lead` (`lead_width` visible columns wide) and the text; further lines are indented.
    fn wrapped(&mut self, lead: &str, lead_width: usize, text: &str) {
        self.out.push_str(lead);
        let room = self.width.saturating_sub(lead_width).max(20);
        let mut used = 0;
        for word in terminal(text).split_whitespace() {
            let size = length(word);
            if used > 0 && used + 1 + size > room {
                let _ = write!(self.out, "\n{:lead_width$}", "");
                used = 0;
            }
            if used > 0 {
                self.out.push(' ');
                used += 1;
            }
            self.out.push_str(word);
            used += size;
        }
        self.out.push('\n');
    }
}

/// Returns as many columns as fit, wide enough for every block, so that the blocks align.
fn columns_within(
    levels: &[Level<'_>],
    unit: TimeUnit,
    mut left: usize,
) -> Vec<(&'static Column, usize)> {
    let mut sized: Vec<_> = COLUMNS
        .iter()
        .enumerate()
        .filter(|(_, column)| column.rank < NOT_ON_TERMINALS)
        .map(|(place, column)| {
            let rows = levels.iter().flat_map(Level::valid);
            let widths = rows.map(|row| length(&(column.show)(row, unit)));
            let heading = length(&column.heading_with_unit(unit));
            (place, (column, widths.fold(heading, usize::max) + 2))
        })
        .collect();
    sized.sort_by_key(|(_, (column, _))| column.rank);
    let fitting = sized.iter().take_while(|(_, (_, width))| {
        let is_fitting = *width <= left;
        left = left.saturating_sub(*width);
        is_fitting
    });
    let mut fitting: Vec<_> = fitting.collect();
    fitting.sort_by_key(|(place, _)| *place);
    fitting.into_iter().map(|(_, column)| *column).collect()
}

fn length(text: &str) -> usize {
    text.chars().count()
}

fn clip(text: &str, width: usize) -> String {
    if length(text) <= width {
        return text.to_owned();
    }
    let start = text.chars().take(width.saturating_sub(1));
    start.chain(['…']).collect()
}
