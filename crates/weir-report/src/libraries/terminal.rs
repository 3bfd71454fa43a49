//! Library comparison on a terminal: a block per operation, a line per cell.

use std::fmt::Write as _;

use weir_stats::libraries::{CellView, PairRatio, Quantity, RatioVerdict};

use super::{Group, LibraryReport};
use crate::escape::terminal;
use crate::format::{self, TimeUnit};
use crate::table::{Field, ReportTable};
use crate::text::paint;

/// Appends all blocks, at most `width` columns wide if possible.
pub(crate) fn blocks(out: &mut String, compared: &LibraryReport<'_>, width: usize, color: bool) {
    let first = compared.first_name();
    let mut has_published = false;
    for group in &compared.groups {
        let head = format!("{}: {}", group.title(), group.headline().title);
        let _ = writeln!(out, "\n{}", paint("strong", &terminal(&head), color));
        tables(out, &rows(compared, group), width, color);
        let published = super::published_blocks(compared, group);
        if !published.is_empty() {
            let (title, table) = group.averages(group.headline(), published);
            let _ = writeln!(
                out,
                "\n{INDENT}{}",
                paint("strong", &terminal(&title), color)
            );
            out.push_str(&table.text(INDENT, width, color));
            has_published = true;
        }
    }
    if has_published {
        let _ = writeln!(
            out,
            "\nPublished figures: other hardware, both libraries called from .NET \
             (docs/client-libraries.md)."
        );
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
            let state = match driver.is_not_run() {
                true => "not run here:".to_owned(),
                false => paint("bad", "abandoned:", color),
            };
            let _ = writeln!(out, "{state} {}: {}", terminal(&driver.name), terminal(why));
        }
    }
}

fn rows(compared: &LibraryReport<'_>, group: &Group<'_>) -> ReportTable {
    let quantity = group.headline();
    let drivers = group.cells.iter().flat_map(|view| &view.drivers);
    let medians = drivers.filter_map(|driver| Some(driver.statistics(quantity)?.median));
    let unit = TimeUnit::for_values_us(medians);
    let corner = match group.mode {
        "open" => "bytes @ rate",
        _ => "bytes x records",
    };
    let first = format!("{} {}", compared.first_name(), unit.name());
    let mut headings = [corner, &first, "CPU"].map(terminal).to_vec();
    for other in &compared.others {
        headings.extend([format!("{} %", terminal(&other.name)), "CPU".to_owned()]);
    }
    let mut table = ReportTable::new(1, headings);
    for payload in &group.payloads {
        let views = group
            .places
            .iter()
            .filter_map(|place| group.at(*place, *payload));
        views.for_each(|view| table.row("", row(compared, view, unit)));
    }
    table
}

fn row(compared: &LibraryReport<'_>, view: &CellView<'_>, unit: TimeUnit) -> Vec<Field> {
    let (cell, quantity) = (view.cell, view.headline());
    let place = match cell.rate_per_s {
        Some(rate) => format!("{} @ {}/s", cell.value_bytes, format::figure(Some(rate))),
        None => format!("{} x {}", cell.value_bytes, cell.records),
    };
    if let Some(why) = &cell.skipped {
        return vec![place.into(), format!("skipped: {why}").into()];
    }
    let cpu = |name: &str| {
        let quantity = Quantity::named("cpu_us_per_record");
        let figures = quantity.and_then(|it| view.driver(name)?.statistics(it));
        Field::from(format::number(figures.map(|it| it.median)))
    };
    let median = view.reference().and_then(|it| it.statistics(quantity));
    let median = unit.show(median.map(|it| it.median));
    let mut fields = vec![place.into(), median.into(), cpu(compared.first_name())];
    for other in &compared.others {
        let found = view.compare(quantity, &other.name);
        let ratio = found.and_then(|it| it.pairs);
        let ratio = ratio.map_or_else(|| format::NONE.into(), |it| ratio_field(&it));
        fields.extend([ratio, cpu(&other.name)]);
    }
    fields
}

fn ratio_field(ratio: &PairRatio) -> Field {
    let number = |value: f64| format::number(Some(value));
    let percent = number(ratio.percent);
    let Some((low, high)) = ratio.bounds else {
        return format!("{percent} ?").into();
    };
    let text = format!("{percent} [{}-{}]", number(low), number(high));
    match ratio.verdict() {
        RatioVerdict::FirstBetter => Field::with("strong", text),
        RatioVerdict::OtherBetter => text.into(),
        _ => Field::with("open", format!("{text} ~")),
    }
}

/// Writes the table; columns that do not fit go to further tables with the same first column.
fn tables(out: &mut String, table: &ReportTable, width: usize, color: bool) {
    let widths = table.widths();
    let mut from = 1;
    while from < widths.len() {
        let (mut columns, mut used) = (vec![0], INDENT.len() + widths[0]);
        // The two columns of a library stay together.
        for pair in (from..widths.len()).step_by(2) {
            let both = pair..widths.len().min(pair + 2);
            used += widths[both.clone()]
                .iter()
                .map(|width| width + 2)
                .sum::<usize>();
            if used > width && columns.len() > 1 {
                break;
            }
            columns.extend(both);
        }
        from += columns.len() - 1;
        out.push_str(&table.select(1, &columns).text(INDENT, width, color));
    }
}

const INDENT: &str = "  ";
