//! The table of the first screen: every subject at one load, relative to the best.

use maud::{Markup, html};
use weir_stats::answer::{self, AnswerBasis};
use weir_stats::libraries::{Quantity, relative_medians};
use weir_stats::run::{Cell, Derived, FindMax, Repetitions, Run};

use crate::chart::slot;
use crate::chart::sweep::words;
use crate::format::{self, number};
use crate::grid::rate_grid;
use crate::libraries::{Group, LibraryReport};
use crate::proxies::{self, figure};
use crate::table::{Field, ReportTable};
use crate::view::{self, Level, RowStatus, SubjectRow};

/// A table with its title.
pub(crate) struct Summary {
    pub(crate) title: String,
    pub(crate) table: ReportTable,
    pub(crate) caption: &'static str,
}

/// Returns the summary; `None` without results.
pub(crate) fn summary(run: &Run, levels: &[Level<'_>]) -> Option<Summary> {
    if let Some(found) = &run.find_max {
        return search(run, found);
    }
    if let Some(compared) = LibraryReport::of(run) {
        return libraries(&compared);
    }
    let known = subjects(run).or_else(|| sweep(run));
    let known = known.or_else(|| grid(run, levels));
    known.or_else(|| loads(run, levels)).or_else(|| {
        // That of the answer, so that the two agree; without a sustained load the lowest one.
        let point = answer::load_point(run);
        let is_answer = |level: &&Level<'_>| match point {
            Some(at) => level.clients == at.clients && *level.parameters == at.parameters,
            None => level.valid().next().is_some(),
        };
        let level = levels.iter().find(is_answer);
        let is_sweep = |level: &&Level<'_>| level.rows.iter().any(|row| row.name == "producer");
        Some(clients(run, level.filter(|level| !is_sweep(level))?))
    })
}

/// Returns the grid of a run with a single subject over clients and rates.
fn grid(run: &Run, levels: &[Level<'_>]) -> Option<Summary> {
    let subjects = view::subjects(run);
    let name = subjects.first().filter(|_| subjects.len() == 1)?;
    let (unit, table) = rate_grid(name, levels)?;
    Some(Summary {
        title: format!(
            "Mean response of {name}, {} (standard deviation)",
            unit.name()
        ),
        table,
        caption: "By clients and records per second. ✓: sustained. ✗: not sustained. Not run: a \
                  smaller load was not sustained, or this one exceeds the machine’s capacity.",
    })
}

/// Returns all loads of a run with a single subject, relative to the highest sustained one.
fn loads(run: &Run, levels: &[Level<'_>]) -> Option<Summary> {
    let is_single = levels.len() > 1 && view::subjects(run).len() == 1;
    let rows = || {
        levels
            .iter()
            .flat_map(|level| level.rows.iter().map(move |row| (level, row)))
    };
    let per_s = |row: &SubjectRow<'_>| row.figures.delivered_per_s;
    let sustained = rows().filter(|(_, row)| row.repetitions().is_sustained());
    let most = sustained
        .filter_map(|(_, row)| per_s(row))
        .max_by(f64::total_cmp);
    let most = most.filter(|most| is_single && *most > 0.0)?;
    let largest = rows()
        .filter_map(|(_, row)| per_s(row))
        .fold(most, f64::max)
        / most;
    let headings = "load|relative|deliveries/s|server cores|CPU per delivery|mean|p99|lost";
    let mut table = ReportTable::headed(1, headings);
    for (level, row) in rows() {
        let figures = &row.figures;
        let own = Field {
            text: level.label(),
            ..name(run, row)
        };
        let fields = match &row.state {
            RowStatus::Valid => {
                let ratio = per_s(row).map(|per_s| per_s / most);
                let mut fields = vec![own, relative(ratio, largest, slot(run, &row.name))];
                fields.push(number(per_s(row)).into());
                fields.extend(measured(row));
                fields.push(format::maybe_count(figures.lost).into());
                fields
            }
            RowStatus::Invalid(reasons) => vec![own, reasons.join("; ").into()],
            RowStatus::Skipped(reason) => vec![own, reason.into()],
        };
        table.row("", fields);
    }
    Some(Summary {
        title: format!("Loads of {}", view::subjects(run).remove(0)),
        table,
        caption: "Relative: deliveries per second divided by those of the highest sustained load; \
                  higher is better. Latencies count from the due time of a record.",
    })
}

/// Returns server cores, CPU time, mean and p99.
fn measured(row: &SubjectRow<'_>) -> [Field; 4] {
    let figures = &row.figures;
    [
        number(view::server_cores(&row.repetitions())).into(),
        format::maybe_duration_us(figures.cpu_us_delivering).into(),
        format::maybe_duration_us(figures.mean_us).into(),
        format::maybe_duration_us(figures.p99_us).into(),
    ]
}

fn clients(run: &Run, level: &Level<'_>) -> Summary {
    let headings = "|relative|server cores|CPU per delivery|mean|p99|lost";
    let mut table = ReportTable::headed(1, headings);
    let basis = answer::basis(run);
    let value = |row: &SubjectRow<'_>| match basis {
        AnswerBasis::ServerCores => view::server_cores(&row.repetitions()),
        AnswerBasis::CpuPerDelivery => row.figures.cpu_us_delivering,
        AnswerBasis::ResponseTime => row.figures.mean_us,
    };
    let known = || level.valid().filter_map(value);
    let best = known().min_by(f64::total_cmp).filter(|best| *best > 0.0);
    let most = known().max_by(f64::total_cmp);
    let largest = best.zip(most).map_or(1.0, |(best, most)| most / best);
    let mut rows: Vec<&SubjectRow<'_>> = level.rows.iter().collect();
    let order = |row: &SubjectRow<'_>| match row.state {
        RowStatus::Valid => value(row).unwrap_or(f64::MAX),
        _ => f64::INFINITY,
    };
    rows.sort_by(|a, b| order(a).total_cmp(&order(b)));
    for row in rows {
        let fields = match &row.state {
            RowStatus::Valid => {
                let ratio = best.zip(value(row)).map(|(best, own)| own / best);
                let mut fields = vec![name(run, row)];
                fields.push(relative(ratio, largest, slot(run, &row.name)));
                fields.extend(measured(row));
                fields.push(format::maybe_count(row.figures.lost).into());
                fields
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
        caption: match basis {
            AnswerBasis::ServerCores => {
                "Relative: cores of all servers (the broker and what is between it and the \
                 clients), divided by those of the subject that needs the fewest; lower is better. \
                 Latencies count from the due time of a record."
            }
            AnswerBasis::CpuPerDelivery => {
                "Relative: CPU per delivery of the process that delivers, divided by the lowest; \
                 lower is better. Server cores include the broker. Latencies count from the due \
                 time of a record."
            }
            AnswerBasis::ResponseTime => {
                "Relative: mean divided by the lowest; lower is better. Latencies count from the \
                 due time of a record."
            }
        },
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
fn subjects(run: &Run) -> Option<Summary> {
    let rows = proxies::at_maximum_rate(run);
    let rates = rows.iter().filter_map(|it| figure(it, proxies::RATE));
    let best = rates.max_by(f64::total_cmp).filter(|best| *best > 0.0)?;
    let headings = "|relative|records/s|proxy CPU, s/GB|proxy memory, MiB|repetitions";
    let mut table = ReportTable::headed(1, headings);
    for row in &rows {
        let name = row.cells[0].variant.clone().unwrap_or_default();
        let class = slot(run, &row.cells[0].name());
        let rate = figure(row, proxies::RATE);
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
        caption: match answer::noise_floor(run) {
            None if proxies::has_other_rounds(run) => {
                "Relative: throughput divided by the highest; higher is better. Values are those \
                 of the repetitions that all subjects have; the sentence above compares two of \
                 them in more. The relay only copies bytes, so the difference from it is the work \
                 of the proxy."
            }
            None => {
                "Relative: throughput divided by the highest; higher is better. The relay only \
                 copies bytes, so the difference from it is the work of the proxy."
            }
            Some(_) => {
                "Relative: throughput divided by the highest; higher is better. The subjects are \
                 identical, so the difference is noise."
            }
        },
    })
}

/// Returns the knee of each record size of a broker sweep.
fn sweep(run: &Run) -> Option<Summary> {
    let size = |it: &Derived| -> Option<u64> { it.of.split(' ').nth(1)?.parse().ok() };
    let knees = run.derived.iter().filter(|it| it.name.starts_with("knee"));
    let knees: Vec<(u64, &Derived)> = knees.filter_map(|it| Some((size(it)?, it))).collect();
    let rates = knees.iter().filter_map(|(_, it)| it.value);
    let most = rates.max_by(f64::total_cmp).filter(|most| *most > 0.0)?;
    let headings = "record size|relative|records/s|data, MiB/s|mean acknowledgement";
    let mut table = ReportTable::headed(1, headings);
    for (bytes, knee) in knees {
        let cells = run.cells.iter().filter(|cell| {
            let at = |name: &str| cell.parameters.get(name).copied();
            let is_size = at("record_size_bytes") == Some(bytes as f64);
            cell.architecture == "producer" && is_size && at("target_per_s") == knee.value
        });
        let cells = Repetitions {
            cells: cells.collect(),
        };
        let latency_us = figure(&cells, "latency_mean_ms").map(|ms| ms * 1e3);
        let is_last = knee.name != "knee" && knee.value.is_some();
        let prefix = if is_last { "≥ " } else { "" };
        let fields: [Field; 5] = [
            format::binary_bytes(bytes as f64).into(),
            relative(knee.value.map(|rate| rate / most), 1.0, "a1"),
            format!("{prefix}{}", format::figure(knee.value)).into(),
            number(figure(&cells, "mib_per_s")).into(),
            format::maybe_duration_us(latency_us).into(),
        ];
        table.row("", fields);
    }
    Some(Summary {
        title: "Highest rate before latency rises, by record size".to_owned(),
        table,
        caption: "Relative: rate divided by the highest; higher is better. ≥: the highest rate \
                  tested, so the limit is above it.",
    })
}

/// Returns the loads of a search, relative to its result.
fn search(run: &Run, found: &FindMax) -> Option<Summary> {
    let sustained = found
        .steps
        .iter()
        .filter(|step| step.sustained == Some(true));
    let most = sustained.map(|step| step.value).max_by(f64::total_cmp)?;
    let values = found.steps.iter().map(|step| step.value);
    let largest = values.max_by(f64::total_cmp)? / most;
    let load = words(&found.variable);
    let headings = format!("{load}|relative|sustained|mean|p99|server cores|saturated");
    let mut table = ReportTable::headed(1, &headings).text_from(6);
    for step in &found.steps {
        let cell = run.cells.iter().find(|cell| cell.id() == step.cell);
        let (class, color, result) = match step.sustained {
            Some(true) => ("", "a1", "✓ yes"),
            Some(false) => ("", "a2", "✗ no"),
            None => ("invalid", "a0", "not measured"),
        };
        let summary = cell.and_then(Cell::response);
        let cores = cell.and_then(|cell| cell.of_servers(|usage| usage.cpu_cores_mean));
        let fields = [
            format::figure(Some(step.value)).into(),
            relative(Some(step.value / most), largest, color),
            result.into(),
            format::maybe_duration_us(summary.and_then(|it| it.mean_us)).into(),
            format::maybe_duration_us(summary.and_then(|it| it.p99_us)).into(),
            number(cores).into(),
            step.saturated_role
                .as_deref()
                .unwrap_or_default()
                .replace('_', " ")
                .into(),
        ];
        table.row(class, fields);
    }
    Some(Summary {
        title: "Loads tested".to_owned(),
        table,
        caption: "Relative: load divided by the highest sustained one. Latencies count from the \
                  due time of a record.",
    })
}

/// Returns the times of client libraries by operation, relative to the fastest.
fn libraries(compared: &LibraryReport<'_>) -> Option<Summary> {
    let titles: Vec<String> = compared.groups.iter().map(Group::title).collect();
    let headings: Vec<&str> = ["library", "relative CPU time"]
        .into_iter()
        .chain(titles.iter().map(String::as_str))
        .collect();
    let mut table = ReportTable::new(1, headings);
    let names: Vec<&str> = compared.all().map(|it| it.name.as_str()).collect();
    let cells = || compared.groups.iter().flat_map(|group| &group.cells);
    let cpu = Quantity::named("cpu_us_per_record")?;
    let cpu = relative_medians(&names, cells().map(|cell| (cell, cpu)));
    let largest = cpu.iter().flatten().copied().fold(1.0, f64::max);
    let columns: Vec<Vec<Option<f64>>> = compared
        .groups
        .iter()
        .map(|group| {
            let cells = group.cells.iter().map(|cell| (cell, group.headline()));
            relative_medians(&names, cells)
        })
        .collect();
    for (index, name) in names.iter().enumerate() {
        let class = compared.slot(name);
        let own = Field {
            swatch: Some(class),
            ..Field::from(name)
        };
        let fields = [own, relative(cpu[index], largest, class)];
        let others = columns
            .iter()
            .map(|column| format::factor(column[index]).into());
        table.row("", fields.into_iter().chain(others));
    }
    (!table.is_empty()).then_some(Summary {
        title: "Side by side: time relative to the fastest library".to_owned(),
        table,
        caption: "Geometric means over the cells that all libraries measured, of the medians of \
                  their repetitions, divided by those of the best library; lower is better. The \
                  sections below say which differences are more than chance.",
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
