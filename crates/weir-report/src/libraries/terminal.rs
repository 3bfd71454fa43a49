//! Library comparison on a terminal: a block per operation, a line per cell.

use std::fmt::Write as _;

use weir_stats::libraries::{CellView, Quantity, RatioVerdict};

use super::{Group, LibraryReport};
use crate::escape::terminal;
use crate::format::{self, TimeUnit};

/// Appends all blocks, at most `width` columns wide if possible.
pub(crate) fn blocks(out: &mut String, compared: &LibraryReport<'_>, width: usize, color: bool) {
    let first = compared.first_name();
    for group in &compared.groups {
        let head = format!("{}: {}", group.title(), group.headline().title);
        let _ = writeln!(out, "\n{}", paint(&terminal(&head), "1", color));
        table(out, &rows(compared, group), width, color);
    }
    if !compared.others.is_empty() {
        let _ = writeln!(
            out,
            "\n%: {} divided by the other library, median over repetitions with a 95 % interval; \
             below 100 {0} needs less. ~ no difference shown; ? too few repetitions for an \
             interval. CPU: µs per record.",
            terminal(first)
        );
    }
    for driver in &compared.libraries.drivers {
        if let Some(why) = &driver.failed {
            let _ = writeln!(
                out,
                "{} {}: {}",
                paint("abandoned:", "31", color),
                terminal(&driver.name),
                terminal(why)
            );
        }
    }
}

/// One field; `code` is its ANSI colour.
struct TerminalField {
    text: String,
    code: Option<&'static str>,
}

fn plain(text: impl Into<String>) -> TerminalField {
    TerminalField {
        text: text.into(),
        code: None,
    }
}

/// Returns the heading and a row for each cell.
fn rows(compared: &LibraryReport<'_>, group: &Group<'_>) -> Vec<Vec<TerminalField>> {
    let quantity = group.headline();
    let medians = |view: &CellView<'_>| -> Vec<f64> {
        let drivers = view.drivers.iter();
        drivers
            .filter_map(|driver| Some(driver.statistics(quantity)?.median))
            .collect()
    };
    let unit = TimeUnit::for_values_us(group.cells.iter().flat_map(medians));
    let first = compared.first_name();
    let mut heading = vec![
        plain(match group.mode {
            "open" => "bytes @ rate",
            _ => "bytes x records",
        }),
        plain(format!("{} {}", terminal(first), unit.name())),
        plain("CPU"),
    ];
    for other in &compared.others {
        heading.push(plain(format!("{} %", terminal(&other.name))));
        heading.push(plain("CPU"));
    }
    let mut rows = vec![heading];
    for payload in &group.payloads {
        for place in &group.places {
            if let Some(view) = group.at(*place, *payload) {
                rows.push(row(compared, view, unit));
            }
        }
    }
    rows
}

fn row(compared: &LibraryReport<'_>, view: &CellView<'_>, unit: TimeUnit) -> Vec<TerminalField> {
    let (cell, quantity) = (view.cell, view.headline());
    let place = match cell.rate_per_s {
        Some(rate) => format!("{} @ {}/s", cell.value_bytes, format::figure(Some(rate))),
        None => format!("{} x {}", cell.value_bytes, cell.records),
    };
    if let Some(why) = &cell.skipped {
        return vec![plain(place), plain(format!("skipped: {}", terminal(why)))];
    }
    let cpu = |name: &str| {
        let figures = view
            .driver(name)?
            .statistics(Quantity::named("cpu_us_per_record")?);
        figures.map(|it| it.median)
    };
    let first = compared.first_name();
    let median = view.first().and_then(|it| it.statistics(quantity));
    let mut fields = vec![
        plain(place),
        plain(unit.show(median.map(|it| it.median))),
        plain(format::number(cpu(first))),
    ];
    for other in &compared.others {
        let found = view.compare(quantity, &other.name);
        fields.push(match found.and_then(|it| it.pairs) {
            None => plain(format::NONE),
            Some(ratio) => {
                let number = |value: f64| format::number(Some(value));
                let percent = number(ratio.percent);
                let (code, text) = match (ratio.verdict(), ratio.bounds) {
                    (_, None) => (None, format!("{percent} ?")),
                    (shown, Some((low, high))) => {
                        let text = format!("{percent} [{}-{}]", number(low), number(high));
                        match shown {
                            RatioVerdict::FirstBetter => (Some("1"), text),
                            RatioVerdict::OtherBetter => (None, text),
                            _ => (Some("2"), format!("{text} ~")),
                        }
                    }
                };
                TerminalField { text, code }
            }
        });
        fields.push(plain(format::number(cpu(&other.name))));
    }
    fields
}

/// Writes aligned columns; columns that do not fit go to further tables with the same first column.
fn table(out: &mut String, rows: &[Vec<TerminalField>], width: usize, color: bool) {
    let columns = rows.first().map_or(0, Vec::len);
    let length = |field: &TerminalField| field.text.chars().count();
    let size = |column: usize| {
        // The reason for a skipped cell may span all columns.
        let counts = rows
            .iter()
            .filter(|row| row.len() == columns || column == 0);
        counts.map(|row| length(&row[column])).max().unwrap_or(0)
    };
    let sizes: Vec<usize> = (0..columns).map(size).collect();
    let mut from = 1;
    while from < columns {
        let (mut until, mut used) = (from, sizes[0]);
        // The two columns of a library stay together.
        while until < columns && (until < from + 2 || used + pair(&sizes, until) <= width) {
            used += pair(&sizes, until);
            until = columns.min(until + 2);
        }
        for (index, row) in rows.iter().enumerate() {
            let mut line = format!("  {:<1$}", row[0].text, sizes[0]);
            if row.len() < columns {
                let _ = write!(line, "  {}", row[1].text);
            } else {
                for (field, size) in row[from..until].iter().zip(&sizes[from..]) {
                    line.push_str(&" ".repeat(size - length(field) + 2));
                    line.push_str(&paint(&field.text, field.code.unwrap_or(""), color));
                }
            }
            let code = if index == 0 { "2" } else { "" };
            let _ = writeln!(out, "{}", paint(line.trim_end(), code, color));
        }
        from = until;
    }
}

fn pair(sizes: &[usize], at: usize) -> usize {
    sizes.iter().skip(at).take(2).map(|size| size + 2).sum()
}

fn paint(text: &str, code: &str, color: bool) -> String {
    match color && !code.is_empty() {
        true => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
        false => text.to_owned(),
    }
}
