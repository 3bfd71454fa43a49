//! The last sections of the page: resource usage by process role, configuration, raw values.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use weir_stats::run::{Cell, CellStatus, LatencySummary, RoleUsage, Run};

use super::element::HtmlTable;
use crate::escape::Markup;
use crate::format::{self, TimeUnit};
use crate::view;

/// Writes the resource usage of every process role in every cell, including clients and generator.
pub(crate) fn parts(out: &mut String, run: &Run) {
    if run.cells.iter().all(|cell| cell.roles.is_empty()) {
        return;
    }
    out.push_str("<section id=\"parts\">\n<h2>Resource usage by process role</h2>\n");
    let headings = [
        "Cell",
        "role",
        "cores",
        "CPU µs/rec",
        "start MB",
        "max MB",
        "kB/client",
        "threads",
        "busiest",
        "waits",
        "preemptions",
        "received MB",
        "sent MB",
    ];
    let mut table = HtmlTable::new(2, &headings);
    for cell in view::cells(run) {
        for (index, usage) in cell.roles.iter().enumerate() {
            let limiting = cell.saturated_role.as_ref() == Some(&usage.role);
            // Only the first row of a cell has its name, so that its roles form a block.
            let (name, block) = if index == 0 {
                (cell.id(), "")
            } else {
                (String::new(), "cont")
            };
            let class = if limiting {
                format!("{block} marked")
            } else {
                block.to_owned()
            };
            table.row(class.trim(), &part(name, usage));
        }
    }
    table.finish(out);
    let _ = writeln!(
        out,
        concat!(
            "<p class=\"caption\">Sampled during the measured window, including load ",
            "generator and clients. <b>Waits</b> and <b>preemptions</b> are context switches. A ",
            "marked row is the process role that limited its cell.{}</p>\n</section>"
        ),
        Markup(&network_sources(run))
    );
}

fn part(name: String, usage: &RoleUsage) -> [String; 13] {
    let role = match usage.processes {
        0 | 1 => usage.role.clone(),
        more => format!("{} × {more}", usage.role),
    };
    [
        name,
        role,
        format::number(usage.cpu_cores_mean),
        format::number(usage.cpu_us_per_delivered),
        format::megabytes(usage.rss_start_bytes),
        format::megabytes(usage.rss_max_bytes),
        format::kilobytes(usage.user_memory_per_client_bytes),
        format::maybe_count(usage.threads_max),
        busiest(usage),
        format::maybe_count(usage.context_switches_voluntary),
        format::maybe_count(usage.context_switches_involuntary),
        format::megabytes(usage.network_rx_bytes),
        format::megabytes(usage.network_tx_bytes),
    ]
}

/// Returns the busiest thread and its share of a core.
fn busiest(usage: &RoleUsage) -> String {
    match (&usage.busiest_thread, usage.busiest_thread_cores) {
        (Some(name), Some(cores)) => format!("{name} {:.0} %", cores * 100.0),
        _ => format::NONE.to_owned(),
    }
}

/// Returns how network bytes were measured: once if it is the same for all roles, else by role.
fn network_sources(run: &Run) -> String {
    let mut roles_by_source: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for usage in run.cells.iter().flat_map(|cell| &cell.roles) {
        if !usage.network_source.is_empty() {
            roles_by_source
                .entry(&usage.network_source)
                .or_default()
                .insert(&usage.role);
        }
    }
    let single = roles_by_source.len() == 1;
    let texts: Vec<String> = roles_by_source
        .into_iter()
        .map(|(source, roles)| {
            let roles = roles.into_iter().collect::<Vec<_>>().join(", ");
            if single {
                source.to_owned()
            } else {
                format!("{roles} {source}")
            }
        })
        .collect();
    if texts.is_empty() {
        String::new()
    } else {
        format!(" Network: {}.", texts.join("; "))
    }
}

/// Writes everything needed to repeat the run.
pub(crate) fn configuration(out: &mut String, run: &Run) {
    out.push_str("<section id=\"configuration\">\n<h2>Configuration</h2>\n");
    let _ = writeln!(out, "<pre><code>{}</code></pre>", Markup(&command(run)));
    out.push_str("<div class=\"grid2 settings\">\n");
    let machine = &run.machine;
    let place = [
        ("processor".to_owned(), machine.cpu_model.clone()),
        ("cores".to_owned(), machine.cpu_cores.to_string()),
        (
            "memory".to_owned(),
            format::bytes(machine.memory_bytes as f64),
        ),
        ("system".to_owned(), machine.os.clone()),
        ("kernel".to_owned(), machine.kernel.clone()),
    ];
    list(out, "machine", &place);
    let parts: Vec<(String, String)> = run
        .placement
        .iter()
        .map(|place| {
            let text = format!("{} × on {}", place.processes, place.host);
            let text = if place.description.is_empty() {
                text
            } else {
                format!("{text}, {}", place.description)
            };
            (place.role.clone(), text)
        })
        .collect();
    list(out, "placement", &parts);
    let mut versions = vec![("weir".to_owned(), run.weir_version.clone())];
    versions.extend(run.versions.clone());
    list(out, "versions", &versions);
    for group in &run.settings {
        let pairs: Vec<(String, String)> = group
            .settings
            .iter()
            .map(|setting| (setting.name.clone(), setting.value.clone()))
            .collect();
        list(out, &group.part, &pairs);
    }
    let files: Vec<(String, String)> = run
        .files
        .iter()
        .map(|file| (file.path.clone(), file.description.clone()))
        .collect();
    list(out, "files of the run directory", &files);
    out.push_str("</div>\n</section>\n");
}

fn command(run: &Run) -> String {
    let quoted = run.command_line.iter().map(|word| {
        if word.is_empty()
            || word.contains(|c: char| c.is_whitespace() || "'\"$`\\&|;<>".contains(c))
        {
            format!("'{}'", word.replace('\'', r"'\''"))
        } else {
            word.clone()
        }
    });
    quoted.collect::<Vec<_>>().join(" ")
}

fn list(out: &mut String, name: &str, pairs: &[(String, String)]) {
    if pairs.is_empty() {
        return;
    }
    let _ = writeln!(out, "<div class=\"group\"><h3>{}</h3><dl>", Markup(name));
    for (key, value) in pairs {
        let _ = writeln!(out, "<dt>{}</dt><dd>{}</dd>", Markup(key), Markup(value));
    }
    out.push_str("</dl></div>\n");
}

/// Writes the values of every repetition, all stages.
pub(crate) fn raw(out: &mut String, run: &Run) {
    out.push_str("<section id=\"raw\">\n<h2>Latency by repetition</h2>\n");
    let all = || run.cells.iter().flat_map(|cell| cell.latency.values());
    let unit = TimeUnit::for_values_us(all().filter_map(|summary| summary.p50_us));
    let headings = [
        "Cell", "stage", "values", "mean", "sd", "min", "p50", "p90", "p95", "p99", "p99.9",
        "p99.99", "max", "negative",
    ];
    let mut table = HtmlTable::new(2, &headings);
    for cell in view::cells(run) {
        let class = if cell.is_valid() { "" } else { "invalid" };
        for (stage, summary) in &cell.latency {
            table.row(class, &values(cell, stage, summary, unit));
        }
    }
    table.finish(out);
    let _ = writeln!(
        out,
        concat!(
            "<p class=\"caption\">Latencies in {}. <b>response</b>: due time to receipt. ",
            "<b>service</b>: send to receipt. <b>schedule_lag</b>: due time to send. ",
            "<b>publish_ack</b>: send to the broker’s acknowledgement. A percentile needs ",
            "enough samples: 299 for p99, 2,995 for p99.9, 29,956 for p99.99.{}</p>"
        ),
        unit.name(),
        resolution(run)
    );
    remarks(out, run);
    out.push_str("</section>\n");
}

fn values(cell: &Cell, stage: &str, summary: &LatencySummary, unit: TimeUnit) -> Vec<String> {
    let mut fields = vec![cell.id(), stage.to_owned(), format::count(summary.count)];
    let times_us = [
        summary.mean_us,
        summary.stddev_us,
        summary.min_us,
        summary.p50_us,
        summary.p90_us,
        summary.p95_us,
        summary.p99_us,
        summary.p999_us,
        summary.p9999_us,
        summary.max_us,
    ];
    fields.extend(times_us.map(|value_us| unit.show(value_us)));
    fields.push(format::count(summary.negative_count));
    fields
}

fn resolution(run: &Run) -> String {
    let coarsest_us = run
        .cells
        .iter()
        .filter_map(|cell| cell.response())
        .map(|summary| summary.resolution_us)
        .fold(0.0, f64::max);
    if coarsest_us < 1.0 {
        return String::new();
    }
    format!(
        " Timestamp resolution: {}.",
        format::duration_us(coarsest_us)
    )
}

fn remarks(out: &mut String, run: &Run) {
    let mut items = String::new();
    for cell in &run.cells {
        let reasons: Vec<&String> = match &cell.status {
            CellStatus::Valid => Vec::new(),
            CellStatus::Invalid { reasons } => reasons.iter().collect(),
            CellStatus::Skipped { reason } => vec![reason],
        };
        for text in reasons.into_iter().chain(&cell.notes) {
            let _ = write!(
                items,
                "<li><b>{}</b> {}</li>",
                Markup(&cell.id()),
                Markup(text)
            );
        }
    }
    if !items.is_empty() {
        let _ = writeln!(out, "<ul class=\"remarks note\">{items}</ul>");
    }
}
