//! The main comparison: one row per level and architecture.

use maud::{Markup, html};
use weir_stats::run::Run;

use super::element::{remarks, section};
use crate::chart::slot;
use crate::columns::{COLUMNS, Column, GROUPS};
use crate::format::TimeUnit;
use crate::sweep_table;
use crate::view::{self, Level, RowStatus, SubjectRow};

pub(crate) fn sections(run: &Run, levels: &[Level<'_>]) -> Markup {
    let sweeps = sweep_table::tables(run);
    if !sweeps.is_empty() {
        let content = html! { @for (title, table) in &sweeps { h3 { (title) } (table) } };
        return section("results", "Results", &content);
    }
    let unit = view::median_unit(levels);
    let rows = || {
        let levels = levels.iter();
        levels.flat_map(|level| level.rows.iter().map(move |row| (level, row)))
    };
    let unwanted = rows().filter_map(|(level, row)| {
        let text = row.unwanted()?;
        Some(html! { b { (row.name) } ", " (level.label()) ": " (text) })
    });
    let limits = rows().filter_map(|(level, row)| {
        let limit = row.limit()?;
        Some(html! { b { (row.name) } " did not sustain " (level.label()) ": " (limit) })
    });
    let content = html! {
        div.scroll { table.results { "\n"
            thead {
                tr { td {} @for (name, columns) in GROUPS { th.g colspan=(columns) {
                    (name) @if name == "Latency" { ", " (unit.name()) }
                } } }
                tr {
                    th scope="col" { "Clients" }
                    @for (index, column) in COLUMNS.iter().enumerate() {
                        th scope="col" class=(class_of(index)) { (column.name) }
                    }
                }
            } "\n"
            @for level in levels { (body(run, level, unit)) }
        } }
        (remarks("", unwanted))
        (remarks("warning", limits))
        p.caption {
            "Latency starts at the due time of a record, so a late sender hides nothing. "
            b { "CPU" } ": CPU time of the delivering process (gateway or floor; the broker if \
            clients read from it directly) per wanted delivery. " b { "With broker" }
            ": including the broker. " b { "× floor" } ": relative to the baseline server in the \
            same run, with a 95 % interval if there are repetitions. Values are geometric means \
            over repetitions; losses are summed. – means too few samples or not measured."
        }
    };
    section("results", "Results", &content)
}

/// Returns the class of a column; the first column of each group has a margin.
fn class_of(index: usize) -> &'static str {
    let mut starts = GROUPS.iter().scan(0, |next, (_, columns)| {
        *next += columns;
        Some(*next - columns)
    });
    match starts.any(|start| start == index) {
        true => "n first",
        false => "n",
    }
}

fn body(run: &Run, level: &Level<'_>, unit: TimeUnit) -> Markup {
    // A grid point with a single subject takes one row.
    let is_alone = level.rows.len() == 1 && !level.parameters.is_empty();
    html! { tbody {
        @if !is_alone { tr.level {
            th scope="rowgroup" { (level.label()) } td colspan=(COLUMNS.len()) {}
        } }
        @for row in &level.rows {
            @let (class, badge, badge_class) = match row.state {
                RowStatus::Valid if row.limit().is_some() => ("", "not sustained", "warn"),
                RowStatus::Valid => ("", "", ""),
                RowStatus::Invalid(_) => ("invalid", "invalid", "bad"),
                RowStatus::Skipped(_) => ("skipped", "skipped", ""),
            };
            tr class=(class) {
                th scope="row" {
                    i class={ "swatch " (slot(run, &row.name)) } {}
                    (row.name) @if is_alone { ", " (level.label()) }
                    @if !badge.is_empty() { " " span class={ "badge " (badge_class) } { (badge) } }
                }
                @match &row.state {
                    RowStatus::Valid => { @for (index, column) in COLUMNS.iter().enumerate() {
                        (value(row, index, column, unit))
                    } }
                    RowStatus::Invalid(reasons) => { (reason(&reasons.join("; "))) }
                    RowStatus::Skipped(text) => { (reason(text)) }
                }
            } "\n"
        }
    } "\n" }
}

fn reason(text: &str) -> Markup {
    html! { td.reason colspan=(COLUMNS.len()) { (text) } }
}

fn value(row: &SubjectRow<'_>, index: usize, column: &Column, unit: TimeUnit) -> Markup {
    let text = (column.show)(row, unit);
    let emphasis = match column.name {
        "p99" | "own" => " strong",
        _ if column.is_fault(&text) => " bad",
        _ => "",
    };
    let bounds = row.cpu_ratio.and_then(|ratio| ratio.bounds);
    let bounds = bounds.filter(|_| index == CPU_RATIO && !row.is_floor());
    html! {
        td class={ (class_of(index)) (emphasis) } {
            (text)
            // A second line, so that the values stay aligned.
            @if let Some((low, high)) = bounds { small { (format!("{low:.2} to {high:.2}")) } }
        }
    }
}

/// Index of the column that compares CPU time with the floor.
const CPU_RATIO: usize = 10;
