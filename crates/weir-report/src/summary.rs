//! The table of the first screen: every subject at one load, relative to the best.

use maud::{Markup, html};
use weir_stats::answer;
use weir_stats::run::{Cell, Repetitions, Run};

use crate::chart::slot;
use crate::format::{self, number};
use crate::table::{Field, ReportTable};
use crate::view::{self, Level, RowStatus, SubjectRow};

/// A table with its title.
pub(crate) struct Summary {
    pub(crate) title: String,
    pub(crate) table: ReportTable,
    pub(crate) caption: &'static str,
}

/// Returns the summary; `None` for experiments that begin with tables of their own.
pub(crate) fn summary(run: &Run, levels: &[Level<'_>]) -> Option<Summary> {
    if run.libraries.is_some() || run.find_max.is_some() {
        return None;
    }
    proxies(run).or_else(|| {
        // That of the answer, so that the two agree.
        let point = answer::load_point(run)?;
        let mut levels = levels.iter();
        let level = levels
            .find(|level| level.clients == point.clients && *level.parameters == point.parameters);
        let is_sweep = |level: &&Level<'_>| level.rows.iter().any(|row| row.name == "producer");
        Some(clients(run, level.filter(|level| !is_sweep(level))?))
    })
}

fn clients(run: &Run, level: &Level<'_>) -> Summary {
    let headings = "|relative|server cores|CPU per delivery|mean|p99|lost";
    let mut table = ReportTable::headed(1, headings);
    let cores = |row: &SubjectRow<'_>| view::server_cores(&row.repetitions());
    let known = || level.valid().filter_map(cores);
    let best = known().min_by(f64::total_cmp).filter(|best| *best > 0.0);
    let most = known().max_by(f64::total_cmp);
    let largest = best.zip(most).map_or(1.0, |(best, most)| most / best);
    for row in &level.rows {
        let figures = &row.figures;
        let fields = match &row.state {
            RowStatus::Valid => {
                let ratio = best.zip(cores(row)).map(|(best, own)| own / best);
                vec![
                    name(run, row),
                    relative(ratio, largest, slot(run, &row.name)),
                    number(cores(row)).into(),
                    format::maybe_duration_us(figures.cpu_us_delivering).into(),
                    format::maybe_duration_us(figures.mean_us).into(),
                    format::maybe_duration_us(figures.p99_us).into(),
                    format::maybe_count(figures.lost).into(),
                ]
            }
            RowStatus::Invalid(reasons) => {
                vec![name(run, row), reasons.join("; ").into()]
            }
            RowStatus::Skipped(reason) => vec![name(run, row), reason.into()],
        };
        table.row("", fields);
    }
    Summary {
        title: format!("Side by side at {}", level.label()),
        table,
        caption: "Relative: cores of all servers (the broker and what is between it and the \
                  clients), divided by those of the subject that needs the fewest. Latencies count \
                  from the due time of a record.",
    }
}

fn name(run: &Run, row: &SubjectRow<'_>) -> Field {
    let badge = match row.state {
        RowStatus::Valid => row.limit().map(|_| ("warn", "not sustained")),
        RowStatus::Invalid(_) => Some(("bad", "invalid")),
        RowStatus::Skipped(_) => Some(("", "skipped")),
    };
    Field {
        swatch: Some(slot(run, &row.name)),
        badge,
        ..Field::from(&row.name)
    }
}

/// Returns the subjects of a comparison of proxies at the maximum rate.
fn proxies(run: &Run) -> Option<Summary> {
    let groups = Repetitions::group(run.cells.iter().filter(|cell| cell.repetition > 0));
    let is_main = |cell: &Cell| cell.architecture == "produce" && cell.parameters.is_empty();
    let figure =
        |point: &Repetitions<'_>, name: &str| point.mean(|cell| cell.figures.get(name).copied());
    let rows: Vec<_> = groups.iter().filter(|it| is_main(it.cells[0])).collect();
    let rates = rows.iter().filter_map(|it| figure(it, "records_per_s"));
    let best = rates.max_by(f64::total_cmp).filter(|best| *best > 0.0)?;
    let headings = "|relative|records/s|proxy CPU, s/GB|proxy memory, MiB|repetitions";
    let mut table = ReportTable::headed(1, headings);
    for row in rows {
        let name = row.cells[0].variant.clone().unwrap_or_default();
        let class = slot(run, &row.cells[0].name());
        let rate = figure(row, "records_per_s");
        let own = Field {
            swatch: Some(class),
            ..Field::from(&name)
        };
        let fields = [
            own,
            relative(rate.map(|rate| rate / best), 1.0, class),
            number(rate).into(),
            number(figure(row, "cpu_s_per_gb")).into(),
            number(figure(row, "proxy_rss_mib")).into(),
            row.valid().count().to_string().into(),
        ];
        table.row("", fields);
    }
    Some(Summary {
        title: "Side by side, producing at the maximum rate".to_owned(),
        table,
        caption: "Relative: throughput divided by the highest. The relay only copies bytes, so \
                  the difference from it is the work of the proxy.",
    })
}

/// Returns a ratio with a bar, whose full width is the largest ratio of the table.
fn relative(ratio: Option<f64>, largest: f64, class: &'static str) -> Field {
    Field {
        drawing: ratio.map_or_else(Markup::default, |ratio| bar(ratio / largest, class)),
        ..Field::from(&format::factor(ratio))
    }
}

fn bar(share: f64, class: &'static str) -> Markup {
    const WIDTH: f64 = 160.0;
    let width = format!("{:.1}", (WIDTH * share.clamp(0.0, 1.0)).max(1.0));
    html! {
        svg.relative xmlns="http://www.w3.org/2000/svg" width=(WIDTH) height="12"
            viewBox={ "0 0 " (WIDTH) " 12" } role="img" aria-label="bar" {
            rect class={ "fill " (class) } x="0" y="1" width=(width) height="10" rx="2" {}
        } " "
    }
}
