//! The summary table of a run on the terminal: verdict, limits, then one block per level.

use weir_stats::run::{Run, ThresholdStatus};

use crate::columns::{self, Column, NOT_ON_TERMINALS};
use crate::escape::terminal;
use crate::libraries::{self, LibraryReport};
use crate::results;
use crate::table::ReportTable;
use crate::text::{length, paint, wrap};
use crate::view::{self, Level};

/// Renders the summary for a terminal of `width` columns; narrow terminals omit the less important
/// columns.
///
/// With `color`, outcome and losses are coloured with ANSI sequences; text from the run never
/// contains any.
pub fn render_table(run: &Run, width: usize, color: bool) -> String {
    let line = |class: &str, lead: &str, text: &str| {
        let text = wrap(&terminal(text), length(lead), width);
        let (lead, spaces) = lead.split_at(lead.trim_end().len());
        format!("{}{spaces}{text}\n", paint(class, lead, color))
    };
    let (class, word) = view::outcome(run);
    let mut out = format!("{}\n", wrap(&terminal(&view::answer(run)), 0, width));
    out += &line(
        class,
        &format!("{}  ", word.to_uppercase()),
        view::verdict(run).unwrap_or_default(),
    );
    let class = view::confidence_class(run);
    out += &line(class, "  confidence  ", &run.confidence.text());
    out += &line(
        "",
        "  noise  ",
        weir_stats::answer::noise(run).trim_start_matches("Noise: "),
    );
    for it in &run.thresholds {
        let (class, mark) = view::threshold_mark(it);
        let text = match it.status {
            ThresholdStatus::Passed | ThresholdStatus::Failed => view::threshold(it),
            ThresholdStatus::Undecided | ThresholdStatus::NotChecked => {
                format!("{}, {}", view::threshold(it), view::threshold_status(it))
            }
        };
        out += &line(class, &format!("  {mark} "), &text);
    }
    let tables = results::special_tables(run);
    if tables.is_empty() && !run.cells.is_empty() {
        let levels = view::levels(run);
        out += &table(run, &levels, width).text("", width, color);
        let unwanted = results::remarks(&levels, |row| row.unwanted());
        let limits = results::remarks(&levels, |row| row.limit());
        if !unwanted.is_empty() || !limits.is_empty() {
            out.push('\n');
        }
        for (lead, remarks) in [("unwanted: ", unwanted), ("not sustained: ", limits)] {
            let text = |(name, text): &(String, String)| format!("{name}: {text}");
            out.extend(remarks.iter().map(|it| line("warn", lead, &text(it))));
        }
    }
    for (title, table) in tables {
        let table = table.fitting(width).text("", width, color);
        out += &format!("\n{title}\n{table}");
    }
    if let Some(compared) = LibraryReport::of(run) {
        libraries::terminal(&mut out, &compared, width, color);
    }
    if !run.warnings.is_empty() {
        out.push('\n');
    }
    let warnings = run.warnings.iter();
    out.extend(warnings.map(|text| line("warn", "warning: ", text)));
    out
}

/// Returns the results with as many columns as fit.
fn table(run: &Run, levels: &[Level<'_>], width: usize) -> ReportTable {
    let unit = view::median_unit(levels);
    let columns = columns::below(NOT_ON_TERMINALS);
    let heading = |column: &Column| column.heading_with_unit(unit);
    let mut table = results::table(run, levels, &columns, heading, |it| it.label());
    // Names take at most a quarter of the terminal.
    table.clip(1, NAME_WIDTH_MIN.max(width / 4));
    let widths = table.widths();
    let mut by_rank: Vec<usize> = (0..columns.len()).collect();
    by_rank.sort_by_key(|index| columns[*index].rank);
    let mut left = width.saturating_sub(widths[1]);
    let fitting = by_rank
        .into_iter()
        .map(|index| index + 2)
        .take_while(|index| {
            let is_fitting = widths[*index] + 2 <= left;
            left = left.saturating_sub(widths[*index] + 2);
            is_fitting
        });
    let mut shown: Vec<usize> = [0, 1].into_iter().chain(fitting).collect();
    shown.sort_unstable();
    table.select(2, &shown)
}

const NAME_WIDTH_MIN: usize = 12;
